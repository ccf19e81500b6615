"""Importers: network files made of networks that another tool describes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...formats import InputError
from ..schema import NAME, NetworkFile
from . import scalesim
from .names import plain_name


@dataclass(frozen=True, slots=True)
class Importer:
    """A format of networks.

    Attributes
    ----------
    title : str
        What writes it.
    suffixes : tuple of str
        How its files end, in lower case.
    read : callable
        The network file of a path, under a given name; its ``sources`` say what was decided.
        Raises `InputError` with a line for every fault.
    """

    title: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, str], NetworkFile]


IMPORTERS: dict[str, Importer] = {
    "scalesim": Importer("SCALE-Sim topology", (".csv",), scalesim.read),
}
"""Every format, by the name that a user gives (``docs/import-networks.md``)."""


def detect_format(path: Path) -> str:
    """The format of a file, by how its name ends.

    Raises
    ------
    InputError
        If no importer knows the ending.
    """
    for name, importer in IMPORTERS.items():
        if path.suffix.lower() in importer.suffixes:
            return name
    known = ", ".join(f"{suffix} ({name})" for name, item in IMPORTERS.items() for suffix in item.suffixes)
    raise InputError(f"{path}: expected a name that ends in {known}, found another; add --format")


def import_network(path: Path, format_name: str, *, name: str | None = None, title: str | None = None) -> NetworkFile:
    """Make a network file of one that another tool wrote.

    Parameters
    ----------
    path : Path
        The file.
    format_name : str
        A key of ``IMPORTERS``.
    name, title : str, optional
        The network's name, else the file's without its ending; and its line for people.

    Returns
    -------
    NetworkFile
        Not lowered yet: `build_network` finds the shapes that do not fit.

    Raises
    ------
    InputError
        If the format is unknown, the name cannot be one, or the file has faults, each with a line.
    """
    if format_name not in IMPORTERS:
        raise InputError(f'--format: expected auto, {", ".join(IMPORTERS)}, found "{format_name}"')
    if name is not None and not re.fullmatch(NAME, name):
        raise InputError(f'--name: expected at most 80 letters, digits and any of _ . : -, found "{name}"')
    if not path.is_file():
        raise InputError(f"{path}: expected a file to import, found none")
    file = IMPORTERS[format_name].read(path, name or plain_name(path.stem))
    return file if title is None else file.model_copy(update={"title": title})
