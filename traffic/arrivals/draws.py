"""Poisson arrivals at a rate that changes over time, made from arrivals at a rate of 1."""

from __future__ import annotations

import numpy as np

from ...formats.array_types import Floats, Ints


def pass_through(work: Floats, edges_s: Floats, rates_per_s: Floats) -> tuple[Floats, Ints]:
    """Times at which the integral of a piecewise constant rate reaches given values, and their pieces.

    The arrivals of a Poisson process of rate 1 become arrivals of a process of that rate
    (Cinlar, Introduction to Stochastic Processes, 1975, Section 4.7).
    """
    done = integral(edges_s, rates_per_s)
    pieces = np.searchsorted(done, work, side="right") - 1
    times_s = edges_s[pieces] + (work - done[pieces]) / rates_per_s[pieces]
    return np.minimum(times_s, edges_s[pieces + 1]), pieces  # rounding must not move an arrival into the next piece


def integral(edges_s: Floats, rates_per_s: Floats) -> Floats:
    """Integral of a piecewise constant rate from the first edge to each edge."""
    return np.concatenate([[0.0], np.cumsum(rates_per_s * np.diff(edges_s))])
