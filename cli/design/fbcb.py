"""``fluidb fbcb``: what the hardware's control block holds, and files for the hardware."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AsJson, DesignFolder, Force
from ..render import blank, emit_facts, emit_json, emit_table, note, percent

if TYPE_CHECKING:
    from ...dse.design import DesignTable
    from ...dse.fbcb import FbcbTable


class Format(StrEnum):
    """The values of ``--format``; ``dse.hardware.HardwareFormat`` says what they mean."""

    mem = "mem"
    c_header = "c-header"
    systemverilog = "systemverilog"


EXAMPLES = {Format.mem: "fbcb.mem", Format.c_header: "fluidb_latency.h", Format.systemverilog: "rtl"}


def command(
    directory: DesignFolder,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="Write the FBCB, the latency table or the whole engine for hardware."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT", help="With --format: the file, or folder, to write."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show the FBCB of a design: stacking k and samples down the rows B_R, by layer and batch.

    With --format, write files for hardware instead (docs/hardware.md): mem, the
    entries for $readmemh; c-header, the latency table in cycles; systemverilog, a
    folder with the Fluid Batching Engine and its testbench.
    """
    from ...formats import InputError

    if format_ is None:
        if output is not None or force:
            raise InputError("fbcb: --output and --force stand with --format; add e.g. --format mem")
        _show(directory, as_json)
        return
    if output is None:
        raise InputError(f"fbcb: --format {format_} expects --output, found none; add e.g. -o {EXAMPLES[format_]}")
    from ...dse.hardware.files import HardwareFormat, write_hardware

    files = [str(file) for file in write_hardware(directory, HardwareFormat(format_), output, replace=force)]
    if as_json:
        emit_json("fluidb.hardware-output/1", {"format": format_, "output": str(output), "files": files})
        return
    emit_facts([("wrote", file) for file in files])
    if format_ is Format.systemverilog:
        note(f"next: how to simulate and instantiate it stands in {output / 'README.md'}")


def _show(directory: Path, as_json: bool) -> None:
    from ...dse.design import read_design

    design, fbcb = read_design(directory)
    if as_json:
        _emit_json(design, fbcb)
    else:
        _emit_text(design, fbcb)


def _emit_json(design: DesignTable, fbcb: FbcbTable) -> None:
    from ...dse.fbcb import K_NAMES

    layers = [
        {"layer": row.layer, "k": [K_NAMES[code] for code in k], "B_R": B_R}
        for row, k, B_R in zip(fbcb.rows, *(table.tolist() for table in fbcb.unpack()), strict=True)
    ]
    content = {"b_max": fbcb.b_max, "entry_bits": fbcb.bits, "register_bits": fbcb.register_bits}
    share = design.register_share(fbcb)
    emit_json("fluidb.fbcb-output/1", {**content, "register_share": share, "layers": layers})


def _emit_text(design: DesignTable, fbcb: FbcbTable) -> None:
    from ...dse.fbcb import K_NAMES

    share = percent(design.register_share(fbcb), 3)
    emit_facts(
        [
            ("entries", f"{len(fbcb.rows)} layers x {fbcb.b_max} batch sizes, {fbcb.bits} bits each"),
            ("registers", f"{fbcb.register_bits:,} flip-flops ({share} of {design.platform.name})"),
        ]
    )
    blank()
    cells = [
        (row.layer, *(f"{K_NAMES[code]}:{B_R}" for code, B_R in zip(k, r, strict=True)))
        for row, k, r in zip(fbcb.rows, *(table.tolist() for table in fbcb.unpack()), strict=True)
    ]
    emit_table(["k:B_R by layer", *(f"b={b}" for b in range(1, fbcb.b_max + 1))], cells)
