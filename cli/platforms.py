"""``fluidb platforms``: the boards."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import AsJson
from .render import blank, emit_facts, emit_json, emit_list

app = typer.Typer(invoke_without_command=True, help="List and show boards.")


@app.callback()
def listing(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List and show boards."""
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise typer.BadParameter("--json stands behind show", ctx)
        return
    from ..platforms import PLATFORMS, load_platform

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
    from ..platforms import load_platform

    board = load_platform(platform)
    content = board.model_dump(mode="json", exclude={"schema_"})
    if as_json:
        emit_json("fluidb.platform-output/1", content)
        return
    sources = content.pop("sources")
    emit_facts([("board", f"{content.pop('title')} ({content.pop('name')})")])
    blank()
    rows = [(key, "-" if value is None else value, sources.get(key, "")) for key, value in content.items()]
    emit_list(["key", "value", "source"], rows)
