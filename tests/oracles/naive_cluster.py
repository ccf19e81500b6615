"""Every way to run a small network over a cluster whose memory is limited, in plain loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, pairwise
from math import inf

import numpy as np
from fluidb.models.network import Shape
from fluidb.models.rows import RowNetwork
from fluidb.platforms import Cluster
from naive_partition import divisions

Shares = tuple[tuple[int, int], ...]
"""Rows of a map by device, from the first up to the second."""


def words_of(network: RowNetwork) -> tuple[int, int, int]:
    """Weights of the layers that run in rows and of those that need a whole map; most words of maps on one device."""
    rows = sum(layer.weights for chain in network.chains for unit in chain.units for layer in unit.layers)
    wholes = sum(layer.weights for chain in network.chains for layer in chain.tail)
    maps = [last_map(network, number).words for number, chain in enumerate(network.chains) if chain.tail]
    maps += [layer.read_words + layer.made_words for chain in network.chains for layer in chain.tail]
    return rows, wholes, max(maps, default=0)


def last_map(network: RowNetwork, number: int) -> Shape:
    """The map behind the rows of an exit."""
    units = network.branch_units(number) or network.trunk.units[: network.ends[number]]
    return units[-1].shape


class Ways:
    """All ways to share and to cut a network over the named devices; ``host`` runs what needs a whole map.

    A device that computes rows holds the weights of all layers that run in rows, and of each block the rows of every
    map that its share needs. The host holds the weights of the other layers and the map that is gathered.
    """

    def __init__(
        self, network: RowNetwork, cluster: Cluster, names: Sequence[str], host: str, *, host_has_rows: bool
    ) -> None:
        self.network, self.cluster, self.word = network, cluster, cluster.word_bits / 8
        self.members = [device for device in cluster.devices if device.name in names]
        self.wires = [
            cluster.uplink or next(link for link in cluster.links if link.device == member.name)
            for member in self.members
        ]
        rows, wholes, whole_map = words_of(network)
        self.room, self.host, self.host_fits = {}, 0, True
        for k, item in enumerate(self.members):
            room = 1e9 * item.memory_gb - rows * self.word
            if item.name == host:
                self.host = k
                room -= wholes * self.word
                left = room if host_has_rows else 1e9 * item.memory_gb - wholes * self.word
                self.host_fits = item.gflop_s > 0 and left >= whole_map * self.word
            if room >= 0 and item.gflop_s > 0 and (item.name != host or host_has_rows):
                self.room[k] = room
        self.share = cache(self._share)
        self.options = cache(self._options)

    def _share(self, chain: int, first: int, end: int, a: int, b: int) -> tuple[float, float, int, int, float]:
        """Operations, layers with weights, and the rows of the input of a block that its output rows need; bytes."""
        units = self.network.chains[chain].units[first:end]
        layers = [layer for unit in units for layer in unit.layers]
        shapes = {units[0].entry: units[0].source} | {layer.name: layer.shape for layer in layers}
        rows: dict[str, set[int]] = {layers[-1].name: set(range(a, b))}
        for layer in reversed(layers):
            for o in rows.get(layer.name, ()):
                low = o * layer.stride - layer.pad
                for name in layer.sources:
                    height = shapes[name].height
                    rows.setdefault(name, set()).update(r for r in range(low, low + layer.reach) if 0 <= r < height)
            if layer.name in rows:  # all between the first and the last
                rows[layer.name] = set(range(min(rows[layer.name]), max(rows[layer.name]) + 1))
        source = rows[units[0].entry]
        held = sum((max(r) + 1 - min(r)) * shapes[name].width * shapes[name].channels for name, r in rows.items())
        computed = [layer for layer in layers if layer.name in rows]
        flops = sum(layer.row_flops * len(rows[layer.name]) for layer in computed)
        return flops, sum(layer.weights > 0 for layer in computed), min(source), max(source) + 1, held * self.word

    def _options(self, chain: int, first: int, end: int) -> list[Shares]:
        """All shares of a block that fit into the devices' memory."""
        height = self.network.chains[chain].units[end - 1].shape.height
        found = []
        for widths in divisions(height, len(self.members)):
            bounds = [sum(widths[:k]) for k in range(len(widths) + 1)]
            shares = tuple(pairwise(bounds))
            if all(
                a == b or (k in self.room and self.share(chain, first, end, a, b)[4] <= self.room[k])
                for k, (a, b) in enumerate(shares)
            ):
                found.append(shares)
        return found

    def cuts(self, chain: int, first: int, end: int, *, single: bool) -> Iterator[list[tuple[int, int]]]:
        """All ways to cut units into blocks; with ``single`` each unit is one."""
        inner = range(first + 1, end)
        for count in [len(inner)] if single else range(len(inner) + 1):
            for marks in combinations(inner, count):
                yield list(pairwise([first, *marks, end])) if end > first else []

    def parts(self) -> list[tuple[int, int, int]]:
        """The chains of blocks that exits do not cut: chain, first unit and end."""
        network = self.network
        found = [(len(network.branches), first, end) for first, end in pairwise([0, *network.ends])]
        return found + [(n, 0, len(network.branch_units(n))) for n in range(len(network.branches))]

    def feasible(self, *, single: bool = False) -> bool:
        """True if some way fits."""
        return self.host_fits and all(
            any(all(self.options(part[0], *block) for block in cuts) for cuts in self.cuts(*part, single=single))
            for part in self.parts()
        )

    def time_s(self, chain: int, block: tuple[int, int], shares: Shares, held: Shares) -> float:
        """Time of a block (Equation 3, in three readings)."""
        cluster, count = self.cluster, len(self.members)
        units = self.network.chains[chain].units[block[0] : block[1]]
        start = chain == len(self.network.branches) and block[0] == 0
        source, last = units[0].source, units[-1].shape
        computes, sends = [], []
        for k, (a, b) in enumerate(shares):
            if a == b:
                computes.append(0.0)
                sends.append(0.0)
                continue
            flops, products, low, high, _ = self.share(chain, *block, a, b)
            item = self.members[k]
            computes.append(flops / (1e9 * item.gflop_s) + products * item.layer_s)
            rows = set(range(low, high))
            if start and item.name == cluster.owner and (cluster.owner_has_input or count == 1):
                rows = set()
            if count == 1 and not start:
                rows = set()
            if cluster.communication == "halo" and not start:
                rows -= set(range(*held[k]))
            out = (b - a) * last.width * last.channels * (cluster.communication == "eq3" and count > 1)
            sends.append(self.word * (len(rows) * source.width * source.channels + out))
        found = 0.0
        for compute_s, sent, wire in zip(computes, sends, self.wires, strict=True):
            carried = sum(sends) if cluster.uplink else sent
            found = max(found, compute_s + (wire.latency_s + 8e-6 * carried / wire.mbit_s if sent else 0.0))
        return found

    def whole_s(self, number: int, held: Shares) -> float:
        """Time to gather the map of an exit and to run the layers that need it."""
        tail, shape = self.network.chains[number].tail, last_map(self.network, number)
        rows = sum(b - a for k, (a, b) in enumerate(held) if k != self.host)
        sent = self.word * rows * shape.width * shape.channels * bool(tail) * (self.cluster.communication != "eq3")
        host, wire = self.members[self.host], self.wires[self.host]
        flops, products = sum(layer.flops for layer in tail), sum(layer.weights > 0 for layer in tail)
        gather_s = wire.latency_s + 8e-6 * sent / wire.mbit_s if sent else 0.0
        return gather_s + flops / (1e9 * host.gflop_s) + products * host.layer_s

    def least_s(self, *, single: bool = False) -> float:
        """The least average time over the exits of all ways that fit."""
        trunk = len(self.network.branches)
        nothing = tuple((0, 0) for _ in self.members)
        states, first, reach = {nothing: 0.0}, 0, 1.0
        for number, (end, item) in enumerate(zip(self.network.ends, self.network.exits, strict=True)):
            reach *= item.steps  # only the last stage repeats
            states = self._through(trunk, first, end, states, reach, single=single)
            units = len(self.network.branch_units(number))
            for held in states:
                ends = self._through(number, 0, units, {held: 0.0}, 1.0, single=single)
                own = min((time_s + self.whole_s(number, last) for last, time_s in ends.items()), default=inf)
                states[held] += reach * own
            first, reach = end, reach - item.rate
        return min(states.values(), default=inf)

    def _through(
        self, chain: int, first: int, end: int, states: dict[Shares, float], weight: float, *, single: bool
    ) -> dict[Shares, float]:
        """The least time to each division of the last map, over all cuts and shares."""
        at: dict[int, dict[Shares, float]] = {first: states}
        for until in range(first + 1, end + 1):
            at[until] = {}
            for begin in [until - 1] if single else range(first, until):
                for shares in self.options(chain, begin, until):
                    for held, before in at[begin].items():
                        time_s = before + weight * self.time_s(chain, (begin, until), shares, held)
                        at[until][shares] = min(time_s, at[until].get(shares, inf))
        return at[end]


def ways(network: RowNetwork, cluster: Cluster, names: Sequence[str]) -> list[Ways]:
    """The ways of every choice of the host."""
    return [Ways(network, cluster, names, host, host_has_rows=rows) for rows in (True, False) for host in names]


def with_tight_memory(rng: np.random.Generator, network: RowNetwork, cluster: Cluster) -> Cluster:
    """The cluster with memories that are near to what the network needs."""
    word = cluster.word_bits / 8
    rows, wholes, whole_map = words_of(network)
    maps = [
        (unit.source.words + sum(layer.shape.words for layer in unit.layers)) * word
        for chain in network.chains
        for unit in chain.units
    ]
    devices = []
    for device in cluster.devices:
        held = rows * word * (rng.random() < 0.9) + wholes * word * (rng.random() < 0.6)
        held += rng.choice([min(maps), max(maps), sum(maps), whole_map * word]) * rng.uniform(0.1, 1.2)
        devices.append(device.model_copy(update={"memory_gb": (int(held) + 0.5) / 1e9}))
    return cluster.model_copy(update={"devices": devices})
