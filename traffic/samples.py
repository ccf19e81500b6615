"""Samples: the answers of a network on a data set, which requests of a trace draw (``docs/file-formats.md``)."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..formats import AnyPath, InputError, brief, write_file
from ..formats.array_types import Bools, Floats, Ints
from ..formats.arrays import arrays_in
from .columns import Number
from .measures import CONFIDENCE, MEASURES, Measure
from .randomness import SAMPLES, stream
from .reading import COLUMNS, CORRECT, FAMILIES, measured, read_columns
from .rows import Tally, opened
from .trace import Trace

MAX_VALUES = 2**25
"""A larger array of an ``.npz`` is refused before it is read, also one of bytes, which come to eight times as many.

8 million samples of a network with four exits fit.
"""

SCORE = Number(np.float64, 0, 1, "a score from 0 to 1")

MORE = {name: COLUMNS[name] for name in ("width", "predicted_depth", "predicted_width")}
"""Columns of samples beside their answers, which requests that draw them then have."""

_MISSING = "expected samples (.npz or CSV), found no such file"


@dataclass(frozen=True, slots=True)
class Samples:
    """The answers of a network with E exits on a data set of N samples.

    Attributes
    ----------
    confidences : (N, E - 1), (N, E), (N, E - 1, V) or (N, E, V) ndarray of float64
        How sure each answer is, as ``measure`` is held in arrays; the last exit's is not used.  An answer of a
        dense task has V principal values instead of one: those by which it is judged whether the answer is good enough.
    correct : (N, E) ndarray of bool or float64
        Whether the answer at each exit is right; for a dense task its score, in [0, 1].
    source : str or Path, optional
        Their file, for faults.
    width, predicted_depth, predicted_width : (N,) ndarray of float64, optional
        As a trace has them (:class:`.trace.Trace`).
    measure : Measure
        The measure of ``confidences``.
    """

    confidences: Floats
    correct: Bools | Floats
    source: Path | None = None
    width: Floats | None = None
    predicted_depth: Floats | None = None
    predicted_width: Floats | None = None
    measure: Measure = CONFIDENCE

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.correct)

    def __getitem__(self, rows: slice | Ints) -> Samples:
        """Some of the samples."""
        more: dict[str, Any] = {name: values[rows] for name, values in self.more().items()}
        return replace(self, confidences=self.confidences[rows], correct=self.correct[rows], **more)

    def more(self) -> dict[str, Floats]:
        """Columns that are known beside their answers."""
        columns = {name: getattr(self, name) for name in MORE}
        return {name: values for name, values in columns.items() if values is not None}

    def digest(self) -> str:
        """SHA-256 of all that it holds but its file."""
        digest = hashlib.sha256(self.measure.name.encode())
        for values in (self.confidences, self.correct, *self.more().values()):
            digest.update(f"{values.dtype.str} {values.shape}".encode())
            digest.update(values.tobytes())
        return digest.hexdigest()

    def drawn(self, count: int, seed: int) -> Ints:
        """Numbers of the samples that :meth:`draw` takes."""
        return stream(seed, SAMPLES).integers(len(self), size=count)

    def draw(self, count: int, seed: int) -> Samples:
        """``count`` of them, uniformly and with replacement; independent of arrivals and exits drawn with the seed."""
        return self[self.drawn(count, seed)]

    @property
    def exits(self) -> int:
        """Exits, the last included, E."""
        return int(self.correct.shape[1])

    @property
    def values(self) -> int:
        """Principal values of an answer, V; 1 if it has a confidence instead."""
        return int(self.confidences.shape[2]) if self.confidences.ndim == 3 else 1

    def confidence_at(self, exit_: int, count: int = 1) -> Floats:
        """The confidence of every sample at an exit.

        Parameters
        ----------
        exit_ : int
            Counted from 1.
        count : int
            Principal values that must reach a threshold so that a sample leaves, from 1 to V.

        Returns
        -------
        (N,) ndarray of float64
            The strictest threshold at which the sample leaves: the ``count``-th largest of its principal values.
        """
        sure = self.confidences[:, exit_ - 1]
        return sure if sure.ndim == 1 else np.partition(sure, -count, axis=1)[:, -count]

    def at_exits(self, exits: Sequence[int], counts: Sequence[int]) -> Samples:
        """The answers of the same network with fewer exits, each with one confidence.

        Parameters
        ----------
        exits : sequence of int
            The exits that are left beside the last, counted from 1.
        counts : sequence of int
            Count threshold of each, as :meth:`confidence_at` takes it.

        Returns
        -------
        Samples
            With a confidence at each of ``exits``, and scores there and at the last exit.
        """
        columns = [self.confidence_at(exit_, count) for exit_, count in zip(exits, counts, strict=True)]
        confidences = np.column_stack(columns) if columns else np.empty((len(self), 0))
        correct = self.correct[:, [*(exit_ - 1 for exit_ in exits), self.exits - 1]]
        return replace(self, confidences=confidences, correct=correct)


def as_samples(given: Samples | AnyPath) -> Samples:
    """Samples, which are read if their file is given."""
    return given if isinstance(given, Samples) else read_samples(given)


def read_samples(path: AnyPath) -> Samples:
    """Read samples.

    Parameters
    ----------
    path : str or Path
        An ``.npz`` file with the arrays ``confidence`` and ``correct``, or ``score`` for dense tasks; or a CSV file
        with the columns ``confidence_1``, ... and ``correct_1``, ...  Both may have the name of another measure for
        ``confidence``, and also ``width``, ``predicted_depth`` and ``predicted_width``.

    Returns
    -------
    Samples
        At least one.

    Raises
    ------
    InputError
        If it cannot be read, arrays or columns do not fit each other, or a
        value is out of range; each fault names its row.
    """
    tally = Tally(Path(path), skip_blank=False, missing=_MISSING, content="sample")
    path = tally.path
    with opened(tally) as tally.held:
        # one array alone is refused, as such; the name of a pipe says nothing
        numpys = path.suffix.lower() in (".npz", ".npy") or tally.held.read(2) == b"PK"
        confidences, correct, measure, more = _read_npz(tally.held, path) if numpys else _read_csv(tally)
    if len(confidences) != len(correct) or not len(correct):
        raise InputError(
            f"{path}: expected {measure.name} and correct of the same samples, at least one, "
            f"found {len(confidences)} and {len(correct)}"
        )
    exits = correct.shape[1]
    if exits < 1 or confidences.shape[1] not in (exits - 1, exits):
        raise InputError(
            f"{path}: expected correct for every exit and {measure.name} for every exit, with or without the last, "
            f"found {exits} and {confidences.shape[1]}"
        )
    return Samples(confidences, correct, path, measure=measure, **more)


_Read = tuple[Floats, Bools | Floats, Measure, dict[str, Floats]]


def _read_csv(tally: Tally) -> _Read:
    columns = read_columns(tally, FAMILIES | MORE, ("correct_1",))
    tally.refuse()
    confidences, measure = measured(columns)
    correct = columns["correct"].astype(np.bool_)
    if confidences is None:
        confidences = np.empty((len(correct), 0))
    return confidences, correct, measure, {name: columns[name] for name in MORE if name in columns}


def _read_npz(archive: BinaryIO, path: Path) -> _Read:
    with arrays_in(archive, path) as file:
        pairs = [[measure, answers] for measure in MEASURES for answers in ("correct", "score")]
        if [name for name in file.names if name not in MORE] not in map(sorted, pairs):
            names = ", ".join(" ".join(name.split())[:40] for name in file.names[:5]) or "none"
            raise InputError(
                f"{path}: expected the arrays confidence and correct (or {', '.join([*MEASURES][1:])}, or score), "
                f"found {names}"
            )
        for name in file.names:
            _check_shape(path, name, file.header(name)[0])
        arrays = {name: file.read(name) for name in file.names}
    answers = "score" if "score" in arrays else "correct"
    measure = next(measure for name, measure in MEASURES.items() if name in arrays)
    confidences, correct = arrays.pop(measure.name), arrays.pop(answers)
    faults = _outside(path, measure.name, measure.values.expected, confidences, measure.values.outside(confidences))
    wrong = SCORE.outside(correct) if answers == "score" else (correct != 0) & (correct != 1)
    faults += _outside(path, answers, SCORE.expected if answers == "score" else CORRECT.expected, correct, wrong)
    for name, values in arrays.items():
        if len(values) != len(correct):
            faults.append(f"{path}: {name}: expected {len(correct)} values, one for each sample, found {len(values)}")
        faults += _outside(path, name, MORE[name].expected, values, MORE[name].outside(values))
    if faults:
        raise InputError(faults)
    scores = correct.astype(np.float64) if answers == "score" else correct == 1
    more = {name: values.astype(np.float64) for name, values in arrays.items()}
    return measure.to_array(confidences.astype(np.float64)), scores, measure, more


def _check_shape(path: Path, name: str, shape: tuple[int, ...]) -> None:
    """Refuse an array of another shape, or one that is too large."""
    most, form = (1, "samples") if name in MORE else (2, "samples x exits")
    if len(shape) != most and not (len(shape) == 3 and name in MEASURES):
        form += ", perhaps x principal values" if name in MEASURES else ""
        raise InputError(f"{path}: {name}: expected {form}, found {len(shape)} dimensions")
    if math.prod(shape) > MAX_VALUES:  # Python's integers do not overflow
        size = " x ".join(map(str, shape))
        raise InputError(f"{path}: {name}: expected at most {MAX_VALUES:,} values, found {size}")
    if len(shape) == 3 and shape[2] < 1:
        raise InputError(f"{path}: {name}: expected at least one principal value, found none")


def _outside(path: Path, name: str, expected: str, values: NDArray[Any], wrong: Bools) -> list[str]:
    """A fault that names the first wrong value and counts the others."""
    count = np.count_nonzero(wrong)
    if not count:
        return []
    more = f" (and {count - 1} more values)" if count > 1 else ""
    row, *columns = place = np.unravel_index(wrong.argmax(), wrong.shape)
    where = f"{path}: row {row + 1}: {'_'.join([name, *(str(column + 1) for column in columns)])}"
    return [f"{where}: expected {expected}, found {values[place]}{more}"]


def write_samples(samples: Samples, path: AnyPath, *, replace: bool = True) -> None:
    """Write samples as ``.npz``, whole or not at all; the same samples always give the same bytes."""
    write_file(path, samples_bytes(samples), replace=replace)


def samples_bytes(samples: Samples) -> bytes:
    """The content of an ``.npz`` file of samples."""
    held = io.BytesIO()
    answers = "correct" if samples.correct.dtype == np.bool_ else "score"
    measure = samples.measure
    arrays: dict[str, Any] = {measure.name: measure.to_file(samples.confidences), answers: samples.correct}
    arrays |= samples.more()
    np.savez(held, **arrays)
    return held.getvalue()


def draw_samples(trace: Trace, samples: Samples, seed: int) -> Trace:
    """Draw a sample for every request, uniformly and with replacement.

    Parameters
    ----------
    trace : Trace
        Requests without exits, confidences or answers of their own.
    samples : Samples
        The samples to draw from.
    seed : int
        Same seed, same samples; independent of arrivals and exits drawn with it.

    Returns
    -------
    Trace
        The requests with the confidences and answers of their samples.

    Raises
    ------
    InputError
        If the trace has exits, confidences or answers of its own, or answers of the samples have several principal
        values instead of a confidence.
    """
    return attach(trace, samples.draw(len(trace), seed))


def attach(trace: Trace, samples: Samples) -> Trace:
    """Requests with the confidences and answers of samples, one for each; faults as of :func:`draw_samples`."""
    if samples.confidences.ndim == 3:
        raise InputError(
            f"{samples.source or 'samples'}: expected one {samples.measure.name} for each exit, "
            f"found {samples.values} principal values; `fluidb exits` chooses how many must reach the threshold, and "
            "writes samples that can be drawn"
        )
    own = {"exit": trace.exits, f"{trace.measure.name}_1, ...": trace.confidences, "correct_1, ...": trace.correct}
    own |= {name: getattr(trace, name) for name in samples.more()}
    stated = [name for name, values in own.items() if values is not None]
    if stated:
        raise InputError(
            f"{trace.source or 'trace'}: expected a trace without {' or '.join(stated)}, which the samples give; "
            "leave out the samples or the columns"
        )
    given: dict[str, Any] = {"confidences": samples.confidences, "correct": samples.correct, **samples.more()}
    drawn_from = dict.fromkeys(given, str(samples.source or "samples"))
    return replace(trace, **given, measure=samples.measure, drawn_from=drawn_from)
