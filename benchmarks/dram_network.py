"""The network ``blocks`` of ``dram.py``: 3x3, 1x1 and depthwise layers with strides, and two exits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def blocks(folder: Path) -> Path:
    """Write a network of blocks: ResNet's, and MobileNetV2's with and without a stride; random weights, by a seed."""
    rng, weights, nodes = np.random.default_rng(5), {}, []

    def conv(name: str, source: str, shape: tuple[int, ...], stride: int = 1, group: int = 1, act: str = "Relu") -> str:
        weights[f"{name}.w"] = rng.normal(0, np.prod(shape[1:]) ** -0.5, shape)
        weights[f"{name}.b"] = rng.normal(0, 0.3, shape[0])
        of: dict[str, Any] = {"pads": [shape[2] // 2] * 4, "strides": [stride] * 2, "group": group}
        nodes.append(helper.make_node("Conv", [source, f"{name}.w", f"{name}.b"], [name], name=name, **of))
        if act:
            nodes.append(helper.make_node(act, [name], [f"{name}.act"]))
        return f"{name}.act" if act else name

    def bottleneck(name: str, source: str, inner: int, middle: int, outer: int, stride: int) -> str:
        wide = conv(f"{name}.expand", source, (middle, inner, 1, 1))
        deep = conv(f"{name}.deep", wide, (middle, 1, 3, 3), stride, middle)
        return conv(f"{name}.project", deep, (outer, middle, 1, 1), act="")

    def added(name: str, *sources: str) -> str:
        nodes.append(helper.make_node("Add", list(sources), [name], name=name))
        return name

    def head(name: str, source: str, channels: int) -> None:
        weights[f"{name}.w"] = rng.normal(0, channels**-0.5, (channels, 10))
        nodes.append(helper.make_node("GlobalAveragePool", [source], [f"{name}.pool"]))
        nodes.append(helper.make_node("Flatten", [f"{name}.pool"], [f"{name}.flat"]))
        nodes.append(helper.make_node("MatMul", [f"{name}.flat", f"{name}.w"], [name], name=f"{name}.fc"))

    stem = conv("stem", "x", (16, 3, 3, 3))
    first = added("sum1", stem, conv("res.b", conv("res.a", stem, (16, 16, 3, 3)), (16, 16, 3, 3), act=""))
    head("exit1", first, 16)
    second = bottleneck("m1", first, 16, 64, 24, 2)
    third = added("sum2", second, bottleneck("m2", second, 24, 96, 24, 1))
    last = conv("last", conv("down", third, (48, 24, 3, 3), 2), (128, 48, 1, 1))
    head("exit2", last, 128)
    graph = helper.make_graph(
        nodes, "blocks",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3, 32, 32])],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 10]) for name in ("exit1", "exit2")],
        [numpy_helper.from_array(values.astype(np.float32), name) for name, values in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "blocks.onnx").write_bytes(model.SerializeToString())
    np.savez(folder / "x.npz", input=rng.normal(size=(8, 3, 32, 32)).astype(np.float32))
    return folder / "blocks.onnx"
