"""Columns drawn for the requests of a trace, as ``request_columns`` declares them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..formats import InputError
from .randomness import stream
from .request_columns import REQUEST_COLUMNS, Columns
from .trace import Trace


def parse_columns(**given: str | float | None) -> Columns:
    """Read which columns are to be drawn, by their keys; ``None`` where one is not."""
    columns = {column.key: column for column in REQUEST_COLUMNS}
    if unknown := sorted(set(given) - set(columns)):
        raise InputError(f"columns: expected {', '.join(columns)}, found {unknown[0]}")
    return {key: columns[key].read(value, key) for key, value in given.items() if value is not None}


def useless(columns: Columns, *, widths: object | None, steps: int, subnets: object | None) -> list[str]:
    """Columns that change nothing where they are served."""
    faults = []
    if "width" in columns and "steps" not in columns and widths is None:
        faults.append("width: expected a table with widths, or steps that follow from them, found neither")
    if "steps" in columns and steps == 1:
        faults.append("steps: expected a network whose last stage repeats, found one that runs each stage once")
    if "min_accuracy" in columns and subnets is None:
        faults.append("min_accuracy: expected a table with SubNets, found one network alone")
    return faults


def add_columns(trace: Trace, seed: int, columns: Columns) -> Trace:
    """Draw columns that a trace does not have, each from a random stream of its own."""
    faults, grown = [], trace
    for column in sorted(REQUEST_COLUMNS, key=lambda known: bool(known.follows)):
        if column.key not in columns:
            continue
        if getattr(trace, column.name) is not None:
            where = trace.source or "the trace"
            faults.append(
                f"{column.key}: expected no column {column.name} in {where}, as it is to be drawn; "
                "leave out one of the two"
            )
            continue
        stated = (getattr(grown, name) for name in column.follows)
        of = next((values for values in stated if values is not None), None) if column.follows else len(grown)
        if of is None:
            faults.append(f"{column.key}: {column.lacking}")
            continue
        drawn = columns[column.key].draw(stream(seed, column.stream), of)
        if column.values.kind is np.int64:
            drawn = np.rint(drawn)
        values: dict[str, Any] = {column.name: drawn.astype(column.values.kind)}
        grown = replace(grown, **values)
    if faults:
        raise InputError(faults)
    return grown
