"""Comparing contenders over a scenario's grid, with common random numbers (``docs/compare.md``).

Every contender gets the same arrivals and the same exits under the same seed,
so that a difference between two of them is taken seed by seed: what the traffic
does to both drops out (Law, Simulation Modeling and Analysis, Section 11.2).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..dse.search import SearchOptions
from ..formats import InputError, Printed, read_printed, write_file
from ..serving.statistics import Interval, mean_interval, welch_interval
from .designs import search_each
from .scenarios import Entrant, Point, Scenario, Site
from .store import (
    BETTER,
    DESIGNS,
    RUNS,
    Engine,
    RunTable,
    Store,
    keep_run,
    kept_run,
    kept_search,
    make_engine,
    make_run,
)
from .workers import Workers, in_order, workers

SCHEMA = "fluidb.compare-output/1"
COMPARE_FILE = "compare.json"

ROUNDING = 1e-9
"""A difference below this share of the figures is rounding, whatever its interval."""

TASK_REQUESTS = 100_000
"""Requests that a task on a cluster simulates, if there are as many: some tenths of a second."""

RUN_REQUESTS = 2_000
"""What a run costs beside its own requests."""

Progress = Callable[[int, int], None]


class Estimate(Printed):
    """A figure over seeds: its mean, Student's 95 % interval (``None`` with one seed), and its value by seed."""

    mean: float
    low: float | None
    high: float | None
    seeds: dict[str, float]


class Difference(Printed):
    """A contender's figure less the baseline's, paired by seed; ``beyond_noise`` if the interval excludes 0."""

    mean: float
    low: float | None
    high: float | None
    beyond_noise: bool | None


class DesignPoint(Printed):
    """The NPU <T_R,T_P,T_C> that was found for a contender."""

    T_R: int
    T_P: int
    T_C: int

    def __str__(self) -> str:
        return f"<{self.T_R},{self.T_P},{self.T_C}>"


class Standing(Printed):
    """A contender at a point: its NPU, its figures, and their differences to the baseline's (not for itself)."""

    name: str
    design: DesignPoint
    metrics: dict[str, Estimate]
    differences: dict[str, Difference] | None


class PointResult(Printed):
    """A point of the grid, and every contender there, in the order of the scenario."""

    case: str
    network: str
    platform: str
    bandwidth_gb_s: float
    slo_s: float
    rate_per_s: float | None
    cv: float | None = None
    trace: str | None
    trace_sha256: str | None
    requests: int
    contenders: list[Standing]

    @property
    def key(self) -> PointKey:
        """What it is matched by."""
        return PointKey(self.case, self.slo_s, self.rate_per_s, self.cv, self.trace_sha256, self.requests)


class PointKey(NamedTuple):
    """What a point is matched by; contender and metric come beside it."""

    case: str
    slo_s: float
    rate_per_s: float | None
    cv: float | None
    trace_sha256: str | None
    requests: int

    def __str__(self) -> str:
        traffic = "its trace" if self.rate_per_s is None else f"{self.rate_per_s:g} /s"
        return f'case "{self.case}", SLO {1e3 * self.slo_s:g} ms, {traffic}, {self.requests:,} requests'


class ContenderRow(Printed):
    """A contender as the scenario has it: its policy, and what its NPU was searched for."""

    name: str
    policy: str
    engine: dict[str, Any]


class Comparison(Printed):
    """The outcome of a scenario, ``fluidb.compare-output/1``.

    Attributes
    ----------
    title : str
        The scenario's.
    scenario_sha256 : str
        Digest of what its file says.
    version : str
        Of fluidb.
    seeds : list of int
        Its seeds.
    baseline : str
        Whom the differences are taken to.
    contenders : list of ContenderRow
        Who competed.
    points : list of PointResult
        The grid: cases, their SLOs, their rates.
    """

    title: str
    scenario_sha256: str
    version: str
    seeds: list[int]
    baseline: str
    contenders: list[ContenderRow]
    points: list[PointResult]

    def text(self) -> str:
        """As ``--json`` prints it."""
        return json.dumps({"schema": SCHEMA, **self.model_dump(mode="json")}, indent=1, allow_nan=False) + "\n"


def check_folder(folder: Path, scenario: Scenario, *, force: bool) -> None:
    """Refuse, before any work is done, a folder that is not ours or holds another comparison.

    Parameters
    ----------
    folder : Path
        Where runs are to be kept.  One with runs in it goes on from there.
    scenario : Scenario
        What will be run.
    force : bool
        Replace another scenario's comparison there; its runs stay.

    Raises
    ------
    InputError
        If it may not be used.
    """
    if not folder.exists():
        if not folder.absolute().parent.is_dir():
            raise InputError(
                f"{folder}: expected the folder {folder.absolute().parent} to exist, found none; create it first"
            )
        return
    ours = folder.is_dir() and all((folder / name).is_dir() for name in (RUNS, DESIGNS))
    if not ours and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{folder}: exists already and is no folder of `fluidb compare`; choose another name")
    earlier = folder / COMPARE_FILE
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
    folder: Path | None = None,
    *,
    threads: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> tuple[Comparison, int]:
    """Run a scenario's whole grid.

    Parameters
    ----------
    scenario : Scenario
        What to run.
    folder : Path, optional
        Keep designs, finished runs and the outcome there, and take from there
        what is kept already; damaged files are computed again.
    threads : int, optional
        Threads to use, by default all cores; the result does not depend on it.
    scheduler : str, optional
        A Dask cluster to run on (:func:`fluidb.experiments.workers.workers`), with the same result.
    progress : callable, optional
        Called with (searches and runs done, searches and runs in all).

    Returns
    -------
    comparison : Comparison
        Every point, contender and figure.
    reused : int
        Runs that were taken from the folder.

    Raises
    ------
    InputError
        If no design fits a board, a policy breaks its contract, or the cluster or the file system refuses.
    """
    seeds, store = scenario.file.seeds, Store(folder)
    wanted = _wanted(scenario)
    total = len(wanted) + len(scenario.points) * len(scenario.entrants) * len(seeds)
    report = progress or (lambda _done, _total: None)
    with workers(scheduler, threads) as at:
        searched: dict[str, Engine] = {}
        for name, engine in _engines(wanted, store, at):
            searched[name] = engine
            report(len(searched), total)
        engines = [
            [searched[_npu(p.site, p.site.options(item))] for item in scenario.entrants] for p in scenario.points
        ]
        grid = Grid(scenario.points, scenario.entrants, engines)
        cells = [Cell(i, j, seed) for i in range(len(grid.points)) for j in range(len(grid.entrants)) for seed in seeds]
        runs = {cell: kept for cell in cells if (kept := kept_run(*grid.arguments(cell), store))}
        reused = len(runs)
        report(len(searched) + len(runs), total)
        missing = [cell for cell in cells if cell not in runs]
        batches = _batches(grid, missing, TASK_REQUESTS if scheduler else 0)
        for index, tables in in_order(at.map(_make_runs, grid, batches)):
            for cell, table in zip(batches[index], tables, strict=True):
                keep_run(table, store)
                runs[cell] = table
                report(len(searched) + len(runs), total)
    points = [
        _point(scenario, point, there, [[runs[Cell(i, j, seed)] for seed in seeds] for j in range(len(there))])
        for i, (point, there) in enumerate(zip(scenario.points, engines, strict=True))
    ]
    found = Comparison(
        title=scenario.file.title,
        scenario_sha256=scenario.sha256,
        version=__version__,
        seeds=seeds,
        baseline=scenario.file.baseline,
        contenders=[
            ContenderRow(name=item.name, policy=item.spec, engine=item.options.model_dump(mode="json"))
            for item in scenario.entrants
        ],
        points=points,
    )
    if folder is not None:
        write_file(folder / COMPARE_FILE, found.text())
    return found, reused


def _npu(site: Site, options: SearchOptions) -> str:
    """What tells NPUs apart; cases may share one under different names, objectives and traffic."""
    return repr((site.network, site.platform, options))


def _wanted(scenario: Scenario) -> dict[str, tuple[Site, SearchOptions]]:
    """The searches of a scenario, each once."""
    return {
        _npu(point.site, point.site.options(item)): (point.site, point.site.options(item))
        for point in scenario.points
        for item in scenario.entrants
    }


def _engines(wanted: dict[str, tuple[Site, SearchOptions]], store: Store, at: Workers) -> Iterator[tuple[str, Engine]]:
    """The NPU of each search as it comes; those that are kept first."""
    missing = []
    for name, (site, options) in wanted.items():
        kept = kept_search(site, options, store)
        if kept is None:
            missing.append(name)
        else:
            yield name, make_engine(site, options, kept)
    asked = [(site.network, site.platform, options) for site, options in map(wanted.__getitem__, missing)]
    for index, found in in_order(search_each(asked, at, {})):
        yield missing[index], make_engine(*wanted[missing[index]], found, store)


class Cell(NamedTuple):
    """A run of the grid: the indices of its point and contender, and its seed."""

    point: int
    entrant: int
    seed: int


class Grid(NamedTuple):
    """What the runs of a scenario share.

    Attributes
    ----------
    points : tuple of Point
        Where.
    entrants : tuple of Entrant
        Who.
    engines : list of list of Engine
        On which NPU, by point and contender.
    """

    points: tuple[Point, ...]
    entrants: tuple[Entrant, ...]
    engines: list[list[Engine]]

    def arguments(self, cell: Cell) -> tuple[Point, Entrant, Engine, int]:
        """What a run is made of."""
        point, entrant, seed = cell
        return self.points[point], self.entrants[entrant], self.engines[point][entrant], seed


def _make_runs(grid: Grid, cells: list[Cell]) -> list[RunTable]:
    """A task."""
    return [make_run(*grid.arguments(cell)) for cell in cells]


def _batches(grid: Grid, cells: list[Cell], requests: int) -> list[list[Cell]]:
    """Runs by task, in their order: so many that a task simulates a number of requests, and at least one."""
    batches: list[list[Cell]] = []
    room = 0
    for cell in cells:
        if room <= 0:
            batches.append([])
            room = requests
        batches[-1].append(cell)
        room -= grid.points[cell.point].requests + RUN_REQUESTS
    return batches


def _values(runs: list[RunTable], metric: str) -> NDArray[np.float64]:
    return np.array([getattr(table.figures, metric) for table in runs], dtype=np.float64)


def _beyond(interval: Interval | None, mean: float, size: float) -> bool | None:
    """Whether an interval excludes 0, by more than rounding; ``None`` without one."""
    if interval is None:
        return None
    return (interval.low > 0 or interval.high < 0) and abs(mean) > ROUNDING * size


def _point(scenario: Scenario, point: Point, engines: list[Engine], runs: list[list[RunTable]]) -> PointResult:
    """Means, intervals and differences of a point; ``runs`` by contender and seed."""
    names = [item.name for item in scenario.entrants]
    base = runs[names.index(scenario.file.baseline)]
    standings = []
    for name, engine, own in zip(names, engines, runs, strict=True):
        metrics, differences = {}, {}
        for metric in BETTER:
            values, others = _values(own, metric), _values(base, metric)
            low, high = mean_interval(values) or (None, None)
            by_seed = {str(seed): value for seed, value in zip(scenario.file.seeds, values.tolist(), strict=True)}
            metrics[metric] = Estimate(mean=float(values.mean()), low=low, high=high, seeds=by_seed)
            interval, mean = mean_interval(values - others), float((values - others).mean())
            low, high = interval or (None, None)
            beyond = _beyond(interval, mean, float(np.abs(values).max() + np.abs(others).max()))
            differences[metric] = Difference(mean=mean, low=low, high=high, beyond_noise=beyond)
        tile = engine.design.tile
        standings.append(
            Standing(
                name=name,
                design=DesignPoint(T_R=tile.T_R, T_P=tile.T_P, T_C=tile.T_C),
                metrics=metrics,
                differences=None if own is base else differences,
            )
        )
    site = point.site
    return PointResult(
        case=site.name,
        network=site.network.name,
        platform=site.platform.name,
        bandwidth_gb_s=site.platform.bandwidth_gb_s,
        slo_s=point.slo_s,
        rate_per_s=point.rate_per_s,
        cv=site.cv,
        trace=site.trace_name,
        trace_sha256=site.trace_sha256,
        requests=point.requests,
        contenders=standings,
    )


def read_comparison(path: Path) -> Comparison:
    """Read what ``fluidb compare --json`` printed, or what it left in its folder.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    Comparison
        The outcome.

    Raises
    ------
    InputError
        If it is missing, no JSON, or of another schema.
    """
    return read_printed(Comparison, path, SCHEMA, "an earlier comparison", "fluidb compare SCENARIO --json")


class Change(Printed):
    """A figure that moved against an earlier comparison, beyond noise.

    Attributes
    ----------
    case, slo_s, rate_per_s, contender, metric
        Which.
    earlier, now : float
        Its means.
    difference : float
        Now less earlier.
    low, high : float
        Its 95 % interval.
    """

    case: str
    slo_s: float
    rate_per_s: float | None
    contender: str
    metric: str
    earlier: float
    now: float
    difference: float
    low: float
    high: float


class Against(Printed):
    """A comparison held against an earlier one.

    Attributes
    ----------
    method : str
        ``"paired"`` where both have the same seeds, else ``"welch"``.
    figures : int
        How many were judged.
    worse, better : list of Change
        Those that moved beyond noise.
    """

    method: str
    figures: int
    worse: list[Change]
    better: list[Change]


def check_match(scenario: Scenario, earlier: Comparison, path: Path) -> None:
    """Refuse, before any work is done, an earlier comparison of other points or contenders.

    Parameters
    ----------
    scenario : Scenario
        What will be run.
    earlier : Comparison
        What it will be held against.
    path : Path
        Where that came from, for the faults.

    Raises
    ------
    InputError
        If the two do not match, or one has a single seed and so no noise to tell from.
    """
    names = [item.name for item in scenario.entrants]
    here = {
        PointKey(p.site.name, p.slo_s, p.rate_per_s, p.site.cv, p.site.trace_sha256, p.requests): names
        for p in scenario.points
    }
    there = {point.key: [item.name for item in point.contenders] for point in earlier.points}
    faults = [f"{path}: does not match: has no {key}" for key in here if key not in there]
    faults += [f"{path}: does not match: {key} is not in this scenario" for key in there if key not in here]
    for key in here.keys() & there.keys():
        missing = sorted(set(here[key]) ^ set(there[key]))
        if missing:
            faults.append(f"{path}: does not match: {key}: contender {', '.join(missing)} is in one of the two only")
    figures = [item.metrics.keys() for point in earlier.points for item in point.contenders]
    judged = [name for name, way in BETTER.items() if way != 0]
    if any(not keys >= set(judged) for keys in figures):
        faults.append(f"{path}: does not match: expected the figures {', '.join(judged)} of every contender")
    if faults:
        raise InputError(sorted(faults)[:1])
    counts = [len(item.metrics[m].seeds) for p in earlier.points for item in p.contenders for m in judged]
    if min([len(scenario.file.seeds), *counts]) < 2:
        raise InputError(f"{path}: expected two seeds or more, here and there, to tell a change from noise")


def against(now: Comparison, earlier: Comparison) -> Against:
    """Say which figures moved beyond noise since an earlier comparison.

    Figures are paired by seed where both have the same seeds; else the means are
    held against each other by Welch's interval.

    Parameters
    ----------
    now, earlier : Comparison
        Two outcomes that match (see :func:`check_match`).

    Returns
    -------
    Against
        What got worse, and what better.
    """
    there = {(point.key, item.name): item for point in earlier.points for item in point.contenders}
    worse: list[Change] = []
    better: list[Change] = []
    methods: set[str] = set()
    figures = 0
    for point in now.points:
        for item in point.contenders:
            before = there[point.key, item.name].metrics
            for metric, way in BETTER.items():
                if way == 0:
                    continue
                figures += 1
                values, others, method = _aligned(item.metrics[metric].seeds, before[metric].seeds)
                methods.add(method)
                interval = mean_interval(values - others) if method == "paired" else welch_interval(values, others)
                assert interval is not None
                difference = float(values.mean() - others.mean())
                if not _beyond(interval, difference, float(np.abs(values).max() + np.abs(others).max())):
                    continue
                (better if way * difference > 0 else worse).append(
                    Change(
                        case=point.case,
                        slo_s=point.slo_s,
                        rate_per_s=point.rate_per_s,
                        contender=item.name,
                        metric=metric,
                        earlier=float(others.mean()),
                        now=float(values.mean()),
                        difference=difference,
                        low=interval.low,
                        high=interval.high,
                    )
                )
    return Against(method=" and ".join(sorted(methods)), figures=figures, worse=worse, better=better)


def _aligned(now: dict[str, float], earlier: dict[str, float]) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
    """Values of both in the order of the seeds, and how they may be held against each other."""
    if now.keys() != earlier.keys():
        return np.array(list(now.values())), np.array(list(earlier.values())), "welch"
    seeds = list(now)
    return np.array([now[seed] for seed in seeds]), np.array([earlier[seed] for seed in seeds]), "paired"
