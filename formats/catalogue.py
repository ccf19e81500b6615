"""Networks, platforms and scenarios: those that ship with fluidb have a name, the user's own are files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .display import as_word
from .errors import InputError
from .files import AnyPath, is_folder, is_input
from .near import did_you_mean
from .toml import shown


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A folder of TOML files that a user names by stem."""

    kind: str  # kind of the files, for faults: ``"network"``, ``"platform"``
    folder: Path  # folder of the shipped files
    command: str  # the command that lists them
    # endings of files that are not read, but that the command's ``import`` makes such a file of
    imported: tuple[str, ...] = ()
    # what a file of another tool is and what becomes of it, after ``found``; ``None`` of any other file
    foreign: Callable[[Path], str | None] = lambda _: None

    def names(self) -> list[str]:
        """Names of the shipped files, sorted."""
        return sorted(path.stem for path in self.folder.glob("*.toml"))

    def find(self, name: AnyPath) -> Path:
        """The file behind a shipped name, or the path of a TOML file; the fault gives the nearest shipped names."""
        name = os.fspath(name)
        if name in self.names():
            return self.folder / f"{name}.toml"
        path = Path(name)
        if path.suffix in self.imported and is_input(path):
            made = f"{self.command} import {as_word(path)} -o {as_word(path.stem + '.toml')}"
            raise InputError(f"{name}: expected the TOML file of a {self.kind}; make it with `{made}`")
        if (other := self.foreign(path)) is not None:
            raise InputError(f"{name}: expected the TOML file of a {self.kind}, found {other}")
        if is_input(path):
            return path
        if is_folder(path):
            raise InputError(
                f"{name}: expected a name of `{self.command}` or the TOML file of a {self.kind}, found a folder"
            )
        if path.suffix in (".toml", *self.imported) or "/" in name:
            raise InputError(f"{name}: expected the TOML file of a {self.kind}, found no such file")
        files = [file.name for file in sorted(Path().glob("*.toml"))]
        hint = did_you_mean(name, [*self.names(), *files], f"known: {', '.join(self.names())}")
        raise InputError(
            f'unknown {self.kind} "{name}"; {hint} (see `{self.command}`, or give the path of a TOML file)'
        )


Loaded = TypeVar("Loaded")


def as_loaded(given: Loaded | AnyPath, kind: type[Loaded], load: Callable[[AnyPath], Loaded], what: str) -> Loaded:
    """What was given, or loaded if it was given by its name or file; ``what``: the parameter, and what it expects."""
    if isinstance(given, kind):
        return given
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"{what}, or its name or file, found {shown(given)}")
    return load(given)
