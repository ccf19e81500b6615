"""Runs of a comparison: their keys, their figures, and a folder that keeps runs and designs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

from ..dse.npu.design import DesignTable
from ..dse.npu.latency import tabulate_latency
from ..dse.npu.search import SearchResult
from ..dse.npu.tiles import Tile
from ..dse.npu.together import tabulate_each
from ..dse.npu.workload import as_workload
from ..formats import Form, InputError, Table, make_folder, read_table, tidy, write_table
from ..formats.sources import made_with
from ..serving.bound import least_violations
from ..serving.device_traffic import DeviceTraffic, prepare_requests
from ..serving.figures import FIGURES, Figure
from ..serving.inputs import Requests
from ..serving.metrics import figures_of
from ..serving.networks import ServedNetwork, as_served, stated_for
from ..serving.replay import simulate
from ..serving.requirements import figure_text
from ..serving.statistics import Interval
from ..tables.latency import LatencyTable
from ..traffic.additions import add_columns
from ..traffic.arrivals import gamma, offline, poisson
from ..traffic.clients import Clients
from ..traffic.trace import Trace
from .designs import DesignRequest, FoundDesign, find_each
from .scenario import Contender, GridPoint
from .workers import Workers, in_order

RUNS, DESIGNS = "runs", "designs"
"""Folders of the finished runs and of the designs they ran on."""

COMPARED = tuple(
    FIGURES[name]
    for name in (
        "mean",
        "p99",
        "violation_rate",
        "unavoidable_rate",
        "processing_rate",
        "busy_share",
        "mac_share",
        "energy",
        "depth_variance",
        "served_accuracy",
        "accuracy_misses",
        "refused",
        "dropped",
        "early",
        "hit_ratio",
        "off_chip",
        "off_chip_energy",
        "fairness",
    )
)
"""The figures of a run that are kept and compared, where table and traffic have their inputs."""

OF_EACH = tuple(FIGURES[name] for name in ("mean", "p99", "violation_rate", "refused", "dropped"))
"""The figures that each network with a name has."""


def key_of(figure: Figure, network: str) -> str:
    """The key of a figure of one of several networks."""
    return figure_text(figure.key, network)


def figure_of(key: str) -> Figure:
    """The figure of a key, of all requests or of one network."""
    return next(figure for figure in COMPARED if figure.key == key.partition("[")[0])


class RunTable(Table):
    """A finished run as a file, ``fluidb.run/1`` (``docs/compare.md``)."""

    schema_name: ClassVar[str] = "fluidb.run/1"
    made_by: ClassVar[str] = "fluidb compare"

    key: dict[str, Any]  # all that it depends on, beside the latency table in inputs (:meth:`GridRun.key`)
    # digest of its arrivals and exits: the same for all contenders
    traffic_sha256: Annotated[str, Form("[0-9a-f]{64}", "a SHA-256 digest of 64 hexadecimal digits").validator]
    figures: dict[str, float]  # the figures of :data:`COMPARED`, by key
    intervals: dict[str, Interval]  # the 95 % intervals of those figures that have one, by key


def _sha256(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


AnyTable = TypeVar("AnyTable", bound=Table)


class Store:
    """A folder that keeps designs and runs, each named by the digest of what it depends on; ``None`` keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            for name in (RUNS, DESIGNS):
                make_folder(folder / name)
                tidy(folder / name)

    def _path(self, kind: str, key: object) -> Path | None:
        return None if self.folder is None else self.folder / kind / f"{_sha256(key)}.json"

    def read(self, model: type[AnyTable], kind: str, key: object) -> AnyTable | None:
        """The table that was kept under a key; ``None`` if there is none, or it is damaged."""
        path = self._path(kind, key)
        if path is None or not path.exists():
            return None
        try:
            return read_table(model, path)
        except InputError:
            return None

    def keep(self, table: Table, kind: str, key: object) -> None:
        """Keep a table under a key."""
        path = self._path(kind, key)
        if path is not None:
            write_table(table, path)

    def read_design(self, asked: DesignRequest) -> list[FoundDesign] | None:
        """The design that an earlier search of the same, for one network, found."""
        kept = self.read(DesignTable, DESIGNS, design_key(asked))
        if kept is None or (kept.network, kept.platform, kept.options) != asked:
            return None
        result = SearchResult(kept.ranking, kept.designs_evaluated, kept.designs_ruled_out)
        return [FoundDesign(*tables, reused=True) for tables in tabulate_each(*asked, result)]

    def keep_design(self, asked: DesignRequest, designs: list[FoundDesign]) -> None:
        """Keep the design of a search for one network."""
        self.keep(designs[0].design, DESIGNS, design_key(asked))


def design_key(asked: DesignRequest) -> str:
    """The digest of all that a search depends on."""
    parts = *as_workload(asked[0]).networks, *asked[1:]
    return _sha256([*(part.model_dump(mode="json") for part in parts), made_with()])


class ServingTable(NamedTuple):
    """A server: its networks, the digests of their tables as runs name them, and the design if an NPU was searched."""

    networks: tuple[ServedNetwork, ...]
    inputs: dict[str, str]
    tile: Tile | None

    @classmethod
    def of(cls, networks: Sequence[ServedNetwork], tile: Tile | None = None) -> ServingTable:
        """The server of networks."""
        inputs = {}
        for network in networks:
            table = network.latency
            inputs[f"{table.schema_name} of {network.name}".removesuffix(" of ")] = table.digest()
        return cls(tuple(networks), inputs, tile)

    @property
    def table(self) -> LatencyTable:
        """The latency table of the first network."""
        return self.networks[0].latency


def find_engines(asked: Sequence[DesignRequest], store: Store, at: Workers) -> Iterator[tuple[int, ServingTable]]:
    """Search NPUs, or take what earlier searches kept."""
    for index, outcome in in_order(find_each(asked, store.read_design, store.keep_design, at)):
        (searched,) = outcome
        yield index, ServingTable.of(as_served(tabulate_latency(searched.design, searched.fbcb)), searched.design.tile)


def _arrivals(point: GridPoint, seed: int) -> Trace:
    """The requests of a run, without what their network says of them."""
    site, rate = point.site, point.rate_per_s
    if site.trace is not None:
        trace = site.trace
    elif rate is None:
        trace = offline(point.requests)
    elif site.keys.cv is not None:
        trace = gamma(rate, site.keys.cv, point.requests, seed)
    else:
        trace = poisson(rate, point.requests, seed)
    return add_columns(trace, seed, site.keys.columns)


def traffic(point: GridPoint, networks: Sequence[ServedNetwork], seed: int) -> DeviceTraffic:
    """The requests of a run: they depend on point and seed, and not on the contender."""
    if point.site.keys.own:
        return prepare_requests(networks, Requests(seed=seed, predict_depth=point.site.keys.predict_depth), None)
    clients = None if point.clients is None else Clients(point.clients, *point.site.think)
    requests = Requests(
        trace=_arrivals(point, seed), slo_s=point.slo_s, seed=seed, predict_depth=point.site.keys.predict_depth,
        clients=clients,
    )  # fmt: skip
    return prepare_requests(networks, requests, requests.read())


class GridRun(NamedTuple):
    """A run of a grid: its point, its contender, the table that serves, and the seed of its traffic."""

    point: GridPoint
    contender: Contender
    engine: ServingTable
    seed: int

    def key(self) -> dict[str, Any]:
        """All that the run depends on, but its latency table; no ``cv`` for Poisson arrivals."""
        return {
            "policy": self.contender.policy.spec,
            "policy_sha256": self.contender.source_sha256,
            "slo_s": self.point.slo_s,
            "rate_per_s": self.point.rate_per_s,
            **self.point.site.keys.drawn,
            **self.point.closed,
            **stated_for(self.point.site.names, {"networks": self.point.site.key}),
            "trace_sha256": self.point.site.trace_sha256,
            "requests": self.point.requests,
            "seed": self.seed,
            "made_with": made_with(),  # a run before an edit of our sources is no evidence after it
        }

    def table(self) -> RunTable:
        """Simulate it; this touches no file."""
        try:
            served = traffic(self.point, self.engine.networks, self.seed)
            replay = simulate(self.engine.networks, served, self.contender.policy)
        except InputError as error:
            where = f'case "{self.point.site.keys.label}", contender "{self.contender.name}"'
            raise InputError([f"{where}: {fault}" for fault in error.faults]) from None
        figures = figures_of(replay)
        taken = {
            figure.key: (figure.of(figures.whole), figure.interval_of(figures.whole).interval) for figure in COMPARED
        }
        taken |= {
            key_of(figure, name): (figure.of(own), figure.interval_of(own).interval)
            for name, own in figures.networks.items()
            for figure in OF_EACH
        }
        if not replay.traffic.clients:
            taken["unavoidable_rate"] = least_violations(replay) / figures.whole.requests, None
        # a latency is infinite where requests were dropped or refused
        stated = {key: value for key, (value, _) in taken.items() if value is not None and isfinite(value)}
        intervals = {key: interval for key, (_, interval) in taken.items() if interval}
        whole = served.whole
        sent = b"" if whole.think_s is None else whole.think_s.tobytes()
        if whole.think_s is None or served.clients:  # else none arrives by itself
            sent = whole.trace.arrival_s.tobytes() + sent
        digest = hashlib.sha256(sent + whole.exits.tobytes()).hexdigest()
        return RunTable(
            inputs=self.engine.inputs, key=self.key(), traffic_sha256=digest, figures=stated, intervals=intervals
        )


def run_each(runs: Sequence[GridRun], store: Store, at: Workers) -> Iterator[tuple[int, RunTable, bool]]:
    """Make runs, or take what an earlier comparison kept."""
    keys = [[run.engine.inputs, run.key()] for run in runs]
    missing = []
    for index, key in enumerate(keys):
        kept = store.read(RunTable, RUNS, key)
        if kept is not None and [kept.inputs, kept.key] == key:
            yield index, kept, True
        else:
            missing.append(index)
    for which, table in in_order(at.map(_table, runs, missing)):
        index = missing[which]
        store.keep(table, RUNS, keys[index])
        yield index, table, False


def _table(runs: Sequence[GridRun], index: int) -> RunTable:
    return runs[index].table()
