"""Engines of fixed shape: cycles against a walk over tiles, times by hand, and the platforms that ship."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Run
from fluidb.dse.device.engine import needs, needs_of, product_cycles, tabulate_engine
from fluidb.dse.device.shapes import search_shape
from fluidb.dse.device.tabulate import tabulate_device
from fluidb.formats import InputError, validate
from fluidb.models import Gemm, load_network
from fluidb.models.loader import read_network_file
from fluidb.models.schema import NetworkFile
from fluidb.models.works import LayerWork, layer_works
from fluidb.platforms import PLATFORMS, Platform, load_platform
from fluidb.platforms.engine import Engine
from fluidb.tables.latency import read_latency
from hypothesis import given
from hypothesis import strategies as st

STATED = {"name": "e", "title": "e", "clock_mhz": 1.0, "word_bits": 8, "bandwidth_gb_s": 1e-3, "b_max": 2}
SIDES = st.integers(1, 5)


def engine_of(pixels: int = 1, inputs: int = 1, outputs: int = 1, **keys: Any) -> Engine:
    shape = {"pixels": pixels, "input_channels": inputs, "output_channels": outputs}
    return Engine.read(STATED | shape | keys, Path("e.toml"))


def work_of(height: int, width: int, window: tuple[int, int], channels: int, outputs: int, groups: int) -> LayerWork:
    gemm = Gemm(height * width, window[0] * window[1] * channels, outputs, groups)
    return LayerWork("c", 1, in_head=False, gemm=gemm, window=window, stride=(1, 1), line=width, words=0)


def chunks(items: list[int], size: int) -> list[list[int]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


@given(SIDES, SIDES, st.tuples(SIDES, SIDES), SIDES, SIDES, SIDES, SIDES, SIDES, SIDES,
       st.sampled_from(["line", "map"]), st.sampled_from(["position", "line", "window"]),
       st.integers(0, 9))  # fmt: skip
def test_cycles_equal_a_walk_over_tiles(
    height: int, width: int, window: tuple[int, int], channels: int, outputs: int, groups: int,
    pixels: int, side: int, columns: int, along: str, inner: str, fill: int,
) -> None:  # fmt: skip
    """A cycle is a tile of pixels, one of values of the window, and one of output channels; what stays is filled."""
    engine = engine_of(pixels, side, columns, pixel_tiles=along, inner_tiles=inner, fill_cycles=fill)
    lines = [[(y, x) for x in range(width)] for y in range(height)]
    maps = lines if along == "line" else [[pixel for line in lines for pixel in line]]
    tiles = sum(len(chunks(list(range(len(part))), pixels)) for part in maps)
    inner = "position" if inner == "line" and channels >= side else inner
    positions = {"position": window[0] * window[1], "line": window[0], "window": 1}[inner]
    values = list(range(window[0] * window[1] * channels // positions))
    walked, stay = 0, set()
    taken, given = len(chunks(values, side)), len(chunks(list(range(outputs)), columns))
    for group, tile, position, part, column in product(*map(range, (groups, tiles, positions, taken, given))):
        walked += 1
        stay.add((group, position, part, column) if pixels == 1 else (group, tile, column))
    cycles = product_cycles(work_of(height, width, window, channels, outputs, groups), engine)
    assert cycles == walked + fill * len(stay)


def test_the_depthwise_unit_and_winograd_by_hand() -> None:
    """8 lines of 8 pixels, 3x3 windows, 32 channels one by one: 16 channels of 4 pixels a cycle."""
    depthwise = work_of(8, 8, (3, 3), 1, 1, 32)
    unit: dict[str, Any] = {"depthwise_pixels": 4, "depthwise_channels": 16, "pixel_tiles": "line"}
    assert product_cycles(depthwise, engine_of(8, 16, 16, **unit)) == 8 * 2 * 9 * 2
    assert product_cycles(depthwise, engine_of(8, 16, 16, pixel_tiles="line")) == 8 * 1 * 32
    plain = work_of(8, 8, (3, 3), 16, 16, 1)
    fast = engine_of(8, 16, 16, winograd=True, inner_tiles="position")
    assert product_cycles(plain, fast) == 8 * 9 / 2.25
    assert product_cycles(plain._replace(stride=(2, 2)), fast) == 8 * 9
    # 49 pixels stream through 8 places without an empty one, and 1,000 outputs of one pixel through 128
    streams = engine_of(8, 16, 16, pixel_tiles="stream")
    assert product_cycles(work_of(7, 7, (1, 1), 16, 20, 1), streams) == 2 * 49 / 8
    assert product_cycles(work_of(1, 1, (1, 1), 20, 1000, 1), streams) == 2 * 1000 / 128


@given(st.tuples(SIDES, SIDES), st.tuples(SIDES, SIDES), SIDES, SIDES)
def test_an_extended_window_is_a_walk_over_its_strides(
    window: tuple[int, int], stride: tuple[int, int], channels: int, outputs: int
) -> None:
    """Each step of a stride that begins in the window has all its weights."""
    weights = window[0] * window[1] * channels * outputs
    work = work_of(3, 3, window, channels, outputs, 1)._replace(stride=stride, words=7, weights=weights)
    walked = 0
    for _ in product(range(0, window[0], stride[0]), range(0, window[1], stride[1]), range(channels * outputs)):
        walked += stride[0] * stride[1]
    assert needs_of([work], engine_of(windows_extended=True)).bytes == pytest.approx([7 + walked])
    assert needs_of([work], engine_of()).bytes == [7 + weights]


FILE = validate(
    NetworkFile,
    {
        "schema": "fluidb.network/1", "name": "n", "title": "n", "input": {"height": 4, "width": 4, "channels": 2},
        "layers": [
            {"name": "a", "op": "conv", "out": 2, "kernel": 3, "pad": 1},
            {"name": "b", "op": "conv", "out": 2, "kernel": 1},
            {"name": "sum", "op": "add", "from": ["b", "a"]},
            {"name": "pool", "op": "globalavgpool"},
            {"name": "fc", "op": "linear", "out": 3},
        ],
        "exits": [{"after": "a", "rate": 0.5, "layers": [{"name": "fc", "op": "linear", "out": 1}]}],
    },
    "n.toml",
)  # fmt: skip


def test_a_table_worked_out_by_hand() -> None:
    """One MAC a cycle of 1 us and one byte in 1 us; half of the shorter is not hidden; 10 us a layer, 1 ms at first."""
    constants: dict[str, Any] = {"not_hidden": 0.5, "layer_s": 10e-6, "inference_s": 1e-3}
    engine = engine_of(additions_fused=False, **constants)
    # MACs and bytes of: a; its exit, over 16 positions; b with the sum and the pool; fc
    layers = [(576, 32 + 36 + 32), (32, 32 + 2 + 16), (64, 32 + 4 + 32), (0, 96), (0, 34), (6, 2 + 6 + 3)]
    times = [1e-6 * (max(cell) + 0.5 * min(cell) + 10) for cell in layers]
    expected = [times[0] + 1e-3, times[1], sum(times[2:5]), times[5]]
    table = tabulate_engine(FILE, "n.toml", engine)
    assert [(use.name, use.stage, use.role) for use in table.layers] == [
        ("a", 1, "backbone"), ("exit1/fc", 1, "head"), ("b", 2, "backbone"), ("fc", 2, "backbone")
    ]  # fmt: skip
    assert [use.time_s for use in table.layers] == [pytest.approx([time_s, 2 * time_s]) for time_s in expected]
    fused = tabulate_engine(FILE, "n.toml", engine_of(**constants))
    b = 1e-6 * (32 + 4 + 32 + 32 + 0.5 * 64 + 10)  # reads the map of a, too
    assert fused.layers[2].time_s[0] == pytest.approx(b + times[4])


@pytest.mark.parametrize("network", ["resnet50", "mobilenet_v2", "inception_v3", "bert_base", "transformer_seq2seq"])
def test_the_works_of_a_network_are_its_layers(network: str) -> None:
    """Names, stages, products and traffic are the lowered network's; additions come on top."""
    works = layer_works(*read_network_file(network))
    lowered = load_network(network).layers
    names = {layer.name for layer in lowered}
    kept = [(w.name, w.stage, w.in_head, w.gemm) for w in works if w.name in names]
    assert kept == [(layer.name, layer.stage, layer.in_head, layer.gemm) for layer in lowered]
    moved = {w.name: w.words for w in works}
    assert all(moved[layer.name] == layer.memory_words for layer in lowered if layer.gemm is None)
    for work in works:
        if work.gemm is not None:
            assert work.gemm.R % work.line == 0
            assert work.gemm.P % (work.window[0] * work.window[1]) == 0


MAPS = {"height": 4, "width": 4, "channels": 2}
CONV: dict[str, Any] = {"op": "conv", "out": 2, "kernel": 1}
POOL: dict[str, Any] = {"op": "maxpool", "kernel": 2, "stride": 2}
FUSED: dict[str, tuple[list[dict[str, Any]], dict[str, int]]] = {
    "a pool": ([{"name": "a", **CONV}, {"name": "p", **POOL}], {"a": 32 + 8}),
    "a pool whose input another layer reads": (
        [{"name": "a", **CONV}, {"name": "p", **POOL}, {"name": "b", **CONV, "from": ["a"]}],
        {"a": 64, "p": 40, "b": 64},
    ),
    "a pool of what is no product": ([{"name": "a", **CONV}, {"name": "p", **POOL}, {"name": "q", **POOL},
        {"name": "c", "op": "concat", "from": ["q", "q"]}, {"name": "r", "op": "globalavgpool"}],
        {"a": 32 + 2, "r": 8},
    ),
    "a residual, and the pool behind it": (
        [{"name": "a", **CONV}, {"name": "b", **CONV}, {"name": "s", "op": "add", "from": ["b", "a"]},
         {"name": "p", "op": "globalavgpool"}],
        {"a": 64, "b": 32 + 32 + 2},
    ),
    "the last of two products": (
        [{"name": "a", **CONV}, {"name": "b", **CONV, "from": ["input"]},
         {"name": "s", "op": "add", "from": ["a", "b"]}],
        {"a": 64, "b": 32 + 32 + 32},
    ),
    "a sum whose last input is read again": (
        [{"name": "a", **CONV}, {"name": "b", **CONV}, {"name": "s", "op": "add", "from": ["a", "b"]},
         {"name": "t", "op": "add", "from": ["s", "b"]}],
        {"a": 64, "b": 64, "s": 96, "t": 96},
    ),
    "a sum with itself": ([{"name": "a", **CONV}, {"name": "s", "op": "add", "from": ["a", "a"]}], {"a": 64, "s": 96}),
}  # fmt: skip


@pytest.mark.parametrize("case", FUSED)
def test_what_is_fused_by_hand(case: str) -> None:
    """Words of 4 x 4 x 2 maps; pools leave 8 of 32, then 2."""
    layers, words = FUSED[case]
    data = {"schema": "fluidb.network/1", "name": "n", "title": "n", "input": MAPS, "layers": layers, "exits": []}
    file = validate(NetworkFile, data, Path("n.toml"))
    assert {work.name: work.words for work in layer_works(file, "n.toml", additions=True, pools=True)} == words


def test_a_map_that_an_exit_reads_is_written() -> None:
    layers = [{"name": "a", **CONV}, {"name": "p", **POOL}, {"name": "b", **CONV}]
    exits = [{"after": "a", "rate": 0.5, "layers": [{"name": "p", **POOL}, {"name": "fc", "op": "linear", "out": 1}]}]
    data = {"schema": "fluidb.network/1", "name": "n", "title": "n", "input": MAPS, "layers": layers, "exits": exits}
    works = layer_works(validate(NetworkFile, data, Path("n.toml")), "n.toml", pools=True)
    assert [work.name for work in works] == ["a", "exit1/p", "exit1/fc", "p", "b"]


def test_words_of_winograd_and_of_a_batch_by_hand() -> None:
    """16 weights for 9; samples of a batch share the weights of fully connected layers, two at a time."""
    moves: dict[str, Any] = {"word_bits": 16, "winograd": True, "linear_batch": 2, "pools_fused": True}
    engine = engine_of(**moves)
    need = needs(FILE, "n.toml", engine)
    assert [work.name for work in need.works] == ["a", "exit1/fc", "b", "fc"]
    activations = [64, 32 + 16, 32 + 32 + 2, 2 + 3]  # b reads the map of a, too, and writes the map of the pool
    weights = [36 * 16 / 9, 2, 4, 6]
    assert need.bytes == pytest.approx([2 * sum(pair) for pair in zip(activations, weights, strict=True)])
    of_three = need.of_batch(3, engine)
    assert of_three.bytes[:3] == pytest.approx(3 * need.bytes[:3])  # the exit's layer has 16 positions
    assert of_three.bytes[3] == 2 * (3 * 5 + 2 * 6)
    assert of_three.cycles == pytest.approx(3 * need.cycles)
    table = tabulate_engine(FILE, "n.toml", engine)
    assert table.layers[3].time_s[1] == pytest.approx(max(2 * 6, 2 * (2 * 5 + 6)) * 1e-6)


def test_no_engine_is_faster_than_its_peak() -> None:
    """Padded cycles make all MACs; a perfect engine of one multiplier has as many cycles."""
    file, path = read_network_file("mobilenet_v2")
    macs = [work.gemm.macs if work.gemm else 0 for work in layer_works(file, path, additions=True)]
    assert np.array_equal(needs(file, path, engine_of()).cycles, macs)
    padded = needs(file, path, engine_of(8, 16, 16, pixel_tiles="line")).cycles
    assert (padded * 2048 >= macs).all()


def test_the_engines_that_ship_serve(fluidb: Run, tmp_path: Path) -> None:
    engines = [load_platform(name, kind=Platform) for name in PLATFORMS.names()]
    assert not any(item.unsourced for item in engines if isinstance(item, Engine))
    done = fluidb("latency", "resnet18", "dpu-b4096-kv260", "-o", tmp_path / "r")
    assert done.returncode == 0
    assert "0 input" in done.stdout


def test_fully_connected_outputs_over_the_pixels_by_hand() -> None:
    """1,000 outputs of 64 inputs on 4 x 16 x 16: 16 outputs a pass, or 64; a map of more pixels stays as it is."""
    linear, conv = work_of(1, 1, (1, 1), 64, 1000, 1), work_of(2, 2, (1, 1), 64, 1000, 1)
    assert product_cycles(linear, engine_of(4, 16, 16)) == 4 * 63
    assert product_cycles(linear, engine_of(4, 16, 16, linear_over_pixels=True)) == 4 * 16
    assert product_cycles(conv, engine_of(4, 16, 16, linear_over_pixels=True)) == 4 * 63
    streamed = engine_of(4, 16, 16, pixel_tiles="stream", linear_over_pixels=True)
    assert product_cycles(linear, streamed) == 4 * 1000 / 64  # a stream spreads them already


def test_rates_of_additions_and_pools_and_what_stays_on_the_chip_by_hand() -> None:
    """Layers of 3,000 words: 1,024 stay; 500 + 1,000 + 2,000 weights: the first 1,024 stay."""
    base = work_of(1, 1, (1, 1), 10, 50, 1)._replace(words=3000)
    works = [base._replace(weights=count) for count in (500, 1000, 2000)]
    works += [base._replace(gemm=None, weights=0, added=added) for added in (True, False)]
    rates = engine_of(added_per_cycle=8.0, pooled_per_cycle=2.0)
    assert needs_of(works, rates).cycles[3:].tolist() == [3000 / 8, 3000 / 2]
    assert needs_of(works, engine_of()).cycles[3:].tolist() == [0, 0]
    stay = needs_of(works, engine_of(maps_on_chip_kib=1.0, weights_on_chip_kib=1.0))
    assert stay.bytes.tolist() == [1976 + 0, 1976 + 476, 1976 + 2000, 1976, 1976]
    assert stay.shared.tolist() == [0, 476, 2000, 0, 0]
    wide = needs_of(works, engine_of(maps_on_chip_kib=1.0, weights_on_chip_kib=1.0, word_bits=16))
    assert wide.bytes.tolist() == [4976, 4976 + 2 * 988, 4976 + 4000, 4976, 4976]
    assert needs_of(works, engine_of(maps_on_chip_kib=10.0)).bytes.tolist() == [500, 1000, 2000, 0, 0]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "half a depthwise unit": (
        {"depthwise_pixels": 4},
        "depthwise_pixels, depthwise_channels: expected both or neither",
    ),
    "more than the peak": ({"effective_gb_s": 1.0}, "effective_gb_s: expected at most bandwidth_gb_s"),
    "no overlap twice": ({"not_hidden": 1.5}, "not_hidden"),
    "a range upside down": (
        {"measured_low": 2.0, "measured_high": 1.0},
        "measured_low: expected at most measured_high",
    ),
    "confidence of nothing": ({"measured_confidence": 0.9}, "measured_confidence: expected beside"),
    "an error known and not known": (
        {"measured_low": 1.0, "measured_high": 1.0, "measured_error": "not known"},
        "measured_error: expected none beside measured_low",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_engines_are_one_line(case: str) -> None:
    keys, part = BAD[case]
    with pytest.raises(InputError, match=r"e\.toml") as caught:
        engine_of(**keys)
    (line,) = caught.value.faults
    assert part in line


def test_an_engine_needs_the_file_of_a_network() -> None:
    with pytest.raises(InputError, match="needs the network's file"):
        tabulate_device(load_network("resnet18"), engine_of())


@pytest.mark.parametrize("seed", range(12))
def test_the_best_shape_is_that_of_all_shapes(seed: int) -> None:
    random = np.random.default_rng(seed)
    channels = [int(count) for count in random.integers(1, 9, 3)]
    layers = [
        {"name": f"c{i}", "op": "conv", "out": out, "kernel": [int(random.integers(1, 4)), 1], "stride": [1, 1]}
        for i, out in enumerate(channels)
    ]
    size = {"height": 9, "width": int(random.integers(1, 6)), "channels": int(random.integers(1, 5))}
    file = validate(
        NetworkFile,
        {"schema": "fluidb.network/1", "name": "n", "title": "n", "input": size, "layers": layers, "exits": []},
        Path("n.toml"),
    )
    along, inner = random.choice(["line", "map", "stream"]), random.choice(["position", "line", "window"])
    engine = engine_of(
        *(int(side) for side in random.integers(1, 4, 3)), pixel_tiles=str(along), inner_tiles=str(inner),
        bandwidth_gb_s=float(random.choice([1e-3, 1.0])), not_hidden=float(random.choice([0.0, 0.25])),
        fill_cycles=int(random.choice([0, 3])),
    )  # fmt: skip
    most = engine.macs_per_cycle
    sides = range(1, most + 1)
    shapes = [shape for shape in product(sides, sides, sides) if shape[0] * shape[1] * shape[2] <= most]
    times = []
    for shape in shapes:
        keys = dict(zip(("pixels", "input_channels", "output_channels"), shape, strict=True))
        table = tabulate_engine(file, "n.toml", engine.model_copy(update=keys))
        times.append(sum(layer.time_s[0] for layer in table.layers))
    result = search_shape(file, "n.toml", engine)
    assert result.best.time_s == pytest.approx(min(times), rel=1e-12)
    equal = [shape for shape, time_s in zip(shapes, times, strict=True) if time_s <= min(times) * (1 + 1e-12)]
    assert result.best.engine.macs_per_cycle <= min(np.prod(shape) for shape in equal)
    assert result.best.time_s <= result.given.time_s
    few = search_shape(file, "n.toml", engine, most_pixels=2).best
    assert few.engine.pixels <= 2
    of_few = [time_s for shape, time_s in zip(shapes, times, strict=True) if shape[0] <= 2]
    assert few.time_s == pytest.approx(min(of_few), rel=1e-12)


def test_an_engine_that_is_best_stays() -> None:
    result = search_shape(*read_network_file("inception_v3"), load_platform("nvdla-2048", kind=Engine))
    assert result.best == result.given
    assert 0 < result.best.busy < 1


def test_dse_writes_the_best_engine(fluidb: Run, tmp_path: Path) -> None:
    done = fluidb("dse", "mobilenet_v2", "dpu-b4096-zcu104", "-o", "best", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    engine = load_platform(tmp_path / "best" / "engine.toml", kind=Engine)
    assert engine.macs_per_cycle == record["best"]["macs_per_cycle"] < record["given"]["macs_per_cycle"] == 2048
    table = read_latency(tmp_path / "best")
    assert (engine.measured, table.measured) == (None, None)  # no such engine was measured
    assert table.arrays()[0][0, -1, 1] == pytest.approx(record["best"]["time_s"])
    again = fluidb("dse", "mobilenet_v2", "dpu-b4096-zcu104", "-o", "best")
    assert (again.returncode, again.stdout) == (2, "")
    tiled = fluidb("dse", "mobilenet_v2", "nvdla-2048", "--tile", "100,2,4")
    assert tiled.returncode == 2
    assert "--tile: an option with a board, but nvdla-2048 is an engine; leave it out" in tiled.stderr
