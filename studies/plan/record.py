"""A plan as JSON and as a folder (``docs/plan.md``)."""

from __future__ import annotations

from typing import Any, ClassVar

from ...dse.npu.design import DESIGN_FOLDER, tabulate_design
from ...dse.npu.latency import tabulate_latency
from ...dse.npu.search import search
from ...formats import AnyPath, OwnFolder, Table, table_text
from ...serving.networks import stated_for
from ...tables.files import DESIGN_FILE, FBCB_FILE, LATENCY_FILE, PARTITION_FILE
from ...traffic.samples import samples_bytes
from .exits import ExitSetting
from .problem import PlanProblem
from .rates import PlanAnswer
from .runs import FreshFigures
from .search import Plan
from .sources import BoardSource, TableSource

PLAN_FILE, SAMPLES_FILE = "plan.json", "samples.npz"
PLAN_FOLDER = OwnFolder("a plan", PLAN_FILE, {*DESIGN_FOLDER.own, PARTITION_FILE, PLAN_FILE, SAMPLES_FILE})


class PlanTable(Table):
    """A plan as a file, ``fluidb.plan/1`` (``docs/file-formats.md``)."""

    schema_name: ClassVar[str] = "fluidb.plan/1"
    made_by: ClassVar[str] = "fluidb plan"

    plan: dict[str, Any]  # as ``fluidb plan --json`` prints it (:func:`plan_record`)


def figures_record(problem: PlanProblem, fresh: FreshFigures) -> dict[str, Any]:
    """Figures on the fresh seeds, and whether each requirement is kept; null where the interval holds the bound."""
    figures = {name: estimate.model_dump(mode="json", exclude={"seeds"}) for name, estimate in fresh.figures.items()}
    kept = {
        requirement.text: verdict for requirement, verdict in zip(problem.requirements, fresh.verdicts, strict=True)
    }
    return {"figures": figures, "kept": kept}


def plan_record(problem: PlanProblem, plan: Plan) -> dict[str, Any]:
    """A plan with its figures, as JSON."""
    numbers = plan.numbers
    source, setting = problem.sources[numbers.source], problem.settings[numbers.setting]
    exits = setting.shown(problem.network.exits)
    measure, taken, tile = problem.traffic.measure, source.board_use(numbers.row), source.tile(numbers.row)
    return {
        "rate_per_s": problem.traffic.rate_per_s,
        "platform": source.name,
        **(tile.by_name if tile else {}),
        "dsps": int(source.dsps[numbers.row]) if tile else None,
        "devices": int(source.dsps[numbers.row]) if source.counted == "devices" else None,
        "dsp_share": float(source.share[numbers.row]) if tile else None,
        "lut_share": taken and taken.lut_share,
        "flip_flop_share": taken and taken.flip_flop_share,
        "exits": [name for name, _ in exits],
        "thresholds": tuple(at for _, at in exits) if any(problem.traffic.measures) else None,
        "measure": measure and measure.name,
        **stated_for(problem.traffic.names, {"networks": _of_each(problem, setting)}),
        "policy": problem.policies[numbers.policy].spec,
        **figures_record(problem, plan.fresh),
    }


def _of_each(problem: PlanProblem, setting: ExitSetting) -> list[dict[str, Any]]:
    """The exits of each network that has a name, as JSON; thresholds are null where its rates say who leaves."""
    each = zip(problem.traffic.names, problem.networks, setting.of_each, problem.traffic.measures, strict=False)
    return [
        {
            "name": name,
            "exits": [exit_ for exit_, _ in part.shown(network.exits)],
            "thresholds": None if measure is None else part.thresholds,
            "measure": measure and measure.name,
        }
        for name, network, part, measure in each
    ]


def write_plan(folder: AnyPath, answer: PlanAnswer, *, replace: bool = False) -> None:
    """Write the first plan with its design and tables into a folder of its own, whole or not at all."""
    problem, plan = answer.front[0].search.problem, answer.front[0].plan
    numbers, (samples,) = plan.numbers, problem.traffic.samples_of
    source, setting = problem.sources[numbers.source], problem.settings[numbers.setting]
    files: dict[str, str | bytes] = {}
    if isinstance(source, BoardSource):
        exits = setting.exits(source.network.exits, problem.traffic.measure)
        network = source.network.keep_exits(setting.kept, exits)
        options = source.options.model_copy(update={"tile": source.tile(numbers.row)})
        result = search(network, source.board, options)
        design, fbcb = tabulate_design(network, source.board, options, result)
        latency = source.labelled(tabulate_latency(design, fbcb))
        files |= {DESIGN_FILE: table_text(design), FBCB_FILE: table_text(fbcb)}
    else:
        (latency,) = problem.tables(source.tables(numbers.row), numbers.setting)
        if isinstance(source, TableSource) and source.partition is not None:
            files[PARTITION_FILE] = table_text(source.partition)
        else:
            latency = latency.derived_from()  # what the table was made from is not in this folder
    table = PlanTable(plan=plan_record(problem, plan)).derived_from(latency)
    files |= {LATENCY_FILE: table_text(latency), PLAN_FILE: table_text(table)}
    if samples is not None:
        files[SAMPLES_FILE] = samples_bytes(samples.at_exits(setting.kept, [1] * len(setting.kept)))
    PLAN_FOLDER.write(folder, files, replace=replace)
