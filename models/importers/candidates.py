"""Exit candidates of an imported network: one after each block."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from ...formats import InputError, validate
from ..candidates import find_candidates
from ..lowering import lower_all
from ..schema import MAX_EXITS, NetworkFile
from .exits import block_boundaries, check_head
from .imported import ImportedNetwork


@dataclass(frozen=True, slots=True)
class CandidateHead:
    """Head of every exit candidate; ``CandidateHead()`` is the network's own."""

    name: str | None = None  # a name of ``models.heads``, or ``"none"``; by default a copy of the network's own head
    classes: int | None = None  # number of classes of a named head; by default the channels of the network's answer


def place_candidates(made: ImportedNetwork, path: Path, head: CandidateHead) -> NetworkFile:
    """Add exit candidates after every block but the last.

    A block ends where later layers read one map only.  In networks whose blocks branch, as residual ones do, layers
    that stand alone between two such places belong to the block behind them; in a plain chain every product is a block.
    The head begins behind the last map that has several positions.  Blocks whose maps have one shape are a region.
    """
    file = made.file
    check_head(head.name, head.classes)
    shapes, layers, _ = lower_all(file.layers, file.input.shape, str(path))  # `checked` found no faults
    products = {layer.name for layer in layers if layer.gemm}
    spans, start = [], 0
    for end in block_boundaries(file.layers, made.aside):
        held = sum(op.name in products for op in file.layers[start : end + 1])
        if shapes[file.layers[end].name].positions > 1:
            spans.append((file.layers[end].name, held))
        start = end + 1
    branching = any(held > 1 for _, held in spans)
    ends = [name for name, held in spans if held > branching]
    if len(ends) < 2:
        raise InputError(
            f"candidates: expected at least two blocks in {path}, found {len(ends)}; state them (`fluidb docs exits`)"
        )
    every = -(-(len(ends) - 1) // MAX_EXITS)
    candidates = {
        "regions": [list(region) for _, region in groupby(ends, key=lambda name: shapes[name])],
        "after": None if every == 1 else list(range(every, len(ends), every)),
        "head": head.name,
        "classes": head.classes or shapes[made.answer].channels if head.name else None,
    }
    with_candidates = validate(NetworkFile, {**file.model_dump(by_alias=True), "candidates": candidates}, path)
    find_candidates(with_candidates, path)
    return with_candidates
