"""Traces made from traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..formats import InputError, is_input
from ..formats.array_types import Floats
from .arrivals.bounds import check_rate, trace_of
from .reading import NETWORK
from .roots import bisect
from .trace import Trace

MAX_POWER = 1000.0
"""A higher power would turn the rounding of arrival times into visible gaps."""


def named_files(texts: Sequence[str]) -> list[tuple[str | None, Path]]:
    """Read ``NETWORK=FILE`` of all files, or ``FILE`` of all."""
    parts = [text.partition("=") for text in texts]
    named = [bool(equals) and NETWORK.fits(name) and not is_input(name + equals + rest)
             for name, equals, rest in parts]  # fmt: skip
    if not any(named):
        return [(None, Path(text)) for text in texts]
    if not all(named):
        raise InputError(
            f'traces: expected NETWORK=FILE for all or for none, found "{texts[named.index(False)]}" without a network'
        )
    return [(name, Path(rest)) for name, _, rest in parts]


def for_network(trace: Trace, name: str) -> Trace:
    """The trace with all of its requests for one network."""
    return replace(trace, network=np.full(len(trace), name))


def superpose(traces: Sequence[Trace]) -> Trace:
    """Merge several traces into one; every request keeps its arrival time.

    Requests get new numbers from 0, in order of arrival.  If several arrive at the same
    time, requests of an earlier trace come first, and requests of one trace keep their order.

    Parameters
    ----------
    traces : sequence of Trace
        One or more, with the same columns.  Poisson traces merge into a Poisson
        trace if their seeds differ; equal seeds draw equal gaps.

    Returns
    -------
    Trace
        All requests.

    Raises
    ------
    InputError
        If there is no trace, or a column is in some of them only.
    """
    if not traces:
        raise InputError("traces: expected at least one, found none")
    columns = [trace.columns() for trace in traces]
    faults = []
    for name in sorted(set().union(*columns)):
        holders = [i for i, held in enumerate(columns, 1) if name in held]
        if len(holders) < len(traces):
            numbers = ", ".join(map(str, holders))
            faults.append(
                f"traces: expected the column {name} in all {len(traces)} or in none, "
                f"found it only in number {numbers}; add it to the others or remove it"
            )
    if faults:
        raise InputError(faults)
    parts = [trace.arrays() for trace in traces]
    merged = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(merged["arrival_s"], kind="stable")
    ordered: dict[str, Any] = {name: values[order] for name, values in merged.items()}
    ordered["request_id"] = np.arange(len(order))
    if "admitted_with" in merged:
        begins = np.cumsum([0, *map(len, traces[:-1])]).tolist()
        firsts = np.concatenate([trace.firsts + begin for trace, begin in zip(traces, begins, strict=True)])
        ordered["admitted_with"] = np.argsort(order)[firsts][order]
    return Trace(**ordered, measure=traces[0].measure)


def rescale_rate(trace: Trace, rate_per_s: float) -> Trace:
    """Multiply all arrival times by one factor, so that the mean rate becomes the given one.

    Parameters
    ----------
    trace : Trace
        Requests.
    rate_per_s : float
        Mean arrival rate from the first to the last arrival, in requests/s.

    Returns
    -------
    Trace
        With the same ids, exits, confidences and objectives.

    Raises
    ------
    InputError
        If the rate is out of bounds, or all requests arrive at the same time.
    """
    check_rate(rate_per_s)
    if not trace.rate_per_s:
        raise InputError("trace: expected requests at two different times at least, found one; its rate is undefined")
    return replace(trace, arrival_s=trace_of(trace.arrival_s * (trace.rate_per_s / rate_per_s)).arrival_s)


def rescale_burstiness(trace: Trace, cv: float) -> Trace:
    """Make the gaps between requests more or less equal, at the same mean rate.

    Every gap is raised to one power, then all are scaled so that the first and the last
    arrival stay.  Long gaps stay longer than short ones.  The coefficient of
    variation grows with the power: with equal gaps it is least (gaps of 0 stay 0),
    with the longest gap only it is greatest; the power is found by bisection.

    Parameters
    ----------
    trace : Trace
        Requests.
    cv : float
        Coefficient of variation of the gaps to reach: standard deviation/mean.

    Returns
    -------
    Trace
        With the same ids, exits, confidences and objectives.

    Raises
    ------
    InputError
        If no power from 0 to 1000 gives this coefficient; the message names the
        coefficients that can be reached.
    """
    gaps = np.diff(trace.arrival_s)
    if not trace.rate_per_s:
        raise InputError(
            "trace: expected requests at two different times at least, found one; it has no gaps to change"
        )
    relative = gaps / gaps.max()
    positive = relative > 0
    logs = np.log(relative[positive])

    def powered(power: float) -> Floats:
        values = np.zeros_like(gaps)
        values[positive] = np.exp(power * logs)
        return values

    def reached(power: float) -> float:
        values = powered(power)
        return float(values.std() / values.mean())

    low, high = reached(0.0), reached(MAX_POWER)
    if not low < cv < high:
        raise InputError(f"cv: expected between {low:.6g} and {high:.6g}, which these gaps can reach, found {cv:g}")
    shares = np.cumsum(powered(bisect(lambda power: reached(power) - cv, 0.0, MAX_POWER)))
    first_s, last_s = trace.arrival_s[[0, -1]]
    return replace(trace, arrival_s=np.concatenate([[first_s], first_s + (last_s - first_s) * (shares / shares[-1])]))
