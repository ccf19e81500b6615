"""Networks as the NPU sees them, and as ``design.json`` holds them: layers in order, divided into stages by exits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

from pydantic import Field, model_validator

from ..formats import SparseRecord, Strict, memoized, with_fields
from ..traffic.measures import MEASURES, Threshold, Words

MAX_WORK = 2**43
"""Most MACs, or words of a map, of one layer. Cycles are then exact for any batch size (docs/search.md, Arithmetic)."""

Count = Annotated[int, Field(ge=1, le=MAX_WORK)]


class Shape(NamedTuple):
    """Feature map of one sample; a token sequence is ``(tokens, 1, channels)``."""

    height: Count
    width: Count
    channels: Count

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
    """One layer as a matrix product R x P by P x C, for a single sample (Fluid Batching, Fig. 2).

    Attributes
    ----------
    R : int
        Rows: output positions.
    P : int
        Inner dimension: kernel window times input channels of a group.
    C : int
        Columns: output channels of a group.
    groups : int
        Number of such products, one after the other: the groups of a convolution.
    """

    R: Count
    P: Count
    C: Count
    groups: Count = 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one sample."""
        return self.R * self.P * self.C * self.groups


class Kernel(NamedTuple):
    """The window of a convolution or a pool."""

    rows: Count
    columns: Count


class Layer(Strict):
    """A layer that takes time on the NPU.

    Attributes
    ----------
    name : str
        Unique in the network; a head's layers are called ``exit<number>/<layer>``.
    stage : int
        1-based stage it runs in: stage i ends at exit i.
    role : str
        ``backbone``; or, beside it, ``bridge`` (backbone layers that bring a map to the form of the last one) or
        ``head`` of the exit where its stage ends.
    gemm : Gemm or None
        The product it lowers to; ``None`` for a memory-only layer.
    pool : Gemm or None
        The product as which an NPU pools, with equal weights: of each channel alone, or of all channels as rows
        where the window is the whole map. Other devices run a pool as a memory-only layer.
    per_sample : bool
        True if the right operand of the product is an activation too, as in
        attention: samples share nothing, and a batch runs one sample after the other.
    line, stride : int
        Rows of a line of the map that a convolution reads, whose inputs lie ``stride`` words
        from one another; the line is 0 if the inputs of all rows follow one another in memory,
        as where the output is as wide as the input, and the stride if the inputs of each row do.
    step : int
        Words from a line of the map to the next; 0 where each inner index has an input for each row and no other,
        as with windows of one input.
    window : Kernel
        From which each row of the product takes the inputs of a channel.
    residual : bool
        True if its outputs are added to another map as they are stored
        (:func:`fluidb.models.residuals.fused_additions`).
    memory_words : int
        Words a memory-only layer moves off chip for one sample; 0 with a GEMM,
        whose traffic depends on the design.
    shape : Shape
        Its output.
    """

    name: str
    stage: Count
    role: Literal["backbone", "bridge", "head"] = "backbone"
    gemm: Gemm | None
    pool: Gemm | None = None
    per_sample: bool = False
    line: Annotated[int, Field(ge=0, le=MAX_WORK)] = 0
    stride: Annotated[int, Field(ge=0, le=MAX_WORK)] = 1
    step: Annotated[int, Field(ge=0, le=MAX_WORK)] = 0
    window: Kernel = Kernel(1, 1)
    residual: bool = False
    memory_words: Annotated[int, Field(ge=0, le=MAX_WORK)] = 0
    shape: Shape

    @property
    def operator(self) -> str:
        """The name of its operator in the network file."""
        return self.name.removeprefix(f"exit{self.stage}/") if self.in_head else self.name

    def product(self, *, pooled: bool) -> Gemm | None:
        """What an NPU multiplies, on which pools are products, too, or (not ``pooled``) memory-only layers."""
        return self.pool if self.pool and pooled else self.gemm

    @property
    def in_head(self) -> bool:
        """True in the bridge or head of an exit, false in the backbone."""
        return self.role != "backbone"


AnyRecord = TypeVar("AnyRecord", bound=Strict)


def stated_in(record: type[AnyRecord]) -> type[AnyRecord]:
    """The record with a field for a threshold of each measure: a network may state one where samples leave."""
    ranges = {name: Annotated[float, Field(ge=measure.low, le=measure.high)] for name, measure in MEASURES.items()}
    return with_fields(record, {name: (numbers | Words | None, None) for name, numbers in ranges.items()})


def stated(exit_: Strict) -> dict[str, Threshold | None]:
    """The fields of a record that :func:`stated_in` made."""
    return {name: getattr(exit_, name) for name in MEASURES}


MAX_STEPS = 4096
"""Most steps of a stage that repeats."""


@stated_in
class _Place(SparseRecord):
    name: str
    rate: Annotated[float, Field(ge=0, le=1)]


class Exit(_Place):
    """A place where samples leave the network.

    Attributes
    ----------
    name : str
        Name of the backbone layer it follows; the last exit is the end.
    rate : float
        Share of all samples that leave here; the shares of all exits sum to 1.
    confidence, entropy, ... : float, "never" or "always", optional
        Threshold of a measure, by its name, with which a sample leaves, as the network was made.  A network states
        thresholds of one measure at every exit but the last, or none.
    steps : int
        Most runs of the stage that ends here, as of a decoder: a sample leaves after the steps that it needs.
        Only the last stage repeats.
    """

    steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = 1


def thresholds_of(exits: Sequence[Exit]) -> tuple[str, list[Threshold]] | None:
    """The measure by which samples leave exits, and the threshold of each but the last; ``None`` if none is stated."""
    *early, last = map(stated, exits)
    levels = {name: [exit_[name] for exit_ in early] for name in MEASURES}
    known = {name: [level for level in values if level is not None] for name, values in levels.items()}
    used = [name for name, values in known.items() if values]
    if not used:
        return None
    if len(used) > 1 or len(known[used[0]]) < len(early) or last[used[0]] is not None:
        names = f"{', '.join([*MEASURES][:-1])} or {[*MEASURES][-1]}"
        raise ValueError(f"exits: expected one of {names} at every exit but the last, or none of them at any")
    return used[0], known[used[0]]


AnyLayer = TypeVar("AnyLayer", bound=Strict)


def at_places(layers: Sequence[AnyLayer], places: Sequence[int], exit_of: Callable[[AnyLayer], int]) -> list[AnyLayer]:
    """Layers of a network with some of its exits: without layers of other exits, in the stages that are left.

    ``exit_of`` is the exit that causes a layer, or 0; layers have a ``name`` and a ``stage``.
    """
    number = {place: at for at, place in enumerate(places, 1)}
    kept = []
    for layer in layers:
        cause = exit_of(layer)
        if cause and cause not in number:
            continue
        known: Any = layer
        name = f"exit{number[cause]}/{known.name.partition('/')[2]}" if cause else known.name
        stage = 1 + sum(place < known.stage for place in places)
        kept.append(layer.model_copy(update={"name": name, "stage": stage}))
    return kept


class Network(Strict):
    """A network ready to be mapped.

    Attributes
    ----------
    name, title : str
        Short name, and a line of text.
    sources : dict of str to str
        Origin of each figure.
    exits : list of Exit
        In order of depth; the last is the end of the backbone.
    layers : list of Layer
        In execution order, each head right after the layer it hangs on.
    """

    name: str
    title: str
    sources: dict[str, str] = {}
    exits: Annotated[list[Exit], Field(min_length=1)]
    layers: list[Layer]

    @model_validator(mode="after")
    def _work_in_every_stage(self) -> Self:
        stages, last = [layer.stage for layer in self.layers], len(self.exits)
        if stages != sorted(stages) or set(stages) != set(range(1, last + 1)):
            raise ValueError(
                f"layers: expected stages 1 to {last} in order, one for each exit, and work in every stage"
            )
        if any(exit_.steps > 1 for exit_ in self.exits[:-1]):
            raise ValueError("exits: expected steps of the last exit only, as only the last stage repeats")
        thresholds_of(self.exits)
        if not self.gemms:
            raise ValueError("layers: expected at least one layer that multiplies, found none")
        if max(gemm.macs for gemm in self.gemms) > MAX_WORK:
            raise ValueError(f"layers: expected products of at most {MAX_WORK:.2g} MACs, found more")
        return self

    @property
    def steps(self) -> int:
        """Most runs of the last stage: more than one if it is a decoder."""
        return self.exits[-1].steps

    @property
    def gemms(self) -> list[Gemm]:
        """The matrix products, heads included, in execution order."""
        return [layer.gemm for layer in self.layers if layer.gemm]

    @property
    @memoized
    def macs(self) -> int:
        """Multiply-accumulates of one sample through every layer, heads included."""
        return sum(gemm.macs for gemm in self.gemms)

    def keep_exits(self, places: Sequence[int], exits: Sequence[Exit]) -> Network:
        """The same network with some of its exits: those before the last by their numbers, and all as they are now."""
        layers = at_places(self.layers, places, lambda layer: layer.stage * layer.in_head)
        return self.model_copy(update={"exits": list(exits), "layers": layers})

    def backbone(self) -> Network:
        """The same network without exits: one stage, no heads."""
        layers = [layer.model_copy(update={"stage": 1}) for layer in self.layers if not layer.in_head]
        name, title = f"{self.name}-backbone", f"{self.title}, backbone only"
        exits = [Exit(name=self.exits[-1].name, rate=1.0)]
        return self.model_copy(update={"name": name, "title": title, "exits": exits, "layers": layers})
