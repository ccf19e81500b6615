"""Traces of Microsoft Azure, published as the Azure Public Dataset under CC-BY.

Sources
-------
https://github.com/Azure/AzurePublicDataset: ``AzureLLMInferenceDataset2023.md``, ``AzureLLMInferenceDataset2024.md``,
``AzureFunctionsInvocationTrace2021.md``, ``AzureFunctionsDataset2019.md``, each with a schema of its file.
"""

from __future__ import annotations

import numpy as np

from ...formats import InputError
from ...formats.array_types import Ints
from ..randomness import WITHIN_MINUTE, stream
from ..rows import Tally, quoted, records
from ..times import ISO
from .layout import ImportedRows, Layout

LLM = Layout("TIMESTAMP", ISO)
"""Azure LLM inference traces: one row a request.

Columns TIMESTAMP, ContextTokens, GeneratedTokens; the file of 2023 has seven decimals and names no zone, the file of
2024 names one.
"""

FUNCTIONS_2021 = Layout("end_timestamp", "s", duration="duration")
"""Azure Functions invocation trace 2021: one row an invocation.

Columns app, func, end_timestamp, duration, the latter two in seconds; so an arrival is their difference, and rows are
sorted by end.
"""

FUNCTIONS_2019_COLUMNS = ("HashOwner", "HashApp", "HashFunction", "Trigger")
"""Columns of the Azure Functions trace 2019 before its counts; one row a function and day."""

MINUTES = 24 * 60

MAX_INVOCATIONS = 20_000_000
"""Most requests of one file; a replay of more would not fit the memory of a small machine."""


def functions_2019(tally: Tally, seed: int) -> ImportedRows:
    """Invocations of the Azure Functions trace 2019, from counts by minute; each at a random time of its minute."""
    generator = stream(seed, WITHIN_MINUTE)
    counts = _counts(tally)
    total = int(counts.sum())
    tally.check(total)
    if total > MAX_INVOCATIONS:
        raise InputError(
            f"{tally.path}: expected at most {MAX_INVOCATIONS:,} invocations, found {total:,}; "
            "keep fewer functions (rows) or minutes (columns from the right)"
        )
    minute = np.repeat(np.arange(counts.size), counts)
    return ImportedRows(np.sort(60.0 * (minute + generator.random(total))))


def _counts(tally: Tally) -> Ints:
    """Invocations of all functions by minute."""
    with records(tally) as (header, rows):
        names = len(FUNCTIONS_2019_COLUMNS)
        minutes = len(header) - names
        wanted = [*FUNCTIONS_2019_COLUMNS, *(str(minute) for minute in range(1, minutes + 1))]
        if header != wanted or not 1 <= minutes <= MINUTES:
            other = next((name for name, want in zip(header, wanted, strict=False) if name != want), header[-1])
            raise InputError(
                f"{tally.path}: header: expected {', '.join(FUNCTIONS_2019_COLUMNS)} and the minutes 1 to {MINUTES} "
                f"(or the first of them), found {quoted(other)} in column {header.index(other) + 1} of {len(header)}"
            )
        counts = np.zeros(minutes, dtype=np.int64)
        for row, line, cells in rows:
            texts = cells[names:]
            wrong = next(
                (i for i, text in enumerate(texts, 1) if not (text.isascii() and text.isdecimal() and len(text) < 10)),
                None,
            )
            if wrong is None:
                counts += np.array(list(map(int, texts)), dtype=np.int64)
            else:
                fault = f"{wrong}: expected a count of at most nine digits, found {quoted(texts[wrong - 1])}"
                tally.reject(row, line, fault)
    return counts
