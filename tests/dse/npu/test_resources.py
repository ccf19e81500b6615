"""Blocks of an FPGA: brute force, and figures of the docs."""

from __future__ import annotations

import re

import numpy as np
import pytest
from builders import ROOT, WITHOUT_LOGIC
from fluidb.dse import Limits, Overlap, SearchOptions, Tile, search
from fluidb.dse.npu.banks import Bank, halves, place
from fluidb.dse.npu.board_use import BoardUse, board_use
from fluidb.dse.npu.resources import Resource, Supply
from fluidb.dse.npu.rows import rows_by_blocks
from fluidb.dse.npu.space import DesignSpace, check_fit, designs
from fluidb.dse.npu.tiles import tiles_of, with_rows
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import Board, load_platform

ZC706, ZCU104 = load_platform("zc706"), load_platform("zcu104")


def utilised(board: Board, tile: Tile) -> BoardUse:
    taken = board_use(board, tile)
    assert taken is not None
    return taken


@pytest.mark.parametrize("ultra_rams", [None, 7, 96])
def test_the_most_rows_equal_brute_force(ultra_rams):
    """Every even T_R from two on: none that can be placed follows the first that cannot."""
    draw = np.random.default_rng(5)
    for _ in range(12):
        board = ZCU104.model_copy(update={"block_rams": int(draw.integers(4, 60)), "ultra_rams": ultra_rams})
        T_P, T_C = (int(draw.integers(1, most)) for most in (9, 24))
        rows = np.arange(2, 400_000, 2)
        tiles = with_rows(Tile(2, T_P, T_C).array, rows)
        fits = Supply.of(board).demand(tiles).within({Resource.BLOCK_RAMS: float(board.block_rams or 0)})
        assert not fits[-1]
        largest = int(rows_by_blocks(Supply.of(board), tiles[:, -1:], 1)[0])
        assert (
            int(rows_by_blocks(Supply.of(board), with_rows(tiles[:, -1:], largest // 2 + 1), 1)[0])
            == (largest // 2 + 1) // 2 * 2
        )
        assert largest == max(rows[fits], default=0)
        assert fits.sum() == largest / 2


def test_ultra_rams_leave_the_fewest_blocks():
    """Two buffers, every number of banks of each in UltraRAMs."""
    draw = np.random.default_rng(6)
    for _ in range(40):
        ultra_rams = int(draw.integers(0, 30))
        board = ZCU104.model_copy(update={"ultra_rams": ultra_rams})
        kinds = [(int(draw.integers(1, 20)), 16 * int(draw.integers(1, 5)), int(draw.integers(2, 4000))) for _ in "ab"]
        found = {name: Bank(*(np.array([n]) for n in kind)) for name, kind in zip("ab", kinds, strict=True)}
        placed = place(board, found)
        half = [int(halves(bank.width, bank.rows)[0]) for bank in found.values()]
        (n, _, _), (m, _, _) = kinds
        moves = [(i, j) for i in range(n + 1) for j in range(m + 1) if i + j <= ultra_rams]
        fewest = min((n - i) * half[0] + (m - j) * half[1] for i, j in moves)
        assert sum(blocks[0] for blocks in placed.halves.values()) == fewest
        assert sum(blocks[0] for blocks in placed.ultra_rams.values()) <= ultra_rams


def test_banks_that_take_every_block_can_be_placed():
    bank = {"b": Bank(*map(np.array, ([3], [36], [1024])))}
    assert place(ZC706, bank).block_rams.tolist() == [3.0]
    takes = 386.5
    for blocks, fits in ((387, True), (386, False)):
        supply = Supply.of(ZC706.model_copy(update={"block_rams": blocks}))
        demand = supply.demand(Tile(1024, 7, 128))
        assert demand.placed.block_rams == takes
        assert demand.within(supply.only(Resource.BLOCK_RAMS)) == fits


def test_every_design_of_a_space_can_be_placed():
    assert all(utilised(ZC706, tile).placed for tile in tiles_of(designs(Supply.of(ZC706))[:, ::211]))
    board = ZC706.model_copy(update=WITHOUT_LOGIC)
    every = designs(Supply.of(board))
    tiles = every[:, every[4] == 0]
    assert all(utilised(board, tile).placed for tile in tiles_of(tiles[:, ::211]))
    bits = designs(Supply.of(board, placed=False))
    lower = tiles[:, bits[0] > tiles[0]]
    assert lower.shape[1] > 1000
    assert not any(utilised(board, Tile(T_R + 2, *sizes)).placed for T_R, *sizes in tiles_of(lower[:, ::211]))
    assert np.array_equal(bits[1:], tiles[1:])
    assert (bits[0] >= tiles[0]).all()
    space = DesignSpace(Supply.of(board))
    corners = space.corners(space.boxes())
    for index, box in enumerate(space.boxes().T[::20]):
        assert (space.within(box[:, None]) <= corners[:, 20 * index, None]).all()


def test_a_search_finds_what_can_be_placed():
    network = load_network("resnet50")
    options = SearchOptions(b_max=1)
    found = search(network, ZC706, options).best.tile
    assert utilised(ZC706, found).placed
    paper = search(network, ZC706, options.model_copy(update={"overlap": Overlap.PAPER})).best.tile
    assert not utilised(ZC706, paper).placed
    half = Limits(max_ram_mbit=ZC706.on_chip_mbit / 2)
    fewer = search(network, ZC706, options.model_copy(update={"limits": half})).best.tile
    assert utilised(ZC706, fewer).total_block_rams <= 545 // 2
    with pytest.raises(InputError, match="no design fits: .* and 0 block RAMs"):
        DesignSpace(Supply.of(ZC706, Limits(max_ram_mbit=0.01)))


def test_what_cannot_be_placed_is_refused(fluidb):
    message = r"found 1,778.5 of 545 block RAMs; lower T_R to 1,024 at most, or count bits with --overlap paper"
    with pytest.raises(InputError, match=message):
        check_fit(Supply.of(ZC706), Tile(4652, 7, 128))
    check_fit(Supply.of(ZC706, placed=False), Tile(4652, 7, 128))
    check_fit(Supply.of(ZC706.model_copy(update={"block_rams": None, **WITHOUT_LOGIC})), Tile(4652, 7, 128))
    found = fluidb("dse", "resnet50", "zc706", "--tile", "4652,7,128")
    assert (found.returncode, len(found.stderr.splitlines())) == (2, 1)
    assert fluidb("dse", "resnet50", "zc706", "--tile", "4652,7,128", "--overlap", "paper").returncode == 0


def test_figures_of_blocks():
    """Of a design that fits the board's bits; the buffers of its outputs take most."""
    shares = utilised(ZC706, Tile(4652, 7, 128))
    assert shares.block_rams == {"inputs": 112, "sums": 1024, "stores": 640, "beats": 2.5, "residuals": 0}
    assert (shares.total_block_rams, shares.placed, shares.largest_T_R) == (1778.5, False, 1024)
    at_most = utilised(ZC706, Tile(1024, 7, 128))
    assert (at_most.total_block_rams, at_most.lutram_luts, at_most.placed) == (386.5, 8408, True)
    assert board_use(load_platform("nvdla"), Tile(1024, 4, 4)) is None


def test_the_page_says_which_blocks_the_designs_of_table_i_take():
    page = (ROOT / "docs" / "model.md").read_text()
    rows = re.findall(r"^\| <([\d,]+)>, (ZC\w+) \| (.+) of \d+ \| (.*)\| ([\d,]+) \|$", page, re.MULTILINE)
    assert len(rows) == 4
    for tile, name, blocks, ultra_rams, largest in rows:
        shares = utilised(ZC706 if name == "ZC706" else ZCU104, Tile(*map(int, tile.split(","))))
        assert (f"{shares.total_block_rams:,g}", f"{shares.largest_T_R:,}") == (blocks, largest)
        assert ultra_rams.strip() == (
            f"{shares.total_ultra_rams} of {shares.ultra_rams_of_board}" if name == "ZCU104" else ""
        )
