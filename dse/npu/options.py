"""Options of a search: the engine, its batches, and what is best."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from ...formats import InputError, Strict
from ...formats.array_types import Floats, Ints
from ...models import Network
from ...platforms import Board
from ...platforms.board import ONE_PIXEL
from .choices import MAX_DESIGN_BATCH, Batching, Objective, Overlap
from .fbcb import MAX_BLOCK_BITS, entry_bits
from .layouts import Layouts, layouts_of
from .logic import Entries
from .objectives import OBJECTIVES
from .ports import words_of
from .resources import Limits, Resource, Supply, logic_of
from .side_by_side import NONE_NEEDED, Needed
from .tiles import Tile, Tiles
from .workload import Workload, as_workload


class SearchOptions(Strict):
    """Options of a search.

    Attributes
    ----------
    batching : Batching
        Layout of a batch on the engine.
    stacking : bool
        Stackable PEs, k in {1/2, 1, 2}; else k = 1.
    overlap : Overlap
        Time of a layer: as built, or an ideal.
    b_max : int
        Largest batch size.
    weights : list of float
        w_b of Equation (2), for b = 1..b_max; empty for all ones.
    memory_layers : bool
        Count the time of the traffic of memory-only layers (pooling).
    tile : Tile or None
        A given design, which is evaluated instead of searched for.
    objective : Objective
        Quantity that is maximised or minimised.
    limits : Limits
        The most that a design may take of the board.
    launches : list of list of float
        For the objective ``traffic``: runs that a simulation counted of each stage with
        b = 1..b_max samples, network by network.
    persistent_mbit : float
        On-chip memory in Mb of 2**20 bits in which the weights of the first layers stay.
    """

    batching: Annotated[Batching, Field(strict=False)] = Batching.FLUID
    stacking: bool = True
    overlap: Annotated[Overlap, Field(strict=False)] = Overlap.TILES
    b_max: Annotated[int, Field(ge=1, le=MAX_DESIGN_BATCH)] = 8
    weights: list[Annotated[float, Field(ge=0, le=1e6)]] = []
    memory_layers: bool = True
    tile: Tile | None = None
    objective: Annotated[Objective, Field(strict=False)] = Objective.GOP_S
    limits: Limits = Limits()
    launches: list[list[Annotated[float, Field(ge=0, le=1e15)]]] = []
    persistent_mbit: Annotated[float, Field(ge=0, le=1e6)] = 0.0

    @model_serializer(mode="wrap")
    def _without_a_buffer(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A file has no key for a buffer that the design does not have, and no V or W with their defaults."""
        written = {key: value for key, value in write(self).items() if key != "persistent_mbit" or value}
        if self.tile and "tile" in written:
            written["tile"] = self.tile.stated
        return written

    @model_validator(mode="before")
    @classmethod
    def _equation_1_is_an_ideal(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("batching") == Batching.EQ1:
            return {"overlap": Overlap.PAPER, **values}
        return values

    @model_validator(mode="after")
    def _equation_1_as_printed(self) -> Self:
        if self.batching is Batching.EQ1 and self.overlap is not Overlap.PAPER:
            raise ValueError(
                "overlap: expected paper beside batching eq1, as Equation (1) is printed for the paper's count of words"
            )
        return self

    @model_validator(mode="after")
    def _one_weight_for_each_batch(self) -> Self:
        if self.weights and len(self.weights) != self.b_max:
            raise ValueError(
                f"weights: expected {self.b_max} values, one for each batch size 1..{self.b_max}, "
                f"found {len(self.weights)}"
            )
        if self.weights and max(self.weights) < 1e-6:
            raise ValueError("weights: expected at least one of 1e-6 or more, found none")
        return self

    @model_validator(mode="after")
    def _launches_with_their_objective(self) -> Self:
        if (self.objective is Objective.TRAFFIC) != bool(self.launches):
            raise ValueError("objective: expected traffic beside the launches of a simulation, and only there")
        if self.launches and self.weights:
            raise ValueError("weights: expected either w_b or launches, found both")
        if any(len(row) != self.b_max for row in self.launches):
            raise ValueError(f"launches: expected {self.b_max} counts for each stage, one for each batch size")
        if self.launches and not any(any(row) for row in self.launches):
            raise ValueError("launches: expected at least one run, found none")
        return self

    @property
    def placed(self) -> bool:
        """Whether memories are counted as they are placed; the paper counts their bits."""
        return self.overlap is not Overlap.PAPER

    def counts_luts(self, platform: Board) -> bool:
        """Whether look-up tables of the NPU are counted; else as the paper has them."""
        return self.placed and Resource.LUTS in logic_of(platform)

    def unjudged(self, platform: Board) -> dict[str, str]:
        """Keys of a board's file that no design is held against, each with the reason."""
        return Supply.of(platform, self.limits, placed=self.placed).unjudged

    def room(self, platform: Board) -> Limits:
        """The most that a design may take of a board beside the weights that stay.

        Parameters
        ----------
        platform : Board
            The board.

        Returns
        -------
        Limits
            The limits, less the persistent memory.

        Raises
        ------
        InputError
            If the weights that stay leave nothing.
        """
        if not self.persistent_mbit:
            return self.limits
        whole = self.limits.confine(platform).on_chip_mbit
        if self.persistent_mbit >= whole:
            raise InputError(
                f"persistent: expected less than the {whole:g} Mb on chip of {platform.name}, "
                f"found {self.persistent_mbit:g} Mb"
            )
        return self.limits.model_copy(update={"max_ram_mbit": whole - self.persistent_mbit})

    def resident_words(self, platform: Board) -> int:
        """Words of weights that stay on the chip."""
        return int(self.persistent_mbit * 2**20) // platform.word_bits

    def weight_array(self) -> Floats:
        """w_b for b = 1..b_max."""
        return np.array(self.weights) if self.weights else np.ones(self.b_max)

    def text(self, objective: float) -> str:
        """One value of the objective as it is printed, with its unit."""
        return OBJECTIVES[self.objective].text(objective)

    def layouts(self, platform: Board) -> Layouts:
        """Choices of each layer on a board."""
        every = self.placed and platform.pixels != ONE_PIXEL
        return layouts_of(self.batching, self.b_max, stacking=self.stacking, every=every)

    @property
    def pooled(self) -> bool:
        """True if pools are products, as built; in an ideal they are memory-only layers."""
        return self.overlap is Overlap.TILES

    def words_per_cycle(self, platform: Board, tiles: Tiles | Tile) -> Floats:
        """Off-chip words of a cycle: as the bandwidth allows; as built, or with a narrower port, at most a beat."""
        W = np.asarray(tiles[4])
        beat = words_of(platform, tiles) if self.overlap is Overlap.TILES else np.where(W, W, np.inf)
        return np.minimum(platform.words_per_cycle, beat)

    def check(self, workload: Workload) -> None:
        """Refuse options that go with one network only."""
        if self.persistent_mbit and len(workload.networks) > 1:
            raise InputError(
                "persistent: weights that stay are for one network, found several that share the NPU; leave it out"
            )

    def of_each(self, workload: Workload) -> list[Self]:
        """The options for each network of a workload: with the launches of its own stages."""
        stages = iter(self.launches)
        own = [list(islice(stages, len(network.exits))) for network in workload.networks]
        return [self.model_copy(update={"launches": launches}) for launches in own]

    def needed_samples(self, workload: Workload) -> Needed:
        """Samples side by side that a design must have: of the only layout of a batch."""
        if self.batching is not Batching.COLUMN:
            return NONE_NEEDED
        return Needed(self.b_max, min(gemm.C for gemm in workload.gemms))

    def entries(self, workload: Workload) -> Entries:
        """The control blocks of all networks, whose entries are as wide as they may get."""
        return Entries(workload.products(pooled=self.pooled) * self.b_max, entry_bits(self.b_max, MAX_BLOCK_BITS))

    def supply(self, network: Network | Workload, platform: Board) -> Supply:
        """What the designs for a network, or for several, may take of a board, beside the weights that stay.

        Parameters
        ----------
        network : Network or Workload
            The network, or several that share the NPU.
        platform : Board
            The board.

        Returns
        -------
        Supply
            The limit of each resource.

        Raises
        ------
        InputError
            If the weights that stay leave nothing.
        """
        workload = as_workload(network)
        return Supply.of(
            platform,
            self.room(platform),
            placed=self.placed,
            needed=self.needed_samples(workload),
            wanted=int(self.layouts(platform).table[:, 2].max()),
            entries=self.entries(workload),
        )

    def samples_side_by_side(self, network: Network | Workload, platform: Board, tiles: Tiles) -> Ints:
        """Find the most samples that designs can have side by side in a tile of columns.

        Parameters
        ----------
        network : Network or Workload
            The network, or several that share the NPU.
        platform : Board
            The board.
        tiles : array
            The designs. Shapes: (5, D).

        Returns
        -------
        array
            The most of each design; at most b_max. Shapes: (D,).
        """
        return self.supply(network, platform).most_samples(tiles)
