"""Writers of outputs: whole or not at all, and never over files that the user did not mean.

An unfinished output has a hidden name, and its writer holds a lock on it.  A later command can therefore tell it from
the remains of a killed command, and removes these.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path

from .errors import InputError
from .files import AnyPath
from .posix import fcntl

HIDDEN = ".fluidb.*.part"
"""Names of unfinished outputs."""

STANDARD_OUTPUT = Path("-")
"""The name by which a text file is written to standard output."""


def place_of(path: AnyPath) -> Path:
    """The same path without links and ``..`` on the way, which may lead elsewhere once something is renamed."""
    path = Path(path)
    if path.name in ("", ".."):
        return Path(os.path.realpath(path))
    return Path(os.path.realpath(path.parent), path.name)


def held(folder: AnyPath) -> list[Path]:
    """Content of a folder, without files that another command is writing there."""
    return sorted(path for path in Path(folder).iterdir() if not path.match(HIDDEN))


def tidy(folder: AnyPath) -> None:
    """Remove the remains of killed commands in a folder, and put back folders that they had moved aside."""
    for left in Path(folder).glob(HIDDEN):
        with contextlib.suppress(OSError):  # of another user, or on a read-only disk: it does no harm
            descriptor = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its writer lives
                for old in left.glob(f"{_ASIDE}/*"):
                    back = Path(folder, old.name)
                    if not os.path.lexists(back):
                        old.rename(back)
                if left.is_dir():
                    shutil.rmtree(left)
                else:
                    left.unlink()
            finally:
                os.close(descriptor)


def make_folder(folder: AnyPath) -> None:
    """Make a folder, and those above it, unless it is there."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: could not be made ({error.strerror}); choose another folder") from error


@contextlib.contextmanager
def _faults_of(path: Path, changed: Path | None = None) -> Iterator[None]:
    """Report a full disk or a missing permission as a fault that the user can mend, without a traceback."""
    kept = "nothing was changed" if changed is None else f"{changed} was written before"
    if path == STANDARD_OUTPUT:
        kept += ", but what went to standard output is not whole"
    try:
        yield
    except BrokenPipeError:  # the reader of standard output has seen all that it wants
        raise
    except FileExistsError as error:
        raise InputError(f"{path}: another program made it meanwhile; {kept}; choose another name") from error
    except OSError as error:
        raise InputError(f"{path}: could not be written ({error.strerror}); {kept}") from error


class _Waiting:
    """Outputs that are complete but for their names."""

    def __init__(self, unfinished: contextlib.ExitStack) -> None:
        self.unfinished = unfinished
        self.names: list[tuple[Path, Callable[[], None]]] = []

    def make_folder(self, folder: Path) -> None:
        """Make a folder, and those above it; what stays empty is removed at the end."""
        for new in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
            new.mkdir(exist_ok=True)
            self.unfinished.callback(_remove_empty, new)

    def put(self) -> None:
        """Give all outputs their names."""
        changed = None
        for path, put in sorted(
            self.names, key=lambda named: named[0] == STANDARD_OUTPUT
        ):  # what cannot be undone last
            with _faults_of(path, changed):
                put()
            changed = path


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it holds an output
        folder.rmdir()


_waiting: ContextVar[_Waiting | None] = ContextVar("_waiting", default=None)


@contextlib.contextmanager
def together() -> Iterator[_Waiting]:
    """Write several outputs, all or, if one of them cannot be written, none; they get their names at the end."""
    outer = _waiting.get()
    if outer is not None:
        yield outer
        return
    with contextlib.ExitStack() as unfinished:
        waiting = _Waiting(unfinished)
        token = _waiting.set(waiting)
        try:
            yield waiting
        finally:
            _waiting.reset(token)
        waiting.put()


@contextlib.contextmanager
def _unfinished(folder: Path, *, directory: bool = False) -> Iterator[tuple[Path, int]]:
    """A new file or folder with a hidden name, and its open descriptor; locked, and removed at the end."""
    path, descriptor = _locked(folder, directory)
    try:
        yield path, descriptor
    finally:
        if directory:
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(folder: Path, directory: bool) -> tuple[Path, int]:
    while True:
        path = folder / HIDDEN.replace("*", os.urandom(6).hex())  # short, because a file's own name may be long
        if directory:
            path.mkdir()
            descriptor = os.open(path, os.O_RDONLY)
        else:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with contextlib.suppress(OSError):  # a file system without locks: what is left there stays
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if path.exists():
            return path, descriptor
        os.close(descriptor)  # another command removed it before it was locked


def _encoded(content: str | bytes | Iterable[str | bytes]) -> Iterator[bytes]:
    """Pieces of a content, text as UTF-8."""
    pieces = [content] if isinstance(content, str | bytes) else content
    return (piece if isinstance(piece, bytes) else piece.encode() for piece in pieces)


def _write(descriptor: int, content: str | bytes | Iterable[str | bytes]) -> None:
    """Write a file's content, and flush it to the disk."""
    with open(descriptor, "wb", closefd=False) as stream:
        stream.writelines(_encoded(content))
    os.fsync(descriptor)


def _print(content: str | bytes | Iterable[str | bytes]) -> None:
    """Write a file's content to standard output."""
    sys.stdout.flush()
    sys.stdout.buffer.writelines(_encoded(content))
    sys.stdout.buffer.flush()


def _sync(folder: Path) -> None:
    """Flush a folder's list of names to the disk; some file systems cannot, and no result depends on it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_file(path: AnyPath, content: str | bytes | Iterable[str | bytes], *, replace: bool) -> None:
    """Write a file completely, or leave the existing one unchanged; ``-`` is standard output.

    A long content may come in pieces, and text is written as UTF-8.  Unless it may be replaced, an existing file is a
    fault.
    """
    path = Path(path)
    if path == STANDARD_OUTPUT:
        with together() as waiting:
            waiting.names.append((path, lambda: _print(content)))
        return
    if path.is_dir():
        raise InputError(f"{path}: expected a file to write, found a folder; choose another name")
    place = place_of(path)

    def put() -> None:
        if replace:
            partial.replace(place)
        else:
            _name_anew(partial, place)
        _sync(place.parent)

    with together() as waiting, _faults_of(path):
        waiting.make_folder(place.parent)
        partial, descriptor = waiting.unfinished.enter_context(_unfinished(place.parent))
        _write(descriptor, content)
        waiting.names.append((path, put))


def _name_anew(partial: Path, path: Path) -> None:
    """Give a file its final name if that is free; a rename would replace an existing file, a link refuses to."""
    try:
        path.hardlink_to(partial)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise FileExistsError from None
        partial.replace(path)


def write_directory(path: AnyPath, files: Mapping[str, str | bytes], *, replace: bool = False) -> None:
    """Write a folder completely, or leave the existing one unchanged; names of files may be in a folder of their own.

    Whoever replaces a folder has checked that it holds nothing but fluidb's output.
    """
    path = Path(path)
    place = place_of(path)

    def put() -> None:
        if replace and place.exists():
            _replace(new, place, partial / _ASIDE)
        else:
            new.rename(place)
        _sync(place.parent)

    with together() as waiting, _faults_of(path):
        waiting.make_folder(place.parent)
        partial, _ = waiting.unfinished.enter_context(_unfinished(place.parent, directory=True))
        new = partial / _NEW
        new.mkdir()
        for name, content in files.items():
            (new / name).parent.mkdir(exist_ok=True)
            descriptor = os.open(new / name, os.O_WRONLY | os.O_CREAT, 0o666)
            try:
                _write(descriptor, content)
            finally:
                os.close(descriptor)
        _sync(new)
        waiting.names.append((path, put))


_NEW, _ASIDE = "new", "old"
"""In a folder that is not whole yet: its content, and the folder that it is to replace."""


def _replace(new: Path, place: Path, aside: Path) -> None:
    """Put a folder in place of another: in one step or, where that cannot be done, in two that `tidy` takes back."""
    if _exchanged(new, place):
        return
    aside.mkdir()
    old = place.rename(aside / place.name)
    try:
        new.rename(place)
    except BaseException:
        old.rename(place)
        raise


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two names in one step; false where the system (Linux, macOS) or the file system cannot."""
    libc, here, swap = ctypes.CDLL(None), -100, 2  # AT_FDCWD; RENAME_EXCHANGE, which macOS calls RENAME_SWAP
    names = os.fsencode(one), os.fsencode(other)
    if hasattr(libc, "renameat2"):
        return bool(libc.renameat2(here, names[0], here, names[1], swap) == 0)
    return hasattr(libc, "renamex_np") and bool(libc.renamex_np(*names, swap) == 0)
