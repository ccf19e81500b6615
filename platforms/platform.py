"""What it runs on: a board's resources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ..formats import Catalogue, InputError, Strict, read_toml, validate

PLATFORMS = Catalogue("platform", Path(__file__).parent, "fluidb platforms")

NAME = r"[A-Za-z0-9_.-]{1,80}"
Count = Annotated[int, Field(ge=1, le=10**9)]
Amount = Annotated[float, Field(ge=1e-6, le=1e6)]

ENERGY_KEYS = ("mac_pj", "on_chip_pj_per_word", "off_chip_pj_per_word")
"""What a board's file must state for the energy of a network; ``static_w`` may join them."""

LUT_KEYS = ("luts", "luts_fixed", "luts_per_adder")
"""What it must state for the look-up tables of an NPU."""


class Platform(Strict):
    """A board, as its TOML file states it (``docs/add-a-board.md``).

    Attributes
    ----------
    name, title : str
        Short name and a line for people.
    dsps : int
        Multiply-accumulate units: one DSP makes one ``word_bits`` MAC a cycle.
    on_chip_mbit : float
        On-chip buffer memory in Mb of 2**20 bits, as data sheets count.
    flip_flops, luts : int, optional
        Registers and look-up tables, for resource shares; ``None`` on an ASIC, which has none to share.
    clock_mhz : float
        Clock of the NPU.
    bandwidth_gb_s : float
        Effective off-chip bandwidth in 1e9 bytes a second.
    word_bits : int
        Width of activations and weights.
    mac_pj, on_chip_pj_per_word, off_chip_pj_per_word : float, optional
        Energy of a MAC, and of reading or writing a word in a buffer and off chip.
    static_w : float, optional
        Power that is drawn whatever runs.
    luts_fixed, luts_per_adder : float, optional
        Look-up tables of an NPU: a fixed part, and those of each adder in its trees.
    sources : dict of str to str
        Where each number comes from, by key.
    """

    schema_: Literal["fluidb.platform/1"] = Field("fluidb.platform/1", alias="schema")
    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    title: str
    dsps: Annotated[int, Field(ge=1, le=10**6)]
    on_chip_mbit: Amount
    flip_flops: Count | None = None
    luts: Count | None = None
    clock_mhz: Amount
    bandwidth_gb_s: Amount
    word_bits: Annotated[int, Field(ge=1, le=64)]
    mac_pj: Amount | None = None
    on_chip_pj_per_word: Amount | None = None
    off_chip_pj_per_word: Amount | None = None
    static_w: Amount | None = None
    luts_fixed: Amount | None = None
    luts_per_adder: Amount | None = None
    sources: dict[str, str] = {}

    @field_validator("sources")
    @classmethod
    def _sources_name_keys(cls, value: dict[str, str]) -> dict[str, str]:
        strangers = sorted(set(value) - set(cls.model_fields))
        if strangers:
            raise ValueError(f"expected the keys of this file, found {', '.join(strangers)}")
        return value

    @property
    def unsourced(self) -> list[str]:
        """Keys of the numbers that name no source."""
        numbers = self.model_dump(exclude={"schema_", "name", "title", "sources"}, exclude_none=True)
        return [key for key in numbers if key not in self.sources]

    @property
    def on_chip_bits(self) -> int:
        """On-chip buffer capacity in bits."""
        return int(self.on_chip_mbit * 2**20)

    @property
    def clock_hz(self) -> float:
        """Cycles a second."""
        return self.clock_mhz * 1e6

    @property
    def words_per_cycle(self) -> float:
        """Off-chip words moved in a clock cycle."""
        return self.bandwidth_gb_s * 1e9 * 8 / (self.word_bits * self.clock_hz)

    def states(self, keys: Sequence[str]) -> bool:
        """Whether its file has all of some optional keys."""
        return all(getattr(self, key) is not None for key in keys)

    def require(self, keys: Sequence[str], wanted_by: str) -> list[float]:
        """Values of optional keys, for what cannot be said without them.

        Parameters
        ----------
        keys : sequence of str
            Optional keys of the file.
        wanted_by : str
            What asks for them, for the fault.

        Returns
        -------
        list of float
            One for each key.

        Raises
        ------
        InputError
            If one is missing; the line names all that are.
        """
        values = {key: getattr(self, key) for key in keys}
        missing = [key for key in keys if values[key] is None]
        if missing:
            raise InputError(
                f"{self.name}: {wanted_by} needs {', '.join(missing)}, which the board's file does not state; "
                f"add them (docs/add-a-board.md)"
            )
        return list(values.values())


def load_platform(name: str, bandwidth_gb_s: float | None = None) -> Platform:
    """Load a board that ships with fluidb, or one of your own.

    Parameters
    ----------
    name : str
        A shipped name (``fluidb platforms`` lists them) or the path of a TOML file.
    bandwidth_gb_s : float, optional
        Replaces the file's off-chip bandwidth.

    Returns
    -------
    Platform
        The board.

    Raises
    ------
    InputError
        If it is unknown or its file has faults; every fault has a line.
    """
    platform = read_toml(Platform, PLATFORMS.find(name))
    if bandwidth_gb_s is None:
        return platform
    sources = platform.sources | {"bandwidth_gb_s": "given by the user"}
    changed = platform.model_dump(by_alias=True) | {"bandwidth_gb_s": bandwidth_gb_s, "sources": sources}
    return validate(Platform, changed, Path("--bandwidth"))
