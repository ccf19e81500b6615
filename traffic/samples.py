"""Samples: the answers of a network on a data set, which requests of a trace draw (``docs/file-formats.md``)."""

from __future__ import annotations

import warnings
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..formats import InputError
from .randomness import SAMPLES, stream
from .reading import FAMILIES, read_columns
from .rows import Tally
from .trace import Trace

MAX_VALUES = 2**25
"""A larger array of an ``.npz`` is refused before it is read, also one of bytes, which come to eight times as many.

8 million samples of a network with four exits fit.
"""

_MISSING = "expected samples (.npz or CSV), found no such file"


@dataclass(frozen=True, slots=True)
class Samples:
    """The answers of a network with E exits on a data set of N samples.

    Attributes
    ----------
    confidences : (N, E - 1) or (N, E) ndarray of float64
        Confidence at each exit, in [0, 1]; that of the last exit is not used.
    correct : (N, E) ndarray of bool
        Whether the answer at each exit is right.
    source : Path, optional
        Their file, for faults.
    """

    confidences: NDArray[np.float64]
    correct: NDArray[np.bool_]
    source: Path | None = None

    def __len__(self) -> int:
        return len(self.correct)


def read_samples(path: Path) -> Samples:
    """Read samples.

    Parameters
    ----------
    path : Path
        An ``.npz`` file with the arrays ``confidence`` and ``correct``, or a CSV
        file with the columns ``confidence_1``, ... and ``correct_1``, ...

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
    read = _read_npz if path.suffix.lower() == ".npz" else _read_csv
    confidences, correct = read(path)
    if len(confidences) != len(correct) or not len(correct):
        raise InputError(
            f"{path}: expected confidence and correct of the same samples, at least one, "
            f"found {len(confidences)} and {len(correct)}"
        )
    exits = correct.shape[1]
    if exits < 1 or confidences.shape[1] not in (exits - 1, exits):
        raise InputError(
            f"{path}: expected correct for every exit and confidence for every exit, with or without the last, "
            f"found {exits} and {confidences.shape[1]}"
        )
    return Samples(confidences, correct, path)


def _read_csv(path: Path) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    tally = Tally(path, skip_blank=False, missing=_MISSING, content="sample")
    found = read_columns(tally, FAMILIES, ("correct_1",))
    tally.refuse()
    return found.get("confidence", np.empty((len(found["correct"]), 0))), found["correct"].astype(np.bool_)


def _read_npz(path: Path) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's, about headers by Python 2
            confidences, correct = _load(path, file)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: {_MISSING}") from None
    except OSError as error:
        raise InputError(f"{path}: could not be read ({error.strerror or error})") from error
    except Exception as error:  # zipfile, zlib, lzma, ast and numpy raise a dozen kinds
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{path}: not a whole .npz file: {reason}") from error
    faults = [
        *_outside(path, "confidence", confidences, FAMILIES["confidence"].outside(confidences)),
        *_outside(path, "correct", correct, (correct != 0) & (correct != 1)),
    ]
    if faults:
        raise InputError(faults)
    return confidences.astype(np.float64), correct == 1


def _load(path: Path, file: BinaryIO) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two arrays, after a check of their headers."""
    if not zipfile.is_zipfile(file):
        raise InputError(f"{path}: expected an .npz file (numpy.savez), found another or a truncated one")
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        names = sorted(archive.zip.namelist())
        if names != [f"{name}.npy" for name in FAMILIES]:
            found = ", ".join(" ".join(name.removesuffix(".npy").split())[:40] for name in names[:5]) or "none"
            raise InputError(f"{path}: expected the arrays confidence and correct, found {found}")
        for name in FAMILIES:
            _check_array(path, name, archive.zip)
        return archive["confidence"], archive["correct"]


def _check_array(path: Path, name: str, archive: zipfile.ZipFile) -> None:
    """Refuse an array by its header: one of objects, of another shape, too large, or larger than its data."""
    with archive.open(f"{name}.npy") as member:
        version = npy.read_magic(member)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, kind = read(member)
        header_bytes = member.tell()
    if kind.kind not in "biuf":
        raise InputError(f"{path}: {name}: expected an array of numbers, found {str(kind)[:40]}")
    if len(shape) != 2:
        raise InputError(f"{path}: {name}: expected samples x exits, found {len(shape)} dimensions")
    values = shape[0] * shape[1]  # Python's integers do not overflow
    if values > MAX_VALUES:
        raise InputError(f"{path}: {name}: expected at most {MAX_VALUES:,} values, found {shape[0]} x {shape[1]}")
    if archive.getinfo(f"{name}.npy").file_size != header_bytes + values * kind.itemsize:
        raise InputError(f"{path}: {name}: damaged: {shape[0]} x {shape[1]} values announced, others held")


def _outside(path: Path, name: str, values: NDArray[np.float64], wrong: NDArray[np.bool_]) -> list[str]:
    """A fault that names the first wrong value and counts the others."""
    count = np.count_nonzero(wrong)
    if not count:
        return []
    row, column = np.unravel_index(wrong.argmax(), wrong.shape)
    more = f" (and {count - 1} more values)" if count > 1 else ""
    where = f"{path}: row {row + 1}: {name}_{column + 1}"
    return [f"{where}: expected {FAMILIES[name].expected}, found {values[row, column]}{more}"]


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
        If the trace has exits, confidences or answers of its own.
    """
    own = {"exit": trace.exits, "confidence_1, ...": trace.confidences, "correct_1, ...": trace.correct}
    found = [name for name, values in own.items() if values is not None]
    if found:
        raise InputError(
            f"{trace.source or 'trace'}: expected a trace without {' or '.join(found)}, which the samples give; "
            "leave out --samples or the columns"
        )
    rows = stream(seed, SAMPLES).integers(len(samples), size=len(trace))
    confidences, correct = samples.confidences[rows], samples.correct[rows]
    return replace(trace, confidences=confidences, correct=correct, source=samples.source)
