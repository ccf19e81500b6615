"""``fluidb fbcb``: the Fluid Batching Control Block of a design, and files for the hardware."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...dse.npu.choices import HardwareFormat, Overlap
from ..options import AsJson, DesignFolder, Force, option, written
from ..render import facts, percent, show, table

EXAMPLES = {"mem": "fbcb.mem", "c-header": "fluidb_latency.h", "systemverilog": "rtl"}


def command(
    directory: DesignFolder,
    format_: Annotated[
        HardwareFormat | None,
        option("Write the FBCB, the latency table or the whole engine for hardware.", None, "--format"),
    ] = None,
    output: Annotated[Path | None, written("With --format: the file, or folder, to write.", "OUT")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show a design's FBCB, or write files for the hardware.

    The FBCB holds stacking k, samples down the rows B_R and the blocks into which the
    rows are divided, by layer and batch.
    With --format, write files for hardware instead (`fluidb docs npu`): mem, the
    entries for $readmemh; c-header, the latency table in cycles; systemverilog, a
    folder with the Fluid Batching Engine and its testbench.
    """
    from ...formats import InputError

    if format_ is None:
        if output is not None or force:
            raise InputError("fbcb: --output and --force need --format; add e.g. --format mem")
        _show(directory, as_json)
        return
    if output is None:
        raise InputError(f"fbcb: --format {format_} expects --output, found none; add e.g. -o {EXAMPLES[format_]}")
    from ...dse.npu.hardware import write_hardware

    files = write_hardware(directory, format_, output, replace=force)
    record = {"format": format_, "output": output, "files": files}
    engine = format_ is HardwareFormat.SYSTEMVERILOG
    then = f"; next: how to simulate and instantiate it stands in {output / 'README.md'}" if engine else ""
    show(as_json, "fluidb.hardware-output/1", record, [facts(("file", str(file)) for file in files)], output, then)


def _show(directory: Path, as_json: bool) -> None:
    from ...dse.npu.design import read_design
    from ...dse.npu.fbcb import K_NAMES

    design, fbcb = read_design(directory)
    share = design.register_share(fbcb)
    codes, blocks, rows_down = (entries.tolist() for entries in fbcb.unpack())
    built = design.options.overlap is Overlap.TILES
    layers = [
        {"layer": row.layer, "k": [K_NAMES[code] for code in k], "B_R": B_R, "blocks": parts if built else None}
        for row, k, parts, B_R in zip(fbcb.rows, codes, blocks, rows_down, strict=True)
    ]
    sizes = {"b_max": fbcb.b_max, "entry_bits": fbcb.bits, "register_bits": fbcb.register_bits}
    entries = f"{len(layers)} layers x {fbcb.b_max} batch sizes, {fbcb.bits} bits each"
    registers = f"{fbcb.register_bits:,} flip-flops ({percent(share, 3)} of {design.platform.name})"
    columns = ("k", "B_R", "blocks") if built else ("k", "B_R")
    cells = [
        (row["layer"], *(":".join(map(str, entry)) for entry in zip(*(row[name] for name in columns), strict=True)))
        for row in layers
    ]
    headers = [f"{':'.join(columns)} by layer", *(f"b={b}" for b in range(1, fbcb.b_max + 1))]
    text = [facts({"entries": entries, "registers": registers}), table(headers, cells)]
    show(as_json, "fluidb.fbcb-output/2", {**sizes, "register_share": share, "layers": layers}, text)
