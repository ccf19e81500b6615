"""``fluidb platforms``: the boards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AsJson, Force
from ..render import blank, emit_facts, emit_json, emit_list, every_fault, note, printable

if TYPE_CHECKING:
    from ...platforms import Platform

app = typer.Typer(invoke_without_command=True, help="List, show, check and import boards.")


@app.callback()
def listing(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List, show, check and import boards."""
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise typer.BadParameter("--json stands behind the command after it, e.g. show", ctx)
        return
    from ...platforms import PLATFORMS, load_platform

    boards = [load_platform(name) for name in PLATFORMS.names()]
    if as_json:
        content = [board.model_dump(mode="json", exclude={"schema_", "sources"}) for board in boards]
        emit_json("fluidb.platforms-output/1", {"platforms": content})
        return
    rows = [
        (b.name, b.dsps, f"{b.on_chip_mbit:g}", f"{b.clock_mhz:g}", f"{b.bandwidth_gb_s:g}", b.title) for b in boards
    ]
    emit_list(["board", "DSPs", "on-chip Mb", "MHz", "GB/s", ""], rows)


@app.command()
def show(
    platform: Annotated[str, typer.Argument(help="A board: a name, or a TOML file.")], as_json: AsJson = False
) -> None:
    """Show one board: its numbers, each with its source."""
    from ...platforms import load_platform

    board = load_platform(platform)
    if as_json:
        emit_json("fluidb.platform-output/1", board.model_dump(mode="json", exclude={"schema_"}))
        return
    _emit_text(board)


@app.command()
def check(
    platform: Annotated[str, typer.Argument(help="A board: a name, or a TOML file.")], as_json: AsJson = False
) -> None:
    """Check a board file and list every fault in it.

    Each fault stands with its key, and the exit code is 2; without one, the file's facts are printed.
    """
    from ...platforms import load_platform

    with every_fault():
        board = load_platform(platform)
    if as_json:
        content = board.model_dump(mode="json", exclude={"schema_", "sources"})
        emit_json("fluidb.platform-check-output/1", {"file": platform, **content, "unsourced": board.unsourced})
        return
    sources = f"no source for {', '.join(board.unsourced)}" if board.unsourced else "a source for every number"
    typer.echo(
        f"{printable(platform)}: no faults; {board.dsps:,} DSPs, {board.on_chip_mbit:g} Mb, "
        f"{board.clock_mhz:g} MHz, {board.bandwidth_gb_s:g} GB/s; {sources}"
    )


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A platform file of fpgaConvNet.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT.toml", help="The board file to write.")],
    name: Annotated[str | None, typer.Option(help="Its name; the device's if not given.")] = None,
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
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a board file of one that fpgaConvNet reads."""
    from ...formats import check_free, check_other, parse_bandwidth, parse_clock, write_file
    from ...platforms.fpgaconvnet import import_platform
    from ...platforms.writer import platform_text

    check_free(output, force)
    check_other(output, file)
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
    note(f"wrote {output}; next: fluidb dse NETWORK {output}")


def _emit_text(board: Platform) -> None:
    content = board.model_dump(mode="json", exclude={"schema_"})
    sources = content.pop("sources")
    emit_facts([("board", f"{content.pop('title')} ({content.pop('name')})")])
    blank()
    rows = [(key, "-" if value is None else value, sources.get(key, "")) for key, value in content.items()]
    emit_list(["key", "value", "source"], rows)
