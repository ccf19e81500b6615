"""``fluidb platforms``: the boards and devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AsJson, Force
from ..render import blank, emit_facts, emit_json, emit_list, every_fault, note, printable

if TYPE_CHECKING:
    from ...platforms import Described

app = typer.Typer(invoke_without_command=True, help="List, show, check and import boards.")


@app.callback()
def listing(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List, show, check and import boards."""
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise typer.BadParameter("--json stands behind the command after it, e.g. show", ctx)
        return
    from ...platforms import KINDS, PLATFORMS, Described, load_platform

    known = [load_platform(name, kind=Described) for name in PLATFORMS.names()]
    kinds = {kind: [item for item in known if isinstance(item, kind)] for kind in KINDS.values()}
    if as_json:
        content = {
            kind.listed_as: [item.model_dump(mode="json", exclude={"schema_", "sources"}) for item in items]
            for kind, items in kinds.items()
        }
        emit_json("fluidb.platforms-output/1", content)
        return
    for number, (kind, items) in enumerate(kinds.items()):
        if number:
            blank()
        emit_list(kind.headers, [item.row for item in items])


@app.command()
def show(
    platform: Annotated[str, typer.Argument(help="A board or device: a name, or a TOML file.")], as_json: AsJson = False
) -> None:
    """Show one board or device: its numbers, each with its source."""
    from ...platforms import Described, load_platform

    board = load_platform(platform, kind=Described)
    if as_json:
        emit_json("fluidb.platform-output/1", board.model_dump(mode="json", exclude={"schema_"}))
        return
    _emit_text(board)


@app.command()
def check(
    platform: Annotated[str, typer.Argument(help="A board or device: a name, or a TOML file.")], as_json: AsJson = False
) -> None:
    """Check a board's or device's file: every fault at once, each with its key, and exit code 2; or its facts."""
    from ...platforms import Described, load_platform

    with every_fault():
        board = load_platform(platform, kind=Described)
    if as_json:
        content = board.model_dump(mode="json", exclude={"schema_", "sources"})
        emit_json("fluidb.platform-check-output/1", {"file": platform, **content, "unsourced": board.unsourced})
        return
    sources = f"no source for {', '.join(board.unsourced)}" if board.unsourced else "a source for every number"
    typer.echo(f"{printable(platform)}: no faults; {board.summary}; {sources}")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A platform file of fpgaConvNet; or times (.csv).")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT.toml", help="The file to write.")],
    name: Annotated[str | None, typer.Option(help="Its name; that of FILE's device if not given.")] = None,
    clock: Annotated[
        str | None, typer.Option(metavar="QUANTITY", help="Clock instead of the file's, e.g. 150MHz.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(metavar="QUANTITY", help="Off-chip bandwidth instead of the file's, e.g. 3.2GB/s.")
    ] = None,
    word_bits: Annotated[
        int | None, typer.Option(min=1, max=64, help="Width of activations and weights; 16 if not given.")
    ] = None,
    bram_kbit: Annotated[int, typer.Option(min=1, max=1024, help="Size of a block RAM that BRAM counts, in Kb.")] = 18,
    network: Annotated[str | None, typer.Option(help="Of measured times: the network, a name or a TOML file.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a board file of one that fpgaConvNet reads, or a device file of measured times (docs/add-a-device.md)."""
    from ...formats import InputError, check_free, check_other, parse_bandwidth, parse_clock, write_file
    from ...platforms.writer import platform_text

    check_free(output, force)
    check_other(output, file)
    if (file.suffix == ".csv") != (network is not None):
        raise InputError("import: expected --network with measured times, FILE.csv, and with nothing else")
    board: Described
    if network is not None:
        from ...models import load_network
        from ...platforms.device import import_times

        if clock or bandwidth or word_bits:
            raise InputError("import: measured times take no --clock, --bandwidth or --word-bits; leave them out")
        measured = load_network(network)
        board = import_times(file, output, measured.name, len(measured.exits), name)
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
    write_file(output, platform_text(board))
    if as_json:
        content = board.model_dump(mode="json", exclude={"schema_"})
        emit_json("fluidb.platform-import-output/1", {"output": str(output), **content})
    else:
        _emit_text(board)
    note(f"wrote {output}; next: fluidb {'dse' if network is None else 'latency'} NETWORK {output}")


def _emit_text(board: Described) -> None:
    content = board.model_dump(mode="json", exclude={"schema_"})
    sources = content.pop("sources")
    emit_facts([(board.kind, f"{content.pop('title')} ({content.pop('name')})")])
    blank()
    rows = [(key, "-" if value is None else value, sources.get(key, "")) for key, value in content.items()]
    emit_list(["key", "value", "source"], rows)
