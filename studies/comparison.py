"""Comparing contenders over a scenario's grid, with common random numbers (``docs/compare.md``).

Contenders get the same arrivals and exits under the same seed, so that their differences are taken seed by seed
(Law, Simulation Modeling and Analysis, Section 11.2).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import PlainSerializer, SerializerFunctionWrapHandler, model_serializer

from .. import __version__
from ..dse.npu.tiles import Tile
from ..formats import AnyPath, InputError, JsonRecord, check_resumable, first_rows, read_printed, write_file
from ..formats.display import counted
from .designs import DesignRequest
from .estimates import Difference, Estimate
from .scenario import Contender, GridPoint, Npu, Scenario
from .scenario_file import DRAWN, with_columns
from .store import (
    COMPARED,
    DESIGNS,
    OF_EACH,
    RUNS,
    GridRun,
    RunTable,
    ServingTable,
    Store,
    design_key,
    figure_of,
    find_engines,
    key_of,
    run_each,
)
from .workers import workers

SCHEMA = "fluidb.compare-output/1"
COMPARE_FILE = "compare.json"


Progress = Callable[[int, int], None]


Design = Annotated[Tile, PlainSerializer(lambda tile: tile.by_name)]
"""The NPU <T_R,T_P,T_C> that was found for a contender; a file has its parts by name."""


class Standing(JsonRecord):
    """A contender at a point: its NPU (on a table none), its figures, their differences to the baseline's."""

    name: str
    design: Design | None
    metrics: dict[str, Estimate]
    differences: dict[str, Difference] | None


class Lead(NamedTuple):
    """The contender with the fewest violations at a point, and the next one."""

    first: str  # or several that have the same rate under every seed
    second: str
    less: Difference  # violation rate of the first, less the rate of the second, seed by seed


class ClosedKeys(JsonRecord):
    """Clients that wait for their answers, and their think time; keys without a value are left out."""

    clients: int | None = None
    think: str | None = None
    think_sha256: str | None = None

    @model_serializer(mode="wrap")
    def _if_any(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        record: dict[str, Any] = write(self)
        return {key: value for key, value in record.items() if value is not None or key not in ClosedKeys.model_fields}


@with_columns
class PointKeys(ClosedKeys):
    """A point of the grid: its keys, and the columns that are drawn there."""

    case: str
    network: str
    platform: str
    bandwidth_gb_s: float | None
    slo_s: float | None
    slo: str | None = None
    rate_per_s: float | None
    cv: float | None = None
    trace: str | None
    trace_sha256: str | None
    offline: bool = False
    predict_depth: float | None = None
    requests: int


class PointResult(PointKeys):
    """A point of the grid, and every contender there, in the order of the scenario."""

    contenders: list[Standing]

    @property
    def key(self) -> tuple[object, ...]:
        """The key by which two points are matched."""
        drawn = (getattr(self, name) for name in DRAWN)
        closed = self.clients, self.think, self.think_sha256
        return self.case, self.slo_s, self.rate_per_s, self.trace_sha256, self.requests, *closed, *drawn

    @property
    def lead(self) -> Lead | None:
        """Who has the fewest violations, and by how much; ``None`` if all are alike."""
        rates = {standing.name: standing.metrics["violation_rate"] for standing in self.contenders}
        first, *others = sorted(rates, key=lambda name: rates[name].mean)
        alike = [first, *(name for name in others if rates[name].seeds == rates[first].seeds)]
        following = next((name for name in others if name not in alike), None)
        if following is None:
            return None
        return Lead(", ".join(alike), following, rates[first].less(rates[following]))

    @property
    def own(self) -> bool:
        """Whether each network has traffic of its own."""
        return not (self.trace or self.offline) and self.load is None

    @property
    def objective(self) -> str:
        """Its latency objective, in few words."""
        if self.slo_s is not None:
            return f"SLO {1e3 * self.slo_s:g} ms"
        return f"SLOs {self.slo}" if self.slo else f"SLOs of its {'networks' if self.own else 'trace'}"

    @property
    def load(self) -> float | None:
        """The rate of arrivals, or the number of clients."""
        return self.rate_per_s if self.clients is None else self.clients

    @property
    def arrivals(self) -> str:
        """The traffic, in few words."""
        if self.rate_per_s is not None:
            return f"{self.rate_per_s:g} /s"
        if self.clients is not None:
            return f"{counted(self.clients, 'client')}, think time {self.think}"
        return "all at once" if self.offline else "traffic of each network" if self.own else "its trace"

    def __str__(self) -> str:
        return f'case "{self.case}", {self.objective}, {self.arrivals}, {counted(self.requests, "request")}'


class ContenderRow(JsonRecord):
    """A contender as the scenario has it: its policy, and what its NPU was searched for, if any case searches one."""

    name: str
    policy: str
    engine: dict[str, Any] | None


class Comparison(JsonRecord):
    """The outcome of a scenario, ``fluidb.compare-output/1``."""

    title: str  # the scenario's
    scenario_sha256: str  # digest of what its file says
    version: str  # of fluidb
    seeds: list[int]  # its seeds
    baseline: str  # the contender that differences are taken to
    contenders: list[ContenderRow]
    points: list[PointResult]  # the grid: cases, their latency objectives, their rates

    _repr_html_ = first_rows

    def columns(self) -> dict[str, list[Any]]:
        """The mean of every figure of each contender at each point as columns."""
        standings = [(point, standing) for point in self.points for standing in point.contenders]
        metrics = dict.fromkeys(name for _, standing in standings for name in standing.metrics)
        return {
            **{name: [getattr(point, name) for point, _ in standings] for name in ("case", "slo_s", "rate_per_s")},
            "contender": [standing.name for _, standing in standings],
            **{
                name: [standing.metrics[name].mean if name in standing.metrics else None for _, standing in standings]
                for name in metrics
            },
        }

    def text(self) -> str:
        """As ``--json`` prints it."""
        return json.dumps({"schema": SCHEMA, **self.model_dump(mode="json")}, indent=1, allow_nan=False) + "\n"


def check_folder(folder: AnyPath, scenario: Scenario, *, force: bool) -> None:
    """Refuse, before any work, a folder that is not ours, or without ``force`` one of another scenario."""
    check_resumable(folder, "fluidb compare", ours=all(Path(folder, name).is_dir() for name in (RUNS, DESIGNS)))
    earlier = Path(folder, COMPARE_FILE)
    if force or not earlier.exists():
        return
    try:
        other = read_comparison(earlier).scenario_sha256 != scenario.sha256
    except InputError:
        return  # damaged: it is written again
    if other:
        raise InputError(f"{earlier}: is the comparison of another scenario; choose another folder or add --force")


def compare(
    scenario: Scenario,
    folder: AnyPath | None = None,
    *,
    threads: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> tuple[Comparison, int]:
    """Run a scenario's whole grid; return the comparison, and the number of runs that were taken from the folder.

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    folder : str or Path, optional
        Keeps designs, finished runs and the outcome; damaged files are computed again.
    threads : int, optional
        Threads to use, by default all cores; the result does not depend on it.
    scheduler : str, optional
        A Dask cluster to run on (:func:`fluidb.studies.workers.workers`), with the same result.
    progress : callable, optional
        Called with (searches and runs done, searches and runs in all).

    Returns
    -------
    tuple of (Comparison, int)
        The comparison, and how many runs the folder already had.
    """
    seeds, store = scenario.file.seeds, Store(None if folder is None else Path(folder))
    grid = [(point, contender) for point in scenario.points for contender in scenario.contenders]
    sites = {point.site.keys.label: point.site.on for point in scenario.points}
    given = {label: ServingTable.of(on.networks) for label, on in sites.items() if not isinstance(on, Npu)}
    asked = {_npu(*cell): _asked(*cell) for cell in grid if cell[0].site.keys.label not in given}  # each search once
    total = len(asked) + len(grid) * len(seeds)
    report = progress or (lambda _done, _total: None)
    with workers(scheduler, threads) as at:
        engines: dict[str, ServingTable] = {}
        names = list(asked)
        for index, engine in find_engines(list(asked.values()), store, at):
            engines[names[index]] = engine
            report(len(engines), total)
        serving = [given.get(cell[0].site.keys.label) or engines[_npu(*cell)] for cell in grid]
        runs = [GridRun(*cell, engine, seed) for cell, engine in zip(grid, serving, strict=True) for seed in seeds]
        finished: dict[int, RunTable] = {}
        reused = 0
        for index, table, kept in run_each(runs, store, at):
            finished[index] = table
            reused += kept
            report(len(engines) + len(finished), total)
    comparison = Comparison(
        title=scenario.file.title,
        scenario_sha256=scenario.sha256,
        version=__version__,
        seeds=seeds,
        baseline=scenario.file.baseline,
        contenders=[
            ContenderRow(
                name=contender.name,
                policy=contender.policy.spec,
                engine=contender.options.model_dump(mode="json") if asked else None,
            )
            for contender in scenario.contenders
        ],
        points=_points(scenario, runs, finished),
    )
    if folder is not None:
        write_file(Path(folder, COMPARE_FILE), comparison.text(), replace=True)
    return comparison, reused


def _asked(point: GridPoint, contender: Contender) -> DesignRequest:
    return *point.site.npu, point.site.options(contender)


def _npu(point: GridPoint, contender: Contender) -> str:
    """The key of an NPU; cases may share one under different names, objectives and traffic."""
    return design_key(_asked(point, contender))


def _points(scenario: Scenario, runs: list[GridRun], tables: dict[int, RunTable]) -> list[PointResult]:
    """Means, intervals and differences; runs are in the order of points, contenders and seeds."""
    seeds, baseline, results = scenario.file.seeds, scenario.file.baseline, []
    made = ((run.engine.tile, tables[index]) for index, run in enumerate(runs))
    for point in scenario.points:
        tiles, metrics = {}, {}
        each = [key_of(figure, name) for name in point.site.names for figure in OF_EACH]
        for contender in scenario.contenders:
            own = list(itertools.islice(made, len(seeds)))
            tiles[contender.name] = own[0][0]
            metrics[contender.name] = {
                key: Estimate.of(
                    figure_of(key),
                    [run.figures[key] for _, run in own],
                    seeds,
                    [run.intervals.get(key) for _, run in own],
                )
                for key in [*(figure.key for figure in COMPARED), *each]
                if all(key in run.figures for _, run in own)
            }
        base = metrics[baseline]
        standings = [
            Standing(
                name=name,
                design=tiles[name],
                metrics=own,
                differences=None
                if name == baseline
                else {key: value.less(base[key]) for key, value in own.items() if key in base},
            )
            for name, own in metrics.items()
        ]
        results.append(described(point, standings))
    return results


def described(point: GridPoint, contenders: list[Standing]) -> PointResult:
    """A point of the grid with its contenders, as a comparison states it."""
    site, on = point.site, point.site.on
    if isinstance(on, Npu):
        network, platform, bandwidth_gb_s = on.network.name, on.platform.name, on.platform.bandwidth_gb_s
    else:
        tables = [network.latency for network in on.networks]
        network, platform, bandwidth_gb_s = ", ".join(table.network for table in tables), tables[0].platform, None
    return PointResult(
        case=site.keys.label,
        network=network,
        platform=platform,
        bandwidth_gb_s=bandwidth_gb_s,
        slo_s=point.slo_s,
        rate_per_s=point.rate_per_s,
        trace=site.keys.trace,
        trace_sha256=site.trace_sha256,
        requests=point.requests,
        **site.keys.drawn,
        **point.closed,
        contenders=contenders,
    )


def read_comparison(path: AnyPath) -> Comparison:
    """Read the output of ``fluidb compare --json``, or the comparison in its folder."""
    return read_printed(Comparison, path, SCHEMA, "an earlier comparison", "fluidb compare SCENARIO --json")
