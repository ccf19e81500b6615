"""Placement of exits: at block boundaries that divide the MACs into nearly equal shares, or after named layers."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from ...formats import InputError, did_you_mean, validate
from ..heads import HEADS
from ..loader import build_network, layer_shapes
from ..network import Shape
from ..schema import MAX_EXITS, MAX_SIZE, NAME, MemoryPass, NetworkFile, Op, View, inputs_of
from .imported import ImportedNetwork


@dataclass(frozen=True, slots=True)
class Placement:
    """Exits to add."""

    after: int | tuple[str, ...]  # number of exits, at block boundaries; or the layers that exits follow
    # a name of ``models.heads``, or ``"none"``; by default the head that fits the map before each exit
    head: str | None = None
    classes: int | None = None  # number of classes of a head; by default the channels of the network's answer


def block_boundaries(layers: Sequence[Op], aside: Collection[str] = ()) -> list[int]:
    """Places of the layers whose output is all that later layers read."""
    order = {"input": 0} | {op.name: place for place, op in enumerate(layers, 1)}
    last_read = [0] * (len(layers) + 1)
    for place, names in enumerate(inputs_of(layers), 1):
        for name in names:
            last_read[order[name]] = place
    boundaries, furthest = [], last_read[0]
    for place, op in enumerate(layers, 1):
        if op.name in aside:
            continue
        if furthest <= place < last_read[place]:
            boundaries.append(place - 1)
        furthest = max(furthest, last_read[place])
    return boundaries


def check_head(head: str | None, classes: int | None) -> None:
    """Refuse a head that is not known, or one for a strange number of classes."""
    if head not in {None, *HEADS, "none"}:
        raise InputError(f'head: expected {", ".join(HEADS)} or none, found "{head}"')
    if classes is not None and not 1 <= classes <= MAX_SIZE:
        raise InputError(f"classes: expected 1 to {MAX_SIZE}, found {classes}")


def place_exits(made: ImportedNetwork, path: Path, wanted: Placement) -> NetworkFile:
    """Add exits to a network that has none; their rates are equal until they have been measured."""
    file = made.file
    check_head(wanted.head, wanted.classes)
    network = build_network(file, path)
    if isinstance(wanted.after, int):
        macs = {layer.name: layer.gemm.macs for layer in network.layers if layer.gemm}
        total = list(itertools.accumulate(macs.get(op.name, 0) for op in file.layers))
        boundaries = block_boundaries(file.layers, made.aside)
        maps = [place for place in boundaries if file.layers[place].op not in {"flatten", "view"}]
        places = _equal_shares(path, maps, total, wanted.after)
    else:
        places = _named(path, file, wanted.after, made.layer_of)
    shapes = layer_shapes(file)
    exits: list[dict[str, object]] = []
    for place in places:
        after = file.layers[place].name
        head = wanted.head or _fitting(made, path, shapes, after)
        classes = {} if head == "none" else {"classes": wanted.classes or shapes[made.answer].channels}
        exits.append({"after": after, "rate": 1 / (len(places) + 1), "head": head, **classes})
    _check_stages(file, {layer.name for layer in network.layers}, places, exits)
    return _with_exits(file, path, exits)


def _fitting(made: ImportedNetwork, path: Path, shapes: Mapping[str, Shape], after: str) -> str:
    """The head that makes an answer of the same form as the network's own from the map after a layer."""
    answer, source = shapes[made.answer], shapes[after]
    tokens = source.width == 1
    if answer.positions > 1 and not (tokens and answer.positions == source.positions):
        raise InputError(
            f'exits: expected a network that answers once, found an answer of {answer} ("{made.answer}") in {path}: '
            "no head that fluidb knows gives such an answer; export the answer of each exit as an output of the model, "
            "or name a head"
        )
    if answer.positions == source.positions:
        return "linear"
    if not tokens:
        return "msdnet"
    return "token-linear" if _takes_one_token(made, shapes) else "pool-linear"


def _takes_one_token(made: ImportedNetwork, shapes: Mapping[str, Shape]) -> bool:
    """Tell an answer of one token from an answer of the mean over all tokens."""
    ops = made.file.layers
    layers = {op.name: (op, names[0]) for op, names in zip(ops, inputs_of(ops), strict=True)}
    name = made.answer
    while name in layers:
        op, source = layers[name]
        if shapes[name].positions < shapes[source].positions:
            return (
                isinstance(op, View | MemoryPass)
                and (shapes[name].words if isinstance(op, View) else op.reads) == shapes[source].channels
            )
        name = source
    return False


def _check_stages(
    file: NetworkFile, working: AbstractSet[str], places: Sequence[int], exits: Sequence[Mapping[str, object]]
) -> None:
    """Refuse stages in which nothing is computed, and too many exits."""
    faults, start = [], 0
    for place, exit_ in zip(places, exits, strict=True):
        if place < start:
            faults.append(f'exits: "{exit_["after"]}" is named twice, perhaps by two names of one layer')
        elif exit_["head"] == "none" and not working & {op.name for op in file.layers[start : place + 1]}:
            faults.append(f'exits: nothing is computed between "{exit_["after"]}" and the exit before it')
        start = place + 1
    if not faults and not working & {op.name for op in file.layers[start:]}:
        faults.append(f'exits: nothing is computed after "{exits[-1]["after"]}", which is the end already')
    if len(exits) > MAX_EXITS:
        faults.append(f"exits: expected at most {MAX_EXITS}, found {len(exits)}")
    if faults:
        raise InputError(faults)


def with_rates(file: NetworkFile, path: Path, rates: Sequence[float]) -> NetworkFile:
    """Replace the shares of samples that leave at the intermediate exits."""
    if not file.exits:
        raise InputError(f"rates: expected a network with exits, found none in {path}; add exits")
    if len(rates) != len(file.exits):
        raise InputError(
            f"rates: expected {len(file.exits)}, one for each exit of {path} but the last, found {len(rates)}"
        )
    if not all(0 <= rate <= 1 for rate in rates) or sum(rates) > 1 + 1e-9:
        stated = ", ".join(f"{rate:g}" for rate in rates)
        raise InputError(f"rates: expected shares from 0 to 1 that sum to at most 1, found {stated}")
    exits = [{**exit_.model_dump(by_alias=True), "rate": rate} for exit_, rate in zip(file.exits, rates, strict=True)]
    return _with_exits(file, path, exits)


def _with_exits(file: NetworkFile, path: Path, exits: Sequence[Mapping[str, object]]) -> NetworkFile:
    return validate(NetworkFile, {**file.model_dump(by_alias=True), "exits": exits}, path)


def _named(path: Path, file: NetworkFile, names: Sequence[str], layer_of: Mapping[str, str]) -> list[int]:
    order = {op.name: place for place, op in enumerate(file.layers)}
    places, faults = [], []
    for name in names:
        layer = next(
            (spelling for spelling in (name, layer_of.get(name, name), NAME.plain(name)) if spelling in order), None
        )
        if layer is None:
            hint = did_you_mean(name, [*order, *layer_of], f"the first are {', '.join([*order][:5])}")
            faults.append(f'exits: expected how many, or names of layers of {path}, found "{name}"; {hint}')
        else:
            places.append(order[layer])
    if faults:
        raise InputError(faults)
    return sorted(places)


def _equal_shares(path: Path, boundaries: Sequence[int], total: Sequence[int], count: int) -> list[int]:
    """The boundaries nearest to equal shares of the MACs; of equal ones the last, behind pools and additions."""
    last = {total[place]: place for place in boundaries if 0 < total[place] < total[-1]}
    if not 1 <= count <= min(len(last), MAX_EXITS):
        raise InputError(
            f"exits: expected 1 to {min(len(last), MAX_EXITS)}, as {path} has {len(last)} block boundaries, "
            f"found {count}"
        )
    shares = list(last)
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())] * len(shares)  # of the boundaries considered so far
    for exit_ in range(1, count + 1):
        target = total[-1] * exit_ / (count + 1)
        here = [(best[at - 1] if at else (0.0, ())) for at in range(len(shares))]
        reached = [
            (gap + abs(shares[at] - target), (*chosen, at)) if len(chosen) == exit_ - 1 else (float("inf"), ())
            for at, (gap, chosen) in enumerate(here)
        ]
        best = list(itertools.accumulate(reached, min))
    return [last[shares[at]] for at in best[-1][1]]
