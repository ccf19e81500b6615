"""Text is read whole; outputs are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
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
        If ``path`` exists and ``force`` is false, if it is neither a regular file
        nor a folder, or if its parent is no writable folder.
    """
    if os.path.lexists(path) and not force:
        raise InputError(f"{path}: {what} exists already; choose another name or add --force to replace it")
    if path.is_symlink() or (path.exists() and not path.is_file() and not path.is_dir()):
        raise InputError(f"{path}: expected a file or folder to replace, found a link or a device")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise InputError(f"{path}: expected the folder {parent} to exist, found none; create it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{path}: the folder {parent} is not writable; choose another place")


def check_own_folder(folder: Path, force: bool, kind: str, mark: str, own: Collection[str]) -> None:
    """Refuse, before any work is done, an output folder that is not fluidb's to write.

    Parameters
    ----------
    folder : Path
        Where the output will go.
    force : bool
        Whether the user allowed an existing folder of this kind to be replaced; nothing else ever is.
    kind : str
        What the folder holds, for the fault: ``"a design"``.
    mark : str
        The file that tells a folder of this kind.
    own : collection of str
        All files that such a folder may hold.

    Raises
    ------
    InputError
        If the folder exists and may not be replaced, or its parent does not.
    """
    check_free(folder, force, "output folder")
    if not folder.exists():
        return
    held = {item.name for item in folder.iterdir()} if folder.is_dir() else set()
    if mark not in held:
        raise InputError(f"{folder}: --force replaces {kind} only, and this holds no {mark}; choose another name")
    strangers = sorted(held.difference(own))
    if strangers:
        raise InputError(f"{folder}: --force replaces {kind} only, and this holds {strangers[0]} too; move it away")


def read_bytes(path: Path, max_bytes: int, hint: str = "") -> bytes:
    """A file, whole.

    Parameters
    ----------
    path : Path
        An existing file.
    max_bytes : int
        Most bytes to read; a larger file is refused.
    hint : str
        What to do about a larger file, for the fault.

    Returns
    -------
    bytes
        Its content.

    Raises
    ------
    InputError
        If it cannot be read or is too large.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(max_bytes + 1)
    except OSError as error:
        raise InputError(f"{path}: could not be read ({error.strerror})") from error
    if len(raw) > max_bytes:
        raise InputError(f"{path}: expected at most {max_bytes / 2**20:.0f} MiB, found more{hint}")
    return raw


def read_text(path: Path, max_bytes: int) -> str:
    """A text file, whole.

    Parameters
    ----------
    path : Path
        An existing file.
    max_bytes : int
        Most bytes to read; a larger file is refused.

    Returns
    -------
    str
        Its content, line ends as they are.

    Raises
    ------
    InputError
        If it cannot be read, is too large, or is no UTF-8.
    """
    raw = read_bytes(path, max_bytes)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: expected UTF-8 text, found byte 0x{raw[error.start]:02x} at {error.start}"
        ) from error


def check_other(path: Path, source: Path) -> None:
    """Refuse an output that would replace the file it is made of.

    Raises
    ------
    InputError
        If the two are one file.
    """
    if path.exists() and source.exists() and path.samefile(source):
        raise InputError(f"{path}: expected another file than the one that is read; choose another name")


def _beside(path: Path) -> Path:
    """A free hidden name beside a file, for what is being written: short, as the name of the file may be long."""
    return path.absolute().parent / f".fluidb.{os.urandom(6).hex()}.part"


def _sync(path: Path) -> None:
    """Ask for a folder's names to reach the disk; some file systems refuse, and nothing depends on it."""
    with contextlib.suppress(OSError):
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
    except FileExistsError as error:
        raise InputError(f"{path}: came to exist meanwhile; nothing was changed, choose another name") from error
    except OSError as error:
        raise InputError(f"{path}: could not be written ({error.strerror}); nothing was changed") from error


def write_file(path: Path, content: str | bytes | Iterable[str], *, replace: bool = True) -> None:
    """Write a file whole, or leave what stood there.

    Parameters
    ----------
    path : Path
        Destination.
    content : str, bytes or iterable of str
        Its whole content, in pieces where it is long; text is written as UTF-8.
    replace : bool
        Whether an existing file is replaced, in one step; else it is a fault.

    Raises
    ------
    InputError
        If the file system refuses, or a file is in the way.
    """
    if path.is_dir():
        raise InputError(f"{path}: expected a file to write, found a folder; choose another name")
    pieces = [content] if isinstance(content, str | bytes) else content
    with _faults_of(path):
        partial = _beside(path)
        try:
            with partial.open("xb") as stream:
                stream.writelines(piece if isinstance(piece, bytes) else piece.encode() for piece in pieces)
                stream.flush()
                os.fsync(stream.fileno())
            if replace:
                partial.replace(path)
            else:
                _name_anew(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    _sync(path.absolute().parent)


def _name_anew(partial: Path, path: Path) -> None:
    """Give a file its name, unless that is taken: a link fails then, a rename would not."""
    try:
        path.hardlink_to(partial)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise FileExistsError from None
        partial.replace(path)


def write_directory(path: Path, fill: Callable[[Path], None], *, replace: bool = False) -> None:
    """Write a folder whole, or leave what stood there.

    Parameters
    ----------
    path : Path
        Destination.
    fill : callable
        Writes the folder's files into the empty folder it is given.
    replace : bool
        Whether an existing folder is replaced; the caller has checked that it holds
        nothing but fluidb's output.  Else one that is not empty is a fault.

    Raises
    ------
    InputError
        If the file system refuses, or a folder is in the way.
    """
    with _faults_of(path):
        partial = _beside(path)
        old = partial.with_suffix(".old")
        partial.mkdir()
        try:
            fill(partial)
            _sync(partial)
            if replace and path.exists():
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
    _sync(path.absolute().parent)
