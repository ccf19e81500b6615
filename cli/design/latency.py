"""``fluidb latency``: the scheduler's table of times between exits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..options import AsJson, Force, argument, written
from ..render import show, table


def command(
    directory: Annotated[str, argument("A design's folder, or a network.", "DIR|NETWORK")],
    device: Annotated[str | None, argument("A device of `fluidb platforms`, or a TOML file.", "[DEVICE]")] = None,
    output: Annotated[Path | None, written("With a device: the folder to write.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the latency table of a design or a device.

    It has the time between every two exits, for every batch size. latency.json goes
    into the design's folder, replacing an earlier one. Given a network and a device
    instead, for which nothing is searched, it goes into a folder of its own
    (`fluidb docs add-a-device`).
    """
    from ...formats import InputError
    from ...tables.latency import LATENCY_FILE

    if device is None:
        from ...dse.latency import write_latency

        if output is not None or force:
            raise InputError("latency: --output and --force need a device; write NETWORK DEVICE -o DIR")
        folder = Path(directory)
        made = write_latency(folder)
    else:
        from ...models import load_network
        from ...platforms import Device, load_platform
        from ...tables.device import write_device

        if output is None:
            raise InputError("latency: a device expects --output, found none; add e.g. -o DIR")
        folder = output
        made = write_device(load_network(directory), load_platform(device, kind=Device), folder, replace=force)
    names = ["input", *(row.name for row in made.exits)]
    rows = [
        (
            f"{row.from_exit} {names[row.from_exit]} -> {row.to_exit} {names[row.to_exit]}",
            *(f"{1e3 * t:.2f}" for t in row.time_s),
        )
        for row in made.rows
    ]
    text = [table(["time in ms from exit to exit", *(f"b={b}" for b in range(1, made.b_max + 1))], rows)]
    file = folder / LATENCY_FILE
    record = {"output": file, "b_max": made.b_max, "exits": made.exits, "rows": made.rows}
    then = f"; next: fluidb serve-sim {folder} --trace FILE --slo 200ms"
    show(as_json, "fluidb.latency-output/1", record, text, file, then)
