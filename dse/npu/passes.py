"""Time on an engine that runs tile by tile; the model of ``kernels`` is its ideal (``docs/model.md``, Tile by tile)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .choices import Batching
from .costs import configured
from .design import DesignTable
from .fbcb import FbcbTable

HALVINGS = 7
"""How often the rows of a block may be halved below the most that fit."""


class PassTime(NamedTuple):
    """Cycles of a layer, and the rows of a block that take the fewest."""

    cycles: float
    rows: int


def pass_time(gemm: Any, tile: Any, layout: Any, words_per_cycle: float, fetched: float = 1.0) -> PassTime:
    """Time of one layer in one layout; symbols as in :mod:`.kernels`.

    A pass is one tile of columns on one block of rows, over all tiles along P.  While it computes, the first tile of
    the next pass loads, and the outputs of the pass before are stored.
    """
    R, P, C, groups = (int(size) for size in gemm)
    T_R, T_P, T_C = (int(size) for size in tile)
    b, B_R, B_P, runs = (int(size) for size in layout)
    down, repeats = B_R * R, groups * runs
    begin = np.arange(0, B_P * C, T_C)
    columns = np.minimum(T_C, B_P * C - begin)
    touched = (begin + columns - 1) // C - begin // C + 1  # samples side by side that a tile holds parts of
    # the last of them may have no sample in its lowest places
    of_last = np.clip(begin + columns - (B_P - 1) * C, 0, columns)
    filled = (b // runs - B_R * (B_P - 1)) * R
    # there may be very many tiles of columns, and few that differ, with those before and after them
    tiles = np.array([touched, columns, of_last])
    beside = np.concatenate([tiles, np.roll(tiles, -1, axis=1), np.roll(tiles, 1, axis=1)])
    distinct, which, times = np.unique(beside, axis=1, return_inverse=True, return_counts=True)
    here, after, before = distinct.reshape(3, 3, -1, 1)

    def run(rows: int) -> float:
        last, end = -(-down // rows) - 1, filled // rows
        # blocks that differ from the one before, and how many follow that do not
        blocks = np.unique(np.clip([0, 1, end - 2, end - 1, end, end + 1, end + 2, last - 1, last], 0, last))
        equal = np.diff(blocks, append=last + 1)

        def height(block: Any) -> Any:
            return np.minimum(rows, down - block * rows)

        def empty(block: Any) -> Any:
            return np.clip(block * rows + height(block) - filled, 0, height(block))

        def loads(tile: Any, block: Any) -> Any:
            return P * (tile[0] * height(block) - (tile[2] > 0) * empty(block) + fetched * np.minimum(tile[1], C))

        def stores(tile: Any, block: Any) -> Any:
            return tile[1] * height(block) - tile[2] * empty(block)

        share = min(T_P, P) / P  # of the loads of a pass, those of its first tile
        ahead = share * np.where(blocks == last, loads(after, 0), loads(here, np.minimum(blocks + 1, last)))
        behind = np.where(blocks == 0, stores(before, last), stores(here, np.maximum(blocks - 1, 0)))
        moved = (1 - share) * loads(here, blocks) + ahead + behind
        compute = -(-P // T_P) * height(blocks)
        cycles = repeats * float(times @ np.maximum(compute, moved / words_per_cycle) @ equal)
        # at the start there is nothing to store yet, and at the end nothing more to load
        begins, ends = (which.flat[0], 0), (which.flat[-1], -1)
        stored, loaded = behind[begins], ahead[ends]
        for at, words in (begins, stored), (ends, loaded):
            cycles -= max(compute[at[1]], moved[at] / words_per_cycle)
            cycles += max(compute[at[1]], (moved[at] - words) / words_per_cycle)
            if repeats * len(columns) * (last + 1) == 1:
                moved[at] -= words  # one pass is both the first and the last
        return float(cycles + (stored + loaded) / words_per_cycle)

    fewest = -(-down // max(T_R // int(touched.max()), 1))  # blocks: samples side by side share the input buffer
    choices = {-(-down // min(fewest << halved, down)) for halved in range(HALVINGS + 1)}
    return min((PassTime(run(rows), rows) for rows in choices), key=lambda found: (found.cycles, -found.rows))


class TileByTile(NamedTuple):
    """Time of each of the G products of a network and each batch size."""

    time_s: NDArray[np.float64]  # (G, b_max)
    block_rows: NDArray[np.int64]  # (G, b_max)


def tile_by_tile(design: DesignTable, fbcb: FbcbTable) -> TileByTile | None:
    """Run every product as the control block configures it; ``None`` for Equation (1) as printed, which has no grid."""
    if design.options.batching is Batching.EQ1:
        return None
    chosen, platform = configured(design, fbcb), design.platform
    known: dict[tuple[Any, ...], PassTime] = {}  # most networks repeat their layers
    found = np.empty((*chosen.layouts.shape[:2], 2))
    tiles = np.moveaxis(chosen.tile, 0, -1).tolist()
    rows = zip(chosen.gemms.tolist(), chosen.fetched.tolist(), tiles, chosen.layouts.tolist(), strict=True)
    for index, (gemm, fetched, tile, layouts) in enumerate(rows):
        for at, layout in enumerate(layouts):
            key = (*gemm, fetched, *tile[at], *layout)
            if key not in known:
                known[key] = pass_time(gemm, tile[at], layout, platform.words_per_cycle, fetched)
            found[index, at] = known[key]
    return TileByTile(found[..., 0] / platform.clock_hz, found[..., 1].astype(np.int64))
