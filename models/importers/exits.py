"""Places exits: at block boundaries that divide the MACs into nearly equal shares, or where the user wants them."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...formats import InputError, validate
from ..heads import HEADS
from ..loader import build_network
from ..schema import MAX_EXITS, NetworkFile, Op
from .imported import Imported
from .names import plain_name


@dataclass(frozen=True, slots=True)
class Placement:
    """Exits that a user asks for.

    Attributes
    ----------
    after : int or tuple of str
        How many exits, at block boundaries; or the layers that exits follow.
    head : str
        A name of ``models.heads``, or ``"none"``.
    classes : int or None
        Number of classes of a head; if not given, the channels of the network's last layer.
    """

    after: int | tuple[str, ...]
    head: str = "msdnet"
    classes: int | None = None


def block_boundaries(layers: Sequence[Op], aside: Collection[str] = ()) -> list[int]:
    """Find the layers whose output is all that later layers read.

    Parameters
    ----------
    layers : sequence of Op
        In execution order.
    aside : collection of str
        Layers that do not count, because every block reads them: masks, positions.

    Returns
    -------
    list of int
        Indices of these layers. Nothing from before such a layer is read after it.
    """
    order = {"input": 0} | {op.name: place for place, op in enumerate(layers, 1)}
    last_read = [0] * (len(layers) + 1)
    for place, op in enumerate(layers, 1):
        for name in op.inputs if op.inputs is not None else [layers[place - 2].name if place > 1 else "input"]:
            last_read[order[name]] = place
    found, furthest = [], last_read[0]
    for place, op in enumerate(layers, 1):
        if op.name in aside:
            continue
        if furthest <= place < last_read[place]:
            found.append(place - 1)
        furthest = max(furthest, last_read[place])
    return found


def place_exits(made: Imported, path: Path, wanted: Placement) -> NetworkFile:
    """Add exits to a network. Each is taken equally often, as nobody has measured how often yet.

    Parameters
    ----------
    made : Imported
        The network, without exits, and what its source knew beyond it.
    path : Path
        Where it came from, for faults.
    wanted : Placement
        Which exits.

    Returns
    -------
    NetworkFile
        The network with ``exits``.

    Raises
    ------
    InputError
        If there are too few boundaries, or a layer or head is unknown.
    """
    file = made.file
    if wanted.head not in {*HEADS, "none"}:
        raise InputError(f'--head: expected {", ".join(HEADS)} or none, found "{wanted.head}"')
    network = build_network(file, path)
    if isinstance(wanted.after, int):
        macs = {layer.name: layer.gemm.macs for layer in network.layers if layer.gemm}
        total = list(itertools.accumulate(macs.get(op.name, 0) for op in file.layers))
        boundaries = block_boundaries(file.layers, made.aside)
        maps = [place for place in boundaries if file.layers[place].op not in {"flatten", "view"}]
        places = _equal_shares(path, maps, total, wanted.after)
    else:
        places = _named(path, file, wanted.after, made.layer_of)
    head: dict[str, object] = {"head": wanted.head}
    if wanted.head != "none":
        head["classes"] = wanted.classes or network.layers[-1].shape.channels
    rate = 1 / (len(places) + 1)
    return _with_exits(file, path, [{"after": file.layers[place].name, "rate": rate, **head} for place in places])


def with_rates(file: NetworkFile, path: Path, rates: Sequence[float]) -> NetworkFile:
    """Replace the shares of samples that leave at the intermediate exits.

    Raises
    ------
    InputError
        If there is not one share for each exit.
    """
    if len(rates) != len(file.exits):
        raise InputError(
            f"{path}: --rates: expected {len(file.exits)}, one for each exit but the last, found {len(rates)}"
        )
    exits = [{**item.model_dump(by_alias=True), "rate": rate} for item, rate in zip(file.exits, rates, strict=True)]
    return _with_exits(file, path, exits)


def _with_exits(file: NetworkFile, path: Path, exits: list[dict[str, object]]) -> NetworkFile:
    return validate(NetworkFile, {**file.model_dump(by_alias=True), "exits": exits}, path)


def _named(path: Path, file: NetworkFile, names: Sequence[str], layer_of: Mapping[str, str]) -> list[int]:
    order = {op.name: place for place, op in enumerate(file.layers)}
    places, faults = [], []
    for name in names:
        layer = next((item for item in (name, layer_of.get(name, name), plain_name(name)) if item in order), None)
        if layer is None:
            near = difflib.get_close_matches(name, [*order, *layer_of], n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else "`fluidb models show` lists them"
            faults.append(f'{path}: --exits: expected names of layers, found "{name}"; {hint}')
        else:
            places.append(order[layer])
    if faults:
        raise InputError(faults)
    return sorted(places)


def _equal_shares(path: Path, boundaries: Sequence[int], total: Sequence[int], count: int) -> list[int]:
    """The boundaries nearest to shares 1/(count+1), 2/(count+1), ... of the MACs, by the sum of the distances.

    If boundaries have the same share, the last one is taken: after pools and additions a head has less to do.
    """
    last = {total[place]: place for place in boundaries if 0 < total[place] < total[-1]}
    if not 1 <= count <= min(len(last), MAX_EXITS):
        raise InputError(
            f"{path}: --exits: expected 1 to {min(len(last), MAX_EXITS)}, for it has {len(last)} block boundaries, "
            f"found {count}"
        )
    shares = list(last)
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())] * len(shares)  # by how many boundaries were considered
    for exit_ in range(1, count + 1):
        target = total[-1] * exit_ / (count + 1)
        here = [(best[at - 1] if at else (0.0, ())) for at in range(len(shares))]
        reached = [
            (gap + abs(shares[at] - target), (*chosen, at)) if len(chosen) == exit_ - 1 else (float("inf"), ())
            for at, (gap, chosen) in enumerate(here)
        ]
        best = list(itertools.accumulate(reached, min))
    return [last[shares[at]] for at in best[-1][1]]
