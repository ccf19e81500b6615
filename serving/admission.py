"""Admission: which requests may wait, as the parameter ``admit`` of a policy states it."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..formats import InputError, read_number

EXPECTED = (
    "expected queue:N or newest:N, a whole number of waiting requests >= 0 or >= 1, bucket:RATE:BURST, requests/s > 0 "
    "and >= 1, or in_time or in_time:B, a batch size >= 1"
)


class Admission(NamedTuple):
    """A limit of the queue, a token bucket, or a request's own SLO."""

    # a request that finds this number waiting for its network is refused, unless fewer wait than lanes are idle;
    # infinite where there is none
    limit: float = math.inf
    # tokens that a bucket gets a second, and that it holds at most, also at first; a request takes one or is refused.
    # Without a bucket, 0 and infinite
    rate_per_s: float = 0.0
    burst: float = math.inf
    # whether, at the limit, the oldest request that waits is dropped, and the one that arrives waits in its place
    newest: bool = False
    # if a request that cannot be in time is refused, the size of the batches in which requests are expected to be
    # served; else 0
    batch: float = 0


def parse_admission(text: str, what: str = "policy: admit") -> Admission:
    """Read ``queue:N``, ``newest:N``, ``bucket:RATE:BURST`` or ``in_time:B``, which is ``in_time`` where B is 1.

    Examples
    --------
    >>> parse_admission("bucket:15:4").burst
    4.0
    """
    form, *texts = (text if text != "in_time" else "in_time:1").split(":")
    try:
        numbers = [read_number(part) for part in texts]
    except ValueError:
        numbers = []
    if len(numbers) == 1 and numbers[0] < math.inf and numbers[0] % 1 == 0:
        if form == "queue" and numbers[0] >= 0:
            return Admission(limit=numbers[0])
        if form == "in_time" and numbers[0] >= 1:
            return Admission(batch=numbers[0])
        if form == "newest" and numbers[0] >= 1:
            return Admission(limit=numbers[0], newest=True)
    if form == "bucket" and len(numbers) == 2 and 0 < numbers[0] < math.inf and 1 <= numbers[1] < math.inf:
        return Admission(rate_per_s=numbers[0], burst=numbers[1])
    raise InputError(f'{what}: {EXPECTED}, found "{text}"; e.g. queue:8, newest:1, bucket:15:4 or in_time')
