"""Time tile by tile, against an engine that is run step by step."""

from __future__ import annotations

import json

import naive_passes
import numpy as np
import pytest
from builders import POCKET, TINY, batches
from fluidb.dse import Batching, SearchOptions, Tile, explain, read_design, tabulate_design
from fluidb.dse.npu import kernels
from fluidb.dse.npu.design import write_design
from fluidb.dse.npu.fbcb import encode
from fluidb.dse.npu.passes import pass_time, tile_by_tile
from fluidb.dse.npu.search import RankedDesign, SearchResult
from fluidb.dse.npu.space import stacked
from fluidb.models import load_network
from fluidb.platforms import load_platform
from hypothesis import given
from hypothesis import strategies as st

ONE = 1, 1, 1, 1  # (b, B_R, B_P, runs) of one sample

gemms = st.tuples(st.integers(1, 30), st.integers(1, 60), st.integers(1, 20), st.integers(1, 2))
engines = st.tuples(st.integers(2, 40), st.integers(1, 6), st.integers(1, 12))
rates = st.sampled_from([0.7, 2, 5.5, 20])


def grid(b, B_R):
    return b, B_R, -(-b // B_R), 1


@given(gemms, engines, batches, rates, st.data())
def test_no_engine_that_runs_tile_by_tile_is_faster(gemm, tile, b, rate, data):
    layout = grid(b, data.draw(st.integers(1, b)))
    found = pass_time(gemm, tile, layout, rate)
    run = naive_passes.run(gemm, tile, layout, found.rows, rate)
    assert found.cycles * (1 - 1e-9) <= run <= 4 / 3 * found.cycles


@given(gemms, engines, batches, st.data())
def test_a_slow_memory_moves_every_word_once(gemm, tile, b, data):
    layout = grid(b, data.draw(st.integers(1, b)))
    found = pass_time(gemm, tile, layout, 0.01)
    words = sum(loaded + (stored or 0) for loaded, _, stored in naive_passes.tiles_of(gemm, tile, layout, found.rows))
    assert found.cycles == pytest.approx(words / 0.01, rel=0.01)


@given(gemms, engines, batches, rates, st.data())
def test_never_faster_than_the_ideal(gemm, tile, b, rate, data):
    layout = grid(b, data.draw(st.integers(1, b)))
    ideal, _ = kernels.gemm_cost(gemm, tile, layout, rate, False)
    assert pass_time(gemm, tile, layout, rate).cycles >= ideal * (1 - 1e-9)


@pytest.mark.parametrize(
    ("gemm", "tile", "layout", "rate", "cycles"),
    [
        # 4 x 6 words in, 6 x 3 weights: 42 / 2 cycles; two tiles along P of 4 rows, of which the second loads
        # while the first computes; 12 words out
        ((4, 6, 3, 1), (8, 3, 3), ONE, 2, 10.5 + 10.5 + 4 + 6),
        # nothing but loads and stores count if the rows are few; 13 tiles along P
        ((1, 39, 3, 1), (8, 3, 3), ONE, 1, 39 + 39 * 3 + 1 + 3),
        # groups follow one another: the second loads while the first computes, and the first is stored with the second
        ((64, 1, 1, 2), (64, 1, 1), ONE, 4, 65 / 4 + 64 + 64 + 16),
    ],
)
def test_times_counted_by_hand(gemm, tile, layout, rate, cycles):
    run = naive_passes.run(gemm, tile, layout, layout[1] * gemm[0], rate)
    assert run == pytest.approx(cycles)
    assert pass_time(gemm, tile, layout, rate).cycles <= run


def test_rows_of_a_block_are_those_of_the_least_time():
    gemm, tile, layout = (3136, 64, 64, 1), (4652, 7, 128), ONE
    found = pass_time(gemm, tile, layout, 14.2)
    runs = {rows: naive_passes.run(gemm, tile, layout, rows, 14.2) for rows in (3136, 1568, 784, 392, 196, 98)}
    assert min(runs, key=runs.__getitem__) == found.rows < 784
    assert runs[3136] > 1.3 * found.cycles


def tables(network, board, tile, **options):
    return tabulate_design(network, board, SearchOptions(**options), SearchResult([RankedDesign.of(tile, 1.0)], 1))


@pytest.mark.parametrize(
    ("network", "board", "tile", "longer", "side_by_side"),
    [
        ("resnet50", "zc706", (4652, 7, 128), (1.5, 1.4, 0.8), 44),
        ("resnet50", "zcu104", (6832, 10, 172), (2.2, 10.1, 4.3), 49),
        ("inception_v3", "zcu104", (6186, 9, 192), (2.0, 2.2, 2.1), 20),
        ("inception_v3", "zc706", (2742, 4, 225), (1.0, 4.0, 23.2), 29),
    ],
)
def test_tile_by_tile_against_the_ideal(network, board, tile, longer, side_by_side):
    """Per cent, as in docs/model.md; the last figure is that of all samples side by side."""
    design, fbcb = tables(load_network(network), load_platform(board), Tile(*tile))
    codes, B_R = fbcb.unpack()
    side = encode([row.layer for row in fbcb.rows], codes, np.ones_like(B_R)).derived_from(design)
    found = []
    for entries in fbcb, side:
        run = explain(design, entries)
        assert run.by_tiles_s is not None
        found.append(100 * (run.by_tiles_s.sum(axis=0) / run.time_s.sum(axis=0) - 1))
    assert found[0][[0, 1, 7]] == pytest.approx(longer, abs=0.051)
    assert found[1][7] == pytest.approx(side_by_side, abs=0.5)


@pytest.mark.parametrize("index", [0, 4, 20, 53])
def test_layers_of_the_paper_s_design_equal_the_run(index):
    network, board = load_network("resnet50"), load_platform("zc706")
    design, fbcb = tables(network, board, Tile(4652, 7, 128), b_max=2)
    run = tile_by_tile(design, fbcb)
    assert run is not None
    codes, B_R = fbcb.unpack()
    code, down = int(codes[index, 1]), int(B_R[index, 1])
    tile = tuple(stacked(np.array([design.tile]))[:, code, 0].astype(int).tolist())
    rows = int(run.block_rows[index, 1])
    cycles = naive_passes.run(network.gemms[index], tile, grid(2, down), rows, board.words_per_cycle)
    assert run.time_s[index, 1] * board.clock_hz == pytest.approx(cycles, rel=0.005)


def test_the_command_and_python_have_the_same_times(fluidb, tiny_design):
    found = explain(*read_design(tiny_design))
    assert found.by_tiles_s is not None
    record = json.loads(fluidb("explain", tiny_design, "--json").stdout)
    assert record["by_tiles_s"] == pytest.approx(found.by_tiles_s.sum(axis=0).tolist(), rel=1e-6)
    assert [row["block_rows"] is None for row in record["layers"]] == [layer.gemm is None for layer in found.layers]
    printed = fluidb("explain", tiny_design).stdout
    assert f"{1e3 * found.by_tiles_s[:, -1].sum():,.3f}" in printed
    whole = fluidb("explain", tiny_design, "--layer", found.layers[0].name).stdout
    assert f"{1e3 * found.by_tiles_s[0, -1]:,.3f}" in whole


def test_equation_1_as_printed_has_no_such_time(fluidb, tmp_path):
    design, fbcb = tables(load_network(TINY), load_platform(POCKET), Tile(64, 4, 8), batching=Batching.EQ1)
    found = explain(design, fbcb)
    assert found.by_tiles_s is None
    assert set(found.columns()["by_tiles_s"]) == {""}
    write_design(tmp_path / "eq1", design, fbcb)
    for options in (), ("--layer", found.layers[0].name):
        assert "tile" not in fluidb("explain", "eq1", *options).stdout
    assert json.loads(fluidb("explain", "eq1", "--json").stdout)["by_tiles_s"] is None
