"""fpgaConvNet's platform files.

Source: fpgaConvNet, https://github.com/AlexMontgomerie/fpgaconvnet-model, ``fpgaconvnet/platform``; its block RAMs
are of 18 Kb (``configs/zc706.toml``: 1090, where the data sheet counts 545 of 36 Kb).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from ..formats import InputError, Strict, read_toml, validate
from .described import NAME
from .platform import Platform

ULTRARAM_KBIT = 288

Amount = Annotated[float, Field(gt=0, le=1e9)]
Count = Annotated[int, Field(ge=0, le=10**9)]


class _Part(Strict):
    model_config = ConfigDict(extra="ignore")  # what the tool keeps of its own: reconfiguration time, ports, ethernet


class _Device(_Part):
    name: str
    part: str = ""


class _Resources(_Part):
    DSP: Count
    BRAM: Count
    URAM: Count = 0
    FF: Count | None = None
    LUT: Count | None = None


class _System(_Part):
    board_frequency: Amount | None = None
    memory_bandwidth: Amount | None = None


class _File(_Part):
    device: _Device
    resources: _Resources
    system: _System = _System()


def import_platform(
    path: Path,
    *,
    name: str | None = None,
    clock_mhz: float | None = None,
    bandwidth_gb_s: float | None = None,
    word_bits: int | None = None,
    bram_kbit: int = 18,
) -> Platform:
    """Make a board of fpgaConvNet's description of it.

    Parameters
    ----------
    path : Path
        The TOML file: ``[device] name, part``, ``[resources] DSP, BRAM, URAM, FF, LUT``, ``[system]
        board_frequency`` in MHz, ``memory_bandwidth`` in Gb/s; what else it holds is passed over.
    name : str, optional
        The board's name, else the device's.
    clock_mhz, bandwidth_gb_s : float, optional
        In place of what the file says, or where it says nothing.
    word_bits : int, optional
        Width of activations and weights, which the file does not know; else 16.
    bram_kbit : int
        Size of a block RAM in Kb; some files count blocks of 36 Kb.

    Returns
    -------
    Platform
        The board, each number with its source.

    Raises
    ------
    InputError
        With a line for every fault of the file, and for a clock or bandwidth that neither it nor the caller names.
    """
    if not path.is_file():
        raise InputError(f"{path}: expected a file to import, found none")
    if name is not None and not re.fullmatch(NAME, name):
        raise InputError(f'--name: expected at most 80 letters, digits and any of _ . -, found "{name}"')
    file = read_toml(_File, path)
    resources, system = file.resources, file.system
    missing = [
        f"{path}: system.{key}: expected this key, found none; or give {option}"
        for key, option, value in (
            ("board_frequency", "--clock", clock_mhz or system.board_frequency),
            ("memory_bandwidth", "--bandwidth", bandwidth_gb_s or system.memory_bandwidth),
        )
        if value is None
    ]
    if missing:
        raise InputError(missing)
    origin = f"fpgaConvNet platform {path.name}"
    memory = f"BRAM {resources.BRAM} blocks * {bram_kbit} Kb"
    memory += f" + URAM {resources.URAM} blocks * {ULTRARAM_KBIT} Kb" if resources.URAM else ""
    given = "given by the user"
    kbit = resources.BRAM * bram_kbit + resources.URAM * ULTRARAM_KBIT
    numbers: dict[str, tuple[Any, str]] = {
        "dsps": (resources.DSP, f"{origin}: DSP"),
        "on_chip_mbit": (kbit / 1024, f"{origin}: {memory}"),
        "flip_flops": (resources.FF, f"{origin}: FF"),
        "luts": (resources.LUT, f"{origin}: LUT"),
        "clock_mhz": (clock_mhz, given) if clock_mhz else (system.board_frequency, f"{origin}: board_frequency in MHz"),
        "bandwidth_gb_s": (bandwidth_gb_s, given)
        if bandwidth_gb_s
        else ((system.memory_bandwidth or 0) / 8, f"{origin}: memory_bandwidth {system.memory_bandwidth:g} Gb/s / 8"),
        "word_bits": (word_bits, given) if word_bits else (16, "assumed: 16-bit fixed-point, as in Fluid Batching"),
    }
    known = {key: pair for key, pair in numbers.items() if pair[0] is not None}
    content = {
        "name": name or re.sub(r"[^A-Za-z0-9_.-]", "_", file.device.name)[:80],
        "title": f"{file.device.name}{f' ({file.device.part})' if file.device.part else ''}",
        **{key: value for key, (value, _) in known.items()},
        "sources": {key: source for key, (_, source) in known.items()},
    }
    return validate(Platform, content, path)
