"""``fluidb reproduce``: the paper's tables, figures and statements beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AsJson
from ..render import blank, emit_facts, emit_json, emit_list, emit_table, note, progress

if TYPE_CHECKING:
    from ...papers.fluid_batching import Item

NAMES = ("table1", "table2", "fig1", "fig7", "fig8", "fig9", "fig10", "claims", "ablation", "calls", "sensitivity")


def command(
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help=f"all (the default), or {', '.join(NAMES)}.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write CSV, JSON, pictures and a page there; goes on after a kill."
        ),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(min=2, max=10**7, help="Requests of a run instead of the scenarios' own: a reduced form."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="At most so many seeds of each scenario.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the Fluid Batching paper's experiments and put every figure beside the paper's."""
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
    if as_json:
        emit_json(SCHEMA, {"made_with": versions(lab), "items": [content(item) for item in items]})
        return
    for item in items:
        emit_facts([(item.name, item.title)])
        if item.claims:
            rows = [(c.statement, c.paper, c.ours, "holds" if c.holds else "differs") for c in item.claims]
            emit_list(["the paper says", "paper", "ours", ""], rows)
        else:
            emit_table(
                ["quantity", "of", "at", *([item.axis] if item.axis else []), "paper", "ours", "difference"],
                [
                    (
                        row.quantity,
                        row.of,
                        row.at,
                        *([f"{row.x:g}"] if row.x is not None else []),
                        "" if row.paper is None else f"{row.paper:,.4g}",
                        f"{row.ours:,.4g} {row.unit}",
                        "" if row.difference is None else f"{row.difference:+.1f} {'points' if row.in_points else '%'}",
                    )
                    for row in item.rows
                ],
            )
        blank()
    if output is not None:
        note(f"wrote {output}/README.md")
