"""The latency table of an engine of fixed shape (docs/search.md, Engines of fixed shape)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...formats import AnyPath
from ...formats.array_types import Floats
from ...models.loader import build_network
from ...models.schema import NetworkFile
from ...models.works import LayerWork, layer_works
from ...platforms.engine import WINOGRAD, WINOGRAD_WEIGHTS, Engine
from ...tables.latency import LatencyTable
from .layer_uses import table_on, timed_layers


class Needs(NamedTuple):
    """What the layers of a network need of an engine for one sample, each an array over its layers."""

    works: Sequence[LayerWork]
    cycles: Floats  # of computing
    bytes: Floats  # moved off chip
    shared: Floats  # of these, what samples of a batch can share

    def of_layer(self, at: int) -> Needs:
        """The needs of one layer."""
        one = slice(at, at + 1)
        return Needs(self.works[one], self.cycles[one], self.bytes[one], self.shared[one])

    def of_batch(self, b: int, engine: Engine) -> Needs:
        """The same for b samples."""
        saved = self.shared * (b - _ceil(b, engine.linear_batch))
        return Needs(self.works, self.cycles * b, self.bytes * b - saved, self.shared)


def _ceil(total: Any, part: Any) -> Any:
    return -(-total // part)


def _tiles(work: LayerWork, R: int, engine: Engine, pixels: Any) -> Any:
    """Tiles of R pixels, ``pixels`` in each."""
    if engine.pixel_tiles == "line":
        return R // work.line * _ceil(work.line, pixels)
    return _ceil(R, pixels) if engine.pixel_tiles == "map" else R / pixels


def _inner(work: LayerWork, P: int, engine: Engine, input_channels: Any) -> Any:
    """Passes over the inner dimension."""
    if engine.inner_tiles == "window":
        return _ceil(P, input_channels)
    rows, columns = work.window
    channels = P // (rows * columns)
    each = rows * columns * _ceil(channels, input_channels)
    if engine.inner_tiles == "position":
        return each
    return np.where(channels < input_channels, rows * _ceil(columns * channels, input_channels), each)


def by_unit(work: LayerWork, engine: Engine) -> bool:
    """Whether the unit for depthwise layers runs a layer."""
    if work.gemm is None or engine.depthwise_pixels is None:
        return False
    _, P, C, groups = work.gemm
    return work.window[0] * work.window[1] == P and C == 1 < groups


def _in_winograd(work: LayerWork, engine: Engine) -> bool:
    return engine.winograd and work.window == (3, 3) and work.stride == (1, 1)


def _stored(work: LayerWork, engine: Engine) -> float:
    """Weights that memory holds, for each of a layer."""
    if _in_winograd(work, engine):
        return WINOGRAD_WEIGHTS
    if not engine.windows_extended:
        return 1.0
    sides = zip(work.window, work.stride, strict=True)
    return float(math.prod(_ceil(side, step) * step / side for side, step in sides))


def shape_cycles(work: LayerWork, engine: Engine, pixels: Any, input_channels: Any, output_channels: Any) -> Any:
    """Cycles of a layer on an engine of another shape, or on several: numbers or arrays."""
    if work.gemm is None:
        return 0.0
    R, P, C, groups = work.gemm
    tiles, inner = _tiles(work, R, engine, pixels), _inner(work, P, engine, input_channels)
    streams = engine.pixel_tiles == "stream" and R == 1
    side = output_channels * pixels if engine.linear_over_pixels and R == 1 else output_channels
    columns = (C / output_channels if streams else _ceil(C, side)) * groups
    saved = WINOGRAD if _in_winograd(work, engine) else 1.0
    fills = np.where(np.equal(pixels, 1), inner, tiles) * columns if engine.fill_cycles else 0
    return tiles * inner * columns / saved + engine.fill_cycles * fills


def product_cycles(work: LayerWork, engine: Engine) -> float:
    """Cycles in which an engine computes a layer, with empty places of its last tiles."""
    if work.gemm is not None and by_unit(work, engine):
        R, P, _, groups = work.gemm
        cycles = _tiles(work, R, engine, engine.depthwise_pixels) * P * _ceil(groups, engine.depthwise_channels)
    elif work.gemm is None:
        rate = engine.added_per_cycle if work.added else engine.pooled_per_cycle
        cycles = 0.0 if rate is None else work.words / rate
    else:
        cycles = shape_cycles(work, engine, engine.pixels, engine.input_channels, engine.output_channels)
    return float(cycles)


def needs(file: NetworkFile, path: AnyPath, engine: Engine) -> Needs:
    """What the layers of a network need of an engine."""
    return needs_of(layer_works(file, path, additions=engine.additions_fused, pools=engine.pools_fused), engine)


def needs_of(works: Sequence[LayerWork], engine: Engine) -> Needs:
    """What layers need of an engine."""
    weights = np.array([work.weights * _stored(work, engine) for work in works])
    words = np.array([work.words for work in works], dtype=np.float64)
    linear = np.array([work.gemm is not None and work.gemm.R == 1 for work in works])
    size = engine.word_bits / 8
    words = _moved(words, engine.maps_on_chip_kib, size, each=True)
    weights = _moved(weights, engine.weights_on_chip_kib, size, each=False)
    cycles = np.array([product_cycles(work, engine) for work in works])
    return Needs(works, cycles, size * (words + weights), size * weights * linear)


def _moved(words: Floats, on_chip_kib: float | None, size: float, *, each: bool) -> Floats:
    """What does not fit on the chip and moves: of each layer alone, or of all layers one after the other."""
    if on_chip_kib is None:
        return words
    most = 1024 * on_chip_kib / size
    if each:
        return np.maximum(words - most, 0.0)
    return np.diff(np.maximum(np.cumsum(words) - most, 0.0), prepend=0.0)


def layer_times(
    cycles: Floats, moved: Floats, cycles_per_s: float, bytes_per_s: float, not_hidden: float, layer_s: float
) -> Floats:
    """Time of each layer for one sample."""
    computing, moving = cycles / cycles_per_s, moved / bytes_per_s
    return np.maximum(computing, moving) + not_hidden * np.minimum(computing, moving) + layer_s


def batch_times(need: Needs, engine: Engine, b: int = 1) -> Floats:
    """Time of each layer for b samples, the first with the fixed time of each inference."""
    _, cycles, moved, _ = need.of_batch(b, engine)
    rates = engine.cycles_per_s, engine.bytes_per_s, engine.not_hidden
    times = layer_times(cycles, moved, *rates, b * engine.layer_s)
    times[0] += b * engine.inference_s
    return times


def tabulate_engine(file: NetworkFile, path: AnyPath, engine: Engine) -> LatencyTable:
    """The latency table of a network on an engine, on which samples of a batch run one after the other.

    A layer that only moves words is counted with the product before it.
    """
    network = build_network(file, path)
    need = needs(file, path, engine)
    times = np.array([batch_times(need, engine, b) for b in range(1, engine.b_max + 1)]).T
    layers = list(timed_layers(need.works, times))
    return table_on(engine, network, layers, measured=engine.measured, measured_confidence=engine.measured_confidence)
