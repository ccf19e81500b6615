"""``fluidb reproduce``: the paper's tables, figures and statements beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AsJson
from ..render import facts, note, progress, show, table

if TYPE_CHECKING:
    from ...papers.fluid_batching import Item

NAMES = ("table1", "table2", "fig1", "fig7", "fig8", "fig9", "fig10", "claims", "ablation", "calls", "sensitivity")


def command(
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help=f"all (the default), or {', '.join(NAMES)}.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write the figures and a page here; goes on after a kill."),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(min=2, max=10**7, help="Requests of a run instead of the scenarios' own: a reduced form."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="At most so many seeds of each scenario.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the paper's experiments and compare every figure.

    The paper is the one on Fluid Batching; every figure stands beside the paper's.
    """
    from ...formats import InputError
    from ...papers.fluid_batching import ITEMS, Lab, check_results, content, reproduce, write_results
    from ...papers.fluid_batching.report import KEPT, SCHEMA, versions

    wanted = what or ["all"]
    strangers = [name for name in wanted if name not in (*ITEMS, "all")]
    if strangers:
        raise InputError(f'expected all, {", ".join(ITEMS)}, found "{strangers[0]}"')
    names = [name for name in ITEMS if name in wanted or "all" in wanted]
    if output is not None:
        check_results(output)
    lab = Lab(None if output is None else output / KEPT, requests, seeds)
    items: list[Item] = []

    def kept() -> Iterator[Item]:
        for item in reproduce(names, lab, report):
            items.append(item)
            yield item

    with progress("items") as report:
        if output is None:
            items += reproduce(names, lab, report)
        else:
            write_results(output, kept(), lab)
    record = {"made_with": versions(lab), "items": [content(item) for item in items]}
    show(as_json, SCHEMA, record, map(_text, items))
    if output is not None and not as_json:
        note(f"wrote {output}/README.md")


def _text(item: Item) -> str:
    title = facts({item.name: item.title})
    if item.claims:
        claims = [(c.statement, c.paper, c.ours, "holds" if c.holds else "differs") for c in item.claims]
        return f"{title}\n{table(['the paper says', 'paper', 'ours', ''], claims, text=True)}"
    rows = [
        (
            row.quantity,
            row.of,
            row.at,
            *([] if row.x is None else [f"{row.x:g}"]),
            "" if row.paper is None else f"{row.paper:,.4g}",
            f"{row.ours:,.4g} {row.unit}",
            "" if row.difference is None else f"{row.difference:+.1f} {'points' if row.in_points else '%'}",
        )
        for row in item.rows
    ]
    axis = [item.axis] if item.axis else []
    return f"{title}\n{table(['quantity', 'of', 'at', *axis, 'paper', 'ours', 'difference'], rows)}"
