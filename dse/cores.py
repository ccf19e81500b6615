"""The latency table of several cores on one memory (docs/metrics.md, Cores)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import mul
from typing import NamedTuple

import numpy as np

from ..formats import AnyPath, InputError, table_text
from ..formats.array_types import Floats
from ..models.schema import NetworkFile
from ..platforms.engine import Engine
from ..tables.files import LATENCY_FILE
from ..tables.hardware import Cores
from ..tables.latency import LatencyTable
from ..tables.layer_use import USES
from .device.engine import needs, tabulate_engine
from .device.tabulate import DEVICE_FOLDER
from .npu.banks import banks_of, place
from .npu.board_use import BoardUse
from .npu.costs import board_use_of, layer_costs
from .npu.design import DesignTable, read_design
from .npu.latency import tabulate_latency

MOST = 64
"""Cores of a table, at most."""


class Core(NamedTuple):
    """A kind of core, and how many there are."""

    name: str
    table: LatencyTable
    moved_s: Floats  # (E, b_max): time in which the words of each stage move, if nothing else moves
    contention: float
    number: int


def design_cores(folders: Sequence[AnyPath], counts: Sequence[int]) -> list[Core]:
    """Cores that are designs for one board, and how many there are of each; alone, each has all bandwidth."""
    cores, designs, taken = [], [], []
    for folder, count in zip(folders, counts, strict=True):
        design, fbcb = read_design(folder)
        costs = layer_costs(design, fbcb)
        moved_s = costs.words / design.platform.words_per_cycle / design.platform.clock_hz
        stage = np.array([layer.stage for layer in design.network.layers])
        stages = range(1, len(design.network.exits) + 1)
        by_stage_s = np.array([moved_s[stage == number].sum(axis=0) for number in stages])
        designs.append(design)
        taken.append(board_use_of(design, fbcb))
        cores.append(Core(str(design.tile), tabulate_latency(design, fbcb), by_stage_s, 1.0, count))
    _check_board(folders, designs, taken, counts)
    return cores


def _check_board(
    folders: Sequence[AnyPath], designs: Sequence[DesignTable], taken: Sequence[BoardUse | None], counts: Sequence[int]
) -> None:
    """Refuse designs for several boards, or more than fit one."""
    board = designs[0].platform
    for folder, design in zip(folders, designs, strict=True):
        if design.platform != board:
            raise InputError(
                f"{folder}: expected a design for {board.name} with the resources of {folders[0]}, found one for "
                f"{design.platform.name}, or for other resources; search both on one board"
            )
    small = "search smaller ones, e.g. with --max-dsp 50% --max-ram 50% --max-lut 50%"
    shares = {"DSPs": [design.dsp_share for design in designs], "on-chip RAM": [design.ram_share for design in designs]}
    counted = [board_use for board_use in taken if board_use is not None]
    if len(counted) == len(designs):
        shares |= {
            "LUTs": [board_use.lut_share or 0.0 for board_use in counted],
            "flip-flops": [board_use.flip_flop_share or 0.0 for board_use in counted],
        }
    for what, parts in shares.items():
        if (share := 100 * sum(map(mul, counts, parts))) > 100:
            raise InputError(
                f"cores: expected designs that fit {board.name} together, found {share:.1f} % of its {what}; {small}"
            )
    if len(counted) == len(designs) and board.block_rams is not None:
        together = {
            f"{buffer} of {kind}": bank._replace(number=count * bank.number)
            for kind, (design, use, count) in enumerate(zip(designs, counted, counts, strict=True))
            for buffer, bank in banks_of(board, design.tile, use.samples).items()
        }
        if place(board, together).block_rams > board.block_rams:
            raise InputError(
                f"cores: expected designs whose buffers can be placed on {board.name} together, found some that "
                f"cannot; {small}"
            )


def engine_cores(file: NetworkFile, path: AnyPath, engines: Sequence[Engine], counts: Sequence[int]) -> list[Core]:
    """Cores that are engines of fixed shape, from how many there are of each."""
    cores = []
    for engine, count in zip(engines, counts, strict=True):
        table, need = tabulate_engine(file, path, engine), needs(file, path, engine)
        stage = np.array([work.stage for work in need.works])
        moved_s = np.bincount(stage - 1, need.bytes / engine.bytes_per_s, len(table.exits))
        batch = np.arange(1, table.b_max + 1)
        table = table.model_copy(update={"measured": None, "measured_confidence": None})
        cores.append(
            Core(engine.name, table, np.outer(moved_s, batch).astype(np.float64), engine.share_of_memory, count)
        )
    return cores


def tabulate_cores(cores: Sequence[Core]) -> LatencyTable:
    """The latency table of cores on one memory; refuse one core alone, and kinds that differ in more than times."""
    if any(core.number < 1 for core in cores) or not 2 <= sum(core.number for core in cores) <= MOST:
        raise InputError(
            f"cores: expected at least one of each kind, and 2 to {MOST} in all, found "
            f"{','.join(str(core.number) for core in cores)}"
        )
    first = cores[0]
    for core in cores[1:]:
        _check_alike(first, core)
    one = first.table
    layers = [
        layer.model_copy(update={"variant": kind}) for kind, core in enumerate(cores) for layer in core.table.layers
    ]
    caused = len(cores) == 1
    if not caused:  # parts of the time are shares of one peak, and each kind has its own
        layers = [layer.model_copy(update=dict.fromkeys(("macs", *USES))) for layer in layers]
    npus = [npu for core in cores for npu in core.table.npus or []]
    moving = [np.minimum(1.0, core.moved_s / core.table.stage_array()[0, :, 1:]).tolist() for core in cores]
    return LatencyTable(
        network=one.network,
        platform=", ".join(dict.fromkeys(core.table.platform for core in cores)),
        exits=one.exits,
        b_max=one.b_max,
        layers=layers,
        peak_macs_per_s=one.peak_macs_per_s if caused else None,
        static_w=one.static_w,
        lanes=sum(core.number for core in cores),
        gather_s=one.gather_s,
        wake_up_s=one.wake_up_s,
        host=one.host,
        npus=npus or None,
        cores=Cores(
            names=[core.name for core in cores],
            of=np.repeat(np.arange(len(cores)), [core.number for core in cores]).tolist(),
            contention=first.contention,
            moving=moving,
        ),
    )


def _check_alike(first: Core, other: Core) -> None:
    """Refuse kinds of cores that cannot share requests or a memory."""
    alike: dict[str, Callable[[Core], object]] = {
        "network": lambda core: core.table.network,
        "exits": lambda core: [(row.name, row.rate, row.steps) for row in core.table.exits],
        "b_max": lambda core: core.table.b_max,
        "layers": lambda core: [(layer.name, layer.stage, layer.role) for layer in core.table.layers],
        "lanes": lambda core: core.table.lanes,
        "gather_s": lambda core: core.table.gather_s,
        "wake_up_s": lambda core: core.table.wake_up_s,
        "host": lambda core: core.table.host,
        "contention": lambda core: core.contention,
    }
    for what, of in alike.items():
        one, two = of(first), of(other)
        if one != two:
            both = f", found {one} and {two}" if isinstance(one, str | int | float) else ", found other ones"
            raise InputError(f"cores: {other.name}: expected the {what} of {first.name}{both}; make both alike")


def write_cores(table: LatencyTable, folder: AnyPath, *, replace: bool = False) -> LatencyTable:
    """Write the latency table of cores into a folder of its own, and return it."""
    DEVICE_FOLDER.write(folder, {LATENCY_FILE: table_text(table)}, replace=replace)
    return table
