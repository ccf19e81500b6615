"""Admission: which requests may wait, as the parameter ``admit`` of a policy states it."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..formats import InputError, read_number

EXPECTED = (
    "expected queue:N or newest:N, a whole number of waiting requests >= 0 or >= 1, or bucket:RATE:BURST, requests/s > "
    "0 and >= 1"
)


class Admission(NamedTuple):
    """A limit of the queue, or a token bucket.

    Attributes
    ----------
    limit : float
        A request that finds this number waiting for its network is refused, unless fewer wait than lanes are idle;
        infinite for a bucket.
    rate_per_s, burst : float
        Tokens that a bucket gets a second, and that it holds at most, also at first; a request takes one or is refused.
        Of a limit, 0 and infinite.
    newest : bool
        Whether, at the limit, the oldest request that waits is dropped, and the one that arrives waits in its place.
    """

    limit: float = math.inf
    rate_per_s: float = 0.0
    burst: float = math.inf
    newest: bool = False


def parse_admission(text: str, what: str = "policy: admit") -> Admission:
    """Read ``queue:N``, ``newest:N`` or ``bucket:RATE:BURST``.

    Parameters
    ----------
    text : str
        The rule.
    what : str
        Name of the parameter, for the fault.

    Returns
    -------
    Admission
        The rule, as numbers.

    Raises
    ------
    InputError
        If it is none of these, or a number is out of its range.

    Examples
    --------
    >>> parse_admission("bucket:15:4").burst
    4.0
    """
    form, *texts = text.split(":")
    try:
        numbers = [read_number(part) for part in texts]
    except ValueError:
        numbers = []
    if len(numbers) == 1 and numbers[0] < math.inf and numbers[0] % 1 == 0:
        if form == "queue" and numbers[0] >= 0:
            return Admission(limit=numbers[0])
        if form == "newest" and numbers[0] >= 1:
            return Admission(limit=numbers[0], newest=True)
    if form == "bucket" and len(numbers) == 2 and 0 < numbers[0] < math.inf and 1 <= numbers[1] < math.inf:
        return Admission(rate_per_s=numbers[0], burst=numbers[1])
    raise InputError(f'{what}: {EXPECTED}, found "{text}"; e.g. queue:8, newest:1 or bucket:15:4')
