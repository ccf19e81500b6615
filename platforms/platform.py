"""What it runs on: a board's resources."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ..formats import Catalogue, Strict, read_toml, validate

PLATFORMS = Catalogue("platform", Path(__file__).parent, "fluidb platforms")

NAME = r"[A-Za-z0-9_.-]{1,80}"
Count = Annotated[int, Field(ge=1, le=10**9)]
Amount = Annotated[float, Field(ge=1e-6, le=1e6)]


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
