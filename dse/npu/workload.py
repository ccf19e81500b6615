"""What an NPU runs, one network or several, in the form the kernels take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from ...formats import AnyPath, InputError, memoized
from ...formats.array_types import Floats, Ints
from ...models import Gemm, Layer, Network, as_network
from .layouts import LayerKind


@dataclass(frozen=True)
class Workload:
    """Networks that share an NPU.

    All that is counted of it is the mean of a request: each request is for one of the networks, by their shares.

    Attributes
    ----------
    networks : tuple of Network
        The networks, each with a name of its own.
    shares : tuple of float
        Their parts of the requests, which sum to 1.
    """

    networks: tuple[Network, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, networks: Sequence[Network | AnyPath], shares: Sequence[float] = ()) -> Workload:
        """Check networks and their parts of the requests.

        Parameters
        ----------
        networks : sequence of Network, str or Path
            The networks, or their names or files.
        shares : sequence of float, optional
            Their parts of the requests, which need not sum to 1; by default all are equal.

        Returns
        -------
        Workload
            With shares that sum to 1.

        Raises
        ------
        InputError
            If there is no network, or two have one name, or there is not one share for each, or none above 0.
        """
        every, given = tuple(as_network(network) for network in networks), list(shares) or [1.0] * len(networks)
        names = [network.name for network in every]
        if len(set(names)) < len(names) or not names:
            raise InputError(f"networks: expected each once, by its name, found {', '.join(names) or 'none'}")
        total = sum(given)
        if len(given) != len(names) or min(given) < 0 or not 0 < total < inf:
            raise InputError(
                f"shares: expected as many numbers >= 0 as networks, {len(names)}, and one above 0, found "
                f"{','.join(f'{share:g}' for share in given)}"
            )
        return cls(every, tuple(share / total for share in given))

    @property
    def name(self) -> str:
        """The names of its networks."""
        return ", ".join(network.name for network in self.networks)

    @property
    def by_name(self) -> dict[str, float]:
        """The shares by the names of the networks."""
        return {network.name: share for network, share in zip(self.networks, self.shares, strict=True)}

    @property
    def gemms(self) -> list[Gemm]:
        """The products of all its networks, network by network."""
        return [gemm for network in self.networks for gemm in network.gemms]

    def products(self, *, pooled: bool) -> int:
        """How many products an NPU runs (:meth:`fluidb.models.Layer.product`)."""
        return sum(len(products_of(network, pooled=pooled)) for network in self.networks)

    @property
    def macs(self) -> float:
        """Multiply-accumulates of the mean request."""
        return sum(share * network.macs for network, share in zip(self.networks, self.shares, strict=True))


def as_workload(given: Network | AnyPath | Workload) -> Workload:
    """The workload; a network alone is one."""
    return given if isinstance(given, Workload) else Workload.of([given])


def products_of(network: Network, *, pooled: bool) -> list[Layer]:
    """The layers that an NPU runs as products, in execution order."""
    return [layer for layer in network.layers if layer.product(pooled=pooled)]


class LayerArrays(NamedTuple):
    """U distinct layers as arrays."""

    gemms: Floats  # (U, 4), R, P, C, groups
    kinds: Ints  # (U,), LayerKind: selects the list of layouts
    repeats: Floats  # (U, S), occurrences in each stage for the mean request
    memory_words: Floats  # (S,), moved for each sample by the memory-only layers of each stage
    fetched: Floats  # (U,), share of the weights that is fetched; the rest stays in a persistent buffer
    sources: Floats  # (U, 5), line, stride, step and window of :class:`fluidb.models.Layer`
    adds: Floats  # (U,), 1 if the store adds a residual map

    @property
    def sizes(self) -> tuple[Floats, ...]:
        """The fields of :class:`.schedule.LayerSizes`."""
        return self.gemms, self.sources, self.fetched, self.adds

    @property
    def macs(self) -> Floats:
        """Multiply-accumulates of each layer; a pool has none. Shapes: returns (U,)."""
        macs: Floats = self.gemms.prod(axis=1) * (self.kinds != LayerKind.POOL)
        return macs


def fetched_shares(products: Sequence[Layer], room: int) -> list[float]:
    """Share of each product's weights that is fetched if the first layers' weights stay on the chip."""
    if not room:
        return [1.0] * len(products)
    shares = []
    for layer in products:
        weights = 0
        if layer.gemm and not layer.per_sample:  # the equal weights of a pool are no parameters
            weights = layer.gemm.P * layer.gemm.C * layer.gemm.groups
        stays = min(weights, room)
        room -= stays
        shares.append(1 - stays / weights if weights else 1.0)
    return shares


@memoized
def distinct(network: Network, *, pooled: bool, memory_layers: bool = True, room: int = 0) -> tuple[LayerArrays, Ints]:
    """Equal layers once, in order of first appearance."""
    words = np.zeros(len(network.exits))
    index: dict[tuple[Gemm, LayerKind, tuple[int, ...], bool, float], int] = {}
    repeats: list[list[int]] = []
    rows: list[int] = []
    shares = iter(fetched_shares(products_of(network, pooled=pooled), room))
    for layer in network.layers:
        product = layer.product(pooled=pooled)
        if product is None:
            words[layer.stage - 1] += layer.memory_words * memory_layers
            continue
        source = layer.line, layer.stride, layer.step, *layer.window
        key = product, LayerKind.of(layer), source, layer.residual, next(shares)
        row = index.setdefault(key, len(index))
        if row == len(repeats):
            repeats.append([0] * len(words))
        repeats[row][layer.stage - 1] += 1
        rows.append(row)
    gemms, of_layers, sources, adds, fetched = zip(*index, strict=True)
    kinds = np.array(of_layers, dtype=np.int64)
    figures = (np.array(list(values), dtype=np.float64) for values in (repeats, words, fetched, sources, adds))
    return LayerArrays(np.array(gemms, dtype=np.float64), kinds, *figures), np.array(rows)


def merged(workload: Workload, *, pooled: bool, memory_layers: bool, room: int) -> tuple[LayerArrays, Ints]:
    """The layers of all networks, equal ones once, and the stages of one network behind the stages of the other.

    Occurrences and words are of the mean request; rows are network by network.
    """
    parts = [distinct(network, pooled=pooled, memory_layers=memory_layers, room=room) for network in workload.networks]
    works = [work for work, _ in parts]
    sizes = [np.concatenate(column) for column in zip(*((*work.sizes, work.kinds) for work in works), strict=True)]
    index: dict[tuple[float, ...], int] = {}
    place = np.array([index.setdefault(tuple(row), len(index)) for row in np.column_stack(sizes)])
    places = np.split(place, np.cumsum([len(work.kinds) for work in works])[:-1])
    repeats = np.zeros((len(index), sum(len(work.memory_words) for work in works)))
    stage = 0
    for work, at, share in zip(works, places, workload.shares, strict=True):
        repeats[at, stage : (stage := stage + len(work.memory_words))] = share * work.repeats
    words = np.concatenate([share * work.memory_words for work, share in zip(works, workload.shares, strict=True)])
    gemms, sources, fetched, adds, kinds = (column[np.unique(place, return_index=True)[1]] for column in sizes)
    arrays = LayerArrays(gemms, kinds, repeats, words, fetched, sources, adds)
    return arrays, np.concatenate([at[rows] for at, (_, rows) in zip(places, parts, strict=True)])
