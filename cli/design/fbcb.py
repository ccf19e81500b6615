"""``fluidb fbcb``: the Fluid Batching Control Block of a design."""

from __future__ import annotations

from ...dse.npu.choices import Overlap
from ..options import AsJson, DesignFolder
from ..render import facts, percent, show, table


def command(directory: DesignFolder, as_json: AsJson = False) -> None:
    """Show a design's FBCB: how it runs each layer and batch.

    For each layer and batch size, the Fluid Batching Control Block has the stacking k, the samples
    down the rows B_R, and the blocks into which the rows are divided. `fluidb hardware` writes it
    for the hardware.
    """
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
