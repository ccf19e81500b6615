"""The keys and methods that platforms of all kinds have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator

from ..formats import Form, Strict, validate

NAME = Form.name("_.-", 80)


class Platform(Strict):
    """A platform of any kind. Each kind adds its numbers and, as the last key, ``sources``.

    Attributes
    ----------
    schema_ : str
        Name and version of the file's layout. The name decides the kind.
    name, title : str
        Short name, and a line of text.
    sources : dict of str to str
        Source of each number, by key.
    """

    kind: ClassVar[str]
    """The kind in messages."""

    table_made_by: ClassVar[str]
    """Hint on its latency table, for faults where another kind is expected; ``{}`` is its name."""

    listed_as: ClassVar[str]
    """Key of the list of these platforms in the JSON of ``fluidb platforms``."""

    headers: ClassVar[tuple[str, ...]]
    """Headings of a table that has a :attr:`row` for each platform."""

    no_numbers: ClassVar[set[str]] = {"schema_", "name", "title", "sources"}
    """Keys that need no source."""

    schema_: str = Field(alias="schema")
    name: Annotated[str, NAME.validator]
    title: str
    if TYPE_CHECKING:  # each kind declares it last, so that files have it at their end
        sources: dict[str, str] = {}

    @field_validator("sources", check_fields=False)
    @classmethod
    def _sources_name_keys(cls, value: dict[str, str]) -> dict[str, str]:
        strangers = sorted(set(value) - cls.source_keys())
        if strangers:
            example = min(cls.source_keys() - cls.no_numbers)
            raise ValueError(f"expected keys of this file, e.g. {example}, found {', '.join(strangers)}")
        return value

    @classmethod
    def source_keys(cls) -> set[str]:
        """Keys that may have a source."""
        return set(cls.model_fields)

    @classmethod
    def read(cls, data: dict[str, Any], path: Path) -> Self:
        """A platform of this kind from the content of its file, from whose folder files are found that it names."""
        return validate(cls, data, path)

    @property
    def shown(self) -> dict[str, Any]:
        """Its content to show, by key."""
        return self.model_dump(mode="json", exclude={"schema_", "sources"})

    @property
    def unsourced(self) -> list[str]:
        """Keys of the numbers without a source."""
        numbers = self.model_dump(exclude=self.no_numbers, exclude_defaults=True)
        return [key for key in numbers if key not in self.sources]

    @property
    def row(self) -> tuple[str, ...]:
        """Its main numbers as text, in the order of :attr:`headers`."""
        raise NotImplementedError

    @property
    def summary(self) -> str:
        """Its main numbers in one line."""
        raise NotImplementedError
