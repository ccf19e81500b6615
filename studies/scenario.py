"""The scenario file (``docs/compare.md``), and the grid of points that is made from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
from pydantic import AfterValidator, Field, ValidationInfo, create_model, field_validator, model_validator

from ..dse.npu.choices import GOALS
from ..dse.npu.options import SearchOptions
from ..dse.npu.space import check_fit
from ..dse.npu.tiles import Tile
from ..formats import (
    AnyPath,
    Catalogue,
    InputError,
    Strict,
    open_input,
    parse_bandwidth,
    parse_duration,
    read_toml,
    shown,
)
from ..models import NETWORKS, Exit, Network, load_network
from ..platforms import PLATFORMS, Board, load_platform
from ..serving.inputs import Requests
from ..serving.networks import ServedNetwork, as_served, names_of, prepare_requests
from ..serving.scheduler import Scheduler, find_policy
from ..traffic.additions import add_columns, parse_columns, useless
from ..traffic.arrivals import offline
from ..traffic.arrivals.renewal import CVS
from ..traffic.clients import MOST as MOST_CLIENTS
from ..traffic.clients import RECORDED, parse_think
from ..traffic.exits import check
from ..traffic.reading import read_trace
from ..traffic.request_columns import REQUEST_COLUMNS, Columns, RequestColumn
from ..traffic.trace import Trace

SCENARIOS = Catalogue("scenario", Path(__file__).parent / "scenarios", "fluidb compare --help")
"""The scenarios that ship."""

MAX_REQUESTS = 10**7
"""Most requests of a run: their arrays fill a few GB."""

MAX_SEEDS = 1000
"""Most seeds; intervals are narrow with far fewer."""

DRAWN = ("cv", "offline", *(column.key for column in REQUEST_COLUMNS))
"""Keys of a case that say how its arrivals and columns are drawn, beside the rate."""


def _checked(read: Callable[[Any], object]) -> AfterValidator:
    """A value as the file writes it, which must be readable."""

    def check_value(value: object) -> object:
        read(value)
        return value

    return AfterValidator(check_value)


def _once(what: str, name: Callable[[Any], object] = lambda entry: entry) -> AfterValidator:
    """Refuse a list in which two items have the same name or value: their points could not be told apart."""

    def check_list(items: list[Any] | None) -> list[Any] | None:
        keys = [name(entry) for entry in items or []]
        for index in range(len(keys)):
            if keys[index] in keys[:index]:
                raise ValueError(f"expected every {what} once, found {json.dumps(keys[index])} twice")
        return items

    return AfterValidator(check_list)


Name = Annotated[str, Field(min_length=1, max_length=80)]

Keys = TypeVar("Keys", bound=Strict)


def _read(column: RequestColumn, value: Any) -> object:
    """The values that a key draws; faults come without the key, as the reader of the file adds it."""
    try:
        return column.read(value, column.key)
    except InputError as error:
        raise InputError(fault.removeprefix(f"{column.key}: ") for fault in error.faults) from None


def with_columns(keys: type[Keys]) -> type[Keys]:
    """The keys, with one for each column of requests that can be drawn; what it says must be readable."""
    typed: Any = Annotated
    more: dict[str, Any] = {
        column.key: (
            typed[column.kind, _checked(partial(_read, column))] | None,
            None,
        )
        for column in REQUEST_COLUMNS
    }
    return create_model(keys.__name__, __base__=keys, __module__=keys.__module__, __doc__=keys.__doc__, **more)


def _check_think(text: str) -> None:
    """Refuse a think time that is none; a file is looked for later, from the scenario's folder."""
    if not text.startswith(RECORDED):
        parse_think(text)


class EngineKeys(SearchOptions):
    """Options of the search for the NPU of a contender: :class:`fluidb.dse.SearchOptions`, or a single batch size."""

    # the only batch size that counts in the search, in place of weights
    search_batch: Annotated[int, Field(ge=1)] | None = None

    @field_validator("objective", mode="before")
    @classmethod
    def _one_that_can_be_named(cls, value: object) -> object:
        if value not in GOALS:
            raise ValueError(f"expected one of {', '.join(GOALS)}, found {shown(value)}")
        return value

    @model_validator(mode="after")
    def _batch_or_weights(self) -> Self:
        if self.search_batch is not None and self.weights:
            raise ValueError("search_batch: expected weights or search_batch, found both")
        if self.search_batch is not None and self.search_batch > self.b_max:
            raise ValueError(f"search_batch: expected at most b_max = {self.b_max}, found {self.search_batch}")
        return self

    def options(self) -> SearchOptions:
        """The options as the search takes them."""
        weights = self.weights
        if self.search_batch is not None:
            weights = [float(b == self.search_batch) for b in range(1, self.b_max + 1)]
        return SearchOptions(**self.model_dump(exclude={"search_batch", "weights"}), weights=weights)


class ContenderKeys(Strict):
    """A contender: a policy, as :func:`fluidb.serving.find_policy` reads it, on an NPU searched for it, or a table."""

    name: Name
    policy: Name
    engine: EngineKeys = EngineKeys()


@with_columns
class CaseKeys(Strict):
    """A case: network and board, or the folder of a latency ``table`` for all contenders; objectives; traffic.

    ``table`` may also be the file of several networks, which then state their objectives, and perhaps their traffic.

    Traffic is ``rates`` in requests/s, Poisson or gamma with a ``cv``; a ``trace``; ``offline``, all waiting at time
    0; or ``clients``, numbers of them that wait for their answers and ``think``. ``slos`` are objectives
    that all requests of a run share, a point of the grid each; ``slo`` is a distribution of their own. Columns of
    requests have the keys that ``trace add`` has as options.
    """

    name: Name | None = None
    network: Name | None = None
    platform: Name | None = None
    table: Name | None = None
    bandwidth: Annotated[str, _checked(parse_bandwidth)] | None = None
    slos: (
        Annotated[
            list[Annotated[str, _checked(parse_duration)]],
            Field(min_length=1),
            _once("SLO", lambda text: f"{parse_duration(text):.9g}"),  # 400us and 0.4ms differ in the last bit
        ]
        | None
    ) = None
    slo: str | None = None
    rates: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1), _once("rate")] | None = None
    cv: Annotated[float, Field(ge=CVS[0], le=CVS[1])] | None = None
    trace: Name | None = None
    offline: bool = False
    clients: (
        Annotated[list[Annotated[int, Field(ge=1, le=MOST_CLIENTS)]], Field(min_length=1), _once("number of clients")]
        | None
    ) = None
    think: Annotated[str, _checked(_check_think)] | None = None
    predict_depth: float | None = None
    tiles: dict[str, Tile] = {}

    @model_validator(mode="after")
    def _board_or_table(self) -> CaseKeys:
        given = [name for name in ("network", "platform", "bandwidth", "tiles", "table") if getattr(self, name)]
        if given != ["table"] and (self.table is not None or given[:2] != ["network", "platform"]):
            keys = ", ".join(given) or "none of them"
            raise ValueError(f"expected network and platform, or table alone, found {keys}")
        return self

    @model_validator(mode="after")
    def _one_traffic(self) -> CaseKeys:
        given = {"rates": self.rates is not None, "trace": self.trace is not None, "offline": self.offline}
        given["clients"] = self.clients is not None
        keys = [name for name, there in given.items() if there]
        if len(keys) != 1 and not self.own:
            raise ValueError(
                f"expected rates, trace, offline = true or clients, found {' and '.join(keys) or 'none of them'}"
            )
        for name, there, partner in (("cv", self.cv, "rates"), ("think", self.think, "clients")):
            if there is not None and keys != [partner]:
                raise ValueError(f"expected {name} with {partner} only, found it with {keys[0] if keys else 'neither'}")
        return self

    @model_validator(mode="after")
    def _one_kind_of_objectives(self) -> CaseKeys:
        given = [name for name in ("slos", "slo") if getattr(self, name) is not None]
        if self.several:
            drawn = [column.key for column in REQUEST_COLUMNS if getattr(self, column.key) is not None]
            if given or drawn:
                raise ValueError(
                    f"expected neither objectives nor columns beside several networks, found {[*given, *drawn][0]}; "
                    "state slo of each network in its file"
                )
        elif len(given) == 2 or not (given or self.trace):
            raise ValueError(
                f"expected slos, slo or a trace with a column slo_s, found {' and '.join(given) or 'none'}"
            )
        return self

    @property
    def several(self) -> bool:
        """Whether its table is the file of several networks."""
        return self.table is not None and self.table.endswith(".toml")

    @property
    def own(self) -> bool:
        """Whether it states no traffic, as each of several networks has its own."""
        return self.several and (self.rates, self.trace, self.offline, self.clients) == (None, None, False, None)

    @property
    def columns(self) -> Columns:
        """Columns that are drawn, beside predicted exits or steps."""
        keys = {column.key for column in REQUEST_COLUMNS} - {"predict_depth"}
        return parse_columns(**self.model_dump(include=keys))

    @property
    def drawn(self) -> dict[str, Any]:
        """Arrivals and columns that are drawn, as the file says it."""
        return self.model_dump(include=set(DRAWN))

    @property
    def label(self) -> str:
        """Its name; or network, board and bandwidth; or its table's folder."""
        if self.name or self.network is None or self.platform is None:
            return self.name or Path(str(self.table)).name
        at = f" at {self.bandwidth}" if self.bandwidth else ""
        return f"{Path(self.network).stem} on {Path(self.platform).stem}{at}"


class ScenarioFile(Strict):
    """A scenario as a file, ``fluidb.scenario/1`` (``docs/compare.md``)."""

    schema_: Annotated[Literal["fluidb.scenario/1"], Field(alias="schema")]
    title: Name  # one line
    # requests of a run with drawn arrivals, or of one in which all wait at time 0; a trace is replayed whole
    requests: Annotated[int, Field(ge=2, le=MAX_REQUESTS)] | None = None
    # a run of every point and contender for each
    seeds: Annotated[
        list[Annotated[int, Field(ge=0, lt=2**63)]], Field(min_length=1, max_length=MAX_SEEDS), _once("seed")
    ]
    contenders: Annotated[list[ContenderKeys], Field(min_length=1), _once("name", lambda contender: contender.name)]
    baseline: str  # the contender that differences are taken to
    cases: Annotated[
        list[CaseKeys],
        Field(min_length=1),
        _once("name (by default NETWORK on PLATFORM, or the table's folder)", lambda case: case.label),
    ]
    sources: dict[str, str] = {}  # where the choices come from, by key

    @field_validator("baseline")
    @classmethod
    def _baseline_competes(cls, value: str, info: ValidationInfo) -> str:
        names = [contender.name for contender in info.data.get("contenders", [])]
        if names and value not in names:
            raise ValueError(f'expected the name of a contender ({", ".join(names)}), found "{value}"')
        return value

    @field_validator("cases")
    @classmethod
    def _cases_once(cls, value: list[CaseKeys], info: ValidationInfo) -> list[CaseKeys]:
        drawn = any(case.trace is None and not case.own for case in value)
        if "requests" in info.data and info.data["requests"] is None and drawn:
            raise ValueError("rates, offline and clients need the key requests at the top of the file, found none")
        names = [contender.name for contender in info.data.get("contenders", [])]
        strangers = [name for case in value for name in case.tiles if names and name not in names]
        if strangers:
            raise ValueError(f'tiles: expected the names of contenders ({", ".join(names)}), found "{strangers[0]}"')
        searched = [
            contender.name for contender in info.data.get("contenders", []) if "engine" in contender.model_fields_set
        ]
        if searched and all(case.table is not None for case in value):
            raise ValueError(
                f'expected a case with network and platform for the key engine of contender "{searched[0]}", found '
                "tables only"
            )
        return value


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
        return cls(tuple(networks), [network.key for network in networks] if names_of(networks) else [])

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
        if trace.slo_s is None and keys.slos is None and keys.slo is None and not keys.several:
            faults.append(f"{where}.trace: {file}: expected a column slo_s, or the key slos or slo, found none of them")
    think = faults.catch(f"{where}.think", lambda: parse_think(keys.think or "0", "think", folder))
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
