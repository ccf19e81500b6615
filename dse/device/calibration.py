"""An engine with constants from measured times, and how far its times are off (docs/search.md, Calibration)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...formats import InputError, did_you_mean
from ...platforms.engine import Engine
from .engine import Floats
from .errors import CONFIDENCE, FEWEST, Bound, RowFit, TimesError, judge, times_error
from .fit import CONSTANTS, alike, fitted
from .measurements import Measurement


class Calibration(NamedTuple):
    """An engine with its constants, the rows, and constants that the fitted rows do not tell apart."""

    engine: Engine
    rows: list[RowFit]
    left_out: list[RowFit]  # as predicted without their network: the rows held out, or every row in turn
    error: TimesError | None  # of these; None if it is not known
    alike: list[list[str]]  # groups of constants; of one if no row depends on it

    def chosen(self, *, held_out: bool, bound: Bound | None = None) -> list[RowFit]:
        """The rows that were held out, or the fitted ones; with ``bound``, only rows with this bound."""
        return [row for row in self.rows if row.held_out == held_out and bound in (None, row.bound)]

    def errors(self, *, held_out: bool, bound: Bound | None = None) -> Floats:
        """Errors of :meth:`chosen`."""
        return np.array([row.error for row in self.chosen(held_out=held_out, bound=bound)], np.float64)


def calibrate(
    engine: Engine,
    measurements: Sequence[Measurement],
    hold_out: Iterable[str] = (),
    keep: Iterable[str] = (),
    *,
    table: str = "measured times",
    confidence: float = CONFIDENCE,
) -> Calibration:
    """Fit the constants of an engine to measured times.

    The sum of Huber's loss of log(predicted / measured) over the rows is the least: squares of small errors, sizes of
    errors beyond 5 %.

    Parameters
    ----------
    engine : Engine
        The engine, with its constants for ``keep``.
    measurements : sequence of Measurement
        Measured times.
    hold_out : iterable of str
        Networks whose rows are predicted and not fitted.
    keep : iterable of str
        Constants that stay as the engine has them.
    table : str
        Name of the measurements, for the sources of the constants.
    confidence : float
        How likely the time of a further network lies in the range of errors.

    Returns
    -------
    Calibration
        The engine with its constants and its range of errors, and every row.

    Raises
    ------
    InputError
        If a name is unknown, or fewer rows than constants are left to fit.
    """
    held, kept = set(hold_out), set(keep)
    free = _free(measurements, held, kept, table)
    used = [row for row in measurements if row.network not in held]
    near = fitted(engine, used, free)
    judged = [judge(row, near, held_out=row.network in held) for row in measurements]
    left_out = [row for row in judged if row.held_out] if held else list(_in_turn(engine, used, free))
    error = times_error(left_out, confidence)
    stated = ["measured_error"] if error is None else ["measured_low", "measured_high", "measured_confidence"]
    sources = {key: text for key, text in near.sources.items() if not key.startswith("measured_")}
    sources |= dict.fromkeys([*free, *stated], f"as {free[0]}") | {free[0]: _source(table, judged, left_out)}
    near = near.with_error(error and (error.low, error.high, error.confidence))
    return Calibration(near.model_copy(update={"sources": sources}), judged, left_out, error, alike(near, used, free))


def _free(measurements: Sequence[Measurement], held: set[str], kept: set[str], table: str) -> list[str]:
    """The constants that are fitted, or a fault."""
    networks = {row.network for row in measurements}
    if strangers := sorted(held - networks):
        hint = did_you_mean(strangers[0], networks, f"these are {', '.join(sorted(networks))}")
        raise InputError(f'hold_out: expected networks of the table, found "{strangers[0]}"; {hint}')
    if strangers := sorted(kept - set(CONSTANTS)):
        raise InputError(f'keep: expected some of {", ".join(CONSTANTS)}, found "{strangers[0]}"')
    free = [name for name in CONSTANTS if name not in kept]
    if not free:
        raise InputError("keep: expected a constant that is fitted, found all kept")
    count = sum(row.network not in held for row in measurements)
    if count < len(free):
        raise InputError(
            f"{table}: expected at least {len(free)} rows to fit {len(free)} constants, found {count}; "
            "measure more networks, hold out fewer, or keep constants"
        )
    return free


def _in_turn(engine: Engine, measurements: Sequence[Measurement], free: Sequence[str]) -> Iterator[RowFit]:
    """Every row as the constants predict it that are fitted to the rows of all other networks."""
    networks = dict.fromkeys(row.network for row in measurements)
    for network in networks if len(networks) >= FEWEST else ():
        others = [row for row in measurements if row.network != network]
        if len(others) >= len(free):
            near = fitted(engine, others, free)
            yield from (judge(row, near, held_out=True) for row in measurements if row.network == network)


def _source(table: str, rows: Sequence[RowFit], left_out: Sequence[RowFit]) -> str:
    """The source of constants: the table, its rows, and how far they are off."""
    words = []
    held = any(row.held_out for row in rows)
    fit = [row for row in rows if not row.held_out]
    for did, of in (("fitted to", fit), ("held out" if held else "each network left out in turn:", left_out)):
        errors = np.abs([row.error for row in of])
        if errors.size:
            networks = ", ".join(sorted({row.network for row in of}))
            off = f"mean error {errors.mean():.1%}, worst {errors.max():.1%}"
            words.append(f"{did} {errors.size} rows of {networks}: {off}" if held or of is fit else f"{did} {off}")
    return f"fluidb calibrate, {table}; {'; '.join(words)}"
