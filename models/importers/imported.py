"""The result of an importer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ..schema import NetworkFile


@dataclass(frozen=True, slots=True)
class Imported:
    """A network, and what its source says beyond a network file.

    Attributes
    ----------
    file : NetworkFile
        The network. Its ``sources`` say how the source was understood.
    layer_of : mapping of str to str
        Layers by the names of the source, where these differ.
    aside : collection of str
        Layers that do not belong to the chain of blocks: masks, positions.
    """

    file: NetworkFile
    layer_of: Mapping[str, str] = field(default_factory=dict)
    aside: Collection[str] = ()
