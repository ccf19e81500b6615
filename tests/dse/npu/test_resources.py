"""Blocks of an FPGA: against Yosys, against brute force, and against the figures of the docs."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections import Counter

import numpy as np
import pytest
from builders import DATA, tool
from fluidb.dse.npu.resources import banks, block_rams_of, halves, most_rows, needs, place
from fluidb.dse.npu.space import Tile, designs
from fluidb.platforms import Board, load_platform

RTL = DATA / "engine_memories.v"
ZC706 = load_platform("zc706")
ZCU104 = load_platform("zcu104")


def board_of(**keys: object) -> Board:
    return load_platform("zcu104").model_copy(update=keys)


def synthesised(sources: str, top: str) -> dict[str, Counter[str]]:
    """Cells of each module that Yosys places for a Series 7 device; what follows the memories moves none of those."""
    script = f"{sources}; synth_xilinx -family xc7 -top {top} -flatten -run begin:fine; tee -o /dev/stdout stat"
    done = subprocess.run([tool("yosys"), "-q", "-p", script], capture_output=True, text=True, check=True, timeout=300)
    modules = re.split(r"^=== (?:design )?(.*) ===$", done.stdout, flags=re.M)[1:]
    cells = [re.findall(r"^ +(DSP48E1|RAMB\w+|RAM\d+M) +(\d+)$", text, re.M) for text in modules[1::2]]
    return {name: Counter({cell: int(n) for cell, n in found}) for name, found in zip(modules[::2], cells, strict=True)}


def engine(tile: Tile, port_words: int, sum_bits: int = 48) -> Counter[str]:
    parameters = {**tile._asdict(), "PORT": port_words, "SUM": sum_bits}
    sets = " ".join(f"-set {key} {value}" for key, value in parameters.items())
    found = synthesised(f"read_verilog {RTL}; chparam {sets} engine_memories", "engine_memories")
    return found["engine_memories"]


def expected(board: Board, tile: Tile, sum_bits: int) -> Counter[str]:
    """Cells by the model: a bank is of blocks of 36 Kb, or of 18 Kb if it takes an odd number of those."""
    found = Counter({"DSP48E1": tile.dsps})
    for bank in banks(board, *tile, sum_bits).values():
        each = int(halves(bank.width, bank.rows))
        found["RAMB18E1" if each % 2 else "RAMB36E1"] += int(bank.count) * (each if each % 2 else each // 2)
    return +found


@pytest.mark.parametrize(
    ("tile", "port_words", "sum_bits"),
    [
        pytest.param(Tile(1024, 2, 3), 16, 48, id="1024"),
        pytest.param(Tile(4652, 7, 2), 16, 48, id="4652"),
        pytest.param(Tile(1536, 3, 4), 32, 36, id="1536"),
        pytest.param(Tile(6832, 2, 3), 48, 48, id="6832"),
        pytest.param(Tile(4096, 4, 4), 16, 48, id="4096"),
    ],
)
def test_yosys_places_as_many_blocks(tile, port_words, sum_bits):
    board = ZC706.model_copy(update={"port_words": port_words})
    assert engine(tile, port_words, sum_bits) == expected(board, tile, sum_bits)


def test_yosys_places_as_many_blocks_for_a_bank(tmp_path):
    """Shapes of which a rule by whole rows of blocks, or one that uses no parity bit, counts more."""
    shapes = [(10, 16384), (48, 1536), (16, 2050), (48, 2560), (256, 582), (768, 300), (3, 5000), (16, 65)]
    text = "module shapes(input clk, we, input [15:0] w, r, input [1023:0] d);"
    text += "".join(f" one{i} b{i}(clk, we, w, r, d);" for i in range(len(shapes))) + " endmodule"
    for i, (width, rows) in enumerate(shapes):
        ports = f"input clk, we, input [15:0] w, r, input [{width - 1}:0] d, output [{width - 1}:0] q"
        bank = f"bank #(.WIDTH({width}), .DEPTH({rows})) held(clk, we, w, d, r, q);"
        text += f"\n(* keep_hierarchy *) module one{i}({ports}); {bank} endmodule"
    (tmp_path / "all.v").write_text(text)
    found = synthesised(f"read_verilog {RTL} {tmp_path / 'all.v'}", "shapes")
    for i, (width, rows) in enumerate(shapes):
        blocks = found[f"one{i}"]
        assert 2 * blocks["RAMB36E1"] + blocks["RAMB18E1"] == halves(width, rows), (width, rows)


def test_yosys_makes_shallow_banks_of_look_up_tables():
    tile = Tile(64, 2, 2)
    found = engine(tile, 16)
    wanted = needs(ZC706, tile)
    assert found["RAMB36E1"] + found["RAMB18E1"] / 2 == wanted.total_block_rams == 2 * 0.5
    assert 4 * found["RAM64M"] + 4 * found["RAM32M"] == wanted.lutram_luts


@pytest.mark.parametrize("ultra_rams", [None, 7, 96])
@pytest.mark.parametrize(("sum_bits", "persistent_bits"), [(48, 0), (16, 0), (36, 100_000)])
def test_the_most_rows_equal_brute_force(ultra_rams, sum_bits, persistent_bits):
    """Every even T_R from two on: none that can be placed follows the first that cannot."""
    draw = np.random.default_rng(5)
    for _ in range(8):
        board = board_of(block_rams=int(draw.integers(5, 60)), ultra_rams=ultra_rams, port_words=None)
        T_P, T_C = (int(draw.integers(1, most)) for most in (9, 24))
        rows = np.arange(2, 400_000, 2)
        fits = place(board, banks(board, rows, T_P, T_C, sum_bits, persistent_bits)).fits
        largest = int(most_rows(board, T_P, T_C, sum_bits, persistent_bits))
        assert not fits[-1]
        assert largest == max(rows[fits], default=0)
        assert fits.sum() == largest / 2


def test_the_most_rows_of_all_designs_at_once():
    found = designs(ZC706)[::97]
    together = most_rows(ZC706, found[:, 1], found[:, 2])
    assert together.tolist() == [int(most_rows(ZC706, T_P, T_C)) for _, T_P, T_C in found]


def fewest(board: Board, tile: Tile) -> int:
    """The fewest blocks of 18 Kb, over all numbers of banks that UltraRAMs may hold."""
    (a, b, c), ultra_rams = banks(board, *tile).values(), board.ultra_rams or 0
    count = [int(bank.count) for bank in (a, b, c)]
    half = [int(halves(bank.width, bank.rows)) for bank in (a, b, c)]
    ultra = [-(-int(bank.width) // 72) * -(-int(bank.rows) // 4096) for bank in (a, b, c)]
    return min(
        sum((n - m) * each for n, m, each in zip(count, moved, half, strict=True))
        for moved in itertools.product(*(range(n + 1) for n in count))
        if sum(m * each for m, each in zip(moved, ultra, strict=True)) <= ultra_rams
    )


@pytest.mark.parametrize("ultra_rams", [0, 1, 9, 20, 60])
def test_ultra_rams_take_what_leaves_nearly_the_fewest_blocks(ultra_rams):
    """Whole buffers and a part of one more: never below the fewest, and above by less than a bank of each buffer."""
    board = board_of(ultra_rams=ultra_rams)
    for tile in (Tile(1024, 3, 12), Tile(5000, 2, 10), Tile(9000, 4, 6), Tile(40, 3, 12)):
        placed = place(board, banks(board, *tile))
        blocks = int(sum(placed.halves.values()))
        each = sum(int(halves(bank.width, bank.rows)) for bank in banks(board, *tile).values())
        assert 0 <= blocks - fewest(board, tile) <= each
        assert sum(placed.ultra_rams.values()) <= ultra_rams


def test_a_board_without_blocks_is_taken_to_have_memory_of_them_only():
    board = board_of(block_rams=None, ultra_rams=None)
    assert block_rams_of(board) == 38 * 2**20 // 36864 == 1080
    found = needs(board, Tile(1024, 10, 172))
    assert (found.assumed, found.block_rams_of_board, found.ultra_rams) == (True, 1080, {})
    assert needs(load_platform("nvdla"), Tile(1024, 4, 4)) is None


def test_a_design_with_more_dsps_than_the_board_cannot_be_placed():
    assert needs(ZC706, Tile(64, 9, 100)).placed
    assert not needs(ZC706, Tile(64, 9, 101)).placed


def test_figures_of_blocks():
    """Of a design that fits the board's bits; the buffers of its output take most."""
    found = needs(ZC706, Tile(4652, 7, 128))
    assert found.block_rams == {"inputs": 52.5, "sums": 960, "stores": 640}
    assert (found.total_block_rams, found.placed, found.largest_T_R) == (1652.5, False, 1536)
    at_most = needs(ZC706, Tile(1536, 7, 128))
    assert (at_most.total_block_rams, at_most.placed) == (540, True)
    assert not needs(ZC706, Tile(1538, 7, 128)).placed
    assert needs(ZC706, Tile(4096, 7, 128), sum_bits=16).block_rams == {"inputs": 28, "stores": 512}
