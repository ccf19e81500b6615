"""The one exception a user is meant to read."""

from __future__ import annotations

from collections.abc import Iterable

MAX_FAULTS = 20
"""Faults shown of one input; the rest are counted."""


class InputError(ValueError):
    """Something the user gave cannot be used.

    Parameters
    ----------
    faults : str or iterable of str
        One line for each fault: where it is, what was expected, what was found.
    """

    def __init__(self, faults: str | Iterable[str]) -> None:
        lines = [faults] if isinstance(faults, str) else list(faults)
        if len(lines) > MAX_FAULTS:
            lines[MAX_FAULTS:] = [f"and {len(lines) - MAX_FAULTS} more faults"]
        self.faults = tuple(lines)
        super().__init__("\n".join(self.faults))
