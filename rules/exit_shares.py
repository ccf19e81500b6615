"""Shares of the exits that meet a latency target, and the thresholds that give them (EdgeSP, Section 3.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..formats.array_types import Floats

NEARLY = 1e-9
"""Tolerance of sums of shares, which are rounded."""


def shares_of_latest(time_s: Floats, target_s: float) -> Floats:
    """The largest share of the latest exit, then of the one before, and so on, within a mean time (Equation 5)."""
    shares = np.zeros(len(time_s))
    if target_s >= time_s[-1]:
        shares[-1] = 1.0
    elif target_s > time_s[0]:
        shares[-1] = (target_s - time_s[0]) / (time_s[-1] - time_s[0])
    shares[0] = 1 - shares[1:].sum()
    return shares


def shares_of_best(time_s: Floats, accuracy: Floats, target_s: float) -> Floats:
    """Shares with the highest sum of P_n A_n within a mean time."""
    exits = range(len(time_s))
    vertices = [{i: 1.0} for i in exits if time_s[i] <= target_s]
    for i in exits:
        for j in exits:
            if time_s[i] <= target_s < time_s[j]:
                later = (target_s - time_s[i]) / (time_s[j] - time_s[i])
                vertices.append({i: 1 - later, j: later})
    shares = np.zeros((max(1, len(vertices)), len(time_s)))
    shares[0, time_s.argmin()] = not vertices
    for row, vertex in enumerate(vertices):
        shares[row, list(vertex)] = list(vertex.values())
    return np.asarray(shares[max(range(len(shares)), key=lambda row: (shares[row] @ accuracy, -shares[row] @ time_s))])


def least_of_shares(sure: Floats, shares: Sequence[float] | Floats) -> list[float]:
    """The least value at each exit with which given shares of samples leave. Shapes: ``sure`` (N, E - 1).

    Samples that left are not there at a later exit; the text drops the surest values instead (EdgeSP, Section 3.4).
    """
    count, left, levels = len(sure), np.zeros(len(sure), dtype=np.bool_), []
    for column, gone in zip(sure.T, np.cumsum(shares)[:-1], strict=True):
        due = math.ceil(count * (gone - NEARLY))
        leave = due - int(left.sum())
        least = -math.inf if due >= count else math.inf if leave <= 0 else float(np.sort(column[~left])[-leave])
        levels.append(least)
        left |= column >= least
    return levels
