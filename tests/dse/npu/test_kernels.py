"""The compiled cost model against plain loops, and the laws it must keep."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from builders import (
    any_gemm,
    batches,
    board_of,
    huge_gemms,
    layer_of,
    modes,
    network_of,
    paper_options,
    tiles,
    words_per_cycle,
)
from fluidb.dse import Batching
from fluidb.dse.npu import kernels
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.fbcb import K_NAMES
from fluidb.dse.npu.layouts import LayerKind, arrange, layouts_of
from fluidb.dse.npu.resources import Supply
from fluidb.dse.npu.space import designs
from fluidb.dse.npu.tiles import Tile, stacked
from fluidb.dse.npu.workload import distinct
from fluidb.platforms import Board
from hypothesis import given, settings
from hypothesis import strategies as st


def cost(gemm, tile, code, b, B_R, rate, mode):
    shape = stacked(Tile(*tile).array)[:, code, 0]
    if not shape.all():
        return None
    layout = b, B_R, *arrange(Batching(mode), b, B_R, LayerKind.of(layer_of(gemm)))
    return kernels.gemm_cost(tuple(map(float, gemm)), shape, layout, rate, mode == "eq1")


def evaluator(network, b_max, rate, mode, *, stacking=True):
    """What evaluates designs on a board that moves ``rate`` words a cycle."""
    board = Board(
        name="b", title="b", dsps=1, on_chip_mbit=1.0, clock_mhz=1.0, bandwidth_gb_s=2e-3 * rate, word_bits=16,
        mac_pj=1.0, on_chip_pj_per_word=1.0, off_chip_pj_per_word=1.0,
    )  # fmt: skip
    return Evaluator(network, board, paper_options(batching=mode, stacking=stacking, b_max=b_max))


@given(any_gemm, tiles, st.integers(0, 2), batches, words_per_cycle, modes, st.data())
def test_cost_of_a_layer_equals_plain_loops(gemm, tile, code, b, rate, mode, data):
    B_R = data.draw(st.sampled_from(naive.choices(mode, b, gemm[0])))
    assert cost(gemm, tile, code, b, B_R, rate, mode) == naive.layer_cost(gemm, tile, K_NAMES[code], b, B_R, rate, mode)


@given(any_gemm, tiles, st.integers(0, 2), batches, modes, st.data())
def test_words_tile_by_tile_equal_a_walk_over_the_tiles(gemm, tile, code, b, mode, data):
    mode = "fluid" if mode == "eq1" else mode
    B_R = data.draw(st.sampled_from(naive.choices(mode, b, gemm[0])))
    shape = stacked(Tile(*tile).array)[:, code]
    layout = b, B_R, *arrange(Batching(mode), b, B_R, LayerKind.of(layer_of(gemm)))
    if shape.all():
        found = kernels.count_tile_words(np.array(gemm, dtype=float), shape, np.array([layout]), 1.0)
        assert found == naive.words_by_tiles(gemm, tile, K_NAMES[code], b, B_R, mode)


@given(huge_gemms, tiles, st.integers(0, 2), st.integers(1, 256), st.floats(1e-3, 1e4), modes)
def test_cost_of_the_largest_layers_equals_plain_loops(gemm, tile, code, b, rate, mode):
    """Up to the bound that networks keep, where a product of int64 would have wrapped."""
    B_R = naive.choices(mode, b, gemm[0])[-1]
    found = cost(gemm, tile, code, b, B_R, rate, mode)
    expected = naive.layer_cost(gemm, tile, K_NAMES[code], b, B_R, rate, mode)
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-12))


@given(any_gemm, tiles, batches, words_per_cycle, modes, st.booleans())
def test_chosen_layout_equals_plain_loops(gemm, tile, b_max, rate, mode, stacking):
    code, B_R, _, cycles, words, _ = evaluator(network_of([gemm]), b_max, rate, mode, stacking=stacking).choose(tile)
    for i in range(b_max):
        expected = naive.best(gemm, tile, i + 1, rate, mode, stacking)
        assert (cycles[0, i], words[0, i], K_NAMES[code[0, i]], B_R[0, i]) == expected


def test_a_choice_reads_no_memory_that_was_not_written(monkeypatch):
    """As plain Python: numpy warns of a subtraction from a signalling NaN, which compiled code does not."""
    gemm, tile = (40, 25, 57, 2), Tile(14, 4, 30)
    chooses = evaluator(network_of([gemm]), 7, 8.0, "column")
    signalling = 0x7FF0_0000_0000_0001
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float: np.full(shape, signalling, np.int64).view(dtype))
    assert chooses.choose(tile).cycles[0, 0] == naive.best(gemm, tile, 1, 8.0, "column", True)[0]


def stage_cycles(network, memory_words, tile, b_max, rate, mode, *, stacking=True):
    found, tiles = evaluator(network, b_max, rate, mode, stacking=stacking), Tile(*tile).array
    found.work = distinct(network, pooled=False)[0]._replace(memory_words=np.array(memory_words, dtype=np.float64))
    cycles = found.account(tiles)[0][0]
    if not found.layouts.literal:
        assert found.cycles(tiles).tolist() == cycles.tolist()
    return cycles[0]


@given(st.lists(any_gemm, min_size=3, max_size=6), tiles, st.integers(1, 6), words_per_cycle, modes, st.booleans())
@settings(max_examples=25)
def test_cycles_of_each_stage_equal_plain_loops(gemms, tile, b_max, rate, mode, stacking):
    gemms = [*gemms, gemms[0]]  # a repeated layer is evaluated once and counted twice
    network = network_of(gemms, stages=[1, 2] + [3] * (len(gemms) - 2))
    found = stage_cycles(network, [0, 100, 0], tile, b_max, rate, mode, stacking=stacking)
    for stage, words, part in ((0, 0, gemms[:1]), (1, 100, gemms[1:2]), (2, 0, gemms[2:])):
        expected = [naive.network_cycles(part, words, tile, b, rate, mode, stacking) for b in range(1, b_max + 1)]
        assert found[stage].tolist() == expected


@given(st.lists(tiles, min_size=1, max_size=9), any_gemm, st.booleans(), words_per_cycle)
@settings(max_examples=30)
def test_a_design_costs_the_same_wherever_it_stands_in_a_block(several, gemm, per_sample, rate):
    """Blocks are vectors, and the last one is filled up."""
    of = evaluator(network_of([(*gemm, per_sample)], 5), 4, rate, "fluid")
    tiles = np.array(several * (1 + kernels.BLOCK // len(several))).T
    found = of.cycles(tiles)
    for tile, cycles in zip(several, found, strict=False):
        assert cycles.tolist() == of.cycles(Tile(*tile).array)[0].tolist()
    assert np.array_equal(found[len(several) : 2 * len(several)], found[: len(found) - len(several)][: len(several)])


@given(any_gemm, tiles, st.integers(1, 6), words_per_cycle, modes)
def test_the_search_and_the_choice_of_layouts_never_disagree(gemm, tile, b_max, rate, mode):
    cycles = evaluator(network_of([gemm]), b_max, rate, mode).choose(tile).cycles
    assert stage_cycles(network_of([gemm]), [0], tile, b_max, rate, mode).tolist() == cycles.tolist()


@given(any_gemm, tiles, st.integers(1, 6), words_per_cycle, modes)
def test_products_of_two_activations_run_sample_by_sample_in_every_mode(gemm, tile, b_max, rate, mode):
    """Their right operands differ, so a batch saves nothing; Equation (1) as printed keeps its guard elements."""
    per_sample = (*gemm, True)
    _, B_R, _, cycles, words, _ = evaluator(network_of([per_sample]), b_max, rate, mode).choose(tile)
    one = naive.best(gemm, tile, 1, rate, mode, True)
    assert B_R.tolist() == [[1] * b_max]
    assert cycles[0].tolist() == [b * one[0] for b in range(1, b_max + 1)]
    assert words[0].tolist() == [b * one[1] for b in range(1, b_max + 1)]
    assert stage_cycles(network_of([per_sample]), [0], tile, b_max, rate, mode).tolist() == cycles.tolist()


def test_designs_of_several_blocks_take_the_cycles_of_each():
    found = evaluator(network_of([(49, 6, 10, 1), (1, 30, 7, 2)]), 3, 0.7, "fluid")
    tiles = designs(Supply.of(board_of(90), placed=False))
    assert tiles.shape[1] % kernels.BLOCK > 0 < tiles.shape[1] // kernels.BLOCK
    assert found.cycles(tiles).tolist() == found.account(tiles)[0][0].tolist()


@given(any_gemm, tiles, batches, words_per_cycle, st.data())
def test_more_bandwidth_or_a_larger_tile_never_lengthens_a_layer(gemm, tile, b, rate, data):
    B_R = data.draw(st.integers(1, b))
    T_R, T_P, T_C, _, _ = tile
    cycles, _ = cost(gemm, tile, 0, b, B_R, rate, "fluid")
    grown = data.draw(st.tuples(st.integers(T_R, 2 * T_R), st.integers(T_P, 2 * T_P), st.integers(T_C, 2 * T_C)))
    assert cost(gemm, tile, 0, b, B_R, 2 * rate, "fluid")[0] <= cycles
    assert cost(gemm, grown, 0, b, B_R, rate, "fluid")[0] <= cycles


@given(any_gemm, tiles, st.integers(1, 12), words_per_cycle)
def test_a_layout_left_out_is_never_better(gemm, tile, b, rate):
    """The pruning of docs/model.md: of the B_R with the same B_P, the smallest wins."""
    kept = {B_R for batch, B_R, _, _ in layouts_of(Batching.FLUID, b).table.tolist() if batch == b}
    best = min(cost(gemm, tile, 0, b, B_R, rate, "fluid") for B_R in kept)
    assert all(cost(gemm, tile, 0, b, B_R, rate, "fluid") >= best for B_R in set(range(1, b + 1)) - kept)


@given(any_gemm, tiles, batches, words_per_cycle)
def test_row_batching_is_fluid_batching_with_all_samples_down_the_rows(gemm, tile, b, rate):
    assert cost(gemm, tile, 0, b, b, rate, "row") == cost(gemm, tile, 0, b, b, rate, "fluid")


def test_division_is_exact_up_to_two_to_the_52():
    """Rounding up a float quotient equals rounding up the true one (docs/search.md, Arithmetic)."""
    for numerator in (2**52 - 1, 2**52 - 2**20, 3 * 2**49 + 1):
        for divisor in (3, 7, 1000, 12_287):
            expected = -(-numerator // divisor)
            assert kernels.weight_words(float(numerator), 1.0, 1.0, divisor, 1) == expected
