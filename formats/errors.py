"""The exception whose text is shown to the user."""

from __future__ import annotations

from collections.abc import Iterable

MAX_FAULTS = 20
"""Faults shown of one input, unless a command is asked for all; the rest are counted."""


LONGEST = 600
"""Characters of the longest fault; of a longer one, which quotes something long, the middle is left out."""


def cut(fault: str) -> str:
    """A fault without the middle, if it is longer than :data:`LONGEST`."""
    return fault if len(fault) <= LONGEST else f"{fault[: LONGEST // 2]} [...] {fault[-LONGEST // 2 :]}"


class InputError(ValueError):
    """Something the user gave cannot be used.

    Parameters
    ----------
    faults : str or iterable of str
        One line for each fault: where it is, what was expected, what was found.

    Attributes
    ----------
    faults : tuple of str
        All of them.
    """

    def __init__(self, faults: str | Iterable[str]) -> None:
        self.faults = tuple(map(cut, (faults,) if isinstance(faults, str) else faults))
        super().__init__("\n".join(self.first_faults))

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[str, ...]]]:
        return type(self), (self.faults,)  # pickled with all faults, for other processes

    @property
    def first_faults(self) -> tuple[str, ...]:
        """The first :data:`MAX_FAULTS` faults, and a line with the number of the others."""
        more = len(self.faults) - MAX_FAULTS
        return self.faults if more <= 0 else (*self.faults[:MAX_FAULTS], f"and {more} more faults")


class FileFaults(InputError):
    """Faults of a file that is being written or checked; all are shown."""

    @property
    def first_faults(self) -> tuple[str, ...]:
        """All faults."""
        return self.faults
