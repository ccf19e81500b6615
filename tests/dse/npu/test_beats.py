"""Beats on an aligned bus: the closed forms of the cycle model against walks over addresses."""

from __future__ import annotations

import naive_bus
import numpy as np
import pytest
from builders import COMPILED, ROOT
from fluidb.dse import SearchOptions, Tile, search, tabulate_design, tabulate_latency
from fluidb.dse.hardware.jobs import Addition, Job
from fluidb.dse.hardware.program import jobs_of
from fluidb.dse.integers.quantise import quantise
from fluidb.dse.integers.window import Window
from fluidb.dse.npu import beats
from fluidb.dse.npu.costs import configured, layer_costs
from fluidb.dse.npu.schedule import LayerSizes
from fluidb.models import load_network
from fluidb.models.digits import INPUTS, MODEL
from fluidb.models.loader import build_network
from fluidb.platforms import load_platform
from hypothesis import given
from hypothesis import strategies as st

widths = st.sampled_from([1, 2, 4, 8, 16])


def seconds(addresses, words, count, before=None):
    """Mean of the beats of the bus that beats cost beyond one, each behind another that is given by its address."""
    costs = []
    for address in addresses:
        newest = naive_bus.of_lines([before(address)], words)[2] if before else None
        costs.append(naive_bus.of_lines([(address, count)], words, newest)[1] - 1)
    return np.mean(costs)


@given(st.integers(-9, 40), st.integers(-20, 20), st.integers(0, 40), widths)
def test_second_lines_of_whole_beats_equal_a_walk(apart, start, unit, words):
    places = [1000 * words + start + unit * turn for turn in range(words)]
    near = 0 < apart < 2 * words
    expected = seconds(places, words, words, (lambda address: (address - apart, words)) if near else None)
    assert beats.second_lines(float(apart), float(start), float(unit), float(words)) == pytest.approx(expected)


@given(st.integers(1, 16), st.integers(0, 40), st.integers(-20, 20), st.integers(0, 40), widths)
def test_runs_that_begin_within_a_line_equal_a_walk(first, gap, start, unit, words):
    first, places = min(first, words), [1000 * words + start + unit * turn for turn in range(words)]
    expected = seconds(places, words, first, lambda address: (address - gap - 1, 1))
    assert beats.crossing(float(first), float(gap), float(start), float(unit), float(words)) == pytest.approx(expected)


def of_model(source: tuple[float, ...], job: Job, words: int) -> naive_bus.Counted:
    """What the cycle model counts of a layer, as the walk counts it; it does not count lines that no beat needs."""
    adds = float(job.addition is not None)
    layer = LayerSizes(tuple(map(float, job.gemm)), source, 1.0, adds)
    of = tuple(map(float, job.tile[:4])), job.layout, float(job.rows), float(words)
    of_blocks, share, counted = beats.beats_of_layer(layer.gemm, source, *of, 1.0)
    of_loads, of_stores = beats.seconds_of_layer(layer, *of, of_blocks, share, counted)
    loads, stores = (job.groups * job.layout[3] * count for count in (counted.loads, counted.stores))
    taken, stored = loads * (1 + of_loads), stores * (1 + of_stores)
    return naive_bus.Counted(loads, 0, taken, stores, 0, stored, adds * stores, 0, adds * stored)


def compared(jobs: list[tuple[Job, tuple[float, ...]]], words: int) -> tuple[float, float]:
    """Relative differences of the model from the walk: of the layer that is furthest off, and of all in sum."""
    counted = []
    for job, source in jobs:
        places, distance = naive_bus.alone(job.window, job.C, job.groups, words), None if job.addition is None else 0
        tile = tuple(map(int, job.tile))
        walk = naive_bus.count(job.window, job.C, job.groups, job.layout, tile, job.rows, words, places, distance)
        model = of_model(source, job, words)
        assert (model.loads, model.stores, model.adds) == (walk.loads, walk.stores, walk.adds)
        counted.append([one.taken + one.stored + one.add_taken for one in (model, walk)])
    model, walk = np.array(counted).T
    return max(abs(model / walk - 1)), abs(model.sum() / walk.sum() - 1)


def design_of(network, words, b_max):
    board, options = load_platform("zc706"), SearchOptions(tile=Tile(1024, 7, 128, 1, words), b_max=b_max)
    return tabulate_design(network, board, options, search(network, board, options))


def source_of(layer):
    return tuple(map(float, (layer.line, layer.stride, layer.step, *layer.window)))


searched = pytest.mark.skipif(not COMPILED, reason="the search as plain Python takes minutes")


@searched
@pytest.mark.parametrize("words", [4, 8, 16])
def test_beats_of_digits_are_those_of_the_walk(words: int) -> None:
    """Of every layer, for one to three samples."""
    quantised = quantise(MODEL, INPUTS)
    network = build_network(quantised.file, "network.toml")
    timed = jobs_of(quantised.network, *design_of(network, words, 3))
    layers = {layer.operator: layer for layer in network.layers}
    worst, total = compared([(one.job, source_of(layers[name])) for name, row in timed.items() for one in row], words)
    assert worst < 0.02, worst
    assert total < 0.002


@searched
def test_the_page_says_what_the_bus_costs() -> None:
    """At b = 1 and 8, on the designs that searches find, beside a port that takes any address."""
    page = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    board, options = load_platform("zc706"), SearchOptions(b_max=8)
    rows = (
        ("resnet50", "ResNet-50", (1024, 7, 128)),
        ("inception_v3", "Inception-v3", (1024, 7, 128)),
        ("mobilenet_v2", "MobileNetV2", (2016, 9, 96)),
    )
    for name, title, tile in rows:
        network, given = load_network(name), options.model_copy(update={"tile": Tile(*tile)})
        times = []
        for port in (board.without_bus(), board):
            table = tabulate_latency(*tabulate_design(network, port, given, search(network, port, given))).array()
            times += [f"{1e3 * table[0, -1, 1]:.2f}", f"{1e3 * table[0, -1, 8]:.1f}"]
        assert f"| {title}, {Tile(*tile)} | {' | '.join(times)} |" in page


LAYERS = {
    "layer2.1.conv1": Window.of_product(784, 512),
    "layer3.0.downsample": Window(512, (28, 28), (1, 1), (14, 14), (2, 2)),
    "layer3.1.conv2": Window(256, (14, 14), (3, 3), (14, 14), pad=(1, 1)),
    "layer4.1.conv1": Window.of_product(49, 2048),
    "layer4.1.conv2": Window(512, (7, 7), (3, 3), (7, 7), pad=(1, 1)),
    "avgpool": Window(1, (2048, 49), (1, 49), (2048, 1), (1, 49), in_rows=True),
    "fc": Window.of_product(1, 2048),
}


@searched
@pytest.mark.parametrize(("words", "b"), [(4, 1), (16, 2)])
def test_beats_of_layers_of_resnet_50_are_those_of_the_walk(words: int, b: int) -> None:
    """With 7x7, 14x14 and 28x28 maps."""
    network = load_network("resnet50")
    design, fbcb = design_of(network, words, b)
    run, costs, (codes, _, _) = configured(design, fbcb), layer_costs(design, fbcb), fbcb.unpack()
    places = [place for place, layer in enumerate(network.layers) if layer.product(pooled=True)]
    assert costs.block_rows is not None
    jobs = []
    for at, place in enumerate(places):
        layer = network.layers[place]
        if layer.name not in LAYERS:
            continue
        window = LAYERS[layer.name]
        R, P, C, groups = map(int, run.sizes.gemm[at])
        assert (R, P) == (window.R, window.P)
        tile, layout = Tile(*map(int, run.tile[:, at, b - 1])), tuple(map(int, run.layouts[at, b - 1]))
        rows, code = int(costs.block_rows[place, b - 1]), int(codes[at, b - 1])
        jobs.append((Job(window, C, groups, layout, code, tile, rows, 1, 0, 1), source_of(layer)))
    assert len(jobs) == len(LAYERS)
    worst, total = compared(jobs, words)
    assert worst < 0.02, worst
    assert total < 0.002


@given(st.tuples(*[st.integers(1, 40)] * 3), st.integers(1, 6), st.integers(1, 8), widths)
def test_runs_that_follow_one_another_or_begin_at_lines_cost_nothing(sizes, T_P, b, words):
    """Windows of one input on maps, and columns, of whole lines; blocks of whole lines, too."""
    R, P, C = sizes[0] * words, sizes[1], sizes[2] * words
    for rows in (R * b, words):
        of = (8.0 * R, float(T_P), 3.0 * words, 1.0), (b, b, 1, 1), float(rows), float(words)
        layer = LayerSizes((float(R), float(P), float(C), 1.0), (0.0, 1.0, 0.0, 1.0, 1.0), 1.0, 1.0)
        of_blocks, share, counted = beats.beats_of_layer(layer.gemm, layer.source, *of, 1.0)
        assert beats.seconds_of_layer(layer, *of, of_blocks, share, counted) == (0, 0)


ALONE = 1, 1, 1, 1
FEW, SUMS = Window.of_product(49, 40), Window.of_product(50, 40)
MEANS = Window(1, (64, 49), (1, 49), (64, 1), (1, 49), in_rows=True)
SMALL = {  # window, columns, tile, rows of a block, words of a beat, whether a map is added, layout
    "channels of a map follow one another": (Window.of_product(36, 64), 16, (64, 8, 16, 1), 36, 8, False, ALONE),
    "narrow lines follow one another": (Window(8, (14, 14), (5, 5), (10, 10)), 8, (200, 8, 8, 1), 100, 8, False, ALONE),
    "a store in many shares": (Window.of_product(49, 64), 256, (64, 2, 64, 1), 49, 16, False, ALONE),
    "columns of a map that is added": (Window.of_product(49, 4), 64, (64, 4, 64, 1), 49, 8, True, ALONE),
    "pieces of a map that is added": (Window.of_product(49, 4), 64, (64, 4, 64, 1), 20, 8, True, ALONE),
    "a block within a line": (Window(8, (32, 32), (3, 3), (15, 15), (2, 2)), 8, (200, 8, 8, 1), 5, 8, False, ALONE),
    "windows side by side": (Window(4, (27, 27), (3, 3), (9, 9), (3, 3)), 4, (512, 8, 4, 1), 81, 8, False, ALONE),
    "a tile is narrower than a line of weights": (FEW, 20, (64, 8, 12, 1), 49, 8, False, ALONE),
    "shares within pieces": (FEW, 16, (64, 2, 4, 1), 17, 8, False, ALONE),
    "lines of weights follow one another": (Window.of_product(8, 40), 21, (64, 7, 40, 1), 8, 8, False, ALONE),
    "weights in one tile": (Window.of_product(8, 5), 21, (64, 7, 63, 1), 8, 8, False, ALONE),
    "inputs of a row follow one another": (MEANS, 1, (64, 13, 4, 1), 64, 8, False, ALONE),
    "samples of one row": (Window.of_product(1, 50), 4, (8, 50, 4, 1), 5, 8, True, (5, 5, 1, 1)),
    "a block ends with a sample": (SUMS, 4, (64, 8, 4, 1), 51, 8, True, (2, 2, 1, 1)),
    "the last column lacks a sample": (
        Window(8, (14, 14), (5, 5), (10, 10)), 8, (400, 8, 8, 1), 100, 8, False, (3, 2, 2, 1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SMALL)
def test_beats_of_a_small_layer_are_those_of_the_walk(what: str) -> None:
    """Of loads, and of stores, each."""
    window, C, tile, rows, words, adds, layout = SMALL[what]
    addition = Addition((0, 0), 0, 0, 1) if adds else None
    job = Job(window, C, 1, layout, 0, Tile(*tile), rows, 1, 0, 1, addition=addition)
    places = naive_bus.alone(window, C, 1, words)
    walk = naive_bus.count(window, C, 1, job.layout, tile, rows, words, places, 0 if adds else None)
    order = (0, 1, 0, 1, 1) if window.joined else (*window.source, window.size[1], *window.kernel)
    model = of_model(tuple(map(float, order)), job, words)
    assert model.taken == pytest.approx(walk.taken, rel=0.02)
    assert model.stored + model.add_taken == pytest.approx(walk.stored + walk.add_taken, rel=0.03)
