"""Reader of ONNX files, which may be damaged or hostile: a list of nodes whose shapes are all known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

from ....formats import InputError
from ..read_as import ReadAs
from .bodies import reads_of
from .decisions import Decided, write_out
from .file import MAX_NODES, Start, drop_values, inline_functions, load_model, set_values, sized_inputs
from .foreign import OWN, Widths, check_known, kind_of
from .inference import is_sized
from .labels import SizeFault, attributes_of, brief, label
from .operators import JOINING, QUANTISERS
from .plain import PlainNodes

MAX_OUTPUTS = 256


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of the graph."""

    label: str  # its name, or the name of its first output, for faults and layers
    op: str  # e.g. Conv
    inputs: tuple[str, ...]  # "" stands for an optional tensor that is left out
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    named: str = ""  # as people know it, if that is another name

    @property
    def title(self) -> str:
        """Its operator, for people."""
        return self.named or self.op


@dataclass(slots=True)
class Graph:
    """The computation of one run of the model."""

    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)  # in execution order, without nodes that compute constants
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of every tensor, constants included
    constants: set[str] = field(default_factory=set)  # tensors that depend on no input
    data: dict[str, onnx.TensorProto] = field(default_factory=dict)  # values of small constants
    folded: int = 0  # nodes that compute constants
    unused: int = 0  # nodes that no output needs
    producer: str = ""  # tool that wrote the file
    decided: Decided | None = None  # exits that the model decides about
    remarks: dict[str, str] = field(default_factory=dict)  # what the file says of words and is not used

    def words(self, tensor: str) -> int:
        """Values of a tensor."""
        return math.prod(self.sizes[tensor])

    def numbers(self, node: Node, place: int, missing: Sequence[int] | None = None) -> Sequence[int] | None:
        """Whole numbers that a node takes as an input, such as axes; ``None`` if they are not known."""
        if len(node.inputs) <= place or not node.inputs[place]:
            return missing
        tensor = self.data.get(node.inputs[place])
        return None if tensor is None else [int(value) for value in numpy_helper.to_array(tensor).ravel()]


def read_graph(path: Path, dims: Mapping[str, int], read_as: ReadAs) -> Graph:
    """Read a model and find the shape of every tensor; ``dims`` gives open sizes by name, or as ``input.axis``."""
    model = load_model(path)
    drop_values(model)
    set_values(model, read_as.values, path)
    model = inline_functions(model, path)
    start = sized_inputs(model, dims, path)
    model, decided = write_out(model, path, start)
    _check_size(model.graph, path)
    check_known(model.graph.node, read_as.treat, path)
    graph = _GraphReader(model, path, start, read_as.treat).read()
    graph.decided = decided
    return graph


def _check_size(graph: onnx.GraphProto, path: Path) -> None:
    """Refuse too many nodes or outputs."""
    for what, entries, most in (("nodes", graph.node, MAX_NODES), ("outputs", graph.output, MAX_OUTPUTS)):
        if len(entries) > most:
            raise InputError(f"{path}: expected at most {most} {what}, found {len(entries)}")


class _GraphReader:
    """One pass over the nodes, in order, that finds their shapes and the constants that shapes depend on."""

    def __init__(self, model: onnx.ModelProto, path: Path, start: Start, treat: Mapping[str, str]) -> None:
        self.model, self.path, self.start, self.treat = model, path, start, treat
        self.sizer = start.sizer(model)
        self.graph = Graph(
            inputs=start.inputs,
            sizes=self.sizer.sizes,
            constants=self.sizer.constants,
            data=self.sizer.data,
            producer=brief(f"{model.producer_name} {model.producer_version}".strip()),
        )
        self.plain = PlainNodes(self.sizer)
        self.widths = Widths()
        # shapes that the file states, which are true unless a user changed a size that it fixes
        tensors = [] if start.changed else [*model.graph.value_info, *model.graph.output]
        self.stated = {tensor.name: tensor.type for tensor in tensors if is_sized(tensor.type)}

    def read(self) -> Graph:
        for node in self.model.graph.node:
            try:
                for plain in self._plain(node):
                    self._node(plain)
            except SizeFault as error:
                raise self._fault(node, str(error)) from None
            except InputError:
                raise
            except Exception:  # noqa: BLE001  C++ inference, protobuf and numpy, of a file that may be damaged
                raise self._fault(node, "its inputs or attributes are not what this operator takes") from None
        self.graph.outputs = self.plain.sequences.tensors(output.name for output in self.model.graph.output)
        if len(self.graph.outputs) > MAX_OUTPUTS:
            raise InputError(f"{self.path}: expected at most {MAX_OUTPUTS} outputs, found {len(self.graph.outputs)}")
        for name in self.graph.outputs:
            if name not in self.sizer.types:
                why = f"its shape {self.sizer.unsized[name]}" if name in self.sizer.unsized else "no node makes it"
                raise InputError(f'{self.path}: output "{brief(name)}": {why}')
        self._check_batch()
        self._drop_unused()
        if self.widths.counts:
            self.graph.remarks["widths"] = self.widths.text
        if self.sizer.ignored:
            self.graph.remarks["attributes"] = self._ignored()
        return self.graph

    def _ignored(self) -> str:
        """The attributes that ONNX does not define, for people."""
        counts = sorted(self.sizer.ignored.items(), key=str)
        parts = [f"{count} {brief(name)}{'' if value is None else f' = {value}'}" for (name, value), count in counts]
        return f"not used, as ONNX does not define them: {', '.join(parts)}; words are as wide as the board's word_bits"

    def _fault(self, node: onnx.NodeProto, message: str) -> InputError:
        return InputError(f'{self.path}: node "{label(node)}" ({node.op_type}): {message}')

    def _plain(self, node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
        """Nodes that ONNX defines, in place of one that has another meaning or form; each is sized before the next."""
        if kind_of(node) in self.treat:
            self._treat(node)
            return []
        if node.domain not in OWN and node.op_type in QUANTISERS:
            self.widths.note(node, self.sizer)
        return self.plain.of(node, self._plain)

    def _treat(self, node: onnx.NodeProto) -> None:
        """Add an operator that the user says the cost of. Its sizes are the file's, else its first input's."""
        read = [*dict.fromkeys([*node.input, *sorted(reads_of(node))])]
        active = [name for name in read if name in self.sizer.types and name not in self.sizer.constants]
        made = []
        for name in filter(None, node.output):
            type_ = self.stated.get(name) or self.sizer.types.get(active[0] if active else "")
            if type_ is None:
                self.sizer.unsized[name] = "is not known: the file does not state it"  # a fault once something reads it
            else:
                self.sizer.give(name, type_)
                made.append(name)
        if not active:
            self.sizer.constants.update(made)
            return
        for name in made:
            same = self.sizer.sizes[name] == self.sizer.sizes[active[0]]
            op = "Resize" if self.treat[kind_of(node)] == "memory" else "Identity" if same else "Treated"
            self.graph.nodes.append(Node(label(node), op, tuple(active), (name,), {}, brief(kind_of(node))))

    def _node(self, node: onnx.NodeProto) -> None:
        if self.sizer.add(node):
            self.graph.folded += 1
            return
        empty = {
            name for name in (*node.input, *node.output) if name in self.sizer.types and not self.graph.words(name)
        }
        self.sizer.constants |= empty  # nothing to compute, e.g. the part that a roll by 0 moves
        results = tuple(name if name in self.sizer.types and name not in empty else "" for name in node.output)
        if not any(results):
            return
        inputs = tuple(name for name in node.input if not (name in empty and node.op_type in JOINING))
        attributes = attributes_of(node)
        op = "Identity" if node.op_type == "Pad" and self._pads_nothing(node, attributes) else node.op_type
        self.graph.nodes.append(Node(label(node), op, inputs, results, attributes))

    def _pads_nothing(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> bool:
        """Tell if a Pad changes nothing. Its sizes are an input, or an attribute before opset 11."""
        if len(node.input) == 1:
            return not any(attributes["pads"])
        return node.input[1] in self.graph.data and not numpy_helper.to_array(self.graph.data[node.input[1]]).any()

    def _drop_unused(self) -> None:
        needed, live = set(self.graph.outputs), []
        for node in reversed(self.graph.nodes):
            if needed & set(filter(None, node.outputs)):
                needed |= set(node.inputs)
                live.append(node)
        self.graph.unused = len(self.graph.nodes) - len(live)
        self.graph.nodes = live[::-1]
        if not live:
            raise InputError(f"{self.path}: expected outputs that depend on inputs, found constants only")

    def _check_batch(self) -> None:
        """Refuse a model for a fixed batch: a network file describes one sample, and would count the batch as one."""
        ends = [*self.graph.inputs, *self.graph.outputs]
        batches = {self.graph.sizes[name][0] if self.graph.sizes[name] else 0 for name in ends}
        first = self.graph.inputs[0] if self.graph.inputs else ""
        if len(batches) == 1 and min(batches) > 1 and f"{first}.0" not in self.start.dims:
            (batch,) = batches
            raise InputError(
                f'{self.path}: input "{brief(first)}": expected one sample, found a batch of {batch}; '
                f"take one with --dim {brief(first)}.0=1, or all as one with --dim {brief(first)}.0={batch}"
            )
