"""What runs: a network as the NPU sees it, layers in execution order, cut into stages by exits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Shape(NamedTuple):
    """Feature map of one sample; a token sequence is ``(tokens, 1, channels)``."""

    height: int
    width: int
    channels: int

    @property
    def positions(self) -> int:
        """Spatial positions."""
        return self.height * self.width

    @property
    def words(self) -> int:
        """Values in the map."""
        return self.positions * self.channels

    def __str__(self) -> str:
        return f"{self.height}x{self.width}x{self.channels}"


class Gemm(NamedTuple):
    """One layer as a matrix product R x P by P x C, for a single sample (paper 000, Fig. 2).

    Attributes
    ----------
    R : int
        Rows: output positions.
    P : int
        Inner dimension: kernel window times input channels of a group.
    C : int
        Columns: output channels of a group.
    groups : int
        How many such products, one after the other: the groups of a convolution.
    per_sample : bool
        Whether the right operand is an activation too, as in attention: samples
        share nothing, and a batch runs one after the other.
    """

    R: int
    P: int
    C: int
    groups: int = 1
    per_sample: bool = False

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one sample."""
        return self.R * self.P * self.C * self.groups


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that takes time on the NPU.

    Attributes
    ----------
    name : str
        Unique in the network; a head's layers are ``<exit>/<layer>``.
    stage : int
        1-based stage it runs in: stage i ends at exit i.
    gemm : Gemm or None
        The product it lowers to; ``None`` for a memory-only layer.
    memory_words : int
        Words a memory-only layer moves off chip for one sample; 0 with a GEMM,
        whose traffic depends on the design.
    shape : Shape
        Its output.
    """

    name: str
    stage: int
    gemm: Gemm | None
    memory_words: int
    shape: Shape

    @property
    def in_head(self) -> bool:
        """Whether it belongs to an exit's head rather than to the backbone."""
        return "/" in self.name


@dataclass(frozen=True, slots=True)
class Exit:
    """A place where samples leave the network.

    Attributes
    ----------
    name : str
        Name of the backbone layer it follows; the last exit is the end.
    rate : float
        Share of all samples that leave here, in [0, 1]; shares sum to 1.
    """

    name: str
    rate: float


@dataclass(frozen=True, slots=True)
class Network:
    """A network ready to be mapped.

    Attributes
    ----------
    name, title : str
        Short name and a line for people.
    layers : tuple of Layer
        In execution order, each head right after the layer it hangs on.
    exits : tuple of Exit
        In order of depth; the last is the end of the backbone.
    sources : dict of str to str
        Where the figures come from.
    """

    name: str
    title: str
    layers: tuple[Layer, ...]
    exits: tuple[Exit, ...]
    sources: dict[str, str]

    @property
    def gemms(self) -> list[Gemm]:
        """The matrix products, heads included, in execution order."""
        return [layer.gemm for layer in self.layers if layer.gemm]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one sample through every layer, heads included."""
        return sum(gemm.macs for gemm in self.gemms)

    def backbone(self) -> Network:
        """The same network without exits: one stage, no heads."""
        layers = tuple(
            Layer(layer.name, 1, layer.gemm, layer.memory_words, layer.shape)
            for layer in self.layers
            if not layer.in_head
        )
        name, title = f"{self.name}-backbone", f"{self.title}, backbone only"
        return Network(name, title, layers, (Exit(self.exits[-1].name, 1.0),), self.sources)
