"""DSPs and memories of the engine as Yosys places them."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from builders import tool
from fluidb.dse import Tile, read_design
from fluidb.dse.hardware.templates import ENGINE as SOURCE
from fluidb.dse.hardware.templates import filled
from fluidb.dse.hardware.write import package_text, placement_text
from fluidb.dse.npu.banks import banks_of, cells, halves, place
from fluidb.platforms import Board, load_platform
from synthesis import Size, control_block
from test_engine import Design, write_package

ZC706 = load_platform("zc706")
SOURCES = " ".join(map(str, sorted(SOURCE.glob("*.sv"))))


def synthesised(sources: str, top: str, folder: Path, family: str = "xc7") -> dict[str, Counter[str]]:
    """Cells of each module that Yosys places for a device of a family.

    Its steps up to the memories, without those for arithmetic and for logic, which place no DSP and no memory.
    """
    steps = f"synth_xilinx -family {family} -top {top} -flatten -run"
    script = f"read_verilog -sv {sources}; {steps} begin:coarse; memory -nomap; opt_clean; {steps} map_memory:map_ffram"
    script += "; tee -o out stat"
    subprocess.run([tool("yosys"), "-q", "-p", script], cwd=folder, capture_output=True, check=True)
    modules = re.split(r"^=== (?:design )?(.*) ===$", (folder / "out").read_text(), flags=re.MULTILINE)[1:]
    found = [re.findall(r"^ +(DSP48E\d|RAMB\w+|U?RAM\d+M?) +(\d+)$", text, re.MULTILINE) for text in modules[1::2]]
    return {name: Counter({cell: int(n) for cell, n in row}) for name, row in zip(modules[::2], found, strict=True)}


def expected(board: Board, tile: Tile, samples: int) -> Counter[str]:
    """Cells by the model: a bank is of blocks of 36 Kb, or of 18 Kb if it takes an odd number of those."""
    counts = Counter({"DSP48E1": tile.macs})
    for bank in banks_of(board, tile, samples).values():
        each, cell = int(halves(bank.width, bank.rows)), "RAMB36E1"
        if each % 2:
            cell = "RAMB18E1"
        counts[cell] += int(bank.number) * (each if each % 2 else each // 2)
        counts["RAM"] += int(bank.number * cells(bank.width, bank.rows)) * (each == 0)
    return +counts


MORE = [
    Design(1024, 2, 2, 4, 2), Design(1100, 1, 2, 8, 2), Design(1536, 1, 3, 4, 2), Design(4096, 1, 2, 2, 1),
    Design(2200, 1, 1, 2, 1, 2), Design(1536, 1, 3, 2, 2), Design(2742, 2, 1, 4, 4), Design(2742, 2, 3, 2, 2),
    Design(2000, 1, 2, 2, 8),
]  # fmt: skip
"""Each takes Yosys a quarter of a minute; ``FLUIDB_ALL_DESIGNS=1`` runs them."""


@pytest.mark.skipif("FLUIDB_ALL_DESIGNS" not in os.environ, reason="minutes: FLUIDB_ALL_DESIGNS=1 runs them")
@pytest.mark.parametrize("design", MORE, ids=str)
def test_yosys_places_as_many_blocks(design, tmp_path):
    """Wherever Yosys itself places the memories."""
    write_package(design, tmp_path)
    found = synthesised(f"engine_pkg.sv {SOURCES}", "engine", tmp_path)["engine"]
    found["RAM"] = found.pop("RAM32M", 0) + found.pop("RAM64M", 0)
    board = ZC706.model_copy(update={"port_words": design.W, "bandwidth_gb_s": 0.1})
    assert board.usual_port_words == design.W
    assert +found == expected(board, design.stacked(1), design.S)


def test_yosys_places_as_many_blocks_and_ultra_rams(tiny_design, tmp_path):
    """As they are counted, for a device that has both; of the whole NPU nothing else takes a DSP or a memory."""
    board = load_platform("zcu104").model_copy(update={"port_words": 2, "bandwidth_gb_s": 0.1, "ultra_rams": 15})
    tile = Tile(2742, 2, 3)  # more elements than words of a beat
    placed = place(board, banks_of(board, tile, 2))
    assert [int(placed.ultra_rams[name]) for name in ("sums", "stores", "inputs", "beats")] == [6, 8, 1, 0]
    held = placement_text(board, tile, 2)
    (tmp_path / "engine_pkg.sv").write_text(filled("engine_pkg.sv", **tile._asdict() | {"W": 2}, S=2, memories=held))
    (tmp_path / "fbe_pkg.sv").write_text(package_text(*read_design(tiny_design)))
    others = " ".join(str(SOURCE.parent / name) for name in ("fbcb.sv", "fbe.sv", "npu.sv"))
    cells = synthesised(f"engine_pkg.sv fbe_pkg.sv {SOURCES} {others}", "npu", tmp_path, "xcup -uram")["npu"]
    blocks = 2 * cells.pop("RAMB36E2") + cells.pop("RAMB18E2", 0)
    assert (blocks, cells) == (sum(placed.halves.values()), {"DSP48E2": 6, "URAM288": 15})


def test_yosys_places_as_many_blocks_for_a_bank(tmp_path):
    """Shapes that other rules count otherwise: by whole rows of blocks, without parity bits, or by rows."""
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


LONGEST = {
    "element": 5, "weights": 8, "inputs": 9, "outputs": 9, "sums": 5, "tiles": 6, "load_beats": 10, "store_beats": 7,
    "port": 17, "residual": 3, "fbe": 7, "npu": 18,
}  # fmt: skip
"""Operators in a row on the longest path of each module, at most: a longer one lowers the clock of docs/npu.md."""


def test_no_path_of_a_module_grows(tmp_path):
    """Before logic is placed, which would take minutes: a sum or a choice counts as one, whatever its size."""
    write_package(Design(64, 2, 4, 8, 4), tmp_path)
    (tmp_path / "fbe_pkg.sv").write_text(control_block(Size(0, 0, 0, 0, 0, layers=10, b_max=8, block_bits=3)))
    sources = [*sorted(SOURCE.glob("*.sv")), *(SOURCE.parent / f"{name}.sv" for name in ("fbcb", "fbe", "npu"))]
    script = f"read_verilog -sv engine_pkg.sv fbe_pkg.sv {' '.join(map(str, sources))}; design -save all"
    for module in LONGEST:
        script += f"; design -load all; {'blackbox engine fbe; ' if module == 'npu' else ''}hierarchy -top {module}"
        script += "; proc; flatten; opt_expr; opt_clean; tee -a out ltp -noff"
    subprocess.run([tool("yosys"), "-q", "-p", script], cwd=tmp_path, capture_output=True, check=True)
    paths = re.findall(r"Longest topological path in (\w+) \(length=(\d+)\)", (tmp_path / "out").read_text())
    found = {module: int(length) for module, length in paths}
    assert found.keys() == LONGEST.keys()
    assert [module for module in found if found[module] > LONGEST[module]] == []
