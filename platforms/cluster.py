"""The kind ``cluster``: unequal devices on one computer network that run one neural network together (EdgeSP)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ..formats import Strict, by_name
from .platform import NAME, Platform

MAX_MEMBERS = 64
"""Most devices of a cluster."""

MemberName = Annotated[str, NAME.validator]
Mbit = Annotated[float, Field(ge=1e-6, le=1e9)]
Latency = Annotated[float, Field(ge=0, le=1e3)]


class Communication(StrEnum):
    """Traffic of a device for a block (EdgeSP, Equation 3, and two readings of it)."""

    EQ3 = "eq3"
    """The rows of the block's input that it needs and the rows of its output: every boundary counts out and in."""
    ONCE = "once"
    """The rows of the input that it needs: every boundary counts once."""
    HALO = "halo"
    """The rows of the input that it needs and does not hold."""


class ClusterDevice(Strict):
    """A device of a cluster."""

    name: MemberName
    gflop_s: Annotated[float, Field(ge=0, le=1e9)]  # r_k in 1e9 operations; a device of 0 gets no rows
    layer_s: Annotated[float, Field(ge=0, le=1e3)] = 0.0  # b_k: fixed time of a layer with weights
    memory_gb: Annotated[float, Field(gt=0, le=1e6)]  # for weights and maps


class Link(Strict):
    """The connection of a device to the others."""

    device: MemberName
    mbit_s: Mbit
    latency_s: Latency = 0.0  # until the first byte of a transfer arrives


class Uplink(Strict):
    """One connection that all devices share: transfers follow each other."""

    mbit_s: Mbit
    latency_s: Latency = 0.0


class Cluster(Platform):
    """Devices that run one network together (``docs/edgesp.md``).

    Attributes
    ----------
    devices : list of ClusterDevice
        In the order of their rows; the first n of them are the cluster of n devices.
    links : list of Link
        One for each device, unless there is an uplink.
    uplink : Uplink, optional
        The connection that all share, instead of links.
    owner : str
        The device that holds the input.
    owner_has_input : bool
        Whether the owner receives nothing of the input; Equation 3 as printed charges it like the others.
    communication : Communication
        Traffic of a device for a block.
    word_bits : int
        Width of a value of a map and of a weight.
    sources : dict of str to str
        Source of each number, by key; numbers of devices and links have their own keys.
    """

    kind: ClassVar[str] = "cluster"
    table_made_by: ClassVar[str] = "make its table with `fluidb dse NETWORK {} -o DIR`"
    listed_as: ClassVar[str] = "clusters"
    headers: ClassVar[tuple[str, ...]] = ("cluster", "devices", "GFLOP/s", "Mb/s", "communication", "")
    no_numbers: ClassVar[set[str]] = Platform.no_numbers | {"devices", "links", "uplink", "owner"}

    schema_: Literal["fluidb.cluster/1"] = Field("fluidb.cluster/1", alias="schema")
    devices: Annotated[list[ClusterDevice], Field(min_length=1, max_length=MAX_MEMBERS)]
    links: list[Link] = []
    uplink: Uplink | None = None
    owner: MemberName
    owner_has_input: bool = True
    communication: Annotated[Communication, by_name(Communication)] = Communication.HALO
    word_bits: Annotated[int, Field(ge=1, le=64)] = 32
    sources: dict[str, str] = {}

    @model_validator(mode="after")
    def _all_connected(self) -> Self:
        names, linked = [device.name for device in self.devices], [link.device for link in self.links]
        faults = [f'expected a new name, found "{name}" twice' for name in names if names.count(name) > 1]
        if self.owner not in names:
            faults.append(f'owner: expected a device, found "{self.owner}"; these are {", ".join(names)}')
        if self.uplink is not None and linked:
            faults.append("links, uplink: expected one of the two, found both")
        if self.uplink is None:
            faults += [f'links: expected one for "{name}", found none' for name in names if name not in linked]
        faults += [f'links: expected devices, found "{name}"' for name in linked if name not in names]
        faults += [f'links: expected one for "{name}", found two' for name in names if linked.count(name) > 1]
        if not any(device.gflop_s for device in self.devices):
            faults.append("devices: expected one with gflop_s above 0, found none")
        if faults:
            raise ValueError("; ".join(dict.fromkeys(faults)))
        return self

    @classmethod
    def source_keys(cls) -> set[str]:
        """The keys of the file, and the keys of its devices and links."""
        return super().source_keys().union(ClusterDevice.model_fields, Link.model_fields)

    @property
    def shown(self) -> dict[str, Any]:
        """Its content to show: a key of the devices or links with the values of all of them."""
        content = super().shown
        for name in ("devices", "links", "uplink"):
            parts = content.pop(name) or []
            for part in [parts] if isinstance(parts, dict) else parts:
                for key, value in part.items():
                    content.setdefault(f"{name}.{key}", []).append(value)
        return content

    @property
    def unsourced(self) -> list[str]:
        """Keys of the numbers without a source."""
        parts = [*self.devices, *self.links, *([self.uplink] if self.uplink else [])]
        keys = [key for part in parts for key in part.model_dump(exclude={"name", "device"}, exclude_defaults=True)]
        return super().unsourced + [key for key in dict.fromkeys(keys) if key not in self.sources]

    @property
    def row(self) -> tuple[str, ...]:
        """Its main numbers as text."""
        rates = [link.mbit_s for link in self.links] or [self.uplink.mbit_s if self.uplink else 0.0]
        least, most = f"{min(rates):g}", f"{max(rates):g}"
        bandwidth = (least if least == most else f"{least} to {most}") + (" shared" if self.uplink else "")
        total = f"{sum(device.gflop_s for device in self.devices):g}"
        return self.name, str(len(self.devices)), total, bandwidth, self.communication, self.title

    @property
    def summary(self) -> str:
        """Its main numbers in one line."""
        _, devices, total, bandwidth, communication, _ = self.row
        return f"{devices} devices with {total} GFLOP/s, links of {bandwidth} Mb/s, communication {communication}"

    def with_bandwidth(self, mbit_s: float) -> Cluster:
        """The cluster with another bandwidth of every link, whose source says that the user gave it."""
        changed: dict[str, Any] = {"sources": self.sources | {"mbit_s": "given by the user"}}
        changed["links"] = [link.model_copy(update={"mbit_s": mbit_s}) for link in self.links]
        if self.uplink is not None:
            changed["uplink"] = self.uplink.model_copy(update={"mbit_s": mbit_s})
        return self.model_copy(update=changed)
