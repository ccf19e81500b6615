"""Networks of 16-bit integers: their file, and what each layer computes, bit by bit (docs/npu.md, Integers)."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ...formats import AnyPath, InputError, Strict, open_arrays, validate
from ..engine import MOST, SUM_BITS, WORD_BITS
from .window import Window

INTEGER_FILE = "integer.npz"
SCHEMA: Literal["fluidb.integer/2"] = "fluidb.integer/2"
HEADER = "network"
"""The array that holds the layers, as bytes of JSON."""

HIGH: int = 2 ** (WORD_BITS - 1) - 1
LOW: int = -HIGH - 1
MAX_EXPONENT = 64
MAX_BYTES = 2**30
"""Most bytes of an array that is read."""

Integers = NDArray[np.int16]
WORD_TYPE: np.dtype[np.int16] = np.dtype(f"int{WORD_BITS}")
"""The type of a word in arrays."""

Size = Annotated[int, Field(ge=1, le=MOST)]
Shift = Annotated[int, Field(ge=0, lt=SUM_BITS)]
Word = Annotated[int, Field(ge=LOW, le=HIGH)]
Exponent = Annotated[int, Field(ge=-MAX_EXPONENT, le=MAX_EXPONENT)]


class Map(NamedTuple):
    """A map of one sample."""

    channels: Annotated[int, Field(ge=1, le=2**24)]
    height: Size
    width: Size


class Pair(NamedTuple):
    """A size along rows and columns."""

    rows: Size
    columns: Size


class Pad(NamedTuple):
    """Rows above a map and columns to its left."""

    rows: Annotated[int, Field(ge=0, le=MOST)]
    columns: Annotated[int, Field(ge=0, le=MOST)]


class Left(NamedTuple):
    """Places by which the maps of a sum move to the left."""

    first: Shift
    second: Shift


class _Layer(Strict):
    """A layer; a value is its integer times 2**-exponent."""

    name: str
    inputs: list[str]
    stage: Annotated[int, Field(ge=1)]
    shape: Map  # of its output
    exponent: Exponent


class _Bounded(_Layer):
    """Outputs below or above the bounds become these; a rectifier has 0 as the lower one."""

    low: Word
    high: Word


class _Windowed(_Layer):
    kernel: Pair
    stride: Pair
    pad: Pad
    dilation: Pair


class ProductLayer(_Windowed, _Bounded):
    """A convolution, or a fully connected layer: a job of the engine.

    With a constant, the map of each group has a further channel, the last, which holds this constant everywhere: its
    weights are the bias.
    """

    op: Literal["product"] = "product"
    channels: Size  # of a group, with the channel of the constant
    groups: Size
    constant: Annotated[int, Field(ge=0, le=HIGH)]  # 0: the layer has no bias
    shift: Shift


class AddLayer(_Bounded):
    """The sum of two maps, each moved to the left first."""

    op: Literal["add"] = "add"
    left: Left
    shift: Shift


class AveragePool(_Windowed):
    """Sums over windows, times a factor."""

    op: Literal["avgpool"] = "avgpool"
    factor: Annotated[int, Field(ge=1, le=HIGH)]
    shift: Shift


class MaxPool(_Windowed):
    """The largest value of each window."""

    op: Literal["maxpool"] = "maxpool"


class ClipLayer(_Bounded):
    """Values within bounds."""

    op: Literal["clip"] = "clip"


class ConcatLayer(_Layer):
    """Maps behind one another by channels, each divided first so that all have one scale."""

    op: Literal["concat"] = "concat"
    shifts: Annotated[list[Shift], Field(min_length=1)]


class FlattenLayer(_Layer):
    """All values of a sample in a row."""

    op: Literal["flatten"] = "flatten"


IntegerLayer = Annotated[
    ProductLayer | AddLayer | AveragePool | MaxPool | ClipLayer | ConcatLayer | FlattenLayer,
    Field(discriminator="op"),
]


class IntegerExit(Strict):
    """Where samples leave: the name of the output, the layer with its scores, and if a Softmax follows."""

    name: str
    layer: str
    softmax: bool


class _Header(Strict):
    """The layers, as they are in the file."""

    schema_: Literal["fluidb.integer/2"] = Field(SCHEMA, alias="schema")
    name: str
    shape: Map  # of a sample
    exponent: Exponent  # of samples
    layers: Annotated[list[IntegerLayer], Field(min_length=1)]
    exits: Annotated[list[IntegerExit], Field(min_length=1)]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        shapes, stage = {"input": self.shape}, 1
        for layer in self.layers:
            for name in layer.inputs:
                if name not in shapes:
                    raise ValueError(f'layers ("{layer.name}"): expected earlier layers as inputs, found "{name}"')
            many = len(layer.shifts) if isinstance(layer, ConcatLayer) else 1 + isinstance(layer, AddLayer)
            if len(layer.inputs) != many:
                raise ValueError(f'layers ("{layer.name}"): expected {many} inputs')
            if layer.name in shapes:
                raise ValueError(f'layers ("{layer.name}"): expected a new name')
            if not stage <= layer.stage <= len(self.exits):
                raise ValueError(f'layers ("{layer.name}"): expected stages 1 to {len(self.exits)} in order')
            if isinstance(layer, _Bounded) and layer.low > layer.high:
                raise ValueError(
                    f'layers ("{layer.name}"): expected low up to high, found {layer.low} and {layer.high}'
                )
            fault = _misfit(layer, [shapes[name] for name in layer.inputs])
            if fault:
                raise ValueError(f'layers ("{layer.name}"): {fault}')
            shapes[layer.name], stage = layer.shape, layer.stage
        for exit_ in self.exits:
            if shapes.get(exit_.layer, (0, 0))[1:] != (1, 1):
                raise ValueError(f'exits ("{exit_.name}"): expected a layer with a row of scores')
        return self


def _misfit(layer: IntegerLayer, sources: list[Map]) -> str:
    """What is wrong with the sizes of a layer; "" if nothing is."""
    channels, shape = sources[0][0], layer.shape
    if isinstance(layer, ProductLayer):
        wanted = (layer.channels - bool(layer.constant)) * layer.groups
        fits = channels == wanted and shape[0] % layer.groups == 0
    elif isinstance(layer, _Windowed):
        fits = channels == shape[0]
    elif isinstance(layer, ConcatLayer):
        fits = all(source == (source[0], *shape[1:]) for source in sources)
        fits = fits and shape[0] == sum(source[0] for source in sources)
    elif layer.op == "flatten":
        fits = tuple(shape) == (math.prod(sources[0]), 1, 1)
    else:
        fits = all(source == shape for source in sources)
    return "" if fits else f"an output of {'x'.join(map(str, shape))} does not fit its inputs"


class IntegerNetwork(NamedTuple):
    """A quantised network.

    Attributes
    ----------
    name : str
        Its name.
    shape : Map
        Of a sample.
    exponent : int
        A sample's value is its integer times 2**-exponent.
    layers : list of IntegerLayer
        In execution order, by stage.
    exits : list of IntegerExit
        In order of depth.
    weights : dict of str to ndarray, shape (groups, P, C), int16
        Of each product, as the engine reads them: P in the order channel, row, column of the window.
    """

    name: str
    shape: Map
    exponent: int
    layers: list[IntegerLayer]
    exits: list[IntegerExit]
    weights: dict[str, Integers]

    def layer(self, name: str) -> IntegerLayer:
        """The layer of a name."""
        return next(layer for layer in self.layers if layer.name == name)

    def size(self, name: str) -> Map:
        """The size of a layer's output, or of the input."""
        return self.shape if name == "input" else self.layer(name).shape

    def window(self, layer: ProductLayer) -> Window:
        """How the engine reads the map of a group; the channel of the constant is there."""
        size = self.size(layer.inputs[0])[1:]
        return Window(layer.channels, size, layer.kernel, layer.shape[1:], layer.stride, layer.pad, layer.dilation)

    def kept(self, stage: int) -> list[str]:
        """Maps that exist after a stage and that later ones read."""
        made = {"input", *(layer.name for layer in self.layers if layer.stage <= stage)}
        read = [name for layer in self.layers if layer.stage > stage for name in layer.inputs]
        return [name for name in dict.fromkeys(read) if name in made]


def encode(network: IntegerNetwork, samples: NDArray[Any]) -> Integers:
    """Samples as integers, rounded to the nearest; values that are too large saturate.

    Parameters
    ----------
    network : IntegerNetwork
        The network.
    samples : ndarray, shape (N, C, H, W) or (N, C)
        The samples.

    Returns
    -------
    ndarray, shape (N, C, H, W)
        Integers of 16 bits.

    Raises
    ------
    InputError
        If they have another shape, or values that are not finite.
    """
    values = samples.reshape(*samples.shape[:2], 1, 1) if samples.ndim == 2 else samples
    if values.shape[1:] != network.shape:
        sizes = " x ".join(map(str, samples.shape[1:]))
        raise InputError(f"samples: expected {' x '.join(map(str, network.shape))} values each, found {sizes}")
    if not np.isfinite(values).all():
        raise InputError("samples: expected finite numbers, found others")
    return np.clip(np.rint(values * 2.0**network.exponent), LOW, HIGH).astype(WORD_TYPE)


def scaled(sums: NDArray[np.int64], shift: int, low: int = LOW, high: int = HIGH) -> Integers:
    """Sums divided by 2**shift, rounded to the nearest, halves up; kept within bounds.

    Parameters
    ----------
    sums : ndarray of int64
        Of 48 bits.
    shift : int
        From 0.
    low, high : int
        The bounds; those of 16 bits if not given.

    Returns
    -------
    ndarray of int16
        The results.
    """
    words: Integers = np.clip((sums + (1 << shift >> 1)) >> shift, low, high).astype(WORD_TYPE)
    return words


def neighbourhoods(maps: NDArray[Any], window: Window, beyond: float = 0) -> NDArray[Any]:
    """What a window sees at every output position.

    Parameters
    ----------
    maps : ndarray, shape (..., channels, height, width)
        Maps.
    window : Window
        How they are read.
    beyond : float
        What lies outside a map.

    Returns
    -------
    ndarray, shape (..., channels, rows of the window, columns of the window, R)
        The values, R the positions of the output, line by line.
    """
    reach = [
        (outputs - 1) * stride + (kernel - 1) * dilation + 1
        for outputs, stride, kernel, dilation in zip(
            window.outputs, window.stride, window.kernel, window.dilation, strict=True
        )
    ]
    after = [max(n - pad - size, 0) for n, pad, size in zip(reach, window.pad, window.size, strict=True)]
    sides = [(0, 0)] * (maps.ndim - 2) + list(zip(window.pad, after, strict=True))
    padded = np.pad(maps, sides, constant_values=beyond)
    (lines, columns), (down, right) = window.outputs, window.stride
    windows = np.empty((*maps.shape[:-2], *window.kernel, window.R), maps.dtype)
    for i, j in np.ndindex(*window.kernel):
        y, x = i * window.dilation[0], j * window.dilation[1]
        seen = padded[..., y : y + (lines - 1) * down + 1 : down, x : x + (columns - 1) * right + 1 : right]
        windows[..., i, j, :] = seen.reshape(*maps.shape[:-2], window.R)
    return windows


def with_constant(layer: ProductLayer, maps: NDArray[Any]) -> NDArray[Any]:
    """Maps by group, [sample][group][channel][height][width], as the engine reads them: with the constant's channel."""
    grouped = maps.reshape(len(maps), layer.groups, -1, *maps.shape[2:])
    if not layer.constant:
        return grouped
    return np.concatenate([grouped, np.full_like(grouped[:, :, :1], layer.constant)], axis=2)


def _product(network: IntegerNetwork, layer: ProductLayer, maps: Integers) -> Integers:
    window, weights = network.window(layer), network.weights[layer.name]
    inputs = neighbourhoods(with_constant(layer, maps), window)
    inputs = inputs.reshape(*inputs.shape[:2], window.P, window.R).astype(np.float64)
    # doubles hold integers below 2**53 exactly, and no sum of 48 bits exceeds that on the way
    sums = (weights.astype(np.float64).transpose(0, 2, 1) @ inputs).astype(np.int64)
    return scaled(sums, layer.shift, layer.low, layer.high).reshape(len(maps), *layer.shape)


def _add(layer: AddLayer, *maps: Integers) -> Integers:
    moved = [values.astype(np.int64) << left for values, left in zip(maps, layer.left, strict=True)]
    return scaled(moved[0] + moved[1], layer.shift, layer.low, layer.high)


def _concat(layer: ConcatLayer, *maps: Integers) -> Integers:
    parts = [scaled(values.astype(np.int64), shift) for values, shift in zip(maps, layer.shifts, strict=True)]
    return np.concatenate(parts, axis=1)


def _pool(network: IntegerNetwork, layer: AveragePool | MaxPool, maps: Integers) -> Integers:
    size = network.size(layer.inputs[0])[1:]
    window = Window(maps.shape[1], size, layer.kernel, layer.shape[1:], layer.stride, layer.pad, layer.dilation)
    if isinstance(layer, MaxPool):
        pooled: Integers = neighbourhoods(maps, window, LOW).max(axis=(-3, -2))
    else:
        sums = neighbourhoods(maps, window).astype(np.int64).sum(axis=(-3, -2))
        pooled = scaled(sums * layer.factor, layer.shift)
    return pooled.reshape(len(maps), *layer.shape)


def run_layer(network: IntegerNetwork, layer: IntegerLayer, *maps: Integers) -> Integers:
    """What a layer computes, bit by bit.

    Parameters
    ----------
    network : IntegerNetwork
        The network.
    layer : IntegerLayer
        One of its layers.
    *maps : ndarray of int16, shape (N, C, H, W)
        Its inputs.

    Returns
    -------
    ndarray of int16, shape (N, C, H, W)
        Its output.
    """
    if isinstance(layer, ProductLayer):
        return _product(network, layer, *maps)
    if isinstance(layer, AddLayer):
        return _add(layer, *maps)
    if isinstance(layer, AveragePool | MaxPool):
        return _pool(network, layer, *maps)
    if isinstance(layer, ConcatLayer):
        return _concat(layer, *maps)
    (values,) = maps
    if isinstance(layer, ClipLayer):
        return np.clip(values, layer.low, layer.high)
    return values.reshape(len(values), *layer.shape)


def run_stage(network: IntegerNetwork, stage: int, maps: Mapping[str, Integers]) -> dict[str, Integers]:
    """Run the layers of a stage.

    Parameters
    ----------
    network : IntegerNetwork
        The network.
    stage : int
        From 1.
    maps : mapping of str to ndarray
        What earlier stages left (:meth:`IntegerNetwork.kept`), with a row for each sample; ``input`` before the first.

    Returns
    -------
    dict of str to ndarray
        The output of each layer of the stage.
    """
    outputs = dict(maps)
    for layer in network.layers:
        if layer.stage == stage:
            outputs[layer.name] = run_layer(network, layer, *(outputs[name] for name in layer.inputs))
    return {layer.name: outputs[layer.name] for layer in network.layers if layer.stage == stage}


def run(network: IntegerNetwork, samples: Integers) -> dict[str, Integers]:
    """The output of every layer for a batch of integer samples, which are ``input``. Shapes: (N, C, H, W)."""
    outputs = {"input": samples}
    for stage in range(1, len(network.exits) + 1):
        outputs |= run_stage(network, stage, outputs)
    return outputs


def scores(network: IntegerNetwork, exit_: IntegerExit, maps: Mapping[str, Integers]) -> NDArray[np.float64]:
    """The answer at an exit: probabilities if a Softmax makes them, else scores. Shapes: returns (N, classes)."""
    values = maps[exit_.layer].reshape(len(maps[exit_.layer]), -1).astype(np.float64)
    values = values * 2.0 ** -network.layer(exit_.layer).exponent
    if not exit_.softmax:
        return values
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
    return probabilities


def content(network: IntegerNetwork) -> bytes:
    """The file of a network: ``network``, its layers as JSON, and the weights of each product by its name."""
    header = _Header(**{name: getattr(network, name) for name in ("name", "shape", "exponent", "layers", "exits")})
    text = json.dumps(header.model_dump(by_alias=True, mode="json"), separators=(",", ":"))
    arrays: dict[str, Any] = {HEADER: np.frombuffer(text.encode(), np.uint8)}
    arrays |= {f"weights:{name}": values for name, values in network.weights.items()}
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def read_integer(path: AnyPath) -> IntegerNetwork:
    """Read a quantised network.

    Parameters
    ----------
    path : str or Path
        The file that ``fluidb quantise`` wrote.

    Returns
    -------
    IntegerNetwork
        The network.

    Raises
    ------
    InputError
        If the file is missing, damaged or of another schema.
    """
    with open_arrays(
        path, "expected a quantised network, found no such file; make it with `fluidb quantise`"
    ) as arrays:
        sizes = {name: arrays.header(name) for name in arrays.names}
        if HEADER not in sizes:
            raise InputError(f"{path}: expected a quantised network, found no array {HEADER}")
        for name, (shape, kind) in sizes.items():
            if math.prod(shape) * kind.itemsize > MAX_BYTES:
                raise InputError(f"{path}: {name}: expected at most {MAX_BYTES:,} bytes, found more")
        held = {name: arrays.read(name) for name in arrays.names}
    try:
        raw = json.loads(held.pop(HEADER).astype(np.uint8).tobytes())
    except ValueError:
        raise InputError(f"{path}: {HEADER}: expected JSON, found other bytes") from None
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        schema = raw.get("schema") if isinstance(raw, dict) else None
        raise InputError(f'{path}: schema: expected {SCHEMA}, found "{schema}"; make it again with `fluidb quantise`')
    header = validate(_Header, raw, path)
    weights, faults = {}, []
    for layer in header.layers:
        if not isinstance(layer, ProductLayer):
            continue
        wanted = layer.groups, layer.channels * math.prod(layer.kernel), layer.shape[0] // layer.groups
        values = held.pop(f"weights:{layer.name}", None)
        if values is None or values.shape != wanted or values.dtype != WORD_TYPE:
            sizes_ = " x ".join(map(str, wanted))
            faults.append(f"{path}: weights:{layer.name}: expected {sizes_} integers of {WORD_BITS} bits, found others")
        elif largest_sum(values) >= 2 ** (SUM_BITS - 1):
            faults.append(f"{path}: weights:{layer.name}: expected sums of at most {SUM_BITS} bits, found larger ones")
        else:
            weights[layer.name] = values
    faults += [f"{path}: {name}: expected the weights of a product, found an unknown array" for name in held]
    if faults:
        raise InputError(faults)
    return IntegerNetwork(header.name, header.shape, header.exponent, header.layers, header.exits, weights)


def largest_sum(weights: Integers) -> int:
    """No sum of a product with these weights, rounding included, is larger than that."""
    largest = int(np.abs(weights.astype(np.int64)).sum(axis=1).max())
    return largest * -LOW + (1 << SUM_BITS - 2)
