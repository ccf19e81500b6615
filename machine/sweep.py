"""Measures a sweep of convolutions on this machine with ONNX Runtime, for :mod:`fluidb.machine.fit`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np

from ..formats import AnyPath
from ..traffic.trace import write_columns
from .fit import Convolution
from .needs import check_runtime

MOST_GFLOP = 1.0
"""A convolution with more is left out, so that a sweep takes seconds on a small board."""

SWEEP = [
    convolution
    for size, channels, kernel in itertools.product((7, 14, 28, 56), (16, 64, 256), (1, 3, 5))
    if (convolution := Convolution(size, size, channels, channels, kernel)).gflop <= MOST_GFLOP
]
"""Map sizes and channels of networks for images."""


def measure_convolutions(
    convolutions: Sequence[Convolution] = SWEEP,
    *,
    repeats: int = 10,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[float]:
    """Measure convolutions on this machine's processor."""
    check_runtime("sweep")
    times_s = []
    for done, convolution in enumerate(convolutions, 1):
        run = _session(convolution, threads or 0)
        run()  # memory is taken and code is loaded
        times_s.append(min(_seconds(run) for _ in range(repeats)))
        if progress is not None:
            progress(done, len(convolutions))
    return times_s


def _seconds(run: Callable[[], object]) -> float:
    begin_s = time.perf_counter()
    run()
    return time.perf_counter() - begin_s


def _session(convolution: Convolution, threads: int) -> Callable[[], object]:
    import onnx
    from onnx import helper, numpy_helper

    from .runtime import start

    rng = np.random.default_rng(0)
    height, width, in_channels, out_channels, kernel = convolution
    # an even kernel takes one row less before the map than behind it, so that the output is as large as the input
    pads = [(kernel - 1) // 2] * 2 + [kernel // 2] * 2
    weights = {
        "w": rng.normal(size=(out_channels, in_channels, kernel, kernel)).astype(np.float32),
        "b": rng.normal(size=out_channels).astype(np.float32),
    }
    shapes = {"x": [1, in_channels, height, width], "y": [1, out_channels, height, width]}
    ends = {name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=pads)], "convolution", [ends["x"]], [ends["y"]],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = start(model, threads)
    sample = {"x": rng.normal(size=shapes["x"]).astype(np.float32)}
    return lambda: session.run(["y"], sample)


def write_sweep(convolutions: Sequence[Convolution], seconds: Sequence[float], path: AnyPath, *, replace: bool) -> None:
    """Write a sweep as the CSV that :func:`fluidb.machine.fit.fit_device` reads."""
    columns = dict(zip(Convolution._fields, np.array(convolutions, dtype=np.int64).T, strict=True))
    write_columns({**columns, "seconds": np.array(seconds, dtype=np.float64)}, path, replace=replace)
