"""Searches for many networks and boards at once, and a folder of the designs they found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from ..dse.design import (
    SEARCH_FILE,
    DesignTable,
    NetworkRow,
    check_output,
    read_design,
    tabulate_design,
    write_design,
)
from ..dse.fbcb import FbcbTable
from ..dse.search import SearchOptions, SearchResult, search
from ..formats import InputError, Table, check_free, read_table
from ..models import Network
from ..platforms import Platform
from ..tables.latency import DESIGN_FILE
from .sources import made_with
from .workers import Workers, workers

Asked = tuple[Network, Platform, SearchOptions]
"""A search: the network, the board, what is searched for."""

Settings = dict[str, int | bool]
"""The other arguments of :func:`.search.search` that its result depends on."""


class SearchTable(Table):
    """How a design in a folder of many was found, ``fluidb.search/1``: what its other files do not say.

    Attributes
    ----------
    settings : dict of str to int or bool
        Arguments of the search.
    made_with : dict of str to str
        Versions and digest of our own sources: what was found before an edit is no evidence after it.
    """

    schema_name: ClassVar[str] = "fluidb.search/1"
    made_by: ClassVar[str] = "fluidb dse"

    settings: Settings
    made_with: dict[str, str]


class Found(NamedTuple):
    """A design, and whether it was in the folder already."""

    design: DesignTable
    fbcb: FbcbTable
    reused: bool


def search_each(
    asked: Sequence[Asked], at: Workers, settings: Settings
) -> Iterator[tuple[int, SearchResult | InputError]]:
    """Search for each of many: a task each.

    Parameters
    ----------
    asked : sequence of (Network, Platform, SearchOptions)
        The searches.
    at : Workers
        What runs them.
    settings : dict
        The other arguments of :func:`.search.search`.

    Yields
    ------
    int, SearchResult or InputError
        Index and result in the order in which they end, or why there is none.
    """
    return at.map(_search, {**settings, "threads": at.threads}, asked, wide=True)


def _search(arguments: dict[str, int | bool | None], asked: Asked) -> SearchResult:
    return search(*asked, **arguments)  # type: ignore[arg-type]


def name_of(asked: Asked) -> str:
    """Name of a design's folder: ``resnet50-zc706``."""
    return f"{asked[0].name}-{asked[1].name}"


def design_each(
    asked: Sequence[Asked],
    folder: Path | None = None,
    settings: Settings | None = None,
    *,
    replace: bool = False,
    scheduler: str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Found | InputError]:
    """Find a design for each of many networks and boards.

    Parameters
    ----------
    asked : sequence of (Network, Platform, SearchOptions)
        The searches.
    folder : Path, optional
        Write each design, as soon as it is found, into a folder of its own in
        this one, and take from there what the same search left.
    settings : dict, optional
        The other arguments of :func:`.search.search`.
    replace : bool
        Replace other designs of these names there.
    scheduler, threads
        As for :func:`.tasks.workers`.
    progress : callable, optional
        Called with (designs there, designs in all).

    Returns
    -------
    list of Found or InputError
        The design of each, or why there is none, in the order of ``asked``.

    Raises
    ------
    InputError
        Before any search, if two would have one name, or the folder holds what may
        not be replaced; later, if the cluster or the file system refuses.
    """
    settings, names = settings or {}, [name_of(item) for item in asked]
    again = sorted({name for name in names if names.count(name) > 1})
    if again:
        raise InputError(f"expected every network and board once, by its name, found {again[0]} twice")
    found: dict[int, Found | InputError] = {}
    if folder is not None:
        made = SearchTable(settings=settings, made_with=made_with())
        found |= {i: kept for i, item in enumerate(asked) if (kept := _kept(folder / names[i], item, made))}
        _check_folder(folder, [name for i, name in enumerate(names) if i not in found], replace=replace)
    missing = [i for i in range(len(asked)) if i not in found]
    report = progress or (lambda _done, _total: None)
    report(len(found), len(asked))
    with workers(scheduler, threads) as at:
        for which, outcome in search_each([asked[i] for i in missing], at, settings):
            i = missing[which]
            if isinstance(outcome, InputError):
                found[i] = outcome
            else:
                design, fbcb = tabulate_design(*asked[i], outcome)
                if folder is not None:
                    _make(folder)
                    table = made.derived_from(design, fbcb)
                    write_design(folder / names[i], design, fbcb, searched=table, replace=replace)
                found[i] = Found(design, fbcb, reused=False)
            report(len(found), len(asked))
    return [found[i] for i in range(len(asked))]


def _kept(folder: Path, asked: Asked, made: SearchTable) -> Found | None:
    """The design that an earlier search of the same left; ``None`` if there is none that is whole."""
    if not folder.is_dir():
        return None
    try:
        design, fbcb = read_design(folder)
        table = read_table(SearchTable, folder / SEARCH_FILE, design, fbcb)
    except InputError:
        return None
    network, platform, options = asked
    same = (design.network, design.platform, design.options) == (NetworkRow.of(network), platform, options)
    return Found(design, fbcb, reused=True) if same and table == made.derived_from(design, fbcb) else None


def _check_folder(folder: Path, names: Sequence[str], *, replace: bool) -> None:
    """Refuse, before any search, a folder that designs of these names must not be written into."""
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


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: could not be made ({error.strerror}); choose another folder") from error
