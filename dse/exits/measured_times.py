"""Measured stage times T(a, b, B), as a CSV file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...formats import AnyPath, InputError
from ...platforms.device import MAX_BATCH, MAX_CELL_S
from ...tables.exit_plan import InferenceTime, StageRow
from ...traffic.columns import Number
from ...traffic.reading import read_columns
from ...traffic.rows import Tally


def read_measured_times(path: AnyPath, network: str, candidates: Sequence[str]) -> InferenceTime:
    """Read the time of every stage into which a network could be cut, for b = 1..b_max.

    Place 0 is the input, 1..K are the candidates, K + 1 is the end; a gather is from a candidate to itself.
    """
    last = len(candidates) + 1
    place = Number(np.int64, 0, last, f"a place from 0 (the input) to {last} (the end)")
    columns = {
        "from": place,
        "to": place,
        "batch": Number(np.int64, 1, MAX_BATCH, f"a whole number from 1 to {MAX_BATCH}"),
        "seconds": Number(np.float64, 1e-9, MAX_CELL_S, f"seconds, from 1e-9 to {MAX_CELL_S:g}"),
    }
    missing = "expected measured times of stages, found no such file"
    path = Path(path)
    tally = Tally(path, skip_blank=False, missing=missing, content="stage at a batch size")
    values = read_columns(tally, columns, list(columns))
    tally.refuse()
    keys = list(zip(*(values[name].tolist() for name in ("from", "to", "batch")), strict=True))
    cells = dict(zip(keys, values["seconds"].tolist(), strict=True))
    batches = range(1, int(values["batch"].max()) + 1)
    stages = [(a, b) for a in range(last) for b in range(a + 1, last + 1)]
    gathers = [(a, a) for a in range(1, last)] if any(a == b for a, b, _ in cells) else []
    allowed = {*stages, *gathers}
    faults = [(key, "one time, found several") for key, count in Counter(keys).items() if count > 1]
    faults += [(key, "a later place, or a gather at a candidate") for key in cells if key[:2] not in allowed]
    faults += [
        ((*pair, n), "a time, found none") for pair in stages + gathers for n in batches if (*pair, n) not in cells
    ]
    if faults:
        (start, end, batch), expected = faults[0]
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InputError(f"{path}: from {start} to {end}, batch {batch}: expected {expected}{more}")
    seconds = {pair: [cells[*pair, n] for n in batches] for pair in stages + gathers}
    return InferenceTime(
        network=network,
        platform=path.stem,
        candidates=list(candidates),
        b_max=len(batches),
        rows=[StageRow(from_place=a, to_place=b, time_s=seconds[a, b]) for a, b in stages],
        gather_s=[seconds[pair] for pair in gathers] or None,
    )
