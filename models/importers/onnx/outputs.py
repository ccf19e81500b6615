"""Finds the exits that a graph with several outputs has already."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...schema import Op
from ..exits import block_boundaries

MAX_ROUNDS = 4
"""Most rounds in which outputs turn out to be no exits; after them the remaining outputs count as none either."""


@dataclass(frozen=True, slots=True)
class OwnExits:
    """A graph that is cut at its outputs.

    Attributes
    ----------
    backbone : list of Op
        The layers that the deepest output needs, and those of every output that is no exit.
    heads : dict of str to list of Op
        The layers that an exit's output needs beyond the layer that it follows. The key is that layer; exits
        are in order of depth.
    answer : str
        The layer that holds the output of the last exit.
    remarks : list of str
        A line for each output that is no exit, with the reason.
    """

    backbone: list[Op]
    heads: dict[str, list[Op]]
    answer: str
    remarks: list[str]


def own_exits(
    layers: Sequence[Op], outputs: Mapping[str, str], macs: Mapping[str, int], aside: Collection[str]
) -> OwnExits:
    """Decide which outputs are exits.

    Parameters
    ----------
    layers : sequence of Op
        In execution order, each with its inputs.
    outputs : mapping of str to str
        The layer that holds each output.
    macs : mapping of str to int
        Multiply-accumulates of the layers that multiply.
    aside : collection of str
        Layers that do not count, see `block_boundaries`.

    Returns
    -------
    OwnExits
        The last exit is the output that takes the most MACs; if several do, the last of them. Another output is
        an exit if what it needs beyond the backbone multiplies, and reads a single block boundary of the backbone,
        after which the backbone multiplies too.
    """
    reach = {name: _needed(layers, layer) for name, layer in outputs.items()}
    cost = {name: sum(macs.get(layer, 0) for layer in found) for name, found in reach.items()}
    final = max(reversed(list(outputs)), key=cost.__getitem__)
    backbone = set(reach[final])
    waiting = {name: layer for name, layer in outputs.items() if layer != outputs[final]}
    heads: dict[str, set[str]] = {}
    remarks: dict[str, str] = {}
    for round_ in range(MAX_ROUNDS + 1):
        chain = [op for op in layers if op.name in backbone]
        boundaries = {chain[place].name: place for place in block_boundaries(chain, aside)}
        heads = {}
        for name in [name for name in waiting if name not in remarks]:
            branch = reach[name] - backbone
            feet = {source for op in layers if op.name in branch for source in op.inputs or ()} - branch
            (foot, *others) = sorted(feet or {waiting[name]})
            if not branch & macs.keys():
                remarks[name] = "has no product of its own"
            elif others or foot not in boundaries or round_ == MAX_ROUNDS:
                remarks[name] = "does not hang on a single block boundary"
            elif not any(op.name in macs for op in chain[boundaries[foot] + 1 :]):
                remarks[name] = "hangs where no product follows"
            else:
                heads[foot] = heads.get(foot, set()) | branch
        grown = backbone.union(*(reach[name] for name in remarks))
        if grown == backbone:
            break
        backbone = grown
    return OwnExits(
        [op for op in layers if op.name in backbone],
        {foot: _head(layers, heads[foot], foot) for foot in boundaries if foot in heads},
        outputs[final],
        [f'output "{name}" {why}: no exit, part of the backbone' for name, why in remarks.items()],
    )


def _needed(layers: Sequence[Op], last: str) -> set[str]:
    """A layer and all layers that it depends on."""
    found = {last}
    for op in reversed(layers):
        if op.name in found:
            found |= set(op.inputs or ())
    return found - {"input"}


def _head(layers: Sequence[Op], names: Collection[str], foot: str) -> list[Op]:
    """The layers of a head. They call the layer that the exit follows ``input``."""
    return [
        op.model_copy(update={"inputs": ["input" if name == foot else name for name in op.inputs or ()]})
        for op in layers
        if op.name in names
    ]
