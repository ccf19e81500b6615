"""LiteX's system for a ULX3S, with the NPU of ``digits``: ``bitstream.py`` places it, ``board.py`` simulates it.

It has no processor: the host reaches the memory and the NPU's registers by the serial port (LiteX's UARTBone), at the
addresses of ``csr.csv``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dram import NPU_FILES, quantised
from fluidb.dse import SearchOptions, Tile, search, tabulate_design, write_design, write_latency
from fluidb.dse.hardware.write import write_hardware
from fluidb.dse.integers.file import INTEGER_FILE
from fluidb.dse.integers.quantise import write_quantised
from fluidb.models.loader import build_network
from fluidb.platforms import load_platform
from sources import digest

NETWORK, BOARD, TILE = "digits", load_platform("ulx3s"), Tile(64, 4, 4)
DESIGN = f"<{TILE.T_R},{TILE.T_P},{TILE.T_C}>"
REGISTERS_AT = 0x9000_0000
"""Where the host finds the NPU's registers."""

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


def write_npu(folder: Path) -> list[str]:
    """Design the NPU, and write it with its memory image and headers into ``rtl``; returns the names of its sources."""
    network = quantised(NETWORK)
    layers, options = build_network(network.file, NETWORK), SearchOptions(tile=TILE)
    design, fbcb = tabulate_design(layers, BOARD, options, search(layers, BOARD, options))
    write_design(folder / "design", design, fbcb)
    write_latency(folder / "design")
    write_quantised(network, folder / "int16")
    write_hardware(folder / "design", folder / "rtl", integers=folder / "int16" / INTEGER_FILE)
    assert design.port.words == BOARD.port_words
    (sources,) = re.findall(r"--top-module npu_axi (.*)\n", (folder / "rtl" / "README.md").read_text())
    return str(sources).split()


def write_system(folder: Path) -> None:
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
    memory = LiteDRAMAXIPort(data_width=BOARD.word_bits * BOARD.usual_port_words, address_width=32, id_width=1)
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
    builder.build(build_name=BOARD.name, run=False)


def digest_with(*paths: Path) -> str:
    """Twelve digits for the sources of the system, and for those of what uses it."""
    return digest([*NPU_FILES, Path(__file__), *paths])[:12]
