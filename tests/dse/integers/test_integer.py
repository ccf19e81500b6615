"""Integer networks: each layer against plain loops, the shipped network against ONNX Runtime, and the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import naive_integer
import numpy as np
import onnx
import pytest
from builders import COMPILED, lines
from fluidb.dse.integers import reference
from fluidb.dse.integers.file import content, read_integer
from fluidb.dse.integers.layer_jobs import on_engine
from fluidb.dse.integers.network import (
    HIGH,
    LOW,
    AddLayer,
    AveragePool,
    ClipLayer,
    ConcatLayer,
    IntegerExit,
    IntegerNetwork,
    Map,
    MaxPool,
    Pad,
    Pair,
    ProductLayer,
)
from fluidb.dse.integers.quantise import quantise
from fluidb.dse.integers.scales import exponent_of
from fluidb.formats import InputError
from fluidb.models.digits import INPUTS, MODEL
from fluidb.models.importers.onnx.trained import read_trained
from fluidb.models.loader import build_network
from onnx.helper import make_node as node
from trained import alexnet_cifar10, saved

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing here runs a kernel; once is enough")


def alone(layer: Any, size: tuple[int, int, int], weights: Any = None) -> IntegerNetwork:
    """A network of one layer; its exit does not matter."""
    return IntegerNetwork("n", Map(*size), 0, [layer], [], {} if weights is None else {"l": weights})


def random_window(rng: np.random.Generator) -> tuple[tuple[int, int], dict[str, Any], tuple[int, int]]:
    """Height and width of a map, a window, and rows and columns of its outputs."""
    kernel, stride, dilation = (rng.integers(1, 4, 2) for _ in range(3))
    reach = (kernel - 1) * dilation + 1
    pad = [int(rng.integers(0, n)) for n in reach]
    size = rng.integers(1, 8, 2)
    outputs = np.maximum((size + pad + rng.integers(0, reach) - reach) // stride + 1, 1)
    keys = ("kernel", kernel), ("stride", stride), ("pad", pad), ("dilation", dilation)
    return tuple(size.tolist()), {name: tuple(map(int, pair)) for name, pair in keys}, tuple(outputs.tolist())


UNBOUNDED = {"low": LOW, "high": HIGH}


def random_bounds(rng: np.random.Generator) -> dict[str, int]:
    """None, of a rectifier, of ReLU6, or on both sides."""
    high = int(rng.integers(1, 2**14))
    ways: Any = UNBOUNDED, UNBOUNDED | {"low": 0}, {"low": 0, "high": high}, {"low": -high, "high": high}
    return ways[rng.integers(4)]


@pytest.mark.parametrize("seed", range(60))
def test_a_product_is_its_plain_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, window, outputs = random_window(rng)
    groups, own, columns = (int(rng.integers(1, 4)) for _ in range(3))
    constant = int(rng.choice([0, 1, 1024, 2**14]))
    high = int(rng.choice([4, 300, 2**15]))
    channels = own + bool(constant)
    weights = rng.integers(-high, high, (groups, channels * window["kernel"][0] * window["kernel"][1], columns))
    layer = ProductLayer(
        name="l", inputs=["input"], stage=1, shape=(groups * columns, *outputs), exponent=0, groups=groups,
        channels=channels, constant=constant, shift=int(rng.integers(0, 20)), **window, **random_bounds(rng),
    )  # fmt: skip
    maps = rng.integers(-high, high, (3, groups * own, *size)).astype(np.int16)
    found = reference.run_layer(alone(layer, (groups * own, *size), weights.astype(np.int16)), layer, maps)
    assert found.dtype == np.int16
    assert found.tolist() == [naive_integer.convolved(sample, weights, constant, layer) for sample in maps.tolist()]


@pytest.mark.parametrize("seed", range(30))
def test_pools_and_sums_are_their_plain_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, window, outputs = random_window(rng)
    base: dict[str, Any] = {"name": "l", "inputs": ["input"], "stage": 1, "exponent": 0}
    maps = rng.integers(-(2**15), 2**15, (2, 3, *size)).astype(np.int16)
    shape, shift = (3, *outputs), int(rng.integers(10, 30))
    average = AveragePool(**base, **window, shape=shape, factor=int(rng.integers(1, 2**15)), shift=shift)
    for pool in (average, MaxPool(**base, **window, shape=shape)):
        found = reference.run_layer(alone(pool, maps.shape[1:]), pool, maps)
        assert found.tolist() == [naive_integer.pooled(sample, pool) for sample in maps.tolist()]
    left, shift = tuple(map(int, rng.integers(0, 4, 2))), int(rng.integers(0, 5))
    base |= {"inputs": ["input", "input"], "shape": maps.shape[1:]}
    layer = AddLayer(**base, left=left, shift=shift, **random_bounds(rng))
    other = rng.integers(-(2**15), 2**15, maps.shape).astype(np.int16)
    found = reference.run_layer(alone(layer, maps.shape[1:]), layer, maps, other)
    pairs = zip(maps.ravel().tolist(), other.ravel().tolist(), strict=True)
    assert found.ravel().tolist() == [naive_integer.added(*pair, layer) for pair in pairs]
    base |= {"shape": (6, *size)}
    layer = ConcatLayer(**base, shifts=[shift, 0])
    found = reference.run_layer(alone(layer, maps.shape[1:]), layer, maps, other)
    assert found.tolist() == [
        naive_integer.behind(pair, layer) for pair in zip(maps.tolist(), other.tolist(), strict=True)
    ]


def test_sums_are_exact_up_to_their_48_bits() -> None:
    """Products of 65,000 inner rows of the largest values: one bit more or less changes the result."""
    weights = np.full((1, 65_000, 1), -(2**15), np.int16)
    layer = ProductLayer(
        name="l", inputs=["input"], stage=1, shape=(1, 1, 1), exponent=0, groups=1, channels=65_000, constant=0,
        shift=32, kernel=(1, 1), stride=(1, 1), pad=(0, 0), dilation=(1, 1), **UNBOUNDED,
    )  # fmt: skip
    maps = np.full((1, 65_000, 1, 1), -(2**15), np.int16)
    for last in (-(2**15), 0, 1):
        maps[0, -1] = last
        total = 64_999 * 2**30 - last * 2**15
        for shift in (0, 31, 32, 33, 45):
            one = layer.model_copy(update={"shift": shift})
            found = reference.run_layer(alone(one, (65_000, 1, 1), weights), one, maps)
            assert found.item() == naive_integer.scaled(total, shift)


@pytest.fixture(scope="module")
def digits():
    return quantise(MODEL, INPUTS)


def test_digits_answer_as_in_floating_point(digits) -> None:
    """All 360 images of the test split, by ONNX Runtime."""
    from fluidb.machine.runtime import start

    with np.load(INPUTS) as held:
        images, labels = held["input"], held["label"]
    answers = start(onnx.load(MODEL), 1).run(None, {"image": images})
    maps = reference.run(digits.network, reference.encode(digits.network, images))
    for exit_, plain, report in zip(digits.network.exits, answers, digits.exits, strict=True):
        ours = reference.scores(digits.network, exit_, maps)
        right = [float((found.argmax(axis=1) == labels).mean()) for found in (plain, ours)]
        same = float((plain.argmax(axis=1) == ours.argmax(axis=1)).mean())
        assert abs(right[0] - right[1]) <= 0.005
        assert same >= 0.995
        assert np.abs(ours - plain).max() < 0.02  # probabilities, and with them confidences
        assert (report.same, report.right_float, report.right_integer) == (same, *right)


def test_scales_from_few_samples_serve_the_others(tmp_path) -> None:
    with np.load(INPUTS) as held:
        images, labels = held["input"], held["label"]
    np.savez(tmp_path / "few.npz", input=images[:60])
    quantised = quantise(MODEL, tmp_path / "few.npz")
    assert [exit_.right_float for exit_ in quantised.exits] == [None] * 4
    maps = reference.run(quantised.network, reference.encode(quantised.network, images[60:]))
    expected = reference.run(quantise(MODEL, INPUTS).network, reference.encode(quantised.network, images[60:]))
    for exit_ in quantised.network.exits:
        right = [(held[exit_.layer][:, :, 0, 0].argmax(axis=1) == labels[60:]).mean() for held in (maps, expected)]
        assert abs(right[0] - right[1]) <= 0.005


@pytest.mark.parametrize(
    ("label", "found"),
    [(10, "row 1: expected a class of the network, 0 to 9, found 10"), (-1, "0 to 9, found -1"),
     (0.5, "expected a whole number for each sample")],
)  # fmt: skip
def test_a_label_that_is_no_class_is_refused(tmp_path, label, found) -> None:
    with np.load(INPUTS) as held:
        np.savez(tmp_path / "x.npz", input=held["input"][:2], label=np.array([label, 3 * label]))
    with pytest.raises(InputError, match=found):
        quantise(MODEL, tmp_path / "x.npz")


def test_calibration_samples_never_saturate(digits) -> None:
    with np.load(INPUTS) as held:
        maps = reference.run(digits.network, reference.encode(digits.network, held["input"]))
    largest = {name: int(np.abs(values.astype(np.int64)).max()) for name, values in maps.items()}
    assert digits.saturated == 0
    assert max(largest.values()) <= 2**14 + 2**6  # a bit of room is left above the largest value
    own = [layer.name for layer in digits.network.layers if layer.op == "product"]
    assert min(largest[name] for name in own) > 2**13 - 2**6  # and no more than that bit


def test_a_stage_needs_only_what_earlier_ones_left(digits) -> None:
    """Samples leave, and the others go on alone."""
    with np.load(INPUTS) as held:
        samples = reference.encode(digits.network, held["input"][:6])
    whole, maps, rows = reference.run(digits.network, samples), {"input": samples}, np.arange(6)
    for stage, left in enumerate(([0, 1, 2, 3, 4, 5], [0, 2, 5], [1, 2], [1]), 1):
        rows = rows[left]
        maps = {name: values[left] for name, values in maps.items()}
        found = reference.run_stage(digits.network, stage, maps)
        for name, values in found.items():
            assert np.array_equal(values, whole[name][rows])
        maps = {name: (maps | found)[name] for name in [["sum1"], ["sum2"], ["sum3"], []][stage - 1]}


# networks other than the shipped one


RNG = np.random.default_rng(11)
SMALL = {
    "w": RNG.normal(size=(4, 3, 3, 3)), "b": RNG.normal(size=4), "v": RNG.normal(size=(6, 2, 1, 1)),
    "m": RNG.normal(size=(6, 5)), "a": RNG.normal(size=5), "s": RNG.uniform(0.5, 2, 4), "t": RNG.normal(size=4),
    "u": RNG.normal(size=4), "d": RNG.uniform(0.5, 2, 4), "blocks": np.array([1, 1, 3, 3]),
}  # fmt: skip
SMALL |= {"large": RNG.normal(size=(6, 20, 1, 1)), "mm": RNG.normal(size=(12, 5))}
SMALL |= {"zero": np.array(0.0), "two": np.array(2.0)}
SMALL = {name: values.astype(np.float32) for name, values in SMALL.items()}
END = [node("GlobalAveragePool", ["z"], ["g"]), node("Flatten", ["g"], ["f"]), node("MatMul", ["f", "m"], ["y"])]
BLOCKS = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
NETWORKS: dict[str, Any] = {
    "a normalisation and a bias by themselves": [
        node("Conv", ["x", "w"], ["c"], strides=[2, 1], pads=[1, 0, 1, 0]),
        node("BatchNormalization", ["c", "s", "t", "u", "d"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("Conv", ["r", "v"], ["z"], group=2),
        *END, node("Add", ["y", "a"], ["e"]),
    ],
    "a map before and after its rectifier": [
        node("Conv", ["x", "w", "b"], ["c"], dilations=[2, 2], pads=[2, 2, 2, 2]),
        node("Relu", ["c"], ["r"]),
        node("Add", ["c", "r"], ["q"]),
        node("AveragePool", ["q"], ["p"], kernel_shape=[2, 3], strides=[1, 2]),
        node("Conv", ["p", "v"], ["z"], group=2), *END, node("Identity", ["y"], ["e"]),
    ],
    "two names of one map": [
        node("Conv", ["x", "w", "b"], ["c"]),
        node("Identity", ["c"], ["i"]), node("Identity", ["c"], ["j"]),
        node("Relu", ["i"], ["r"]), node("Add", ["r", "j"], ["q"]),
        node("MaxPool", ["q"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1),
        node("Conv", ["p", "v"], ["z"], group=2), *END, node("Identity", ["y"], ["e"]),
    ],
    "an enlarged map": [
        node("Resize", ["x", "", "blocks"], ["l"], **BLOCKS),
        node("Conv", ["l", "w", "b"], ["c"], dilations=[3, 3], pads=[3, 3, 3, 3]), node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "v"], ["z"], group=2), *END, node("Add", ["y", "a"], ["e"]),
    ],
    "maps behind one another": [
        node("Conv", ["x", "w", "b"], ["c"]), node("Relu", ["c"], ["r"]), node("Conv", ["x", "w"], ["j"]),
        node("Concat", ["r", "j"], ["i"], axis=1), node("MaxPool", ["i"], ["h"], kernel_shape=[1, 1]),
        node("Concat", ["h", "r", "i"], ["k"], axis=-3),
        node("Conv", ["k", "large"], ["z"]),
        *END[:2], node("Concat", ["f", "f"], ["ff"], axis=-1), node("MatMul", ["ff", "mm"], ["e"]),
    ],
    "bounds on one side and on both": [
        node("Conv", ["x", "w", "b"], ["c"]), node("Clip", ["c", "zero", "two"], ["r"]),
        node("Constant", [], ["one"], value_float=1.0),
        node("Clip", ["x", "", "one"], ["l"]), node("Conv", ["l", "w"], ["j"]), node("Clip", ["j", "zero"], ["h"]),
        node("Add", ["r", "h"], ["q"]), node("Clip", ["q", "one", "two"], ["o"]), node("Clip", ["q", "one"], ["k"]),
        node("Add", ["k", "o"], ["n"]),
        node("Conv", ["n", "v"], ["z"], group=2), *END, node("Identity", ["y"], ["e"]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("nodes", NETWORKS.values(), ids=NETWORKS)
def test_operators_of_other_exporters(tmp_path, nodes) -> None:
    from fluidb.machine.runtime import start

    path = saved(tmp_path, nodes, ["e"], (3, 9, 8), SMALL)
    samples = np.random.default_rng(5).normal(size=(40, 3, 9, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=samples)
    quantised = quantise(path, tmp_path / "x.npz")
    maps = reference.run(quantised.network, reference.encode(quantised.network, samples))
    (plain,) = start(onnx.load(path), 1).run(None, {"x": samples})
    assert (
        np.abs(reference.scores(quantised.network, quantised.network.exits[0], maps) - plain).max()
        < 2e-3 * np.abs(plain).max()
    )
    assert build_network(quantised.file, "net.toml").gemms


def test_bounds_of_older_files_are_attributes(tmp_path) -> None:
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Clip", ["c"], ["z"], min=0.0, max=6.0)]
    (layer, *_) = read_trained(
        saved(tmp_path, [*nodes, *END], ["y"], (3, 9, 8), SMALL | {"m": SMALL["m"][:4]}, 9)
    ).layers
    assert (layer.op, layer.low, layer.high) == ("product", 0, 6)


REFUSED: dict[str, Any] = {
    "Sigmoid": ([node("Sigmoid", ["x"], ["z"])], "no such operator, only Add, AveragePool, BatchNorm"),
    "bounds in the wrong order": (
        [node("Clip", ["x", "two", "zero"], ["z"])], "a lower bound below the upper one, found 2 and 0",
    ),
    "maps of other sizes": (
        [node("MaxPool", ["x"], ["p"], kernel_shape=[3, 1]), node("Concat", ["x", "p"], ["z"], axis=2)],
        "of one height and width",
    ),
    "rows behind one another": ([node("Concat", ["x", "x"], ["z"], axis=2)], r"\(axis 1\), found axis 2"),
    "a constant behind a map": ([node("Concat", ["x", "map"], ["z"], axis=1)], "and no constants"),
    "a Softmax inside": (
        [
            node("GlobalAveragePool", ["x"], ["mean"]), node("Softmax", ["mean"], ["sure"], axis=1),
            node("Add", ["mean", "sure"], ["z"]),
        ],
        "a Softmax at the end of an exit only",
    ),
    "half-pixel": ([node("Resize", ["x", "", "blocks"], ["z"], mode="nearest")], "to enlarge in whole blocks"),
    "rounded": (
        [node("Resize", ["x", "", "blocks"], ["z"], **BLOCKS | {"nearest_mode": "round_prefer_floor"})],
        "to enlarge in whole blocks",
    ),
    "a window that sees the blocks": (
        [node("Resize", ["x", "", "blocks"], ["l"], **BLOCKS), node("Conv", ["l", "w"], ["z"], dilations=[2, 2])],
        "multiples of 3",
    ),
    "a pool that sees them": (
        [node("Resize", ["x", "", "blocks"], ["l"], **BLOCKS), node("MaxPool", ["l"], ["z"], kernel_shape=[2, 2])],
        "enlarged 3 times",
    ),
    "unequal averages": (
        [node("AveragePool", ["x"], ["z"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])], "the same number of values",
    ),
    "automatic padding": ([node("Conv", ["x", "w"], ["z"], auto_pad="SAME_UPPER")], "found auto_pad"),
    "a normalisation of the input": (
        [node("BatchNormalization", ["x", *(f"{n}3" for n in "stud")], ["z"])], "behind a product",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "fault"), REFUSED.values(), ids=REFUSED)
def test_what_integers_cannot_is_refused(tmp_path, nodes, fault) -> None:
    weights = SMALL | {f"{name}3": SMALL[name][:3] for name in "stud"} | {"m": SMALL["m"][:3], "w": SMALL["w"][:3]}
    weights["map"] = np.zeros((1, 3, 9, 8), np.float32)
    path = saved(tmp_path, [*nodes, *END], ["y"], (3, 9, 8), weights)
    with pytest.raises(InputError, match=fault) as raised:
        read_trained(path)
    assert len(raised.value.faults) == 1


def test_a_bias_needs_a_place_of_the_window_inside_the_map(tmp_path) -> None:
    wide = [node("Conv", ["x", "w", "b"], ["z"], pads=[9, 9, 9, 9]), *END]
    path = saved(tmp_path, wide, ["y"], (3, 9, 8), SMALL | {"m": SMALL["m"][:4]})
    np.savez(tmp_path / "x.npz", input=np.ones((2, 3, 9, 8)))
    with pytest.raises(InputError, match='layer "z": has a bias, and no place of its window lies inside'):
        quantise(path, tmp_path / "x.npz")


AT_CONV = [node("GlobalAveragePool", ["c"], ["h"]), node("Flatten", ["h"], ["k"]), node("MatMul", ["k", "m"], ["e"])]
EXITS: dict[str, Any] = {
    "two feet": (
        [node("Add", ["c", "r"], ["q"]), node("GlobalAveragePool", ["q"], ["h"]), *AT_CONV[1:]],
        'exit "e": expected layers of its own that read one of the layers that the last exit needs, found c, r',
    ),
    "one foot for two exits": (
        [
            *AT_CONV, node("GlobalAveragePool", ["c"], ["h2"]), node("Flatten", ["h2"], ["k2"]),
            node("MatMul", ["k2", "m2"], ["e2"]),
        ],
        "expected a layer deeper than the exit before",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "fault"), EXITS.values(), ids=EXITS)
def test_exits_that_a_network_file_cannot_state_are_refused(tmp_path, nodes, fault) -> None:
    whole = [
        node("Conv", ["x", "w", "b"], ["c"]), node("Relu", ["c"], ["r"]),
        node("Add", ["r", "c"], ["z0"]), node("Conv", ["z0", "v"], ["z"], group=2), *nodes, *END[:2],
        node("MatMul", ["f", "n"], ["y"]),
    ]  # fmt: skip
    weights = SMALL | {"m": SMALL["m"][:4], "m2": SMALL["m"][2:], "n": SMALL["m"]}
    outputs = [name for name in ("e", "e2", "y") if any(name in item.output for item in whole)]
    path = saved(tmp_path, whole, outputs, (3, 9, 8), weights)
    np.savez(tmp_path / "x.npz", input=np.ones((2, 3, 9, 8)))
    with pytest.raises(InputError, match=fault):
        quantise(path, tmp_path / "x.npz")


@pytest.mark.parametrize("largest", [1e-9, 0.3, 1.0, 16384.0, 7e8])
def test_an_exponent_is_the_largest_that_fits(largest: float) -> None:
    exponent = exponent_of(largest, 2**14)
    assert largest * 2.0**exponent <= 2**14
    assert exponent == 32 or largest * 2.0 ** (exponent + 1) > 2**14


# the file and the command


def test_a_file_holds_the_network(digits, tmp_path) -> None:
    (tmp_path / "integer.npz").write_bytes(content(digits.network))
    read = read_integer(tmp_path / "integer.npz")
    assert read[:5] == digits.network[:5]
    assert read.weights.keys() == digits.network.weights.keys()
    for name, values in read.weights.items():
        assert np.array_equal(values, digits.network.weights[name])


def changed(key: str, value: Any, layer: int | None = None):
    def change(arrays: dict[str, Any]) -> None:
        header = json.loads(arrays["network"].tobytes())
        (header if layer is None else header["layers"][layer])[key] = value
        arrays["network"] = np.frombuffer(json.dumps(header).encode(), np.uint8)

    return change


DAMAGED: dict[str, Any] = {
    "no header": (lambda arrays: arrays.pop("network"), "found no array network"),
    "no JSON": (lambda arrays: arrays.update(network=np.arange(9, dtype=np.uint8)), "expected JSON"),
    "another schema": (changed("schema", "fluidb.integer/9"), "schema: expected fluidb.integer/2, found"),
    "an unknown key": (changed("more", 1), "more: "),
    "bounds in the wrong order": (changed("high", -1, 0), "expected low up to high, found 0 and -1"),
    "a negative shift": (changed("shift", -1, 0), r"layers\[0\].*shift"),
    "a later layer": (changed("inputs", ["sum4"], 1), 'expected earlier layers as inputs, found "sum4"'),
    "a map of two without its shift": (changed("op", "concat", 3), "Extra inputs|shifts"),
    "a new size": (changed("shape", [32, 8, 9], 3), "does not fit its inputs"),
    "a stage too late": (changed("stage", 5, 0), "expected stages 1 to 4 in order"),
    "no weights": (lambda arrays: arrays.pop("weights:a1"), "weights:a1: expected 1 x 297 x 32 integers of 16 bits"),
    "other weights": (lambda arrays: arrays.update({"weights:b": np.zeros(1)}), "weights:b: expected the weights of a"),
    "wide weights": (
        lambda arrays: arrays.update({"weights:a1": arrays["weights:a1"].astype(np.int32)}), "weights:a1: expected",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "fault"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused(digits, tmp_path, change, fault) -> None:
    path = tmp_path / "integer.npz"
    path.write_bytes(content(digits.network))
    with np.load(path) as held:
        arrays = dict(held)
    change(arrays)
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=fault):
        read_integer(path)


def test_a_file_with_sums_of_more_than_48_bits_is_refused(tmp_path) -> None:
    """The engine's sums would overflow: 131,070 products of the largest inputs and weights."""
    many = 2**16 - 1
    layer = ProductLayer(
        name="l", inputs=["input"], stage=1, shape=(1, 1, 1), exponent=0, groups=1, channels=many, constant=0,
        shift=32, kernel=(2, 1), stride=(1, 1), pad=(0, 0), dilation=(1, 1), **UNBOUNDED,
    )  # fmt: skip
    exits = [IntegerExit(name="e", layer="l", softmax=False)]
    path = tmp_path / "integer.npz"
    for weight, fits in ((2**13, True), (2**15 - 1, False)):
        weights = {"l": np.full((1, 2 * many, 1), weight, np.int16)}
        path.write_bytes(content(IntegerNetwork("n", Map(many, 2, 1), 0, [layer], exits, weights)))
        if fits:
            assert read_integer(path).layers == [layer]
        else:
            with pytest.raises(InputError, match="weights:l: expected sums of at most 48 bits"):
                read_integer(path)


def test_the_command_writes_the_same_bytes_again(fluidb, tmp_path) -> None:
    done = fluidb("quantise", "digits", "-o", "q", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["schema"] == "fluidb.quantise-output/1"
    assert [exit_["same"] > 0.99 for exit_ in record["exits"]] == [True] * 4
    first = [Path(tmp_path, name).read_bytes() for name in record["files"]]
    assert "output folder exists already" in lines(fluidb("quantise", "digits", "-o", "q"))[0]
    assert fluidb("quantise", "digits", "-o", "q", "--force").returncode == 0
    assert [Path(tmp_path, name).read_bytes() for name in record["files"]] == first
    assert fluidb("models", "check", "q/network.toml").returncode == 0


def test_samples_that_do_not_fit_are_refused(fluidb, tmp_path) -> None:
    (tmp_path / "net.onnx").write_bytes(MODEL.read_bytes())
    fault = lines(fluidb("quantise", "net.onnx", "-o", "q"))
    assert fault == [
        "fluidb: --inputs: expected calibration samples for a network of your own, found none; state a file"
    ]
    for arrays, wanted in (
        ({"x": np.ones((2, 1, 8, 8))}, "expected an array image or input, found x"),
        ({"input": np.ones((2, 1, 8, 9))}, "input: expected samples x 1 x 8 x 8, found 2 x 1 x 8 x 9"),
        ({"input": np.full((2, 1, 8, 8), np.nan)}, "input: expected finite numbers"),
    ):
        np.savez(tmp_path / "s.npz", **arrays)
        (line,) = lines(fluidb("quantise", "net.onnx", "--inputs", "s.npz", "-o", "q"))
        assert wanted in line
        assert not (tmp_path / "q").exists()


def test_a_network_for_photographs_with_random_weights(tmp_path) -> None:
    """Of the size of CIFAR-10; its weights are random, so that only the difference from floating point counts."""
    from fluidb.machine.runtime import start

    path = alexnet_cifar10(tmp_path)
    images = np.random.default_rng(3).normal(size=(12, 3, 32, 32)).astype(np.float32)
    np.savez(tmp_path / "x.npz", input=images)
    quantised = quantise(path, tmp_path / "x.npz")
    assert quantised.saturated == 0
    maps = reference.run(quantised.network, reference.encode(quantised.network, images))
    for exit_, plain in zip(quantised.network.exits, start(onnx.load(path), 1).run(None, {"x": images}), strict=True):
        ours = reference.scores(quantised.network, exit_, maps)
        assert np.abs(ours - plain).max() < 0.01
        assert (ours.argmax(axis=1) == plain.argmax(axis=1)).mean() >= 11 / 12
    network = build_network(quantised.file, "net.toml")
    assert [exit_.name for exit_ in network.exits] == ["p1", "p2", "fc3"]
    products = {layer.name: layer for layer in network.layers if layer.gemm}
    assert {layer.name for layer in network.layers if not layer.gemm} == {"p1", "p2", "p5", "exit1/g1", "exit2/g2"}
    assert products["conv3"].gemm == (64, 9 * 193, 384, 1)  # a further channel holds the constant of the bias
    assert sum(layer.gemm.macs for layer in products.values() if layer.gemm) == sum(
        values.size * quantised.network.layer(name).shape[1] * quantised.network.layer(name).shape[2]
        for name, values in quantised.network.weights.items()
    )


POOLED: dict[str, tuple[dict[str, object], bool]] = {
    "behind a rectifier": ({}, True),
    "of values below 0": ({"low": LOW}, False),
    "with places between its inputs": ({"dilation": Pair(2, 1)}, False),
    "with a window beyond the map": ({"pad": Pad(3, 0)}, False),
    "with a window behind the map": ({"shape": Map(2, 5, 2), "stride": Pair(2, 2)}, False),
}


@pytest.mark.parametrize("which", POOLED)
def test_the_engine_takes_the_pools_that_it_can(which: str) -> None:
    """A map behind others is as they are."""
    changes, taken = POOLED[which]
    base: dict[str, Any] = {"stage": 1, "exponent": 0}
    clip = ClipLayer(name="c", inputs=["input"], shape=Map(1, 6, 6), low=int(changes.get("low", 0)), high=9, **base)
    both = ConcatLayer(name="b", inputs=["c", "c"], shape=Map(2, 6, 6), shifts=[0, 0], **base)
    window = {"kernel": Pair(3, 3), "stride": Pair(1, 1), "pad": Pad(0, 0), "dilation": Pair(1, 1)}
    window |= {"shape": Map(2, 4, 4)} | {key: value for key, value in changes.items() if key != "low"}
    pool = MaxPool(name="p", inputs=["b"], **base, **window)
    mean = AveragePool(name="m", inputs=["b"], factor=9, shift=3, **base, **window)
    network = IntegerNetwork("n", Map(1, 6, 6), 0, [clip, both, pool, mean], [], {})
    assert not on_engine(clip, network)
    assert on_engine(pool, network) == taken
    assert on_engine(mean, network) == ("dilation" not in changes)
