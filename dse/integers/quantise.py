"""Makes a network of 16-bit integers of a trained one, and compares the two on samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats import InputError, OwnFolder, check_installed, check_labels, open_arrays
from ...formats.array_types import Floats, Ints
from ...models.schema import NAME, NetworkFile
from ...models.writer import network_text
from . import reference
from .engine_network import network_file
from .file import INTEGER_FILE, content
from .network import HIGH, LOW, IntegerNetwork
from .scales import ScaleChoice
from .window import Window

NETWORK_FILE = "network.toml"
INTEGER_FOLDER = OwnFolder("a quantised network", INTEGER_FILE, (INTEGER_FILE, NETWORK_FILE))

MAX_BYTES = 2**30
"""Most bytes of samples; more are refused before they are decompressed."""

PART = 32
"""Samples that run at a time."""


class ExitReport(NamedTuple):
    """An exit: the share of samples with the same answer as in floating point, and of right answers if known."""

    name: str
    same: float
    right_float: float | None
    right_integer: float | None


class Quantised(NamedTuple):
    """A quantised network, and how it compares on the samples."""

    network: IntegerNetwork
    file: NetworkFile  # what the engine runs of it, for ``fluidb dse``
    samples: int  # how many chose the scales
    saturated: int  # values that saturate on these samples
    exits: list[ExitReport]  # its answers to them beside those in floating point


def quantise(path: Path, samples: Path, exits: Sequence[str] | None = None) -> Quantised:
    """Quantise a trained network: weights and maps of 16 bits, a power of two as the scale of each.

    Calibration samples (``.npz``) have an array ``input``, or named as the network's input, and ``label``, if known.
    All outputs answer if no exits are given.
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
    if labels is not None:
        check_labels(samples, labels, values[trained.exits[-1].layer][0].size)
    made = ScaleChoice(NAME.plain(path.stem), trained, largest, path).make()
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


def _parts(samples: Floats) -> Iterator[Floats]:
    """The samples, some at a time, so that their maps need little memory."""
    for begin in range(0, len(samples), PART):
        yield samples[begin : begin + PART]


def _answers(exits: Iterable[Any], maps: Mapping[str, NDArray[Any]]) -> Ints:
    """The class that each exit chooses for each sample. Shapes: returns (exits, N)."""
    return np.stack([maps[exit_.layer].reshape(len(maps["input"]), -1).argmax(axis=1) for exit_ in exits])


def write_quantised(quantised: Quantised, folder: Path, *, replace: bool = False) -> list[Path]:
    """Write a quantised network and its network file, both or none, and return the files."""
    files: dict[str, str | bytes] = {
        INTEGER_FILE: content(quantised.network), NETWORK_FILE: network_text(quantised.file)
    }  # fmt: skip
    INTEGER_FOLDER.write(folder, files, replace=replace)
    return [folder / name for name in files]


def _read_samples(path: Path, name: str, shape: tuple[int, int, int]) -> tuple[Floats, Ints | None]:
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


def _run_float(trained: Any, samples: Floats) -> dict[str, Floats]:
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
