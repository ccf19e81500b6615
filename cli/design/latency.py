"""``fluidb latency``: the scheduler's table of times between exits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import AsJson, Force
from ..render import emit_json, emit_table, note


def command(
    directory: Annotated[str, typer.Argument(metavar="DIR|NETWORK", help="A design's folder, or a network.")],
    device: Annotated[
        str | None,
        typer.Argument(metavar="[DEVICE]", help="A device of `fluidb platforms`, or a TOML file."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="With a device: the folder to write.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compute the time between every two exits of a design, for every batch size.

    Writes latency.json into the design's folder, replacing an earlier one. Given
    a network and a device instead, for which nothing is searched, writes it into
    a folder of its own (docs/add-a-device.md).
    """
    from ...formats import InputError
    from ...tables.latency import LATENCY_FILE

    if device is None:
        from ...dse.latency import write_latency

        if output is not None or force:
            raise InputError("latency: --output and --force stand with a device; write NETWORK DEVICE -o DIR")
        folder = Path(directory)
        table = write_latency(folder)
    else:
        from ...models import load_network
        from ...platforms import Device, load_platform
        from ...tables.device import write_device

        if output is None:
            raise InputError("latency: a device expects --output, found none; add e.g. -o DIR")
        folder = output
        table = write_device(load_network(directory), load_platform(device, kind=Device), folder, replace=force)
    if as_json:
        content = {
            "output": str(folder / LATENCY_FILE),
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
    note(f"wrote {folder / LATENCY_FILE}; next: fluidb serve-sim {folder} --trace FILE --slo 200ms")
