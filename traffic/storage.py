"""A value for each request: in memory, or in unlinked temporary files where there are many.

What is longer than memory should hold is mapped from a file that has no name: the operating system writes its pages
out and reads them back, and the file is gone with the process, whatever ends it.  All that reads such arrays goes
block by block and lets go of the pages behind it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError

IN_MEMORY_BYTES = 2**25
"""A longer array lies in a file: from four million requests on."""

BLOCK = 2**18
"""Requests that are looked at together."""

Value = TypeVar("Value", bound=np.generic)


class Column(Protocol):
    """What is read block by block: an array, or :class:`Derived`."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> NDArray[np.float64]: ...


@dataclass(frozen=True, slots=True)
class Derived:
    """A column that is computed where it is read, and never held whole.

    Attributes
    ----------
    count : int
        Values.
    compute : callable
        From a slice with start and stop to its values.
    """

    count: int
    compute: Callable[[slice], NDArray[np.float64]]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, part: slice) -> NDArray[np.float64]:
        return self.compute(part)


def allocate(shape: int | tuple[int, ...], kind: type[Value], fill: float = 0) -> NDArray[Value]:
    """An array, in memory or in a file.

    Parameters
    ----------
    shape : int or tuple of int
        Its shape.
    kind : type
        Type of its values.
    fill : float
        Their value.

    Returns
    -------
    ndarray
        Writable, contiguous.

    Raises
    ------
    InputError
        If the disk has no room for it.
    """
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    if size <= IN_MEMORY_BYTES:
        return np.full(shape, fill, dtype=kind) if fill else np.zeros(shape, dtype=kind)
    try:
        with tempfile.TemporaryFile(prefix="fluidb.") as file:
            _reserve(file.fileno(), 0, size)
            values = mapped(file.fileno(), kind).reshape(shape)
    except OSError as error:
        raise no_room(size, error) from error
    if fill:
        for part in blocks(len(values)):
            values[part] = fill
            release(values)
    return values


def _reserve(descriptor: int, start: int, size: int) -> None:
    """Make room in a file: a full disk shows now, and not as a fault of the memory; macOS only makes it longer."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, start, size)
    else:
        os.truncate(descriptor, start + size)


class Growing:
    """An array that grows at its end, in memory first and then in a file.

    Parameters
    ----------
    kind : type
        Type of its values.
    """

    def __init__(self, kind: type[np.generic]) -> None:
        self._kind = kind
        self._held: list[NDArray[Any]] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None

    def append(self, values: NDArray[Any]) -> None:
        """Add rows; those of a matrix have equal lengths."""
        self._held.append(np.ascontiguousarray(values, dtype=self._kind))
        self._bytes += self._held[-1].nbytes
        if self._bytes > IN_MEMORY_BYTES:
            self._write()

    def _write(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="fluidb.", buffering=0)  # noqa: SIM115
                weakref.finalize(self, self._file.close)  # also after a fault
            for values in filter(np.size, self._held):
                _reserve(self._file.fileno(), self._file.tell(), values.nbytes)
                values.tofile(self._file)
        except OSError as error:
            raise no_room(self._bytes, error) from error
        self._held = [values[:0] for values in self._held[-1:]]

    def finish(self) -> NDArray[Any]:
        """The whole array."""
        if self._file is None:
            return np.concatenate(self._held or [np.zeros(0, dtype=self._kind)])
        shape = self._held[0].shape[1:]
        self._write()
        with self._file:
            return mapped(self._file.fileno(), self._kind).reshape(-1, *shape)


class _Pages(mmap.mmap):
    """Pages of a file of ours: shared with it, so that letting go of them loses nothing, as it might of a user's."""


def mapped(descriptor: int, kind: type[Value]) -> NDArray[Value]:
    """The content of an open file as an array, which keeps it once it is closed."""
    return np.frombuffer(_Pages(descriptor, 0), dtype=kind)


def no_room(size: int, error: OSError) -> InputError:
    """The fault of a disk that cannot take so many bytes."""
    return InputError(
        f"{tempfile.gettempdir()}: expected room for {size / 2**20:,.0f} MiB beside what is there, found less "
        f"({error.strerror}); set TMPDIR to a folder on a larger disk"
    )


def release(*arrays: object) -> None:
    """Let go of the memory of those that are arrays in files of ours; their values stay."""
    for array in arrays:
        owner = array
        while isinstance(owner, np.ndarray):
            owner = owner.base
        if isinstance(owner, memoryview):
            owner = owner.obj
        if isinstance(owner, _Pages):
            owner.madvise(mmap.MADV_DONTNEED)


def blocks(count: int) -> Iterator[slice]:
    """Slices that make up a range."""
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))


def total(values: Column) -> float:
    """The sum of a column, in the order in which numpy adds an array: by halves.

    Source: pairwise summation (Higham, SIAM J. Sci. Comput. 14(4), 1993).

    Parameters
    ----------
    values : (N,) column
        Addends.

    Returns
    -------
    float
        As ``numpy.sum`` has it, to the last bit, whatever the block.
    """

    def between(start: int, stop: int) -> float:
        count = stop - start
        if count <= max(BLOCK, 128):  # numpy adds up to 128 values in one go
            found = float(np.add.reduce(values[slice(start, stop)]))
            release(values)
            return found
        half = count // 2 - count // 2 % 8
        return between(start, start + half) + between(start + half, stop)

    return between(0, len(values))
