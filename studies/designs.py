"""Searches for many networks and boards, and a folder of the designs they found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ..dse.npu.design import (
    SEARCH_FILE,
    DesignTable,
    check_output,
    read_design,
    tabulate_design,
    write_design,
)
from ..dse.npu.fbcb import FbcbTable
from ..dse.npu.options import SearchOptions
from ..dse.npu.search import TOP, SearchResult, search
from ..formats import InputError, Table, check_free, check_named, make_folder, read_table
from ..formats.sources import made_with
from ..models import Network
from ..platforms import Board
from ..tables.latency import DESIGN_FILE
from .workers import Workers, workers

DesignRequest = tuple[Network, Board, SearchOptions]
"""A search: its network, its board, its options."""


class SearchTable(Table):
    """Record of the search of a design in a folder of many, ``fluidb.search/1``."""

    schema_name: ClassVar[str] = "fluidb.search/1"
    made_by: ClassVar[str] = "fluidb dse"

    top: int  # designs of the ranking
    made_with: dict[str, str]  # versions and digest of our own sources, so that a search runs again after an edit


class FoundDesign(NamedTuple):
    """A design, and whether it was in the folder already."""

    design: DesignTable
    fbcb: FbcbTable
    reused: bool


def find_each(
    asked: Sequence[DesignRequest],
    read: Callable[[DesignRequest], FoundDesign | None],
    keep: Callable[[DesignRequest, FoundDesign], None],
    at: Workers,
    top: int = TOP,
) -> Iterator[tuple[int, FoundDesign | InputError]]:
    """Search for each of many networks and boards, except those whose design is kept already."""
    missing = []
    for index, request in enumerate(asked):
        kept = read(request)
        if kept is None:
            missing.append(index)
        else:
            yield index, kept
    arguments = {"top": top, "threads": at.threads}
    for which, outcome in at.map(_search, arguments, [asked[index] for index in missing], wide=True):
        index = missing[which]
        if isinstance(outcome, InputError):
            yield index, outcome
            continue
        design = FoundDesign(*tabulate_design(*asked[index], outcome), reused=False)
        keep(asked[index], design)
        yield index, design


def _search(arguments: dict[str, Any], asked: DesignRequest) -> SearchResult:
    return search(*asked, **arguments)


def name_of(asked: DesignRequest) -> str:
    """Name of a design's folder: ``resnet50-zc706``."""
    return f"{asked[0].name}-{asked[1].name}"


def design_each(
    asked: Sequence[DesignRequest],
    folder: Path | None = None,
    top: int = TOP,
    *,
    replace: bool = False,
    scheduler: str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[FoundDesign | InputError]:
    """Find a design for each of many networks and boards."""
    names = [name_of(request) for request in asked]
    again = sorted({name for name in names if names.count(name) > 1})
    if again:
        raise InputError(f"expected every network and board once, by its name, found {again[0]} twice")
    made = SearchTable(top=top, made_with=made_with())

    def read(request: DesignRequest) -> FoundDesign | None:
        return None if folder is None else _kept(folder / name_of(request), request, made)

    def keep(request: DesignRequest, design: FoundDesign) -> None:
        if folder is not None:
            make_folder(folder)
            searched = made.derived_from(design.design, design.fbcb)
            write_design(folder / name_of(request), design.design, design.fbcb, searched=searched, replace=replace)

    if folder is not None:
        _check_folder(
            folder, [name for name, request in zip(names, asked, strict=True) if not read(request)], replace=replace
        )
    outcomes: dict[int, FoundDesign | InputError] = {}
    report = progress or (lambda _done, _total: None)
    report(0, len(asked))
    with workers(scheduler, threads) as at:
        for index, outcome in find_each(asked, read, keep, at, top):
            outcomes[index] = outcome
            report(len(outcomes), len(asked))
    return [outcomes[index] for index in range(len(asked))]


def _kept(folder: Path, asked: DesignRequest, made: SearchTable) -> FoundDesign | None:
    """The design that an earlier search of the same left; ``None`` if there is none that is whole."""
    if not folder.is_dir():
        return None
    try:
        design, fbcb = read_design(folder)
        table = read_table(SearchTable, folder / SEARCH_FILE, design, fbcb)
    except InputError:
        return None
    same = (design.network, design.platform, design.options) == asked
    return FoundDesign(design, fbcb, reused=True) if same and table == made.derived_from(design, fbcb) else None


def _check_folder(folder: Path, names: Sequence[str], *, replace: bool) -> None:
    """Refuse, before any search, a folder that designs of these names must not be written into."""
    check_named(folder)
    if not folder.is_dir():
        check_free(folder, force=False)
        return
    if (folder / DESIGN_FILE).exists():
        raise InputError(f"{folder}: holds a design itself, expected a folder for many; choose another")
    taken = [name for name in names if (folder / name).exists()]
    if taken and not replace:
        raise InputError(
            f"{folder / name}: exists already, and is no design that this search would find again; "
            "choose another folder or add --force to replace it"
            for name in taken
        )
    for name in names:
        check_output(folder / name, force=replace)
