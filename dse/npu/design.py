"""A design on disk: the search, its result, and all that later steps need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from ...formats import AnyPath, InputError, OwnFolder, SparseRecord, Strict, Table, check_folder, read_table, table_text
from ...formats.array_types import Ints
from ...models import Network, as_network
from ...models.network import Count
from ...platforms import ENERGY_KEYS, LUT_KEYS, Board, as_board
from ...tables.files import DESIGN_FILE, FBCB_FILE, LATENCY_FILE, PARTITION_FILE, SUBGRAPHS_FILE
from ..engine import Port
from .choices import Overlap
from .evaluation import Evaluator
from .fbcb import FbcbTable, encode
from .objectives import OBJECTIVES
from .options import SearchOptions
from .ports import port_of
from .resources import paper_luts
from .search import RankedDesign, SearchResult
from .tiles import Tile
from .workload import products_of

SEARCH_FILE = "search.json"
DESIGN_FOLDER = OwnFolder("a design", DESIGN_FILE, {DESIGN_FILE, FBCB_FILE, LATENCY_FILE, SEARCH_FILE})


class NetworkShare(Strict):
    """A network, and its part of the requests."""

    name: str
    share: Annotated[float, Field(ge=0, le=1)]


class Together(Strict):
    """Networks that share an NPU, and what their control blocks and layouts ask of it."""

    networks: list[NetworkShare]  # the shares sum to 1
    control_bits: Count  # of the entries of all control blocks
    most_samples: Count  # side by side in a tile of columns that the layouts may have
    samples: Count  # that they have, at most


class DesignTable(Table, SparseRecord):
    """The result of a search as a file, ``fluidb.design/4`` (``docs/file-formats.md``)."""

    schema_name: ClassVar[str] = "fluidb.design/4"
    made_by: ClassVar[str] = "fluidb dse"
    sparse: ClassVar[set[str] | None] = {"together"}

    network: Network
    platform: Board
    options: SearchOptions
    ranking: Annotated[list[RankedDesign], Field(min_length=1)]  # best first; the first is the design
    gop_s: list[float]  # for b = 1..b_max
    ideal_gop_s: list[float] | None = None  # the same if transfers all overlapped, of a design as built
    energy_j: list[float] | None = None  # an inference, for b = 1..b_max, if the board states its energies
    designs_evaluated: Count
    designs_ruled_out: Annotated[int, Field(ge=0)] = 0  # by a bound: worse than the whole ranking
    together: Together | None = None  # with other networks, for which the design is as well; objectives are of all

    @property
    def tile(self) -> Tile:
        """The design."""
        return self.ranking[0].tile

    @property
    def port(self) -> Port:
        """Its port to the off-chip memory."""
        return Port(*map(float, port_of(self.platform, self.tile)))

    @property
    def words_per_cycle(self) -> float:
        """Off-chip words of a cycle (:meth:`.options.SearchOptions.words_per_cycle`)."""
        return float(self.options.words_per_cycle(self.platform, self.tile))

    @property
    def carried_gb_s(self) -> float:
        """What its port carries of the board's bandwidth."""
        return self.words_per_cycle / self.platform.words_per_cycle * self.platform.bandwidth_gb_s

    @property
    def origin(self) -> str:
        """Origin of the design, as it is printed."""
        return "as given" if self.options.tile else f"best of {self.designs_evaluated + self.designs_ruled_out:,}"

    @property
    def shares(self) -> dict[str, float]:
        """Parts of the requests of the networks that its NPU runs, by their names."""
        if self.together is None:
            return {self.network.name: 1.0}
        return {network.name: network.share for network in self.together.networks}

    @property
    def objective_text(self) -> str:
        """The value of its objective as it is printed, with the networks if there are several."""
        goal = OBJECTIVES[self.options.objective]
        text = f"{self.options.text(self.ranking[0].objective)} {goal.summary.format(self.options.b_max)}"
        return f"{text}, of the mean request for {', '.join(self.shares)}" if self.together else text

    @property
    def most_samples(self) -> int:
        """Samples side by side in a tile of columns that its layouts may have."""
        if self.together:
            return self.together.most_samples
        return int(self.options.samples_side_by_side(self.network, self.platform, self.tile.array)[0])

    @property
    def dsps(self) -> int:
        """DSPs in use."""
        return int(self.platform.dsps_of(self.tile.macs))

    @property
    def dsp_share(self) -> float:
        """Share of the board's DSPs in use."""
        return self.dsps / self.platform.dsps

    @property
    def ram_share(self) -> float:
        """Share of its on-chip memory in use."""
        bits = self.tile.buffer_bits(self.platform.word_bits) + int(self.options.persistent_mbit * 2**20)
        return bits / self.platform.on_chip_bits

    @property
    def lut_share(self) -> float | None:
        """Share of its look-up tables in use by the fit to the paper, where no engine is counted."""
        board = self.platform
        if self.options.counts_luts(board) or not (board.luts and board.states(LUT_KEYS)):
            return None
        return float(paper_luts(board, self.tile) / board.luts)

    @property
    def inferences_per_s(self) -> list[float]:
        """Inferences a second for b = 1..b_max if all samples run to the end."""
        return [gop_s * 1e9 / (2 * self.network.macs) for gop_s in self.gop_s]

    @property
    def peak_macs_per_s(self) -> float:
        """MACs a second with every unit busy."""
        return self.tile.macs * self.platform.clock_hz

    def register_share(self, fbcb: FbcbTable) -> float | None:
        """Share of the board's flip-flops that the FBCB takes; ``None`` where the board names none."""
        return fbcb.register_bits / self.platform.flip_flops if self.platform.flip_flops else None


def tabulate_design(
    network: Network | AnyPath,
    platform: Board | AnyPath,
    options: SearchOptions,
    result: SearchResult,
    most_samples: Ints | None = None,
) -> tuple[DesignTable, FbcbTable]:
    """Make the tables of a search.

    Parameters
    ----------
    network, platform, options
        As for :func:`.search.search`.
    result : SearchResult
        Its result.
    most_samples : array, optional
        Most samples side by side in a tile of columns, where other networks share the NPU. Shapes: (1,).

    Returns
    -------
    design : DesignTable
        The design and its surroundings.
    fbcb : FbcbTable
        Its control block.
    """
    network, platform = as_network(network), as_board(platform)
    counted = platform.states(ENERGY_KEYS)
    evaluator, tile = Evaluator(network, platform, options), result.best.tile
    cost, choice = evaluator.evaluate(tile, most_samples)
    ideal = None
    if options.overlap is Overlap.TILES:
        ideals = Evaluator(network, platform, options.model_copy(update={"overlap": Overlap.IDEAL}))
        ideal = ideals.cost(tile.array, traffic=False, samples=most_samples).gop_s[0].tolist()
    design = DesignTable(
        network=network,
        platform=platform,
        options=options,
        gop_s=cost.gop_s[0].tolist(),
        ideal_gop_s=ideal,
        energy_j=cost.energy_j[0].tolist() if counted else None,
        **result._asdict(),
    )
    names = [layer.name for layer in products_of(network, pooled=options.pooled)]
    blocks = choice.blocks if options.overlap is Overlap.TILES else None
    return design, encode(names, choice.codes, blocks, choice.B_R).derived_from(design)


def write_design(
    folder: AnyPath, design: DesignTable, fbcb: FbcbTable, *, searched: Table | None = None, replace: bool = False
) -> None:
    """Write a design's folder, whole or not at all.

    Parameters
    ----------
    folder : str or Path
        Destination.
    design, fbcb
        Its tables.
    searched : Table, optional
        Record of the search, for a folder of many (:class:`fluidb.studies.designs.SearchTable`).
    replace : bool
        Replace an earlier design there; nothing but a design is ever replaced.

    Raises
    ------
    InputError
        If the file system refuses, or something is in the way (:meth:`fluidb.formats.OwnFolder.check`).
    """
    tables = {DESIGN_FILE: design, FBCB_FILE: fbcb, SEARCH_FILE: searched}
    files = {name: table_text(table) for name, table in tables.items() if table is not None}
    DESIGN_FOLDER.write(folder, files, replace=replace)


def read_design(folder: AnyPath) -> tuple[DesignTable, FbcbTable]:
    """Read a design's folder.

    Parameters
    ----------
    folder : str or Path
        As written by :func:`write_design`.

    Returns
    -------
    design, fbcb
        Its tables.

    Raises
    ------
    InputError
        If it is missing, damaged or stale.
    """
    check_folder(folder, "the folder of a design", "make it with `fluidb dse NETWORK BOARD -o DIR`")
    others = {
        PARTITION_FILE: "a partition",
        SUBGRAPHS_FILE: "SubGraphs",
        LATENCY_FILE: "a latency table without one, as a device has",
    }
    held = next((what for file, what in others.items() if Path(folder, file).exists()), None)
    if held is not None and not Path(folder, DESIGN_FILE).exists():
        raise InputError(
            f"{folder}: expected the folder of a design for a board, found {held}; search a design with `fluidb dse`, "
            f"or serve what is there with `fluidb serve-sim {folder}`"
        )
    design = read_table(DesignTable, Path(folder, DESIGN_FILE))
    fbcb = read_table(FbcbTable, Path(folder, FBCB_FILE), design)
    names = [layer.name for layer in products_of(design.network, pooled=design.options.pooled)]
    if fbcb.b_max != design.options.b_max or [row.layer for row in fbcb.rows] != names:
        raise InputError(
            f"{Path(folder, FBCB_FILE)}: expected the layers and batch sizes of {DESIGN_FILE}; make both again"
        )
    return design, fbcb
