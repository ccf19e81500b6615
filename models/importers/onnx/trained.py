"""A trained ONNX network as layers with weights: what a quantiser needs, and nothing that only shapes need."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from ....formats import InputError
from ....formats.array_types import Floats
from ...lowering import windows
from ..names import LayerNames
from .cut import read_stages
from .labels import attributes_of, brief, label
from .layers import Map, TrainedExit, TrainedLayer, TrainedNetwork

SAME = {"Dropout", "Identity"}
"""Operators that hand their input on."""


class _Held(NamedTuple):
    """What a tensor holds: a layer's output, each value perhaps repeated ``repeats`` times in both directions."""

    layer: str
    repeats: int = 1
    softmax: bool = False


def read_trained(path: Path, exits: Sequence[str] | None = None) -> TrainedNetwork:
    """Read a network with its weights; bounds behind a product or an addition, as of a rectifier, are part of it.

    A map that a ``Resize`` enlarges in whole blocks is taken in its own size, if only operators read it that keep the
    blocks: a convolution of stride 1 whose dilation and padding are multiples of the enlargement.  All outputs answer
    if no exits are given.
    """
    parts = read_stages(path, exits)
    return _WeightReader(parts.whole, path).read([stage.answer for stage in parts.stages], parts.stages)


def _value(node: onnx.NodeProto) -> NDArray[Any]:
    """The value of a Constant."""
    if len(node.attribute) != 1:
        raise ValueError(f"expected one value, found {len(node.attribute)}")
    value = helper.get_attribute_value(node.attribute[0])
    return numpy_helper.to_array(value) if node.attribute[0].name == "value" else np.array(value)


class _WeightReader:
    """One pass over the nodes."""

    def __init__(self, model: onnx.ModelProto, path: Path) -> None:
        self.graph, self.path = model.graph, path
        self.names = LayerNames()
        self.layers: dict[str, TrainedLayer] = {}
        self.held: dict[str, _Held] = {}
        self.constants: dict[str, NDArray[Any]] = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in self.graph.initializer
        }
        self.uses = Counter(name for node in self.graph.node for name in node.input)
        self.stage_of: dict[str, int] = {}

    def read(self, answers: Sequence[str], stages: Sequence[Any]) -> TrainedNetwork:
        """The network."""
        self.uses.update(answers)
        for number, stage in reversed(list(enumerate(stages, 1))):
            self.stage_of |= {name: number for node in stage.model.graph.node for name in node.output}
        given, shape = self.only_input()
        self.shapes: dict[str, Map] = {"input": shape}
        self.held[given] = _Held("input")
        faults = []
        for node in self.graph.node:
            try:
                self.follow(node)
            except Exception as error:  # noqa: BLE001  whatever inputs and attributes do to us that do not fit
                why = str(error)
                if not isinstance(error, ValueError):
                    why = f"its inputs or attributes do not fit ({brief(why)})"
                faults.append(f'{self.path}: node "{label(node)}" ({node.op_type}): {why}')
                active = next((name for name in node.input if name in self.held), given)
                self.held[node.output[0]] = self.held[active]
        if faults:
            raise InputError(faults)
        missing = [name for name in answers if name not in self.held]
        if missing:
            raise InputError(f'{self.path}: exit "{missing[0]}": depends on no input')
        exits = [TrainedExit(name, self.held[name].layer, self.held[name].softmax) for name in answers]
        if bad := [exit_.name for exit_ in exits if self.shapes[exit_.layer][1:] != (1, 1)]:
            raise InputError(f'{self.path}: exit "{bad[0]}": expected a row of scores for each sample, found a map')
        return TrainedNetwork(given, shape, list(self.layers.values()), exits)

    def only_input(self) -> tuple[str, Map]:
        """Name and shape of the one input."""
        given = [input_ for input_ in self.graph.input if input_.name not in self.constants]
        if len(given) != 1:
            raise InputError(f"{self.path}: expected one input, found {len(given)}")
        sizes = [dim.dim_value for dim in given[0].type.tensor_type.shape.dim][1:]
        if len(sizes) not in (1, 3) or min(sizes) < 1:
            raise InputError(
                f'{self.path}: input "{given[0].name}": expected samples of channels x height x width, or of features, '
                f"found {' x '.join(map(str, sizes)) or 'none'} (0 is an open size); export it with fixed sizes"
            )
        return given[0].name, (sizes[0], *(sizes[1:] or (1, 1)))

    def follow(self, node: onnx.NodeProto) -> None:
        """Note what the output of a node holds, if that depends on the input."""
        if node.op_type == "Constant":
            self.constants[node.output[0]] = _value(node)
        if node.op_type == "Identity" and node.input[0] in self.constants:  # equal weights, as PyTorch writes them once
            self.constants[node.output[0]] = self.constants[node.input[0]]
        if node.op_type == "Shape" or node.output[0] not in self.stage_of:
            return  # the arithmetic of sizes
        active = [name for name in node.input if name in self.held]
        if not active:
            return
        made = self.take(node, active)
        if made.layer == self.held[active[0]].layer:  # two names of one map
            self.uses[node.output[0]] += self.uses[active[0]] - 1
        self.held[node.output[0]] = made

    def take(self, node: onnx.NodeProto, active: list[str]) -> _Held:
        """What the output of a node holds."""
        attributes = attributes_of(node)
        held = self.held[active[0]]
        if any(self.held[name].softmax for name in active) and node.op_type not in SAME:
            raise ValueError("expected a Softmax at the end of an exit only")
        if node.op_type in SAME:
            return held
        if node.op_type == "Resize":
            return self.enlarged(node, attributes, held)
        if node.op_type == "Softmax":
            if attributes.get("axis", -1) not in (1, -1) or self.shapes[held.layer][1:] != (1, 1):
                raise ValueError("expected a Softmax over the classes of an exit")
            return held._replace(softmax=True)
        if node.op_type == "Add" and len(active) == 1:
            return self.biased(node, held)
        makers = {
            "Conv": self.conv, "Gemm": self.linear, "MatMul": self.linear, "Relu": self.relu, "Clip": self.clip,
            "Add": self.add, "MaxPool": self.pool, "AveragePool": self.pool, "GlobalAveragePool": self.pool,
            "ReduceMean": self.mean, "Concat": self.concat, "Flatten": self.flat, "Reshape": self.flat,
            "BatchNormalization": self.normalised,
        }  # fmt: skip
        if len(active) > 1 and node.op_type not in (
            "Add",
            "Concat",
            "Conv",
            "Gemm",
            "MatMul",
        ):  # these say what they expect
            raise ValueError(f"expected one map as its input, found {len(active)}")
        if node.op_type not in makers:
            known = ", ".join(sorted([*makers, "Resize", "Softmax", *SAME]))
            raise ValueError(f"an integer network has no such operator, only {known}")
        return makers[node.op_type](node, attributes, [self.held[name] for name in active])

    def put(self, node: onnx.NodeProto, op: Any, sources: list[_Held], shape: Map, **more: Any) -> str:
        """Add a layer; its name."""
        name = self.names.give(node.name or node.output[0])
        stage = self.stage_of[node.output[0]]
        self.layers[name] = TrainedLayer(name, op, [source.layer for source in sources], stage, shape, **more)
        self.shapes[name] = shape
        return name

    def constant(self, node: onnx.NodeProto, place: int) -> Floats:
        """A constant input."""
        value = self.constants.get(node.input[place])
        if value is None:
            raise ValueError(f'expected constants as its input "{node.input[place]}", found values that a run computes')
        if not np.isfinite(value).all():
            raise ValueError(f'expected finite constants as its input "{node.input[place]}", found others')
        return value.astype(np.float64)

    def enlarged(self, node: onnx.NodeProto, attributes: dict[str, Any], held: _Held) -> _Held:
        """A map each of whose values is repeated."""
        stated = self.constants.get(node.input[2]) if len(node.input) > 2 else None
        scales = [] if stated is None else stated.tolist()
        places = attributes.get("coordinate_transformation_mode", b"half_pixel"), attributes.get("mode", b"nearest")
        whole = len(scales) == 4 and scales[:2] == [1, 1] and scales[2] == scales[3] >= 1 and scales[2] % 1 == 0
        rounds = attributes.get("nearest_mode", b"round_prefer_floor")
        if not whole or places != (b"asymmetric", b"nearest") or rounds != b"floor":
            raise ValueError(
                "expected to enlarge in whole blocks: scales 1, 1, N, N, mode nearest, nearest_mode floor, "
                "coordinate_transformation_mode asymmetric"
            )
        return held._replace(repeats=held.repeats * int(scales[2]))

    def window(self, attributes: dict[str, Any], held: _Held, kernel: Sequence[int]) -> tuple[dict[str, Any], Any]:
        """Keys of a layer's window, and height and width of its output."""
        if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
            raise ValueError("expected pads as numbers, found auto_pad; export it with numbers")
        if len(kernel) != 2:
            raise ValueError(f"expected a window of rows and columns, found one of {len(kernel)} sizes")
        stride, dilation = (list(attributes.get(name, [1, 1])) for name in ("strides", "dilations"))
        pads, many = list(attributes.get("pads", [0] * 4)), held.repeats
        if many > 1:
            dilation = [many if size == 1 else apart for size, apart in zip(kernel, dilation, strict=True)]
            if stride != [1, 1] or any(size % many for size in [*dilation, *pads]):
                raise ValueError(
                    f"reads a map that is enlarged {many} times: expected stride 1, and pads and dilations that are "
                    f"multiples of {many}"
                )
            dilation, pads = [size // many for size in dilation], [size // many for size in pads]
        high, wide = self.shapes[held.layer][1:]
        reach = [(size - 1) * apart + 1 for size, apart in zip(kernel, dilation, strict=True)]
        ceil = bool(attributes.get("ceil_mode"))
        size = [
            windows(length, span, step, sides, ceil=ceil)
            for length, span, step, sides in zip((high, wide), reach, stride, (pads[0::2], pads[1::2]), strict=True)
        ]
        window = {"kernel": kernel, "stride": stride, "pad": pads[:2], "dilation": dilation}
        return {key: tuple(map(int, pair)) for key, pair in window.items()}, (size, pads)

    def conv(self, node: onnx.NodeProto, attributes: dict[str, Any], sources: list[_Held]) -> _Held:
        """A convolution."""
        weights, groups = self.constant(node, 1), attributes.get("group", 1)
        more, (size, _) = self.window(attributes, sources[0], weights.shape[2:])
        C, channels = weights.shape[0] // groups, weights.shape[1]
        if channels * groups != self.shapes[sources[0].layer][0]:
            raise ValueError(f"expected {channels * groups} channels, found {self.shapes[sources[0].layer][0]}")
        bias = self.constant(node, 2) if len(node.input) > 2 else np.zeros(weights.shape[0])
        ordered = weights.reshape(groups, C, -1).transpose(0, 2, 1)
        shape = weights.shape[0], size[0], size[1]
        name = self.put(
            node, "product", sources[:1], shape, groups=groups, weights=ordered, bias=bias.reshape(groups, C), **more
        )
        return _Held(name, sources[0].repeats)

    def linear(self, node: onnx.NodeProto, attributes: dict[str, Any], sources: list[_Held]) -> _Held:
        """A fully connected layer."""
        plain = attributes.get("alpha", 1.0) == attributes.get("beta", 1.0) == 1 and not attributes.get("transA")
        if not plain or len(sources) > 1 or self.shapes[sources[0].layer][1:] != (1, 1):
            raise ValueError("expected features of one place by constant weights, without alpha, beta, transA")
        weights = self.constant(node, 1)
        weights = weights.T if attributes.get("transB") else weights
        if weights.ndim != 2 or len(weights) != self.shapes[sources[0].layer][0]:
            raise ValueError(f"expected weights for {self.shapes[sources[0].layer][0]} features, found others")
        columns = weights.shape[1]
        bias = np.broadcast_to(self.constant(node, 2).ravel(), columns) if len(node.input) > 2 else np.zeros(columns)
        shape = columns, 1, 1
        return _Held(self.put(node, "product", sources, shape, weights=weights[None], bias=bias[None]))

    def sole(self, node: onnx.NodeProto, held: _Held, *ops: str) -> TrainedLayer | None:
        """The layer that a node reads, if it is of these and nothing else reads it."""
        layer = self.layers.get(held.layer)
        alone = all(self.uses[name] == 1 for name in node.input if name in self.held)
        return layer if layer and layer.op in ops and not layer.bounded and alone else None

    def biased(self, node: onnx.NodeProto, held: _Held) -> _Held:
        """An addition of constants: a bias of the product before it."""
        layer = self.sole(node, held, "product")
        constant = self.constant(node, next(i for i, name in enumerate(node.input) if name not in self.held))
        if layer is None or constant.size not in (1, layer.bias.size) or layer.shape[1:] != (1, 1):
            raise ValueError("expected a bias for the columns of the fully connected layer before it")
        layer.bias = layer.bias + np.broadcast_to(constant.ravel(), layer.bias.size).reshape(layer.bias.shape)
        return held

    def normalised(self, node: onnx.NodeProto, attributes: dict[str, Any], sources: list[_Held]) -> _Held:
        """A normalisation in its inference form: factors and biases of the product before it."""
        layer = self.sole(node, sources[0], "product")
        if layer is None or attributes.get("training_mode"):
            raise ValueError("expected a normalisation in inference form, behind a product that nothing else reads")
        scale, shift, mean, variance = (self.constant(node, place) for place in range(1, 5))
        if variance.min() < 0 or scale.size != layer.bias.size:
            raise ValueError(f"expected factors and variances of {layer.bias.size} channels, none below 0")
        factor = (scale / np.sqrt(variance + attributes.get("epsilon", 1e-5))).reshape(layer.bias.shape)
        layer.weights = layer.weights * factor[:, None]
        layer.bias = (layer.bias - mean.reshape(factor.shape)) * factor + shift.reshape(factor.shape)
        return sources[0]

    def relu(self, node: onnx.NodeProto, _: dict[str, Any], sources: list[_Held]) -> _Held:
        """A rectifier."""
        return self.within(node, sources[0], 0.0, math.inf)

    def clip(self, node: onnx.NodeProto, attributes: dict[str, Any], sources: list[_Held]) -> _Held:
        """Values within bounds, which are attributes or, since version 11 of ONNX's operators, inputs."""
        bounds = [attributes.get(name, unbound) for name, unbound in (("min", -math.inf), ("max", math.inf))]
        for place, name in enumerate(node.input[1:]):
            if name:
                bounds[place] = self.constant(node, 1 + place).item()
        if not bounds[0] < bounds[1]:
            raise ValueError(f"expected a lower bound below the upper one, found {bounds[0]:g} and {bounds[1]:g}")
        return self.within(node, sources[0], *bounds)

    def within(self, node: onnx.NodeProto, held: _Held, low: float, high: float) -> _Held:
        """Bounds, part of the layer before them if nothing else reads that."""
        layer = self.sole(node, held, "product", "add")
        if layer is None:
            return held._replace(layer=self.put(node, "clip", [held], self.shapes[held.layer], low=low, high=high))
        layer.low, layer.high = low, high
        return held

    def add(self, node: onnx.NodeProto, _: dict[str, Any], sources: list[_Held]) -> _Held:
        """The sum of two maps."""
        shapes = {(self.shapes[source.layer], source.repeats) for source in sources}
        if len(sources) != 2 or len(shapes) != 1:
            raise ValueError("expected two maps of one size")
        return sources[0]._replace(layer=self.put(node, "add", sources, self.shapes[sources[0].layer]))

    def concat(self, node: onnx.NodeProto, attributes: dict[str, Any], sources: list[_Held]) -> _Held:
        """Maps behind one another, by channels."""
        rank, axis = self.rank(node), attributes["axis"]
        sizes = {(*self.shapes[source.layer][1:], source.repeats) for source in sources}
        if len(sources) != len(node.input) or len(sizes) != 1:
            raise ValueError("expected maps of one height and width, and no constants")
        if rank not in (2, 4) or axis % rank != 1:
            raise ValueError(f"expected to put channels behind one another (axis 1), found axis {axis}")
        if len(sources) == 1:
            return sources[0]
        channels = sum(self.shapes[source.layer][0] for source in sources)
        shape = channels, *self.shapes[sources[0].layer][1:]
        return sources[0]._replace(layer=self.put(node, "concat", sources, shape))

    def rank(self, node: onnx.NodeProto) -> int:
        """How many dimensions the output of a node has; 0 if that is not known."""
        typed = next((i for i in [*self.graph.value_info, *self.graph.output] if i.name == node.output[0]), None)
        return len(typed.type.tensor_type.shape.dim) if typed else 0

    def pool(self, node: onnx.NodeProto, attributes: dict[str, Any], sources: list[_Held]) -> _Held:
        """A pool; one over the whole map does not see how often its values are repeated."""
        source, op = self.shapes[sources[0].layer], "maxpool" if node.op_type == "MaxPool" else "avgpool"
        if node.op_type == "GlobalAveragePool":
            return _Held(self.put(node, op, sources, (source[0], 1, 1), kernel=source[1:]))
        if sources[0].repeats > 1:
            raise ValueError(f"reads a map that is enlarged {sources[0].repeats} times: expected a convolution")
        more, (size, pads) = self.window(attributes, sources[0], attributes["kernel_shape"])
        if op == "avgpool":
            spans = [
                (count - 1) * step + (side - 1) * apart + 1
                for count, step, side, apart in zip(size, more["stride"], more["kernel"], more["dilation"], strict=True)
            ]
            beyond = any(span > n + a + b for span, n, a, b in zip(spans, source[1:], pads[:2], pads[2:], strict=True))
            if beyond or (any(pads) and not attributes.get("count_include_pad")):
                raise ValueError("expected windows that all average the same number of values")
        return _Held(self.put(node, op, sources, (source[0], size[0], size[1]), **more))

    def mean(self, node: onnx.NodeProto, attributes: dict[str, Any], sources: list[_Held]) -> _Held:
        """A mean over the whole map, as newer exporters write its pool."""
        axes = self.constant(node, 1).tolist() if len(node.input) > 1 else attributes.get("axes", [])
        if sorted(axis % 4 for axis in axes) != [2, 3]:
            raise ValueError("expected a mean over the rows and columns of a map")
        source = self.shapes[sources[0].layer]
        return _Held(self.put(node, "avgpool", sources, (source[0], 1, 1), kernel=source[1:]))

    def flat(self, node: onnx.NodeProto, attributes: dict[str, Any], sources: list[_Held]) -> _Held:
        """All values of a sample in a row."""
        (held,) = sources
        words = math.prod(self.shapes[held.layer])
        if self.rank(node) != 2 or attributes.get("axis", 1) != 1 or held.repeats > 1:
            raise ValueError("expected all values of a sample in a row")
        if self.shapes[held.layer] == (words, 1, 1):
            return held
        return _Held(self.put(node, "flatten", sources, (words, 1, 1)))
