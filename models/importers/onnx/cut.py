"""Cuts an ONNX model at its exits into stages that run one after the other (``docs/real-device.md``)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import onnx
from onnx import AttributeProto, external_data_helper, helper, shape_inference

from ....formats import InputError
from .graph import inline_functions, load_model

BATCH = "batch"
"""Name of the batch dimension in the stages."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a network: from the exit before it to its own.

    Attributes
    ----------
    model : ModelProto
        What it computes, as a model of its own.
    reads : tuple of str
        Tensors that it takes.
    answer : str
        The answer of its exit.
    keeps : tuple of str
        Tensors that later stages read: what leaves the trunk behind this exit.  There are several if the exit
        stands inside a block; some may have been made by earlier stages.
    probabilities : bool
        Whether the answer is one, because a Softmax makes it.
    """

    model: onnx.ModelProto
    reads: tuple[str, ...]
    answer: str
    keeps: tuple[str, ...]
    probabilities: bool


class Parts(NamedTuple):
    """A network that was cut.

    Attributes
    ----------
    whole : ModelProto
        The network as one model, whose outputs are the answers of its exits.
    stages : list of Stage
        One for each exit, in order of depth.
    """

    whole: onnx.ModelProto
    stages: list[Stage]


def read_stages(path: Path, exits: Sequence[str] | None = None) -> Parts:
    """Read a model and cut it at its exits.

    Parameters
    ----------
    path : Path
        The ONNX file.
    exits : sequence of str, optional
        Names of outputs, tensors or nodes that answer; all outputs if not given.

    Returns
    -------
    Parts
        The model, and its stages.

    Raises
    ------
    InputError
        If the model is damaged, has no batch dimension, or cannot be cut there.
    """
    if not path.is_file():
        raise InputError(f"{path}: expected an ONNX model, found no such file")
    model = load_model(path)
    try:
        external_data_helper.load_external_data_for_model(model, str(path.parent))
    except Exception as error:  # noqa: BLE001  a missing or short file, which the package reports in several ways
        raise InputError(f"{path}: weights: could not be read ({error})") from None
    model = inline_functions(model, path)
    _open_batch(model, path)
    try:
        model = shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # noqa: BLE001  whatever its C++ says
        raise InputError(f"{path}: its shapes do not come out ({' '.join(str(error).split())[:100]})") from None
    stages = cut(model, _ends(model, exits, path), path)
    _check_batch(stages, path)
    answers = [next(item for item in stage.model.graph.output if item.name == stage.answer) for stage in stages]
    del model.graph.output[:]
    model.graph.output.extend(answers)
    return Parts(model, stages)


def _given(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Inputs that the user gives; old files list weights there too."""
    weights = {item.name for item in graph.initializer}
    return [item for item in graph.input if item.name not in weights]


def _open_batch(model: onnx.ModelProto, path: Path) -> None:
    """Give the first dimension of every input one name; a fixed one is a fault."""
    faults = []
    for item in _given(model.graph):
        sizes = item.type.tensor_type.shape.dim
        if not sizes or sizes[0].HasField("dim_value"):
            found = f"{sizes[0].dim_value}" if sizes else "a scalar"
            faults.append(
                f'{path}: input "{item.name}": expected an open first dimension, the batch, found {found}; '
                "export the model with a batch size that is not fixed"
            )
        else:
            sizes[0].dim_param = BATCH
    if faults:
        raise InputError(faults)


def _ends(model: onnx.ModelProto, exits: Sequence[str] | None, path: Path) -> list[str]:
    """The tensors that the exits answer with."""
    if exits is None:
        return [item.name for item in model.graph.output]
    tensors = {name: name for node in model.graph.node for name in node.output if name}
    known = {node.name: node.output[0] for node in model.graph.node if node.name} | tensors
    faults = []
    for name in exits:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            faults.append(f'{path}: --exits: expected names of outputs or nodes, found "{name}"{hint}')
    if faults:
        raise InputError(faults)
    return [known[name] for name in exits]


def cut(model: onnx.ModelProto, ends: Iterable[str], path: Path) -> list[Stage]:
    """Cut a model into stages, each of which ends with an answer.

    The trunk of an exit is what it and a later exit need.  A stage computes what its exit needs and no stage before
    it has computed.  What depends on no input is copied into every stage that reads it.

    Parameters
    ----------
    model : ModelProto
        With the types of all tensors.
    ends : iterable of str
        The tensors that the exits answer with.
    path : Path
        Its file, for faults.

    Returns
    -------
    list of Stage
        By depth: the number of nodes that the exit needs.

    Raises
    ------
    InputError
        If a node has graphs of its own, or nothing is computed between two exits.
    """
    graph = model.graph
    for node in graph.node:
        if any(item.type in {AttributeProto.GRAPH, AttributeProto.GRAPHS} for item in node.attribute):
            label = f'node "{node.name or node.output[0]}" ({node.op_type})'
            raise InputError(f"{path}: {label}: cannot be cut, as it has graphs of its own")
    maker = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    active = [item.name for item in _given(graph)]  # tensors that depend on inputs, in the order of their making
    known = set(active)
    for node in graph.node:
        if known & set(node.input):
            made = [name for name in node.output if name]
            active += made
            known |= set(made)
    running = {place for place, node in enumerate(graph.node) if known & set(node.output)}
    needs = {end: running & _needed(graph, maker, [end]) for end in ends}
    own: dict[str, set[int]] = {}
    done: set[int] = set()
    for end in sorted(needs, key=lambda end: len(needs[end])):
        own[end] = needs[end] - done
        if not own[end]:
            raise InputError(f'{path}: exit "{end}": cannot be cut: nothing is computed between the exit before and it')
        done |= own[end]
    stages, behind = [], done
    for end, here in own.items():
        behind = behind - here
        outputs = _made(graph, here)
        wanted = _read(graph, here) - outputs, _read(graph, behind) - _made(graph, behind)
        reads, keeps = (tuple(name for name in active if name in names) for names in wanted)
        makes = [end, *(name for name in keeps if name in outputs and name != end)]
        part = _part(model, maker, here, known, reads, makes, path)
        stages.append(Stage(part, reads, end, keeps, graph.node[maker[end]].op_type == "Softmax"))
    return stages


def _read(graph: onnx.GraphProto, places: Iterable[int]) -> set[str]:
    """Tensors that nodes read."""
    return {name for place in places for name in graph.node[place].input if name}


def _made(graph: onnx.GraphProto, places: Iterable[int]) -> set[str]:
    """Tensors that nodes make."""
    return {name for place in places for name in graph.node[place].output if name}


def _needed(graph: onnx.GraphProto, maker: dict[str, int], names: Iterable[str]) -> set[int]:
    """Places of the nodes that tensors depend on."""
    found: set[int] = set()
    left = list(names)
    while left:
        place = maker.get(left.pop())
        if place is not None and place not in found:
            found.add(place)
            left += graph.node[place].input
    return found


def _part(
    model: onnx.ModelProto,
    maker: dict[str, int],
    own: set[int],
    active: set[str],
    reads: Sequence[str],
    makes: Sequence[str],
    path: Path,
) -> onnx.ModelProto:
    """A model of some nodes, with the constants that they read."""
    graph = model.graph
    places = sorted(own | _needed(graph, maker, _read(graph, own) - active))
    used = _read(graph, places)
    types = {item.name: item.type for item in [*graph.input, *graph.value_info, *graph.output]}
    faults = [f'{path}: tensor "{name}": its type does not come out' for name in [*reads, *makes] if name not in types]
    if faults:
        raise InputError(faults)
    part = helper.make_graph(
        [graph.node[place] for place in places],
        graph.name or "stage",
        [helper.make_value_info(name, types[name]) for name in reads],
        [helper.make_value_info(name, types[name]) for name in makes],
        [item for item in graph.initializer if item.name in used],
        sparse_initializer=[item for item in graph.sparse_initializer if item.values.name in used],
    )
    return helper.make_model(part, opset_imports=model.opset_import, ir_version=model.ir_version)


def _check_batch(stages: Sequence[Stage], path: Path) -> None:
    """Refuse a cut through a tensor that has no row for each sample: samples could not leave."""
    faults = []
    for number, stage in enumerate(stages, 1):
        for item in stage.model.graph.output:
            kind = item.type.tensor_type
            fixed = kind.HasField("shape") and (not kind.shape.dim or kind.shape.dim[0].HasField("dim_value"))
            if fixed:
                faults.append(
                    f'{path}: stage {number}: tensor "{item.name}": expected the batch as first dimension, found none: '
                    "the model cannot be cut there"
                )
    if faults:
        raise InputError(faults)
