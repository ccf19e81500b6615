"""Whether an output may be written where the user wants it, asked before any work is done."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from .errors import InputError
from .files import AnyPath
from .outputs import STANDARD_OUTPUT, held, place_of, tidy


def check_free(path: AnyPath, force: bool, what: str = "output", *, apart: Iterable[AnyPath | None] = ()) -> None:
    """Refuse, before any work is done, an output that cannot be written.

    Parameters
    ----------
    path : str or Path
        Destination.
    force : bool
        Whether the user allowed an existing output to be replaced.
    what : str
        Kind of the output, for the fault.
    apart : iterable of str or Path or None
        The other files that the command reads or writes, which the output must not replace.

    Raises
    ------
    InputError
        If ``path`` exists and ``force`` is false, if it is neither a regular file
        nor a folder, if it is one of ``apart``, or if the nearest folder above it that
        exists is not writable; folders that do not exist are made with the output.
    """
    path, place = Path(path), place_of(path)
    if path == STANDARD_OUTPUT:
        return
    for other in apart:
        if other is not None and (place == place_of(other) or _same(place, other)):
            raise InputError(f"{path}: expected another file than {other}, which this command uses too; choose another")
    parent = place.parent
    if parent.is_dir():
        tidy(parent)
    if os.path.lexists(path) and not force:
        raise InputError(f"{path}: {what} exists already; choose another name or add --force to replace it")
    if path.is_symlink() or (path.exists() and not path.is_file() and not path.is_dir()):
        raise InputError(f"{path}: expected a file or folder to replace, found a link or a device")
    there = next(folder for folder in (parent, *parent.parents) if os.path.lexists(folder))
    if not there.is_dir():
        raise InputError(f"{path}: expected a folder {there}, found something else; choose another place")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{path}: the folder {there} is not writable; choose another place")


def check_named(folder: AnyPath) -> None:
    """Refuse standard output in place of a folder.

    Parameters
    ----------
    folder : str or Path
        The folder.

    Raises
    ------
    InputError
        If the folder is ``-``.
    """
    if Path(folder) == STANDARD_OUTPUT:
        raise InputError(
            f"{folder}: expected the name of a folder, found -, which stands for standard output; choose a name"
        )


def _same(path: Path, other: AnyPath) -> bool:
    """True if two names name one file."""
    with contextlib.suppress(OSError):
        return path.samefile(other)
    return False


def check_own_folder(
    folder: AnyPath, force: bool, kind: str, mark: str, own: Collection[str], *, apart: Iterable[AnyPath | None] = ()
) -> None:
    """Refuse, before any work is done, an output folder that is not fluidb's to write.

    Parameters
    ----------
    folder : str or Path
        Destination.
    force : bool
        Whether the user allowed an existing folder of this kind to be replaced; nothing else ever is.
    kind : str
        Content of the folder, for the fault: ``"a design"``.
    mark : str
        The file that tells a folder of this kind.
    own : collection of str
        All files that such a folder may hold.
    apart : iterable of str or Path or None
        Files and folders that the command reads, which must not be replaced.

    Raises
    ------
    InputError
        If the folder exists and may not be replaced, or its parent does not.
    """
    check_named(folder)
    folder = Path(folder)
    check_free(folder, force, "output folder")
    if not folder.exists():
        return
    for other in apart:
        read = None if other is None else Path(other).resolve()
        if read is not None and read.exists() and folder.resolve() in (read, *read.parents):
            raise InputError(f"{folder}: expected another folder than the folder of {other}, which this command reads")
    if folder.is_dir():
        tidy(folder)
    names = {path.name for path in held(folder)} if folder.is_dir() else set()
    if mark not in names:
        raise InputError(
            f"{folder}: --force replaces {kind} only, and this folder holds no {mark}; choose another name"
        )
    strangers = sorted(names.difference(own))
    if strangers:
        raise InputError(
            f"{folder}: --force replaces {kind} only, and this folder holds {strangers[0]}, too; move it away"
        )


def check_resumable(folder: AnyPath, command: str, *, ours: bool) -> None:
    """Refuse, before any work is done, a folder in which a command cannot go on.

    Parameters
    ----------
    folder : str or Path
        Destination.
    command : str
        The command, for the fault.
    ours : bool
        Whether the folder holds what this command wrote earlier.

    Raises
    ------
    InputError
        If it holds something else, or cannot be made.
    """
    check_named(folder)
    folder = Path(folder)
    if not folder.exists():
        check_free(folder, force=False)
        return
    if folder.is_dir():
        tidy(folder)
    if not ours and not (folder.is_dir() and not held(folder)):
        raise InputError(f"{folder}: exists already and is no folder of `{command}`; choose another name")
