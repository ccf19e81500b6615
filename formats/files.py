"""Outputs are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from .errors import InputError


def check_free(path: Path, force: bool, what: str = "output") -> None:
    """Refuse, before any work is done, an output that cannot be written.

    Parameters
    ----------
    path : Path
        Where the output will go.
    force : bool
        Whether the user allowed an existing output to be replaced.
    what : str
        What the output is, for the fault.

    Raises
    ------
    InputError
        If ``path`` exists and ``force`` is false, or its parent is no writable folder.
    """
    if path.exists() and not force:
        raise InputError(f"{path}: {what} exists already; choose another name or add --force to replace it")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise InputError(f"{path}: expected the folder {parent} to exist, found none; create it first")
    if not os.access(parent, os.W_OK):
        raise InputError(f"{path}: the folder {parent} is not writable; choose another place")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _faults_of(path: Path) -> Iterator[None]:
    """A full disk or a lost permission is the user's to mend, not a traceback."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: could not be written ({error.strerror}); nothing was changed") from error


def write_file(path: Path, text: str | Iterable[str]) -> None:
    """Write a text file whole, or leave what stood there.

    Parameters
    ----------
    path : Path
        Destination; an existing file is replaced in one step.
    text : str or iterable of str
        Its whole content, or its pieces in order.

    Raises
    ------
    InputError
        If the file system refuses.
    """
    if path.is_dir():
        raise InputError(f"{path}: expected a file to write, found a folder; choose another name")
    with _faults_of(path):
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.absolute().parent)
        partial = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
                stream.writelines([text] if isinstance(text, str) else text)
                stream.flush()
                os.fchmod(stream.fileno(), 0o666 & ~_umask())
                os.fsync(stream.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync(path.absolute().parent)


def write_directory(path: Path, fill: Callable[[Path], None]) -> None:
    """Write a folder whole, or leave what stood there.

    Parameters
    ----------
    path : Path
        Destination.  An existing folder is replaced: the caller has checked
        that the user allowed it and that it holds nothing but fluidb's output.
    fill : callable
        Writes the folder's files into the empty folder it is given.

    Raises
    ------
    InputError
        If the file system refuses.
    """
    with _faults_of(path):
        parent = path.absolute().parent
        partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=parent))
        old = partial.with_suffix(".old")
        try:
            fill(partial)
            partial.chmod(0o777 & ~_umask())
            _sync(partial)
            if path.exists():
                path.rename(old)
            try:
                partial.rename(path)
            except BaseException:
                if old.exists():
                    old.rename(path)
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        _sync(parent)


def _umask() -> int:
    """The process's file creation mask, which ``tempfile`` does not honour."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
