"""``fluidb fbcb``: what the hardware's control block holds."""

from __future__ import annotations

from .options import AsJson, DesignFolder
from .render import blank, emit_facts, emit_json, emit_table, percent


def command(directory: DesignFolder, as_json: AsJson = False) -> None:
    """Show the FBCB of a design: stacking k and samples down the rows B_R, by layer and batch."""
    from ..dse.design import read_design
    from ..dse.fbcb import K_NAMES

    design, fbcb = read_design(directory)
    codes, rows = fbcb.unpack()
    names = [row.layer for row in fbcb.rows]
    share = design.register_share(fbcb)
    if as_json:
        layers = [
            {"layer": name, "k": [K_NAMES[code] for code in k], "B_R": B_R}
            for name, k, B_R in zip(names, codes.tolist(), rows.tolist(), strict=True)
        ]
        content = {"b_max": fbcb.b_max, "entry_bits": fbcb.bits, "register_bits": fbcb.register_bits}
        emit_json("fluidb.fbcb-output/1", {**content, "register_share": share, "layers": layers})
        return
    emit_facts(
        [
            ("entries", f"{len(names)} layers x {fbcb.b_max} batch sizes, {fbcb.bits} bits each"),
            ("registers", f"{fbcb.register_bits:,} flip-flops ({percent(share, 3)} of {design.platform.name})"),
        ]
    )
    blank()
    cells = [
        (name, *(f"{K_NAMES[code]}:{B_R}" for code, B_R in zip(k, r, strict=True)))
        for name, k, r in zip(names, codes.tolist(), rows.tolist(), strict=True)
    ]
    emit_table(["k:B_R by layer", *(f"b={b}" for b in range(1, fbcb.b_max + 1))], cells)
