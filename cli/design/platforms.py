"""``fluidb platforms``: the boards and devices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options import AsJson, Force, argument, followed, option, written
from ..render import every_fault, facts, printable, show, table

if TYPE_CHECKING:
    from ...platforms import Described

PlatformName = Annotated[str, argument("A board or device: a name, or a TOML file.")]

app = typer.Typer(invoke_without_command=True)


@app.callback()
def listing(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List, show, check and import boards."""
    from ...platforms import KINDS, PLATFORMS, Described, load_platform

    if followed(ctx, as_json):
        return
    known = [load_platform(name, kind=Described) for name in PLATFORMS.names()]
    kinds = {kind: [item for item in known if isinstance(item, kind)] for kind in KINDS.values()}
    record = {kind.listed_as: [_record(item, "sources") for item in items] for kind, items in kinds.items()}
    text = (table(kind.headers, [item.row for item in items], text=True) for kind, items in kinds.items())
    show(as_json, "fluidb.platforms-output/1", record, text)


@app.command("show")
def show_(platform: PlatformName, as_json: AsJson = False) -> None:
    """Show one board or device: its numbers, each with its source."""
    from ...platforms import Described, load_platform

    board = load_platform(platform, kind=Described)
    show(as_json, "fluidb.platform-output/1", _record(board), _text(board))


@app.command()
def check(platform: PlatformName, as_json: AsJson = False) -> None:
    """Check a board's or device's file and list every fault in it.

    Each fault stands with its key, and the exit code is 2; without one, the file's facts are printed.
    """
    from ...platforms import Described, load_platform

    with every_fault():
        board = load_platform(platform, kind=Described)
    record = {"file": platform, **_record(board, "sources"), "unsourced": board.unsourced}
    sources = f"no source for {', '.join(board.unsourced)}" if board.unsourced else "a source for every number"
    text = f"{printable(platform)}: no faults; {board.summary}; {sources}"
    show(as_json, "fluidb.platform-check-output/1", record, [text])


@app.command("import")
def import_(
    file: Annotated[Path, argument("A platform file of fpgaConvNet; or times (.csv).", "FILE")],
    output: Annotated[Path, written("The file to write.", "OUT.toml")],
    name: Annotated[str | None, option("Its name; that of FILE's device if not given.")] = None,
    clock: Annotated[str | None, option("Clock instead of the file's, e.g. 150MHz.", "QUANTITY")] = None,
    bandwidth: Annotated[str | None, option("Bandwidth instead of the file's, e.g. 3.2GB/s.", "QUANTITY")] = None,
    word_bits: Annotated[int | None, option("Width of activations and weights; else 16.", min=1, max=64)] = None,
    bram_kbit: Annotated[int, option("Size of a block RAM that BRAM counts, in Kb.", min=1, max=1024)] = 18,
    network: Annotated[str | None, option("Of measured times: the network, a name or a TOML file.")] = None,
    gathers: Annotated[Path | None, option("Of measured times: those of gathers, a CSV file.", "FILE")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a board's or a device's file from another one.

    FILE is a board that fpgaConvNet reads, or the measured times of a device (`fluidb docs add-a-device`).
    """
    from ...formats import InputError, check_free, parse_bandwidth, parse_clock, write_file
    from ...platforms.writer import platform_text

    check_free(output, force, apart=[file, gathers, None if network is None else Path(network)])
    if (file.suffix == ".csv") != (network is not None) or (gathers and network is None):
        raise InputError("import: expected --network with measured times, FILE.csv, and with nothing else")
    board: Described
    if network is not None:
        from ...models import load_network
        from ...platforms.measured import import_times

        if clock or bandwidth or word_bits:
            raise InputError("import: measured times take no --clock, --bandwidth or --word-bits; leave them out")
        measured = load_network(network)
        board = import_times(file, output, measured.name, len(measured.exits), name, gathers)
    else:
        from ...platforms.fpgaconvnet import import_platform

        board = import_platform(
            file,
            name=name,
            clock_mhz=parse_clock(clock, "--clock") if clock else None,
            bandwidth_gb_s=parse_bandwidth(bandwidth, "--bandwidth") if bandwidth else None,
            word_bits=word_bits,
            bram_kbit=bram_kbit,
        )
    write_file(output, platform_text(board), replace=force)
    then = f"; next: fluidb {'dse' if network is None else 'latency'} NETWORK {output}"
    record = {"output": output, **_record(board)}
    show(as_json, "fluidb.platform-import-output/1", record, _text(board), output, then)


def _record(board: Described, *without: str) -> dict[str, Any]:
    return board.model_dump(mode="json", exclude={"schema_", *without})


def _text(board: Described) -> Iterator[str]:
    content = board.shown
    yield facts({board.kind: f"{content.pop('title')} ({content.pop('name')})"})
    rows = [(key, _value(value), board.sources.get(key.rpartition(".")[2], "")) for key, value in content.items()]
    yield table(["key", "value", "source"], rows, text=True)


def _value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(f"{item:g}" if isinstance(item, float) else _value(item) for item in value)
    return "-" if value is None else str(value)
