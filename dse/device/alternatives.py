"""Properties of an engine with which measured times are nearer than with its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...platforms.engine import Engine
from .calibration import Calibration, calibrate, is_held
from .engine import needs_of
from .fit import CONSTANTS, TimedRows
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

    ``None`` if the properties of the engine are as good as others, or too few rows were fitted.  ``hold_out`` and
    ``keep`` are as for :func:`calibrate`.
    """
    held = set(hold_out)
    free = [name for name in CONSTANTS if name not in set(keep)]
    if not free or len(calibrated.chosen(held_out=False)) < ROWS:
        return None
    base = calibrated.engine.model_copy(update={name: CONSTANTS[name] for name in free})
    changes: dict[str, Any] = {}
    least = _error(base, measurements, held, free)
    while True:
        tried = [
            (_error(base.model_copy(update={name: value}), measurements, held, free), name, value)
            for name, value in _others(base, changes)
        ]
        error, name, value = min(tried, key=lambda each: each[0], default=(np.inf, "", None))
        if error >= (1 - NEARER) * least:
            break
        base, least, changes = base.model_copy(update={name: value}), error, changes | {name: value}
    if not changes:
        return None
    return Alternative(changes, calibrate(base, _again(base, measurements), held, keep))


def _again(engine: Engine, measurements: Sequence[Measurement]) -> list[Measurement]:
    """The measurements with what their layers need of another engine."""
    different = {id(row.needs): row.needs for row in measurements}
    needed = {key: needs_of(needs.works, engine) for key, needs in different.items()}
    return [row._replace(needs=needed[id(row.needs)]) for row in measurements]


def _error(engine: Engine, measurements: Sequence[Measurement], held: set[str], free: Sequence[str]) -> float:
    """Mean error of the fitted rows with all constants."""
    rows = TimedRows(_again(engine, [row for row in measurements if not is_held(row, held)]), engine)
    return float(np.average(abs(rows.shares(rows.fitted(free), rows.every) - 1), weights=rows.counts))


def _others(engine: Engine, changes: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Other values of the properties that were not changed yet."""
    sides = [side for side in (engine.pixels, engine.input_channels, engine.output_channels) if side > 1]
    values: dict[str, tuple[Any, ...]] = {
        "pixel_tiles": ("line", "map", "stream") if engine.pixels > 1 else (),
        "inner_tiles": ("position", "line", "window") if engine.input_channels > 1 else (),
        "linear_over_pixels": (False, True) if engine.pixels > 1 else (),
        "fill_cycles": (0, sum(sides)),  # of an array through which operands pass from side to side
    }
    for name, others in values.items():
        if name not in changes:
            yield from ((name, value) for value in others if value != getattr(engine, name))
