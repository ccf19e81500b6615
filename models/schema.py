"""The schema of a network file, which a person writes (``docs/your-own.md``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from ..formats import Form, Strict
from .network import MAX_STEPS, MAX_WORK, Shape, stated_in

MAX_EXITS = 64
MAX_SIZE = 2**24
"""Largest number of rows, columns, channels or classes."""

Positive = Annotated[int, Field(ge=1, le=MAX_SIZE)]
NotNegative = Annotated[int, Field(ge=0, le=MAX_SIZE)]
Pair = Annotated[list[Positive], Field(min_length=2, max_length=2)]
Sides = Annotated[list[NotNegative], Field(min_length=4, max_length=4)]
PairOrZero = Annotated[list[NotNegative], Field(min_length=2, max_length=2)]
NAME_LENGTH = 80
NAME = Form.name("_.:-", NAME_LENGTH)
Name = Annotated[str, NAME.validator]
NetworkName = Annotated[str, Form.name("_.:=,-", 240).validator]
"""Longer than the name of a layer, because the name of a SubNet has the value of each dimension."""

Map = Annotated[list[Positive], Field(min_length=3, max_length=3)]


class _Op(Strict):
    """A layer. In an exit, a ``bridge`` before the head brings the map to the form that the head reads."""

    name: Name
    inputs: Annotated[list[Name], Field(min_length=1)] | None = Field(None, alias="from")
    shape: Map | None = None
    bridge: bool = False

    @field_validator("inputs", mode="before")
    @classmethod
    def _one_input(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value


class _Window(_Op):
    """A sliding window. ``pad`` is top, left, bottom, right; or height and width, each for both sides."""

    kernel: Pair
    stride: Pair
    pad: Sides = [0, 0, 0, 0]

    @field_validator("kernel", "stride", "dilation", "extra", mode="before", check_fields=False)
    @classmethod
    def _square(cls, value: object) -> object:
        return [value] * 2 if isinstance(value, int) else value

    @field_validator("pad", mode="before")
    @classmethod
    def _all_sides(cls, value: object) -> object:
        if isinstance(value, int):
            return [value] * 4
        return value * 2 if isinstance(value, list) and len(value) == 2 else value


class _Weights(_Window):
    """A window of weights."""

    out: Positive
    stride: Pair = [1, 1]
    dilation: Pair = [1, 1]
    groups: Positive = 1


class Conv(_Weights):
    """2-D convolution with ``out`` channels. With as many ``groups`` as input channels it is depthwise.

    Over a sequence, use a kernel of ``[length, 1]`` on a map that is 1 wide.
    """

    op: Literal["conv"]


class ConvTranspose(_Weights):
    """Transposed convolution. ``extra`` rows and columns are added to the output, as its size is not unique."""

    op: Literal["convtranspose"]
    extra: PairOrZero = [0, 0]


class Pool(_Window):
    """Maximum or average pooling. With ``ceil`` a last partial window counts."""

    op: Literal["maxpool", "avgpool"]
    ceil: bool = False


class GlobalPool(_Op):
    """Average over all positions."""

    op: Literal["globalavgpool"]


class Linear(_Op):
    """Fully connected layer over the channels of each position."""

    op: Literal["linear"]
    out: Positive


class Flatten(_Op):
    """All values of the map become channels of a single position. Moves nothing."""

    op: Literal["flatten"]


class MatMul(_Op):
    """Product of two activations, head by head: ``from = [a, b]``.

    Transposed (attention scores): a of N x heads*d by b of M x heads*d gives N x heads*M.
    Else (attention output): a of N x heads*M by b of M x heads*d gives N x heads*d.
    """

    op: Literal["matmul"]
    heads: Positive = 1
    transposed: bool = False


class Product(_Op):
    """A matrix product: rows x inner by inner x columns, ``groups`` times.

    ``per_sample`` means that the right operand is an activation. The output is rows x 1 x
    groups*columns, unless ``shape`` gives the same number of values another form.
    """

    op: Literal["gemm"]
    rows: Positive
    inner: Positive
    columns: Positive
    groups: Positive = 1
    per_sample: bool = False


class Recurrent(_Op):
    """A recurrent layer, whose steps are the positions of its input: LSTM (4 ``gates``), GRU (3), RNN (1).

    Each step reads the weights and multiplies them by its input and by the ``hidden`` values of the state; two
    ``directions`` do so one after the other. ``sequences`` that stand side by side share each step's weights. The
    output is the state after each step. Further inputs are states to begin with.
    """

    op: Literal["recurrent"]
    hidden: Positive
    gates: Annotated[int, Field(ge=1, le=8)]
    directions: Annotated[int, Field(ge=1, le=2)] = 1
    sequences: Positive = 1


class MemoryPass(_Op):
    """Moves data and multiplies nothing: normalisation, softmax, an addition that is not fused, an embedding.

    Reads its inputs, or ``reads`` words. Its output has the shape of the first input, or ``shape``.  ``rowwise`` says
    that each row depends on the same row of the inputs alone, and on all of inputs of one row.
    """

    op: Literal["memory"]
    reads: Annotated[int, Field(ge=0, le=MAX_WORK)] | None = None
    rowwise: bool = False


class View(_Op):
    """Data in place seen in another form, all of it or a part: reshape, slice, transpose. Moves nothing.

    ``rowwise`` says that each row shows values of the same row alone, as the half of the channels does.
    """

    op: Literal["view"]
    shape: Map
    rowwise: bool = False


class Join(_Op):
    """Several maps in one. None of these is a layer of its own.

    ``add`` (equal shapes) and ``fuse`` (any shapes; the output has the shape of the first input) combine the first
    input, as it is written, with the others, element by element: a residual, a gate, a mask. ``concat`` puts channels
    side by side, written in place.
    """

    op: Literal["add", "concat", "fuse"]


Op = Annotated[
    Conv
    | ConvTranspose
    | Pool
    | GlobalPool
    | Linear
    | MatMul
    | Product
    | Recurrent
    | MemoryPass
    | View
    | Flatten
    | Join,
    Field(discriminator="op"),
]


def inputs_of(ops: Sequence[Op]) -> list[list[str]]:
    """The layers that each one of a chain reads: those that it names, else the one before it."""
    befores = ["input", *(op.name for op in ops)]
    return [op.inputs or [before] for op, before in zip(ops, befores, strict=False)]


@stated_in
class _Leave(Strict):
    after: Name
    rate: Annotated[float, Field(ge=0, le=1)]


class ExitFile(_Leave):
    """An intermediate exit: the layer it follows, the share of samples that leave, how sure they are, and its head."""

    head: str | None = None
    classes: Positive | None = None
    layers: list[Op] | None = None

    @model_validator(mode="after")
    def _one_head(self) -> ExitFile:
        if (self.head is None) == (self.layers is None):
            raise ValueError('expected either head (a name, e.g. "msdnet") or layers (a list), and not both')
        return self


class Candidates(Strict):
    """Places where exits are possible: after blocks, which regions group by the shape of their maps.

    ``regions`` names the last layer of every block, region by region.  ``after`` counts blocks from 1; exits are
    possible after every block but the last if it is not stated.  The head is stated as in an exit; if it is
    not, every candidate has the network's own: a copy of the layers behind the last block.
    """

    regions: Annotated[list[Annotated[list[Name], Field(min_length=1)]], Field(min_length=1)]
    after: list[Positive] | None = None
    head: str | None = None
    classes: Positive | None = None
    layers: list[Op] | None = None

    @property
    def blocks(self) -> list[str]:
        """The last layer of every block."""
        return [name for region in self.regions for name in region]

    @model_validator(mode="after")
    def _places(self) -> Candidates:
        last = len(self.blocks) - 1
        if self.after is not None and (self.after != sorted(set(self.after)) or not 1 <= len(self.after) <= last):
            raise ValueError(f"after: expected at least one of the blocks 1 to {last}, in order")
        if self.after is not None and self.after[-1] > last:
            raise ValueError(f"after: expected blocks 1 to {last}, found {self.after[-1]}; the last block is no exit")
        if self.head is not None and self.layers is not None:
            raise ValueError("expected head or layers or neither, found both")
        return self


class InputShape(Strict):
    """The shape of one sample."""

    height: Positive
    width: Positive
    channels: Positive

    @property
    def shape(self) -> Shape:
        """The sample as a map."""
        return Shape(self.height, self.width, self.channels)


class NetworkFile(Strict):
    """The whole file.  ``steps`` are the most runs of the last stage: in a decoder, one for each word."""

    schema_: Literal["fluidb.network/1"] = Field(alias="schema")
    name: NetworkName
    title: str
    input: InputShape
    layers: Annotated[list[Op], Field(min_length=1, max_length=100_000)]
    exits: Annotated[list[ExitFile], Field(max_length=MAX_EXITS)] = []
    candidates: Candidates | None = None
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = 1
    sources: dict[str, str] = {}

    @model_validator(mode="after")
    def _bridges_in_exits(self) -> NetworkFile:
        if any(op.bridge for op in self.layers):
            raise ValueError("layers: expected bridge in the layers of exits only")
        return self
