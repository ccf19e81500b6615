"""Sources of the RTL, and its templates, which the numbers of the engine and of a design fill."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from pathlib import Path
from string import Template

from .. import engine
from ..npu.fbcb import K_BITS, K_NAMES
from . import jobs
from .commands import Command, NpuFault, Strobe
from .places import End

RTL = Path(__file__).parent / "rtl"
ENGINE = RTL / "engine"
BUS = RTL / "axi"
PACKAGE_FILE = "fbe_pkg.sv"
ENGINE_PACKAGE_FILE = "engine_pkg.sv"
TESTBENCH_FILE = "memory.hpp"
MEMORY_FILE = "fbcb.mem"
HEADER_FILE = "fluidb_latency.h"
BOARD_FILE = "npu_axi.v"
REGISTERS_PACKAGE_FILE = "axi_pkg.sv"
REGISTERS_FILE = "fluidb_npu.h"
TEMPLATES = {
    PACKAGE_FILE: RTL / "fbe_pkg.sv.in",
    ENGINE_PACKAGE_FILE: ENGINE / "engine_pkg.sv.in",
    TESTBENCH_FILE: RTL / "memory.hpp.in",
    MEMORY_FILE: RTL / "fbcb.mem.in",
    HEADER_FILE: RTL / "fluidb_latency.h.in",
    BOARD_FILE: BUS / "npu_axi.v.in",
    REGISTERS_PACKAGE_FILE: BUS / "axi_pkg.sv.in",
    REGISTERS_FILE: BUS / "fluidb_npu.h.in",
}


def _members(rows: tuple[tuple[str, str], ...]) -> str:
    """Members of a packed record in SystemVerilog, the highest first."""
    texts = []
    for names, about in rows:
        member = f"number_t {', '.join(names.split())};" if names else ""
        texts.append("  ".join(filter(None, (member, about and f"// {about}"))))
    return "\n".join(f"    {text}" for text in texts)


def _enumerated(codes: type[IntEnum | IntFlag]) -> str:
    """Codes as an enumeration of C++."""
    return ", ".join(f"{code.name} = {code.value}" for code in codes)


def memories(**held: tuple[int, str]) -> str:
    """Where each memory of the engine lies: the banks that UltraRAMs hold, and the style of the others."""
    lines = [
        f'  localparam int ULTRA_{name.upper()} = {ultra}; localparam STYLE_{name.upper()} = "{style}";'
        for name, (ultra, style) in held.items()
    ]
    return "\n".join(lines)


def constants() -> dict[str, object]:
    """What every template may name: the numbers of the engine, codes, and the words of a job."""
    numbers: dict[str, object] = {name: value for name, value in vars(engine).items() if name.isupper()}
    codes = [f"K_{name.replace('1/2', 'HALF')} = {K_BITS}'b{code:0{K_BITS}b}" for code, name in enumerate(K_NAMES)]
    return numbers | {
        "K_BITS": K_BITS,
        "k_codes": "\n".join(f"  localparam logic [K_BITS-1:0] {code};" for code in codes),
        "layout_members": _members(jobs.LAYOUT),
        "record_members": _members(jobs.OF_LAYER),
        "LAYOUT_WORDS": len(jobs.LAYOUT_FIELDS),
        "JOB_WORDS": len(jobs.FIELDS),
        "FAULT_BITS": max(NpuFault).bit_length(),
        "faults": "\n".join(f"  localparam fault_t FAULT_{fault.name} = {fault.value};" for fault in NpuFault),
        "ends": "\n".join(f"  localparam number_t END_{end.name} = {end.value};" for end in End),
        "commands": _enumerated(Command),
        "strobes": _enumerated(Strobe),
        "memories": memories(**dict.fromkeys(("inputs", "sums", "stores", "beats", "residuals"), (0, "auto"))),
    }


def filled(file: str, origin: str = "// For a test.", **values: object) -> str:
    """A file that has a template: a comment at its top, and the values that it names beside the engine's."""
    text = TEMPLATES[file].read_text(encoding="utf-8")
    return Template(text).substitute(constants(), origin=origin, **values)
