"""The answer of `fluidb plan`, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..design.problem import not_judged
from ..options import clients_record, objective_record
from ..render import facts, folded_table, percent, quantity, table

if TYPE_CHECKING:
    from ...studies.estimates import Estimate
    from ...studies.plan.problem import PlanProblem
    from ...studies.plan.rates import PlanAnswer
    from ...studies.plan.runs import FreshFigures
    from ...studies.plan.scenario import PlanScenario
    from ...studies.plan.search import Plan, Plans
    from ...studies.plan.sources import Source
    from ...studies.plan.steps import PlanStep

_RULES = {
    "accuracy": "not accurate enough",
    "latency of one sample": "too slow for one sample",
    "utilisation": "too slow for the rate",
    "no policy can save it": "that no policy can save",
    "cost": "no better than a cheaper one",
    "simulated in part": "simulated until they failed",
    "simulated": "simulated whole",
}
"""What is said of the plans that each rule discarded, and of those that were simulated."""


def answer_record(answer: PlanAnswer, scenario: PlanScenario) -> dict[str, Any]:
    """The question and the answer as JSON."""
    from ...studies.plan.record import figures_record, plan_record

    first = answer.searches[0]
    problem = first.problem
    return {
        "network": problem.network.name,
        "platforms": [source.name for source in problem.sources],
        "trace": scenario.trace,
        **clients_record(scenario.clients, scenario.think),
        "samples": scenario.samples,
        **objective_record(scenario.slo),
        "requirements": [requirement.text for requirement in problem.requirements],
        "policies": [policy.spec for policy in problem.policies],
        "minimised": first.minimised,
        "over_p99": first.over_p99,
        "front": [plan_record(member.search.problem, member.plan) for member in answer.front],
        "steps": [{"change": step.change, **figures_record(problem, step.fresh)} for step in answer.steps],
        "searches": [_search_record(search) for search in answer.searches],
    }


def _search_record(search: Plans) -> dict[str, Any]:
    from ...studies.plan.record import plan_record

    return {
        "rate_per_s": search.problem.traffic.rate_per_s,
        "counts": search.counts,
        "refuted": search.refuted,
        "least_cost": search.least_cost,
        "nearest": search.nearest and plan_record(search.problem, search.nearest),
        "undecided": search.undecided and plan_record(search.problem, search.undecided),
    }


def answer_text(answer: PlanAnswer) -> Iterator[str]:
    """The recommended plan, the front, and what one step of each resource changes."""
    best = answer.front[0]
    problem, by_rate = best.search.problem, len(answer.searches) > 1
    figures = _figures(best.search)
    headings = [_of_figure(name)[0] for name in figures]
    yield facts(_about(best.search, best.plan, answer.steps) | {"searched": "; ".join(map(_searched, answer.searches))})
    rows = [
        (
            *([_rate(member.search.problem)] if by_rate else []),
            *_where(problem, member.plan),
            *_shown(figures, member.plan.fresh),
        )
        for member in answer.front
    ]
    yield folded_table(
        [*(["rate"] if by_rate else []), _counted(problem), "hardware", "exits", "policy", *headings], rows, "--json"
    )
    changes = [(step.change, _kept(problem, step.fresh), *_shown(figures, step.fresh)) for step in answer.steps]
    if changes:
        yield table(["the recommended plan with", "", *headings], changes)


def _rate(problem: PlanProblem) -> str | None:
    rate_per_s = problem.traffic.rate_per_s
    return None if rate_per_s is None else f"{rate_per_s:.4g} /s"


def _about(search: Plans, plan: Plan, steps: Sequence[PlanStep]) -> dict[str, str | None]:
    """The recommended plan, and the requirement that fails first if there is less of anything."""
    problem, numbers = search.problem, plan.numbers
    source, setting = problem.sources[numbers.source], problem.settings[numbers.setting]
    design, tile = None, source.tile(numbers.row)
    if tile:
        taken = f"{source.dsps[numbers.row]:,} DSPs, {percent(float(source.share[numbers.row]), 1)} of the board's"
        design = f"{tile.names} = {tile}: {taken}"
    left = not_judged(source.unjudged)
    failed = [step.fresh.verdicts.index(False) for step in steps if False in step.fresh.verdicts]
    first = problem.requirements[failed[0]] if failed else None
    clients = problem.traffic.clients
    return {
        "rate": _rate(problem),
        "clients": None if clients is None else f"{clients.count:,}",
        "hardware": f"{source.name}{f'; not judged: {left}' if left else ''}",
        "design": design,
        "its logic": _logic(source, numbers.row),
        "exits": setting.text(problem.network.exits),
        "policy": problem.policies[numbers.policy].spec,
        "cost": _given(problem, plan, search.minimised),
        "binds": None if first is None else f"{first.text}: {_interval(first.unit, plan.fresh.figures[first.figure])}",
        "bound": _bound(search, plan),
        "error of times": source.table(numbers.row, causes=False).unknown_error,
        "undecided": _undecided(search, plan),
    }


def _logic(source: Source, row: int) -> str | None:
    """Look-up tables and flip-flops of a design, where they are counted."""
    taken = source.board_use(row)
    if taken is None:
        return None
    counted = {
        f"{taken.total_luts:,} LUTs": taken.lut_share,
        f"{taken.total_flip_flops:,} flip-flops": taken.flip_flop_share,
    }
    return "; ".join(f"{text}, {percent(share, 1)}" for text, share in counted.items() if share is not None) or None


def _bound(search: Plans, plan: Plan) -> str | None:
    """What every plan that keeps the requirements costs at least, if anything is known to cost less than this one."""
    least = search.least_cost
    if not least:
        return None
    counted = list(dict.fromkeys(source.counted for source in search.problem.sources if any(source.dsps)))
    units = " or ".join(counted if least > 1 else map(_of_one, counted))
    wholes = " or ".join({"devices": "a cluster's devices"}.get(unit, "a board's DSPs") for unit in counted)
    shown = {"dsps": f"{least:,.0f} {units}", "share": f"{percent(least, 1)} of {wholes}"}
    text = shown.get(search.minimised) or quantity(least, "J")
    traffic = search.problem.traffic
    sampled = any(samples is not None for samples in traffic.samples_of)
    stated = traffic.trace is not None and not sampled
    proved = "" if stated else f"; proved for the requests of seed {traffic.seed}"
    no_plan = _no_plan(search.problem)
    if math.isclose(least, plan.cost):
        return f"{text}: {no_plan} can cost less{proved}"
    return f"{no_plan} can cost less than {text}, which is {percent(1 - least / plan.cost, 1)} less{proved}"


def _no_plan(problem: PlanProblem) -> str:
    """What a sentence about all plans is about: thresholds between the given ones are not tried."""
    exits = len(problem.network.exits) - 1
    tried = exits and any(samples is not None for samples in problem.traffic.samples_of)
    return "no plan" + (" with the thresholds that were tried" if tried else "")


def _undecided(search: Plans, plan: Plan) -> str | None:
    """The cheapest plan that may keep the requirements, if it costs less than one that surely does."""
    cheaper = search.undecided
    if cheaper is None or cheaper.cost >= plan.cost:
        return None
    problem = search.problem
    requirement = problem.requirements[cheaper.fresh.verdicts.index(None)]
    _, hardware, exits, policy = _where(problem, cheaper)
    cost = _amount(problem.sources[cheaper.numbers.source], cheaper.numbers.row)
    where = ", ".join(filter(None, [cost, hardware, f"exits {exits}", f"policy {policy}"]))
    value = _interval(requirement.unit, cheaper.fresh.figures[requirement.figure])
    return f"{where}: {requirement.text}: {value}; {_more(search, cheaper)}"


def _given(problem: PlanProblem, plan: Plan, minimised: str) -> str | None:
    """Why hardware that is given, or a cluster, is cheaper than every board."""
    counted = problem.sources[plan.numbers.source].counted
    if (
        minimised == "energy"
        or counted in ("DSPs", "multipliers")
        or all(source.counted == counted for source in problem.sources)
    ):
        return None
    if counted == "nothing":
        return "nothing, because this hardware is given; no board can be cheaper: to compare boards, leave it out"
    return "each of its devices counts as one DSP; to compare boards, leave it out"


def _interval(unit: str, estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return quantity(estimate.mean, unit)
    return f"{quantity(estimate.mean, unit)}, {quantity(estimate.low, unit)} to {quantity(estimate.high, unit)} at 95 %"


def _where(problem: PlanProblem, plan: Plan) -> tuple[str, str, str, str]:
    numbers = plan.numbers
    source, setting = problem.sources[numbers.source], problem.settings[numbers.setting]
    tile, taken = source.tile(numbers.row), int(source.dsps[numbers.row])
    alike = source.counted == _counted(problem) and taken
    cost = f"{taken:,}" if alike else _amount(source, numbers.row)
    return (
        cost,
        source.name + (f" {tile}" if tile else ""),
        setting.text(problem.network.exits),
        problem.policies[numbers.policy].spec,
    )


def _counted(problem: PlanProblem) -> str:
    """What the column of costs counts, where a cell says nothing else."""
    counted = {source.counted for source in problem.sources}
    return next((unit for unit in ("DSPs", "multipliers", "devices") if unit in counted), "DSPs")


def _amount(source: Source, row: int) -> str:
    """What hardware costs; nothing where it is given."""
    taken = int(source.dsps[row])
    return f"{taken:,} {_of_one(source.counted) if taken == 1 else source.counted}" if taken else ""


def _of_one(unit: str) -> str:
    return unit.removesuffix("s")


def _figures(search: Plans) -> list[str]:
    """The figures of the tables: the usual ones, what is minimised, and those that are required."""
    from ...serving.requirements import figure_text

    problem = search.problem
    drops = any(fate.drops for fate in problem.by_fate())
    right = "accuracy_of_all" if drops else "accuracy"
    names: list[str | None] = [*problem.traffic.names] or [None]
    each = zip(names, problem.traffic.samples_of, strict=True)
    known = [figure_text(right, network) for network, samples in each if samples is not None]
    known += ["served_accuracy"] if any(source.accuracy is not None for source in problem.sources) else []
    known += ["energy"] if search.minimised == "energy" else []
    return list(
        dict.fromkeys([*known, "p99", "violation_rate", *(requirement.figure for requirement in problem.requirements)])
    )


def _shown(figures: Sequence[str], fresh: FreshFigures) -> list[str]:
    known = fresh.figures
    return [quantity(known[name].mean, _of_figure(name)[1]) if name in known else "-" for name in figures]


def _of_figure(figure: str) -> tuple[str, str]:
    """The heading of a figure, perhaps of a network, and its unit."""
    from ...serving.figures import FIGURES

    name, bracket, network = figure.partition("[")
    return FIGURES[name].heading + bracket + network, FIGURES[name].unit


def _kept(problem: PlanProblem, fresh: FreshFigures) -> str:
    """Whether the requirements are kept, and else which one is not."""
    for word, verdict in (("not kept", False), ("undecided", None)):
        if verdict in fresh.verdicts:
            return f"{word}: {problem.requirements[fresh.verdicts.index(verdict)].text}"
    return "kept"


def _searched(search: Plans) -> str:
    counts, rate = search.counts, _rate(search.problem)
    parts = [f"{counts['all']:,} plans" + (f" at {rate}" if rate else "")]
    parts += [f"{number:,} {_RULES[name]}" for name, number in counts.items() if name in _RULES and number]
    again = f"; {search.refuted:,} of these did not hold on fresh seeds" if search.refuted else ""
    return ", ".join(parts) + again


def miss(search: Plans, *, at_any_rate: bool = False) -> str:
    """The line that says which requirement no plan keeps, or for which one that is undecided, and what is nearest."""
    problem, plan = search.problem, search.undecided or search.nearest
    assert plan is not None
    number = plan.fresh.verdicts.index(plan.fresh.kept)
    requirement = problem.requirements[number]
    figure = plan.fresh.figures.get(requirement.figure)
    value = "not known" if figure is None else _interval(requirement.unit, figure)
    _, hardware, exits, policy = _where(problem, plan)
    where, any_ = f"{hardware}, exits {exits}, policy {policy}", " at any rate" if at_any_rate else ""
    if plan.fresh.kept is None:
        said = f'it is undecided whether a plan keeps "{requirement.text}"{any_}: one has {value}: {where}'
        said += f"; {_more(search, plan)}"
    else:
        fastest = f"no hardware answers a sample in less than {quantity(search.fastest_s, 's')}"
        said = f'{_no_plan(problem)} keeps "{requirement.text}"{any_}; the nearest has {value}: {where}; {fastest}'
    return f"{said}; {_searched(search)}"


def _more(search: Plans, plan: Plan) -> str:
    """What would decide a requirement that is undecided."""
    problem, traffic = search.problem, search.problem.traffic
    for requirement, kept in zip(problem.requirements, plan.fresh.verdicts, strict=True):
        figure = plan.fresh.figures.get(requirement.figure)
        if kept is None and figure is not None and figure.side(requirement) is not None:
            return "it fails at one end of the engine's error, which more requests cannot change"
    more = f"more seeds than --seeds {traffic.seeds}"
    if traffic.trace is not None:
        return f"a longer trace decides it, or {more}"
    if traffic.rate_per_s is None and traffic.clients is None:
        return f"a longer duration of the file decides it, or {more}"
    return f"more requests than --count {traffic.count:,} decide it, or {more}"
