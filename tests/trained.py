"""Trained networks in ONNX files, for what is quantised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.helper import make_node as node


def saved(folder: Path, nodes, outputs, size, weights) -> Path:
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", *size])],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    return folder / "net.onnx"


def alexnet_cifar10(folder: Path, narrower: int = 1) -> Path:
    """The layers of the shipped table with exits behind its first two pools; weights are random (He), by a seed.

    Each has so many times fewer channels.
    """
    rng, weights, nodes, source, channels = np.random.default_rng(7), {}, [], "x", 3

    def head(number: int, source: str, inner: int) -> None:
        weights[f"f{number}.w"] = rng.normal(0, inner**-0.5, (10, inner)).astype(np.float32)
        weights[f"f{number}.b"] = rng.normal(0, 0.3, 10).astype(np.float32)
        nodes.append(node("Flatten", [source], [f"flat{number}"]))
        nodes.append(node("Gemm", [f"flat{number}", f"f{number}.w", f"f{number}.b"], [f"fc{number}"], transB=1))
        nodes.append(node("Softmax", [f"fc{number}"], [f"e{number}"], axis=1))

    for number, (most, pooled) in enumerate([(64, 1), (192, 1), (384, 0), (256, 0), (256, 1)], 1):
        out = most // narrower
        spread = (2 / (9 * channels)) ** 0.5
        weights[f"c{number}.w"] = rng.normal(0, spread, (out, channels, 3, 3)).astype(np.float32)
        weights[f"c{number}.b"] = rng.normal(0, 0.1, out).astype(np.float32)
        names = [source, f"c{number}.w", f"c{number}.b"]
        nodes.append(node("Conv", names, [f"conv{number}"], name=f"conv{number}", pads=[1] * 4))
        nodes.append(node("Relu", [f"conv{number}"], [f"r{number}"]))
        source, channels = f"r{number}", out
        if pooled:
            nodes.append(node("MaxPool", [source], [f"p{number}"], kernel_shape=[2, 2], strides=[2, 2]))
            source = f"p{number}"
        if number < 3:
            nodes.append(node("GlobalAveragePool", [source], [f"g{number}"]))
            head(number, f"g{number}", out)
    head(3, source, 4 * 4 * channels)
    return saved(folder, nodes, ["e1", "e2", "e3"], (3, 32, 32), weights)
