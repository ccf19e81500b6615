"""An NPU that keeps the weights of its first layers: costs against plain loops, the search, the command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import naive
import numpy as np
import pytest
from builders import (
    POCKET,
    TINY,
    Run,
    board_of,
    layer_of,
    lines,
    modes,
    network_of,
    paper_options,
    tiles,
    words_per_cycle,
)
from enumeration import ranked
from fluidb.dse import Tile, read_design, search, tabulate_design
from fluidb.dse.npu import persistent
from fluidb.dse.npu.costs import Cause, layer_costs
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.persistent import STEPS, search_persistent
from fluidb.dse.npu.resources import Supply
from fluidb.dse.npu.search import RankedDesign, SearchResult
from fluidb.dse.npu.space import designs
from fluidb.dse.npu.workload import fetched_shares, products_of
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import Board, load_platform
from hypothesis import given, settings
from hypothesis import strategies as st

search_module = sys.modules["fluidb.dse.npu.search"]  # the package has a function of that name

gemms = st.lists(
    st.tuples(st.integers(1, 60), st.integers(1, 40), st.integers(1, 40), st.integers(1, 3)), min_size=2, max_size=4
)


def board(rate: float, mbit: float = 1.0) -> Board:
    """A board that moves ``rate`` words a cycle."""
    return Board(
        name="b", title="b", dsps=64, on_chip_mbit=mbit, clock_mhz=1.0, bandwidth_gb_s=2e-3 * rate, word_bits=16,
        mac_pj=1.0, on_chip_pj_per_word=1.0, off_chip_pj_per_word=1.0,
    )  # fmt: skip


def stays_of(layers: list[tuple[int, int, int, int]], room: int) -> list[float]:
    """Share of each layer's weights that stays, the first layers first."""
    found = []
    for _, P, C, groups in layers:
        kept = min(room, P * C * groups)
        room -= kept
        found.append(kept / (P * C * groups))
    return found


def test_weights_that_stay_wait_for_no_rows():
    """Two equal layers of few rows: the first reads its weights on the chip, the second waits for them."""
    network, options = network_of([(4, 32, 32, 1)] * 2), paper_options(b_max=1, persistent_mbit=32 * 32 * 16 / 2**20)
    result = SearchResult([RankedDesign.of(Tile(64, 8, 8), 1.0)], 1)
    costs = layer_costs(*tabulate_design(network, board(1.0), options, result))
    first, second = costs.parts_s[Cause.FEW_ROWS][:, 0]
    assert (first, second > 0) == (0, True)


@settings(max_examples=40)
@given(gemms, tiles, st.integers(1, 4), words_per_cycle, modes, st.integers(0, 6000))
def test_cycles_and_words_equal_plain_loops(layers, tile, b_max, rate, mode, room):
    layers = [*layers, layers[0]]  # an equal layer, with fewer words that may stay
    options = paper_options(batching=mode, b_max=b_max, persistent_mbit=room * 16 / 2**20)
    evaluator = Evaluator(network_of(layers), board(rate), options)
    stays = stays_of(layers, options.resident_words(board(rate)))
    chosen, tiles = evaluator.choose(tile), Tile(*tile).array
    for i in range(b_max):
        expected = [
            naive.best(gemm, tile, i + 1, rate, mode, True, share) for gemm, share in zip(layers, stays, strict=True)
        ]
        assert chosen.cycles[:, i] == pytest.approx([item[0] for item in expected], rel=1e-12)
    (cycles, words, _), _ = evaluator.account(tiles)
    assert cycles[0, 0] == pytest.approx(chosen.cycles.sum(axis=0), rel=1e-12)
    if mode != "eq1":
        assert evaluator.cycles(tiles)[0, 0] == pytest.approx(cycles[0, 0], rel=1e-12)
    least = evaluator.least_cost(tiles, traffic=True)
    assert (least.cycles <= cycles.sum(axis=1)).all()
    assert (least.words <= words.sum(axis=1)).all()


@settings(max_examples=20)
@given(gemms, tiles, words_per_cycle, st.integers(0, 3000), st.integers(0, 3000))
def test_more_that_stays_never_costs_time_or_traffic(layers, tile, rate, room, more):
    network = network_of(layers)
    less, least = (
        Evaluator(network, board(rate), paper_options(b_max=3, persistent_mbit=words * 16 / 2**20)).cycles(
            Tile(*tile).array
        )
        for words in (room, room + more)
    )
    assert (least <= less * (1 + 1e-12)).all()


def test_an_access_to_a_resident_weight_counts_three_times():
    layers, tile = [(10, 8, 6, 1)], (4, 8, 6)
    none, all_ = (
        Evaluator(network_of(layers), board(1.0), paper_options(b_max=1, stacking=False, persistent_mbit=mbit)).account(
            Tile(*tile).array
        )[0][:, 0, 0, 0]
        for mbit in (0.0, 0.5)
    )
    weights = 8 * 6 * 3  # of 4 rows at a time
    assert none[1] - all_[1] == weights
    assert all_[2] - none[2] == weights


def test_a_product_of_activations_has_no_weights_that_could_stay():
    network = network_of([(4, 5, 6, 1, True), (4, 5, 6, 2)])
    pool = layer_of((1, 9, 1, 4))
    products = [*products_of(network, pooled=True), pool.model_copy(update={"gemm": None, "pool": pool.gemm})]
    assert fetched_shares(products, 45) == [1.0, 0.25, 1.0]  # nor has a pool
    assert fetched_shares(products, 0) == [1.0] * 3


@settings(max_examples=15)
@given(gemms, st.integers(8, 30), st.floats(0.05, 0.9), st.sampled_from(["latency", "gop_s"]))
def test_the_bound_of_the_search_rules_out_no_winner(layers, dsps, share, objective):
    network, chip = network_of(layers), board_of(dsps)
    options = paper_options(b_max=2, persistent_mbit=share * chip.on_chip_mbit, objective=objective)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "FEW", 0)
        patch.setattr(search_module, "ROUND", 1)
        bounded = search(network, chip, options, top=3)
    assert bounded.ranking == ranked(
        network, chip, options, designs(Supply.of(chip, options.room(chip), placed=False)), 3
    )
    bits = options.persistent_mbit * 2**20
    assert bounded.best.tile.buffer_bits(16) + bits <= chip.on_chip_bits + 1


def test_every_size_is_searched_and_the_smallest_of_the_best_wins():
    network, chip = load_network(TINY), load_platform(POCKET)
    found, best = search_persistent(network, chip, paper_options(b_max=2))
    assert [size.persistent_mbit for size, _ in found] == pytest.approx(
        [chip.on_chip_mbit * i / STEPS for i in range(STEPS)]
    )
    values = [result.best.objective for _, result in found]
    assert best == values.index(max(values))
    for size, result in found[:: STEPS // 3]:
        assert result == search(network, chip, size)


def test_the_command_searches_sizes_and_its_design_goes_on(
    fluidb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persistent, "STEPS", 5)
    done = fluidb("dse", TINY, POCKET, "--b-max", 2, "--persistent", "search", "-o", "d", "--json")
    record = json.loads(done.stdout)
    values = [item["objective"] for item in record["persistent"]]
    assert record["objective"] == max(values)
    design, fbcb = read_design(tmp_path / "d")
    costs = layer_costs(design, fbcb)
    assert sum(costs.parts_s.values()) == pytest.approx(costs.time_s)
    assert fluidb("explain", "d").returncode == 0
    fixed = fluidb("dse", TINY, POCKET, "--b-max", 2, "--persistent", "50%", "-o", "half")
    assert "weights that stay" in fixed.stdout
    half, fbcb = read_design(tmp_path / "half")
    operations = 2e-9 * half.network.macs * np.arange(1, 3)
    assert half.gop_s == pytest.approx(operations / layer_costs(half, fbcb).time_s.sum(axis=0))
    assert half.options.persistent_mbit == pytest.approx(half.platform.on_chip_mbit / 2)
    assert 0.5 < half.ram_share <= 1
    assert fluidb("latency", "half").returncode == 0
    text = fluidb("dse", TINY, POCKET, "--b-max", 2, "--persistent", "search").stdout
    assert "Mb for weights that stay" in text
    assert "persistent_mbit" not in fluidb("dse", TINY, POCKET, "--b-max", 2, "--json").stdout


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--persistent", "100%"], "expected less than the 0.02 Mb on chip of pocket, found 0.02 Mb"),
        (["--persistent", "4"], "--persistent: expected a unit (Mb, %)"),
        (["--persistent", "search", "--tile", "4,4,4"], "expected one network, one board and no tile"),
    ],
)
def test_bad_sizes_are_one_line(fluidb: Run, arguments, fault):
    (line,) = lines(fluidb("dse", TINY, POCKET, *arguments))
    assert fault in line


def test_no_design_fits_beside_a_large_buffer():
    chip = board_of(4, kibit=1)
    with pytest.raises(InputError, match="no design fits"):
        search(network_of([(1, 1, 1, 1)]), chip, paper_options(persistent_mbit=chip.on_chip_mbit * 0.99))
