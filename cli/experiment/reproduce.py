"""``fluidb reproduce``: the tables, figures and statements of papers beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...papers import PAPERS
from ..options import AsJson
from ..render import blank, emit_facts, emit_json, emit_list, emit_table, note, progress

if TYPE_CHECKING:
    from ...papers import Paper
    from ...papers.rows import Item

NAMES = ", ".join(f"{paper.name} ({', '.join(paper.items)})" for paper in PAPERS)


def command(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help=f"all (the default), a paper, or items of it: {NAMES}."),
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
    from ...papers import select
    from ...papers.lab import Lab
    from ...papers.report import KEPT, SCHEMA, check_results, content, versions, write_results

    chosen = select(what or [])
    folders = [None if output is None else check_results(output, paper) for paper, _ in chosen]
    lab = Lab(None if output is None else output / KEPT, requests, seeds)
    items: list[Item] = []
    total = sum(len(names) for _, names in chosen)
    with progress("items") as report:

        def made(paper: Paper, names: Sequence[str]) -> Iterator[Item]:
            for name in names:
                items.append(paper.reproduce(name, lab))
                yield items[-1]
                if report:
                    report(len(items), total)

        for (paper, names), folder in zip(chosen, folders, strict=True):
            if folder is None:
                list(made(paper, names))
            else:
                write_results(folder, paper, made(paper, names), lab)
    if as_json:
        emit_json(SCHEMA, {"made_with": versions(lab), "items": [content(item) for item in items]})
        return
    for item in items:
        emit_facts([(item.name, item.title)])
        if item.claims:
            claims = [(c.statement, c.paper, c.ours, "holds" if c.holds else "differs") for c in item.claims]
            emit_list(["the paper says", "paper", "ours", ""], claims)
        if item.rows:
            axis = [item.axis] if item.axis else []
            rows = [
                (
                    *(row.quantity, row.of, row.at),
                    *([] if row.x is None else [f"{row.x:g}"]),
                    "" if row.paper is None else f"{row.paper:,.4g}",
                    *(f"{row.ours:,.4g} {row.unit}", row.gap),
                )
                for row in item.rows
            ]
            emit_table(["quantity", "of", "at", *axis, "paper", "ours", "difference"], rows)
        blank()
    for folder in filter(None, folders):
        note(f"wrote {folder}/README.md")
