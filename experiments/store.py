"""Runs of a comparison: what each depends on, what came out, and a folder that keeps them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

from pydantic import Field

from ..dse.design import DesignTable, NetworkRow, tabulate_design
from ..dse.latency import tabulate_latency
from ..dse.search import Candidate, SearchOptions, SearchResult, search
from ..formats import InputError, Strict, Table, read_table, write_table
from ..serving.bound import least_violations
from ..serving.metrics import Summary, summarise
from ..serving.replay import simulate
from ..tables.latency import LatencyTable
from ..traffic.arrivals import gamma, poisson
from ..traffic.traffic import Traffic, prepare
from .scenarios import Entrant, Point, Site
from .sources import made_with

RUNS, DESIGNS = "runs", "designs"
"""Folders of the finished runs and of the designs they ran on."""


class Figures(Strict):
    """What is compared of a run; ``docs/model.md`` (Metrics) defines each."""

    mean_latency_s: float
    p99_latency_s: float
    violation_rate: float
    unavoidable_rate: float
    processing_rate_per_s: float
    busy_share: float
    mac_share: float

    @classmethod
    def of(cls, summary: Summary, unavoidable: int) -> Figures:
        """The figures of a summary, and of the violations that no scheduler could prevent."""
        assert summary.utilisation is not None  # a comparison searches NPUs
        return cls(
            mean_latency_s=summary.mean_latency_s,
            p99_latency_s=summary.percentile("p99").latency_s,
            violation_rate=summary.violation_rate,
            unavoidable_rate=unavoidable / summary.requests,
            processing_rate_per_s=summary.processing_rate_per_s,
            busy_share=summary.busy_share,
            mac_share=summary.utilisation.mac_share,
        )


BETTER: dict[str, int] = {
    "mean_latency_s": -1,
    "p99_latency_s": -1,
    "violation_rate": -1,
    "unavoidable_rate": 0,
    "processing_rate_per_s": 1,
    "busy_share": 0,
    "mac_share": 1,
}
"""Which way each figure gets better: down, up, or (busy; what no scheduler can prevent) neither by itself."""


class RunKey(Strict):
    """Everything that a run depends on but the latency table of its NPU, which it names in ``inputs``.

    Attributes
    ----------
    policy : str
        As the scenario says it.
    policy_sha256 : str or None
        Digest of the user's file that the policy comes from.
    slo_s : float
        Latency objective.
    rate_per_s : float or None
        Rate of the drawn arrivals; ``None`` if a trace is replayed.
    cv : float or None
        Coefficient of variation of their gaps; ``None`` for Poisson arrivals.
    trace_sha256 : str or None
        Digest of that trace's file.
    requests, seed : int
        Requests; seed of arrivals and exits.
    made_with : dict of str to str
        Versions, and the digest of our own sources: what was computed before an edit is no evidence after it.
    """

    policy: str
    policy_sha256: str | None
    slo_s: float
    rate_per_s: float | None
    cv: float | None
    trace_sha256: str | None
    requests: int
    seed: int
    made_with: dict[str, str]


class RunTable(Table):
    """A finished run as a file, ``fluidb.run/1`` (``docs/compare.md``).

    Attributes
    ----------
    key : RunKey
        What it depends on, beside the latency table in ``inputs``.
    traffic_sha256 : str
        Digest of its arrivals and exits: the same for all contenders.
    figures : Figures
        What came out.
    """

    schema_name: ClassVar[str] = "fluidb.run/1"
    made_by: ClassVar[str] = "fluidb compare"

    key: RunKey
    traffic_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    figures: Figures


def _sha256(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


AnyTable = TypeVar("AnyTable", bound=Table)


class Store:
    """A folder that keeps designs and finished runs, each named by the digest of what it depends on.

    Parameters
    ----------
    folder : Path or None
        The folder, made if it is not there; ``None`` keeps nothing.

    Raises
    ------
    InputError
        If the file system refuses.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            try:
                for name in (RUNS, DESIGNS):
                    (folder / name).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{folder}: could not be made ({error.strerror}); choose another folder") from error

    def path(self, kind: str, key: object) -> Path | None:
        """Where the table with a key lies."""
        return None if self.folder is None else self.folder / kind / f"{_sha256(key)}.json"

    @staticmethod
    def read(model: type[AnyTable], path: Path | None) -> AnyTable | None:
        """A table kept earlier; ``None`` if there is none that is whole."""
        if path is None or not path.exists():
            return None
        try:
            return read_table(model, path)
        except InputError:
            return None  # damaged: it is computed again

    @staticmethod
    def keep(table: Table, path: Path | None) -> None:
        """Keep a table."""
        if path is not None:
            write_table(table, path)


class Engine:
    """An NPU that was searched: its design, its latency table, and that table's digest."""

    def __init__(self, design: DesignTable, table: LatencyTable) -> None:
        self.design = design
        self.table = table
        self.inputs = {table.schema_name: table.digest()}


def find_engine(site: Site, options: SearchOptions, store: Store, threads: int | None = None) -> Engine:
    """Search the NPU of a contender, or take the design that an earlier search kept.

    Parameters
    ----------
    site : Site
        Network and board.
    options : SearchOptions
        What is searched for.
    store : Store
        Where designs are kept.
    threads : int, optional
        Threads of the search, by default all cores.

    Returns
    -------
    Engine
        The design and its latency table.

    Raises
    ------
    InputError
        If no design fits the board, or the file system refuses.
    """
    found = kept_search(site, options, store)
    if found is not None:
        return make_engine(site, options, found)
    return make_engine(site, options, search(site.network, site.platform, options, threads=threads), store)


def _design_path(site: Site, options: SearchOptions, store: Store) -> Path | None:
    asked = (NetworkRow.of(site.network), site.platform, options)
    return store.path(DESIGNS, [*(item.model_dump(mode="json") for item in asked), made_with()])


def kept_search(site: Site, options: SearchOptions, store: Store) -> SearchResult | None:
    """What an earlier search for a contender's NPU found; ``None`` if nothing of it is kept."""
    kept = store.read(DesignTable, _design_path(site, options, store))
    asked = (NetworkRow.of(site.network), site.platform, options)
    if kept is None or (kept.network, kept.platform, kept.options) != asked:
        return None
    ranking = [Candidate(row.tile, row.objective) for row in kept.ranking]
    return SearchResult(ranking, kept.designs_evaluated, kept.designs_ruled_out)


def make_engine(site: Site, options: SearchOptions, found: SearchResult, store: Store | None = None) -> Engine:
    """The NPU that a search found; its design is kept if there is a store."""
    design, fbcb = tabulate_design(site.network, site.platform, options, found)
    if store is not None:
        store.keep(design, _design_path(site, options, store))
    return Engine(design, tabulate_latency(design, fbcb))


def traffic(point: Point, seed: int) -> Traffic:
    """What a run serves: it depends on point and seed, and not on the contender.

    Parameters
    ----------
    point : Point
        The point of the grid.
    seed : int
        Seed of arrivals, where they are drawn, and of exits, where the trace decides none.

    Returns
    -------
    Traffic
        Requests with their exits and objectives.
    """
    if point.rate_per_s is None:
        assert point.site.trace is not None
        trace = point.site.trace
    elif point.site.cv is not None:
        trace = gamma(point.rate_per_s, point.site.cv, point.requests, seed)
    else:
        trace = poisson(point.rate_per_s, point.requests, seed)
    return prepare(trace, [item.rate for item in point.site.network.exits], slo_s=point.slo_s, seed=seed)


def run(point: Point, entrant: Entrant, engine: Engine, seed: int, store: Store) -> tuple[RunTable, bool]:
    """One run of the grid, or what an earlier one kept.

    Parameters
    ----------
    point : Point
        Where.
    entrant : Entrant
        Who.
    engine : Engine
        On which NPU.
    seed : int
        Of arrivals and exits.
    store : Store
        Where runs are kept.

    Returns
    -------
    table : RunTable
        Its figures.
    reused : bool
        Whether they were kept from an earlier run.

    Raises
    ------
    InputError
        If the policy breaks its contract, or the file system refuses.
    """
    kept = kept_run(point, entrant, engine, seed, store)
    if kept is not None:
        return kept, True
    table = make_run(point, entrant, engine, seed)
    keep_run(table, store)
    return table, False


def _key(point: Point, entrant: Entrant, seed: int) -> RunKey:
    return RunKey(
        policy=entrant.spec,
        policy_sha256=entrant.source_sha256,
        slo_s=point.slo_s,
        rate_per_s=point.rate_per_s,
        cv=point.site.cv,
        trace_sha256=point.site.trace_sha256,
        requests=point.requests,
        seed=seed,
        made_with=made_with(),
    )


def _run_path(inputs: dict[str, str], key: RunKey, store: Store) -> Path | None:
    return store.path(RUNS, [inputs, key.model_dump(mode="json")])


def kept_run(point: Point, entrant: Entrant, engine: Engine, seed: int, store: Store) -> RunTable | None:
    """A run that is kept already; ``None`` if it is not."""
    key = _key(point, entrant, seed)
    kept = store.read(RunTable, _run_path(engine.inputs, key, store))
    return kept if kept is not None and (kept.key, kept.inputs) == (key, engine.inputs) else None


def make_run(point: Point, entrant: Entrant, engine: Engine, seed: int) -> RunTable:
    """One run of the grid; it touches no file."""
    served = traffic(point, seed)
    replay = simulate(engine.table, served, entrant.contender)
    digest = hashlib.sha256(served.trace.arrival_s.tobytes() + served.exits.tobytes()).hexdigest()
    figures = Figures.of(summarise(replay), least_violations(replay))
    return RunTable(inputs=engine.inputs, key=_key(point, entrant, seed), traffic_sha256=digest, figures=figures)


def keep_run(table: RunTable, store: Store) -> None:
    """Keep a run."""
    store.keep(table, _run_path(table.inputs, table.key, store))
