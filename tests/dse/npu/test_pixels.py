"""Designs that work on several output pixels (rows) side by side: V."""

from __future__ import annotations

import json
from typing import Any

import naive_engine
import numpy as np
import pytest
from builders import WITHOUT_LOGIC, board_of, lines, network_of, port_for
from fluidb.dse import SearchOptions, Tile, explain, read_design, search, tabulate_design
from fluidb.dse.npu import schedule
from fluidb.dse.npu.banks import banks_of
from fluidb.dse.npu.board_use import board_use
from fluidb.dse.npu.costs import layer_costs, samples_side_by_side
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.resources import Demand
from fluidb.dse.npu.search import RankedDesign, SearchResult
from fluidb.dse.npu.space import DesignSpace, check_fit, designs
from fluidb.dse.npu.tiles import stacked
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import PLATFORMS, load_platform

ZCU104 = load_platform("zcu104").with_pixels([1, 2, 4, 8])


def test_a_depthwise_layer_is_v_times_as_fast():
    """3,136 rows of one column take 784 steps with four pixels side by side."""
    cycles = []
    for V in (1, 4):
        board = board_of(4 * V, 4000, 100.0).model_copy(update={"pixels": [V], "port_latency_cycles": 0.0})
        layer = network_of([(3136, 9, 1, 8)])
        choice = Evaluator(layer, board, SearchOptions(b_max=1, overlap="ideal")).choose(Tile(2048, 9, 4, V))
        cycles.append(choice.cycles[0, 0])
    assert cycles == [8 * 3136, 8 * 784]


def test_the_time_of_the_chosen_layout_is_the_walk_s():
    """Several samples and rows of several groups, with as many pixels as a beat has words and more."""
    draw = np.random.default_rng(11)
    for _ in range(12):
        gemm = (*(int(draw.integers(1, most)) for most in (40, 30, 9)), int(draw.integers(1, 3)))
        V = int(draw.choice([2, 4, 8, 16]))
        T_R, T_P, T_C = (int(draw.integers(2, most)) for most in (60, 6, 9))
        tile = Tile(T_R, T_P, T_C, V)
        board = board_of(400, 400, 0.9).model_copy(update={"pixels": [V], "port_words": 8}).without_bus()
        options = SearchOptions(b_max=3)
        result = SearchResult([RankedDesign.of(tile, 1.0)], 1)
        design, fbcb = tabulate_design(network_of([gemm]), board, options, result)
        assert samples_side_by_side(design, fbcb) <= max(8 // V, 1)
        block_rows = layer_costs(design, fbcb).block_rows
        assert block_rows is not None
        chosen = Evaluator(design.network, board, options).choose(tile)
        for b in (1, 3):
            layout = b, int(chosen.B_R[0, b - 1]), -(-b // int(chosen.B_R[0, b - 1])), 1
            shape = Tile(*stacked(tile.array)[:, chosen.codes[0, b - 1], 0].astype(int).tolist())
            run = gemm, shape, layout, int(block_rows[0, b - 1])
            port, drain = tuple(map(int, port_for(board))), int(schedule.drain_cycles(tile.T_P))
            assert naive_engine.run(*run, port, drain) == chosen.cycles[0, b - 1]
            assert naive_engine.words_of(*run) == chosen.words[0, b - 1]


def test_pixels_share_the_weights_and_divide_the_rows():
    one, four = (banks_of(ZCU104, Tile(1024, 6, 48, V), 1) for V in (1, 4))
    assert int(four["sums"].number) == 4 * int(one["sums"].number)
    assert int(four["sums"].rows) == int(one["sums"].rows) // 4
    assert int(four["stores"].number * four["stores"].rows) == int(one["stores"].number * one["stores"].rows)
    assert int(four["inputs"].number) == int(
        one["inputs"].number
    )  # a beat has at least four words, in banks of their own
    alone, all_ = (Demand(ZCU104, Tile(1024, 6, 48, V)).logic for V in (1, 4))
    assert all_.luts["elements"] == 4 * alone.luts["elements"]
    assert all_.flip_flops["sums"] == pytest.approx(4 * alone.flip_flops["sums"], rel=0.05)
    for one_part, all_parts in ((alone.luts, all_.luts), (alone.flip_flops, all_.flip_flops)):
        assert one_part["weights"] == all_parts["weights"]
    taken = board_use(ZCU104, Tile(512, 6, 48, 4))
    assert taken is not None
    assert taken.largest_T_R is not None
    assert taken.largest_T_R >= 512


def test_more_pixels_take_no_less_logic():
    draw = np.random.default_rng(8)
    for _ in range(100):
        sizes = [int(draw.integers(1, most)) for most in (3000, 20, 100)]
        found = Demand(ZCU104, np.array([[*sizes, V, 0] for V in (1, 2, 4, 8)]).T).logic
        assert (np.diff(found.total_luts) > 0).all()
        assert (np.diff(found.total_flip_flops) > 0).all()


def test_pixels_make_depthwise_networks_faster():
    network = load_network("mobilenet_v2")
    one, any_ = (
        search(network, ZCU104.with_pixels(pixels), SearchOptions(b_max=1)).best for pixels in ([1], [1, 2, 4, 8])
    )
    assert one.V == 1
    assert any_.V > 1
    assert any_.objective > 1.2 * one.objective
    assert any_.tile.macs <= ZCU104.dsps


def test_designs_with_pixels_go_through_files_and_commands(fluidb, tmp_path):
    network = "mobilenet_v2", "zcu104", "--pixels", "1,4", "--b-max", "2"
    done = fluidb("dse", *network, "-o", "v", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    design, fbcb = read_design(tmp_path / "v")
    assert (record["V"], design.tile.V, design.platform.pixels) == (4, 4, [1, 4])
    assert design.dsps == 4 * design.tile.T_P * design.tile.T_C
    assert str(design.tile) == f"<{design.tile.T_R},{design.tile.T_P},{design.tile.T_C},4>"
    again = fluidb("dse", *network, "--tile", str(design.tile)[1:-1])
    assert f"<T_R,T_P,T_C,V> = {design.tile}, as given" in again.stdout
    assert fluidb("latency", "v").returncode == 0
    explained = json.loads(fluidb("explain", "v", "--json").stdout)
    assert explained["V"] == 4
    total = sum(layer["time_s"][0] for layer in explained["layers"])
    assert total == pytest.approx(explain(design, fbcb).time_s[:, 0].sum())
    front = fluidb("pareto", *network, "--json")
    assert {point.get("V", 1) for point in json.loads(front.stdout)["points"]} == {1, 4}
    for overlap, V in (("ideal", 4), ("paper", 1)):
        record = json.loads(fluidb("dse", *network, "--overlap", overlap, "--json").stdout)
        assert record.get("V", 1) == V


def test_a_board_states_its_pixels(tmp_path):
    text = PLATFORMS.find("zcu104").read_text()
    file = tmp_path / "mine.toml"
    file.write_text(text.replace("word_bits = 16\n", "word_bits = 16\npixels = [1, 2]\n", 1))
    board = load_platform(file)
    assert board.pixels == [1, 2]
    assert board.model_dump()["pixels"] == [1, 2]
    assert "pixels" not in load_platform("zcu104").model_dump()


FAULTS: list[tuple[tuple[Any, ...], str]] = [
    (("--pixels", "1,3"), "pixels: expected powers of two in ascending order, e.g. [1, 2, 4], found [1, 3]"),
    (("--pixels", "4,2"), "pixels: expected powers of two in ascending order"),
    (("--pixels", "0"), "pixels[0]: expected"),
    (("--pixels", "x"), 'pixels: expected whole numbers with commas between, found "x"; e.g. 1,2,4'),
    (("--tile", "512,6,48,2"), "<512,6,48,2>: expected V, the pixels side by side, of zcu104: 1; found 2"),
    (("--tile", "512,6,48,2", "--pixels", "2", "--overlap", "paper"), "1 with --overlap paper; found 2"),
    (("--tile", "512,6,48,1,3"), "W, the words of a beat of its port, of zcu104: 1, 2, 4, 8, 16, 32; found 3"),
    (("--tile", "512,6,48,2,1,7"), "tile: expected T_R,T_P,T_C, and perhaps V pixels, and behind them W"),
    (("--tile", "512,6,288,2", "--pixels", "1,2"), "expected at most 1,728 DSPs of zcu104, found 3,456"),
]


@pytest.mark.parametrize(("given", "fault"), FAULTS)
def test_pixels_that_cannot_be_are_refused(fluidb, given, fault):
    (line,) = lines(fluidb("dse", "alexnet", "zcu104", *given))
    assert fault in line


def test_the_only_layout_of_a_batch_must_find_its_banks():
    """All samples side by side, of products with one column: a tile touches as many as it has columns."""
    options, network = SearchOptions(batching="column", b_max=8), network_of([(9, 4, 1, 2)])
    board = ZCU104.model_copy(update={"port_words": 8, "bandwidth_gb_s": 0.5, **WITHOUT_LOGIC})
    supply = options.supply(network, board)
    check_fit(supply, Tile(64, 2, 2, 4))
    with pytest.raises(InputError, match="at most 2 samples side by side in a tile of columns, found 8; lower V"):
        check_fit(supply, Tile(64, 2, 8, 4))
    every = designs(supply)
    assert every[:, every[3] == 4][2].max() == 2
    assert DesignSpace(supply).size == len(np.unique(every[1:], axis=1).T)  # counted within that limit
    best = search(network, board, options).ranking
    assert all(np.isfinite(row.objective) and row.objective > 0 for row in best)
