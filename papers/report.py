"""The folder of results: for each item a CSV and a picture, and a page that shows them all."""

from __future__ import annotations

import csv
import io
import json
import platform
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..formats import (
    InputError,
    check_installed,
    check_resumable,
    held,
    is_installed,
    make_folder,
    read_text,
    write_file,
)
from ..formats.sources import made_with
from ..plots import check_picture, save
from . import PAPERS
from .lab import Lab
from .paper import Paper
from .pictures import draw
from .rows import NEAR, Claim, Item, Row

SCHEMA = "fluidb.reproduce-output/1"
PAGE = "README.md"
KEPT = ".kept"
"""Folder of kept designs and runs, for a reproduction that was interrupted, and of the items that the page shows."""


def versions(lab: Lab) -> dict[str, str]:
    """Versions that made the results; the digest of our sources stands for the commit, which no file says."""
    draws = {"matplotlib": version("matplotlib")} if is_installed("matplotlib") else {}  # only a folder has pictures
    return {**made_with(), "numba": version("numba"), **draws, "python": platform.python_version(), **lab.reduced}


def _short(value: float | None) -> float | None:
    """Round to six digits, which do not depend on the processor."""
    return None if value is None else float(f"{value:.6g}")


def content(item: Item) -> dict[str, Any]:
    """An item as ``--json`` prints it."""
    rows = [
        {key: _short(value) if isinstance(value, float) else value for key, value in asdict(row).items()}
        for row in item.rows
    ]
    for record, row in zip(rows, item.rows, strict=True):
        record["difference"] = _short(row.difference)
        record["difference_unit"] = None if row.paper is None else "points" if row.in_points else "%"
        if not row.basis:
            del record["basis"]
    claims = [asdict(claim) | ({"reason": ""} if claim.holds else {}) for claim in item.claims]
    claims = [{key: value for key, value in claim.items() if key != "basis" or value} for claim in claims]
    return {
        "item": item.name,
        "title": item.title,
        "axis": item.axis,
        "notes": item.notes,
        "rows": rows,
        "claims": claims,
    }


def _csv(item: Item) -> str:
    text = io.StringIO()
    records = content(item)["rows"] or content(item)["claims"]
    columns = dict.fromkeys(key for record in records for key in record)  # only some statements have a basis
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _ours(folder: Path, asked: Paper) -> bool:
    """True if a folder holds results, perhaps without the page, which is written last."""
    if not folder.is_dir():
        return False
    papers = (*PAPERS, asked)
    if (page := folder / PAGE).is_file():
        return read_text(page).partition("\n")[0] in [paper.title for paper in papers]
    written = [f"{name}{kind}" for paper in papers for name in paper.items for kind in (".csv", ".svg")]
    known = {KEPT, *(paper.folder for paper in papers), *written}
    return all(path.name in known or (path / KEPT).is_dir() for path in held(folder))  # also of a paper of the user's


def check_results(folder: Path, paper: Paper, names: Sequence[str]) -> Path:
    """Refuse, before any work is done, a folder that is not ours, or whose page would lose other items than these."""
    check_installed(f"{folder}: a page with pictures", "matplotlib", "plot")
    own = folder / paper.folder
    for place in dict.fromkeys((folder, own)):
        check_resumable(place, "fluidb reproduce", ours=_ours(place, paper))
        make_folder(place)
    known = {item.name for item, _ in _held(own, paper)} | set(names)  # a damaged item is a fault before any work
    lost = [f"{name}.csv" for name in paper.items if name not in known and (own / f"{name}.csv").exists()]
    if lost:
        raise InputError(
            f"{own}: {', '.join(lost)}: expected the text of these items in {own / KEPT}, found none; "
            f"reproduce {paper.name} as a whole, or into another folder"
        )
    check_picture(own / "check.svg", replace=False)
    return own


def write_results(folder: Path, paper: Paper, items: Iterable[Item], lab: Lab) -> None:
    """Write items as they come, then the page over all that the folder holds."""
    make_folder(folder / KEPT)
    for item in items:
        record = {"schema": SCHEMA, "made_with": versions(lab), **content(item)}
        write_file(_record(folder, item.name), json.dumps(record, indent=1, allow_nan=False) + "\n", replace=True)
        write_file(folder / f"{item.name}.csv", _csv(item), replace=True)
        if item.rows:
            save(draw(item, paper.looks), folder / f"{item.name}.svg", replace=True)
    write_file(folder / PAGE, page_text(folder, paper), replace=True)


def _record(folder: Path, name: str) -> Path:
    return folder / KEPT / f"{name}.json"


def _read(path: Path) -> tuple[Item, dict[str, str]]:
    """An item that was written earlier, and the versions that made it."""
    try:
        record = json.loads(read_text(path))
        fields = Row.__dataclass_fields__
        rows = [Row(**{key: value for key, value in row.items() if key in fields}) for row in record["rows"]]
        claims = [Claim(**claim) for claim in record["claims"]]
        _table(rows)  # a value that is no number is a fault here
        return Item(record["item"], record["title"], record["notes"], rows, record["axis"], claims), record["made_with"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: damaged ({error}); remove it and reproduce it again") from error


def _held(folder: Path, paper: Paper) -> list[tuple[Item, dict[str, str]]]:
    return [_read(path) for name in paper.items if (path := _record(folder, name)).exists()]


def _far(row: Row) -> bool:
    return row.difference is not None and abs(row.difference) > 100 * NEAR


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.4g} {unit}".strip()


def _table(rows: list[Row]) -> list[str]:
    headings = ["quantity", "of", "at", "paper", "ours", "difference"]
    rules = ["---", "---", "---", "---:", "---:", "---:"]
    based = any(row.basis for row in rows)
    if based:
        headings, rules = [*headings, "basis"], [*rules, "---"]
    lines = [f"| {' | '.join(headings)} |", f"|{'|'.join(rules)}|"]
    for row in rows:
        spread = "" if row.low is None or row.high is None else f" ±{(row.high - row.low) / 2:.2g}"
        ours = f"{_number(row.ours, '')}{spread} {row.unit}".strip()
        cells = [row.quantity, row.of, row.at, _number(row.paper, row.unit), ours, row.gap]
        cells += [row.basis] if based else []
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _claims(claims: list[Claim]) -> list[str]:
    lines = ["| the paper says | where | paper | ours | verdict |", "|---|---|---:|---:|---|"]
    for claim in claims:
        verdict = f"holds{claim.worth}" if claim.holds else f"does not hold{claim.worth}: {claim.reason}"
        verdict = verdict.removesuffix(": ")
        lines.append(f"| {claim.statement} | {claim.section} | {claim.paper} | {claim.ours} | {verdict} |")
    return lines


def _short_lines(text: str) -> str:
    """Paragraphs in lines of at most 100 characters; a row of a table, a heading or a picture as it is."""
    if text.startswith(("|", "#", "![", "[CSV]")):
        return text
    later = "  " if text.startswith("- ") else ""
    fill = textwrap.TextWrapper(100, subsequent_indent=later, break_long_words=False, break_on_hyphens=False).fill
    return "\n\n".join(map(fill, text.split("\n\n")))


def page_text(folder: Path, paper: Paper) -> str:
    """The page of a folder's results."""
    kept = _held(folder, paper)
    made = list(dict.fromkeys(json.dumps(with_) for _, with_ in kept))
    items = [item for item, _ in kept]
    lines = [paper.title, "", paper.introduction, ""]
    lines += [f"- {key}: {value}" for text in made for key, value in json.loads(text).items()]
    if len(made) > 1:
        lines.append("- Items were made by different versions, listed in turn: renew them all.")
    parted = [(item, row) for item in items if item.name in paper.exact for row in item.rows if _far(row)]
    failed = [claim for item in items for claim in item.claims if not claim.holds]
    lines += ["", "## Where ours differ", ""]
    lines += [
        f"- {said.statement}: {said.paper} there, {said.ours} here{said.worth}; {said.reason}".removesuffix("; ") + "."
        for said in failed
    ]
    lines += [
        f"- {item.name}, {row.quantity} of {row.of}, {row.at}: {_number(row.paper, row.unit)} there, "
        f"{_number(row.ours, row.unit)} here{f' ({row.basis})' if row.basis else ''}."
        for item, row in parted
    ]
    for item in items:
        lines += ["", f"## {item.title}", "", *(f"- {note}" for note in item.notes), ""]
        if item.rows:
            lines += [f"![{item.title}]({item.name}.svg)", "", f"[CSV]({item.name}.csv)", ""]
        if item.claims:
            lines += _claims(item.claims)
        printed = [row for row in item.rows if not item.axis or row.x is None]  # the picture shows the others
        if item.claims and item.rows:
            lines.append("")
        if printed:
            lines += _table(printed)
    return "\n".join(map(_short_lines, lines)).rstrip() + "\n"
