"""What a key of a file says; the option of its name says the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Key(NamedTuple):
    """A key, for ``Annotated[int, Key("Largest batch size", least=1, most=256)]``: files and options alike."""

    text: str  # what it is, in a sentence
    value: str | None = None  # what its value looks like, e.g. ``V1,V2,...``
    # limits of a number
    least: int | None = None
    most: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, read: Callable[[Any], Any]) -> Any:
        """The schema of a file's key, within its limits."""
        limits = {"ge": self.least, "le": self.most}
        return read(source) | {name: limit for name, limit in limits.items() if limit is not None}
