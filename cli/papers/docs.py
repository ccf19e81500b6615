"""``fluidb docs``: pages of the documentation and schemas of outputs, which are installed with the package."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..declare import argument
from ..names import offering, shipped
from ..render import table

PAGES = Path(__file__).parents[2] / "docs"
SCHEMAS = PAGES / "schemas"


def command(
    page: Annotated[
        str | None,
        argument(
            "A page, or a schema; without one, all pages are listed.", "PAGE", **offering(partial(shipped, "docs"))
        ),
    ] = None,
) -> None:
    """Show a page of the documentation.

    Help and messages name the pages, e.g. `fluidb docs policies`. On a terminal the page is
    laid out; elsewhere it is printed as Markdown. `fluidb docs fluidb.serve-sim-output/1`
    prints the JSON Schema of what `fluidb serve-sim --json` prints.
    """
    from ...formats import InputError, did_you_mean

    pages = {path.stem: path for path in sorted(PAGES.glob("*.md"))}
    if page is None:
        typer.echo(table(["page", "content"], [(name, _title(path)) for name, path in pages.items()], text=True))
        return
    schemas = {f"fluidb.{'/'.join(path.stem.rsplit('-', 1))}": path for path in SCHEMAS.glob("*.json")}
    name = page if page.startswith("fluidb.") else Path(page).name.removesuffix(".md")
    known = pages | schemas
    if name not in known:
        hint = did_you_mean(name, known, "`fluidb docs` lists the pages")
        raise InputError(f'docs: expected a page, or the schema of an output, found "{page}"; {hint}')
    text = known[name].read_text("utf-8")
    if name in schemas or not sys.stdout.isatty():
        typer.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("# ").strip()
