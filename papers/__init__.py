"""One folder a paper: its experiments, its printed figures, its statements beside ours (docs/extend.md)."""

import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb

from ..formats.errors import InputError
from ..formats.near import did_you_mean
from .paper import Paper

PAPERS: tuple[Paper, ...] = tuple(
    import_module(f".{folder.parent.name}", __name__).PAPER
    for folder in sorted(Path(__file__).parent.glob("*/__init__.py"))
)
"""Every paper that has a folder here."""

__all__ = ["PAPERS", "Paper", "select"]


def load_paper(folder: Path) -> Paper:
    """The paper of a folder outside of the package, whose modules import as if it stood here."""
    place = folder.resolve()
    name = f"{__name__}._{sha256(bytes(place)).hexdigest()[:16]}"  # another one for each folder
    spec = spec_from_file_location(name, place / "__init__.py", submodule_search_locations=[str(place)])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # where its experiments find it
    try:
        spec.loader.exec_module(module)
        paper = getattr(module, "PAPER", None)
        if isinstance(paper, Paper):
            for item_name in paper.items:
                paper.experiment(item_name)  # a fault of the user's is known before any work is done
            return paper
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        own = [step for step in extract_tb(error.__traceback__) if Path(step.filename).is_relative_to(place)]
        where = f", {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
        raise InputError(f"{folder}{where}: could not be loaded: {type(error).__name__}: {error}") from error
    raise InputError(f"{folder / '__init__.py'}: expected a Paper named PAPER, found none")


def select(words: Sequence[str]) -> list[tuple[Paper, list[str]]]:
    """Papers with the items that a user named; FOLDER is a paper of the user's own, FOLDER:ITEM one of its items."""
    shipped = {"all", *(name for paper in PAPERS for name in (paper.name, *paper.items))}
    own: dict[Path, Paper] = {}
    wanted = [] if words else ["all"]
    for word in words:
        folder, _, item_name = word.partition(":")
        if word not in shipped and (Path(folder) / "__init__.py").is_file():
            place = Path(folder).resolve()
            own[place] = own.get(place) or load_paper(Path(folder))
            wanted.append(item_name or own[place].name)
        else:
            wanted.append(word)
    papers = (*PAPERS, *own.values())
    known = [name for paper in papers for name in (paper.name, *paper.items)]
    twice = [name for name in known if known.count(name) > 1]
    if twice:
        raise InputError(f'papers: expected every name of a paper or item once, found "{twice[0]}" twice; rename one')
    strangers = [name for name in wanted if name not in ("all", *known)]
    if strangers:
        raise InputError(
            f"expected all, a paper ({', '.join(paper.name for paper in PAPERS)}), one of its items, e.g. "
            f'{next(iter(PAPERS[0].items))}, or a folder with a paper of your own, found "{strangers[0]}"; '
            + did_you_mean(strangers[0], known, "see `fluidb docs extend`")
        )
    chosen = [
        (paper, [name for name in paper.items if not {"all", paper.name, name}.isdisjoint(wanted)]) for paper in papers
    ]
    return [(paper, names) for paper, names in chosen if names]
