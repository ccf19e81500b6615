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
    """Refuse, before any work is done, an output that cannot be written, or that exists and may not be replaced.

    ``what`` it is, for the fault; ``apart``: other files that the command reads or writes.  Folders that do not exist
    are made with the output.
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
    """Refuse standard output in place of a folder."""
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
    """A kind of folder that fluidb writes as a whole, and replaces only if it holds nothing else."""

    kind: str  # what such a folder holds, for faults: ``"a design"``
    mark: str  # the file that tells a folder of this kind
    own: Collection[str]  # all files that such a folder may hold

    def check(self, folder: AnyPath | None, force: bool, *, apart: Iterable[AnyPath | None] = ()) -> None:
        """Refuse, before any work is done, an output folder, if there is one, that is not fluidb's to write.

        With ``force`` a folder of this kind may be replaced, but none that is or holds one of ``apart``, which the
        command reads.
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
        """Write such a folder, whole or not at all."""
        self.check(folder, replace)  # once more, because the folder may have changed during the work
        write_directory(folder, files, replace=replace)


def check_resumable(folder: AnyPath, command: str, *, ours: bool) -> None:
    """Refuse a folder in which a command cannot go on; ``ours``: it holds what this command wrote earlier."""
    check_named(folder)
    folder = Path(folder)
    if not folder.exists():
        check_free(folder, force=False)
        return
    if folder.is_dir():
        tidy(folder)
    if not ours and not (folder.is_dir() and not held(folder)):
        raise InputError(f"{folder}: exists already and is no folder of `{command}`; choose another name")
