"""The kinds of platforms, and how a file finds its own."""

from __future__ import annotations

from pathlib import Path

from ..formats import Catalogue, InputError, parse_toml, validate
from .described import Described
from .device import Device
from .platform import Platform

PLATFORMS = Catalogue("platform", Path(__file__).parent, "fluidb platforms")

KINDS: dict[str, type[Described]] = {"fluidb.platform": Platform, "fluidb.device": Device}
"""Kinds by the name of their schema.  A new kind is a module with its class, and a line here."""


def load_platform(name: str, bandwidth_gb_s: float | None = None) -> Described:
    """Load a platform that ships with fluidb, or one of your own.

    Parameters
    ----------
    name : str
        A shipped name (``fluidb platforms`` lists them) or the path of a TOML file.
    bandwidth_gb_s : float, optional
        Replaces the off-chip bandwidth that a board's file states.

    Returns
    -------
    Platform or Device
        By the file's schema.

    Raises
    ------
    InputError
        If it is unknown or its file has faults; every fault has a line.
    """
    path = PLATFORMS.find(name)
    data = parse_toml(path)
    found = KINDS.get(str(data.get("schema")).partition("/")[0], Platform).read(data, path)
    if bandwidth_gb_s is None or not isinstance(found, Platform):
        return found
    sources = found.sources | {"bandwidth_gb_s": "given by the user"}
    changed = found.model_dump(by_alias=True) | {"bandwidth_gb_s": bandwidth_gb_s, "sources": sources}
    return validate(Platform, changed, Path("--bandwidth"))


def load_npu(name: str, bandwidth_gb_s: float | None = None) -> Platform:
    """Load a board that an NPU is to be searched for.

    Parameters
    ----------
    name, bandwidth_gb_s
        As for :func:`load_platform`.

    Returns
    -------
    Platform
        The board.

    Raises
    ------
    InputError
        As :func:`load_platform` does, and if it is a platform of another kind.
    """
    found = load_platform(name, bandwidth_gb_s)
    if isinstance(found, Platform):
        return found
    raise InputError(
        f"{name}: expected a board to search an NPU for, found a fixed device; "
        f"make its table with `fluidb latency NETWORK {name} -o DIR`"
    )


def load_device(name: str) -> Device:
    """Load a device that is as it is: nothing is searched for.

    Parameters
    ----------
    name : str
        As for :func:`load_platform`.

    Returns
    -------
    Device
        The device.

    Raises
    ------
    InputError
        As :func:`load_platform` does, and if it is a platform of another kind.
    """
    found = load_platform(name)
    if isinstance(found, Device):
        return found
    raise InputError(
        f"{name}: expected a device, found a board; search an NPU for it with `fluidb dse NETWORK {name} -o DIR`, "
        "then `fluidb latency DIR`"
    )
