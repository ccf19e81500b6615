"""What the files of all kinds of platforms have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator

from ..formats import Strict, validate

NAME = r"[A-Za-z0-9_.-]{1,80}"


class Described(Strict):
    """A platform of any kind; each kind adds its numbers, and last ``sources``.

    Attributes
    ----------
    schema_ : str
        Name and version of the file's layout, which decides the kind.
    name, title : str
        Short name and a line for people.
    sources : dict of str to str
        Where each number comes from, by key.
    """

    kind: ClassVar[str]
    """What people call it."""

    table_made_by: ClassVar[str]
    """How its latency table is made, for people who ask for something else; ``{}`` is its name."""

    listed_as: ClassVar[str]
    """Key of the list of these platforms in the JSON of ``fluidb platforms``."""

    headers: ClassVar[tuple[str, ...]]
    """Of a table with a :attr:`row` for each."""

    no_numbers: ClassVar[set[str]] = {"schema_", "name", "title", "sources"}
    """Keys that need no source."""

    schema_: str = Field(alias="schema")
    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    title: str
    if TYPE_CHECKING:  # each kind states it last, so that it is written last
        sources: dict[str, str] = {}

    @field_validator("sources", check_fields=False)
    @classmethod
    def _sources_name_keys(cls, value: dict[str, str]) -> dict[str, str]:
        strangers = sorted(set(value) - set(cls.model_fields))
        if strangers:
            raise ValueError(f"expected the keys of this file, found {', '.join(strangers)}")
        return value

    @classmethod
    def read(cls, data: dict[str, Any], path: Path) -> Self:
        """A platform of this kind from what its file holds.

        Parameters
        ----------
        data : dict
            The file's content.
        path : Path
            The file, for faults and for files that it names.

        Returns
        -------
        Self
            The platform.

        Raises
        ------
        InputError
            With a line for every fault.
        """
        return validate(cls, data, path)

    @property
    def unsourced(self) -> list[str]:
        """Keys of the numbers that name no source."""
        numbers = self.model_dump(exclude=self.no_numbers, exclude_defaults=True)
        return [key for key in numbers if key not in self.sources]

    @property
    def row(self) -> tuple[str, ...]:
        """Its main numbers as text, by :attr:`headers`."""
        raise NotImplementedError

    @property
    def summary(self) -> str:
        """Its main numbers in a line."""
        raise NotImplementedError
