"""Search of an NPU with a persistent buffer: the buffer of SUSHI in the search of Fluid Batching."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...models import Network
from ...platforms import Board
from .evaluation import Progress
from .objectives import OBJECTIVES
from .options import SearchOptions
from .search import SearchResult, search
from .workload import Workload

STEPS = 20
"""Sizes that are searched: multiples of the on-chip memory divided by this."""

Sizes = list[tuple[SearchOptions, SearchResult]]


def search_persistent(
    network: Network | Workload,
    platform: Board,
    options: SearchOptions,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> tuple[Sizes, int]:
    """Search the best NPU for each size of a buffer in which the weights of the first layers stay."""
    whole = options.limits.confine(platform).on_chip_mbit
    sizes: Sizes = []
    for step in range(STEPS):
        size = options.model_copy(update={"persistent_mbit": whole * step / STEPS})
        sizes.append((size, search(network, platform, size, **settings)))
        if progress:
            progress(step + 1, STEPS)
    best = np.array([result.best.objective for _, result in sizes])
    return sizes, int(OBJECTIVES[options.objective].losses(best).argmin())
