"""Lists of tensors, as exporters make them of a list of answers. Their members are known, so that they cost nothing."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .inference import Sizer
from .labels import SizeFault, attributes_of
from .operators import SEQUENCES

MAX_MEMBERS = 1024
"""Most tensors of one list."""


class Sequences:
    """The lists of a model."""

    def __init__(self, sizer: Sizer) -> None:
        self.sizer = sizer
        self.members: dict[str, list[str]] = {}  # tensors of each list, by its name

    def tensors(self, names: Iterable[str]) -> list[str]:
        """The tensors in place of the lists that hold them."""
        return [member for name in names for member in self.members.get(name, [name])]

    def expand(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """Plain nodes in place of one that makes or reads a list; none if it does not."""
        lists = [name for name in node.input if name in self.members]
        if node.op_type not in SEQUENCES and not lists:
            return None
        if node.op_type in {"Identity", "Optional", "OptionalGetElement"} and len(node.input) == 1:
            return self._same(node)
        made: list[str] | None = None
        plain: list[onnx.NodeProto] = []
        match node.op_type:
            case "SequenceEmpty":
                made = []
            case "SequenceConstruct":
                made = [*node.input]
            case "SequenceInsert" | "SequenceErase" | "SequenceAt":
                made, plain = self._placed(node)
            case "SequenceLength":
                count = numpy_helper.from_array(np.array(len(self._list(node))))
                plain = [helper.make_node("Constant", [], node.output, name=node.name, value=count)]
            case "ConcatFromSequence":
                plain = self._concat(node)
            case "SplitToSequence":
                made, plain = self._split(node)
            case _:
                raise SizeFault("reads a list of tensors, which is not understood")
        if made is not None:
            if len(made) > MAX_MEMBERS:
                raise SizeFault(f"expected a list of at most {MAX_MEMBERS} tensors, found more")
            self.members[node.output[0]] = made
        return plain

    def _same(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        if node.input[0] in self.members:
            self.members[node.output[0]] = self.members[node.input[0]]
            return []
        return [helper.make_node("Identity", node.input, node.output, name=node.name)]

    def _list(self, node: onnx.NodeProto) -> list[str]:
        if not node.input or node.input[0] not in self.members:
            raise SizeFault("expected a list of tensors that nodes before it make, found another input")
        return self.members[node.input[0]]

    def _numbers(self, name: str) -> list[int]:
        if name not in self.sizer.data:
            raise SizeFault("its places depend on values that only a run gives")
        return [int(value) for value in numpy_helper.to_array(self.sizer.data[name]).ravel()]

    def _placed(self, node: onnx.NodeProto) -> tuple[list[str] | None, list[onnx.NodeProto]]:
        """Insert, remove or take a tensor at a place."""
        tensors, insert = self._list(node), node.op_type == "SequenceInsert"
        asked = [*node.input[2 if insert else 1 :]]
        count = len(tensors)
        place = self._numbers(asked[0])[0] if asked and asked[0] else count - (not insert)
        if not -count <= place < count + insert:
            raise SizeFault(f"expected a place of a list of {count}, found {place}")
        if node.op_type == "SequenceAt":
            return None, [helper.make_node("Identity", [tensors[place]], node.output, name=node.name)]
        at = place % count if place < 0 else place
        return [*tensors[:at], *([node.input[1]] if insert else []), *tensors[at + (not insert) :]], []

    def _concat(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        attributes, tensors, nodes = attributes_of(node), self._list(node), []
        axis = attributes["axis"]
        if attributes.get("new_axis"):
            wider = [f"{node.output[0]}/{place}" for place in range(len(tensors))]
            nodes = [self.sizer.along("Unsqueeze", name, new, axis) for name, new in zip(tensors, wider, strict=True)]
            tensors = wider
        return [*nodes, helper.make_node("Concat", tensors, node.output, name=node.name, axis=axis)]

    def _split(self, node: onnx.NodeProto) -> tuple[list[str], list[onnx.NodeProto]]:
        attributes, tensor = attributes_of(node), node.input[0]
        sizes = self.sizer.sizes_of(tensor)
        axis = attributes.get("axis", 0) % len(sizes)
        size, each = sizes[axis], len(node.input) < 2 or not node.input[1]
        parts = [1] if each else self._numbers(node.input[1])
        if len(parts) == 1 and parts[0] > 0:  # parts of one size; the last one may be smaller
            if size > MAX_MEMBERS * parts[0]:
                raise SizeFault(f"expected a list of at most {MAX_MEMBERS} tensors, found more")
            parts = [min(parts[0], size - start) for start in range(0, size, parts[0])]
        made = [f"{node.output[0]}/{place}" for place in range(len(parts))]
        dropped = each and not attributes.get("keepdims", 1)
        split = [f"{name}/wide" for name in made] if dropped else made
        if self.sizer.opsets[0].version < 13:
            nodes = [helper.make_node("Split", [tensor], split, name=node.name, axis=axis, split=parts)]
        else:
            lengths = self.sizer.constant(f"{node.output[0]}/lengths", np.array(parts, dtype=np.int64))
            nodes = [helper.make_node("Split", [tensor, lengths], split, name=node.name, axis=axis)]
        if dropped:
            nodes += [self.sizer.along("Squeeze", wide, name, axis) for wide, name in zip(split, made, strict=True)]
        return made, nodes
