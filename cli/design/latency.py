"""``fluidb latency``: the scheduler's table of times between exits."""

from __future__ import annotations

from ..options import AsJson, DesignFolder
from ..render import emit_json, emit_table, note


def command(directory: DesignFolder, as_json: AsJson = False) -> None:
    """Write a design's latency table: times between exits.

    It has every two exits and every batch size. Writes latency.json into the design's folder, replacing an earlier one.
    """
    from ...dse.design import LATENCY_FILE
    from ...dse.latency import write_latency

    table = write_latency(directory)
    if as_json:
        content = {
            "output": str(directory / LATENCY_FILE),
            "b_max": table.b_max,
            "exits": [row.model_dump() for row in table.exits],
            "rows": [row.model_dump() for row in table.rows],
        }
        emit_json("fluidb.latency-output/1", content)
        return
    names = ["input", *(row.name for row in table.exits)]
    rows = [
        (
            f"{row.from_exit} {names[row.from_exit]} -> {row.to_exit} {names[row.to_exit]}",
            *(f"{1e3 * t:.2f}" for t in row.time_s),
        )
        for row in table.rows
    ]
    emit_table(["time in ms from exit to exit", *(f"b={b}" for b in range(1, table.b_max + 1))], rows)
    note(f"wrote {directory / LATENCY_FILE}; next: fluidb serve-sim {directory} --trace FILE --slo 200ms")
