"""Searches for many networks and boards, and a folder of the designs they found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ..dse.npu.design import DESIGN_FOLDER, SEARCH_FILE, DesignTable, read_design, write_design
from ..dse.npu.fbcb import FbcbTable
from ..dse.npu.options import SearchOptions
from ..dse.npu.search import TOP, SearchResult, search
from ..dse.npu.together import tabulate_each
from ..dse.npu.workload import Workload, as_workload
from ..formats import InputError, Table, check_free, check_named, make_folder, read_table
from ..formats.sources import made_with
from ..models import Network
from ..platforms import Board
from ..tables.files import DESIGN_FILE
from .workers import Workers, workers

DesignRequest = tuple[Network | Workload, Board, SearchOptions]
"""A search: its network, or the networks that share the NPU, its board, its options."""


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


Outcome = list[FoundDesign] | InputError
"""What a search found: a design for each of its networks, all of one NPU."""


def find_each(
    asked: Sequence[DesignRequest],
    read: Callable[[DesignRequest], list[FoundDesign] | None],
    keep: Callable[[DesignRequest, list[FoundDesign]], None],
    at: Workers,
    top: int = TOP,
) -> Iterator[tuple[int, Outcome]]:
    """Search for each of many networks and boards, except those whose designs are kept already."""
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
        designs = [FoundDesign(*tables, reused=False) for tables in tabulate_each(*asked[index], outcome)]
        keep(asked[index], designs)
        yield index, designs


def _search(arguments: dict[str, Any], asked: DesignRequest) -> SearchResult:
    return search(*asked, **arguments)


def names_of(asked: DesignRequest) -> list[str]:
    """Names of the folders of a search's designs: ``resnet50-zc706``."""
    return [f"{network.name}-{asked[1].name}" for network in as_workload(asked[0]).networks]


def design_each(
    asked: Sequence[DesignRequest],
    folder: Path | None = None,
    top: int = TOP,
    *,
    replace: bool = False,
    scheduler: str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Outcome]:
    """Find a design for each of many networks and boards."""
    names = [name for request in asked for name in names_of(request)]
    again = sorted({name for name in names if names.count(name) > 1})
    if again:
        raise InputError(f"expected every network and board once, by its name, found {again[0]} twice")
    made = SearchTable(top=top, made_with=made_with())

    def read(request: DesignRequest) -> list[FoundDesign] | None:
        return None if folder is None else _kept(folder, request, made)

    def keep(request: DesignRequest, designs: list[FoundDesign]) -> None:
        if folder is not None:
            make_folder(folder)
            for name, (design, fbcb, _) in zip(names_of(request), designs, strict=True):
                searched = made.derived_from(design, fbcb)
                write_design(folder / name, design, fbcb, searched=searched, replace=replace)

    if folder is not None:
        missing = [name for request in asked if not read(request) for name in names_of(request)]
        _check_folder(folder, missing, replace=replace)
    outcomes: dict[int, Outcome] = {}
    report = progress or (lambda _done, _total: None)
    report(0, len(asked))
    with workers(scheduler, threads) as at:
        for index, outcome in find_each(asked, read, keep, at, top):
            outcomes[index] = outcome
            report(len(outcomes), len(asked))
    return [outcomes[index] for index in range(len(asked))]


def _kept(folder: Path, asked: DesignRequest, made: SearchTable) -> list[FoundDesign] | None:
    """The designs that an earlier search of the same left; ``None`` if not all of them are there and whole."""
    workload, board, options = as_workload(asked[0]), *asked[1:]
    kept: list[FoundDesign] = []
    for network, own, name in zip(workload.networks, options.of_each(workload), names_of(asked), strict=True):
        if not (folder / name).is_dir():
            return None
        try:
            design, fbcb = read_design(folder / name)
            table = read_table(SearchTable, folder / name / SEARCH_FILE, design, fbcb)
        except InputError:
            return None
        same = (design.network, design.platform, design.options) == (network, board, own)
        if not same or design.shares != workload.by_name or table != made.derived_from(design, fbcb):
            return None
        kept.append(FoundDesign(design, fbcb, reused=True))
    first = kept[0].design
    one = all((each.design.ranking, each.design.together) == (first.ranking, first.together) for each in kept)
    return kept if one else None


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
        DESIGN_FOLDER.check(folder / name, replace)
