"""Writer of docs/commands.md, the help of every command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from fluidb.cli.app import COMMANDS, app

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
HEAD = """# Every command

The help of each command, as `fluidb COMMAND --help` prints it; the [glossary](glossary.md) explains the
words. `make docs` writes this page again.
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
    """The help of a command, then that of each of its own commands."""
    context = typer.Context(command, info_name=name, terminal_width=100, max_content_width=100)
    yield f"## {name}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    for below, its in getattr(command, "commands", {}).items():
        yield from _help(f"{name} {below}", its)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
