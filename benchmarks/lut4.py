"""What whole NPUs take of an ECP5, whose look-up tables have four inputs, as Yosys counts it.

``python benchmarks/lut4.py`` writes ``lut4.csv``: minutes for each size.  ``luts_per_lut6`` of ``platforms/ulx3s.toml``
is fitted to it, as designs are counted in tables of six inputs (``dse/npu/logic.py``).
"""

from __future__ import annotations

import csv
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import clock
from fluidb.dse.hardware.templates import filled
from fluidb.dse.hardware.write import placement_text
from fluidb.dse.npu.fbcb import entry_bits
from fluidb.dse.npu.logic import Entries
from fluidb.dse.npu.resources import Demand
from fluidb.dse.npu.tiles import Tile
from fluidb.platforms import load_platform

TABLE = Path(__file__).parent / "lut4.csv"
SIZES = [clock.Size(2, 1, 64, 4, 4), clock.Size(4, 2, 256, 7, 8)]
PLACES = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}
"""Tables that a cell takes: itself, two bits of an adder, 16 rows of 4 bits with what writes them."""


class Taken(NamedTuple):
    """Counts of a whole NPU."""

    size: clock.Size
    luts: int
    flip_flops: int
    multipliers: int
    blocks: int  # EBRs, of 18 Kb


def tile_of(size: clock.Size) -> Tile:
    """The design of a size."""
    return Tile(size.T_R, size.T_P, size.T_C, 1, size.W)


def synthesise(size: clock.Size) -> Taken:
    """Count the cells of an NPU whose memories lie where they are counted."""
    held = placement_text(load_platform("ulx3s"), tile_of(size), size.S)
    made = clock.packages("npu", size) | {
        "engine_pkg.sv": filled("engine_pkg.sv", V=1, **size._asdict(), memories=held)
    }
    with TemporaryDirectory() as folder:
        for name, text in made.items():
            Path(folder, name).write_text(text)
        names = " ".join([*made, *map(str, clock.sources_of("npu"))])
        script = f"read_verilog -sv {names}; synth_ecp5 -top npu; tee -q -o cells stat"
        subprocess.run(["yosys", "-q", "-p", script], cwd=folder, check=True, capture_output=True)
        text = Path(folder, "cells").read_text()
    return taken(size, text)


def taken(size: clock.Size, text: str) -> Taken:
    """What Yosys prints of a design."""
    cells = {name: int(count) for name, count in re.findall(r"^ +([A-Z]\w+) +(\d+)$", text, re.MULTILINE)}
    luts = sum(places * cells[cell] for cell, places in PLACES.items())
    return Taken(size, luts, cells["TRELLIS_FF"], cells["MULT18X18D"], cells["DP16KD"] + cells.get("PDPW16KD", 0))


def counted(size: clock.Size) -> Demand:
    """What a search counts, in tables of six inputs."""
    layers, b_max, block_bits = clock.LAYERS_OF["npu"][5:]
    board = load_platform("ulx3s").model_copy(update={"luts_per_lut6": 1.0})
    return Demand(board, tile_of(size), size.S, Entries(layers * b_max, entry_bits(b_max, block_bits)))


def read_rows() -> list[Taken]:
    """The rows of the table."""
    with TABLE.open(newline="") as file:
        rows = [list(map(int, row)) for row in list(csv.reader(file))[1:]]
    sizes = len(clock.Size._fields)
    return [Taken(clock.Size(*row[:sizes]), *row[sizes:]) for row in rows]


def write_rows(rows: list[Taken]) -> None:
    """Write them."""
    with TABLE.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([*clock.Size._fields, *Taken._fields[1:]])
        table.writerows([*row.size, *row[1:]] for row in rows)


if __name__ == "__main__":
    write_rows([synthesise(size) for size in SIZES])
