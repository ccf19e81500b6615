"""The record of a paper that each folder states."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formats.errors import InputError

if TYPE_CHECKING:
    from .lab import Lab
    from .rows import Item


def read_published(package: str) -> dict[str, Any]:
    """Values that a paper prints: ``published.toml`` beside the file of its package."""
    return tomllib.loads(Path(package).with_name("published.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper that is reproduced."""

    name: str  # as in `fluidb reproduce NAME`
    package: str  # of its folder
    title: str  # first line of its page of results
    introduction: str  # the paragraph below
    items: dict[str, str]  # tables, figures and studies in the page's order, each with the module of its function
    exact: tuple[str, ...] = ()  # items whose figures that are not near the paper's are listed at the top of the page
    looks: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # colour, line and mark of names in pictures
    folder: str = ""  # of its results, inside the folder of -o

    def reproduce(self, name: str, lab: Lab) -> Item:
        """Run the experiment of an item."""
        return self.experiment(name)(lab)

    def experiment(self, name: str) -> Callable[[Lab], Item]:
        """The function of an item."""
        module = import_module(f"{self.package}.{self.items[name]}")
        function: Callable[[Lab], Item] | None = getattr(module, name, None)
        if function is None:
            raise InputError(f"{module.__file__}: expected a function named {name}, found none")
        return function
