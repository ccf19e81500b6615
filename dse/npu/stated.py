"""The designs that a search considers, as a user states them: in options, in files and in Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from ...formats.keys import Key
from .choices import MAX_DESIGN_BATCH

if TYPE_CHECKING:  # the help of commands needs the names of the options, and not the search
    from ...models import Network
    from ...platforms import Board
    from .options import SearchOptions

Bandwidth = Annotated[
    str | None,
    Key("Bandwidth instead of the platform's: off chip (3.2GB/s), or of a cluster's links (100Mb/s).", "QUANTITY"),
]


class Problem(NamedTuple):
    """A search, read and checked."""

    network: Network
    platform: Board
    options: SearchOptions


@dataclass(frozen=True, kw_only=True)
class DesignOptions:
    """Which designs of a board a search considers; sizes are texts with units, or shares of the board's."""

    # all layouts but Equation (1) as printed, a reading of the paper that only papers/ and Python use
    batching: Annotated[Literal["fluid", "row", "column", "fc", "none"], Key("How the engine lays out a batch.")] = (
        "fluid"
    )
    stacking: Annotated[bool, Key("Stackable PEs: k in {1/2, 1, 2}, or k = 1 only.")] = True
    overlap: Annotated[
        Literal["tiles", "ideal", "paper"],
        Key("Time of a layer: tile by tile as built, its ideal (roofline), or the ideal with the paper's words."),
    ] = "tiles"
    b_max: Annotated[int, Key("Largest batch size B_max.", least=1, most=MAX_DESIGN_BATCH)] = 8
    bandwidth: Bandwidth = None
    int8: Annotated[bool, Key("Words of 8 bits, and two MACs in a DSP.")] = False
    pixels: Annotated[
        str | None, Key("Output pixels that a design may work on side by side, instead of the board's.", "V1,V2,...")
    ] = None
    max_dsp: Annotated[str | None, Key("DSPs that a design may take: 80% or 720DSPs; all if not given.", "LIMIT")] = (
        None
    )
    max_ram: Annotated[
        str | None, Key("On-chip memory that a design may take: 80% or 15Mb; all if not given.", "LIMIT")
    ] = None
    max_lut: Annotated[
        str | None, Key("LUTs that a design may take: 76% or 166000LUTs; 80% if not given.", "LIMIT")
    ] = None

    def read(self, network: str | Network, platform: str, **given: Any) -> Problem:
        """The search of a network on a board; ``given``: further fields of :class:`.SearchOptions`."""
        from ...formats import parse_bandwidth, parse_numbers, validate
        from ...models import load_network
        from ...platforms import LUT_KEYS, load_platform
        from .options import SearchOptions

        bandwidth = None if self.bandwidth is None else parse_bandwidth(self.bandwidth)
        board = load_platform(platform, bandwidth)
        board = board.in_int8() if self.int8 else board
        if self.pixels is not None:
            board = board.with_pixels([int(V) for V in parse_numbers(self.pixels, "pixels", int, "1,2,4")])
        limits = {
            "max_dsps": parse_limit(self.max_dsp, "max_dsp", board.dsps, "DSPs", "80% or 720DSPs"),
            "max_ram_mbit": parse_limit(self.max_ram, "max_ram", board.on_chip_mbit, "Mb", "80% or 15Mb"),
            "max_luts": parse_limit(self.max_lut, "max_lut", board.luts, "LUTs", "76% or 166000LUTs"),
        }
        stated = {key: value for key, value in vars(self).items() if key in SearchOptions.model_fields}
        options = validate(SearchOptions, stated | given | {"limits": limits}, Path("options"))
        if self.max_lut is not None and not options.counts_luts(board):
            board.require(LUT_KEYS, "max_lut")
        return Problem(load_network(network) if isinstance(network, str) else network, board, options)


def parse_limit(text: str | None, what: str, total: float | None, unit: str, example: str) -> float | None:
    """A limit as a user states it: an amount, or a share of the board's; ``None`` if there is none."""
    from ...formats import InputError, parse_quantity

    if text is None:
        return None
    units = {unit: 1.0} if total is None else {unit: 1.0, "%": total / 100}
    share = text.strip().endswith("%")
    value = round(parse_quantity(text, units, what, example), 9)  # 100 % is all of it
    if share and total is not None and value > total:
        raise InputError(f'{what}: expected at most 100% of the board, found "{text}"; write e.g. {example}')
    if unit == "Mb":
        return value
    if value < 1:
        raise InputError(f'{what}: expected room for at least 1, found "{text}"; write e.g. {example}')
    if not share and value != int(value):
        raise InputError(f'{what}: expected a whole number, found "{text}"; write e.g. {example}')
    return int(value)
