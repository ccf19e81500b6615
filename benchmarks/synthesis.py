"""Look-up tables and flip-flops of the NPU and of its parts, as Yosys places them.

Writes ``synthesis.csv``, one row for each part at each size, to which ``dse/npu/logic.py`` is fitted.  Parts are
synthesised apart; a whole engine, and the sizes in ``CHECKS``, are for the comparison only.

A row says with a digest of what sources it was synthesised; rows of others, and those that are missing, are made.
``table`` compares the whole engines with what is counted of them, and says which rows are of older sources.

Yosys lets a small table, of one or two inputs, share one with a table of three or four; of small ones without such a
table, two share one.  Which of both are left over is known only of a whole, so a part has two counts.
"""

from __future__ import annotations

import csv
import hashlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fluidb.dse.hardware.templates import ENGINE as SOURCE
from fluidb.dse.hardware.templates import RTL, filled
from fluidb.dse.npu.fbcb import batch_bits, entry_bits
from fluidb.dse.npu.resources import Demand
from fluidb.dse.npu.tiles import Tile
from fluidb.platforms import load_platform

HERE = Path(__file__).parent
TABLE = HERE / "synthesis.csv"


class Size(NamedTuple):
    """A design, words of a beat, most samples side by side; of a control block its layers, samples, bits of blocks."""

    T_R: int
    T_P: int
    T_C: int
    W: int
    S: int
    layers: int = 0
    b_max: int = 0
    block_bits: int = 0


class Row(NamedTuple):
    """What a part takes."""

    part: str
    size: Size
    luts: int  # of three inputs or more, without memories; of a whole engine all, as placed
    unpaired: int  # small ones that share none with a table of three or four inputs; less than 0 if too few
    memory_luts: int
    flip_flops: int
    sources: str = ""  # a digest of what was synthesised


ELEMENTS = [(2, 2), (4, 2), (7, 2), (4, 1), (2, 8)]
WEIGHTS = [
    (7, 8, 16, 2), (2, 8, 4, 2), (12, 8, 8, 2), (4, 8, 32, 2), (4, 8, 4, 1), (3, 8, 8, 8), (4, 128, 8, 8),
    (2, 64, 4, 4),
]  # fmt: skip
SIZES = {
    "elements": [Size(1024, T_P, 8, 16, S) for T_P, S in ELEMENTS],
    "maxima": [Size(1024, T_P, 8, 16, 1) for T_P in (3, 4, 7, 12)],
    "weights": [Size(1024, *of) for of in WEIGHTS],
    "sums": [Size(T_R, 4, 8, 8, 2) for T_R in (64, 1024, 4000)],
    "inputs": [
        Size(1024, 2, 8, 4, 2), Size(1024, 1, 8, 16, 2), Size(2048, 1, 8, 4, 4), Size(1024, 4, 8, 8, 2),
        Size(1024, 7, 8, 4, 1),
    ],
    "outputs": [
        Size(64, 4, 4, 4, 2), Size(64, 4, 20, 4, 2), Size(1024, 4, 16, 8, 2), Size(2048, 4, 12, 16, 2),
        Size(1024, 4, 32, 8, 2),
    ],
    "residual": [Size(64, 4, 4, W, 2) for W in (4, 8, 16)],
    "loader": [Size(64, 4, 4, 4, 2), Size(1024, 4, 8, 16, 2), Size(1024, 4, 8, 32, 2)],
    "control": [
        Size(64, 4, 4, 4, 2), Size(1024, 4, 16, 8, 2), Size(64, 7, 8, 4, 1),
        Size(256, 4, 8, 4, 4), Size(64, 4, 4, 16, 2),
    ],
    "fbe": [Size(0, 0, 0, 0, 0, *of) for of in ((8, 4, 0), (10, 6, 3), (20, 8, 4), (63, 8, 4))],
    "top": [Size(64, 4, 4, 4, 2, 10, 6, 3), Size(64, 4, 4, 16, 2, 8, 8, 2)],
    "engine": [Size(64, 4, 4, 4, S) for S in (2, 8)],
}  # fmt: skip

CHECKS = {
    **{part: [Size(64, 4, 4, 4, 2)] for part in ("elements", "weights", "sums")},
    "maxima": [Size(1024, 5, 8, 16, 2)],
    "inputs": [
        Size(64, 4, 4, 4, 2), Size(64, 3, 8, 8, 1), Size(1024, 7, 8, 8, 2), Size(1024, 8, 8, 4, 1),
        Size(1024, 4, 8, 2, 2),
    ],
    "outputs": [Size(512, 4, 32, 32, 2)],
}  # fmt: skip
"""Sizes to which nothing is fitted."""

# Two neighbours differ, so both are in a part.  Without samples side by side there is no choice of one.
WRAPPERS = """
module part_elements #(parameter int FIRST = 4) (input wire clk, input wire maximum, input wire engine_pkg::code_t k,
    input wire engine_pkg::inputs_t x, input wire moves,
    input wire [2*16*engine_pkg::T_P-1:0] weight, input wire [4*engine_pkg::SLOT_BITS-1:0] slot,
    output wire [4*48-1:0] sums);
  for (genvar e = 0; e < 2; e++) begin : gen_two
    element #(.E(FIRST + e)) one (.clk, .maximum, .k, .x, .moves,
        .weight(weight[e*16*engine_pkg::T_P+:16*engine_pkg::T_P]),
        .slot((engine_pkg::S > 1) ? slot[e*2*engine_pkg::SLOT_BITS+:2*engine_pkg::SLOT_BITS] : '0),
        .lower(sums[e*96+:48]), .upper(sums[e*96+48+:48]));
  end
endmodule

module part_maxima (input wire clk, input wire maximum, input wire engine_pkg::code_t k,
    input wire engine_pkg::inputs_t x, input wire moves,
    input wire [2*16*engine_pkg::T_P-1:0] weight, input wire [4*engine_pkg::SLOT_BITS-1:0] slot,
    output wire [4*48-1:0] sums);
  part_elements #(.FIRST(0)) first (.*);
endmodule

module part_weights (input wire clk, input wire engine_pkg::code_t k, input wire engine_pkg::columns_t ends,
    input wire engine_pkg::columns_t begins, input wire engine_pkg::column_t count, input wire write,
    input engine_pkg::load_t beat, input wire engine_pkg::beat_t words, input wire half,
    output wire [2*16*engine_pkg::T_P-1:0] weight, output wire [4*engine_pkg::SLOT_BITS-1:0] slot);
  wire [4*engine_pkg::SLOT_BITS-1:0] of;
  for (genvar e = 0; e < 2; e++) begin : gen_two
    weights #(.E(4 + e)) one (.clk, .k, .ends, .begins, .count, .write, .beat, .words, .half,
        .weight(weight[e*16*engine_pkg::T_P+:16*engine_pkg::T_P]),
        .slot(of[e*2*engine_pkg::SLOT_BITS+:2*engine_pkg::SLOT_BITS]));
  end
  assign slot = (engine_pkg::S > 1) ? of : '0;
endmodule

module part_loader (input wire clk, input wire begins, input wire start, input wire take, input engine_pkg::job_t job,
    input engine_pkg::tile_t tile, output wire made, output engine_pkg::number_t address,
    output wire [99+engine_pkg::W:0] used);
  engine_pkg::load_t beat;
  engine_pkg::map_t on_map;
  load_beats one (.clk, .begins, .made, .start, .take, .job, .tile, .half(1'b0), .address, .beat, .on_map);
  assign used = {beat.weights, beat.first, beat.last, beat.half, beat.p, beat.row[15:0], beat.column[15:0], beat.count,
      on_map};
endmodule
"""

# In place of the parts that stand in rows of their own, modules that only use what these use.
STUBS = """
(* blackbox, keep *) module taps #(parameter int IN = 1, parameter int OUT = 1) (input wire clk, input wire [IN-1:0] in,
    output wire [OUT-1:0] out);
endmodule

module inputs (input wire clk, input wire engine_pkg::code_t k, input wire one,
    input wire engine_pkg::number_t stride_x,
    input wire engine_pkg::number_t slot_rows, input engine_pkg::load_t next_beat,
    input wire engine_pkg::map_t next_map, input wire write,
    input engine_pkg::load_t beat, input wire engine_pkg::beat_t words, input wire half,
    input wire engine_pkg::number_t row, output engine_pkg::pixels_t x);
  localparam int BITS = $clog2(2 * engine_pkg::T_P + 1);
  localparam int TURN = (engine_pkg::N > 1) ? $clog2(engine_pkg::N) : 1;
  localparam int ROW = $clog2(2 * engine_pkg::HALF_LINES) + $clog2(engine_pkg::N);
  localparam int COUNT = $clog2(engine_pkg::W + 1);
  taps #(.IN(3 + TURN + 2*BITS + 2*ROW + COUNT + 17*engine_pkg::W),
      .OUT(engine_pkg::V*2*engine_pkg::T_P*engine_pkg::S*16)) used (.clk,
      .in({next_beat.p[BITS-1:0], next_beat.row[ROW-1:0], next_beat.count[BITS-1:0], next_map, write, beat.half,
      beat.row[TURN-1:0], beat.count[COUNT-1:0], words, half, row[ROW-1:0]}), .out(x));
endmodule

module weights #(parameter int E = 0) (input wire clk, input wire engine_pkg::code_t k,
    input wire engine_pkg::columns_t ends, input wire engine_pkg::columns_t begins,
    input wire engine_pkg::column_t count, input wire write, input engine_pkg::load_t beat,
    input wire engine_pkg::beat_t words, input wire half, output engine_pkg::weights_t weight,
    output engine_pkg::slots_t slot);
  localparam int COLUMN = engine_pkg::COLUMN_BITS + 1;
  localparam int ENDS = (engine_pkg::S > 1) ? COLUMN * (engine_pkg::S - 1) : 1;
  localparam int BITS = $clog2(2 * engine_pkg::T_P + 1);
  localparam int BEGINS = COLUMN * engine_pkg::S;
  taps #(.IN(4 + BITS + ENDS + BEGINS + $clog2(engine_pkg::W + 1) + 16*engine_pkg::W),
      .OUT(16*engine_pkg::T_P + 2*engine_pkg::SLOT_BITS)) used (.clk,
      .in({write, beat.half, beat.first, beat.p[BITS-1:0], (engine_pkg::S > 1) ? ends[ENDS-1:0] : 1'b0, begins,
      count[$clog2(engine_pkg::W + 1)-1:0], words, half}), .out({weight, slot}));
endmodule

module element #(parameter int E = 0) (input wire clk, input wire maximum, input wire engine_pkg::code_t k,
    input wire engine_pkg::inputs_t x, input wire moves, input wire engine_pkg::weights_t weight,
    input wire engine_pkg::slots_t slot, output engine_pkg::sum_t lower, output engine_pkg::sum_t upper);
  taps #(.IN(1 + 2*engine_pkg::SLOT_BITS), .OUT(96)) used (.clk, .in({moves, slot}), .out({lower, upper}));
endmodule

module sums #(parameter int BANK = 0, parameter bit MAXIMA = 0) (input wire clk, input wire maximum,
    input wire engine_pkg::code_t k, input wire engine_pkg::shift_t shift,
    input wire valid, input wire first, input wire engine_pkg::number_t next_row, input wire engine_pkg::sum_t lower,
    input wire engine_pkg::sum_t upper,
    output engine_pkg::word_t out_lower, output engine_pkg::word_t out_upper);
  taps #(.IN(114), .OUT(32)) used (.clk, .in({valid, first, next_row[15:0], lower, upper}),
      .out({out_lower, out_upper}));
endmodule

module outputs #(parameter int ROW = 0) (input wire clk, input wire engine_pkg::code_t k, input wire one,
    input wire write,
    input wire half, input wire engine_pkg::number_t row, input engine_pkg::store_t beat,
    input wire engine_pkg::outputs_t outs, output engine_pkg::beat_t words);
  taps #(.IN(83 + engine_pkg::COLUMNS*16), .OUT(engine_pkg::W*16)) used (.clk, .in({write, half, row[15:0], beat.half,
      beat.column, beat.row, outs}), .out(words));
endmodule

module residual (input wire clk, input wire start, input wire engine_pkg::number_t addition, input wire comes,
    input wire engine_pkg::beat_t read_words, input wire pops, input wire engine_pkg::beat_t words,
    output engine_pkg::residuals_t sums);
  taps #(.IN(3 + engine_pkg::ADDITION_BITS + 32*engine_pkg::W), .OUT($bits(sums))) used (.clk,
      .in({start, addition[engine_pkg::ADDITION_BITS-1:0], comes, read_words, pops, words}), .out(sums));
endmodule

module load_beats (input wire clk, input wire begins, input wire start, input wire take, input engine_pkg::job_t job,
    input engine_pkg::tile_t tile, input wire half, output wire made, output engine_pkg::number_t address,
    output engine_pkg::load_t beat, output engine_pkg::map_t on_map);
  localparam int TILE = 15 * 32 + 1;
  taps #(.IN(4 + TILE), .OUT(33 + engine_pkg::LOAD_BITS)) used (.clk, .in({begins, start, take, half, tile.x, tile.w,
      tile.columns, tile.column, tile.offset, tile.depth, tile.height, tile.last_height, tile.slots, tile.loaded,
      tile.at, tile.in_line, tile.row_x[15:0], tile.row_y[15:0], tile.window_x[15:0], tile.window_y[15:0],
      tile.has_last, tile.ends[31:0]}), .out({made, address, beat, on_map}));
endmodule
"""

TOPS = {part: part for part in ("inputs", "outputs", "residual", "sums")} | {
    **{part: f"part_{part}" for part in ("elements", "maxima", "weights", "loader")},
    "control": "engine", "engine": "engine", "fbe": "fbe", "top": "npu",
}  # fmt: skip
"""The module of each part."""

BEYOND = {"fbe": [RTL / "fbcb.sv", RTL / "fbe.sv"], "top": [RTL / "fbe.sv", RTL / "npu.sv", SOURCE / "engine.sv"]}
"""Parts of the NPU beside its engine, and their files."""

APART = ("element", "inputs", "load_beats", "outputs", "residual", "scale", "sums", "weights")
"""Files that are not of ``control``."""


INSTANCE = r"^\s+{}\s+(?:#\(|\w+ \()"
MODULE = re.compile(r"^((?:\(\*.*\*\) )?module (\w+)\b.*?^endmodule)", re.MULTILINE | re.DOTALL)


def control_block(size: Size) -> str:
    """The package of the Fluid Batching Engine, with entries of zeros."""
    layers, b_max, block_bits = size[5:]
    bits = entry_bits(b_max, block_bits)
    return filled(
        "fbe_pkg.sv", layers=layers, b_max=b_max, block_bits=block_bits, batch_bits=batch_bits(b_max), entry_bits=bits,
        address_bits=(layers * b_max - 1).bit_length(), layer_bits=(layers - 1).bit_length(),
        count_bits=b_max.bit_length(), literal=0, one_by_one="0" * layers, row_top=b_max * bits - 1,
        rows="".join(f"{layer}: fbcb_row = '0;" for layer in range(layers)),
    )  # fmt: skip


def closure(first: str, texts: Mapping[str, str]) -> list[str]:
    """The names of a module and of all modules that it has, among those with a text."""
    needed, new = {first}, [first]
    while new:
        text = texts[new.pop()]
        below = {name for name in texts if re.search(INSTANCE.format(name), text, re.MULTILINE)} - needed
        needed |= below
        new += below
    return sorted(needed)


def sources(part: str, size: Size) -> dict[str, str]:
    """The files of a part: its packages, its module, and the modules that it has.

    No others: Yosys numbers what it reads, and its results depend a little on these numbers.
    """
    packages = {"engine_pkg.sv": filled("engine_pkg.sv", **size._asdict(), V=1)}
    if part in BEYOND:
        packages["fbe_pkg.sv"] = control_block(size)
    of_engine = (path for path in sorted(SOURCE.glob("*.sv")) if part != "control" or path.stem not in APART)
    texts = [path.read_text(encoding="utf-8") for path in BEYOND.get(part, of_engine)]
    written = STUBS if part == "control" else WRAPPERS
    modules = {name: text for text, name in MODULE.findall("\n".join([*texts, written]))}
    return packages | {f"{name}.sv": modules[name] for name in closure(TOPS[part], modules)}


def digest(part: str, size: Size) -> str:
    """Twelve digits for the files of a part."""
    return hashlib.sha256("\0".join(sources(part, size).values()).encode()).hexdigest()[:12]


def synthesise(part: str, size: Size) -> Row:
    """Count what Yosys places of a part for a Series 7 device."""
    files = sources(part, size)
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text)
        script = (
            f"read_verilog -sv {' '.join(files)}; {'blackbox engine fbe; ' if part == 'top' else ''}"
            f"synth_xilinx -family xc7 -noiopad -flatten -top {TOPS[part]}; tee -q -o cells stat -tech xilinx"
        )
        subprocess.run(["yosys", "-q", "-p", script], cwd=folder, check=True, capture_output=True)
        text = Path(folder, "cells").read_text()
    cells = {name: int(number) for name, number in re.findall(r"^ +([A-Z]\w+) +(\d+)$", text, re.MULTILINE)}
    estimated = int(re.findall(r"Estimated number of LCs: +(\d+)", text)[-1])

    def count(pattern: str) -> int:
        return sum(number for cell, number in cells.items() if re.fullmatch(pattern, cell))

    luts = count("LUT[3-6]")
    unpaired = count("LUT2") + max(count("LUT1") - count("LUT5"), 0) - count("LUT[34]")
    assert estimated == luts + max(unpaired + 1, 0) // 2
    if part == "engine":
        luts, unpaired = estimated, 0
    halved = 2 if part in ("elements", "maxima", "weights") else 1
    row = Row(
        part,
        size,
        (luts + count(r"SRL\w+")) // halved,
        unpaired // halved,
        4 * count(r"RAM\d+M"),
        count(r"FD\w+") // halved,
        digest(part, size),
    )
    if part != "maxima":
        return row
    others = synthesise("elements", size)  # which find no maxima: the part is what is beyond these
    counts = (one - other for one, other in zip(row[2:6], others[2:6], strict=True))
    return Row._make([part, size, *counts, row.sources])


def read_table() -> list[Row]:
    """The rows of the table."""
    with TABLE.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    sizes = len(Size._fields)
    return [Row._make([part, Size(*map(int, row[:sizes])), *map(int, row[sizes:-1]), row[-1]]) for part, *row in rows]


def write_table(rows: list[Row]) -> None:
    """Write the rows of the table."""
    with TABLE.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["part", *Size._fields, *Row._fields[2:]])
        table.writerows([row.part, *row.size, *row[2:]] for row in rows)


def counted(size: Size) -> tuple[float, float]:
    """Look-up tables and flip-flops of a whole engine by the model."""
    board = load_platform("zc706").model_copy(update={"port_words": size.W, "bandwidth_gb_s": 0.1})
    logic = Demand(board, Tile(*size[:3]), size.S).logic
    for counts in logic:
        for part in BEYOND:
            counts.pop(part, None)
    return float(logic.total_luts), float(logic.total_flip_flops)


def table_text(rows: list[Row]) -> str:
    """The block of docs/model.md: whole engines, and which rows are of older sources."""
    lines = [f"{'engine':<14}{'W':>3}{'S':>3}{'LUTs':>9}{'counted':>9}{'':>8}{'flip-flops':>12}{'counted':>9}"]
    for part, size, *counts, _ in rows:
        if part != "engine":
            continue
        luts, flip_flops = counts[0] + counts[2], counts[3]
        by_model = counted(size)
        cells = [f"{by:>9,.0f}{by / of - 1:>+8.1%}" for by, of in zip(by_model, (luts, flip_flops), strict=True)]
        name = f"<{size.T_R},{size.T_P},{size.T_C}>"
        lines.append(f"{name:<14}{size.W:>3}{size.S:>3}{luts:>9,}{cells[0]}{flip_flops:>12,}{cells[1]}")
    older = Counter(row.part for row in rows if row.sources != digest(row.part, row.size))
    every = Counter(row.part for row in rows)
    parts = ", ".join(f"{part} {older[part]} of {every[part]}" for part in every if older[part])
    return "\n".join([*lines, f"rows of older sources: {parts or 'none'}"])


def main() -> None:
    """Synthesise every part, or those named, where the table lacks a row or has one of other sources."""
    if "table" in sys.argv:
        print(table_text(read_table()))
        return
    known = {(row.part, row.size): row for row in read_table()} if TABLE.exists() else {}
    for part in sys.argv[1:] or list(SIZES):
        for size in SIZES[part] + CHECKS.get(part, []):
            if (part, size) in known and known[part, size].sources == digest(part, size):
                continue
            known[part, size] = synthesise(part, size)
            print(*known[part, size], flush=True)
            sizes = [(name, of) for name in SIZES for of in SIZES[name] + CHECKS.get(name, [])]
            write_table([known[key] for key in sizes if key in known])


if __name__ == "__main__":
    main()
