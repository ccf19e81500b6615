"""The networks that a device serves, one or several, and their file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field

from ..formats import AnyPath, InputError, Strict, parse_duration, read_toml
from ..tables.files import TABLE_FILES
from ..tables.latency import LatencyTable
from ..traffic.clients import RECORDED, Clients
from ..traffic.columns import Name
from ..traffic.distributions import Objective
from ..traffic.exits import parse_thresholds
from ..traffic.own import OwnTraffic
from ..traffic.request_columns import parse_slo
from ..traffic.samples import Samples, as_samples, read_samples
from .admission import Admission, parse_admission
from .designs import NamedTable, check_one_npu
from .inputs import AnyPolicy, AnyTable, AnyThresholds, as_scheduler, as_table
from .scheduler import Scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedNetwork:
    """A network that a device serves.

    Attributes
    ----------
    name : str
        Its name, as the column ``network`` of a trace has it; empty of the only network of a device, which needs none.
    table : LatencyTable, str or Path
        Its times on the device, or the folder that holds them.
    slo_s : float, Distribution or Shares, optional
        Latency objective of its requests in seconds, where neither they nor the study state one.
    samples : Samples, str or Path, optional
        Confidences and answers that its requests draw from, or their file.
    threshold : Threshold or sequence of Threshold, optional
        Value of the measure at which its samples leave, as :func:`fluidb.serving.serve` takes it.
    share : float
        Its part of the requests that state no network; parts need not sum to 1.
    weight : float
        Its part of the device under ``between=shares``; parts need not sum to 1.
    switch_s : float
        Seconds to load its weights on a lane that ran another network.
    admit : str or Admission, optional
        Which of its requests may wait, e.g. ``"queue:8"``; by default as the policy states it.
    cores : sequence of int, optional
        The cores that serve it, counted from 1, where the table has several; all of them if not stated.
    priority : int, optional
        Its place under ``between=priority``, where the least number goes first.
    traffic : OwnTraffic, optional
        Its own requests; either every network has some, or none.

    Raises
    ------
    InputError
        If the name is none, or a number is out of bounds.
    """

    name: str = ""
    table: AnyTable
    slo_s: Objective | None = None
    samples: Samples | AnyPath | None = None
    threshold: AnyThresholds = None
    share: float = 1.0
    weight: float = 1.0
    switch_s: float = 0.0
    admit: Admission | str | None = None
    cores: Sequence[int] | None = None
    priority: int | None = None
    traffic: OwnTraffic | None = None

    def __post_init__(self) -> None:
        if self.name and not Name().fits(self.name):
            raise InputError(f'networks: name: expected {Name().expected}, found "{self.name}"')
        for key, least, given in (("share", 0, self.share), ("switch_s", 0, self.switch_s)):
            if not least <= given < math.inf:
                raise InputError(f"networks: {self.name}: {key}: expected a number >= 0, found {given:g}")
        if not 0 < self.weight < math.inf:
            raise InputError(f"networks: {self.name}: weight: expected a number > 0, found {self.weight:g}")
        _ = self.limit  # a fault is found now

    @property
    def limit(self) -> Admission | None:
        """The rule of ``admit``."""
        return parse_admission(self.admit, "admit") if isinstance(self.admit, str) else self.admit

    @property
    def latency(self) -> LatencyTable:
        """Its latency table."""
        return as_table(self.table)

    @property
    def key(self) -> dict[str, str]:
        """All that its service depends on beside its table; of a trace and of samples the digests."""
        key = {name: repr(getattr(self, name)) for name in KEPT}
        if self.samples is not None:
            key["samples"] = as_samples(self.samples).digest()
        return key if self.traffic is None else key | {"traffic": self.traffic.key}

    def about(self, faults: Sequence[str], told: str = 'network "{}": {}') -> list[str]:
        """Faults, with its name if it has one."""
        return [told.format(self.name, fault) if self.name else fault for fault in faults]


KEPT = [field.name for field in fields(ServedNetwork) if field.name not in ("table", "samples", "traffic")]
"""Fields whose text says all that they hold."""


def _as_text(value: object) -> object:
    """A number as an option has it; anything else as it is."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


class NetworkKeys(Strict):
    """A network in the file of several: :class:`ServedNetwork`, with durations and thresholds as options have them."""

    name: Annotated[str, Field(min_length=1)]
    table: str | None = None
    network: str | None = None  # for a plan, which makes tables of it
    slo: str | None = None
    samples: str | None = None
    threshold: Annotated[str | None, BeforeValidator(_as_text)] = None
    share: Annotated[float, Field(ge=0)] = 1.0
    weight: Annotated[float, Field(gt=0)] = 1.0
    switch: str = "0"
    admit: str | None = None
    cores: list[int] | None = None
    priority: int | None = None
    trace: str | None = None
    rate: Annotated[float, Field(gt=0)] | None = None
    fps: Annotated[float, Field(gt=0)] | None = None
    jitter: str | None = None
    clients: int | None = None
    think: str | None = None
    count: int | None = None

    def served(self, folder: Path, lasts_s: float, table: LatencyTable | None = None) -> ServedNetwork:
        """The network, perhaps with a table in place of its own; paths start from the file's folder."""
        if table is None and self.table is None:
            raise InputError(
                "table: expected the folder of its latency table, found none; state it, or let `fluidb plan` search "
                "the hardware"
            )
        return ServedNetwork(
            name=self.name,
            table=folder / str(self.table) if table is None else table,
            slo_s=None if self.slo is None else parse_slo(self.slo),
            samples=None if self.samples is None else read_samples(folder / self.samples),
            threshold=None if self.threshold is None else parse_thresholds(self.threshold),
            share=self.share,
            weight=self.weight,
            switch_s=parse_duration(self.switch, "switch", zero=True),
            admit=self.admit,
            cores=self.cores,
            priority=self.priority,
            traffic=self._traffic(folder, lasts_s),
        )

    def _traffic(self, folder: Path, lasts_s: float) -> OwnTraffic | None:
        """Its own requests, if it states any."""
        keys = ("trace", "rate", "fps", "jitter", "clients", "think", "count")
        if all(getattr(self, key) is None for key in keys):
            return None
        if self.think is not None and self.clients is None:
            raise InputError("think: expected clients beside it, found none; leave it out")
        clients = None if self.clients is None else Clients.of(self.clients, self.think, folder)
        return OwnTraffic(
            trace=None if self.trace is None else folder / self.trace,
            rate_per_s=self.rate,
            frames_per_s=self.fps,
            jitter_s=0.0 if self.jitter is None else parse_duration(self.jitter, "jitter", zero=True),
            clients=clients,
            count=self.count,
            lasts_s=lasts_s,
        )


class NetworksFile(Strict):
    """Several networks as a file, ``fluidb.networks/1``."""

    schema_: Annotated[Literal["fluidb.networks/1"], Field(alias="schema")]
    duration: str | None = None  # of the traffic that networks have for themselves
    networks: Annotated[list[NetworkKeys], Field(min_length=1)]


def check_networks(networks: Sequence[ServedNetwork]) -> None:
    """Refuse no network, two of one name, several without, and shares that say nothing."""
    names = [network.name for network in networks]
    if not names:
        raise InputError("networks: expected at least one, found none")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f'networks: expected every name once, found "{twice}" twice')
    if 0 < names.count("") < len(names):
        raise InputError("networks: expected a name of each where there are several, found one without")
    if not 0 < sum(network.share for network in networks) < math.inf:
        raise InputError("networks: share: expected at least one share above 0, found a sum of 0; state e.g. 1")
    first = {network.priority: network.name for network in reversed(networks)}
    for network in networks:
        if network.priority is not None and first[network.priority] != network.name:
            raise InputError(
                f"networks: priority: expected a number of each network's own, found {network.priority} of "
                f'"{first[network.priority]}" and "{network.name}"'
            )
    idle = [network.name for network in networks if network.traffic is None]
    if 0 < len(idle) < len(networks):
        raise InputError(
            f'networks: expected traffic of every network or of none, found none of "{idle[0]}"; state its trace, '
            "rate, fps or clients"
        )


def read_networks(path: AnyPath, tables: Sequence[LatencyTable] | None = None) -> list[ServedNetwork]:
    """Read the networks of a device.

    Parameters
    ----------
    path : str or Path
        A TOML file, ``fluidb.networks/1``, whose paths start from its folder; or the folder of a latency table, whose
        network has no name.
    tables : sequence of LatencyTable, optional
        Tables of other hardware, in place of those that the file names.

    Returns
    -------
    list of ServedNetwork
        With their latency tables and samples read.

    Raises
    ------
    InputError
        If the file or a table cannot be read, or a name stands twice; every fault has a line with its key.
    """
    (file, wheres), networks, faults = _stated_in(path), [], []
    lasts_s = math.inf
    if file.duration is not None:
        try:
            lasts_s = parse_duration(file.duration, "duration")
        except InputError as error:
            raise InputError([f"{path}: {fault}" for fault in error.faults]) from None
    for index, (keys, where) in enumerate(zip(file.networks, wheres, strict=True)):
        try:
            network = keys.served(Path(path).parent, lasts_s, None if tables is None else tables[index])
            networks.append(replace(network, table=network.latency))
        except InputError as error:
            faults += [f"{where}{fault}" for fault in error.faults]
    if faults:
        raise InputError(faults)
    try:
        check_networks(networks)
        if file.duration is not None and networks[0].traffic is None:
            raise InputError("duration: expected traffic of each network, which it ends, found none; leave it out")
        pairs = zip(file.networks, networks, strict=True)
        check_one_npu([NamedTable(keys.table or keys.name, network.latency, keys.share) for keys, network in pairs])
    except InputError as error:
        raise InputError([f"{path}: {fault}" for fault in error.faults]) from None
    return networks


def _stated_in(path: AnyPath) -> tuple[NetworksFile, list[str]]:
    """What a file of networks states, before their tables are read, and where it states each.

    The folder of a table states a network without a name.
    """
    if Path(path).suffix == ".toml":
        file = read_toml(NetworksFile, path)
        return file, [f'{path}: networks[{index}] ("{keys.name}"): ' for index, keys in enumerate(file.networks)]
    alone = NetworkKeys.model_construct(name="", table=Path(path).name)
    return NetworksFile.model_construct(schema_="fluidb.networks/1", networks=[alone]), [""]


def named_in(path: AnyPath) -> list[str]:
    """The names of the networks of a file, before their tables are read; none of the folder of a table."""
    return names_of(_stated_in(path)[0].networks)


def files_of(path: AnyPath) -> list[Path]:
    """The files that a file of networks names, and itself, which an output must not replace; of a folder its tables."""
    files, folder = [Path(path)], Path(path).parent
    for keys in _stated_in(path)[0].networks:
        files += [] if keys.table is None else [folder / keys.table / name for name in TABLE_FILES]
        files += [folder / name for name in (keys.samples, keys.trace) if name is not None]
        if keys.think is not None and keys.think.startswith(RECORDED):
            files.append(folder / keys.think.removeprefix(RECORDED))
    return files


ONLY_NAMED = {"between", "networks"}
"""Parts of an output that only networks with names have."""

ONLY_UNNAMED = {"network", "measure", "threshold", "exit_shares"}
"""Parts that a network without a name has instead: it is alone, so they stand among the figures of all requests."""

Part = TypeVar("Part")

AnyServed = AnyTable | Sequence[ServedNetwork]
"""A latency table, which serves one network, or the networks of a device; or the folder or file of either."""


def as_served(given: AnyServed, threshold: AnyThresholds = None) -> tuple[ServedNetwork, ...]:
    """The networks of a device, with their tables read; ``threshold`` is for those that state none."""
    if isinstance(given, str | PathLike):
        given = read_networks(given)
    elif isinstance(given, LatencyTable):
        given = [ServedNetwork(table=given)]
    check_networks(given)
    networks = tuple(
        replace(network, table=network.latency, threshold=threshold if network.threshold is None else network.threshold)
        for network in given
    )
    check_one_npu([NamedTable(network.name, network.latency, network.share) for network in networks])
    return networks


def names_of(networks: Iterable[ServedNetwork | NetworkKeys]) -> list[str]:
    """The names of networks; none of one that has none."""
    return [network.name for network in networks if network.name]


def stated_for(names: Iterable[str], parts: Mapping[str, Part]) -> dict[str, Part]:
    """The parts of an output that suit networks with these names: this alone knows what one without a name lacks."""
    others = ONLY_UNNAMED if any(names) else ONLY_NAMED
    return {key: part for key, part in parts.items() if key not in others}


def scheduler_on(networks: Sequence[ServedNetwork], policy: AnyPolicy) -> Scheduler:
    """The policy of a device: of a network without a name with the batch size of its plan, and no rule ``between``."""
    if names_of(networks):
        return as_scheduler(policy)
    scheduler = as_scheduler(policy, networks[0].latency)
    if scheduler.between is not None:
        raise InputError(f"policy {scheduler.spec}: between: expected several networks, found one; leave it out")
    return scheduler


def ends_of(networks: Sequence[ServedNetwork]) -> dict[float, tuple[ServedNetwork, ...]]:
    """The networks where the times of a calibrated engine are at each end of its error, by their factor."""
    return {
        factor: tuple(replace(network, table=network.latency.slower(factor)) for network in networks)
        for factor in networks[0].latency.ends
    }
