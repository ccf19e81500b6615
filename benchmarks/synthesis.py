"""Look-up tables and flip-flops of the engine and of its parts, as Yosys places them.

Writes ``synthesis.csv``, one row for each part at each size, to which ``dse/npu/logic.py`` is fitted.  Parts are
synthesised apart from the engine; a whole engine is for the comparison only.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import NamedTuple

HERE = Path(__file__).parent
TABLE = HERE / "synthesis.csv"
SOURCE = HERE.parent / "dse" / "npu" / "rtl" / "engine"


class Size(NamedTuple):
    """A design, words of a beat, most samples side by side."""

    T_R: int
    T_P: int
    T_C: int
    W: int
    S: int


class Row(NamedTuple):
    """What a part takes."""

    part: str
    size: Size
    luts: int  # those of memories left out
    memory_luts: int
    flip_flops: int


ELEMENTS = [(2, 2), (4, 2), (7, 2), (4, 1), (2, 8)]
WEIGHTS = [(7, 16, 2), (2, 4, 2), (12, 8, 2), (4, 32, 2), (4, 4, 1), (3, 8, 8)]
SIZES = {
    "elements": [Size(1024, T_P, 8, 16, S) for T_P, S in ELEMENTS],
    "weights": [Size(1024, T_P, 8, W, S) for T_P, W, S in WEIGHTS],
    "sums": [Size(T_R, 4, 8, 8, 2) for T_R in (64, 1024, 4000)],
    "inputs": [
        Size(1024, 2, 8, 4, 2), Size(64, 3, 8, 8, 1), Size(1024, 1, 8, 16, 2), Size(2048, 1, 8, 4, 4),
        Size(1024, 7, 8, 8, 2), Size(1024, 4, 8, 8, 2), Size(1024, 7, 8, 4, 1),
    ],
    "outputs": [
        Size(64, 4, 20, 4, 2), Size(1024, 4, 16, 8, 2), Size(2048, 4, 12, 16, 2), Size(1024, 4, 32, 8, 2),
    ],
    "loader": [Size(1024, 4, 8, W, 2) for W in (4, 16, 32)],
    "control": [
        Size(1024, 4, 4, 16, 2), Size(1024, 4, 20, 8, 2), Size(64, 7, 8, 4, 1), Size(256, 4, 8, 4, 4),
        Size(1024, 7, 32, 8, 2),
    ],
    "engine": [Size(64, 4, 4, 4, 2), Size(256, 4, 32, 8, 2), Size(128, 7, 4, 8, 2)],
}  # fmt: skip

# Two neighbours differ, so both are in a part.  Without samples side by side there is no choice of one.
WRAPPERS = """
module part_elements (input wire clk, input wire [1:0] k,
    input wire [2*engine_pkg::T_P*engine_pkg::S*16-1:0] x,
    input wire [2*16*engine_pkg::T_P-1:0] weight, input wire [4*engine_pkg::SLOT_BITS-1:0] slot,
    output wire [4*48-1:0] sums);
  for (genvar e = 0; e < 2; e++) begin : gen_two
    element #(.E(4 + e)) one (.clk, .k, .x, .weight(weight[e*16*engine_pkg::T_P+:16*engine_pkg::T_P]),
        .slot((engine_pkg::S > 1) ? slot[e*2*engine_pkg::SLOT_BITS+:2*engine_pkg::SLOT_BITS] : '0),
        .lower(sums[e*96+:48]), .upper(sums[e*96+48+:48]));
  end
endmodule

module part_weights (input wire clk, input wire [1:0] k, input wire write, input engine_pkg::load_t beat,
    input engine_pkg::tile_t tile, input wire [16*engine_pkg::W-1:0] words, input wire half,
    output wire [2*16*engine_pkg::T_P-1:0] weight, output wire [4*engine_pkg::SLOT_BITS-1:0] slot);
  wire [4*engine_pkg::SLOT_BITS-1:0] of;
  for (genvar e = 0; e < 2; e++) begin : gen_two
    weights #(.E(4 + e)) one (.clk, .k, .write, .beat, .tile, .words, .half,
        .weight(weight[e*16*engine_pkg::T_P+:16*engine_pkg::T_P]),
        .slot(of[e*2*engine_pkg::SLOT_BITS+:2*engine_pkg::SLOT_BITS]));
  end
  assign slot = (engine_pkg::S > 1) ? of : '0;
endmodule

module part_loader (input wire clk, input wire start, input wire take, input engine_pkg::job_t job,
    input engine_pkg::tile_t tile, output wire [31:0] address, output wire [99+engine_pkg::W:0] used);
  engine_pkg::load_t beat;
  load_beats one (.clk, .start, .take, .job, .tile, .half(1'b0), .address, .beat);
  assign used = {beat.weights, beat.first, beat.last, beat.half, beat.p, beat.row[15:0], beat.column[15:0], beat.count,
      beat.on_map};
endmodule
"""

# In place of the parts that stand in rows of their own, modules that only use what these use.
STUBS = """
(* blackbox, keep *) module taps #(parameter int IN = 1, parameter int OUT = 1) (input wire clk, input wire [IN-1:0] in,
    output wire [OUT-1:0] out);
endmodule

module inputs (input wire clk, input wire [1:0] k, input wire one, input wire [31:0] stride_x,
    input wire [31:0] slot_rows, input wire write, input engine_pkg::load_t beat,
    input wire [16*engine_pkg::W-1:0] words, input wire half, input wire [31:0] row,
    output wire [engine_pkg::V*2*engine_pkg::T_P*engine_pkg::S*16-1:0] x);
  taps #(.IN(99 + engine_pkg::W), .OUT(engine_pkg::V*2*engine_pkg::T_P*engine_pkg::S*16)) used (.clk,
      .in({write, beat.half, beat.p, beat.row[15:0], beat.count, beat.on_map, half, row[15:0]}), .out(x));
endmodule

module weights #(parameter int E = 0) (input wire clk, input wire [1:0] k, input wire write,
    input engine_pkg::load_t beat, input engine_pkg::tile_t tile, input wire [16*engine_pkg::W-1:0] words,
    input wire half, output wire [16*engine_pkg::T_P-1:0] weight, output wire [2*engine_pkg::SLOT_BITS-1:0] slot);
  localparam int ENDS = (engine_pkg::S > 1) ? 16 * (engine_pkg::S - 1) : 1;
  localparam int BITS = $clog2(2 * engine_pkg::T_P + 1);
  wire [ENDS-1:0] ends;
  for (genvar j = 0; j < engine_pkg::S - 1; j++) begin : gen_end
    assign ends[j*16+:16] = tile.ends[j*32+:16];
  end
  if (engine_pkg::S == 1) begin : gen_none
    assign ends = '0;
  end
  taps #(.IN(52 + BITS + ENDS), .OUT(16*engine_pkg::T_P + 2*engine_pkg::SLOT_BITS)) used (.clk,
      .in({write, beat.half, beat.first, beat.p[BITS-1:0], beat.column[15:0], beat.count[15:0], tile.column[15:0], half,
      ends}), .out({weight, slot}));
endmodule

module element #(parameter int E = 0) (input wire clk, input wire [1:0] k,
    input wire [2*engine_pkg::T_P*engine_pkg::S*16-1:0] x, input wire [16*engine_pkg::T_P-1:0] weight,
    input wire [2*engine_pkg::SLOT_BITS-1:0] slot, output wire [47:0] lower, output wire [47:0] upper);
  taps #(.IN(2*engine_pkg::SLOT_BITS), .OUT(96)) used (.clk, .in(slot), .out({lower, upper}));
endmodule

module sums (input wire clk, input wire [1:0] k, input wire [5:0] shift, input wire relu, input wire valid,
    input wire first, input wire [31:0] next_row, input wire [47:0] lower, input wire [47:0] upper,
    output wire [15:0] out_lower, output wire [15:0] out_upper);
  taps #(.IN(114), .OUT(32)) used (.clk, .in({valid, first, next_row[15:0], lower, upper}),
      .out({out_lower, out_upper}));
endmodule

module outputs #(parameter int ROW = 0) (input wire clk, input wire [1:0] k, input wire one, input wire write,
    input wire half, input wire [31:0] row, input engine_pkg::store_t beat,
    input wire [engine_pkg::COLUMNS*16-1:0] outs, output wire [engine_pkg::W*16-1:0] words);
  taps #(.IN(83 + engine_pkg::COLUMNS*16), .OUT(engine_pkg::W*16)) used (.clk, .in({write, half, row[15:0], beat.half,
      beat.column, beat.row, outs}), .out(words));
endmodule

module load_beats (input wire clk, input wire start, input wire take, input engine_pkg::job_t job,
    input engine_pkg::tile_t tile, input wire half, output wire [31:0] address, output engine_pkg::load_t beat);
  localparam int TILE = 15 * 32 + 1;
  taps #(.IN(3 + TILE), .OUT(32 + engine_pkg::LOAD_BITS)) used (.clk, .in({start, take, half, tile.x, tile.w,
      tile.columns, tile.column, tile.offset, tile.depth, tile.height, tile.last_height, tile.slots, tile.loaded,
      tile.at, tile.in_line, tile.row_x[15:0], tile.row_y[15:0], tile.window_x[15:0], tile.window_y[15:0],
      tile.has_last, tile.ends[31:0]}), .out({address, beat}));
endmodule
"""

TOPS = {part: part for part in ("inputs", "outputs", "sums")} | {
    **{part: f"part_{part}" for part in ("elements", "weights", "loader")}, "control": "engine", "engine": "engine",
}  # fmt: skip
"""The module of each part."""

APART = ("element", "inputs", "load_beats", "outputs", "scale", "sums", "weights")
"""Files that are not of ``control``."""


def synthesise(part: str, size: Size) -> Row:
    """Count what Yosys places of a part for a Series 7 device."""
    sources = sorted(SOURCE.glob("*.sv"))
    if part == "control":
        sources = [path for path in sources if path.stem not in APART]
    package = Template((SOURCE / "engine_pkg.sv.in").read_text()).substitute(size._asdict(), V=1, origin="// A size.")
    with TemporaryDirectory() as folder:
        parts = STUBS if part == "control" else WRAPPERS
        Path(folder, "engine_pkg.sv").write_text(package)
        Path(folder, "parts.sv").write_text(parts)
        names = " ".join(["engine_pkg.sv", *map(str, sources), "parts.sv"])
        script = (
            f"read_verilog -sv {names}; synth_xilinx -family xc7 -noiopad -flatten -top {TOPS[part]}; "
            f"tee -q -o cells stat -tech xilinx"
        )
        subprocess.run(["yosys", "-q", "-p", script], cwd=folder, check=True, capture_output=True)
        text = Path(folder, "cells").read_text()
    cells = {name: int(number) for name, number in re.findall(r"^ +([A-Z]\w+) +(\d+)$", text, re.MULTILINE)}
    luts = int(re.findall(r"Estimated number of LCs: +(\d+)", text)[-1])  # two small functions are in one table

    def count(pattern: str) -> int:
        return sum(number for cell, number in cells.items() if re.fullmatch(pattern, cell))

    halved = 2 if part in ("elements", "weights") else 1
    return Row(part, size, (luts + count(r"SRL\w+")) // halved, 4 * count(r"RAM\d+M"), count(r"FD\w+") // halved)


def read_table() -> list[Row]:
    """The rows of the table."""
    with TABLE.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [Row(part, Size(*map(int, row[:5])), *map(int, row[5:])) for part, *row in rows]


def write_table(rows: list[Row]) -> None:
    """Write the rows of the table."""
    with TABLE.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["part", *Size._fields, "luts", "memory_luts", "flip_flops"])
        table.writerows([row.part, *row.size, *row[2:]] for row in rows)


def main() -> None:
    """Synthesise every part, or those named, and write the rows that the table does not have yet."""
    found = {(row.part, row.size): row for row in read_table()} if TABLE.exists() else {}
    for part in sys.argv[1:] or list(SIZES):
        for size in SIZES[part]:
            if (part, size) in found:
                continue
            found[part, size] = synthesise(part, size)
            print(*found[part, size], flush=True)
            write_table([found[name, of] for name, sizes in SIZES.items() for of in sizes if (name, of) in found])


if __name__ == "__main__":
    main()
