"""Time of a SubNet on an accelerator, layer by layer, with and without a resident SubGraph (SUSHI, Fig. 11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...formats import InputError
from ...formats.array_types import Floats
from ...models.supernets.sharing import shared
from ...tables.subgraphs import StageB, SubGraphTable
from .costs import SubNetArrays, compute_s, map_bytes


@dataclass(frozen=True, slots=True)
class Roofline:
    """The L layers of one SubNet, with an empty buffer and with one SubGraph resident."""

    table: SubGraphTable
    subnet: int  # index in the table
    state: int  # index of the SubGraph in the table
    layers: list[str]
    macs: Floats
    compute_s: Floats
    bytes_empty: Floats  # off chip, with an empty buffer
    bytes_resident: Floats  # off chip, with the SubGraph resident
    exposed_s: float  # time to fetch shared weights before a query with an empty buffer; 0 if that is hidden

    @property
    def empty_s(self) -> Floats:
        """Time of each layer with an empty buffer, if all weights are fetched during the query."""
        return np.maximum(self.compute_s, self.bytes_empty / self.table.accelerator.bytes_per_s)

    @property
    def resident_s(self) -> Floats:
        """Time of each layer with the SubGraph resident."""
        return np.maximum(self.compute_s, self.bytes_resident / self.table.accelerator.bytes_per_s)

    def memory_bound(self, moved: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Layers that wait for off-chip memory if each moves ``moved`` bytes."""
        return moved / self.table.accelerator.bytes_per_s > self.compute_s


def explain_pair(table: SubGraphTable, subnet: str | None = None, state: str | None = None) -> Roofline:
    """The layers of a SubNet with and without a SubGraph."""
    i = 0 if subnet is None else _place("subnet", subnet, [entry.name for entry in table.subnets])
    j = table.best if state is None else _place("state", state, [subgraph.name for subgraph in table.subgraphs])
    member, graph = table.subnets[i], table.subgraphs[j]
    boxes = np.array([member.K, member.C, member.R])
    work = SubNetArrays(
        np.vstack([boxes, [member.Q]])[None],
        np.array([member.inputs]),
        np.array([member.outputs]),
        np.array([layer.depthwise for layer in table.layers]),
    )
    chip, size = table.accelerator, table.accelerator.word_bits / 8
    K, C, R = shared([boxes, np.array([graph.K, graph.C, graph.R])])
    resident = K * C * R**2 * size
    whole = work.weights[0] * size + map_bytes(work, chip, table.options.maps)[0]
    present = work.weights[0] > 0
    times = compute_s(work, chip)[0, 0]
    hidden_s = float(np.maximum(times, whole / chip.bytes_per_s).sum())
    exposed = table.options.stage_b is StageB.EXPOSED
    return Roofline(
        table=table,
        subnet=i,
        state=j,
        layers=[layer.name for layer, here in zip(table.layers, present, strict=True) if here],
        macs=(work.weights[0] * work.extents[0, 3])[present].astype(np.float64),
        compute_s=times[present],
        bytes_empty=whole[present],
        bytes_resident=(whole - resident)[present],
        exposed_s=table.time_s[i][0] - hidden_s if exposed else 0.0,
    )


def _place(parameter: str, name: str, names: list[str]) -> int:
    if name in names:
        return names.index(name)
    some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    raise InputError(f'{parameter}: expected one of {some}, found "{name}"')
