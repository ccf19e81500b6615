"""How much on-chip memory an NPU should give to weights that stay: paper 003's buffer in the search of paper 000."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...models import Network
from ...platforms import Board
from .objectives import OBJECTIVES
from .search import Progress, SearchOptions, SearchResult, search

STEPS = 20
"""Sizes that are searched: multiples of the on-chip memory divided by this."""

Sizes = list[tuple[SearchOptions, SearchResult]]


def search_persistent(
    network: Network, platform: Board, options: SearchOptions, *, progress: Progress | None = None, **settings: Any
) -> tuple[Sizes, int]:
    """Search the best NPU for each size of a buffer in which the weights of the first layers stay.

    Parameters
    ----------
    network, platform : Network and Platform
        What runs, and what on.
    options : SearchOptions
        What is searched for, without a persistent buffer.
    progress : callable, optional
        Called with (sizes done, sizes in all).
    **settings
        Other arguments of :func:`.search.search`.

    Returns
    -------
    found : list of (SearchOptions, SearchResult)
        For every size from 0 on, in steps of a twentieth of the on-chip memory.
    best : int
        The place of the best among them; of equal ones the smallest.

    Raises
    ------
    InputError
        As :func:`.search.search` does.
    """
    whole = options.limits.confine(platform).on_chip_mbit
    found: Sizes = []
    for step in range(STEPS):
        size = options.model_copy(update={"persistent_mbit": whole * step / STEPS})
        found.append((size, search(network, platform, size, **settings)))
        if progress:
            progress(step + 1, STEPS)
    best = np.array([result.best.objective for _, result in found])
    return found, int(OBJECTIVES[options.objective].losses(best).argmin())
