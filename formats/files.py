"""Reading files, and pipes in their place."""

from __future__ import annotations

import csv
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from errno import EINVAL
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from .errors import InputError

AnyPath = str | os.PathLike[str]
"""The path of a file or of a folder, as a text or as an object."""

MAX_BYTES = 16 * 2**20
"""A larger text file is refused: a file that a person wrote is far smaller."""


def unreadable(path: AnyPath, error: OSError) -> InputError:
    """The fault of a file that the system refuses to read."""
    if is_folder(path):
        return InputError(f"{path}: expected a file, found a folder; name the file")
    return InputError(f"{path}: could not be read ({error.strerror or error})")


class _Copies(ExitStack):
    """Copies of pipes, by device and inode."""

    def __init__(self) -> None:
        super().__init__()
        self.by_pipe: dict[tuple[int, int], BinaryIO] = {}


_KEPT: ContextVar[_Copies | None] = ContextVar("copies of the pipes that a command has read", default=None)


@contextmanager
def keep_pipes() -> Iterator[None]:
    """Keep what pipes hold until the end of the block.

    A pipe can be read only once.  Inside the block it can be opened again, as a file can: a command may look into a
    file before it reads it.
    """
    with _Copies() as copies:
        before = _KEPT.set(copies)
        try:
            yield
        finally:
            _KEPT.reset(before)


def status_of(path: AnyPath) -> os.stat_result:
    """What the system knows of a file; ``OSError`` also where no file can have such a name."""
    try:
        return Path(path).stat()
    except ValueError as error:  # a null byte, which a TOML file can write
        raise OSError(EINVAL, str(error)) from None


@contextmanager
def open_input(path: AnyPath, max_bytes: int | None = None) -> Iterator[BinaryIO]:
    """Open a file to read, also from its start again; what a pipe holds, or its first bytes, is copied first."""
    status = status_of(path)
    if not stat.S_ISFIFO(status.st_mode):
        with Path(path).open("rb") as file:
            yield file
        return
    kept, pipe = _KEPT.get(), (status.st_dev, status.st_ino)
    with ExitStack() as own:
        if kept is not None and pipe in kept.by_pipe:
            copy = kept.by_pipe[pipe]
        else:
            copy = (own if kept is None else kept).enter_context(_copied(path, max_bytes))
            if kept is not None:
                kept.by_pipe[pipe] = copy
        copy.seek(0)
        yield copy


def _copied(path: AnyPath, max_bytes: int | None) -> BinaryIO:
    """A file without a name that holds what a pipe held."""
    with Path(path).open("rb") as pipe, ExitStack() as undo:
        copy: BinaryIO = undo.enter_context(TemporaryFile(prefix="fluidb-"))
        if max_bytes is None:
            shutil.copyfileobj(pipe, copy)
        else:
            copy.write(pipe.read(max_bytes))
        undo.pop_all()
        return copy


def is_folder(path: AnyPath) -> bool:
    """Whether there is a folder at a path."""
    return os.path.isdir(path)  # noqa: PTH112  Path.is_dir fails where a name is too long


def is_input(path: AnyPath) -> bool:
    """Whether there is a file at a path, or a pipe in the place of one."""
    try:
        kind = status_of(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(kind) or stat.S_ISFIFO(kind)


def read_bytes(path: AnyPath, max_bytes: int, hint: str = "", missing: str = "") -> bytes:
    """A file of limited size, whole; ``hint``: remedy for a larger one, ``missing``: the fault without a file."""
    try:
        with open_input(path, max_bytes + 1) as file:
            raw = file.read(max_bytes + 1)
    except OSError as error:
        if missing and isinstance(error, FileNotFoundError):
            raise InputError(f"{path}: {missing}") from None
        raise unreadable(path, error) from error
    if len(raw) > max_bytes:
        raise InputError(f"{path}: expected at most {max_bytes / 2**20:.0f} MiB, found more{hint}")
    return raw


def read_text(path: AnyPath) -> str:
    """A text file of UTF-8, whole, of at most :data:`MAX_BYTES`; line ends as they are."""
    raw = read_bytes(path, MAX_BYTES)
    try:
        return raw.decode("utf-8-sig")  # some editors begin a file with a mark of the order of bytes
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: expected UTF-8 text, found byte 0x{raw[error.start]:02x} at {error.start}"
        ) from error


@contextmanager
def as_csv(path: AnyPath, reader: Any) -> Iterator[None]:
    """Make a fault with its line of what a reader of the module csv does not take."""
    try:
        yield
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num}: expected CSV, found none ({error})") from None


def check_import(path: AnyPath) -> None:
    """Refuse a file to import that is a folder, or not there."""
    if not is_input(path):
        raise InputError(f"{path}: expected a file to import, found {'a folder' if is_folder(path) else 'none'}")


def check_folder(folder: AnyPath, expected: str, otherwise: str) -> None:
    """Refuse a folder to read that is a file, or not there; the texts are for the fault."""
    folder = Path(folder)
    if not is_folder(folder):
        raise InputError(
            f"{folder}: expected {expected}, found {'a file' if is_input(folder) else 'none'}; {otherwise}"
        )
