"""The search of an engine's shape: pixels, input and output channels side by side."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...formats import AnyPath
from ...formats.array_types import Floats, Ints
from ...models.schema import NetworkFile
from ...platforms.engine import MOST, Engine
from .engine import Needs, batch_times, by_unit, layer_times, needs, shape_cycles

EQUAL = 1e-12
"""Times that differ by no more than this share are equal."""


class ShapeTime(NamedTuple):
    """An engine, the time of one inference, and the share of its multipliers that are busy meanwhile."""

    engine: Engine
    time_s: float
    busy: float


class ShapeSearch(NamedTuple):
    """The engine as it was given, the best shape, and how many shapes were compared."""

    network: str
    given: ShapeTime
    best: ShapeTime
    compared: int


def search_shape(file: NetworkFile, path: AnyPath, engine: Engine, *, most_pixels: int = MOST) -> ShapeSearch:
    """Find the shape with at most as many multiply-accumulates a cycle as an engine has, on which a network is fastest.

    Every pair of pixels and input channels is tried with the most output channels, since more of these are never
    slower.  On equal times fewer multiply-accumulates win, then the engine as it is, then fewer pixels.  The clock, the
    constants and the unit for depthwise layers stay; the range of errors does not, since no other shape was measured.
    """
    times = _Times(needs(file, path, engine), engine)
    most = engine.macs_per_cycle
    sides = np.arange(1, min(most, MOST) + 1)
    least, compared = np.inf, 0
    fastest: list[Ints] = []  # pixels and input channels of the fastest
    for pixels in sides[:most_pixels]:
        inputs = sides[: min(most // pixels, MOST)]
        time_s = times(pixels, inputs, np.minimum(most // pixels // inputs, MOST))
        compared += len(inputs)
        if time_s.min() < least * (1 - EQUAL):
            least, fastest = time_s.min(), []
        equal = inputs[time_s <= least * (1 + EQUAL)]
        fastest.append(np.array([np.full_like(equal, pixels), equal]))
    pixel, inputs = np.concatenate(fastest, axis=1)
    low, high = np.zeros_like(inputs), np.minimum(most // pixel // inputs, MOST)  # output channels: too few, enough
    while np.any(high - low > 1):
        middle = (low + high + 1) // 2
        enough = times(pixel, inputs, middle) <= least * (1 + EQUAL)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    macs, *sizes = min(np.array([pixel * inputs * high, pixel, inputs, high]).T.tolist())
    given = _timed(file, path, engine)
    if given.time_s <= least * (1 + EQUAL) and most <= macs and engine.pixels <= most_pixels:
        return ShapeSearch(file.name, given, given, compared)
    shape = dict(zip(("pixels", "input_channels", "output_channels"), sizes, strict=True))
    origin = f"fluidb dse {file.name} {engine.name}: at most {most} multiply-accumulates a cycle"
    range_ = dict.fromkeys(("measured_low", "measured_high", "measured_confidence", "measured_error"))
    sources = {key: text for key, text in engine.sources.items() if key not in range_}
    sources |= dict.fromkeys(shape, "as pixels") | {"pixels": origin}
    shaped = engine.model_copy(update={**shape, **range_, "sources": sources})
    return ShapeSearch(file.name, given, _timed(file, path, shaped), compared)


class _Times:
    """Times of one inference on other shapes of an engine."""

    def __init__(self, need: Needs, engine: Engine) -> None:
        self.need, self.engine = need, engine
        own = [i for i, work in enumerate(need.works) if work.gemm is not None and not by_unit(work, engine)]
        self.own, self.works = own, [need.works[i] for i in own]

    def __call__(self, pixels: Any, input_channels: Ints, output_channels: Ints) -> Floats:
        """The times of shapes; ``pixels`` may be one number for all."""
        cycles = np.repeat(self.need.cycles[:, None], len(input_channels), axis=1)
        for i, work in zip(self.own, self.works, strict=True):
            cycles[i] = shape_cycles(work, self.engine, pixels, input_channels, output_channels)
        return _sums(cycles, self.need.bytes, self.engine)


def _sums(cycles: Floats, moved: Floats, engine: Engine) -> Floats:
    """Times of one inference on shapes: columns of ``cycles`` by layer."""
    rates = engine.cycles_per_s, engine.bytes_per_s, engine.not_hidden, engine.layer_s
    times: Floats = layer_times(cycles, moved[:, None], *rates).sum(axis=0) + engine.inference_s
    return times


def _timed(file: NetworkFile, path: AnyPath, engine: Engine) -> ShapeTime:
    need = needs(file, path, engine)
    time_s = float(batch_times(need, engine).sum())
    macs = sum(work.gemm.macs for work in need.works if work.gemm is not None)
    return ShapeTime(engine, time_s, macs / (time_s * engine.clock_hz * engine.macs_per_cycle))
