"""Candidates for the persistent buffer: common parts of SubNets, cut to its size (SUSHI, Section 3.2)."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ...formats.array_types import Ints
from ...models.supernets.sharing import shared, weights_in
from ...tables.subgraphs import SubGraphCut


class Recipes(NamedTuple):
    """M candidates before they are cut."""

    boxes: Ints  # (M, 3, L): K, C, R of the common part that each is cut from
    orders: Ints  # (M, L), order in which each takes layers; not used where the cut is uniform
    cuts: list[SubGraphCut]
    of: list[list[str]]  # SubNets whose common part each is cut from


def make_recipes(subnets: Ints, names: Sequence[str], cuts: Sequence[SubGraphCut], count: int, seed: int) -> Recipes:
    """Candidates, the same first ones for every count. Shapes: ``subnets`` (N, 3, L).

    They are cut, in each way, from the common part of all SubNets, from each SubNet, and from the common part of each
    two; random cuts are drawn again until there are ``count`` candidates.
    """
    groups = [tuple(range(len(names))), *((i,) for i in range(len(names))), *combinations(range(len(names)), 2)]
    sources: dict[bytes, tuple[tuple[int, ...], Ints]] = {}
    for group in groups:
        box = shared(subnets[list(group)])
        if box.any():
            sources.setdefault(box.tobytes(), (group, box))
    layers, source = subnets.shape[2], random.Random(f"SubGraphs, seed {seed}")  # noqa: S311  (no secret)
    made: list[tuple[SubGraphCut, tuple[int, ...], Ints, list[int]]] = []
    ways = [cut for cut in SubGraphCut if cut in cuts]
    while ways and sources and len(made) < count:
        made += [(cut, group, box, _order(cut, layers, source)) for cut in ways for group, box in sources.values()]
        ways = [cut for cut in ways if cut in (SubGraphCut.RUN, SubGraphCut.RANDOM)]
    del made[count:]
    return Recipes(
        np.array([box for _, _, box, _ in made], dtype=np.int64).reshape(-1, 3, layers),
        np.array([order for *_, order in made], dtype=np.int64).reshape(-1, layers),
        [cut for cut, *_ in made],
        [[names[i] for i in group] for _, group, *_ in made],
    )


def _order(cut: SubGraphCut, layers: int, source: random.Random) -> list[int]:
    """Order in which a cut takes layers; a run goes to the last layer, then from its start back to the first."""
    order = list(range(layers))
    if cut is SubGraphCut.RANDOM:
        source.shuffle(order)
    elif cut is SubGraphCut.RUN:
        start = source.randrange(layers)
        order = order[start:] + order[:start][::-1]
    return order


def cut_to(recipes: Recipes, budget: int) -> Ints:
    """Candidates cut to a budget. A larger budget never takes weights away. Shapes: returns (M, 3, L)."""
    uniform = np.array([cut is SubGraphCut.UNIFORM for cut in recipes.cuts], dtype=bool)
    boxes = recipes.boxes.copy()
    if not uniform.all():
        boxes[~uniform] = _in_order(recipes.boxes[~uniform], recipes.orders[~uniform], budget)
    known: dict[bytes, Ints] = {}
    for m in np.flatnonzero(uniform):
        box = recipes.boxes[m]
        boxes[m] = known.setdefault(box.tobytes(), uniform_cut(box, budget))
    return boxes


def _in_order(boxes: Ints, orders: Ints, budget: int) -> Ints:
    """Layers in the given order while they fit; the first that does not fit loses kernels, those behind it all."""
    K, C, R = np.moveaxis(boxes, 1, 0)
    each = C * R**2
    total = np.take_along_axis(K * each, orders, axis=1)
    left = np.empty_like(total)
    np.put_along_axis(left, orders, budget - (np.cumsum(total, axis=1) - total), axis=1)
    return _with_kernels(boxes, np.clip(left // np.maximum(each, 1), 0, K))


def _with_kernels(boxes: Ints, K: Ints) -> Ints:
    """The same layers with ``K`` kernels; a layer without kernels has no channels either."""
    kept = np.where((K > 0)[..., None, :], boxes, 0)
    kept[..., 0, :] = K
    return kept


def uniform_cut(box: Ints, budget: int) -> Ints:
    """The largest share s for which floor(s K) kernels of every layer fit. Shapes: ``box`` (3, L), returns (3, L)."""
    if weights_in(box) <= budget:
        return box
    K = box[0]
    shares = np.unique(np.concatenate([np.arange(1, kernels) / kernels for kernels in np.unique(K[K > 1])] or [[]]))

    def cut(share: float) -> Ints:
        return _with_kernels(box, np.floor(K * share + 1e-9).astype(np.int64))

    fitting = bisect_right(shares, budget, key=lambda share: weights_in(cut(share)))
    return cut(shares[fitting - 1]) if fitting else np.zeros_like(box)
