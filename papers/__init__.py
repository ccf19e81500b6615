"""One folder a paper: its experiments, its printed figures, its statements beside ours (docs/extend.md)."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from ..formats.errors import InputError
from ..formats.near import did_you_mean
from .paper import Paper

PAPERS: tuple[Paper, ...] = tuple(
    import_module(f".{folder.parent.name}", __name__).PAPER
    for folder in sorted(Path(__file__).parent.glob("*/__init__.py"))
)
"""Every paper that has a folder here."""

__all__ = ["PAPERS", "Paper", "select"]


def select(words: Sequence[str]) -> list[tuple[Paper, list[str]]]:
    """Papers with the items that a user named."""
    known = [name for paper in PAPERS for name in (paper.name, *paper.items)]
    twice = [name for name in known if known.count(name) > 1]
    if twice:
        raise InputError(f'papers: expected every name of a paper or item once, found "{twice[0]}" twice; rename one')
    strangers = [word for word in words if word not in ("all", *known)]
    if strangers:
        raise InputError(
            f"expected all, a paper ({', '.join(paper.name for paper in PAPERS)}) or one of its items, e.g. "
            f'{next(iter(PAPERS[0].items))}, found "{strangers[0]}"; '
            + did_you_mean(strangers[0], known, "see fluidb reproduce --help")
        )
    wanted = {"all"} if not words else set(words)
    chosen = [
        (paper, [name for name in paper.items if not wanted.isdisjoint(("all", paper.name, name))]) for paper in PAPERS
    ]
    return [(paper, names) for paper, names in chosen if names]
