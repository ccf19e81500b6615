"""What `dse`, `pareto` and `codesign` search: the network, the board and the options of their command lines."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...dse import SearchOptions
    from ...models import Network
    from ...platforms import Platform


class Problem(NamedTuple):
    """A search as the user stated it."""

    network: Network
    platform: Platform
    options: SearchOptions


def problem(
    network: str,
    platform: str,
    *,
    bandwidth: str | None,
    backbone: bool,
    weights: str | None,
    max_dsp: str | None,
    max_ram: str | None,
    max_lut: str | None,
    **options: Any,
) -> Problem:
    """Read what was typed: names, quantities, limits; ``options`` are those of ``SearchOptions`` as they stand."""
    from ...dse import SearchOptions
    from ...formats import parse_bandwidth, validate
    from ...platforms import LUT_KEYS, load_platform

    board = load_platform(platform, parse_bandwidth(bandwidth, "--bandwidth") if bandwidth is not None else None)
    if max_lut is not None:
        board.require(LUT_KEYS, "--max-lut")
    limits: dict[str, object] = {
        "max_dsps": _limit(max_dsp, "--max-dsp", board.dsps, "", "80% or 720"),
        "max_ram_mbit": _limit(max_ram, "--max-ram", board.on_chip_mbit, "Mb", "80% or 15Mb"),
        "max_luts": _limit(max_lut, "--max-lut", board.luts, "", "76% or 166000"),
    }
    net = _network(network, backbone=backbone)
    options |= {"limits": limits, **_weighted(weights, options, net.name)}
    return Problem(net, board, validate(SearchOptions, options, Path("options")))


@cache
def _network(name: str, *, backbone: bool) -> Network:
    """A network, read once for all boards."""
    from ...models import load_network

    net = load_network(name)
    return net.backbone() if backbone else net


def _weighted(weights: str | None, options: dict[str, Any], network: str) -> dict[str, object]:
    """w_b as typed, or the runs of a simulation from its results."""
    from ...formats import InputError

    if weights is None or not weights.endswith(".json"):
        found = numbers(weights, "--weights", float, "1,1,2, or a file whose name ends in .json")
        if found and options["objective"] == "latency":
            raise InputError("--weights: the objective latency is that of b = 1 and takes none; leave them out")
        return {"weights": found}
    from ...tables.launches import read_launches

    if options["objective"] != "gop_s":
        raise InputError(f"--weights: a simulation's runs go with the objective gop_s, found {options['objective']}")
    return {"objective": "traffic", "launches": read_launches(Path(weights), options["b_max"], network)}


def numbers(text: str | None, option: str, kind: type[float], example: str) -> list[float]:
    """Numbers with commas between; none in no text."""
    from ...formats import InputError

    try:
        return [] if text is None else [kind(item) for item in text.split(",")]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise InputError(f'{option}: expected {what} with commas between, found "{text}"; e.g. {example}') from None


def _limit(text: str | None, what: str, total: float | None, unit: str, example: str) -> float | None:
    from ...formats import InputError, parse_quantity

    if text is None:
        return None
    units = {unit: 1.0} if total is None else {unit: 1.0, "%": total / 100}
    share = text.strip().endswith("%")
    value = round(parse_quantity(text, units, what, example), 9)  # 100 % is all of it
    if share and total is not None and value > total:
        raise InputError(f'{what}: expected at most 100% of the board, found "{text}"; write e.g. {example}')
    if unit:
        return value
    if value < 1:
        raise InputError(f'{what}: expected room for at least 1, found "{text}"; write e.g. {example}')
    if not share and value != int(value):
        raise InputError(f'{what}: expected a whole number, found "{text}"; write e.g. {example}')
    return int(value)
