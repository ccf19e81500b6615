"""Page of the site with the help of every command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from fluidb.cli.app import COMMANDS, app

HEAD = """# Every command

The help of each command, as `fluidb COMMAND --help` prints it; the [glossary](glossary.md) explains the
words.
"""


def page() -> str:
    """Content of the page."""
    root: Any = typer.main.get_command(app)
    above = typer.Context(root, info_name="fluidb")
    parts = [HEAD]
    for name in COMMANDS:
        _, command, _ = root.resolve_command(above, [name])
        parts += _help(f"fluidb {name}", command)
    return "\n".join(parts)


def _help(name: str, command: Any) -> Iterator[str]:
    """The help of a command, then the help of each of its own commands."""
    context = typer.Context(
        command, info_name=name, terminal_width=80, max_content_width=80, help_option_names=["-h", "--help"]
    )
    yield f"## {name}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    for below, its in getattr(command, "commands", {}).items():
        yield from _help(f"{name} {below}", its)
