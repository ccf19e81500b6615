"""Poisson arrivals at a rate that changes over time, made from arrivals at a rate of 1.

Gaps come from numpy's ``standard_exponential``, which looks values up in a table and so gives the same bits on every
CPU; a logarithm of uniform numbers would not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pass_through(
    work: NDArray[np.float64], edges_s: NDArray[np.float64], rates_per_s: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Times at which the integral of a piecewise constant rate reaches given values.

    The arrivals of a Poisson process of rate 1 become those of a process of that rate
    (Cinlar, Introduction to Stochastic Processes, 1975, Section 4.7).

    Parameters
    ----------
    work : (N,) ndarray of float64
        Values of the integral, not decreasing, below the integral over all pieces.
    edges_s : (K + 1,) ndarray of float64
        Piece k lasts from ``edges_s[k]`` to ``edges_s[k + 1]`` seconds.
    rates_per_s : (K,) ndarray of float64
        Rate of each piece; a piece of rate 0 has no arrivals.

    Returns
    -------
    times_s : (N,) ndarray of float64
        Not decreasing.
    pieces : (N,) ndarray of int64
        The piece of each.
    """
    done = integral(edges_s, rates_per_s)
    pieces = np.searchsorted(done, work, side="right") - 1
    times_s = edges_s[pieces] + (work - done[pieces]) / rates_per_s[pieces]
    return np.minimum(times_s, edges_s[pieces + 1]), pieces  # rounding must not move an arrival into the next piece


def integral(edges_s: NDArray[np.float64], rates_per_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Integral of a piecewise constant rate from the first edge to each edge.

    Parameters
    ----------
    edges_s : (K + 1,) ndarray of float64
        Seconds.
    rates_per_s : (K,) ndarray of float64
        Rate of each piece.

    Returns
    -------
    (K + 1,) ndarray of float64
        0 first.
    """
    return np.concatenate([[0.0], np.cumsum(rates_per_s * np.diff(edges_s))])
