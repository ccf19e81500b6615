"""Random inputs, bounded to what the model is for."""

from __future__ import annotations

from typing import Any

from fluidb.models import Exit, Gemm, Layer, Network, Shape
from hypothesis import strategies as st

gemms = st.tuples(st.integers(1, 300), st.integers(1, 200), st.integers(1, 150), st.integers(1, 3))
"""R, P, C, groups; a fully connected layer (R = 1) often enough to matter."""
any_gemm = st.one_of(gemms, gemms.map(lambda gemm: (1, *gemm[1:])))
_powers = st.integers(0, 14).map(lambda power: 2**power)
huge_gemms = st.tuples(*[st.tuples(_powers, st.integers(0, 5)).map(sum)] * 3, st.just(1))
"""Up to the largest layers that a network may have (fluidb.models.MAX_WORK)."""
tiles = st.tuples(st.integers(1, 120).map(lambda half: 2 * half), st.integers(1, 24), st.integers(1, 48))
batches = st.integers(1, 9)
modes = st.sampled_from(["fluid", "row", "column", "fc", "none", "eq1"])
words_per_cycle = st.integers(-3, 6).map(lambda power: 2.0**power)
"""Powers of two, so that sums and products are exact and equal means equal."""


def layer_of(gemm: Any, name: str = "layer", stage: int = 1) -> Layer:
    """A bare product of R, P, C, groups and perhaps ``per_sample``."""
    sizes, per_sample = Gemm(*gemm[:4]), bool(gemm[4:] and gemm[4])
    return Layer(name=name, stage=stage, gemm=sizes, per_sample=per_sample, shape=Shape(1, 1, 1))


def network_of(gemms: list[Any], memory_words: int = 0, stages: list[int] | None = None) -> Network:
    """A network of bare products, by default in one stage."""
    stages = stages or [1] * len(gemms)
    layers = [layer_of(gemm, f"l{i}", stages[i]) for i, gemm in enumerate(gemms)]
    if memory_words:
        pool = Layer(name="pool", stage=stages[-1], gemm=None, memory_words=memory_words, shape=Shape(1, 1, 1))
        layers.append(pool)
    exits = [Exit(name=f"end{stage}", rate=1.0 / stages[-1]) for stage in range(1, stages[-1] + 1)]
    return Network(name="random", title="random", exits=exits, layers=layers)


edits = st.lists(st.tuples(st.integers(0, 10**4), st.binary(max_size=3)), min_size=1, max_size=6)


def edited(raw: bytes, changes: list[tuple[int, bytes]]) -> bytes:
    """A file with some bytes replaced, each by none or by several."""
    for place, new in changes:
        raw = raw[: place % len(raw)] + new + raw[place % len(raw) + 1 :]
    return raw
