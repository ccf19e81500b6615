"""Random small boards whose logic binds, and what each may have more of."""

from __future__ import annotations

import os

import numpy as np
from builders import network_of
from fluidb.dse import Batching, SearchOptions
from fluidb.platforms import load_platform
from fluidb.platforms.cycle import Cycle

ZC706 = load_platform("zc706")
CASES = int(os.environ.get("FLUIDB_RANDOM_BOARDS", "8"))
"""Random boards and networks of each test; 1,000 take some ten minutes of processor time."""

OBJECTIVES = ["gop_s", "latency", "energy", "gop_s_w"]


def random_case(seed):
    """A network, a board that a small NPU nearly fills, and options."""
    draw = np.random.default_rng(seed)
    sizes = [(*tuple(int(draw.integers(1, most)) for most in (150, 60, 40)), 1) for _ in range(draw.integers(1, 3))]
    pixels = [[1], [1, 2], [1, 4], [2]][draw.integers(4)]
    board = ZC706.model_copy(
        update={
            "mac_pj": 1.0,
            "on_chip_pj_per_word": float(draw.choice([0.5, 5, 50, 500])),
            "off_chip_pj_per_word": float(draw.choice([1, 50, 500])),
            "static_w": [None, 0.01, 0.1][draw.integers(3)],
            "pixels": pixels,
            "dsps": int(draw.integers(6, 20)),
            "on_chip_mbit": float(draw.integers(8, 40)) / 1024,
            "block_rams": int(draw.integers(4, 50)),
            "ultra_rams": [None, None, 4][draw.integers(3)],
            "luts": int(draw.integers(9_000, 26_000)),
            "flip_flops": int(draw.integers(10_000, 60_000)),
            "port_words": [None, 4, 8][draw.integers(3)],
            "bandwidth_gb_s": float(draw.choice([0.3, 0.6, 1.2])),
        }
    )
    options = SearchOptions(
        batching=Batching(draw.choice(["fluid", "fluid", "row", "column"])),
        b_max=int(draw.integers(1, 5)),
        objective=OBJECTIVES[draw.integers(len(OBJECTIVES))],
    )
    doublings = {name: float(draw.choice([0, 0.1, 0.4])) for name in ("W_ns", "S_ns", "T_P_ns", "T_C_ns")}
    cycle = [None, Cycle(ns=5.0, **doublings)][draw.integers(2)]  # of 6.7 ns
    return network_of(sizes, 100), board.model_copy(update={"cycle": cycle}), options


MORE = {
    "dsps": lambda board: {"dsps": board.dsps + 3},
    "luts": lambda board: {"luts": board.luts + 2_000},
    "flip-flops": lambda board: {"flip_flops": board.flip_flops + 2_000},
    "blocks": lambda board: {"block_rams": board.block_rams + 3, "on_chip_mbit": board.on_chip_mbit * 1.2},
    "bandwidth": lambda board: {"bandwidth_gb_s": board.bandwidth_gb_s * 1.3},
    "pixels": lambda board: {"pixels": sorted({*board.pixels, 1, 2, 4})},
    "cycle": lambda board: {"cycle": board.cycle and board.cycle.model_copy(update={"ns": 4.5})},
    "port": lambda board: {"port_words": board.port_words and 2 * board.port_words},
}
