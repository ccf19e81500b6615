"""Registers of the NPU on a board, from which the RTL, the C header and docs/hardware.md have them."""

from __future__ import annotations

from enum import Enum, IntFlag
from typing import NamedTuple

from .commands import Strobe

ID = 0x4642_4E50
"""What the first register holds: FBNP."""

VERSION = 1
"""Of the registers: it changes when software for the older ones would fail."""


class Event(IntFlag):
    """What interrupts: a bit of the registers that enable, show and clear it."""

    DONE = 1  # idle after a start, and everything is written
    FAULT = 2  # STATUS shows one


class Status(IntFlag):
    """Bits of the status."""

    IDLE = 1 << 0
    AT_EXIT = 1 << 1
    READ_ERROR = 1 << 2
    WRITE_ERROR = 1 << 3


RESET = 1 << 31
"""Of the control register, beside the strobes."""

FAULT_SHIFT = 8
"""Of the NPU's fault in the status."""


class Access(NamedTuple):
    """A register."""

    access: str  # ``r``, ``w`` or ``rw``
    about: str  # what it holds


class Register(Enum):
    """Every register, of 32 bits."""

    ID = Access("r", f"0x{ID:08X}")
    VERSION = Access("r", f"of the registers: {VERSION}")
    STATUS = Access("r", "idle, at_exit, read and write error in bits 0 to 3; the NPU's fault from bit 8 on")
    CONTROL = Access("w", "update, restart, advance, start in bits 0 to 3; reset in bit 31")
    B_EXIT = Access("rw", "samples that leave, for update")
    B_INCR = Access("rw", "samples that join, for update")
    SLOT = Access("rw", "place of the batch's first sample, for update")
    RECORDS = Access("rw", "address of the records, in words")
    BASE = Access("rw", "address of word 0, in bytes: a multiple of 4,096")
    BASE_HIGH = Access("rw", "its upper 32 bits")
    ENTRY_ADDRESS = Access("rw", "number of an entry of the FBCB")
    ENTRY = Access("w", "writes that entry")
    ENABLE = Access("rw", "events that interrupt: done, fault in bits 0 and 1")
    EVENTS = Access("rw", "events that came; writing a 1 clears one")
    B_ACT = Access("r", "samples of the batch")
    LAYER = Access("r", "the layer")
    DIGEST = Access("r", "to 0x5C: SHA-256 of the design, its first 32 bits first")

    @property
    def offset(self) -> int:
        """Bytes before it: one stands behind the other."""
        return 4 * list(Register).index(self)


def package_lines() -> dict[str, object]:
    """What the template of the RTL's package names."""
    rows = [(one.name, one.offset) for one in Register]
    events = [f"  localparam int EVENT_{event.name} = {event.bit_length() - 1};" for event in Event]
    strobes = [f"  localparam int STROBE_{strobe.name} = {strobe.bit_length() - 1};" for strobe in Strobe]
    return {
        "registers": "\n".join(f"  localparam logic [ADDRESS_BITS-1:0] {name} = 'h{at:02x};" for name, at in rows),
        "bits": "\n".join([*strobes, f"  localparam int STROBE_RESET = {RESET.bit_length() - 1};", *events]),
        "id": f"32'h{ID:08x}",
        "version": VERSION,
        "events": len(Event),
        "fault_shift": FAULT_SHIFT,
        "status_bits": len(Status),
    }


def header_lines() -> dict[str, object]:
    """What the template of the C header names."""
    rows = [f"#define FLUIDB_{one.name} 0x{one.offset:02X}u /* {one.value.access}: {one.value.about} */"
            for one in Register]  # fmt: skip
    bits = [
        *((f"CONTROL_{strobe.name}", int(strobe)) for strobe in Strobe), ("CONTROL_RESET", RESET),
        *((f"STATUS_{status.name}", int(status)) for status in Status),
        *((f"EVENT_{event.name}", int(event)) for event in Event),
    ]  # fmt: skip
    return {
        "registers": "\n".join(rows),
        "bits": "\n".join(f"#define FLUIDB_{name} 0x{value:08X}u" for name, value in bits),
        "id": f"0x{ID:08X}u",
        "version": f"{VERSION}u",
        "fault_shift": FAULT_SHIFT,
    }
