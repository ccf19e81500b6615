"""The exit at which each request leaves the network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..formats import InputError, read_number
from ..formats.array_types import Floats, Ints
from .measures import CONFIDENCE, MEASURES, Measure, Threshold, show_threshold
from .randomness import EXITS, stream
from .rows import more
from .trace import Trace

PAPER_THRESHOLD = 0.8
"""Confidence from which a sample leaves (Fluid Batching, Section IV, Benchmarks)."""


def draw(rates: Sequence[float], count: int, seed: int) -> Ints:
    """Exits of requests, counted from 1, drawn from the network's exit rates."""
    drawn = stream(seed, EXITS).random(count)
    return np.asarray(1 + np.searchsorted(np.cumsum(rates)[:-1], drawn, side="right"), dtype=np.int64)


def decide(confidences: Floats, least: float | Sequence[float], exits: int) -> Ints:
    """Exits by confidence: each sample leaves at the first exit whose threshold it reaches, else at the last.

    Shapes: ``confidences`` (N, C), returns (N,).

    Examples
    --------
    >>> decide(np.array([[0.7, 0.9], [0.9, 0.1]]), [0.8, 0.9], 3)
    array([2, 1])
    """
    sure = np.ones((len(confidences), exits), dtype=np.bool_)  # at the last exit every sample leaves
    sure[:, :-1] = confidences[:, : exits - 1] >= np.asarray(least)
    return np.asarray(sure.argmax(axis=1) + 1, dtype=np.int64)


def parse_thresholds(text: str, what: str = "threshold") -> list[Threshold]:
    """Read thresholds that a user wrote: one for all exits, or one for each but the last.

    Parameters
    ----------
    text : str
        Numbers that a measure can have, ``never`` or ``always``, separated by commas.
    what : str
        Name of the parameter, for the fault.

    Returns
    -------
    list of Threshold
        At least one.

    Raises
    ------
    InputError
        If one is none of these.

    Examples
    --------
    >>> parse_thresholds("0.8,never,0.9")
    [0.8, 'never', 0.9]
    """
    try:
        values = [_threshold(value.strip()) for value in text.split(",")]
    except ValueError:
        values = []
    if not values or not any(all(map(measure.fits, values)) for measure in MEASURES.values()):
        expected = ", ".join(measure.expected for measure in MEASURES.values())
        raise InputError(
            f"{what}: expected {expected}, or one for each exit but the last with commas between, "
            f'found "{text}"; write e.g. 0.8 or 0.8,never,0.9'
        )
    return values


def _threshold(text: str) -> Threshold:
    return "never" if text == "never" else "always" if text == "always" else read_number(text)


def chosen_thresholds(
    given: Threshold | Sequence[Threshold] | None, last: int, measure: Measure = CONFIDENCE
) -> list[Threshold]:
    """Checked thresholds of a measure: one for all exits, or one for each exit but the last."""
    if given is None:
        if measure is not CONFIDENCE:
            raise InputError(
                f"threshold: expected {measure.plural}, found none, and this measure has no usual one; find some with "
                "`fluidb thresholds --target`, or give a trace with a column exit"
            )
        return [PAPER_THRESHOLD]
    thresholds: list[Threshold] = [given] if isinstance(given, str | float | int) else list(given)
    if len(thresholds) != 1 and len(thresholds) != last - 1:
        several = f", or {last - 1}, one for each exit but the last" if last > 2 else ""
        raise InputError(f"threshold: expected 1 value{several}, found {len(thresholds)}")
    if not all(map(measure.fits, thresholds)):
        stated = ", ".join(map(show_threshold, thresholds))
        raise InputError(f"threshold: expected {measure.plural}, found {stated}")
    return thresholds


def check_tried(thresholds: Sequence[Threshold], measure: Measure) -> None:
    """Refuse thresholds to try that no value of the measure can reach or miss."""
    wrong = [show_threshold(threshold) for threshold in thresholds if not measure.fits(threshold)]
    if wrong:
        raise InputError(f"thresholds: expected {measure.plural}, found {', '.join(wrong)}")
    if twice := [threshold for at, threshold in enumerate(thresholds) if threshold in thresholds[:at]]:
        raise InputError(f"thresholds: expected each threshold once, found {show_threshold(twice[0])} twice")


def levels(given: Threshold | Sequence[Threshold] | None, last: int, measure: Measure = CONFIDENCE) -> list[float]:
    """The least values that reach checked thresholds, as :func:`decide` takes them."""
    return [measure.least(threshold) for threshold in chosen_thresholds(given, last, measure)]


def check(trace: Trace, last: int) -> None:
    """Refuse a trace that does not fit the exits of a network."""
    where = trace.source or "trace"
    faults = []
    if trace.network is not None:
        faults.append(
            f"{where}: network: expected no such column where one network is served, found one; state a file of "
            "networks, or leave out the column"
        )
    if trace.exits is not None:
        wrong = np.flatnonzero(trace.exits > last)
        if wrong.size:
            line = "" if trace.source is None else f" (line {wrong[0] + 2})"
            faults.append(
                f"{where}: row {wrong[0] + 1}{line}: exit: expected 1 to {last}, the exits of the network, "
                f'found "{trace.exits[wrong[0]]}"{more(wrong.size)}'
            )
    elif trace.confidences is not None and trace.confidences.shape[1] not in (last - 1, last):
        name, columns = trace.measure.name, trace.confidences.shape[1]
        hint = "; `fluidb samples generate --network DIR` draws answers at the exits of a table" if last > 1 else ""
        expected = f"{name}_1 to {name}_{last - 1}, one for each exit but the last" if last > 1 else "none"
        where = trace.file_of("confidences")
        faults.append(f"{where}: {name}: expected {expected}, as the network has {last}, found {columns}{hint}")
    if trace.correct is not None and trace.correct.shape[1] != last:
        where = trace.file_of("correct")
        faults.append(
            f"{where}: answers: expected correct_1 to correct_{last}, one for each exit of the network, "
            f"found {trace.correct.shape[1]}"
        )
    if faults:
        raise InputError(faults)
