"""The ports of designs to the off-chip memory: words of a beat, and the share of cycles that brings one."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from ...platforms import Board
from ..engine import Port
from .tiles import Tile, Tiles


def words_of(board: Board, tiles: Tiles | Tile) -> Any:
    """Words of a beat of each design's port."""
    W = np.asarray(tiles[4])
    return np.where(W, W, board.usual_port_words)


def port_of(board: Board, tiles: Tiles | Tile) -> Port:
    """The ports of designs. Shapes: ``tiles`` (5, ...).

    Beats carry the bandwidth as far as they can, or the next less that a share of 16 bits states.
    """
    words = words_of(board, tiles).astype(np.float64)
    share = np.minimum(board.words_per_cycle / words, 1.0)
    cycles = 2.0 ** (16 + np.maximum(-np.floor(np.log2(share)), 0))
    latency, turn = map(ceil, (board.port_latency_cycles, board.port_turn_cycles))
    return Port(words, np.floor(share * cycles), cycles, float(latency), float(board.aligned), float(turn))
