"""Costs of blocks on a set of devices; every block and its shares are computed once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from ...formats.array_types import Bools, Floats, Ints
from ...models.network import Shape
from ...models.rows import Gate, RowNetwork, RowUnit, WholeLayer, WholeRun, block_rows
from ...platforms.cluster import Cluster, Communication
from . import kernels

Rows = Ints
"""Bounds of the devices' shares, (K + 1,): device k has the rows from ``rows[k]`` to ``rows[k + 1]``."""


class Span(NamedTuple):
    """A block: the units from ``first`` up to ``end`` of a chain."""

    chain: int  # index in ``RowNetwork.chains``: a branch, or the trunk as the last
    first: int
    end: int


class BlockCost(NamedTuple):
    """Costs of a block, by device, and the time until the last device has finished."""

    compute_s: Floats
    link_bytes: Floats
    time_s: Floats  # to compute and to communicate
    end_s: float
    gates: tuple[Gather, ...]  # where all devices wait inside the block


class Barrier(NamedTuple):
    """A gate in a block. A share from row o0 to row o1 has made ``flops_end[o1] - flops_first[o0]`` operations then."""

    flops_first: Floats
    flops_end: Floats
    products: int  # layers with weights that have run then
    gate: Gate


class Gather(NamedTuple):
    """Costs of layers that need a whole map, or averages of it: the time to gather these, and to compute."""

    sent_bytes: Floats  # by device, to the one that runs the layers
    gather_s: float
    compute_s: float

    @property
    def time_s(self) -> float:
        """Its time."""
        return self.gather_s + self.compute_s


class FixedMemory(NamedTuple):
    """Bytes that a network needs beside the maps of its blocks."""

    rows: float  # weights of the layers that run in rows, on every device that computes rows
    wholes: float  # weights of the layers on whole maps, on the device that runs them
    maps: float  # the largest map that is gathered, or maps that one of these layers reads and writes


class Blocks:
    """The blocks of a network, for any devices; ``word_bytes`` are the bytes of a value."""

    def __init__(self, network: RowNetwork, word_bytes: float) -> None:
        self.network, self.word_bytes = network, word_bytes
        units = [unit for chain in network.chains for unit in chain.units]
        rows = sum(layer.weights for unit in units for layer in unit.layers)
        wholes = sum(layer.weights for chain in network.chains for layer in chain.tail)
        wholes += sum(layer.weights for unit in units for gate in unit.gates for layer in gate.layers)
        runs = [run for number in range(len(network.exits)) for run in network.wholes(number)]
        maps = [run.gathered.words for run in runs if run.gathered]
        maps += [layer.read_words + layer.made_words for run in runs for layer in run.layers]
        self.beside = FixedMemory(*(word_bytes * words for words in (rows, wholes, max(maps, default=0))))
        self.fused, self.barriers = cache(self._fused), cache(self._barriers)

    def units(self, span: Span) -> Sequence[RowUnit]:
        """The units of a block."""
        return self.network.chains[span.chain].units[span.first : span.end]

    def needs(self, span: Span) -> dict[str, tuple[Rows, Rows]]:
        """The rows of every map that a share needs, in the form of ``block_rows``."""
        units = self.units(span)
        return block_rows([layer for unit in units for layer in unit.layers], units[0].entry, units[0].source)

    def _fused(self, span: Span) -> kernels.Block:
        """The block, from the one with the same end and without the first unit."""
        chain, first, end = span
        for later in range(end - 1, first, -1):
            self.fused(Span(chain, later, end))
        behind = self.fused(Span(chain, first + 1, end)) if first + 1 < end else None
        unit, last = self.network.chains[chain].units[first], self.network.chains[chain].units[end - 1]
        needs = block_rows(unit.layers, unit.entry, unit.source, behind and (behind.need_first, behind.need_end))
        source_bytes = self.word_bytes * unit.source.width * unit.source.channels
        source_rows = needs[unit.entry]
        flops, maps = np.zeros((2, last.shape.height + 1)), source_bytes * np.array(source_rows, dtype=float)
        layers = [layer for layer in unit.layers if layer.name in needs]
        for layer in layers:
            rows = np.array(needs[layer.name], dtype=float)
            flops += layer.row_flops * rows
            maps += self.word_bytes * layer.shape.width * layer.shape.channels * rows
        products = sum(layer.has_product for layer in layers)
        if behind is not None:
            flops += (behind.flops_first, behind.flops_end)
            products += behind.layers
            # the map between the two was counted as the input of the one behind
            between = self.word_bytes * unit.shape.width * unit.shape.channels
            maps += np.array([behind.map_first, behind.map_end])
            maps -= between * np.array([behind.need_first, behind.need_end])
        return kernels.Block(
            need_first=source_rows[0],
            need_end=source_rows[1],
            flops_first=flops[0],
            flops_end=flops[1],
            map_first=maps[0],
            map_end=maps[1],
            layers=products,
            source_height=unit.source.height,
            source_bytes=source_bytes,
            row_bytes=self.word_bytes * last.shape.width * last.shape.channels,
            is_first=chain == len(self.network.branches) and first == 0,
        )

    def _barriers(self, span: Span) -> list[Barrier]:
        """The gates of a block, in execution order."""
        units = self.units(span)
        if not any(unit.gates for unit in units):
            return []
        needs, barriers = self.needs(span), []
        flops, products = np.zeros((2, units[-1].shape.height + 1)), 0
        for unit in units:
            for place, layer in enumerate(unit.layers):
                barriers += [
                    Barrier(flops[0].copy(), flops[1].copy(), products, gate)
                    for gate in unit.gates
                    if gate.place == place
                ]
                if layer.name in needs:
                    flops += layer.row_flops * np.array(needs[layer.name], dtype=float)
                    products += layer.has_product
        return barriers


class Costs:
    """Costs of blocks on the named devices, which are in the cluster's order.

    Algorithm 1 ends when every device is within the share ``zeta`` of the mean time. ``host`` is the device that runs
    the layers that need a whole map; only ``with_rows`` it computes rows, too.
    """

    def __init__(
        self, blocks: Blocks, cluster: Cluster, names: Sequence[str], zeta: float, host: int, *, with_rows: bool = True
    ) -> None:
        self.blocks, self.network, self.zeta, self.host = blocks, blocks.network, zeta, host
        self.names = list(names)
        members = [device for device in cluster.devices if device.name in names]
        links = {link.device: link for link in cluster.links}
        wires = [cluster.uplink or links[device.name] for device in members]
        rate = np.array([1e9 * device.gflop_s for device in members])
        self.host_flop_s = float(rate[host])
        memory = np.array([1e9 * device.memory_gb for device in members])
        memory[host] -= blocks.beside.wholes
        left = memory[host] - with_rows * blocks.beside.rows
        self.host_fits = bool(rate[host] > 0 and left >= blocks.beside.maps)
        memory -= blocks.beside.rows
        rate[memory < 0] = 0.0  # without room for the weights it computes no row
        if not with_rows:
            rate[host] = 0.0
        self.devices = kernels.Devices(
            rate,
            np.array([device.layer_s for device in members]),
            np.array([1e6 * wire.mbit_s / 8 for wire in wires]),
            np.array([wire.latency_s for wire in wires]),
            memory,
            names.index(cluster.owner) if cluster.owner in names else -1,
            list(Communication).index(cluster.communication),
            1e6 * cluster.uplink.mbit_s / 8 if cluster.uplink else 0.0,
            cluster.owner_has_input,
        )
        self.shares = cache(self._shares)
        self.fits = cache(self._fits)

    @property
    def by_halo(self) -> bool:
        """True if the time of a block depends on the devices that hold its input."""
        return self.devices.reading == kernels.HALO

    def _fits(self, span: Span) -> bool:
        """True if the maps of a block fit into the devices' memory, in some shares."""
        block = self.blocks.fused(span)
        return bool(kernels.least_starts(block, self.devices)[0] == 0)

    def _shares(self, span: Span) -> Rows:
        """The shares by Algorithm 1."""
        rows = np.zeros(len(self.names) + 1, dtype=np.int64)
        kernels.share(self.blocks.fused(span), self.devices, self.zeta, rows)
        return rows

    def spent(self, span: Span, rows: Rows, held: Rows) -> BlockCost:
        """Costs of a block with these shares, if the devices hold the rows ``held`` of its input."""
        compute_s, link_bytes, time_s = np.zeros((3, len(self.names)))
        kernels.spend(self.blocks.fused(span), self.devices, rows, held, compute_s, link_bytes, time_s)
        end_s, gates, left_s = 0.0, [], time_s  # of each device to the end of the block
        if np.isfinite(time_s).all():
            busy = np.diff(rows) > 0
            flop_s, layer_s = np.where(busy, self.devices.flop_s, np.inf), busy * self.devices.layer_s
            for barrier in self.blocks.barriers(span):
                flops = barrier.flops_end[rows[1:]] - barrier.flops_first[rows[:-1]]
                behind_s = compute_s - flops / flop_s - barrier.products * layer_s
                gates.append(self._gate(barrier.gate, busy))
                end_s += float((left_s - behind_s).max()) + gates[-1].time_s
                left_s = behind_s
        return BlockCost(compute_s, link_bytes, time_s, end_s + float(left_s.max()), tuple(gates))

    def time_s(self, span: Span, rows: Rows, held: Rows) -> float:
        """Time of a block until the last device has finished."""
        return self.spent(span, rows, held).end_s

    def _gate(self, gate: Gate, busy: Bools) -> Gather:
        """Costs of a gate: each device sends the sums of its rows to the host, and receives what that makes."""
        sent = np.where(busy, self.blocks.word_bytes * (gate.read_words + gate.made_words), 0.0)
        sent[self.host] = 0.0
        ways = (gate.read_words > 0) + (gate.made_words > 0)
        return self._gathered(sent, ways, gate.layers)

    def _gathered(self, sent: Floats, ways: int, layers: Sequence[WholeLayer]) -> Gather:
        """Costs of layers that the host runs when it has received all bytes."""
        devices, gather_s = self.devices, 0.0
        if sent.any():
            bandwidth = devices.shared_bytes_s or devices.bytes_s[self.host]
            gather_s = float(ways * devices.latency_s[self.host] + sent.sum() / bandwidth)
        flops, products = sum(layer.flops for layer in layers), sum(layer.weights > 0 for layer in layers)
        compute_s = flops / self.host_flop_s + products * devices.layer_s[self.host]
        return Gather(sent, gather_s, float(compute_s))

    def held_at_start(self) -> Rows:
        """Rows of the network's input by device: the owner holds all of them."""
        rows = np.zeros(len(self.names) + 1, dtype=np.int64)
        if self.devices.owner >= 0:
            rows[self.devices.owner + 1 :] = self.network.source.height
        return rows

    def wholes(self, number: int, rows: Rows) -> list[tuple[WholeRun, Gather]]:
        """Costs of the layers on whole maps before an exit; devices hold the ``rows`` of the map before them."""
        runs = self.network.wholes(number)
        return [(run, self._gathered(self._sent(run.gathered, rows), 1, run.layers)) for run in runs]

    def wholes_s(self, number: int, rows: Rows) -> float:
        """Time of the layers on whole maps before an exit."""
        return sum(gather.time_s for _, gather in self.wholes(number, rows))

    def _sent(self, shape: Shape | None, rows: Rows) -> Floats:
        """Bytes of a map by device that the host lacks; where no device has it, by the host, which receives it."""
        devices, sent = self.devices, np.zeros(len(self.names))
        if shape is None:
            return sent
        if self.network.trunk.units:
            if devices.reading != kernels.EQ3:  # Equation 3 counts the output of the last block already
                sent += np.diff(rows) * (self.blocks.word_bytes * shape.width * shape.channels)
                sent[self.host] = 0.0
        elif devices.owner != self.host:
            sent[devices.owner if devices.owner >= 0 else self.host] = self.blocks.word_bytes * shape.words
        elif not devices.owner_has_input and len(self.names) > 1:
            sent[self.host] = self.blocks.word_bytes * shape.words
        return sent
