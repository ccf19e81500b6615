"""Properties of an engine with which measured times are nearer than with its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .calibration import Calibration, calibrate
from .engine import needs_of
from .measurements import Measurement

ROWS = 20
"""Fitted rows below which nothing is proposed: few rows fit whatever is tried."""

NEARER = 0.1
"""Share by which the mean error of the fitted rows must be less, for each property that is changed."""


class Alternative(NamedTuple):
    """Changed properties, chosen by the fitted rows, and the calibration with them."""

    changes: dict[str, Any]
    calibration: Calibration


def nearer(
    calibrated: Calibration, measurements: Sequence[Measurement], hold_out: Iterable[str] = (), keep: Iterable[str] = ()
) -> Alternative | None:
    """Change one property after the other, the best first, while fitted rows come clearly nearer.

    Parameters
    ----------
    calibrated : Calibration
        The result of :func:`calibrate`.
    measurements : sequence of Measurement
        The measured times, of products for the engine as it is.
    hold_out, keep : iterable of str
        As for :func:`calibrate`.

    Returns
    -------
    Alternative or None
        None if the properties of the engine are as good as others, or too few rows were fitted.
    """
    held, kept = set(hold_out), set(keep)
    if len(calibrated.chosen(held_out=False)) < ROWS:
        return None
    best = Alternative({}, calibrated)
    while True:
        engine, before = best.calibration.engine, best
        limit = (1 - NEARER) * _error(before.calibration)
        for name, value in _others(best):
            other = engine.model_copy(update={name: value})
            rows = [row._replace(needs=needs_of(row.needs.works, other)) for row in measurements]
            tried = calibrate(other, rows, held, kept)
            if _error(tried) < limit:
                best, limit = Alternative(before.changes | {name: value}, tried), _error(tried)
        if best is before:
            return best if best.changes else None


def _error(calibration: Calibration) -> float:
    return float(abs(calibration.errors(held_out=False)).mean())


def _others(best: Alternative) -> Iterable[tuple[str, Any]]:
    """Other values of the properties that were not changed yet."""
    engine = best.calibration.engine
    sides = [side for side in (engine.pixels, engine.input_channels, engine.output_channels) if side > 1]
    values: dict[str, tuple[Any, ...]] = {
        "pixel_tiles": ("line", "map", "stream") if engine.pixels > 1 else (),
        "inner_tiles": ("position", "line", "window") if engine.input_channels > 1 else (),
        "fill_cycles": (0, sum(sides)),  # of an array through which operands pass from side to side
    }
    for name, others in values.items():
        if name not in best.changes:
            yield from ((name, value) for value in others if value != getattr(engine, name))
