"""Everything that is reproduced, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .assumptions import ablation, calls, sensitivity
from .claims import claims
from .lab import Lab
from .npu import fig1b, fig10
from .rows import Item
from .tables import table1, table2
from .traffic import fig1a, fig7, fig8, fig9


def fig1(lab: Lab) -> Item:
    """Both halves of Fig. 1."""
    left, right = fig1a(lab), fig1b(lab)
    return Item("fig1", f"{left.title}; {right.title}", left.notes + right.notes, left.rows + right.rows)


ITEMS: dict[str, Callable[[Lab], Item]] = {
    "table1": table1,
    "table2": table2,
    "fig1": fig1,
    "fig7": fig7,
    "fig8": fig8,
    "fig9": fig9,
    "fig10": fig10,
    "claims": claims,
    "ablation": ablation,
    "calls": calls,
    "sensitivity": sensitivity,
}
"""Tables, figures and studies, in the order of results/README.md."""


def reproduce(names: Sequence[str], lab: Lab, progress: Callable[[int, int], None] | None = None) -> Iterator[Item]:
    """Run experiments of the paper.

    Parameters
    ----------
    names : sequence of str
        Keys of :data:`ITEMS`.
    lab : Lab
        How they are run.
    progress : callable, optional
        Called with (items done, items in all).

    Yields
    ------
    Item
        One after the other.

    Raises
    ------
    InputError
        If the file system refuses the lab's folder.
    """
    for done, name in enumerate(names, 1):
        yield ITEMS[name](lab)
        if progress:
            progress(done, len(names))
