"""Constants of an engine from measured times (docs/search.md, Engines of fixed shape)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from ...formats import AnyPath, InputError, Strict, did_you_mean, read_text, validate
from ...models.loader import read_network_file
from ...platforms.engine import Engine
from .engine import Needs, needs

Floats = NDArray[np.float64]
CONSTANTS = ("effective_gb_s", "not_hidden", "layer_s", "inference_s")
"""What is fitted."""

SLOWEST = 1e-3
"""Least share of the peak bandwidth that is tried."""

ALIKE = 0.1
"""Constants are not told apart if predicted times change by this share when all change, compared with each alone."""

STEP = 1e-3
"""Share by which the bandwidth is changed to see that."""

STEPS, REFINEMENTS = 80, 25
"""Bandwidths tried, at equal ratios, and steps that refine the best."""

EQUAL = 1e-3
"""Losses are equal if they differ by this share, or by the loss of errors of this size."""

EDGE = 0.05
"""Errors below count by their square, larger ones by their size: a few gross errors do not move the constants."""

RANK = 1e-12
"""Share of the largest singular value below which columns are taken as dependent."""

ROUNDS, SAME = 50, 1e-5
"""Most rounds of weights beside a bandwidth, and the share of the loss by which a further round must be better."""


TIMES = ("latency_ms", "latency_us", "cycles")
"""Columns for a time; a row has one of them."""


class Bound(StrEnum):
    """What takes most of a measured time, as predicted."""

    COMPUTE = "compute"
    MEMORY = "memory"
    START_UP = "start-up"


class Measurement(NamedTuple):
    """A measured time of a network, or of a layer of it."""

    network: str
    layer: str | None
    seconds: float
    needs: Needs


class RowFit(NamedTuple):
    """A measured time beside the predicted one."""

    network: str
    layer: str | None
    measured_s: float
    predicted_s: float
    held_out: bool
    bound: Bound | None  # none of the sum of several
    computing_s: float  # as predicted; a shorter measured time is of another unit, clock or shape
    moving_s: float  # at the peak bandwidth; a shorter one is of other words or another peak

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1


class Calibration(NamedTuple):
    """An engine with its constants, the rows, and constants that the fitted rows do not tell apart."""

    engine: Engine
    rows: list[RowFit]
    alike: list[list[str]]  # groups of them; of one if no row depends on it

    def chosen(self, *, held_out: bool, bound: Bound | None = None) -> list[RowFit]:
        """The rows that were held out, or the fitted ones; with ``bound``, only rows with this bound."""
        return [row for row in self.rows if row.held_out == held_out and bound in (None, row.bound)]

    def errors(self, *, held_out: bool, bound: Bound | None = None) -> Floats:
        """Errors of :meth:`chosen`."""
        return np.array([row.error for row in self.chosen(held_out=held_out, bound=bound)], np.float64)


class _MeasuredRow(Strict):
    """A row of the table. Cells of a CSV are text, therefore numbers are converted here."""

    model_config = ConfigDict(strict=False)

    network: str
    layer: str | None = None
    latency_ms: Annotated[float | None, Field(gt=0, le=1e9)] = None
    latency_us: Annotated[float | None, Field(gt=0, le=1e12)] = None
    cycles: Annotated[float | None, Field(gt=0, le=1e18)] = None
    clock_mhz: Annotated[float | None, Field(gt=0, le=1e6)] = None

    def seconds(self, line: str) -> float:
        """The time, or a fault."""
        stated = [key for key in TIMES if getattr(self, key) is not None]
        if len(stated) != 1:
            raise InputError(
                f"{line}: {', '.join(TIMES)}: expected one of them, found {' and '.join(stated) or 'none'}"
            )
        if self.latency_ms is not None:
            return self.latency_ms / 1e3
        if self.latency_us is not None:
            return self.latency_us / 1e6
        if self.clock_mhz is None or self.cycles is None:
            raise InputError(f"{line}: clock_mhz: expected the clock whose cycles these are, found none")
        return self.cycles / (1e6 * self.clock_mhz)


def read_measurements(path: AnyPath, engine: Engine) -> list[Measurement]:
    """Read measured times of networks or layers on an engine.

    Parameters
    ----------
    path : str or Path
        A CSV with ``network`` and ``latency_ms``, ``latency_us``, or ``cycles`` and ``clock_mhz``; with ``layer``, for
        times of layers; with ``platform``, rows of other engines are left out.  A network is a name, or a TOML
        file beside the CSV; its exits do not count.
    engine : Engine
        The engine.

    Returns
    -------
    list of Measurement
        The rows, in the order of the file.

    Raises
    ------
    InputError
        If it cannot be read, or no row is of this engine, or rows have faults: each has a line.
    """
    reader = csv.DictReader(io.StringIO(read_text(Path(path)).removeprefix("\ufeff"), newline=""), strict=True)
    measured = _MeasuredRows(path, engine)
    try:
        header = reader.fieldnames or ()
        _check_header(path, header)
        for cells in reader:
            line = f"{path}: line {reader.line_num}"
            if None in cells:
                fault = f"{line}: expected {len(header)} values, found {len(header) + len(cells[None])}"
                measured.faults.append(fault)
                continue
            try:
                measured.add(cells, line)
            except InputError as error:
                measured.faults += error.faults
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num}: expected CSV, found none ({error})") from None
    return measured.checked()


def _check_header(path: AnyPath, header: Sequence[str]) -> None:
    if "network" not in header or not set(TIMES) & set(header):
        raise InputError(
            f"{path}: line 1: expected the columns network, and latency_ms, latency_us, or cycles and clock_mhz, "
            f"found {', '.join(header) or 'nothing'}"
        )
    if twice := [name for name in header if header.count(name) > 1]:
        raise InputError(f"{path}: line 1: expected every column once, found {twice[0]} again")


class _MeasuredRows:
    """The rows of a table as they are read, with their faults."""

    def __init__(self, path: AnyPath, engine: Engine) -> None:
        self.path, self.engine = path, engine
        self.measurements: list[Measurement] = []
        self.faults: list[str] = []
        self.others: set[str] = set()  # engines whose rows are left out
        self.needs: dict[str, Needs] = {}  # of each network
        self.refused: set[str] = set()  # networks with a fault that one row has told already
        self.unnamed: dict[str, list[str]] = {}  # faults of rows that name no layer, by network

    def add(self, cells: Mapping[str, str | None], line: str) -> None:
        """Take a row, or tell its fault."""
        if (platform := cells.get("platform") or self.engine.name) != self.engine.name:
            self.others.add(platform)
            return
        stated = {key: cells[key] for key in _MeasuredRow.model_fields if cells.get(key)}
        row = validate(_MeasuredRow, stated, Path(line))
        seconds = row.seconds(line)
        if row.network in self.refused:
            return
        if row.network not in self.needs:
            self.refused.add(row.network)
            self.needs[row.network] = _needs(row.network, Path(self.path), self.engine, line)
            self.refused.remove(row.network)
        need = self.needs[row.network]
        if row.layer is not None:
            names = [work.name for work in need.works]
            if row.layer not in names:
                self.unnamed.setdefault(row.network, []).append(_no_layer(row.network, row.layer, names, line))
                return
            need = need.of_layer(names.index(row.layer))
        self.measurements.append(Measurement(row.network, row.layer, seconds, need))

    def checked(self) -> list[Measurement]:
        """The measurements, or the faults of all rows."""
        for network, (first, *more) in self.unnamed.items():
            hint = f"; {len(more)} more rows of {network} have no layer of it" if more else ""
            self.faults.append(first + hint)
        if self.faults:
            raise InputError(self.faults)
        if not self.measurements:
            rest = f"rows of {', '.join(sorted(self.others))}" if self.others else "none"
            raise InputError(f"{self.path}: expected rows of {self.engine.name}, found {rest}")
        return self.measurements


def _needs(network: str, table: Path, engine: Engine, line: str) -> Needs:
    """The needs of a network without its exits."""
    try:
        file, path = read_network_file(table.parent / network if network.endswith(".toml") else network)
        return needs(file.model_copy(update={"exits": []}), path, engine)
    except InputError as error:
        raise InputError(f"{line}: network: {fault}" for fault in error.faults) from None


def _no_layer(network: str, layer: str, names: Sequence[str], line: str) -> str:
    """The fault of a row that names none of the layers."""
    hint = did_you_mean(layer, names, f"the first is {names[0]}")
    return f'{line}: layer: expected a layer of {network} that takes time, found "{layer}"; {hint}'


class _Rows:
    """Rows as arrays, to predict all of them for a bandwidth; shares are of the measured times."""

    def __init__(self, rows: Sequence[Measurement], engine: Engine) -> None:
        self.measured_s = np.array([row.seconds for row in rows])
        counts = np.array([len(row.needs.works) for row in rows])
        self.starts = np.append(0, np.cumsum(counts)[:-1])
        self.computing = np.concatenate([row.needs.cycles for row in rows]) / engine.clock_hz
        self.bytes = np.concatenate([row.needs.bytes for row in rows])
        self.fixed = np.array([counts, [row.layer is None for row in rows]])  # layers and inferences

    def summed(self, layers: Floats) -> Floats:
        """Sums over the layers of each row."""
        sums: Floats = np.add.reduceat(layers, self.starts)
        return sums

    def shares(self, gb_s: float) -> tuple[Floats, Floats]:
        """The longer of computing and moving, and a column for each constant but the bandwidth."""
        moving = self.bytes / (1e9 * gb_s)
        longer = self.summed(np.maximum(self.computing, moving))
        columns = np.array([self.summed(np.minimum(self.computing, moving)), *self.fixed])
        return longer / self.measured_s, (columns / self.measured_s).T


def calibrate(
    engine: Engine,
    measurements: Sequence[Measurement],
    hold_out: Iterable[str] = (),
    keep: Iterable[str] = (),
    *,
    table: str = "measured times",
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
    networks = {row.network for row in measurements}
    if strangers := sorted(held - networks):
        hint = did_you_mean(strangers[0], networks, f"these are {', '.join(sorted(networks))}")
        raise InputError(f'hold_out: expected networks of the table, found "{strangers[0]}"; {hint}')
    if strangers := sorted(kept - set(CONSTANTS)):
        raise InputError(f'keep: expected some of {", ".join(CONSTANTS)}, found "{strangers[0]}"')
    fitted = [row for row in measurements if row.network not in held]
    free = [name for name in CONSTANTS if name not in kept]
    if not free:
        raise InputError("keep: expected a constant that is fitted, found all kept")
    if len(fitted) < len(free):
        raise InputError(
            f"{table}: expected at least {len(free)} rows to fit {len(free)} constants, found {len(fitted)}; "
            "measure more networks, hold out fewer, or keep constants"
        )
    rows = _Rows(fitted, engine)
    stated = np.array([engine.not_hidden, engine.layer_s, engine.inference_s])
    fixed = np.array([name in kept for name in CONSTANTS[1:]])
    gb_s = engine.effective_gb_s or engine.bandwidth_gb_s
    if CONSTANTS[0] in free:
        equal = len(fitted) * EQUAL**2 / (2 * EDGE)
        gb_s = _least(lambda rate: _solve(rows, rate, stated, fixed)[1], engine.bandwidth_gb_s, equal)
    values = dict(zip(CONSTANTS, [gb_s, *_solve(rows, gb_s, stated, fixed)[0]], strict=True))
    refined = engine.model_copy(update={name: float(f"{values[name]:.4g}") for name in free})
    if refined.effective_gb_s is not None:
        refined = refined.model_copy(update={"effective_gb_s": min(refined.effective_gb_s, engine.bandwidth_gb_s)})
    judged = [_judge(row, refined, held_out=row.network in held) for row in measurements]
    ratios = [row.measured_s / row.predicted_s for row in by_network(judged) if row.held_out or not held]
    limits = {"measured_low": float(f"{min(ratios):.4g}"), "measured_high": float(f"{max(ratios):.4g}")}
    sources = refined.sources | dict.fromkeys([*free, *limits], f"as {free[0]}") | {free[0]: _source(table, judged)}
    return Calibration(refined.model_copy(update={**limits, "sources": sources}), judged, _alike(rows, refined, free))


def by_network(rows: Sequence[RowFit]) -> list[RowFit]:
    """Rows of networks, then for each network with measured layers the sum over them."""
    layers: dict[str, list[RowFit]] = {}
    for row in rows:
        if row.layer is not None:
            layers.setdefault(row.network, []).append(row)
    sums = [
        RowFit(
            network, f"{len(of)} layers", sum(row.measured_s for row in of), sum(row.predicted_s for row in of),
            of[0].held_out, None, sum(row.computing_s for row in of), sum(row.moving_s for row in of),
        )
        for network, of in layers.items()
    ]  # fmt: skip
    return [row for row in rows if row.layer is None] + sums


def _source(table: str, rows: Sequence[RowFit]) -> str:
    """The source of constants: the table, its rows, and how far they are off."""
    words = []
    for did, held_out in (("fitted to", False), ("held out", True)):
        errors = np.abs([row.error for row in rows if row.held_out == held_out])
        if errors.size:
            networks = ", ".join(sorted({row.network for row in rows if row.held_out == held_out}))
            off = f"mean error {errors.mean():.1%}, worst {errors.max():.1%}"
            words.append(f"{did} {errors.size} rows of {networks}: {off}")
    return f"fluidb calibrate, {table}; {'; '.join(words)}"


def _judge(row: Measurement, engine: Engine, *, held_out: bool) -> RowFit:
    """A row with its predicted time and what takes most of it."""
    computing, moving = row.needs.cycles / engine.clock_hz, row.needs.bytes / engine.bytes_per_s
    times = np.maximum(computing, moving) + engine.not_hidden * np.minimum(computing, moving)
    begun = len(times) * engine.layer_s + (engine.inference_s if row.layer is None else 0.0)
    parts = {
        Bound.COMPUTE: float(times[computing >= moving].sum()),
        Bound.MEMORY: float(times[computing < moving].sum()),
        Bound.START_UP: begun,
    }
    bound = max(parts, key=lambda part: parts[part])
    least = float(computing.sum()), float(row.needs.bytes.sum() / (1e9 * engine.bandwidth_gb_s))
    return RowFit(row.network, row.layer, row.seconds, sum(parts.values()), held_out, bound, *least)


def _loss(shares: Floats) -> float:
    """Huber's loss of the logarithms of predicted over measured times: a time is as bad doubled as halved."""
    sizes = np.abs(np.log(shares))
    return float(np.where(sizes < EDGE, sizes * sizes / (2 * EDGE), sizes - EDGE / 2).sum())


def _weights(shares: Floats) -> Floats:
    """Weights with which squares of the errors have the slope of the loss."""
    logs, errors = np.log(shares), shares - 1
    slopes = np.divide(logs, errors, out=np.ones_like(logs), where=errors != 0)
    weights: Floats = slopes / shares / np.maximum(np.abs(logs), EDGE)
    return weights


def _solve(rows: _Rows, gb_s: float, stated: Floats, fixed: NDArray[np.bool_]) -> tuple[Floats, float]:
    """The best constants beside a bandwidth, and their loss: least squares, repeated with the weights of the last."""
    longer, columns = rows.shares(gb_s)
    best, least = stated, np.inf
    weights = np.ones_like(longer)
    for _ in range(ROUNDS):
        constants = _within(columns, 1 - longer, weights, stated, fixed)
        shares = longer + columns @ constants
        loss = _loss(shares)
        if loss >= least * (1 - SAME):
            break
        best, least, weights = constants, loss, _weights(shares)
    return best, least


def _within(columns: Floats, left: Floats, weights: Floats, stated: Floats, fixed: NDArray[np.bool_]) -> Floats:
    """The constants of least weighted squares, each 0 at least and ``not_hidden`` 1 at most.

    Each lies inside of its bounds or on one, and every case is a linear problem.
    """
    sizes = np.sqrt(weights @ np.square(columns))
    sizes[sizes == 0] = 1.0
    scaled = columns / sizes
    products, aims = scaled.T @ (weights[:, None] * scaled), scaled.T @ (weights * left)
    best, least = stated, np.inf
    choices = [[value] if kept else [None, 0.0] for value, kept in zip(stated, fixed, strict=True)]
    if not fixed[0]:
        choices[0].append(1.0)
    for case in product(*choices):
        inside = np.array([value is None for value in case])
        constants = np.array([0.0 if value is None else value for value in case])
        if inside.any():
            rest = (aims - products @ (constants * sizes))[inside]
            solution = np.linalg.lstsq(products[np.ix_(inside, inside)], rest, rcond=RANK)[0]
            constants[inside] = solution / sizes[inside]
        if (constants < 0).any() or constants[0] > 1:
            continue
        scales = constants * sizes
        error = float(scales @ products @ scales - 2 * aims @ scales)
        if error < least:
            best, least = constants, error
        if (inside | fixed).all():
            break  # no bound binds
    return best


def _least(loss: Callable[[float], float], peak: float, equal: float) -> float:
    """The bandwidth of the least loss: the best of a grid, refined between its neighbours by golden section.

    If there is a higher one whose loss is equal, no row needs less, and the highest is taken.
    """
    grid = peak * np.geomspace(SLOWEST, 1, STEPS)
    losses = np.array([loss(rate) for rate in grid])
    at = int(np.argmin(losses))
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, STEPS - 1)]
    golden = (np.sqrt(5) - 1) / 2
    a, b = high - golden * (high - low), low + golden * (high - low)
    at_a, at_b = loss(a), loss(b)
    for _ in range(REFINEMENTS):
        if at_a <= at_b:
            high, b, at_b = b, a, at_a
            a = high - golden * (high - low)
            at_a = loss(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + golden * (high - low)
            at_b = loss(b)
    rates, all_losses = np.append(grid, (a, b)), np.append(losses, (at_a, at_b))
    best = int(np.argmin(all_losses))
    highest = grid[losses <= all_losses[best] * (1 + EQUAL) + equal]
    return float(max(rates[best], highest.max(initial=0.0)))


def _alike(rows: _Rows, engine: Engine, free: Sequence[str]) -> list[list[str]]:
    """Groups of fitted constants that can change together, with hardly a change of any predicted time."""
    gb_s = engine.bytes_per_s / 1e9

    def predicted(rate: float) -> Floats:
        longer, columns = rows.shares(rate)
        shares: Floats = longer + columns @ np.array([engine.not_hidden, engine.layer_s, engine.inference_s])
        return shares

    changes = dict(zip(CONSTANTS[1:], rows.shares(gb_s)[1].T, strict=True))
    changes[CONSTANTS[0]] = predicted(gb_s * (1 - STEP)) - predicted(gb_s)
    columns = np.array([changes[name] for name in free]).T
    sizes = np.linalg.norm(columns, axis=0)
    silent = [[name] for name, size in zip(free, sizes, strict=True) if size == 0]
    told = [name for name, size in zip(free, sizes, strict=True) if size > 0]
    alone = columns[:, sizes > 0] / sizes[sizes > 0]
    squares, vectors = np.linalg.eigh(alone.T @ alone)
    # the projection on changes that hardly move a time: eigenvectors of equal values may be turned at will, it may not
    still = vectors[:, squares < ALIKE**2]
    together = np.abs(still @ still.T) > ALIKE**2
    for _ in told:
        together = together @ together  # what changes with one that changes with a third
    alike = [
        [name for name, joins in zip(told, row, strict=True) if joins]
        for place, row in enumerate(together)
        if row.sum() > 1 and not row[:place].any()
    ]
    return silent + alike
