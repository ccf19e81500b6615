"""Stages of an ONNX model that is cut at its exits (``docs/real-device.md``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, external_data_helper, helper, numpy_helper, shape_inference

from ....formats import InputError, did_you_mean, is_folder, is_input
from .decisions import Decided, write_out
from .file import inline_functions, load_model, set_values, sized_inputs, tensors_of
from .labels import brief, label, refusing
from .paths import is_if
from .sizes import BATCH, SIZES, batch_axis, known_sizes, size_nodes

CONVERSIONS = {"Cast", "DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Squeeze"}
"""Operators behind a Softmax that keep the values of the probabilities."""


@dataclass(frozen=True, slots=True)
class GraphStage:
    """A part of a network: from the exit before it to its own exit."""

    model: onnx.ModelProto
    reads: tuple[str, ...]  # tensors
    answer: str  # tensor that its exit answers with
    keeps: tuple[str, ...]  # tensors that later stages read; some may come from earlier stages
    probabilities: bool  # whether a Softmax makes the answer
    axes: dict[str, int]  # axis of the batch, of kept tensors that have it elsewhere than first


class Parts(NamedTuple):
    """A network as one model, whose outputs are the answers of its exits, and as a stage for each exit, in order."""

    whole: onnx.ModelProto
    stages: list[GraphStage]
    decided: Decided | None  # exits that the model decides about, if the stages end at them
    original: onnx.ModelProto  # the model as it is in its file; if it decides, its first dimensions may be fixed to 1


def read_stages(path: Path, exits: Sequence[str] | None = None, values: Mapping[str, float] | None = None) -> Parts:
    """Read a model and cut it at its exits: outputs, tensors or nodes that answer; by default all outputs.

    If the model decides about its exits, these are the default. ``values`` are inputs that are constants.
    """
    if not is_input(path):
        raise InputError(f"{path}: expected an ONNX model, found {'a folder' if is_folder(path) else 'no such file'}")
    model = load_model(path)
    with refusing(lambda why: InputError(f"{path}: weights: could not be read ({why})")):
        external_data_helper.load_external_data_for_model(model, str(path.parent))
    _check_tensors(model, path)
    set_values(model, values or {}, path)
    model = inline_functions(model, path)
    _check_names(model.graph, path)
    original = model
    model, decided = _without_ifs(model, path)
    _open_batch(model, path, one=decided is not None)
    with refusing(lambda why: InputError(f"{path}: the shapes of its tensors cannot be computed ({why})")):
        model = shape_inference.infer_shapes(model, data_prop=True)
    ends = _ends(model, exits, path)
    decided = decided if decided and (exits is None or set(decided.answers) == set(ends)) else None
    stages = cut(model, decided.answers if decided else ends, path, ordered=decided is not None)
    _check_batches(stages, path)
    answers = [next(output for output in stage.model.graph.output if output.name == stage.answer) for stage in stages]
    del model.graph.output[:]
    model.graph.output.extend(answers)
    return Parts(model, stages, decided, original)


def _without_ifs(model: onnx.ModelProto, path: Path) -> tuple[onnx.ModelProto, Decided | None]:
    """The model with its If nodes written out; those that ask for sizes decide the same for every batch."""
    given = {tensor.name: _sizes(tensor) for tensor in _given(model.graph)}
    shaped = all(tensor.type.tensor_type.HasField("shape") for tensor in _given(model.graph))
    known = shaped and all(size.dim_value for sizes in given.values() for size in sizes[1:])
    if not known or not any(map(is_if, model.graph.node)):
        return write_out(model, path)
    opened = [name for name, sizes in given.items() if sizes and not sizes[0].dim_value]
    one, several = (
        write_out(model, path, sized_inputs(model, {f"{name}.0": batch for name in opened}, path)) for batch in (1, 3)
    )
    nodes = [
        [node.SerializeToString(deterministic=True) for node in written.graph.node] for written, _ in (one, several)
    ]
    if nodes[0] != nodes[1]:
        raise InputError(
            f"{path}: expected If nodes that decide the same for every batch size, found one that depends on it; "
            "write e.g. squeeze(2) in place of squeeze(), and export the model again"
        )
    return one


def _check_tensors(model: onnx.ModelProto, path: Path) -> None:
    """Refuse constants whose values are not what their type and sizes say."""
    faults = []
    for tensor in tensors_of(model):
        try:
            numpy_helper.to_array(tensor)
        except Exception as error:  # noqa: BLE001  numpy, protobuf or the package, of a file that may be damaged
            faults.append(f'{path}: constant "{brief(tensor.name)}": its values cannot be read ({brief(str(error))})')
    if faults:
        raise InputError(faults)


def _check_names(graph: onnx.GraphProto, path: Path) -> None:
    """Refuse a graph without outputs, one whose nodes read what no node before them makes, and values made twice."""
    constants = [tensor.name for tensor in graph.initializer] + [
        tensor.values.name for tensor in graph.sparse_initializer
    ]
    known, faults = {"", *constants, *(input_.name for input_ in graph.input)}, []
    for node in graph.node:
        if missing := [name for name in node.input if name not in known]:
            faults.append(
                f'node "{label(node)}" ({node.op_type}): reads "{brief(missing[0])}", which no node before it makes'
            )
        made = [name for name in node.output if name]
        if again := [name for place, name in enumerate(made) if name in known or name in made[:place]]:
            faults.append(f'node "{label(node)}" ({node.op_type}): makes "{brief(again[0])}", which exists already')
        elif not made:
            faults.append(
                f'node "{label(node)}" ({node.op_type}): expected a node that makes something, found no output'
            )
        known |= set(made)
    faults += [
        f'output "{brief(output.name)}": no node makes it' for output in graph.output if output.name not in known - {""}
    ]
    if not graph.output:
        faults.append("expected outputs, found none")
    if faults:
        raise InputError(f"{path}: {fault}" for fault in faults)


def _given(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Inputs of a run; old files list weights there too."""
    weights = {tensor.name for tensor in graph.initializer}
    return [tensor for tensor in graph.input if tensor.name not in weights]


def _open_batch(model: onnx.ModelProto, path: Path, *, one: bool) -> None:
    """Rename the first dimension of every input to `BATCH` in the whole model; a fixed one is a fault.

    With ``one``, a first dimension of one sample may be fixed: a model that decides about its exits asks one sample.
    """
    if one and all(dims and dims[0].dim_value == 1 for dims in map(_sizes, _given(model.graph))):
        _open_one(model)
    faults, names = [], set()
    for input_ in _given(model.graph):
        sizes = _sizes(input_)
        if not sizes or sizes[0].HasField("dim_value"):
            stated = f"{sizes[0].dim_value}" if sizes else "a scalar"
            faults.append(
                f'{path}: input "{input_.name}": expected an open first dimension, the batch, found {stated}; '
                "export the model with a batch size that is not fixed"
            )
        else:
            names.add(sizes[0].dim_param)
            sizes[0].dim_param = BATCH
    if faults:
        raise InputError(faults)
    for tensor in [*model.graph.value_info, *model.graph.output]:
        for size in _sizes(tensor):
            if size.dim_param and size.dim_param in names:
                size.dim_param = BATCH


def _sizes(tensor: onnx.ValueInfoProto) -> Sequence[onnx.TensorShapeProto.Dimension]:
    return list(tensor.type.tensor_type.shape.dim)


def _open_one(model: onnx.ModelProto) -> None:
    """Open the first dimension of a model for one sample: of its inputs, and of the sizes that a Reshape states."""
    graph = model.graph
    for input_ in _given(graph):
        _sizes(input_)[0].Clear()
    for output in graph.output:
        output.ClearField("type")
    del graph.value_info[:]  # they have sizes of one sample
    stated = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.INT64}
    for node in graph.node:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.name == "value_ints" or (
                attribute.name == "value" and attribute.t.data_type == onnx.TensorProto.INT64
            ):
                values = (
                    attribute.t
                    if attribute.name == "value"
                    else numpy_helper.from_array(np.array(attribute.ints, dtype=np.int64))
                )
                stated[node.output[0]] = values
    for node in graph.node:
        if node.op_type != "Reshape" or len(node.input) != 2 or node.input[1] not in stated:
            continue
        sizes = numpy_helper.to_array(stated[node.input[1]]).ravel().copy()
        if sizes.size and (sizes > 0).all():
            sizes[0] = -1  # the batch is the outermost of the dimensions that it is folded into
        elif (
            sizes.size
            and sizes[0] == 1
            and not any(attribute.name == "allowzero" and attribute.i for attribute in node.attribute)
        ):
            sizes[0] = 0  # the size of the input
        else:
            continue
        node.input[1] = f"{node.output[0]}/sizes"
        graph.initializer.append(numpy_helper.from_array(sizes, node.input[1]))


def _ends(model: onnx.ModelProto, exits: Sequence[str] | None, path: Path) -> list[str]:
    """The tensors that the exits answer with."""
    if exits is None:
        return [output.name for output in model.graph.output]
    tensors = {name: name for node in model.graph.node for name in node.output if name}
    known = {node.name: node.output[0] for node in model.graph.node if node.name} | tensors
    faults = []
    for name in exits:
        if name not in known:
            hint = did_you_mean(
                name, known, f"the outputs are {', '.join(output.name for output in model.graph.output)}"
            )
            faults.append(f'exits: expected names of outputs or nodes of {path}, found "{name}"; {hint}')
    if faults:
        raise InputError(faults)
    return [known[name] for name in exits]


def cut(model: onnx.ModelProto, ends: Iterable[str], path: Path, *, ordered: bool = False) -> list[GraphStage]:
    """Cut a model into stages that each end with an answer; ``ordered`` if the ends are in order of depth.

    A stage computes the nodes that its exit needs and no earlier stage has computed.  Constants and sizes have no row
    for each sample, so that no stage can hand them on: every stage that reads them computes them again.
    """
    graph = model.graph
    for node in graph.node:
        if any(attribute.type in {AttributeProto.GRAPH, AttributeProto.GRAPHS} for attribute in node.attribute):
            raise InputError(f'{path}: node "{node.name or node.output[0]}" ({node.op_type}): cannot be cut, as it has '
                             "graphs of its own; export the model without branches and loops")  # fmt: skip
    maker = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    active = [tensor.name for tensor in _given(graph)]  # tensors that depend on inputs, in execution order
    known = set(active)
    for node in graph.node:
        if known & set(node.input) and node.op_type != SIZES:
            made = [name for name in node.output if name]
            active += made
            known |= set(made)
    needs = {end: {place for place in _needed(graph, maker, [end]) if known & set(graph.node[place].output)}
             for end in ends}  # fmt: skip
    order = list(needs) if ordered else sorted(needs, key=lambda end: len(needs[end]))
    own: list[set[int]] = []
    done: set[int] = set()
    for end in order:
        own.append(needs[end] - done)
        if not own[-1]:
            raise InputError(f'{path}: exit "{end}": cannot be cut: nothing is computed between it and the exit before')
        done |= own[-1]
    types = {tensor.name: tensor.type for tensor in [*graph.input, *graph.value_info, *graph.output]}
    parts = [_part(graph, maker, places, known, types) for places in own]
    stages = []
    for number, (end, part) in enumerate(zip(order, parts, strict=True)):
        later = {name for other in parts[number + 1 :] for name in other.reads}
        to_come = {name for places in own[number + 1 :] for place in places for name in graph.node[place].output}
        keeps = tuple(name for name in active if name in later - to_come)
        here = {name for place in own[number] for name in graph.node[place].output}
        reads = tuple(name for name in active if name in part.reads)
        makes = [end, *(name for name in keeps if name in here and name != end)]
        faults = [f'{path}: tensor "{name}": its type cannot be computed; give the model as it was exported, without '
                  "operators that only one runtime has" for name in [*reads, *makes] if name not in types]  # fmt: skip
        if faults:
            raise InputError(faults)
        probabilities = _answers_with_probabilities(graph, maker, end)
        axes = {name: axis for name in keeps if (axis := batch_axis(types[name]))}
        used = {name for node in part.nodes for name in node.input}
        made = helper.make_graph(
            part.nodes,
            graph.name or "stage",
            [helper.make_value_info(name, types[name]) for name in reads],
            [helper.make_value_info(name, types[name]) for name in makes],
            [tensor for tensor in graph.initializer if tensor.name in used],
            sparse_initializer=[tensor for tensor in graph.sparse_initializer if tensor.values.name in used],
        )
        proto = helper.make_model(made, opset_imports=model.opset_import, ir_version=model.ir_version)
        stages.append(GraphStage(proto, reads, end, keeps, probabilities, axes))
    return stages


def _needed(
    graph: onnx.GraphProto, maker: dict[str, int], names: Iterable[str], there: Collection[str] = ()
) -> set[int]:
    """Places of the nodes that tensors depend on; tensors of ``there`` need none."""
    places: set[int] = set()
    left = list(names)
    while left:
        name = left.pop()
        place = maker.get(name)
        if place is not None and place not in places and name not in there:
            places.add(place)
            left += graph.node[place].input
    return places


class _StageNodes(NamedTuple):
    """Nodes of a stage, and the input-dependent tensors that it reads."""

    nodes: list[onnx.NodeProto]
    reads: set[str]


def _part(
    graph: onnx.GraphProto, maker: dict[str, int], own: set[int], active: set[str], types: dict[str, onnx.TypeProto]
) -> _StageNodes:
    """Nodes of a stage: its own, and nodes that make the constants and sizes that they read."""
    here = {name for place in own for name in graph.node[place].output}
    read = {name for place in own for name in graph.node[place].input if name}
    reads = (read & active) - here
    places = own | _needed(graph, maker, read - active, active)
    nodes: list[onnx.NodeProto] = []
    first = min(reads)
    for place in sorted(places):
        node = graph.node[place]
        source = node.input[0] if node.op_type == SIZES else ""
        if source in active - here - reads:  # the tensor is gone: the batch that is here gives its size
            sizes = known_sizes(node, types.get(source))
            if sizes is not None:
                nodes += size_nodes(node, sizes, first, batch_axis(types.get(first, onnx.TypeProto())) or 0)
                continue
            reads.add(source)
        nodes.append(node)
    return _StageNodes(nodes, reads)


def _check_batches(stages: Sequence[GraphStage], path: Path) -> None:
    """Refuse a tensor without a row for each sample: a sample could not leave the batch."""
    faults = []
    for number, stage in enumerate(stages, 1):
        for output in stage.model.graph.output:
            axis = batch_axis(output.type)
            if axis is None or (axis and output.name == stage.answer):
                sizes = [dim.dim_param or str(dim.dim_value or "?") for dim in output.type.tensor_type.shape.dim]
                faults.append(
                    f'{path}: stage {number}: tensor "{output.name}": expected a row for each sample of the batch, '
                    f"found {' x '.join(sizes) or 'a scalar'}; export the model with a batch size that is not fixed, "
                    "or place the exit elsewhere"
                )
    if faults:
        raise InputError(faults)


def _answers_with_probabilities(graph: onnx.GraphProto, maker: dict[str, int], end: str) -> bool:
    """Tell if a Softmax makes an answer, perhaps with a conversion behind it."""
    node = graph.node[maker[end]]
    while node.op_type in CONVERSIONS and node.input[0] in maker:
        node = graph.node[maker[node.input[0]]]
    return str(node.op_type) == "Softmax"
