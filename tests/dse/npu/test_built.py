"""The engine as built: words, times and choices against an engine that is walked step by step."""

from __future__ import annotations

import json
from functools import partial

import naive_engine
import numpy as np
import pytest
from builders import POCKET, WITHOUT_LOGIC, any_gemm, board_of, network_of, port_for
from enumeration import ranked
from fluidb.dse import (
    Batching,
    Objective,
    Overlap,
    SearchOptions,
    Tile,
    explain,
    find_front,
    read_design,
    search,
    tabulate_design,
)
from fluidb.dse.engine import Port
from fluidb.dse.npu import kernels, layer_choice, schedule
from fluidb.dse.npu.beats import beats_of_layer, seconds_of_layer
from fluidb.dse.npu.costs import Cause, layer_costs
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.fbcb import encode
from fluidb.dse.npu.layouts import LayerKind, arrange
from fluidb.dse.npu.pareto import Axis
from fluidb.dse.npu.resources import Supply
from fluidb.dse.npu.search import RankedDesign, SearchResult
from fluidb.dse.npu.space import DesignSpace, designs
from fluidb.dse.npu.tiles import stacked, tiles_of, with_rows
from fluidb.dse.npu.workload import distinct, products_of
from fluidb.models import load_network
from fluidb.platforms import load_platform
from hypothesis import example, given, settings
from hypothesis import strategies as st

gemms = st.tuples(st.integers(1, 30), st.integers(1, 40), st.integers(1, 20), st.integers(1, 3))
engines = st.tuples(st.integers(8, 60), st.integers(1, 6), st.integers(1, 12), st.sampled_from([1, 1, 2, 4, 8]))
ports = st.builds(
    Port, st.sampled_from([1.0, 2.0, 4.0, 7.0, 16.0]), st.integers(1, 8).map(float), st.just(8.0),
    st.integers(0, 50).map(float), st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.0, 1.0, 30.0]),
)  # fmt: skip


@st.composite
def layouts(draw):
    """(b, B_R, B_P, runs), with samples one by one among them."""
    b = draw(st.integers(1, 8))
    if draw(st.integers(0, 5)) == 0:
        return b, 1, 1, b
    B_R = draw(st.integers(1, b))
    return b, B_R, -(-b // B_R), 1


@st.composite
def products(draw):
    """A product, its line and stride, of whole lines, none or rows in order, and whether its store adds a map."""
    R, *rest = draw(gemms)
    line, stride = draw(st.sampled_from([0, 0, *(n for n in range(1, R + 1) if R % n == 0)])), draw(st.integers(1, 5))
    source = draw(st.sampled_from([(line, stride if line else 1)] * 4 + [(1, 0)]))
    return (R, *rest), source, draw(st.booleans())


def ran(gemm, tile, layout, blocks, port, drain=15.0, source=(0, 1), adds=False):
    """Cycles, those that compute, of beats, of lines, first load, last store, words, of weights, blocks, their rows."""
    columns = (gemm, float), ((*source, 0, 1, 1), float), (tile, float), (layout, int)
    gemms, sources, tiles, layouts = (np.array([values], dtype=kind) for values, kind in columns)
    layers = schedule.LayerSizes(gemms, sources, np.ones(1), np.array([float(adds)]))
    engine = schedule.EngineTimes(port, drain, 0, 1.0)
    return layer_choice.run_layers(layers, tiles, layouts, np.array([blocks]), engine, layer_choice.AS_BUILT)[0]


def seconds_of(gemm, tile, layout, rows, port, source, adds):
    """Shares of the beats of loads, and of stores, that cost two of an aligned bus."""
    if not port.aligned:
        return 0, 0
    layer = schedule.LayerSizes(tuple(map(float, gemm)), (*map(float, source), 0.0, 1.0, 1.0), 1.0, float(adds))
    of = tuple(map(float, tile)), layout, float(rows), port.words
    of_blocks, share, beats = beats_of_layer(layer.gemm, layer.source, *of, 1.0)
    return seconds_of_layer(layer, *of, of_blocks, share, beats)


def samples_of_a_tile(gemm, tile, layout):
    """The most that a tile of columns touches."""
    columns = layout[2] * gemm[2]
    starts = range(0, columns, tile[2])
    return max(len({place // gemm[2] for place in range(at, min(at + tile[2], columns))}) for at in starts)


@given(products(), engines, layouts(), st.sampled_from([1, 2, 3, 4, 6, 8]), ports, st.integers(1, 20))
@settings(max_examples=80)
@example(((12, 1, 1, 3), (0, 1), False), (20, 1, 3, 1), (2, 2, 1, 1), 6, Port(2.0, 8.0, 8.0, 0.0), 1)
@example(((30, 40, 7, 1), (0, 1), True), (60, 2, 3, 2), (3, 1, 3, 1), 1, Port(1.0, 1.0, 8.0, 50.0, 1.0, 30.0), 20)
@example(((30, 4, 9, 1), (0, 1), True), (240, 2, 9, 1), (8, 8, 1, 1), 1, Port(1.0, 8.0, 8.0, 70.0, 1.0, 9.0), 20)
@example(((1, 20, 7, 1), (1, 2), False), (16, 4, 3, 1), (2, 2, 1, 1), 1, Port(4.0, 8.0, 8.0, 5.0), 2)
@example(
    ((4, 5, 3, 1), (0, 1), False), (8, 5, 3, 1), (3, 2, 2, 1), 2, Port(2.0, 8.0, 8.0, 5.0, 1.0, 30.0), 15
)  # a pass stores none
@example(((4, 5, 7, 1), (0, 1), False), (8, 5, 4, 1), (6, 1, 6, 1), 1, Port(4.0, 8.0, 8.0, 5.0), 1)  # two samples
def test_cycles_and_words_equal_the_walk(product, tile, layout, blocks, port, drain):
    gemm, source, adds = product
    found = ran(gemm, tile, layout, blocks, port, float(drain), source, adds)
    cycles, busy, beats, lines, first, last, words, _, divided, rows = found
    shares = seconds_of(gemm, tile, layout, rows, port, source, adds)
    assert lines == beats if not any(shares) else lines >= beats
    line, rows = source[0], int(rows)
    down = layout[1] * gemm[0]
    assert rows == naive_engine.rows_of_block(down, line, tile[3], blocks)
    assert cycles == naive_engine.run(gemm, tile, layout, rows, port, drain, source, adds, shares)
    assert words == naive_engine.words_of(gemm, tile, layout, rows, adds)
    assert divided == -(-layout[1] * gemm[0] // rows)
    assert max(busy + first + last, lines) <= cycles


def test_no_layer_of_a_network_takes_less_than_the_least_bound_of_its_layouts():
    tiles = [(1024, 7, 128, 1), (2016, 14, 64, 2), (512, 30, 20, 1), (256, 3, 250, 4), (96, 64, 13, 1)]
    evaluator = Evaluator(load_network("resnet50"), load_platform("zc706"), SearchOptions())
    for tile in tiles:
        least, found = (evaluator.account(Tile(*tile).array, bound=bound)[1].cycles for bound in (True, False))
        assert np.all(least <= found)
        assert np.all(least >= 0.5 * found)


@given(products(), engines, layouts(), st.sampled_from([1, 2, 3, 4, 6, 8]), ports)
@example(
    ((14, 14, 18, 1), (0, 1), False), (60, 1, 5, 1), (7, 6, 2, 1), 4, Port(4.0, 8.0, 8.0, 0.0)
)  # the last pass has no samples
def test_a_bound_is_never_above_the_cycles(product, tile, layout, blocks, port):
    gemm, source, adds = product
    of = tuple(map(float, gemm)), tuple(map(float, tile)), layout
    shape, rate = kernels.shape_of(*of), port.words * port.ready / port.cycles
    cycles, *_, blocks, rows = ran(gemm, tile, layout, blocks, port, source=source, adds=adds)
    down = layout[1] * gemm[0]
    for first, last in ((rows, down - (blocks - 1) * rows), (1, 0)):
        layer, engine = (
            schedule.LayerSizes(of[0], (*source, 0, 1, 1), 1.0, float(adds)),
            schedule.EngineTimes(port, 15.0, 0, rate),
        )
        seconds = layer_choice.seconds_at_least(layer, port)
        least = layer_choice.least_cycles(layer, *of[1:], shape, blocks, (first, last), engine, seconds)
        assert max(least) <= cycles
    ideal = layer_choice.ideal_cycles(layer, *of[1:], shape, blocks, engine)
    assert ideal <= cycles


def board_with(gb_s, turn=0.0):
    return board_of(4, 400, gb_s).model_copy(update={"port_turn_cycles": turn})


def evaluator(gemms, b_max, gb_s=1.0, turn=0.0, **options):
    board = board_with(gb_s, turn).with_pixels([1, 2, 4, 8])
    return Evaluator(network_of(gemms), board, SearchOptions(b_max=b_max, **options))


@example(
    ((1, 4, 18, 1), (1, 3), False), (37, 4, 5, 4), (0, 0, 0), 4, 1.0, Batching.FLUID
)  # a beat has outputs of a row
@example(((1, 40, 4, 1), (0, 1), False), (28, 4, 11, 1), (0, 0, 0), 4, 1.0, Batching.FC)  # and inputs along P
@example(
    ((5, 20, 14, 1), (5, 4), True), (50, 2, 1, 1), (9, 1, 3), 1, 0.4, Batching.FLUID
)  # beats take most of the time
@given(
    products(), engines, st.tuples(st.integers(0, 60), st.integers(0, 6), st.integers(0, 12)), st.integers(1, 4),
    st.sampled_from([0.1, 0.4, 1.0, 5.0]), st.sampled_from(list(Batching)),
)  # fmt: skip
@settings(max_examples=60)
def test_no_design_costs_less_than_its_bound_nor_than_a_larger_one_s(product, tile, more, b, gb_s, batching):
    gemm, source, adds = product
    of = evaluator([(*gemm, False, *source, adds)], b, gb_s, batching=batching)
    tiles = np.array([(*tile, 0), (*np.add(tile[:3], more), tile[3], 0)]).T
    (least, of_larger), cycles = of.least_cost(tiles, traffic=False).cycles, of.account(tiles[:, :1])[0][0].sum(axis=1)
    assert np.all(of_larger <= least)
    assert np.all(least < cycles)


def side_by_side(board, V):
    """The most samples in a tile of columns whose same row lies in banks of its own."""
    return max(int(port_for(board).words) // V, 1) if V > 1 else 99


@example(((2, 1, 1, 1), (1, 1), False), (8, 1, 1, 2), 4, 0.3, 0.0)  # a larger B_R with equal B_P takes a cycle less
@given(products(), engines, st.integers(1, 4), st.sampled_from([0.3, 1.0, 5.0]), st.sampled_from([0.0, 30.0]))
@settings(max_examples=10)
def test_the_chosen_layout_equals_brute_force(product, tile, b, gb_s, turn):
    gemm, source, adds = product
    of = evaluator([(*gemm, False, *source, adds)], b, gb_s, turn)
    port, drain = port_for(board_with(gb_s, turn)), naive_engine.drain_of(tile[1])
    tiles = [tuple(row) for row in stacked(Tile(*tile).array)[..., 0].T.astype(int).tolist()]
    rows = [(b, B_R, *arrange(Batching.FLUID, b, B_R, LayerKind.SHARED)) for B_R in range(1, b + 1)]
    most = side_by_side(board_with(gb_s), tile[3])
    seconds = partial(seconds_of, gemm, port=port, source=source, adds=adds)
    cycles, words, code, B_R, minus_rows = naive_engine.best(
        gemm, tiles, rows, port, drain, source, most, adds, seconds
    )
    choice = of.choose(Tile(*tile))
    found = [getattr(choice, name)[0, -1] for name in ("cycles", "words", "codes", "B_R")]
    assert found == [cycles, words, code, B_R]
    chosen = stacked(Tile(*tile).array)[:, code, 0]
    blocks = int(choice.blocks[0, -1])
    assert ran(gemm, chosen, rows[B_R - 1], blocks, port, drain, source)[9] == -minus_rows


def test_a_memory_only_layer_is_no_faster_than_the_port():
    """The port of U50 has 64 words at most, and its memory brings 767 a cycle."""
    board, network = load_platform("u50"), load_network("vit_b_16")
    assert board.words_per_cycle > board.usual_port_words
    for overlap, rate in (("tiles", board.usual_port_words), ("ideal", board.words_per_cycle)):
        tile = Tile(512, 7, 64)
        options = SearchOptions(b_max=2, overlap=overlap, tile=tile)
        found = search(network, board, options)
        design, fbcb = tabulate_design(network, board, options, found)
        costs = layer_costs(design, fbcb)
        alone = [layer.gemm is None for layer in network.layers]
        assert costs.time_s[alone] * board.clock_hz == pytest.approx(costs.words[alone] / rate)
        cycles = Evaluator(network, board, options).account(tile.array)[0][0]
        assert cycles[0].sum(axis=0) / board.clock_hz == pytest.approx(costs.time_s.sum(axis=0), rel=1e-9)


ENERGIES = {"mac_pj": 1.0, "on_chip_pj_per_word": 2.0, "off_chip_pj_per_word": 50.0}


def without_logic(board):
    """A board on which samples side by side are not limited."""
    return load_platform(board).model_copy(update=WITHOUT_LOGIC)


NETWORKS = [
    ("resnet50", "zc706", (4652, 7, 128)),
    ("inception_v3", "zcu104", (6186, 9, 192)),
    ("mobilenet_v2", "zcu104", (6186, 9, 192)),
    ("alexnet", "zc706", (2742, 4, 225)),
]


@pytest.mark.parametrize(("network", "board", "tile"), NETWORKS)
def test_layouts_of_networks_equal_brute_force_without_a_bound(network, board, tile):
    """b of 1, 2, 5, 8, every B_R: what bounds and the smallest B_R of each B_P leave out is never better."""
    network, board = load_network(network), without_logic(board)
    batches = [1, 2, 5, 8]
    choice = Evaluator(network, board, SearchOptions(b_max=8)).choose(Tile(*tile))
    work, rows = distinct(network, pooled=True)
    tiles = stacked(Tile(*tile).array)[..., 0]
    least = np.full((len(work.gemms), 8), np.inf)
    drain = float(schedule.drain_cycles(tile[1]))
    cases = []
    for u, (gemm, kind) in enumerate(zip(work.gemms, work.kinds, strict=True)):
        for b in batches:
            for code in np.flatnonzero(tiles.min(axis=0) >= 1):
                for B_R in range(b if kind == LayerKind.POOL else 1, b + 1):
                    layout = b, B_R, *arrange(Batching.FLUID, b, B_R, LayerKind(kind))
                    of = tuple(gemm), tuple(tiles[:, code]), layout
                    down = layout[1] * gemm[0]
                    room = max(of[1][0] // kernels.shape_of(*of)[0], 1)
                    high = {
                        n: naive_engine.rows_of_block(int(down), int(work.sources[u][0]), 1, n)
                        for n in naive_engine.SERIES
                    }
                    blocks = [n for n, each in high.items() if each <= room and (each > 1 or n <= down)]
                    sizes = gemm, work.sources[u], work.adds[u]
                    cases += [(u, b, *sizes, tiles[:, code], layout, n) for n in blocks]
    columns = list(zip(*cases, strict=True))
    gemms, sources, adds, *of_design = (np.array(column) for column in columns[2:])
    layers, engine = (
        schedule.LayerSizes(gemms, sources, np.ones(len(cases)), adds),
        schedule.EngineTimes(port_for(board), drain, 0, 1.0),
    )
    found = layer_choice.run_layers(layers, *of_design, engine, layer_choice.AS_BUILT)
    np.minimum.at(least, (np.array(columns[0]), np.array(columns[1]) - 1), found[:, 0])
    at = np.array(batches) - 1
    assert np.array_equal(choice.cycles[:, at], least[rows][:, at])


@given(
    st.lists(gemms, min_size=1, max_size=2), st.integers(10, 40), st.integers(20, 60), st.sampled_from([0.3, 1.0, 5.0]),
    st.integers(1, 3), st.sampled_from(["gop_s", "latency", "energy"]), st.sampled_from(list(Overlap)),
    st.sampled_from([[1], [1, 2, 4], [2, 8]]),
)  # fmt: skip
@settings(max_examples=60)
def test_a_search_by_bound_ranks_as_the_exhaustive_one(gemms, dsps, kibit, gb_s, b_max, objective, overlap, pixels):
    board = board_of(dsps, kibit, gb_s).model_copy(update={**ENERGIES, "pixels": pixels})
    options = SearchOptions(b_max=b_max, objective=objective, overlap=overlap)
    network, tiles = network_of(gemms, 100), designs(Supply.of(board, placed=options.placed))
    assert set(tiles[3]) == {1} if overlap is Overlap.PAPER else set(tiles[3]) <= set(pixels)
    assert search(network, board, options).ranking == ranked(network, board, options, tiles, 5)


def every_design(board, V):
    """All designs with V pixels, one by one: the largest even T_R whose doubled buffers fit."""
    words, macs = board.on_chip_bits // (2 * board.word_bits), board.dsps // V
    pairs = [(T_P, T_C) for T_P in range(1, macs + 1) for T_C in range(1, macs // T_P + 1)]
    rows = [(words - T_P * T_C) // (T_P + T_C) // 2 * 2 for T_P, T_C in pairs]
    ports = [0, *board.other_ports]
    return {(T_R, *pair, V, W) for T_R, pair in zip(rows, pairs, strict=True) if T_R > 0 for W in ports}


@given(st.integers(1, 40), st.integers(4, 80), st.sampled_from([[1], [1, 4], [2, 8]]))
def test_a_space_has_every_design_of_the_pixels_that_a_board_allows(dsps, kibit, pixels):
    board = board_of(dsps, kibit).model_copy(update={"pixels": pixels})
    expected = set.union(*(every_design(board, V) for V in pixels))
    if not expected:
        return
    found = tiles_of(designs(Supply.of(board)))
    assert sorted(found) == sorted(expected)
    space = DesignSpace(Supply.of(board))
    assert sorted(tiles_of(space.within(space.boxes()))) == sorted(found)
    assert space.size == len(found)


@pytest.mark.parametrize("pixels", [[1], [1, 2, 8]])
def test_a_front_by_bound_is_that_of_all_designs(pixels):
    network = network_of([(30, 40, 20, 1), (9, 30, 17, 2)], 50)
    board = board_of(30, 300, 1.0).model_copy(update={"pixels": pixels})
    options = SearchOptions(b_max=3)
    for axes in ([Axis.DSP], [Axis.DSP, Axis.LATENCY]):
        front = find_front(network, board, options, axes)
        of, tiles = Evaluator(network, board, options), designs(Supply.of(board))
        rate = of.rate(tiles, [Objective.GOP_S, Objective.LATENCY])
        rows = np.column_stack(
            [tiles[1] * tiles[2] * tiles[3], rate[:, 1] if len(axes) > 1 else 0 * rate[:, 1], -rate[:, 0]]
        )
        kept = {
            tuple(row)
            for row in rows.tolist()
            if not any((other <= row).all() and (other < row).any() for other in rows)
        }
        points = {(p.takes[0], p.takes[1] if len(axes) > 1 else 0.0, -p.objective) for p in front.points}
        assert points == kept
        assert front.designs_evaluated < tiles.shape[1]


@given(
    any_gemm, st.integers(1, 5), st.sampled_from([0.05, 0.4, 12.8]), st.sampled_from(["tiles", "ideal"]),
    st.sampled_from([1, 1, 2, 4]),
)  # fmt: skip
@settings(max_examples=60)
def test_causes_sum_to_the_time(gemm, b_max, gb_s, overlap, V):
    options = SearchOptions(b_max=b_max, overlap=overlap)
    result = SearchResult([RankedDesign.of(Tile(64, 3, 7, V), 1.0)], 1)
    design, fbcb = tabulate_design(network_of([gemm]), load_platform(POCKET, gb_s), options, result)
    costs = layer_costs(design, fbcb)
    assert sum(costs.parts_s.values()) == pytest.approx(costs.time_s, rel=1e-9)
    assert all((part >= 0).all() for part in costs.parts_s.values())
    chosen = Evaluator(design.network, design.platform, options).choose(design.tile)
    assert costs.time_s * design.platform.clock_hz == pytest.approx(chosen.cycles, rel=1e-12)
    assert costs.words.tolist() == chosen.words.tolist()
    macs = costs.parts_s[Cause.COMPUTE][0] * design.peak_macs_per_s
    assert macs == pytest.approx(np.arange(1, b_max + 1) * np.prod(gemm), rel=1e-9)


CAUSES = {
    Cause.FIRST_LOAD: ((1, 1, 1, 1), 0.4),  # one product, for which all waits
    Cause.LAST_STORE: ((9, 1, 7, 1), 0.4),
    Cause.PARTIAL_BEATS: ((2, 1, 14, 40), 12.8),  # 2 of the words of a beat
    Cause.BUFFERS: ((1, 200, 6, 1), 1.6),  # each tile takes less than the latency of the next
    Cause.SHORT_BLOCKS: ((1, 2, 8, 40), 1.6),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_layer_made_for_a_cause_shows_it(cause):
    gemm, gb_s = CAUSES[cause]
    result = SearchResult([RankedDesign.of(Tile(64, 3, 7), 1.0)], 1)
    design, fbcb = tabulate_design(network_of([gemm]), load_platform(POCKET, gb_s), SearchOptions(b_max=1), result)
    costs = layer_costs(design, fbcb)
    assert costs.parts_s[cause][0, 0] > 0.08 * costs.time_s[0, 0]


@pytest.mark.parametrize(
    ("network", "board", "tile", "longer", "by_line"),
    [
        ("resnet50", "zc706", (1024, 7, 128), (28.6, 25.5, 18.6), 81.8),
        ("resnet50", "zcu104", (1024, 13, 128), (46.1, 50.7, 41.5), 87.2),
        ("inception_v3", "zcu104", (1024, 18, 96), (77.1, 80.5, 75.9), 94.8),
        ("mobilenet_v2", "zcu104", (1984, 10, 80), (12.1, 32.7, 29.3), 78.6),
    ],
)
def test_how_much_longer_than_the_ideal(network, board, tile, longer, by_line):
    """Per cent at b = 1, 2 and 8, as in docs/model.md; and how much of it, at b = 8, layers loaded by line take."""
    network, board = load_network(network), load_platform(board)
    result = SearchResult([RankedDesign.of(Tile(*tile), 1.0)], 1)
    design, _ = tabulate_design(network, board, SearchOptions(), result)
    found = 100 * (np.array(design.ideal_gop_s) / design.gop_s - 1)
    assert found[[0, 1, 7]] == pytest.approx(longer, abs=0.051)
    built, ideal = (
        Evaluator(network, board, SearchOptions(overlap=overlap)).choose(design.tile).cycles[:, 7]
        for overlap in ("tiles", "ideal")
    )
    longer_by = built[[layer.gemm is not None for layer in products_of(network, pooled=True)]] - ideal
    in_lines = np.array([layer.line > 0 for layer in network.layers if layer.gemm])
    assert 100 * longer_by[in_lines].sum() / longer_by.sum() == pytest.approx(by_line, abs=0.051)


@pytest.mark.parametrize(("network", "T_P", "T_C"), [("resnet50", 7, 128), ("mobilenet_v2", 14, 64)])
def test_more_rows_are_never_slower(network, T_P, T_C):
    """As docs/model.md says of the grid that it names."""
    tiles = with_rows(Tile(2, T_P, T_C).array, np.arange(128, 2049, 128))
    rate = Evaluator(load_network(network), without_logic("zc706"), SearchOptions()).rate(tiles, [Objective.GOP_S])
    assert (np.diff(rate[:, 0]) >= 0).all()


def test_the_control_block_says_the_blocks(fluidb, tiny_design):
    design, fbcb = read_design(tiny_design)
    codes, blocks, B_R = fbcb.unpack()
    again = encode([row.layer for row in fbcb.rows], codes, blocks, B_R)
    assert again.rows == fbcb.rows
    found = explain(design, fbcb)
    record = json.loads(fluidb("explain", tiny_design, "--json").stdout)
    assert [row["block_rows"] is None for row in record["layers"]] == [
        layer.product(pooled=True) is None for layer in found.layers
    ]
    gemms = {index: gemm for index, layer in enumerate(found.layers) if (gemm := layer.product(pooled=True))}
    products, R = list(gemms), np.array([gemm.R for gemm in gemms.values()])[:, None]
    assert found.block_rows is not None
    assert np.array_equal(found.block_rows[products], -(-B_R * R // blocks))
    whole = fluidb("explain", tiny_design, "--layer", found.layers[0].name).stdout
    assert "rows of" in whole


def test_all_transfers_of_an_ideal_overlap(fluidb, tmp_path):
    for overlap in ("ideal", "paper"):
        assert fluidb("dse", "resnet50", "zc706", "--b-max", 1, "--overlap", overlap, "-o", overlap).returncode == 0
        design, fbcb = read_design(tmp_path / overlap)
        assert fbcb.block_bits == 0
        assert design.ideal_gop_s is None
        found = explain(design, fbcb)
        assert found.block_rows is None
        assert not any(found.parts_s[cause].any() for cause in (Cause.FIRST_LOAD, Cause.LAST_STORE, Cause.BUFFERS))
    fault = fluidb("dse", "resnet50", "zc706", "--overlap", "perfect")
    assert (fault.returncode, len(fault.stderr.splitlines())) == (2, 1)


def test_a_port_carries_its_board_s_bandwidth():
    for gb_s in (0.01, 0.4, 4.267, 9.6, 100.0):
        board = load_platform("zc706", gb_s)
        port = port_for(board)
        wanted = min(board.words_per_cycle, 64)  # no engine has a wider one, unless its board states it
        assert port.words >= wanted
        carried = port.words * port.ready / port.cycles
        assert wanted * (1 - 2**-15) < carried <= wanted
    assert load_platform("zc706", 0.4).model_copy(update={"port_words": 64}).usual_port_words == 64
    assert load_platform("zc706", 40.0).model_copy(update={"port_words": 4}).usual_port_words == 64
    assert load_platform("zc706", 40.0).model_copy(update={"port_words": 256}).usual_port_words == 256
