"""Requests from counts by interval, as monitoring writes them."""

from __future__ import annotations

import numpy as np

from ...formats import InputError
from ..randomness import WITHIN_MINUTE, stream
from ..rows import Source, Tally
from ..times import to_seconds
from .azure import MAX_INVOCATIONS
from .layout import ImportedRows, Layout, read_rows


def read_counts(source: Source, layout: Layout, tally: Tally, seed: int) -> ImportedRows:
    """Each request at a random time of its interval, which ends where the next one may begin."""
    rows = read_rows(source, layout, tally)
    starts, counts = to_seconds(rows.times), rows.known["count"]
    gaps = np.diff(np.sort(starts))
    if not gaps.size or not (gaps > 0).any():
        raise InputError(f"{tally.path}: expected intervals that begin at two different times at least, found one")
    total = int(counts.sum())
    if not 0 < total <= MAX_INVOCATIONS:
        raise InputError(f"{tally.path}: expected 1 to {MAX_INVOCATIONS:,} requests in all, found {total:,}")
    length = float(gaps[gaps > 0].min())
    within = stream(seed, WITHIN_MINUTE).random(total)
    return ImportedRows(np.sort(np.repeat(starts, counts) + length * within), rows.unit)
