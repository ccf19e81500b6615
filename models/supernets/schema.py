"""The schemas of a SuperNet's file and of a file of SubNets (``docs/sushi.md``)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from ...formats import Form, Strict
from ..schema import InputShape, Name, Positive

Ratio = Annotated[float, Field(gt=0, le=64, strict=False)]
Depth = Annotated[int, Field(ge=0, le=64)]
Side = Annotated[int, Field(ge=1, le=63)]
Share = Annotated[float, Field(ge=0, le=1)]


def _ascending(value: list[float]) -> list[float]:
    if value != sorted(set(value)):
        raise ValueError("choices: expected values from small to large, each once")
    return value


ASCENDING, SOME = AfterValidator(_ascending), Field(min_length=1)


class FixedPart(Strict):
    """One layer that every SubNet has. ``width = true`` gives its ``out`` a width multiplier of its own."""

    part: Literal["conv", "linear", "maxpool", "globalavgpool"]
    name: Name
    out: Positive | None = None
    kernel: Side = 1
    stride: Side = 1
    width: bool = False

    @model_validator(mode="after")
    def _out_of_weights(self) -> FixedPart:
        if (self.out is None) != (self.part in ("maxpool", "globalavgpool")):
            raise ValueError(f"out: expected with conv and linear, and only there; this is {self.part}")
        if self.width and self.out is None:
            raise ValueError("width: expected a layer with out")
        return self


class StageBlocks(Strict):
    """Blocks one after the other: max(0, ``base`` + d) of them. The first one has the stride."""

    part: Literal["stage"]
    name: Name
    # residual: a convolution of one kernel, added to its input; bottleneck: 1x1, k x k, 1x1, with an average pool and a
    # 1x1 convolution beside the first block; inverted: 1x1, depthwise k x k, 1x1
    block: Literal["residual", "bottleneck", "inverted"]
    out: Positive | None = None  # channels behind each block; by default as many as its input has
    width: bool = False  # ``out`` has a width multiplier of its own
    stride: Side = 1
    base: Annotated[int, Field(ge=-8, le=64)] = 0  # blocks beside the elastic depth
    depth: Annotated[list[Depth], SOME, ASCENDING] = [0]  # choices of d for the stage
    expand: Annotated[list[Ratio], SOME, ASCENDING] = [1.0]  # choices for each block
    kernel: Annotated[list[Side], SOME, ASCENDING] = [3]
    se: bool = False  # squeeze-and-excite behind the depthwise convolution

    @property
    def slots(self) -> int:
        """Blocks of the largest SubNet."""
        return max(0, self.base + self.depth[-1])

    @model_validator(mode="after")
    def _fits(self) -> StageBlocks:
        if self.slots < 1:
            raise ValueError("base, depth: expected at least one block in the largest SubNet")
        if any(side % 2 == 0 for side in self.kernel):
            raise ValueError("kernel: expected odd sides, as smaller kernels are the middle of larger ones")
        if self.out is None and (self.width or self.stride > 1 or self.block != "residual"):
            raise ValueError("out: expected the channels behind a block; only a residual block keeps those before it")
        if self.base + self.depth[0] < 1 and (self.out is not None or self.stride > 1):
            raise ValueError("base, depth: expected a block in every SubNet where out or stride change the map")
        return self


class SubNet(Strict):
    """A SubNet: the value of each elastic dimension, one for all of its places or one for each."""

    name: Annotated[str, Form.name("_.=,-", 200).validator]
    d: list[Depth] = []  # depth of each elastic stage
    e: list[Ratio] = []  # expand ratio and kernel of every block, also where the depth leaves it out
    k: list[Side] = []
    w: list[Ratio] = []  # width multipliers
    r: Positive | None = None  # side of the input
    accuracy: Share | None = None


class Accuracies(Strict):
    """The source of the accuracies of a file's SubNets."""

    source: str
    illustrative: bool


class _WithSubNets(Strict):
    """SubNets and the source of their accuracies, which both kinds of files have."""

    subnets: list[SubNet] = []
    accuracies: Accuracies | None = None
    sources: dict[str, str] = {}

    @model_validator(mode="after")
    def _names_and_sources(self) -> _WithSubNets:
        names = [subnet.name for subnet in self.subnets]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"subnets: expected each name once, found {', '.join(twice)} again")
        if any(subnet.accuracy is not None for subnet in self.subnets) and self.accuracies is None:
            raise ValueError("accuracies: expected their source, as a SubNet states an accuracy")
        return self


class SuperNetFile(_WithSubNets):
    """A SuperNet: its parts in execution order, and its elastic dimensions."""

    schema_: Literal["fluidb.supernet/1"] = Field(alias="schema")
    name: Annotated[str, Form.name("_.-", 40).validator]
    title: str
    input: InputShape  # one sample, unless a SubNet states ``r``
    resolutions: Annotated[
        list[Positive], ASCENDING
    ] = []  # choices of ``r``; none if the side of ``input`` is the only one
    divisor: Positive = 8  # channels that a ratio gives are rounded to a multiple of it, down by a tenth at most
    width: Annotated[list[Ratio], SOME, ASCENDING] = [1.0]  # choices of each width multiplier
    parts: Annotated[
        list[Annotated[FixedPart | StageBlocks, Field(discriminator="part")]], Field(min_length=1, max_length=1000)
    ]
    uncounted: list[str] = []  # patterns of layers that the sizes printed in a paper leave out

    @model_validator(mode="after")
    def _multiples(self) -> SuperNetFile:
        for place, part in enumerate(self.parts):
            if not part.width or (part.out or 0) % self.divisor == 0:
                continue
            raise ValueError(
                f"parts[{place}].out: expected a multiple of the divisor {self.divisor}, as width = true rounds its "
                f"channels to one, found {part.out}; change it, or the divisor"
            )
        return self

    @property
    def stages(self) -> list[StageBlocks]:
        """The parts that are stages."""
        return [part for part in self.parts if isinstance(part, StageBlocks)]


class SubNetsFile(_WithSubNets):
    """SubNets of a SuperNet, in a file of their own."""

    schema_: Literal["fluidb.subnets/1"] = Field("fluidb.subnets/1", alias="schema")
    supernet: str
