"""The kinds of platforms, by the schema of their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, overload

from ..formats import AnyPath, Catalogue, InputError, as_loaded, parse_toml, validate
from .accelerator import Accelerator
from .board import Board
from .by_stage import StagedDevice
from .cluster import Cluster
from .device import AnalyticDevice, Device
from .engine import Engine
from .measured import MeasuredDevice
from .platform import Platform

PLATFORMS = Catalogue("platform", Path(__file__).parent, "fluidb platforms")

KINDS: dict[str, type[Platform]] = {
    "fluidb.platform": Board,
    "fluidb.engine": Engine,
    "fluidb.device": Device,
    "fluidb.accelerator": Accelerator,
    "fluidb.cluster": Cluster,
}
"""Kinds by the name of their schema. To add a kind, write a module with its class and add a line here."""


def kind_of(name: AnyPath) -> type[Platform]:
    """The kind of a platform; a board if its file names no schema that is known. The rest is not checked."""
    return _kind(parse_toml(PLATFORMS.find(name)))


def _kind(data: dict[str, Any]) -> type[Platform]:
    return KINDS.get(str(data.get("schema")).partition("/")[0], Board)


def _class(data: dict[str, Any]) -> type[Platform]:
    """The class that reads a file: of its kind; of a device, of its form."""
    kind = _kind(data)
    if kind is not Device:
        return kind
    if "table" in data:
        return MeasuredDevice
    if "groups" in data:
        return StagedDevice
    return AnalyticDevice


AnyKind = TypeVar("AnyKind", bound=Platform)


@overload
def load_platform(name: AnyPath, bandwidth_gb_s: float | None = None) -> Board: ...
@overload
def load_platform(name: AnyPath, bandwidth_gb_s: float | None = None, *, kind: type[AnyKind]) -> AnyKind: ...


def load_platform(name: AnyPath, bandwidth_gb_s: float | None = None, *, kind: type[Platform] = Board) -> Platform:
    """Load a platform that ships with fluidb, or one of your own.

    Parameters
    ----------
    name : str or Path
        A shipped name (``fluidb platforms`` lists them) or the path of a TOML file.
    bandwidth_gb_s : float, optional
        Replaces the off-chip bandwidth that the file of a board or an accelerator states.
    kind : type
        The expected kind: a board, ``Device``, or ``Platform`` for a platform of any kind.

    Returns
    -------
    kind
        The platform.

    Raises
    ------
    InputError
        If it is unknown, of another kind, or its file has faults; every fault has a line.
    """
    path = PLATFORMS.find(name)
    data = parse_toml(path)
    platform = _class(data).read(data, path)
    if not isinstance(platform, kind):
        expected, other = (f"{'an' if text[0] in 'aeiou' else 'a'} {text}" for text in (kind.kind, platform.kind))
        raise InputError(f"{name}: expected {expected}, found {other}; {platform.table_made_by.format(name)}")
    if bandwidth_gb_s is None or not isinstance(platform, Board | Accelerator):
        return platform
    sources = platform.sources | {"bandwidth_gb_s": "given by the user"}
    changed = platform.model_dump(by_alias=True) | {"bandwidth_gb_s": bandwidth_gb_s, "sources": sources}
    return validate(type(platform), changed, Path("bandwidth"))


def as_board(given: Board | AnyPath) -> Board:
    """The board, loaded if it was given by its name or file."""
    return as_loaded(given, Board, load_platform, "platform: expected a board")
