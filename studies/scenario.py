"""A scenario (``docs/compare.md``), loaded, and the grid of points that is made from its file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..dse.npu.options import SearchOptions
from ..dse.npu.space import check_fit
from ..dse.npu.tiles import Tile
from ..formats import AnyPath, Catalogue, InputError, open_input, parse_bandwidth, parse_duration, read_toml
from ..models import NETWORKS, Exit, Network, load_network
from ..platforms import PLATFORMS, Board, load_platform
from ..serving.device_traffic import prepare_requests
from ..serving.inputs import Requests
from ..serving.networks import ServedNetwork, as_served, names_of
from ..serving.scheduler import Scheduler, find_policy
from ..traffic.additions import add_columns, useless
from ..traffic.arrivals import offline
from ..traffic.clients import parse_think
from ..traffic.exits import check
from ..traffic.reading import read_trace
from ..traffic.trace import Trace
from .scenario_file import CaseKeys, ScenarioFile

SCENARIOS = Catalogue("scenario", Path(__file__).parent / "scenarios", "fluidb compare --help")
"""The scenarios that ship."""


@dataclass(frozen=True, slots=True)
class Contender:
    """An entry of a scenario, ready to run."""

    name: str  # its name
    policy: Scheduler  # its policy with parameters; policy.spec is the text of the file
    options: SearchOptions  # of the search for its NPU

    @property
    def source_sha256(self) -> str | None:
        """Digest of the user's file that the policy comes from."""
        return None if self.policy.source is None else hashlib.sha256(self.policy.source).hexdigest()


class Npu(NamedTuple):
    """A network on a board, for which an NPU is searched."""

    network: Network
    platform: Board


@dataclass(frozen=True, slots=True)
class Served:
    """The networks of a device, with their latency tables."""

    networks: tuple[ServedNetwork, ...]
    key: list[dict[str, str]]  # all that the service of networks with names depends on beside the tables

    @classmethod
    def of(cls, networks: Sequence[ServedNetwork]) -> Served:
        """The networks, as they were read."""
        return cls(tuple(networks), [network.key for network in networks])

    @property
    def names(self) -> list[str]:
        """The names of networks that have one."""
        return names_of(self.networks)


@dataclass(frozen=True, slots=True)
class Site:
    """A case of the file (``keys``) with its network and board, or its table, and its trace if there is one."""

    keys: CaseKeys
    on: Npu | Served
    trace: Trace | None
    trace_sha256: str | None
    think: tuple[float | tuple[float, ...], bool]  # of clients, as ``Clients`` takes it

    @property
    def npu(self) -> Npu:
        """Network and board, of a case without a table."""
        assert isinstance(self.on, Npu)
        return self.on

    def with_npu(self, **changes: Any) -> Site:
        """The same with another network or board."""
        return replace(self, on=self.npu._replace(**changes))

    @property
    def exits(self) -> list[Exit]:
        """The exits of its network, or of the first."""
        return self.on.network.exits if isinstance(self.on, Npu) else self.on.networks[0].latency.exits

    @property
    def key(self) -> list[dict[str, str]]:
        """All that the service of networks with names depends on beside the tables."""
        return [] if isinstance(self.on, Npu) else self.on.key

    @property
    def names(self) -> list[str]:
        """Names of the networks that a file of them has."""
        return [] if isinstance(self.on, Npu) else self.on.names

    def options(self, contender: Contender) -> SearchOptions:
        """The search for the NPU of a contender here."""
        tile = self.keys.tiles.get(contender.name)
        return contender.options.model_copy(update={"tile": tile and Tile(*tile)})


class GridPoint(NamedTuple):
    """A point of the grid: every contender runs there with every seed."""

    site: Site  # its case
    slo_s: float | None  # latency objective in seconds of all requests; None where each has its own
    rate_per_s: float | None  # rate of the drawn arrivals; None where a trace is replayed, or all wait at time 0
    requests: int  # requests of a run; 0 where each network has its own, whose number the seed decides
    clients: int | None = None  # that wait for their answers

    @property
    def closed(self) -> dict[str, Any]:
        """The clients and their think time, if there are any."""
        if self.clients is None:
            return {}
        times_s, digest = self.site.think[0], {}
        if isinstance(times_s, tuple):
            digest = {"think_sha256": hashlib.sha256(np.array(times_s).tobytes()).hexdigest()}
        return {"clients": self.clients, "think": self.site.keys.think or "0"} | digest


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, loaded."""

    file: ScenarioFile
    contenders: tuple[Contender, ...]  # the entries
    points: tuple[GridPoint, ...]  # cases, their latency objectives, their rates, in the order of the file

    @property
    def sha256(self) -> str:
        """Digest of the file's content."""
        content = self.file.model_dump(mode="json", by_alias=True)
        for case in content["cases"]:
            if case["clients"] is None:  # so that a file without clients keeps its digest of earlier versions
                del case["clients"], case["think"]
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


Loaded = TypeVar("Loaded")


class _Faults(list[str]):
    """Faults of the files that a scenario names, each with its key."""

    def catch(self, where: str, load: Callable[[], Loaded]) -> Loaded | None:
        """The result of ``load``; or ``None``, with its faults noted."""
        try:
            return load()
        except InputError as error:
            self += [f"{where}: {fault}" for fault in error.faults]
            return None


def beside(folder: Path, name: str, catalogue: Catalogue) -> str:
    """A shipped name as it is; a path from the scenario's folder."""
    path = "/" in name or name.partition(":")[0].endswith(".toml")  # of a SubNet, the path before the colon
    return str(folder / name) if path and name not in catalogue.names() else name


def _policy(folder: Path, spec: str) -> Scheduler:
    """A policy; a file of the user's is looked for from the scenario's folder."""
    policy = replace(find_policy(str(folder / spec) if ".py:" in spec else spec), spec=spec)
    policy.settings(1.0)  # a parameter that is a share of the SLO is checked now, too
    return policy


def _on(keys: CaseKeys, where: str, folder: Path, faults: _Faults) -> Npu | Served | None:
    """The site that a case runs on; ``None`` if that has faults."""
    if keys.network is None or keys.platform is None:
        return faults.catch(f"{where}.table", lambda: Served.of(as_served(folder / str(keys.table))))
    named, board = beside(folder, keys.network, NETWORKS), beside(folder, keys.platform, PLATFORMS)
    bandwidth = None if keys.bandwidth is None else parse_bandwidth(keys.bandwidth)
    network = faults.catch(f"{where}.network", lambda: load_network(named))
    platform = faults.catch(f"{where}.platform", lambda: load_platform(board, bandwidth))
    if network is None or platform is None:
        return None
    return Npu(network, platform)


def _site(keys: CaseKeys, where: str, folder: Path, faults: _Faults) -> Site | None:
    on = _on(keys, where, folder, faults)
    trace, digest = None, None
    if keys.trace is not None:
        file = folder / keys.trace
        trace = faults.catch(f"{where}.trace", lambda: read_trace(file))
        if trace is None:
            return None
        with open_input(file) as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # it has readinto
        if trace.slo_s is not None and keys.slos is not None:
            faults.append(f"{where}.trace: {file}: expected no column slo_s beside the key slos; remove one of them")
    think = faults.catch(f"{where}.think", lambda: parse_think(keys.think or "0", folder))
    faults.catch(where, lambda: add_columns(offline(1) if trace is None else trace, 0, keys.columns))
    if on is None or think is None:
        return None
    site = Site(keys, on, trace, digest, think)
    if isinstance(on, Served) and keys.own:
        if on.networks[0].traffic is None:
            faults.append(
                f"{where}: expected rates, trace, offline = true or clients, found none of them, and no traffic of "
                f"each network in {keys.table}"
            )
        else:
            faults.catch(where, lambda: prepare_requests(on.networks, Requests(), None))
        return site
    if isinstance(on, Served) and on.names:
        # a request of each network shows whether all is stated
        served = replace(offline(len(on.names)), network=np.array(on.names)) if trace is None else trace
        faults.catch(where, lambda: prepare_requests(on.networks, Requests(trace=served), served))
        return site
    table = on.networks[0].latency if isinstance(on, Served) else None  # an NPU has neither widths nor SubNets
    widths, subnets = (None, None) if table is None else (table.widths, table.subnets)
    idle = useless(keys.columns, widths=widths, steps=site.exits[-1].steps, subnets=subnets)
    faults += [f"{where}.{fault}" for fault in idle]
    if trace is not None:
        if trace.slo_s is None and keys.slos is None and keys.slo is None:
            faults.append(
                f"{where}.trace: {trace.source}: expected a column slo_s, or the key slos or slo, found none of them"
            )
        faults.catch(f"{where}.trace", lambda: check(trace, len(site.exits)))
    return site


def _check_fit(npu: Npu, options: SearchOptions) -> None:
    """Refuse a given design that does not fit its board."""
    if options.tile is not None:
        check_fit(options.supply(npu.network, npu.platform), options.tile)


def load_scenario(name: AnyPath) -> Scenario:
    """Load a scenario that ships, or the TOML file of one, and everything it refers to.

    Paths in it start from the file's folder; every fault of a file has a line with its key.

    >>> len(load_scenario("table2").points)
    4
    """
    path = SCENARIOS.find(name)
    file = read_toml(ScenarioFile, path)
    faults = _Faults()
    contenders: list[Contender] = []
    for index, entry in enumerate(file.contenders):
        where = f'{path}: contenders[{index}] ("{entry.name}").policy'
        policy = faults.catch(where, partial(_policy, path.parent, entry.policy))
        if policy is not None:
            contenders.append(Contender(entry.name, policy, entry.engine.options()))
    points: list[GridPoint] = []
    for index, case in enumerate(file.cases):
        label = f' ("{case.name}")' if case.name else ""
        site = _site(case, f"{path}: cases[{index}]{label}", path.parent, faults)
        if site is None:
            continue
        if isinstance(site.on, Npu):
            for contender in contenders:
                options = site.options(contender)
                where = f"{path}: cases[{index}]{label}.tiles.{contender.name}"
                faults.catch(where, partial(_check_fit, site.on, options))
        count = 0 if case.own else file.requests if site.trace is None else len(site.trace)
        assert count is not None  # the file's schema asks for it where there are rates
        rates: Sequence[float | None] = case.rates or [None]
        numbers: Sequence[int | None] = case.clients or [None]
        slos_s = [None] if case.slos is None else [parse_duration(text) for text in case.slos]
        points += [
            GridPoint(site, slo_s, rate, count, clients) for slo_s in slos_s for rate in rates for clients in numbers
        ]
    if faults:
        raise InputError(faults)
    return Scenario(file, tuple(contenders), tuple(points))
