"""SubNets with their sizes: listed, drawn or picked, and written to a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from ...formats import InputError, toml_inline, toml_lines
from .catalogue import Family
from .layout import subnet_file
from .schema import SubNet, SubNetsFile
from .sharing import Extents, extents_of, shared, slots_of, weights_in
from .space import draw, nearest, smallest

ROUNDED = 0.01
"""Share by which a requested size may lie beyond the smallest and the largest SubNet: it may be rounded."""


class SubNetSize(NamedTuple):
    """A SubNet and its size."""

    subnet: SubNet
    weights: int  # of all layers; a byte each in int8
    counted: int  # weights of the layers that the SuperNet's file counts
    macs: int  # of one sample
    extents: Extents


class Listing(NamedTuple):
    """SubNets of a SuperNet."""

    ends: list[SubNetSize]  # the smallest and the largest SubNet there is
    subnets: list[SubNetSize]  # the listed ones
    shared: int  # weights that all of these share
    shared_counted: int


Progress = Callable[[int, int], None]


def list_subnets(
    family: Family, subnets: Sequence[SubNet] | None = None, *, progress: Progress | None = None
) -> Listing:
    """The sizes of SubNets, and the weights that they share.

    Parameters
    ----------
    family : Family
        A SuperNet with SubNets.
    subnets : sequence of SubNet, optional
        Others than its own.
    progress : callable, optional
        Called with the number of SubNets that are done, and of all; a SubNet takes about a millisecond.

    Returns
    -------
    Listing
        In the order given.

    Raises
    ------
    InputError
        If one of them is outside the SuperNet.
    """
    file, path = family.file, family.path
    slots, counted = slots_of(file, path), {slot.name for slot in slots_of(file, path, leave_out=file.uncounted)}
    counts = [slot.name in counted for slot in slots]

    def measured(subnet: SubNet) -> SubNetSize:
        extents = extents_of(subnet_file(file, subnet, path), slots, path)
        weights = extents.weights
        return SubNetSize(subnet, int(weights.sum()), int(weights[counts].sum()), int(extents.macs.sum()), extents)

    listed = family.subnets if subnets is None else subnets
    sizes = []
    for subnet in listed:
        sizes.append(measured(subnet))
        if progress is not None:
            progress(len(sizes), len(listed))
    ends = [measured(smallest(file)), measured(SubNet(name="largest"))]
    if not sizes:
        return Listing(ends, [], 0, 0)
    common = shared([size.extents.boxes for size in sizes])
    return Listing(ends, sizes, weights_in(common), weights_in(common[:, counts]))


def pick(
    family: Family,
    count: int,
    seed: int,
    weights: Sequence[float] = (),
    macs: Sequence[float] = (),
    *,
    progress: Progress | None = None,
) -> Listing:
    """SubNets that are drawn; and of these, if sizes are given, the one that is nearest to each.

    Parameters
    ----------
    family : Family
        The SuperNet.
    count : int
        SubNets to draw.
    seed : int
        Seed of the draws.
    weights, macs : sequence of float
        Numbers of weights, or of MACs, to come near to; at most one of the two.
    progress : callable, optional
        As of :func:`list_subnets`.

    Returns
    -------
    Listing
        Named ``r1``, ``r2``, ... in the order in which they were drawn.

    Raises
    ------
    InputError
        If more are to be picked than are drawn, or no SubNet can be near to a size.
    """
    drawn = draw(family.file, count, seed)
    goals = list(weights) or list(macs)
    if len(goals) > count:
        raise InputError(f"count: expected at least {len(goals)}, one for each size, found {count}")
    listed = list_subnets(family, drawn, progress=progress)
    if not goals:
        return listed
    size, unit = (attrgetter("counted"), "MB") if weights else (attrgetter("macs"), "MMAC")
    low, high = map(size, listed.ends)
    outside = [goal for goal in goals if not (1 - ROUNDED) * low <= goal <= (1 + ROUNDED) * high]
    if outside:
        known = f"{low / 1e6:.4g} to {high / 1e6:.4g} {unit}, from the smallest SubNet to the largest"
        raise InputError(f"near: expected {known}, found {outside[0] / 1e6:.4g} {unit}")
    sizes = {listed_size.subnet.name: size(listed_size) for listed_size in listed.subnets}
    return list_subnets(family, nearest(drawn, goals, lambda subnet: sizes[subnet.name]))


def subnets_text(file: SubNetsFile) -> str:
    """The text of a file of SubNets.

    Parameters
    ----------
    file : SubNetsFile
        The content.

    Returns
    -------
    str
        TOML that reads back to an equal ``file``, with one line for each SubNet.
    """
    lines = [f"  {toml_inline(subnet.model_dump(exclude_defaults=True))}," for subnet in file.subnets]
    text_lines = [*toml_lines({"schema": file.schema_, "supernet": file.supernet}), "", "subnets = [", *lines, "]"]
    if file.accuracies is not None:
        text_lines += toml_lines(file.accuracies.model_dump(), "[accuracies]")
    return "\n".join([*text_lines, *toml_lines(file.sources, "[sources]")]) + "\n"
