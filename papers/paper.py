"""The record of a paper that each folder states."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .lab import Lab
    from .rows import Item


def read_published(package: str) -> dict[str, Any]:
    """Values that a paper prints: ``published.toml`` beside the file of its package."""
    return tomllib.loads(Path(package).with_name("published.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper that is reproduced.

    Attributes
    ----------
    name : str
        Its name in ``fluidb reproduce``.
    package : str
        The package of its folder.
    title : str
        First line of its page of results.
    introduction : str
        The paragraph below.
    items : dict of str to str
        Its tables, figures and studies, in the order of the page: name, and the module of
        the folder that has a function of this name.
    exact : tuple of str
        Items of which every figure that is not near the paper's is listed at the top of the page.
    looks : dict of str to tuple
        Colour, line and mark of a name in pictures, the same in all of them; others get the next colour.
    folder : str
        Folder of its results inside that of ``-o``; empty for that folder itself.
    """

    name: str
    package: str
    title: str
    introduction: str
    items: dict[str, str]
    exact: tuple[str, ...] = ()
    looks: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    folder: str = ""

    def reproduce(self, name: str, lab: Lab) -> Item:
        """Run the experiment of an item."""
        found: Item = getattr(import_module(f"{self.package}.{self.items[name]}"), name)(lab)
        return found
