"""An engine with constants from measured times, and how far its times are off (docs/search.md, Calibration)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ...formats import InputError, did_you_mean
from ...formats.array_types import Floats, Ints
from ...platforms.engine import Engine
from .errors import CONFIDENCE, Bound, LeftOut, RowFit, TimesError, judge, times_error
from .fit import COARSE, CONSTANTS, SLOWEST, TimedRows, alike
from .measurements import Measurement

PARTS = 6
"""Parts into which networks are divided to choose constants: each is predicted from the others."""

SAMPLE = 200
"""Most rows by which constants are chosen."""

EARNS = 0.05
"""Share by which more constants must lower the mean error of rows that are not fitted."""

NOTHING = 1e-3
"""A difference of mean errors that counts for nothing."""

SHORT, LONG = 1 / 30, 300
"""Measured times as multiples of the times at the peaks: what is beyond these is of another unit."""


class Calibration(NamedTuple):
    """An engine with its constants, the rows, and constants that the fitted rows do not tell apart."""

    engine: Engine
    rows: list[RowFit]
    left_out: list[RowFit]  # as predicted without their network: the rows held out, or every row in turn
    error: TimesError | None  # of these; None if it is not known
    without: LeftOut  # their errors without constants
    every: LeftOut | None  # with all constants; None if too few rows are fitted
    earned: LeftOut  # with the constants of the engine: the fewest that are as good
    alike: list[list[str]]  # groups of constants; of one if no row depends on it

    @property
    def worse(self) -> bool:
        """Whether the constants are worse than none, on rows that were not fitted."""
        return self.earned.mean > self.without.mean

    @property
    def at_bounds(self) -> list[str]:
        """The fitted constants that stand at a bound."""
        peaks = {"effective_gb_s": self.engine.bandwidth_gb_s, "effective_mhz": self.engine.clock_mhz}
        ends = {name: (float(f"{SLOWEST * peak:.4g}"), peak) for name, peak in peaks.items()} | {"not_hidden": (1.0,)}
        return [name for name in self.earned.constants if getattr(self.engine, name) in ends.get(name, ())]

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
    errors beyond 5 %.  Of all sets of constants the fewest are fitted with which rows that are not fitted are off by
    hardly more than with any other; each network is predicted from the others to see that.

    Parameters
    ----------
    engine : Engine
        The engine, with its constants for ``keep``.
    measurements : sequence of Measurement
        Measured times.
    hold_out : iterable of str
        Networks, or layers as ``network:layer``, whose rows are predicted and not fitted.
    keep : iterable of str
        Constants that stay as the engine has them; if all do, nothing is fitted, and the engine is judged as it is.
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
        If a name is unknown, fewer than two rows are left to fit, or the unit of the times cannot be right.
    """
    held, kept = set(hold_out), set(keep)
    free = _free(measurements, held, kept, table)
    tried = _Tried(engine, measurements, held, free)
    tried.check_units(table)
    names = tried.fewest()
    near = tried.rows.fitted(names)
    judged = [judge(row, near, held_out=not free or is_held(row, held)) for row in measurements]
    left_out = tried.left_out(names)
    every = LeftOut.of(free, tried.left_out(free)) if tried.enough(free) else None
    without = LeftOut.of([], tried.as_it_is(engine.model_copy(update=CONSTANTS)))
    error = times_error(left_out, confidence, chose=bool(free and not tried.away))
    stated = ["measured_error"] if error is None else ["measured_low", "measured_high", "measured_confidence"]
    sources = {key: text for key, text in near.sources.items() if key not in free and not key.startswith("measured_")}
    first, *more = [*names, *stated]
    sources |= dict.fromkeys(more, f"as {first}") | {first: _source(table, judged, left_out)}
    near = near.with_error(error and (error.low, error.high, error.confidence)).model_copy(update={"sources": sources})
    earned = LeftOut.of(names, left_out)
    return Calibration(
        near, judged, left_out, error, without, every, earned, alike(tried.rows, near, names) if names else []
    )


def _free(measurements: Sequence[Measurement], held: set[str], kept: set[str], table: str) -> list[str]:
    """The constants that may be fitted, or a fault."""
    networks = {row.network for row in measurements}
    layers = {_name(row) for row in measurements}
    if strangers := sorted(held - networks - layers):
        known = layers if ":" in strangers[0] else networks
        hint = did_you_mean(strangers[0], known, f"these are {', '.join(sorted(networks))}")
        raise InputError(f'hold_out: expected networks of the table, or network:layer, found "{strangers[0]}"; {hint}')
    if strangers := sorted(kept - set(CONSTANTS)):
        raise InputError(f'keep: expected some of {", ".join(CONSTANTS)}, found "{strangers[0]}"')
    free = [name for name in CONSTANTS if name not in kept]
    count = sum(not is_held(row, held) for row in measurements)
    if count < (2 if free else 1):
        raise InputError(
            f"{table}: expected at least 2 rows to fit, so that each can be predicted from the others, found {count}; "
            "measure more networks, or hold out fewer"
        )
    return free


def _name(row: Measurement) -> str:
    """The name by which a layer is held out."""
    return f"{row.network}:{row.layer}"


def is_held(row: Measurement, held: set[str]) -> bool:
    """Whether a row was held out."""
    return row.network in held or _name(row) in held


class _Tried:
    """Sets of constants, fitted to some rows to predict others."""

    def __init__(
        self, engine: Engine, measurements: Sequence[Measurement], held: set[str], free: Sequence[str]
    ) -> None:
        base = engine.model_copy(update={name: CONSTANTS[name] for name in free})
        self.free = free
        self.fitted = [row for row in measurements if not is_held(row, held)]
        self.away = [row for row in measurements if is_held(row, held)]
        self.rows = TimedRows(self.fitted, base)
        numbers = {name: number for number, name in enumerate(dict.fromkeys(row.network for row in self.fitted))}
        self.part = np.array([numbers[row.network] for row in self.fitted])
        if len(numbers) == 1:  # then rows are left out, not networks
            self.part = np.arange(len(self.fitted))

    def check_units(self, table: str) -> None:
        """Refuse times that are so long or short that their unit, or the engine, must be another."""
        peak = self.rows.engine.model_copy(update=CONSTANTS)
        ratio = float(np.median(1 / self.rows.shares(peak, self.rows.every)))
        if not SHORT <= ratio <= LONG:
            raise InputError(
                f"{table}: expected times between {SHORT:g} and {LONG:g} of what products and transfers take at the "
                f"peaks, found {ratio:.3g} of it in the median; check the unit of the times, clock_mhz, pixels, "
                "input_channels, output_channels and bandwidth_gb_s"
            )

    def enough(self, names: Sequence[str]) -> bool:
        """Whether as many rows are left as constants, whichever network is left out."""
        return len(self.fitted) - int(np.bincount(self.part).max()) >= len(names)

    def fewest(self) -> list[str]:
        """The constants that earn their place."""
        sample = np.unique(np.linspace(0, len(self.fitted) - 1, SAMPLE).astype(np.int64))
        parts = self.part[sample] % PARTS
        sets = [names for size in range(len(self.free) + 1) for names in combinations(self.free, size)]
        errors = [self._error(names, sample, parts) for names in sets]
        limit = min(errors)[0] * (1 + EARNS) + NOTHING
        good = [
            (len(names), spread, names) for names, (mean, spread) in zip(sets, errors, strict=True) if mean <= limit
        ]
        return list(min(good)[2])

    def _error(self, names: Sequence[str], sample: Ints, parts: Ints) -> tuple[float, float]:
        """Mean and mean squared error of a sample of rows, in parts that are predicted from the others."""
        if not self.enough(names):
            return np.inf, np.inf
        errors = np.empty(len(sample))
        for part in np.unique(parts):
            away = parts == part
            near = self.rows.fitted(names, sample[~away], COARSE)
            errors[away] = abs(self.rows.shares(near, sample[away]) - 1)
        mean, squared = (float(np.average(part, weights=self.rows.counts[sample])) for part in (errors, errors**2))
        return mean, squared

    def left_out(self, names: Sequence[str]) -> list[RowFit]:
        """Rows that were held out; if there are none, every row as it is predicted from the other networks."""
        if self.away:
            return self.as_it_is(self.rows.fitted(names))
        return list(self._in_turn(names))

    def as_it_is(self, engine: Engine) -> list[RowFit]:
        """The same rows with the constants of an engine."""
        return [judge(row, engine, held_out=True) for row in self.away or self.fitted]

    def _in_turn(self, names: Sequence[str]) -> Iterator[RowFit]:
        parts = self.part if self.part.max() < len(self.fitted) - 1 else self.part % PARTS
        for part in np.unique(parts):
            near = self.rows.fitted(names, np.flatnonzero(parts != part))
            yield from (judge(self.fitted[at], near, held_out=True) for at in np.flatnonzero(parts == part))


def _source(table: str, rows: Sequence[RowFit], left_out: Sequence[RowFit]) -> str:
    """The source of constants: the table, its rows, and how far they are off."""
    words = []
    away = [row for row in rows if row.held_out]
    for did, of in (("fitted to", [row for row in rows if not row.held_out]), ("held out", away)):
        if of:
            count, mean, worst = LeftOut.of([], of)[1:]
            networks = ", ".join(sorted({row.network for row in of}))
            words.append(f"{did} {count} rows of {networks}: mean error {mean:.1%}, worst {worst:.1%}")
    if not away:
        mean, worst = LeftOut.of([], left_out)[2:]
        words.append(f"each network left out in turn: mean error {mean:.1%}, worst {worst:.1%}")
    return f"fluidb calibrate, {table}; {'; '.join(words)}"
