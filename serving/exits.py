"""Where each request leaves the network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from .randomness import EXITS, stream
from .traces import Trace

PAPER_THRESHOLD = 0.8
"""Confidence from which a sample leaves (paper 000, Section IV, Benchmarks)."""


def draw(rates: Sequence[float], count: int, seed: int) -> NDArray[np.int64]:
    """Exits drawn from the network's exit rates.

    Parameters
    ----------
    rates : sequence of float
        Share of samples leaving at each exit; they sum to 1.
    count : int
        Requests.
    seed : int
        Same seed, same exits.

    Returns
    -------
    (count,) ndarray of int64
        1-based exits.
    """
    bounds = np.cumsum(rates)[:-1]
    return np.searchsorted(bounds, stream(seed, EXITS).random(count), side="right") + 1


def decide(confidences: NDArray[np.float64], threshold: float, exits: int) -> NDArray[np.int64]:
    """Exits decided by confidence: the first that reaches the threshold, else the last.

    Parameters
    ----------
    confidences : (N, C) ndarray
        Confidence at exits 1..C.
    threshold : float
        Confidence from which a sample leaves.
    exits : int
        Exits of the network, the last included.

    Returns
    -------
    (N,) ndarray of int64
        1-based exits.
    """
    sure = confidences[:, : exits - 1] >= threshold
    return np.where(sure.any(axis=1), sure.argmax(axis=1) + 1, exits)


def resolve(trace: Trace, rates: Sequence[float], seed: int, threshold: float | None) -> tuple[NDArray[np.int64], str]:
    """The exit of every request: the trace's, else by its confidences, else drawn.

    Parameters
    ----------
    trace : Trace
        Requests.
    rates : sequence of float
        The network's exit rates.
    seed : int
        For exits that are drawn.
    threshold : float, optional
        For exits decided by confidence; by default the paper's 0.8.

    Returns
    -------
    exits : (N,) ndarray of int64
        1-based.
    origin : str
        Where they came from, for the report.

    Raises
    ------
    InputError
        If the trace does not fit the network, or a threshold is given that nothing uses.
    """
    last = len(rates)
    if threshold is not None and (trace.confidences is None or trace.exits is not None):
        raise InputError("threshold: expected a trace whose exits are decided by confidence_1, ...; this one's are not")
    if trace.exits is not None:
        wrong = np.flatnonzero(trace.exits > last)
        if wrong.size:
            raise InputError(
                f"trace: row {wrong[0] + 1}: exit: expected 1 to {last}, the exits of the network, "
                f"found {trace.exits[wrong[0]]}"
            )
        return trace.exits, "trace"
    if trace.confidences is not None:
        columns = trace.confidences.shape[1]
        if columns not in (last - 1, last):
            raise InputError(
                f"trace: expected confidence_1 to confidence_{last - 1}, one for each exit, found {columns}"
            )
        level = PAPER_THRESHOLD if threshold is None else threshold
        return decide(trace.confidences, level, last), f"confidence >= {level:g}"
    return draw(rates, len(trace), seed), f"exit rates, seed {seed}"
