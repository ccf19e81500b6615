"""``fluidb docs``: the pages of the documentation, which are installed with the package."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..names import offering, shipped
from ..options import argument
from ..render import table

PAGES = Path(__file__).parents[2] / "docs"


def command(
    page: Annotated[
        str | None, argument("A page; without one, all are listed.", "[PAGE]", **offering(partial(shipped, "docs")))
    ] = None,
) -> None:
    """Show a page of the documentation.

    Help and messages name the pages, e.g. `fluidb docs policies`. To a terminal a page is printed laid out, elsewhere
    as the Markdown that it is.
    """
    from ...formats import InputError, did_you_mean

    pages = {path.stem: path for path in sorted(PAGES.glob("*.md"))}
    if page is None:
        typer.echo(table(["page", "content"], [(name, _title(path)) for name, path in pages.items()], text=True))
        return
    name = Path(page).name.removesuffix(".md")
    if name not in pages:
        hint = did_you_mean(name, pages, "`fluidb docs` lists them")
        raise InputError(f'docs: expected a page of the documentation, found "{page}"; {hint}')
    text = pages[name].read_text("utf-8")
    if not sys.stdout.isatty():
        typer.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("# ").strip()
