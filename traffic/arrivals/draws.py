"""The passage of unit-rate Poisson arrivals through a rate that changes.

Gaps come from ``standard_exponential``, numpy's table-driven method: unlike a logarithm of uniforms, it gives the same
bits on every CPU.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pass_through(
    work: NDArray[np.float64], edges_s: NDArray[np.float64], rates_per_s: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Times at which a piecewise constant rate has done given amounts of work (its integral).

    A Poisson process of unit rate, sent through, becomes one of that rate
    (Cinlar, Introduction to Stochastic Processes, 1975, Section 4.7).

    Parameters
    ----------
    work : (N,) ndarray of float64
        Amounts, not decreasing, below the integral over all pieces.
    edges_s : (K + 1,) ndarray of float64
        Piece k lasts from ``edges_s[k]`` to ``edges_s[k + 1]`` seconds.
    rates_per_s : (K,) ndarray of float64
        Rate of each piece; 0 is a piece that is leapt over.

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
    return np.minimum(times_s, edges_s[pieces + 1]), pieces  # rounding must not carry one past the next piece's first


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
