"""The search against brute force, and against what the paper published."""

from __future__ import annotations

import re
import sys

import naive
import numpy as np
import pytest
from builders import COMPILED, ROOT, WITHOUT_LOGIC, any_gemm, board_of, modes, network_of, paper_options
from enumeration import every_row, ranked
from fluidb.dse import Batching, Objective, SearchOptions, Tile, configure, search, tabulate_design
from fluidb.dse.npu import evaluation
from fluidb.dse.npu import space as space_module
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.resources import Limits, Supply
from fluidb.dse.npu.search import RankedDesign, SearchResult
from fluidb.dse.npu.space import EDGES, check_fit, designs
from fluidb.dse.npu.tiles import tiles_of
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import load_platform
from hypothesis import example, given, settings
from hypothesis import strategies as st

search_module = sys.modules["fluidb.dse.npu.search"]  # the package has a function of that name

full_size = pytest.mark.skipif(
    not COMPILED, reason="searches of the paper's boards take minutes as plain Python; run compiled"
)

PUBLISHED = [
    ("resnet50", "zcu104", (8.5, 9.6, 12.8), (6832, 10, 172)),
    ("resnet50", "zc706", (3.2, 4.267, 8.0), (4652, 7, 128)),
    ("inception_v3", "zcu104", (4.8, 7.2, 9.6), (6186, 9, 192)),
    ("inception_v3", "zc706", (2.4, 3.2), (2742, 4, 225)),
]


def gop_s(network, board, tile, options):
    return Evaluator(network, board, options).cost(Tile(*tile).array, traffic=False).gop_s[0]


boards = st.builds(board_of, st.integers(1, 14), st.integers(1, 60), st.sampled_from([0.1, 0.8, 6.4]))


@settings(max_examples=40)
@given(
    st.lists(any_gemm, min_size=1, max_size=3), st.integers(0, 500), boards, st.integers(1, 4), modes, st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_search_equals_brute_force_on_small_boards(gemms, memory_words, board, b_max, mode, stacking, int8):
    options = paper_options(batching=Batching(mode), stacking=stacking, b_max=b_max)
    macs, bits = (2 * board.dsps, 8) if int8 else (board.dsps, 16)
    board = board.in_int8() if int8 else board
    result = search(network_of(gemms, memory_words), board, options)
    tile, objective = naive.search(
        gemms, memory_words, macs, board.on_chip_bits, bits, b_max, [1.0] * b_max, board.words_per_cycle,
        board.clock_hz, mode, stacking,
    )  # fmt: skip
    assert result.best.objective == pytest.approx(objective, rel=1e-12)
    assert result.best.tile == Tile(*tile)


layer_of_either_kind = st.builds(lambda gemm, per_sample: (*gemm, per_sample), any_gemm, st.booleans())


@settings(max_examples=60)
@given(
    st.lists(layer_of_either_kind, min_size=1, max_size=3), st.integers(0, 500), boards, st.integers(1, 5), modes,
    st.booleans(),
)  # fmt: skip
@example([(8, 17, 8, 1, False)], 0, board_of(4, 60, 6.4), 4, "eq1", False)  # 4 samples: 18 tiles of 4, not 4 ceil(17/4)
def test_no_design_costs_less_than_its_bound(gemms, memory_words, board, b_max, mode, stacking):
    """Nor less than the bound of a larger tile, in time, words and accesses, for every batch (docs/model.md)."""
    evaluator = Evaluator(
        network_of(gemms, memory_words), board, paper_options(batching=Batching(mode), stacking=stacking, b_max=b_max)
    )
    tiles = every_row(designs(Supply.of(board, placed=False)))
    found, largest = evaluator.cost(tiles, traffic=True), tiles.max(axis=1, keepdims=True)
    least, of_all = evaluator.least_cost(tiles, traffic=True), evaluator.least_cost(largest, traffic=True)
    for figure in ("cycles", "words", "accesses"):
        assert np.all(getattr(of_all, figure) <= getattr(least, figure)), figure
        assert np.all(getattr(least, figure) < getattr(found, figure)), figure
    assert np.array_equal(evaluator.least_cost(largest, traffic=False).cycles, of_all.cycles)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("objective", [Objective.GOP_S, Objective.ENERGY])
def test_bounds_and_values_are_those_of_one_design_after_another(monkeypatch, threads, objective):
    energies = {"mac_pj": 1.0, "on_chip_pj_per_word": 2.0, "off_chip_pj_per_word": 50.0}
    board = board_of(40, 60, 0.8).model_copy(update=energies)
    evaluator = Evaluator(network_of([(9, 17, 8, 1), (1, 64, 10, 1)], 100), board, paper_options(objective=objective))
    tiles, asked = every_row(designs(Supply.of(board, placed=False)))[:, :100], [objective, Objective.LATENCY]
    one_by_one = [tiles[:, at : at + 1] for at in range(tiles.shape[1])]
    for piece in ("BOUND_PIECE", "PIECE"):
        monkeypatch.setattr(evaluation, piece, 7)
    for values in (evaluator.bound, evaluator.rate):
        alone = np.concatenate([values(tile, asked, threads) for tile in one_by_one])
        assert np.array_equal(values(tiles, asked, threads), alone)


@settings(max_examples=60)
@given(
    st.lists(layer_of_either_kind, min_size=1, max_size=3), st.integers(10, 40), st.integers(5, 60),
    st.sampled_from([0.1, 0.8, 6.4]), st.integers(1, 4), modes,
    st.sampled_from(Objective), st.integers(1, 12), st.integers(1, 4),
)  # fmt: skip
def test_a_search_by_bound_ranks_as_the_exhaustive_one(
    gemms, dsps, kibit, gb_s, b_max, mode, objective, top, coarser
):  # fmt: skip
    """The same designs in the same order, ties included, whatever is ruled out and however large boxes are."""
    energies = {"mac_pj": 1.0, "on_chip_pj_per_word": 2.0, "off_chip_pj_per_word": 50.0}
    board = board_of(dsps, kibit, gb_s).model_copy(update=energies)
    network = network_of(gemms, 100, [*range(1, len(gemms) + 1)])
    launches = [[float(stage * b % 5 + 1) for b in range(b_max)] for stage in range(len(gemms))]
    of_traffic = {"launches": launches} if objective is Objective.TRAFFIC else {}
    options = paper_options(batching=Batching(mode), b_max=b_max, objective=objective, **of_traffic)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "FEW", 0)
        patch.setattr(search_module, "ROUND", 1)
        patch.setattr(space_module, "EDGES", EDGES[::coarser])
        result = search(network, board, options, top=top)
    tiles = designs(Supply.of(board, placed=False))
    assert result.ranking == ranked(network, board, options, tiles, top)
    assert result.designs_evaluated + result.designs_ruled_out == tiles.shape[1]


@full_size
@pytest.mark.parametrize("objective", ["gop_s", "energy"])
def test_the_bound_rules_most_designs_of_a_board_out(objective):
    network, board, seen = load_network("resnet50"), load_platform("zc706"), []
    options = paper_options(objective=objective)
    result = search(network, board, options, top=40, progress=lambda *count: seen.append(count))
    tiles = designs(Supply.of(board, placed=False))
    assert result.ranking == ranked(network, board, options, tiles, 40)
    assert result.designs_evaluated + result.designs_ruled_out == tiles.shape[1]
    assert result.designs_ruled_out > 0.75 * tiles.shape[1]
    assert seen[-1] == (tiles.shape[1], tiles.shape[1])
    for threads in (1, 3):
        assert search(network, board, options, top=40, threads=threads) == result


@settings(max_examples=20)
@given(st.lists(any_gemm, min_size=1, max_size=2), boards)
def test_a_smaller_T_R_never_wins(gemms, board):
    network = network_of(gemms)
    fast = search(network, board, paper_options(b_max=3))
    assert [fast.best] == ranked(
        network, board, paper_options(b_max=3), every_row(designs(Supply.of(board, placed=False))), 1
    )


@settings(max_examples=30)
@given(st.integers(1, 200), st.integers(1, 400), st.sampled_from([8, 16]))
def test_designs_are_those_that_fit(dsps, kibit, word_bits):
    board = board_of(dsps, kibit).model_copy(update={"word_bits": word_bits})
    expected = naive.all_designs(dsps, board.on_chip_bits, word_bits)
    if expected:
        assert sorted(tiles_of(designs(Supply.of(board, placed=False)))) == sorted(expected)
    else:
        with pytest.raises(InputError, match="no design fits"):
            designs(Supply.of(board, placed=False))


def test_of_equal_cycles_fewer_words_win():
    """k = 1 takes 4 x 2 tiles and k = 1/2 takes 8 x 1, which read the input once instead of twice."""
    found = configure(network_of([(8, 8, 8, 1)]), board_of(8, 60, 6.4), Tile(64, 2, 4), paper_options(b_max=1))
    assert [table[0, 0] for table in (found.codes, found.cycles, found.words)] == [2, 64, 8 * 8 + 8 * 8 + 8 * 8]


def test_a_given_design_may_fill_a_board():
    tile, board = Tile(6, 2, 4), board_of(8)
    full = board.model_copy(update={"on_chip_mbit": tile.buffer_bits(16) / 2**20})
    check_fit(Supply.of(full), tile)
    with_luts = full.model_copy(update={"luts": 1, "luts_fixed": 10.0, "luts_per_adder": 5.0})
    check_fit(Supply.of(with_luts, Limits(max_luts=10 + 5 * 4 * (2 - 1)), placed=False), tile)
    with pytest.raises(InputError, match="Mb on chip of b, found"):
        check_fit(Supply.of(full), Tile(7, 2, 4))


@settings(max_examples=20)
@given(st.lists(any_gemm, min_size=1, max_size=3), st.integers(1, 12))
def test_more_dsps_or_bandwidth_never_lower_the_best_objective(gemms, dsps):
    network, options = network_of(gemms), paper_options(b_max=3)
    best = search(network, board_of(dsps), options).best.objective
    assert search(network, board_of(dsps + 5), options).best.objective >= best
    assert search(network, board_of(dsps, gb_s=1.6), options).best.objective >= best


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_ranking_does_not_depend_on_threads(threads):
    network, board = network_of([(49, 64, 96, 1), (1, 128, 10, 1)]), board_of(200)
    assert search(network, board, top=50, threads=threads) == search(network, board, top=50)


def test_weights_steer_the_search_and_are_checked():
    network, board = network_of([(7, 5, 9, 1)]), board_of(14)
    single = search(network, board, paper_options(b_max=2, weights=[1.0, 0.0])).best
    options = paper_options(b_max=2)
    assert single.objective == pytest.approx(gop_s(network, board, single.tile, options)[0])
    with pytest.raises(ValueError, match="expected 2 values"):
        paper_options(b_max=2, weights=[1.0])


def test_batching_modes_are_ordered_by_their_freedom():
    """Fluid can do all that row can, row what fc can; stacking only adds choices."""
    network, board = load_network("resnet50").backbone(), load_platform("zc706")
    tile = Tile(4652, 7, 128)

    def cycles(mode, *, stacking):
        options = paper_options(batching=Batching(mode), stacking=stacking)
        return configure(network, board, tile, options).cycles.sum(axis=0)

    for stacking in (False, True):
        fluid, row, fc, none = (cycles(mode, stacking=stacking) for mode in ("fluid", "row", "fc", "none"))
        assert np.all(fluid <= row)
        assert np.all(row <= fc)
        assert np.all(fc <= none)
        assert np.all(fc[1:] < none[1:])
    assert np.all(cycles("fluid", stacking=True) < cycles("fluid", stacking=False))


@full_size
@pytest.mark.parametrize(("network", "board", "bandwidths", "tile"), PUBLISHED)
def test_published_designs_come_out(network, board, bandwidths, tile):
    """Paper 000, Table I; the misprinted row is docs/model.md's."""
    for gb_s in bandwidths:
        assert search(load_network(network), load_platform(board, gb_s), paper_options()).best.tile == Tile(*tile)


AS_BUILT: dict[tuple[str, str], dict[float, tuple[tuple[int, ...], tuple[int, ...]]]] = {
    # GB/s: as built and placed; with transfers that all overlap, and memory counted in bits
    ("resnet50", "zcu104"): {
        8.5: ((1024, 13, 128, 1, 16), (6832, 10, 172)),
        9.6: ((960, 9, 128), (6832, 10, 172)),
        12.8: ((960, 20, 86), (8574, 13, 132)),
    },
    ("resnet50", "zc706"): {
        3.2: ((1024, 7, 128), (4652, 7, 128)),
        4.267: ((1024, 7, 128), (4652, 7, 128)),
        8.0: ((1024, 7, 128), (4652, 7, 128)),
    },
    ("inception_v3", "zcu104"): {
        4.8: ((1024, 12, 128, 1, 16), (6186, 9, 192)),
        7.2: ((1024, 18, 96, 1, 16), (6186, 9, 192)),
        9.6: ((960, 16, 96), (6186, 9, 192)),
    },
    ("inception_v3", "zc706"): {
        2.4: ((1024, 8, 112, 1, 8), (2754, 4, 224)),
        3.2: ((2016, 9, 96), (5762, 9, 100)),
        4.267: ((1024, 7, 128), (4652, 7, 128)),
    },
}


@full_size
@pytest.mark.parametrize(("network", "board"), AS_BUILT)
def test_designs_that_are_found_as_built(network, board):
    """As docs/model.md prints them, Bandwidth."""
    page = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    name = {"resnet50": "ResNet-50", "inception_v3": "Inception-v3"}[network]
    (row,) = re.findall(rf"^\| {name}, {board.upper()} \| .*> at .*", page, re.MULTILINE)
    printed = re.findall(r"(<[\d,]+>) at ([\d.]+)(?: to ([\d.]+))?", row)
    assert {tile for tile, *_ in printed} == {str(Tile(*built)) for built, _ in AS_BUILT[network, board].values()}
    for gb_s, tiles in AS_BUILT[network, board].items():
        said = [tile for tile, low, high in printed if float(low) <= gb_s <= float(high or low)]
        assert said == [str(Tile(*tiles[0]))], gb_s
        platform = load_platform(board, gb_s)
        in_bits = platform.model_copy(update={"block_rams": None, **WITHOUT_LOGIC})
        for overlap, counted, tile in zip(("tiles", "ideal"), (platform, in_bits), tiles, strict=True):
            result = search(load_network(network), counted, SearchOptions(overlap=overlap))
            assert result.best.tile == Tile(*tile), (gb_s, overlap)


@pytest.mark.parametrize(
    ("board", "tile", "dsp", "ram"),
    [
        ("zc706", (4652, 7, 128), 99.56, 99.96),
        ("zcu104", (6832, 10, 172), 99.53, 99.99),
        ("zc706", (2742, 4, 225), 100.0, 99.94),
        ("zcu104", (6186, 9, 192), 100.0, 99.99),
    ],
)
def test_published_resource_shares_come_out(board, tile, dsp, ram):
    """Paper 000, Table I, which rounds some shares (99.556 to 99.56) and truncates others (99.537 to 99.53)."""
    platform, design = load_platform(board), Tile(*tile)
    assert 100 * design.macs / platform.dsps == pytest.approx(dsp, abs=0.01)
    assert 100 * design.buffer_bits(16) / platform.on_chip_bits == pytest.approx(ram, abs=0.01)
    assert Tile(design.T_R + 2, *design[1:]).buffer_bits(16) > platform.on_chip_bits  # T_R is the largest


@pytest.mark.parametrize(
    ("network", "board", "share"),
    [
        ("resnet50", "zc706", 0.57),
        ("resnet50", "zcu104", 0.54),
        ("inception_v3", "zc706", 0.95),
        ("inception_v3", "zcu104", 0.90),
    ],
)
def test_published_register_shares_come_out(network, board, share):
    """Paper 000, Section IV: the FBCB's share of registers, truncated."""
    platform, options = load_platform(board), paper_options()
    result = SearchResult([RankedDesign.of(Tile(100, 7, 128), 1.0)], 1)
    design, fbcb = tabulate_design(load_network(network), platform, options, result)
    found_share = design.register_share(fbcb)
    assert found_share is not None
    assert int(1e4 * found_share) / 100 == share


def test_batch_of_16_on_row_batching_takes_the_published_time():
    """Paper 000, Section IV, Baselines: ResNet-50 on ZCU104 with B = 16 takes 277 ms."""
    network, board = load_network("resnet50").backbone(), load_platform("zcu104")
    options = paper_options(batching=Batching.ROW, stacking=False, b_max=16)
    latency_s = 16 * 2e-9 * network.macs / gop_s(network, board, Tile(6832, 10, 172), options)[15]
    assert latency_s == pytest.approx(0.277, rel=0.005)
