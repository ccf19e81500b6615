"""Exits of a graph that has several outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...schema import Op
from ..exits import block_boundaries

MAX_ROUNDS = 4
"""Most rounds in which outputs turn out to be no exits; after them no remaining output is an exit."""


@dataclass(frozen=True, slots=True)
class OwnExits:
    """A graph that is cut at its outputs."""

    backbone: list[Op]  # layers that the deepest output needs, or an output that is no exit
    heads: dict[str, list[Op]]  # layers of each exit's head, by the layer that the exit follows, in order of depth
    feet: dict[str, str]  # the layer that the exit of an output follows
    answer: str  # layer that holds the output of the last exit
    remarks: list[str]  # a line for each output that is no exit, with the reason


def own_exits(
    layers: Sequence[Op],
    outputs: Mapping[str, str],
    macs: Mapping[str, int],
    aside: Collection[str],
    answers: Sequence[str] = (),
) -> OwnExits:
    """Decide which outputs are exits; ``outputs`` names the layer of each, ``macs`` the work of layers that multiply.

    ``answers`` are the outputs of the exits and of the end, if the model decides about its exits. Else the last exit
    is the output that takes the most MACs; of equal ones, the last. Another output is an exit if its
    layers beyond the backbone multiply and read a single block boundary of the backbone, after which the backbone
    multiplies too.
    """
    reach = {name: _needed(layers, layer) for name, layer in outputs.items()}
    cost = {name: sum(macs.get(layer, 0) for layer in reached) for name, reached in reach.items()}
    final = answers[-1] if answers else max(reversed(list(outputs)), key=cost.__getitem__)
    backbone = set(reach[final])
    waiting = {name: layer for name, layer in outputs.items() if layer != outputs[final]}
    heads: dict[str, set[str]] = {}
    feet_of: dict[str, str] = {}
    remarks: dict[str, str] = {}
    for round_ in range(MAX_ROUNDS + 1):
        chain = [op for op in layers if op.name in backbone]
        boundaries = {chain[place].name: place for place in block_boundaries(chain, aside)}
        heads, feet_of = {}, {}
        for name in [name for name in waiting if name not in remarks]:
            branch = reach[name] - backbone
            feet = {source for op in layers if op.name in branch for source in op.inputs or ()} - branch
            (foot, *others) = sorted(feet or {waiting[name]})
            if not branch & macs.keys():
                remarks[name] = "has no product of its own"
            elif others or foot not in boundaries or round_ == MAX_ROUNDS:
                remarks[name] = "does not begin at a single block boundary"
            elif not any(op.name in macs for op in chain[boundaries[foot] + 1 :]):
                remarks[name] = "begins where no product follows"
            elif answers and foot not in heads and name not in answers:
                remarks[name] = "is not the answer of an exit"
            elif name in answers and any(boundaries[foot] <= boundaries[other] for other in heads):
                remarks[name] = "does not begin behind the exit before it"
            else:
                heads[foot] = heads.get(foot, set()) | branch
                feet_of[name] = foot
        grown = backbone.union(*(reach[name] for name in remarks))
        if grown == backbone:
            break
        backbone = grown
    return OwnExits(
        [op for op in layers if op.name in backbone],
        {foot: _head(layers, heads[foot], foot) for foot in boundaries if foot in heads},
        feet_of,
        outputs[final],
        [f'output "{name}" {why}: no exit, part of the backbone' for name, why in remarks.items()],
    )


def _needed(layers: Sequence[Op], last: str) -> set[str]:
    """A layer and all layers that it depends on."""
    needed = {last}
    for op in reversed(layers):
        if op.name in needed:
            needed |= set(op.inputs or ())
    return needed - {"input"}


def _head(layers: Sequence[Op], names: Collection[str], foot: str) -> list[Op]:
    """The layers of a head. They call the layer that the exit follows ``input``."""
    return [
        op.model_copy(update={"inputs": ["input" if name == foot else name for name in op.inputs or ()]})
        for op in layers
        if op.name in names
    ]
