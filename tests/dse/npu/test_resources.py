"""Blocks of an FPGA: the engine as Yosys places it, brute force, and figures of the docs."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from builders import tool
from fluidb.dse import Limits, Overlap, SearchOptions, Tile, read_design, search
from fluidb.dse.npu.hardware import package_text
from fluidb.dse.npu.resources import Bank, Needs, banks, cells, halves, most_rows, needs, place
from fluidb.dse.npu.space import DesignSpace, check_fit, designs
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import Board, load_platform
from test_engine import SOURCE, Design, write_package

ZC706, ZCU104 = load_platform("zc706"), load_platform("zcu104")


def needed(board: Board, tile: Tile) -> Needs:
    found = needs(board, tile)
    assert found is not None
    return found


def synthesised(sources: str, top: str, folder: Path) -> dict[str, Counter[str]]:
    """Cells of each module that Yosys places for a Series 7 device; what follows the memories moves none of those."""
    script = (
        f"read_verilog -sv {sources}; synth_xilinx -family xc7 -top {top} -flatten -run begin:fine; tee -o out stat"
    )
    subprocess.run([tool("yosys"), "-q", "-p", script], cwd=folder, capture_output=True, check=True)
    modules = re.split(r"^=== (?:design )?(.*) ===$", (folder / "out").read_text(), flags=re.MULTILINE)[1:]
    found = [re.findall(r"^ +(DSP48E1|RAMB\w+|RAM\d+M) +(\d+)$", text, re.MULTILINE) for text in modules[1::2]]
    return {name: Counter({cell: int(n) for cell, n in row}) for name, row in zip(modules[::2], found, strict=True)}


def expected(board: Board, tile: Tile) -> Counter[str]:
    """Cells by the model: a bank is of blocks of 36 Kb, or of 18 Kb if it takes an odd number of those."""
    found = Counter({"DSP48E1": tile.macs})
    for bank in banks(board, *tile).values():
        each, cell = int(halves(bank.width, bank.rows)), "RAMB36E1"
        if each % 2:
            cell = "RAMB18E1"
        found[cell] += int(bank.number) * (each if each % 2 else each // 2)
        found["RAM"] += int(bank.number * cells(bank.width, bank.rows)) * (each == 0)
    return +found


MORE = [
    Design(1024, 2, 2, 4, 2), Design(1100, 1, 2, 8, 2), Design(1536, 1, 3, 4, 2), Design(4096, 1, 2, 2, 1),
    Design(2200, 1, 1, 2, 1, 2),
]  # fmt: skip
"""Each takes Yosys half a minute; ``FLUIDB_ALL_DESIGNS=1`` runs all."""


@pytest.mark.parametrize(
    ("design", "top"),
    [
        (Design(1536, 1, 3, 2, 2), "engine"),  # more elements than words of a beat
        (Design(2742, 2, 1, 4, 4), "npu"),
        *((design, "engine") for design in (MORE if "FLUIDB_ALL_DESIGNS" in os.environ else [])),
    ],
    ids=str,
)
def test_yosys_places_as_many_blocks(tiny_design, design, top, tmp_path):
    """Also for the whole NPU: nothing beside the engine takes a DSP or a memory."""
    write_package(design, tmp_path)
    (tmp_path / "fbe_pkg.sv").write_text(package_text(*read_design(tiny_design)))
    others = [SOURCE.parent / name for name in ("fbcb.sv", "fbe.sv", "npu.sv")]
    sources = " ".join(["engine_pkg.sv", "fbe_pkg.sv", *sorted(map(str, SOURCE.glob("*.sv"))), *map(str, others)])
    found = synthesised(sources, top, tmp_path)[top]
    found["RAM"] = found.pop("RAM32M", 0) + found.pop("RAM64M", 0)
    board = ZC706.model_copy(update={"port_words": design.W, "bandwidth_gb_s": 0.1})
    assert board.port.words == design.W
    assert +found == expected(board, design.stacked(1))


def test_yosys_places_as_many_blocks_for_a_bank(tmp_path):
    """Shapes of which a rule by whole rows of blocks, one that uses no parity bit or one by rows counts otherwise."""
    shapes = [(10, 16384), (48, 1536), (16, 2050), (48, 2560), (256, 582), (3, 5000), (16, 65), (16, 128), (16, 129)]
    shapes += [(48, 65), (48, 128), (148, 128), (48, 33), (3, 64), (2, 8192)]
    text = "module shapes(input clk, we, input [15:0] w, r, input [255:0] d);"
    text += "".join(f" one{i} b{i}(clk, we, w, r, d);" for i in range(len(shapes))) + " endmodule"
    for i, (width, rows) in enumerate(shapes):
        ports = f"input clk, we, input [15:0] w, r, input [{width - 1}:0] d, output [{width - 1}:0] q"
        held = f"ram #(.WIDTH({width}), .DEPTH({rows})) held(clk, we, w, d, r, q);"
        text += f"\n(* keep_hierarchy *) module one{i}({ports}); {held} endmodule"
    (tmp_path / "all.sv").write_text(text)
    found = synthesised(f"{SOURCE / 'ram.sv'} all.sv", "shapes", tmp_path)
    for i, (width, rows) in enumerate(shapes):
        blocks = found[f"one{i}"]
        assert 2 * blocks["RAMB36E1"] + blocks["RAMB18E1"] == halves(width, rows), (width, rows)
        if not halves(width, rows):
            assert blocks["RAM32M"] + blocks["RAM64M"] == cells(width, rows), (width, rows)


@pytest.mark.parametrize("ultra_rams", [None, 7, 96])
def test_the_most_rows_equal_brute_force(ultra_rams):
    """Every even T_R from two on: none that can be placed follows the first that cannot."""
    draw = np.random.default_rng(5)
    for _ in range(12):
        board = ZCU104.model_copy(update={"block_rams": int(draw.integers(4, 60)), "ultra_rams": ultra_rams})
        T_P, T_C = (int(draw.integers(1, most)) for most in (9, 24))
        rows = np.arange(2, 400_000, 2)
        fits = place(board, banks(board, rows, T_P, T_C)).fits
        assert not fits[-1]
        largest = int(most_rows(board, T_P, T_C))
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
    fits = [place(ZC706.model_copy(update={"block_rams": blocks}), bank).fits.tolist() for blocks in (3, 2)]
    assert fits == [[True], [False]]


def test_every_design_of_a_space_can_be_placed():
    assert all(needed(ZC706, Tile(*tile)).placed for tile in designs(ZC706)[::53].tolist())
    board = ZC706.model_copy(update={"flip_flops": None})  # without look-up tables and flip-flops
    space = designs(board)
    assert all(needed(board, Tile(*tile)).placed for tile in space[::53].tolist())
    bits = designs(board, placed=False)
    lower = space[bits[:, 0] > space[:, 0]]
    assert len(lower) > 1000
    assert not any(needed(board, Tile(T_R + 2, *sizes)).placed for T_R, *sizes in lower[::53].tolist())
    assert np.array_equal(bits[:, 1:], space[:, 1:])
    assert (bits[:, 0] >= space[:, 0]).all()
    boxes = DesignSpace(board)
    corners = boxes.corners(boxes.boxes())
    for index, box in enumerate(boxes.boxes().T[::20]):
        assert (boxes.within(box[:, None]) <= corners[20 * index]).all()


def test_a_search_finds_what_can_be_placed():
    network = load_network("resnet50")
    options = SearchOptions(b_max=1)
    found = search(network, ZC706, options).best.tile
    assert needed(ZC706, found).placed
    paper = search(network, ZC706, options.model_copy(update={"overlap": Overlap.PAPER})).best.tile
    assert not needed(ZC706, paper).placed
    half = Limits(max_ram_mbit=ZC706.on_chip_mbit / 2)
    fewer = search(network, ZC706, options.model_copy(update={"limits": half})).best.tile
    assert needed(ZC706, fewer).total_block_rams <= 545 // 2
    with pytest.raises(InputError, match="no design fits: .* and 0 block RAMs"):
        DesignSpace(ZC706, Limits(max_ram_mbit=0.01))


def test_what_cannot_be_placed_is_refused(fluidb):
    message = r"found 1,778.5 of 545 block RAMs; lower T_R to 1,024 at most, or count bits with --overlap paper"
    with pytest.raises(InputError, match=message):
        check_fit(ZC706, Tile(4652, 7, 128))
    check_fit(ZC706, Tile(4652, 7, 128), placed=False)
    check_fit(ZC706.model_copy(update={"block_rams": None}), Tile(4652, 7, 128))
    found = fluidb("dse", "resnet50", "zc706", "--tile", "4652,7,128")
    assert (found.returncode, len(found.stderr.splitlines())) == (2, 1)
    assert fluidb("dse", "resnet50", "zc706", "--tile", "4652,7,128", "--overlap", "paper").returncode == 0


def test_figures_of_blocks():
    """Of a design that fits the board's bits; the buffers of its outputs take most."""
    found = needed(ZC706, Tile(4652, 7, 128))
    assert found.block_rams == {"inputs": 112, "sums": 1024, "stores": 640, "beats": 2.5}
    assert (found.total_block_rams, found.placed, found.largest_T_R) == (1778.5, False, 1024)
    at_most = needed(ZC706, Tile(1024, 7, 128))
    assert (at_most.total_block_rams, at_most.lutram_luts, at_most.placed) == (386.5, 8064, True)
    assert needs(load_platform("nvdla"), Tile(1024, 4, 4)) is None
