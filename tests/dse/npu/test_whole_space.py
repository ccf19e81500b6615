"""A search over all axes against brute force over every T_R, T_P, T_C, V and W on boards whose logic binds."""

from __future__ import annotations

import re

import naive
import numpy as np
import pytest
from builders import ROOT, network_of
from enumeration import ranked
from fluidb.dse import Objective, SearchOptions, search
from fluidb.dse.npu import rows as rows_of_designs
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.pareto import Axis, find_front
from fluidb.dse.npu.ports import words_of
from fluidb.dse.npu.resources import Limits, Resource
from fluidb.dse.npu.side_by_side import by_banks, power_of_two
from fluidb.dse.npu.space import DesignSpace
from fluidb.dse.npu.tiles import Tile
from fluidb.formats import InputError
from fluidb.platforms import load_platform
from random_boards import CASES, MORE, OBJECTIVES, ZC706, random_case


def every_design(supply):
    """All designs of a board, each T_R of its own. Shapes: returns (5, D)."""
    board = supply.board
    words = board.on_chip_bits // (2 * board.word_bits)
    tiles = np.array([
        (T_R, T_P, T_C, V, W)
        for V in board.pixels
        for W in (0, *(2**n for n in range(7) if 2**n <= (board.port_words or 64) and 2**n != board.usual_port_words))
        for T_P in range(1, board.macs_per_cycle // V + 1)
        for T_C in range(1, board.macs_per_cycle // V // T_P + 1)
        for T_R in range(2, (words - T_P * T_C) // (T_P + T_C) + 1, 2)
    ]).reshape(-1, 5).T  # fmt: skip
    needed = supply.needed.by(tiles)
    fits = supply.demand(tiles, needed).within(supply.most) & (needed <= by_banks(words_of(board, tiles), tiles[3]))
    return np.ascontiguousarray(tiles[:, fits])


def every_number_of_samples(supply, tiles):
    """All designs with each number of samples side by side that they have room for, fewest first."""
    needed, fitted = supply.needed.by(tiles), True
    for samples in (1, 2, 4):
        here = np.maximum(samples, needed)
        fitted = fitted & supply.demand(tiles, here).within(supply.most)  # also with fewer samples
        fits = fitted & (samples <= max(needed.max(), power_of_two(supply.wanted)))
        fits &= (here <= by_banks(words_of(supply.board, tiles), tiles[3])) & ((samples == 1) | (samples > needed))
        if fits.any():
            yield np.ascontiguousarray(tiles[:, fits]), here[fits]


@pytest.mark.parametrize("seed", range(CASES))
def test_a_search_finds_the_best_of_every_design(seed):
    network, board, options = random_case(seed)
    tiles = every_design(options.supply(network, board))
    if not tiles.size:
        with pytest.raises(InputError, match="no design fits"):
            search(network, board, options)
        return
    assert search(network, board, options).ranking[:1] == ranked(network, board, options, tiles, 1)


def test_a_space_has_the_largest_T_R_of_every_design(monkeypatch):
    """Of each with room for 1, 2, 4, ... samples side by side; also where none fits between a small T_R and a large."""
    gaps = several = 0
    monkeypatch.setattr(rows_of_designs, "TOGETHER", 40)  # a space is found in several parts
    for seed in range(16):
        network, board, options = random_case(seed)
        stated = [{}, {}, {"luts": None}, {"flip_flops": None, "block_rams": None}][seed % 4]
        supply = options.supply(network, board := board.model_copy(update=stated))
        tiles = every_design(supply)
        expected: set[tuple[int, ...]] = set()
        fitted = True
        for samples in (1, 2, 4):
            needed = np.maximum(samples, supply.needed.by(tiles))
            fitted = fitted & supply.demand(tiles, needed).within(supply.most)  # also with fewer samples
            fits = fitted & (samples <= power_of_two(supply.wanted))
            fits &= needed <= by_banks(words_of(board, tiles), tiles[3])
            rows: dict[tuple[int, ...], list[int]] = {}
            for T_R, *sizes in tiles[:, fits].T.tolist():
                rows.setdefault(tuple(sizes), []).append(T_R)
            gaps += sum(len(fitting) < max(fitting) // 2 for fitting in rows.values())
            expected |= {(max(fitting), *sizes) for sizes, fitting in rows.items()}
        if expected:
            space = DesignSpace(supply)
            assert sorted(map(tuple, space.within(space.boxes()).T.tolist())) == sorted(expected)  # each once
        several += len({design[1:] for design in expected}) < len(expected)
    assert gaps > 0
    assert several > 0


def test_most_samples_are_as_many_as_fit_with_all_fewer():
    by_blocks = 0
    for seed in range(24):
        network, board, options = random_case(3_000_000 + seed)
        supply = options.supply(network, board)
        tiles = every_design(supply)
        needed = supply.needed.by(tiles)
        fitting, without_blocks = np.ones((2, tiles.shape[1]), np.bool_)
        expected, more = np.ones((2, tiles.shape[1]), np.int64)
        logic = supply.only(Resource.LUTS, Resource.FLIP_FLOPS)
        for samples in (1, 2, 4):
            demand = supply.demand(tiles, np.maximum(samples, needed))
            fitting &= demand.within(supply.most)
            without_blocks &= demand.within(logic)
            expected[fitting], more[without_blocks] = samples, samples
        most = np.minimum(by_banks(words_of(board, tiles), tiles[3]), supply.wanted)
        assert np.array_equal(supply.most_samples(tiles), np.minimum(expected, most))
        by_blocks += np.count_nonzero(np.minimum(more, most) > np.minimum(expected, most))
    assert by_blocks > 100


@pytest.mark.parametrize("seed", range(CASES))
def test_more_of_anything_is_never_worse(seed):
    """But for the clock: a burst takes whole cycles, and of a faster clock more of them (docs/search.md, Pruning)."""
    network, board, options = random_case(1_000_000 + seed)
    options = options.model_copy(update={"objective": ["gop_s", "latency"][seed % 2]})
    try:
        best = search(network, board, options, top=1).best.objective
    except InputError:
        return
    for what, more in MORE.items():
        found = search(network, board.model_copy(update=more(board)), options, top=1).best.objective
        assert found >= best if options.objective == "gop_s" else found <= best, (what, found, best)


AXES = [(one, other) for one in Axis for other in (None, *Axis) if one != other]
"""Every axis alone, and every pair in both orders."""


@pytest.mark.parametrize("seed", sorted({*range(CASES), 43, 131}))  # of the first 300 two where fewer samples count
def test_a_front_is_that_of_every_design(seed):
    """Every T_R, T_P, T_C, V and W, and with the axis lut every number of samples side by side."""
    network, board, options = random_case(2_000_000 + seed)
    board = board.model_copy(update={"dsps": 2 + board.dsps // 3, "on_chip_mbit": board.on_chip_mbit / 3})
    board = board if seed % 5 else board.in_int8().model_copy(update={"on_chip_mbit": board.on_chip_mbit / 8})
    over = [axis for axis in AXES[seed % len(AXES)] if axis]
    stated = [axis for axis in over if seed % 5 or axis not in (Axis.LUT, Axis.ENERGY)]
    over = stated or [Axis.RAM]
    goals = [goal for goal in OBJECTIVES if goal not in over and (seed % 5 or goal in ("gop_s", "latency"))]
    options = options.model_copy(update={"objective": Objective(goals[seed % len(goals)])})
    supply, evaluator = options.supply(network, board), Evaluator(network, board, options)
    tiles = every_design(supply)
    if not tiles.size:
        with pytest.raises(InputError, match="no design fits"):
            find_front(network, board, options, over)
        return
    points: dict[tuple[float, ...], list[Tile]] = {}
    most: dict[Tile, tuple[float, ...]] = {}
    sign = -1 if options.objective in ("gop_s", "gop_s_w") else 1
    for some, samples in every_number_of_samples(supply, tiles):
        rated = evaluator.rate(
            some, [options.objective, "latency", *(["energy"] if board.mac_pj else [])], 1, None, samples
        )
        demand = supply.demand(some, samples)
        columns = {
            Axis.DSP: demand.dsps,
            Axis.RAM: 2 * board.word_bits * (some[0] * some[1] + some[1] * some[2] + some[0] * some[2]),
            Axis.LUT: demand.logic.total_luts,
            Axis.LATENCY: rated[:, 1],
            Axis.ENERGY: rated[:, -1],
        }
        table = np.column_stack([*(columns[axis] for axis in over), sign * rated[:, 0]])
        for sizes, row in zip(some.T.tolist(), table.tolist(), strict=True):
            if Axis.LUT in over:
                points.setdefault(tuple(row), []).append(Tile(*sizes))
            most[Tile(*sizes)] = tuple(row)  # with the most samples in the end
    for tile, row in most.items() if Axis.LUT not in over else ():
        points.setdefault(row, []).append(tile)
    expected = naive.front(list(points))
    front = find_front(network, board, options, over)
    assert {(*point.takes, sign * point.objective) for point in front.points} == expected
    for point in front.points:  # of equal designs the one that a search would rank first
        narrow = [
            (-tile.macs, -tile.T_R, tile.T_P, tile.V, -tile.W or -1_000)
            for tile in points[*point.takes, sign * point.objective]
        ]
        assert (-point.tile.macs, -point.tile.T_R, point.tile.T_P, point.tile.V, -point.tile.W or -1_000) == min(narrow)


def test_a_part_of_the_look_up_tables_stays_free():
    """No router closes timing in all of them; a user may ask for all."""
    tile = Tile(64, 2, 4)
    network, options = network_of([(30, 40, 20, 1)]), SearchOptions(b_max=1, tile=tile)
    takes = float(options.supply(network, ZC706).demand(tile).logic.total_luts)
    tight = ZC706.model_copy(update={"luts": int(takes / 0.8) - 2})
    with pytest.raises(
        InputError, match=rf"of {tight.luts:,} LUTs .*; allow more LUTs with --max-lut 100%, or lower T_P"
    ):
        search(network, tight, options)
    none = ZC706.model_copy(update={"luts": 4_000})
    with pytest.raises(InputError, match=r"3,200 of 4,000 LUTs .*; allow more LUTs with --max-lut 100%, or check what"):
        search(network, none, SearchOptions(b_max=1))
    search(network, tight.model_copy(update={"luts": int(takes / 0.8) + 2}), options)
    search(network, tight, options.model_copy(update={"limits": Limits(max_luts=tight.luts)}))


def test_the_page_says_what_searches_find():
    page = (ROOT / "docs" / "search.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+) ([\w-]+)` \| (.*), ([\d.]+) \| (.*), ([\d.]+) \|$", page, re.MULTILINE)
    assert len(rows) == 7
    for network, name, *printed in rows:
        board = load_platform(name)
        found = [
            search(network, board, SearchOptions(limits=Limits(max_luts=luts)), top=1).best
            for luts in (board.luts, None)
        ]
        assert printed == [text for best in found for text in (str(best.tile), f"{best.objective:.1f}")]
