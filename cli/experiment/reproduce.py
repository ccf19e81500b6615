"""``fluidb reproduce``: the paper's tables, figures and statements beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..options import AsJson, argument, option, written
from ..render import facts, progress, show, table

if TYPE_CHECKING:
    from ...papers.fluid_batching import Item

NAMES = ("table1", "table2", "fig1", "fig7", "fig8", "fig9", "fig10", "claims", "ablation", "calls", "sensitivity")


def command(
    what: Annotated[list[str] | None, argument(f"all (the default), or {', '.join(NAMES)}.", "[NAME]...")] = None,
    output: Annotated[Path | None, written("Write the figures and a page here; goes on after a kill.")] = None,
    requests: Annotated[int | None, option("Requests of a run, to reduce the scenarios.", min=2, max=10**7)] = None,
    seeds: Annotated[int | None, option("At most so many seeds of each scenario.", min=1)] = None,
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
    show(as_json, SCHEMA, record, map(_text, items), output, "/README.md")


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
