"""Reading ``.npz`` files: the header of an array is checked before any of its data is decompressed."""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .errors import InputError
from .files import AnyPath, open_input, unreadable


class Arrays:
    """The arrays of an open ``.npz`` file; ``names`` are sorted."""

    def __init__(self, path: Path, archive: Any) -> None:
        self._path, self._archive = path, archive
        self.names = sorted(name.removesuffix(".npy") for name in archive.zip.namelist())

    def header(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The announced shape and type of an array, which must hold numbers."""
        shape, kind, _ = self._header(name)
        return shape, kind

    def _header(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
        with self._archive.zip.open(f"{name}.npy") as member:
            version = npy.read_magic(member)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, kind = read(member)
            header_bytes = member.tell()
        if kind.kind not in "biuf":
            raise InputError(f"{self._path}: {name}: expected an array of numbers, found {str(kind)[:40]}")
        return shape, kind, header_bytes

    def read(self, name: str) -> NDArray[Any]:
        """An array, whose :meth:`header` the caller found small enough; it must hold the data that it announces."""
        shape, kind, header_bytes = self._header(name)
        if self._archive.zip.getinfo(f"{name}.npy").file_size != header_bytes + math.prod(shape) * kind.itemsize:
            size = " x ".join(map(str, shape))
            raise InputError(
                f"{self._path}: {name}: damaged: its header states {size} values, and it holds another number"
            )
        values: NDArray[Any] = self._archive[name]
        return values


@contextmanager
def open_arrays(path: AnyPath, missing: str = "") -> Iterator[Arrays]:
    """Open an ``.npz`` file; what goes wrong while it is read is a fault of the file, or ``missing``."""
    try:
        with open_input(path) as file, arrays_in(file, path) as arrays:
            yield arrays
    except OSError as error:
        if missing and isinstance(error, FileNotFoundError):
            raise InputError(f"{path}: {missing}") from None
        raise unreadable(path, error) from error


@contextmanager
def arrays_in(file: BinaryIO, path: AnyPath) -> Iterator[Arrays]:
    """The arrays of an open ``.npz`` file, as :func:`open_arrays` gives them; errors of the system stay as they are."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's, about headers by Python 2
            if not zipfile.is_zipfile(file):
                raise InputError(f"{path}: expected an .npz file (numpy.savez), found another file or a truncated one")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                yield Arrays(Path(path), archive)
    except (InputError, OSError):
        raise
    except Exception as error:  # zipfile, zlib, lzma, ast and numpy raise a dozen kinds
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{path}: not a whole .npz file: {reason}") from error


def check_labels(path: AnyPath, labels: NDArray[Any], classes: int) -> None:
    """Refuse labels that are not the numbers of some classes, one for each sample."""
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{path}: label: expected a whole number for each sample, found another")
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        row = int(outside.argmax())
        raise InputError(
            f"{path}: label: row {row + 1}: expected a class of the network, 0 to {classes - 1}, found {labels[row]}"
        )
