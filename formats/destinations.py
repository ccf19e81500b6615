"""Whether an output may be written where the user wants it, asked before any work is done."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from .errors import InputError
from .files import AnyPath
from .outputs import STANDARD_OUTPUT, held, place_of, tidy, write_directory


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
    if path.is_symlink() or (path.exists() and not path.is_file() and not path.is_dir()):
        raise InputError(
            f"{path}: expected a new name, found a link, a pipe or a device, which nothing replaces; choose another"
        )
    if os.path.lexists(path) and not force:
        raise InputError(f"{path}: {what} exists already; choose another name or add --force to replace it")
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


class OwnFolder(NamedTuple):
    """A kind of folder that fluidb writes as a whole, and replaces only if it holds nothing else.

    Attributes
    ----------
    kind : str
        What such a folder holds, for faults: ``"a design"``.
    mark : str
        The file that tells a folder of this kind.
    own : collection of str
        All files that such a folder may hold.
    """

    kind: str
    mark: str
    own: Collection[str]

    def check(self, folder: AnyPath | None, force: bool, *, apart: Iterable[AnyPath | None] = ()) -> None:
        """Refuse, before any work is done, an output folder that is not fluidb's to write.

        Parameters
        ----------
        folder : str or Path or None
            Destination, if there is one.
        force : bool
            Whether the user allowed an existing folder of this kind to be replaced; nothing else ever is.
        apart : iterable of str or Path or None
            Files and folders that the command reads, which must not be replaced.

        Raises
        ------
        InputError
            If the folder exists and may not be replaced, or its parent does not.
        """
        if folder is None:
            return
        check_named(folder)
        folder = Path(folder)
        if folder.is_file():
            raise InputError(f"{folder}: expected a folder to write, found a file; choose another name")
        check_free(folder, force, "output folder")
        if not folder.exists():
            return
        for other in apart:
            read = None if other is None else Path(other).resolve()
            if read is not None and read.exists() and folder.resolve() in (read, *read.parents):
                what = f"the folder of {other}, which this command reads"
                raise InputError(f"{folder}: expected another folder than {what}")
        tidy(folder)
        names = {path.name for path in held(folder)}
        only = f"{folder}: --force replaces {self.kind} only, and this folder holds"
        if self.mark not in names:
            raise InputError(f"{only} no {self.mark}; choose another name")
        strangers = sorted(names.difference(self.own))
        if strangers:
            raise InputError(f"{only} {strangers[0]}, too; move it away")

    def write(self, folder: AnyPath, files: Mapping[str, str | bytes], *, replace: bool = False) -> None:
        """Write such a folder, whole or not at all.

        Parameters
        ----------
        folder : str or Path
            Destination.
        files : mapping of str to str or bytes
            Content of each file.
        replace : bool
            Whether an existing folder of this kind may be replaced.

        Raises
        ------
        InputError
            If it may not be written (:meth:`check`), or the file system refuses.
        """
        self.check(folder, replace)  # once more, because the folder may have changed during the work
        write_directory(folder, files, replace=replace)


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
