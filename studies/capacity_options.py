"""What a search for capacity is asked: the loads that it tries, and the requests of its runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..formats import InputError
from ..traffic.clients import Clients
from ..traffic.distributions import Objective
from ..traffic.request_columns import Columns
from .growth import LONGEST
from .saturation import NO_COLUMNS

_FLOOR = 2.0**-10
"""Lowest rate that is tried, as a share of the saturation rate."""

_LEAST_RATE = 1e-6
"""Lowest rate that may be asked for, as a share of the saturation rate: below, times have too few digits."""

_LEAST_EACH = 10
"""Requests that each client sends at least in a run, on average."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CapacityOptions:
    """The loads that a search for capacity tries, and the requests of its runs.

    Attributes
    ----------
    slo_s : float, Distribution or Shares, optional
        Latency objective in seconds of all requests, or the distribution of their own ones.
    columns : Columns
        Columns that are drawn for requests (:func:`fluidb.traffic.additions.parse_columns`).
    predict_depth : float, optional
        Correlation of predicted with actual exits, or steps.
    seeds : int
        Independent runs at each rate, with seeds 0..seeds - 1.
    count, max_requests : int
        Requests of each run, to begin with, and at which a rate is left undecided; by default 16 times as many.
    low_per_s, high_per_s : float, optional
        Rates to search; by default from 1/1024 of :func:`saturation_rate` up to it. Of networks with traffic of their
        own, factors by which their rates grow.
    grow : str, optional
        Of such networks the only one whose rate grows; by default all that have one.
    clients : Clients, optional
        Clients that wait, in place of arrivals: the least number of them, and their think time.
    most_clients : int, optional
        The largest number; by default a tenth of ``count``.
    tolerance : float
        Width at which bisection stops, as a share of the rate; or one client.

    Raises
    ------
    InputError
        If a number is out of bounds, or rates stand beside clients.
    """

    slo_s: Objective | None = None
    columns: Columns = field(default_factory=lambda: NO_COLUMNS)
    predict_depth: float | None = None
    seeds: int = 5
    count: int = 20_000
    max_requests: int | None = None
    low_per_s: float | None = None
    high_per_s: float | None = None
    clients: Clients | None = None
    most_clients: int | None = None
    grow: str | None = None
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise InputError(f"seeds: expected at least 2, whose spread makes an interval, found {self.seeds}")
        if not 1 <= self.count <= self.most:
            raise InputError(
                f"count: expected at least 1 and at most {self.most:,}, the most of a run, found {self.count:,}"
            )
        if self.clients is not None and (self.low_per_s, self.high_per_s) != (None, None):
            raise InputError("rate: expected rates or clients to search, found both; leave out one of the two")

    @property
    def most(self) -> int:
        """Requests of a run at which a rate is left undecided."""
        return 16 * self.count if self.max_requests is None else self.max_requests

    def run_lengths(self, *, own: bool) -> tuple[int, int]:
        """Of runs at first, and at which a load is left undecided: requests, or durations of traffic of their own."""
        return (1, LONGEST) if own else (self.count, self.most)

    def ends(self, saturation_per_s: float) -> tuple[float, float]:
        """The least and the largest load to search: rates, or numbers of clients."""
        if self.clients is not None:
            return _numbers(self.clients, self.most_clients, self.count)
        return _rates(self.low_per_s, self.high_per_s, saturation_per_s)


def _rates(low_per_s: float | None, high_per_s: float | None, saturation: float) -> tuple[float, float]:
    """The lowest and the highest rate to search."""
    high = saturation if high_per_s is None else high_per_s
    least = _LEAST_RATE * saturation
    low = _FLOOR * min(saturation, high) if low_per_s is None else low_per_s
    if low_per_s is None and low < least < high:
        low = least
    if not (math.isfinite(high) and 0 < low < high):
        bounds = f"a highest rate of {high:g} /s" if low_per_s is None else f"{low:g} /s and {high:g} /s"
        default = ", the saturation rate, above which no policy keeps anything" if high_per_s is None else ""
        raise InputError(f"rate: expected 0 < low < high, found {bounds}{default}")
    if low < least:
        raise InputError(f"rate: expected at least {least:g} /s, a millionth of the saturation rate, found {low:g} /s")
    return low, high


def _numbers(clients: Clients, most: int | None, count: int) -> tuple[int, int]:
    """The least and the largest number of clients to search."""
    limit = max(1, count // _LEAST_EACH)
    low, high = clients.count, limit if most is None else most
    if not low <= high <= limit:
        raise InputError(
            f"clients: expected low <= high <= {limit:,}, so that each sends {_LEAST_EACH} of the {count:,} requests "
            f"of a run (count), found {low:,} and {high:,}"
        )
    return low, high
