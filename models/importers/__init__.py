"""Importers: they make network files from the files of other tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ...formats import AnyPath, InputError, check_installed
from ...formats.files import check_import
from ..foreign import network_of
from ..schema import NAME, NetworkFile
from . import scalesim
from .candidates import CandidateHead, place_candidates
from .exits import Placement, place_exits, with_rates
from .imported import ImportedNetwork
from .read_as import ReadAs


class NetworkImporter(NamedTuple):
    """A format that can be imported."""

    suffix: str  # end of a file's name, in lower case
    # of path, network name, sizes of open dimensions, and what the file leaves open
    read: Callable[[Path, str, Mapping[str, int], ReadAs], ImportedNetwork]


def _onnx(path: Path, name: str, dims: Mapping[str, int], read_as: ReadAs) -> ImportedNetwork:
    check_installed(f"{path}: the import of ONNX files", "onnx", "onnx")
    from .onnx import read

    if read_as.one_filter is not None:
        raise InputError(f"one_filter: {path} is an ONNX model, which says what its convolutions are; leave it out")
    return read(path, name, dims, read_as)


__all__ = ["IMPORTERS", "CandidateHead", "Placement", "ReadAs", "detect_format", "import_network"]

IMPORTERS: dict[str, NetworkImporter] = {
    "onnx": NetworkImporter(".onnx", _onnx),
    "scalesim": NetworkImporter(".csv", scalesim.read),
}
"""Every format, by the name that a user gives (``docs/import.md``)."""


def detect_format(path: AnyPath) -> str:
    """Find the format of a file from the end of its name."""
    for name, importer in IMPORTERS.items():
        if Path(path).suffix.lower() == importer.suffix:
            return name
    known = " or ".join(f"{importer.suffix} ({name})" for name, importer in IMPORTERS.items())
    raise InputError(
        f"{path}: expected a name that ends in {known}, found {network_of(Path(path)) or 'another; state the format'}"
    )


def import_network(
    path: AnyPath,
    format_name: str,
    *,
    name: str | None = None,
    dims: Mapping[str, int] | None = None,
    exits: Placement | None = None,
    rates: Sequence[float] | None = None,
    candidates: CandidateHead | None = None,
    read_as: ReadAs | None = None,
) -> NetworkFile:
    """Make a network file from a file of another tool.

    Parameters
    ----------
    path : str or Path
        The file.
    format_name : str
        A key of ``IMPORTERS``.
    name : str, optional
        The network's name; by default the file's name without its ending.
    dims : mapping of str to int, optional
        Sizes of the dimensions that the file leaves open.
    exits : Placement, optional
        Exits to add to a network that has none.
    rates : sequence of float, optional
        Share of samples that leave at each exit but the last. By default all shares are equal, the last one included.
    candidates : CandidateHead, optional
        Add an exit candidate after every block (``fluidb docs exits``), with this head.
    read_as : ReadAs, optional
        What the file leaves open: values of inputs, costs of operators, rows of one filter.

    Returns
    -------
    NetworkFile
        The network. `build_network` checks its shapes.

    Raises
    ------
    InputError
        If the format is unknown, the name is not allowed, or the file has faults; every fault has a line.
    """
    path = Path(path)
    if format_name not in IMPORTERS:
        raise InputError(f'format: expected {", ".join(IMPORTERS)}, found "{format_name}"')
    if name is not None:
        NAME.check(name, where="name: ")
    check_import(path)
    made = IMPORTERS[format_name].read(path, name or NAME.plain(path.stem), dims or {}, read_as or ReadAs())
    file = made.file
    if exits is not None:
        if file.exits:
            raise InputError(f"exits: the outputs of {path} are {len(file.exits)} exits already; leave the option out")
        file = place_exits(made, path, exits)
    if candidates is not None:
        file = place_candidates(replace(made, file=file), path, candidates)
    return file if rates is None else with_rates(file, path, rates)
