"""Trains the network of this folder and writes it: ``python models/digits/train.py`` (dependency group ``train``).

A convolutional network with four exits learns the handwritten digits that scikit-learn ships (E. Alpaydin, C. Kaynak,
*Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998, CC BY 4.0).  It writes
``digits.onnx``, whose outputs are the probabilities at each exit, and ``inputs.npz``, the test split.

It learns on maps of 8 x 8.  The network that is written has every map enlarged, each value repeated :data:`LARGER`
times in both directions, and its convolutions dilated as much: that changes no answer, but serving it loads a machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STAGES, CHANNELS, CLASSES, SIZE = 4, 32, 10, 8
EPOCHS, BATCH, RATE, TEST = 24, 32, 2e-3, 360
LARGER = 8
HERE = Path(__file__).parent
Array = np.ndarray


def columns(x: Array) -> Array:
    """The 3 x 3 neighbourhoods of every pixel, (N, H, W, 9 C), with zeros around the map."""
    _, high, wide, _ = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return np.concatenate([padded[:, i : i + high, j : j + wide] for i in range(3) for j in range(3)], axis=3)


def scatter(g: Array, channels: int) -> Array:
    """The transpose of :func:`columns`: what every pixel gets back from its neighbourhoods."""
    many, high, wide, _ = g.shape
    padded = np.zeros((many, high + 2, wide + 2, channels), np.float32)
    for place in range(9):
        i, j = divmod(place, 3)
        padded[:, i : i + high, j : j + wide] += g[..., place * channels : (place + 1) * channels]
    return padded[:, 1:-1, 1:-1]


def begin(random: np.random.Generator) -> dict[str, Array]:
    """Weights before training: He's for convolutions, and small ones where a block adds to its input."""
    weights = {"stem": random.normal(0, (2 / 9) ** 0.5, (9, CHANNELS)), "stem_bias": np.zeros(CHANNELS)}
    spread = (2 / (9 * CHANNELS)) ** 0.5
    for stage in range(1, STAGES + 1):
        weights |= {
            f"a{stage}": random.normal(0, spread, (9 * CHANNELS, CHANNELS)),
            f"a{stage}_bias": np.zeros(CHANNELS),
            f"b{stage}": random.normal(0, 0.3 * spread, (9 * CHANNELS, CHANNELS)),
            f"b{stage}_bias": np.zeros(CHANNELS),
            f"head{stage}": random.normal(0, CHANNELS**-0.5, (CHANNELS, CLASSES)),
            f"head{stage}_bias": np.zeros(CLASSES),
        }
    return {name: values.astype(np.float32) for name, values in weights.items()}


def learn(weights: dict[str, Array], images: Array, labels: Array) -> dict[str, Array]:
    """Gradients of the sum of all exits' cross entropies for a batch."""
    stem = columns(images[..., None])
    x = np.maximum(stem @ weights["stem"] + weights["stem_bias"], 0)
    kept, wanted = [], np.eye(CLASSES, dtype=np.float32)[labels]
    for stage in range(1, STAGES + 1):
        first = columns(x)
        middle = np.maximum(first @ weights[f"a{stage}"] + weights[f"a{stage}_bias"], 0)
        second = columns(middle)
        out = np.maximum(second @ weights[f"b{stage}"] + weights[f"b{stage}_bias"] + x, 0)
        kept.append((first, middle, second, out))
        x = out
    gradients: dict[str, Array] = {}
    back = np.zeros_like(x)
    for stage in range(STAGES, 0, -1):
        first, middle, second, out = kept[stage - 1]
        mean = out.mean(axis=(1, 2))
        scores = mean @ weights[f"head{stage}"] + weights[f"head{stage}_bias"]
        share = np.exp(scores - scores.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        wrong = (share - wanted) / len(labels)
        gradients[f"head{stage}"], gradients[f"head{stage}_bias"] = mean.T @ wrong, wrong.sum(axis=0)
        back = (back + (wrong @ weights[f"head{stage}"].T)[:, None, None] / SIZE**2) * (out > 0)
        flat = back.reshape(-1, CHANNELS)
        gradients[f"b{stage}"] = second.reshape(len(flat), -1).T @ flat
        gradients[f"b{stage}_bias"] = flat.sum(axis=0)
        inner = scatter(back @ weights[f"b{stage}"].T, CHANNELS) * (middle > 0)
        flat = inner.reshape(-1, CHANNELS)
        gradients[f"a{stage}"] = first.reshape(len(flat), -1).T @ flat
        gradients[f"a{stage}_bias"] = flat.sum(axis=0)
        back = back + scatter(inner @ weights[f"a{stage}"].T, CHANNELS)
    flat = (back * (stem @ weights["stem"] + weights["stem_bias"] > 0)).reshape(-1, CHANNELS)
    gradients["stem"], gradients["stem_bias"] = stem.reshape(len(flat), -1).T @ flat, flat.sum(axis=0)
    return gradients


def train(images: Array, labels: Array) -> dict[str, Array]:
    """Weights after training with Adam, whose rate falls to 0 along half a cosine."""
    random = np.random.default_rng(0)
    weights = begin(random)
    mean = {name: np.zeros_like(values) for name, values in weights.items()}
    square = {name: np.zeros_like(values) for name, values in weights.items()}
    steps = EPOCHS * (len(images) // BATCH)
    order: list[int] = []
    for step in range(1, steps + 1):
        if len(order) < BATCH:
            order = random.permutation(len(images)).tolist()
        batch, order = order[:BATCH], order[BATCH:]
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        for name, gradient in learn(weights, images[batch], labels[batch]).items():
            mean[name] += 0.1 * (gradient - mean[name])
            square[name] += 0.001 * (gradient**2 - square[name])
            towards = mean[name] / (1 - 0.9**step)
            weights[name] -= rate * towards / (np.sqrt(square[name] / (1 - 0.999**step)) + 1e-8)
    return weights


def as_onnx(weights: dict[str, Array]) -> onnx.ModelProto:
    """The network, with the probabilities at each exit as its outputs and any batch size."""
    constants, nodes = {"scales": np.array([1, 1, LARGER, LARGER], np.float32)}, []

    def add(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def convolve(name: str, source: str) -> str:
        kernel = weights[name].reshape(3, 3, -1, CHANNELS).transpose(3, 2, 0, 1)
        constants.update({f"{name}.w": np.ascontiguousarray(kernel), f"{name}.b": weights[f"{name}_bias"]})
        return add("Conv", [source, f"{name}.w", f"{name}.b"], name, dilations=[LARGER] * 2, pads=[LARGER] * 4)

    places = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}  # the default rounds: no blocks
    x = add("Resize", ["image", "", "scales"], "larger", mode="nearest", **places)
    x = add("Relu", [convolve("stem", x)], "stem.relu")
    for stage in range(1, STAGES + 1):
        inner = add("Relu", [convolve(f"a{stage}", x)], f"a{stage}.relu")
        x = add("Relu", [add("Add", [convolve(f"b{stage}", inner), x], f"sum{stage}")], f"block{stage}")
        pooled = add("Flatten", [add("GlobalAveragePool", [x], f"pool{stage}")], f"flat{stage}")
        constants |= {f"head{stage}.w": weights[f"head{stage}"], f"head{stage}.b": weights[f"head{stage}_bias"]}
        scores = add("Gemm", [pooled, f"head{stage}.w", f"head{stage}.b"], f"head{stage}")
        add("Softmax", [scores], f"exit{stage}", axis=1)
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info(f"exit{n}", TensorProto.FLOAT, ["batch", 10]) for n in range(1, STAGES + 1)],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.producer_name = "models/digits/train.py"
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Train on all but the test split, and write the network and that split."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(1).permutation(len(data.target))
    images, labels = (data.images[order] / 16).astype(np.float32), data.target[order]
    weights = train(images[TEST:], labels[TEST:])
    (HERE / "digits.onnx").write_bytes(as_onnx(weights).SerializeToString())
    np.savez_compressed(HERE / "inputs.npz", input=images[:TEST, None], label=labels[:TEST])


if __name__ == "__main__":
    main()
