"""EdgeSP's exits: two branches, at half and at three quarters of a network's work (EdgeSP, Section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from ..formats import InputError, validate
from .loader import layer_shapes
from .rows import cut_into_rows
from .schema import NetworkFile

DEPTHS = (1 / 2, 3 / 4)
"""Shares of the convolutions' operations after which an exit stands (EdgeSP, Section 3.4)."""

RATES = (0.4, 0.4)
"""Shares of samples that leave there (EdgeSP, Section 4.2)."""

_NAME, _TITLE = "-edgesp", ", with EdgeSP's exits"
_REPLACED = ("rates", "heads", "candidates")
"""Sources of what the branches take the place of."""


def with_branches(file: NetworkFile, path: Path, rates: Sequence[float] = RATES) -> NetworkFile:
    """A network with EdgeSP's exits in place of its own, at different units whose shares of the work come nearest."""
    if len(rates) != len(DEPTHS):
        raise InputError(f"rates: expected {len(DEPTHS)}, one for each exit added to {file.name}, found {len(rates)}")
    plain = file.model_copy(update={"exits": [], "candidates": None})
    units = cut_into_rows(plain, path).trunk.units
    if len(units) <= len(DEPTHS):
        raise InputError(f"{path}: expected more than {len(DEPTHS)} places where it can be cut, found {len(units)}")
    done = list(accumulate(unit.flops for unit in units))
    places: list[int] = []
    for number, depth in enumerate(DEPTHS):
        first = places[-1] + 1 if places else 0
        free = range(first, len(units) - len(DEPTHS) + number)  # leaves a unit for every later exit, and one behind all
        places.append(min(free, key=lambda i: abs(done[i] / done[-1] - depth)))
    classes = layer_shapes(plain)[file.layers[-1].name].channels
    exits = [
        {"after": units[place].name, "rate": rate, "head": "edgesp", "classes": classes}
        for place, rate in zip(places, rates, strict=True)
    ]
    content = file.model_dump(by_alias=True, exclude={"candidates"}) | {
        "name": file.name.removesuffix(_NAME) + _NAME,  # it may have been through this before
        "title": file.title.removesuffix(_TITLE) + _TITLE,
        "exits": exits,
        "sources": {key: text for key, text in file.sources.items() if key not in _REPLACED}
        | {"exits": "EdgeSP, Section 3.4: at 1/2 and 3/4; the rates come from Section 4.2"},
    }
    return validate(NetworkFile, content, path)
