"""Exit candidates: places of possible exits, with the bridge and head of each (PAME, Section 5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..formats import AnyPath, InputError, validate
from .loader import build_network, head_of, read_network_file
from .lowering import lower_all
from .network import Network
from .schema import NAME_LENGTH, Candidates, NetworkFile, Op


class Candidate(NamedTuple):
    """A place where an exit is possible."""

    name: str  # H13 after block 13, as in PAME
    block: int  # that it follows, counted from 1
    after: str  # the last layer of that block
    layers: tuple[Op, ...]  # bridge and head: all that an exit here computes beside the backbone


def find_candidates(file: NetworkFile, path: AnyPath) -> list[Candidate]:
    """The exit candidates that a network's file states.

    The bridge of a candidate is a copy of the first block of every later region, so that the head reads a map of the
    shape that it expects.  A head that is stated by its name takes any map, and has no bridge.
    """
    stated = file.candidates
    if stated is None:
        raise InputError(f"{path}: expected candidates for exits, found none; add [candidates] (`fluidb docs exits`)")
    order = {op.name: index for index, op in enumerate(file.layers)}
    blocks = stated.blocks
    faults = [
        f'{path}: candidates.regions: expected names of layers, found "{name}"' for name in blocks if name not in order
    ]
    if not faults:
        ends = [order[name] for name in blocks]
        pairs = zip(blocks[1:], ends[1:], ends, strict=False)
        faults = [
            f'{path}: candidates.regions: expected blocks in order, found "{name}" after a later one'
            for name, end, before in pairs
            if end <= before
        ]
    if faults:
        raise InputError(faults)
    starts = [region[0] for region in stated.regions]
    region_of = [number for number, region in enumerate(stated.regions) for _ in region]
    places = stated.after or range(1, len(blocks))
    if stated.head is not None:
        return _with_named_heads(file, stated, places, path)
    head, candidates = _own_head(file, stated, path), []
    for block in places:
        bridge: list[Op] = []
        for start in starts[region_of[block - 1] + 1 :]:
            before = blocks[blocks.index(start) - 1]
            first = file.layers[order[before] + 1 : order[start] + 1]
            bridge += _copied(first, before, bridge[-1].name if bridge else "input", path, bridge=True)
        after = blocks[block - 1]
        copied = _copied(head, blocks[-1], bridge[-1].name if bridge else "input", path)
        candidates.append(Candidate(f"H{block}", block, after, (*bridge, *copied)))
    return candidates


def _with_named_heads(file: NetworkFile, stated: Candidates, places: Iterable[int], path: AnyPath) -> list[Candidate]:
    """Candidates with a head that is made for the map that each reads."""
    shapes, _, faults = lower_all(file.layers, file.input.shape, f"{path}: layers")
    if faults:
        raise InputError(faults)
    ends = [(block, stated.blocks[block - 1]) for block in places]
    try:
        return [Candidate(f"H{block}", block, end, tuple(head_of(stated, shapes[end]))) for block, end in ends]
    except ValueError as error:
        raise InputError(f"{path}: candidates.{error}") from None


def _own_head(file: NetworkFile, stated: Candidates, path: AnyPath) -> Sequence[Op]:
    """The head of all candidates, as layers that read the output of the last block."""
    end = [op.name for op in file.layers].index(stated.blocks[-1])
    if stated.layers is not None:
        return stated.layers
    if end == len(file.layers) - 1:
        raise InputError(f"{path}: candidates: expected a head, as no layer follows the last block; add head")
    return file.layers[end + 1 :]


def _copied(ops: Sequence[Op], entry: str, source: str, path: AnyPath, *, bridge: bool = False) -> list[Op]:
    """Copies of layers that read ``source`` instead of ``entry``; names in a bridge have a prefix."""
    prefix = "bridge." if bridge else ""
    names = {entry: source, "input": source} | {op.name: (prefix + op.name)[:NAME_LENGTH] for op in ops}
    copies = []
    for op in ops:
        strangers = [name for name in op.inputs or () if name not in names]
        if strangers:
            raise InputError(
                f'{path}: candidates: layer "{op.name}" is copied for exits and reads "{strangers[0]}", which is not '
                "in its block; state other regions, or exits with layers of their own"
            )
        inputs = None if op.inputs is None else [names[name] for name in op.inputs]
        copies.append(op.model_copy(update={"name": names[op.name], "inputs": inputs, "bridge": bridge}))
    return copies


def with_exits(
    file: NetworkFile, path: AnyPath, names: Sequence[str] | None = None, rates: Sequence[float] | None = None
) -> NetworkFile:
    """A network with exits at some of its candidates, instead of the exits that it has."""
    known = find_candidates(file, path)
    if names is None:
        names = [candidate.name for candidate in known]
    strangers = [name for name in names if not any(name in (candidate.name, candidate.after) for candidate in known)]
    if strangers:
        unknown = ", ".join(strangers)
        all_names = ", ".join(candidate.name for candidate in known)
        raise InputError(f"at: expected candidates of {file.name} ({all_names}), found {unknown}")
    chosen = [candidate for candidate in known if candidate.name in names or candidate.after in names]
    rates = [0.0] * len(chosen) if rates is None else rates
    if len(rates) != len(chosen):
        raise InputError(f"rates: expected {len(chosen)}, one for each exit added to {file.name}, found {len(rates)}")
    exits = [
        {"after": candidate.after, "rate": rate, "layers": [op.model_dump(by_alias=True) for op in candidate.layers]}
        for candidate, rate in zip(chosen, rates, strict=True)
    ]
    label = "-".join(candidate.name for candidate in chosen) if len(chosen) <= _NAMED else f"{len(chosen)}-exits"
    content = {
        **file.model_dump(by_alias=True, exclude={"candidates"}),
        "name": f"{file.name}-{label}"[:NAME_LENGTH],
        "title": f"{file.title.partition(', ')[0]}, {len(chosen) + 1} exits",
        "exits": exits,
    }
    return validate(NetworkFile, content, path)


_NAMED = 4
"""Most exits that the network's name lists."""


def load_with_exits(name: str, names: Sequence[str] | None = None, rates: Sequence[float] | None = None) -> Network:
    """Load a network with exits at some of its candidates, ready to be mapped.

    Examples
    --------
    >>> [exit.name for exit in load_with_exits("resnet101", ["H13"]).exits]
    ['layer3.5', 'fc']
    """
    file, path = read_network_file(name)
    return build_network(with_exits(file, path, names, rates), path)


def classes_of(file: NetworkFile, path: AnyPath) -> int | None:
    """How many classes the head of the first exit or candidate tells apart; unknown without a head.

    One value tells two classes apart.

    Examples
    --------
    >>> classes_of(*read_network_file("resnet101")), classes_of(*read_network_file("bert_base"))
    (1000, 2)
    """
    exits = file if file.candidates is None else with_exits(file, path, [find_candidates(file, path)[0].name])
    return classes_told_apart(build_network(exits, path))


def classes_told_apart(network: Network) -> int | None:
    """How many classes the head of a network's first exit tells apart, as :func:`classes_of` counts them."""
    heads = [layer for layer in network.layers if layer.stage == 1 and layer.in_head]
    return max(2, heads[-1].shape.channels) if heads else None
