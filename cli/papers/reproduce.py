"""``fluidb reproduce``: the tables, figures and statements of papers beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ...papers import PAPERS
from ..declare import argument, option, written
from ..names import offering
from ..options import AsJson
from ..render import facts, progress, show, table

if TYPE_CHECKING:
    from ...papers import Paper
    from ...papers.rows import Item

NAMES = ", ".join(f"{paper.name} ({', '.join(paper.items)})" for paper in PAPERS)
OFFERED = ["all", *(name for paper in PAPERS for name in (paper.name, *paper.items))]
WHAT = f"all (the default), a paper, its items, or FOLDER or FOLDER:ITEM of your own (`fluidb docs extend`): {NAMES}."


def command(
    what: Annotated[list[str] | None, argument(WHAT, "NAME", **offering(OFFERED))] = None,
    output: Annotated[Path | None, written("Write the figures and a page here; continues after a kill.")] = None,
    count: Annotated[int | None, option("Requests of a run, for a shorter reproduction.", min=2, max=10**7)] = None,
    seeds: Annotated[int | None, option("Largest number of seeds of each scenario.", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Run the papers' experiments and compare every figure.

    Every figure stands beside the one that the paper prints.
    """
    from ...papers import select
    from ...papers.lab import Lab
    from ...papers.report import KEPT, SCHEMA, check_results, content, versions, write_results

    chosen = select(what or [])
    folders = [None if output is None else check_results(output, paper, names) for paper, names in chosen]
    lab = Lab(None if output is None else output / KEPT, count, seeds)
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
    record = {"made_with": versions(lab), "items": [content(result) for result in items]}
    show(as_json, SCHEMA, record, map(_text, items), output and output / "README.md")


def _text(result: Item) -> str:
    parts = [facts({result.name: result.title})]
    if result.claims:
        claims = [(c.statement, c.paper, c.ours, ("holds" if c.holds else "differs") + c.worth) for c in result.claims]
        parts.append(table(["the paper says", "paper", "ours", ""], claims, text=True))
    if result.rows:
        axis, based = [result.axis] if result.axis else [], any(row.basis for row in result.rows)
        basis = ["basis"] if based else []
        rows = [
            (
                *(row.quantity, row.of, row.at),
                *(["" if row.x is None else f"{row.x:g}"] if result.axis else []),
                "" if row.paper is None else f"{row.paper:,.4g}",
                *(f"{row.ours:,.4g} {row.unit}", row.gap),
                *([row.basis] if based else []),
            )
            for row in result.rows
        ]
        parts.append(table(["quantity", "of", "at", *axis, "paper", "ours", "difference", *basis], rows))
    return "\n".join(parts)
