"""What an importer hands over."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ..schema import NetworkFile


@dataclass(frozen=True, slots=True)
class Imported:
    """A network, and what its source knew beyond it.

    Attributes
    ----------
    file : NetworkFile
        The network; its ``sources`` say what was decided.
    layer_of : mapping of str to str
        Layers by what the source calls them, where that differs.
    aside : collection of str
        Layers that are no part of the chain of blocks: masks, positions.
    """

    file: NetworkFile
    layer_of: Mapping[str, str] = field(default_factory=dict)
    aside: Collection[str] = ()
