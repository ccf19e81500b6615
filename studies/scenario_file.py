"""The scenario file: its keys, and what they may state (``docs/compare.md``)."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from ..dse.npu.choices import GOALS
from ..dse.npu.options import SearchOptions
from ..dse.npu.tiles import Tile
from ..formats import InputError, Strict, parse_bandwidth, parse_duration, shown, with_fields
from ..traffic.additions import parse_columns
from ..traffic.arrivals.renewal import CVS
from ..traffic.clients import MOST as MOST_CLIENTS
from ..traffic.clients import RECORDED, parse_think
from ..traffic.request_columns import REQUEST_COLUMNS, Columns, RequestColumn

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

    def check_list(entries: list[Any] | None) -> list[Any] | None:
        keys = [name(entry) for entry in entries or []]
        for index in range(len(keys)):
            if keys[index] in keys[:index]:
                raise ValueError(f"expected every {what} once, found {json.dumps(keys[index])} twice")
        return entries

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
    checks = {column.key: typed[column.kind, _checked(partial(_read, column))] for column in REQUEST_COLUMNS}
    return with_fields(keys, {key: (check | None, None) for key, check in checks.items()})


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
        _once("name (stated, or NETWORK on PLATFORM, or the table's folder)", lambda case: case.label),
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
