"""Importer of fpgaConvNet's platform files, whose block RAMs have 18 Kb.

Source: https://github.com/AlexMontgomerie/fpgaconvnet-model, ``fpgaconvnet/platform``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from ..formats import AnyPath, InputError, Strict, read_text, read_toml, validate
from ..formats.files import check_import
from .board import Board
from .detect import READ
from .platform import NAME

BLOCK_KBIT = 18
ULTRARAM_KBIT = 288

Amount = Annotated[float, Field(gt=0, le=1e9)]
Count = Annotated[int, Field(ge=0, le=10**9)]


class _Section(Strict):
    model_config = ConfigDict(extra="ignore")  # the tool's own keys: reconfiguration time, ports, ethernet


class _Device(_Section):
    name: str
    part: str = ""


class _Resources(_Section):
    DSP: Count
    BRAM: Count
    URAM: Count = 0
    FF: Count | None = None
    LUT: Count | None = None


class _System(_Section):
    board_frequency: Amount | None = None
    memory_bandwidth: Amount | None = None


class _File(_Section):
    device: _Device
    resources: _Resources
    system: _System = _System()


class _FlatFile(_Resources):
    """A platform as fpgaConvNet's older tools and ATHEENA write it, in JSON."""

    name: str
    freq: Amount | None = None
    mem_bandwidth: Amount | None = None

    @property
    def sections(self) -> _File:
        """The same in the sections of newer files."""
        resources = _Resources.model_validate(self.model_dump(include=set(_Resources.model_fields)))
        system = _System(board_frequency=self.freq, memory_bandwidth=self.mem_bandwidth)
        return _File(device=_Device(name=self.name), resources=resources, system=system)


def _read(path: Path, name: str | None) -> _File:
    """A platform file in one of its two forms; a name that the user states need not be in it."""
    if path.suffix.lower() not in {".json", ".yaml", ".yml"}:
        return read_toml(_File, path)
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError):
        raise InputError(f"{path}: expected {READ}; found none of them") from None
    if not isinstance(content, dict) or not {*_FlatFile.model_fields, "constraints"} & set(content):
        raise InputError(f"{path}: expected {READ}; found JSON without any of their keys")
    given = content.pop("constraints", {})
    named = {} if name is None else {"name": name}
    return validate(_FlatFile, named | content | (given if isinstance(given, dict) else {}), path).sections


def import_platform(
    path: AnyPath, *, name: str | None = None, clock_mhz: float | None = None, bandwidth_gb_s: float | None = None
) -> Board:
    """Make a board from fpgaConvNet's description of it."""
    path = Path(path)
    check_import(path)
    if name is not None:
        NAME.check(name, where="name: ")
    file = _read(path, name)
    resources, system = file.resources, file.system
    origin = f"fpgaConvNet platform {path.name}"
    memory = f"BRAM {resources.BRAM} blocks * {BLOCK_KBIT} Kb"
    memory += f" + URAM {resources.URAM} blocks * {ULTRARAM_KBIT} Kb" if resources.URAM else ""
    kbit = resources.BRAM * BLOCK_KBIT + resources.URAM * ULTRARAM_KBIT
    gbit_s = system.memory_bandwidth or 0.0
    numbers: dict[str, tuple[Any, str]] = {
        "dsps": (resources.DSP, f"{origin}: DSP"),
        "on_chip_mbit": (kbit / 1024, f"{origin}: {memory}"),
        "flip_flops": (resources.FF, f"{origin}: FF"),
        "luts": (resources.LUT, f"{origin}: LUT"),
        "block_rams": (resources.BRAM // 2, f"{origin}: BRAM, two blocks of {BLOCK_KBIT} Kb each"),
        "ultra_rams": (resources.URAM or None, f"{origin}: URAM"),
        "clock_mhz": (system.board_frequency, f"{origin}: board_frequency in MHz"),
        "bandwidth_gb_s": (gbit_s / 8 or None, f"{origin}: memory_bandwidth {gbit_s:g} Gb/s / 8"),
        "word_bits": (16, "assumed: 16-bit fixed-point, as in Fluid Batching"),
    }
    given = {"clock_mhz": clock_mhz, "bandwidth_gb_s": bandwidth_gb_s}
    numbers |= {key: (value, "given by the user") for key, value in given.items() if value}
    known = {key: pair for key, pair in numbers.items() if pair[0] is not None}
    needed = {"clock_mhz": ("board_frequency", "clock"), "bandwidth_gb_s": ("memory_bandwidth", "bandwidth")}
    missing = [
        f"{path}: system.{theirs}: expected this key, found none; or state a {plain}"
        for key, (theirs, plain) in needed.items()
        if key not in known
    ]
    if missing:
        raise InputError(missing)
    content = {
        "name": name or NAME.plain(file.device.name),
        "title": f"{file.device.name}{f' ({file.device.part})' if file.device.part else ''}",
        **{key: value for key, (value, _) in known.items()},
        "sources": {key: source for key, (_, source) in known.items()},
    }
    return validate(Board, content, path)
