"""Makes 16-bit integers of a trained network, and the network file of what the engine then runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError, check_installed, check_own_folder, open_arrays, validate, write_directory
from ...models.importers.names import LayerNames, plain_name
from ...models.loader import build_network
from ...models.schema import NetworkFile
from ...models.writer import network_text
from ..engine import SUM_BITS, WORD_BITS
from . import reference
from .file import INTEGER_FILE, content
from .layer_jobs import on_engine
from .network import (
    HIGH,
    LOW,
    MAX_EXPONENT,
    WORD_TYPE,
    AddLayer,
    AveragePool,
    ClipLayer,
    ConcatLayer,
    FlattenLayer,
    IntegerExit,
    IntegerLayer,
    IntegerNetwork,
    Integers,
    Map,
    MaxPool,
    ProductLayer,
)
from .window import Window

NETWORK_FILE = "network.toml"
HEADROOM = 1
"""Bits above the largest value of the calibration samples."""

MAX_BYTES = 2**30
"""Most bytes of samples; more are refused before they are decompressed."""

PART = 32
"""Samples that run at a time."""

BITS = WORD_BITS - 1
"""Of a value, beside its sign."""

Values = NDArray[np.float64]


class ExitReport(NamedTuple):
    """An exit: the share of samples with the same answer as in floating point, and of right answers if known."""

    name: str
    same: float
    right_float: float | None
    right_integer: float | None


class Quantised(NamedTuple):
    """A quantised network, and how it compares on the samples.

    Attributes
    ----------
    network : IntegerNetwork
        The network.
    file : NetworkFile
        What the engine runs of it, for ``fluidb dse``.
    samples : int
        How many chose the scales.
    saturated : int
        Values that saturate on these samples.
    exits : list of ExitReport
        Its answers to them beside those in floating point.
    """

    network: IntegerNetwork
    file: NetworkFile
    samples: int
    saturated: int
    exits: list[ExitReport]


def quantise(path: Path, samples: Path, exits: Sequence[str] | None = None) -> Quantised:
    """Quantise a trained network: weights and maps of 16 bits, a power of two as the scale of each.

    Parameters
    ----------
    path : Path
        An ONNX file.
    samples : Path
        Calibration samples (``.npz``): the array ``input``, or named as the network's input; and ``label``, if known.
    exits : sequence of str, optional
        Outputs or nodes that answer; all outputs if not given.

    Returns
    -------
    Quantised
        The network, and how it compares with floating point on the samples.

    Raises
    ------
    InputError
        If the extra ``onnx`` is missing, or a file has faults; a line for each.
    """
    check_installed(f"{path}: quantising a network", "onnx", "onnx")
    from ...models.importers.onnx.trained import read_trained

    trained = read_trained(path, exits)
    inputs, labels = _read_samples(samples, trained.input, trained.shape)
    largest: dict[str, float] = {}
    plain = []
    for part in _parts(inputs):
        values = _run_float(trained, part)
        for name, maps in values.items():
            largest[name] = max(largest.get(name, 0.0), float(np.abs(maps).max()))
            if not math.isfinite(largest[name]):
                raise InputError(f'{path}: layer "{name}": expected finite values on {samples}, found others')
        plain.append(_answers(trained.exits, values))
    made = _Maker(plain_name(path.stem), trained, largest, path).make()
    saturated, chosen = 0, []
    for part in _parts(inputs):
        outputs = reference.run(made, reference.encode(made, part))
        saturated += sum(int(np.count_nonzero((maps == LOW) | (maps == HIGH))) for maps in outputs.values())
        chosen.append(_answers(made.exits, outputs))
    reports = []
    for exit_, exact, ours in zip(made.exits, np.hstack(plain), np.hstack(chosen), strict=True):
        right = (None, None) if labels is None else (float((exact == labels).mean()), float((ours == labels).mean()))
        reports.append(ExitReport(exit_.name, float((exact == ours).mean()), *right))
    return Quantised(made, network_file(made, path), len(inputs), saturated, reports)


def _parts(samples: Values) -> Iterator[Values]:
    """The samples, some at a time, so that their maps need little memory."""
    for begin in range(0, len(samples), PART):
        yield samples[begin : begin + PART]


def _answers(exits: Iterable[Any], maps: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """The class that each exit chooses for each sample. Shapes: returns (exits, N)."""
    return np.stack([maps[exit_.layer].reshape(len(maps["input"]), -1).argmax(axis=1) for exit_ in exits])


def write_quantised(quantised: Quantised, folder: Path, *, replace: bool = False) -> list[Path]:
    """Write a quantised network and its network file, both or none.

    Parameters
    ----------
    quantised : Quantised
        The network.
    folder : Path
        Destination.
    replace : bool
        Whether such a folder is replaced.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    InputError
        If the folder is another's, or the file system refuses.
    """
    files: dict[str, str | bytes] = {
        INTEGER_FILE: content(quantised.network), NETWORK_FILE: network_text(quantised.file)
    }  # fmt: skip
    check_output(folder, replace)
    write_directory(folder, files, replace=replace)
    return [folder / name for name in files]


def check_output(folder: Path, force: bool) -> None:
    """Refuse, before any work is done, a folder that is no quantised network's."""
    check_own_folder(folder, force, "a quantised network", INTEGER_FILE, (INTEGER_FILE, NETWORK_FILE))


def _read_samples(path: Path, name: str, shape: tuple[int, int, int]) -> tuple[Values, NDArray[np.int64] | None]:
    """Samples, [sample][channel][height][width], and their labels."""
    with open_arrays(path, "expected calibration samples, found no such file") as arrays:
        source = next((known for known in (name, "input") if known in arrays.names), None)
        if source is None:
            raise InputError(f"{path}: expected an array {name} or input, found {', '.join(arrays.names) or 'none'}")
        sizes = arrays.header(source)[0]
        if len(sizes) not in (2, 4) or (*sizes[1:], 1, 1)[:3] != shape or sizes[0] < 1:
            wanted, given = (" x ".join(map(str, size)) for size in (shape, sizes))
            raise InputError(f"{path}: {source}: expected samples x {wanted}, found {given}")
        if 8 * math.prod(sizes) > MAX_BYTES:
            raise InputError(
                f"{path}: {source}: expected at most {MAX_BYTES // 8:,} values, found more; save fewer samples"
            )
        values = arrays.read(source).astype(np.float64).reshape(-1, *shape)
        labels = None
        if "label" in arrays.names:
            if arrays.header("label")[0] != sizes[:1]:
                raise InputError(f"{path}: label: expected a number for each of {sizes[0]} samples, found others")
            labels = arrays.read("label")
    if not np.isfinite(values).all():
        raise InputError(f"{path}: {source}: expected finite numbers, found others")
    return values, labels


def _run_float(trained: Any, samples: Values) -> dict[str, Values]:
    """The samples, and the outputs of all layers for them, in floating point."""
    outputs = {"input": samples}
    for layer in trained.layers:
        maps = [outputs[name] for name in layer.inputs]
        if layer.op == "add":
            made = maps[0] + maps[1]
        elif layer.op == "concat":
            made = np.concatenate(maps, axis=1)
        elif layer.op in ("product", "maxpool", "avgpool"):
            size = maps[0].shape[2:]
            grouped = maps[0].reshape(len(samples), layer.groups, -1, *size)
            window = Window(
                grouped.shape[2], size, layer.kernel, layer.shape[1:], layer.stride, layer.pad, layer.dilation
            )
            seen = reference.neighbourhoods(grouped, window, -math.inf if layer.op == "maxpool" else 0)
            if layer.op == "product":
                seen = seen.reshape(*seen.shape[:2], -1, window.R)
                made = layer.weights.transpose(0, 2, 1) @ seen + layer.bias[:, :, None]
            else:
                made = seen.max(axis=(-3, -2)) if layer.op == "maxpool" else seen.mean(axis=(-3, -2))
        else:
            made = maps[0]
        outputs[layer.name] = np.clip(made, layer.low, layer.high).reshape(-1, *layer.shape)
    return outputs


def exponent_of(largest: float, limit: float) -> int:
    """The largest exponent e with ``largest * 2**e <= limit``; the one of 1 if there is nothing to scale.

    Examples
    --------
    >>> exponent_of(1.0, 2**14), exponent_of(0.9, 2**14), exponent_of(3e4, 2**14)
    (14, 14, -1)
    """
    exponent = math.floor(math.log2(limit / (largest or 1.0)))
    return max(-MAX_EXPONENT // 2, min(exponent, MAX_EXPONENT // 2))


def bounds_of(layer: Any, exponent: int) -> dict[str, int]:
    """The bounds of a trained layer as integers of 16 bits."""
    bounds = {"low": layer.low, "high": layer.high}
    return {name: round(min(max(bound * 2.0**exponent, LOW), HIGH)) for name, bound in bounds.items()}


class _Maker:
    """Chooses scales layer by layer, in execution order."""

    def __init__(self, name: str, trained: Any, largest: Mapping[str, float], path: Path) -> None:
        self.name, self.trained, self.largest, self.path = name, trained, largest, path
        self.limits: dict[str, int] = {}  # of maps that lie behind others: the exponent that all of these allow
        for layer in reversed(trained.layers):
            keeps = layer.op in ("maxpool", "clip", "flatten") and layer.name in self.limits
            for source in layer.inputs if layer.op == "concat" or keeps else []:
                limit = self.own(layer.name) if layer.op == "concat" else self.limits[layer.name]
                self.limits[source] = min(limit, self.own(source))
        self.exponents = {"input": self.own("input")}
        self.constants: dict[str, int] = {}  # of the products that read a map, so that one channel serves all
        self.weights: dict[str, Integers] = {}

    def own(self, name: str) -> int:
        """The exponent that the values of a map allow, and those of the maps beside it."""
        own = exponent_of(self.largest[name], 2.0 ** (BITS - HEADROOM))
        return min(own, self.limits.get(name, own))

    def make(self) -> IntegerNetwork:
        """The network; once more when the constants of all are known."""
        self.layers()
        layers, exits = self.layers(), [IntegerExit(**exit_._asdict()) for exit_ in self.trained.exits]
        return IntegerNetwork(self.name, Map(*self.trained.shape), self.exponents["input"], layers, exits, self.weights)

    def layers(self) -> list[IntegerLayer]:
        """The layers in execution order."""
        layers: list[IntegerLayer] = []
        for layer in sorted(self.trained.layers, key=lambda layer: layer.stage):
            try:
                layers.append(self.layer(layer))
            except InputError as error:
                if error.faults[0].startswith(f"{self.path}: "):
                    raise
                why = f"no scale holds its inputs, weights and outputs ({error.faults[0]})"  # its record knows no layer
                raise InputError(f'{self.path}: layer "{layer.name}": {why}') from None
            self.exponents[layer.name] = layers[-1].exponent
        return layers

    def layer(self, layer: Any) -> IntegerLayer:
        """A layer with its scales."""
        base = {name: getattr(layer, name) for name in ("name", "inputs", "stage", "shape")}
        window = {name: getattr(layer, name) for name in ("kernel", "stride", "pad", "dilation")}
        sources = [self.exponents[name] for name in layer.inputs]
        if layer.op == "product":
            return self.product(layer, base | window, sources[0])
        if layer.op in ("add", "concat"):
            return self.of_several(layer, base, sources)
        if layer.op == "avgpool":
            count = math.prod(layer.kernel)
            bits = BITS - 1 + (count - 1).bit_length()  # so that the factor has 15 bits
            exponent = min(self.own(layer.name), bits + sources[0])
            factor = min(round(2**bits / count), HIGH)
            return AveragePool(**base, **window, exponent=exponent, factor=factor, shift=bits + sources[0] - exponent)
        if layer.op == "maxpool":
            return MaxPool(**base, **window, exponent=sources[0])
        if layer.op == "clip":
            return ClipLayer(**base, exponent=sources[0], **bounds_of(layer, sources[0]))
        return FlattenLayer(**base, exponent=sources[0])

    def of_several(self, layer: Any, base: dict[str, Any], sources: list[int]) -> AddLayer | ConcatLayer:
        """A sum of maps, or maps behind one another."""
        if layer.op == "concat":
            exponent = min(sources)
            return ConcatLayer(**base, exponent=exponent, shifts=[source - exponent for source in sources])
        finest = max(sources)
        exponent = min(self.own(layer.name), finest)
        left = finest - sources[0], finest - sources[1]
        return AddLayer(**base, exponent=exponent, left=left, shift=finest - exponent, **bounds_of(layer, exponent))

    def product(self, layer: Any, base: dict[str, Any], source: int) -> ProductLayer:
        """A product: the finest weights whose sums have 48 bits and whose bias fits."""
        wanted, taps = self.own(layer.name), math.prod(layer.kernel)
        place = self.place(layer) if layer.bias.any() else None
        finest = exponent_of(float(np.abs(layer.weights).max()), HIGH)
        for scale in range(finest, -MAX_EXPONENT, -1):
            exponent = min(wanted, source + scale)
            shift = source + scale - exponent
            weights, constant = np.rint(layer.weights * 2.0**scale), 0
            if place is not None:
                bias = layer.bias * 2.0 ** (source + scale)
                constant = 2 ** max(0, math.ceil(math.log2(np.abs(bias).max() / HIGH)))
                constant = max(constant, self.constants.get(layer.inputs[0], 0))
                rows = np.zeros((layer.groups, taps, weights.shape[2]))
                rows[:, place] = np.rint(bias / constant)
                weights = np.concatenate([weights, rows], axis=1)
            if constant > 2 ** (BITS - 1) or shift >= SUM_BITS or np.abs(weights).max() > HIGH:
                continue
            words = np.ascontiguousarray(weights, WORD_TYPE)
            if reference.largest_sum(words) < 2 ** (SUM_BITS - 1):
                break
        else:
            raise InputError(f'{self.path}: layer "{layer.name}": no scale holds its weights, bias and outputs')
        self.weights[layer.name] = words
        self.constants[layer.inputs[0]] = max(constant, self.constants.get(layer.inputs[0], 0))
        return ProductLayer(
            **base, exponent=exponent, groups=layer.groups, channels=words.shape[1] // taps, constant=constant,
            shift=shift, **bounds_of(layer, exponent),
        )  # fmt: skip

    def place(self, layer: Any) -> int:
        """The inner index, within a channel, that lies inside the map at every output position."""
        shapes = {"input": self.trained.shape} | {earlier.name: earlier.shape for earlier in self.trained.layers}
        size = shapes[layer.inputs[0]][1:]
        inside = []
        ways = zip(layer.kernel, layer.shape[1:], layer.stride, layer.pad, layer.dilation, size, strict=True)
        for kernel, outputs, stride, pad, dilation, length in ways:
            first = [tap * dilation - pad for tap in range(kernel)]
            fits = [tap for tap, at in enumerate(first) if at >= 0 and at + (outputs - 1) * stride < length]
            inside.append(fits)
        if not all(inside):
            raise InputError(
                f'{self.path}: layer "{layer.name}": has a bias, and no place of its window lies inside the map at '
                "every output position; use less padding"
            )
        return int(inside[0][0] * layer.kernel[1] + inside[1][0])


def _as_ops(network: IntegerNetwork, layer: IntegerLayer, names: LayerNames) -> list[dict[str, Any]]:
    """A layer in a network file, with the map of the constant that it reads beside its inputs."""
    base: dict[str, Any] = {"name": layer.name, "from": layer.inputs}
    if isinstance(layer, AddLayer | ConcatLayer | FlattenLayer):
        return [base | {"op": layer.op}]
    if not on_engine(layer, network):  # the host moves its map: of a `Clip`, or of a pool that the engine cannot do
        channels, height, width = layer.shape
        return [base | {"op": "memory", "shape": [height, width, channels]}]
    size = network.size(layer.inputs[0])
    reach = [(kernel - 1) * apart + 1 for kernel, apart in zip(layer.kernel, layer.dilation, strict=True)]
    spans = [(n - 1) * step + span for n, step, span in zip(layer.shape[1:], layer.stride, reach, strict=True)]
    after = [max(span - before - n, 0) for span, before, n in zip(spans, layer.pad, size[1:], strict=True)]
    window = {"kernel": reach, "stride": list(layer.stride), "pad": [*layer.pad, *after]}
    if not isinstance(layer, ProductLayer):
        return [base | window | {"op": layer.op}]
    conv = base | window | {"op": "conv", "kernel": list(layer.kernel), "dilation": list(layer.dilation)}
    conv |= {"out": layer.shape[0], "groups": layer.groups}
    if not layer.constant:
        return [conv]
    # it stays in memory between the maps of samples, so that writing it takes no time
    one, both = names.give(f"{layer.name}.one"), names.give(f"{layer.name}.in")
    return [
        {"name": one, "from": layer.inputs, "op": "view", "shape": [*size[1:], layer.groups]},
        {"name": both, "from": [*layer.inputs, one], "op": "concat"},
        conv | {"from": [both]},
    ]


def network_file(network: IntegerNetwork, path: Path) -> NetworkFile:
    """The network file of what the engine runs: a bias is a further channel of the map that its product reads.

    Parameters
    ----------
    network : IntegerNetwork
        The network.
    path : Path
        The model's file, for faults and as the source.

    Returns
    -------
    NetworkFile
        The network file; at each exit as many samples leave.

    Raises
    ------
    InputError
        If the layers that only an exit needs do not hang on a single layer, behind the layer of the exit before.
    """
    needed: dict[str, int] = {}  # the last stage that needs each layer

    def need(name: str, stage: int) -> None:
        if name != "input" and needed.get(name, 0) < stage:
            needed[name] = stage
            for source in network.layer(name).inputs:
                need(source, stage)

    last, names = len(network.exits), LayerNames()
    for layer in network.layers:
        names.give(layer.name)
    for number, exit_ in enumerate(network.exits, 1):
        need(exit_.layer, number)
    backbone = [
        op for layer in network.layers if needed.get(layer.name) == last for op in _as_ops(network, layer, names)
    ]
    exits = []
    for number, exit_ in enumerate(network.exits[:-1], 1):
        head = [layer for layer in network.layers if needed.get(layer.name) == number]
        feet = {name for layer in head for name in layer.inputs} - {layer.name for layer in head} or {exit_.layer}
        if len(feet) > 1 or any(needed.get(name) != last for name in feet):
            raise InputError(
                f'{path}: exit "{exit_.name}": expected layers of its own that read one of the layers that the '
                f"last exit needs, found {', '.join(sorted(feet))}"
            )
        (foot,) = feet
        ops = [op | {"from": ["input" if name == foot else name for name in op["from"]]}
               for layer in head for op in _as_ops(network, layer, names)]  # fmt: skip
        exits.append({"after": foot, "rate": 1 / last} | ({"layers": ops} if ops else {"head": "none"}))
    channels, height, width = network.shape
    content = {
        "schema": "fluidb.network/1",
        "name": network.name,
        "title": f"{network.name} in 16-bit integers, from {path.name}",
        "input": {"height": height, "width": width, "channels": channels},
        "layers": backbone,
        "exits": exits,
        "sources": {"layers": "made by fluidb quantise; a bias is a further channel of the map that its product reads"},
    }
    file = validate(NetworkFile, content, path)
    build_network(file, path)  # its faults, as of exits that do not follow one another
    return file
