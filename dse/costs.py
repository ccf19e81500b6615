"""What each layer costs on a design as its FBCB configures it, and what its time goes into."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from ..tables.latency import FBCB_FILE
from . import kernels
from .design import DesignTable
from .fbcb import FbcbTable
from .space import Batching, LayerKind, arrange
from .workload import distinct


class Cause(StrEnum):
    """What a layer's time goes into, in the order in which it is attributed (docs/model.md, Where time goes).

    ``COMPUTE`` makes MACs.  The next four are multipliers that idle: in places of
    the grid B_R x B_P without a sample, in the last tile along P, in the last tile
    along C, and where stacking halves an odd number.  The last two are waits for
    off-chip memory.  ``FEW_ROWS`` is the wait that would vanish if each reading of
    the weights served T_R rows; ``MEMORY`` is the rest.
    """

    COMPUTE = "compute"
    BATCH_PADDING = "batch_padding"
    P_PADDING = "P_padding"
    C_PADDING = "C_padding"
    STACKING = "stacking"
    MEMORY = "memory"
    FEW_ROWS = "few_rows"

    @property
    def label(self) -> str:
        """The cause for people."""
        return self.value.replace("_", " ")


class LayerCosts(NamedTuple):
    """Cost of each layer and batch on a design, memory-only layers included, in execution order.

    Attributes
    ----------
    time_s : (L, b_max) ndarray of float64
        Time.
    parts_s : dict of Cause to (L, b_max) ndarray of float64
        What it goes into, in seconds of the whole array: none is negative, and they sum to the time.
    words : (L, b_max) ndarray of float64
        Words moved off chip.
    """

    time_s: NDArray[np.float64]
    parts_s: dict[Cause, NDArray[np.float64]]
    words: NDArray[np.float64]


def layer_costs(design: DesignTable, fbcb: FbcbTable) -> LayerCosts:
    """Cost of each layer and batch on a design, as its FBCB configures it.

    Parameters
    ----------
    design, fbcb
        The design's tables.

    Returns
    -------
    LayerCosts
        Memory-only layers included, in execution order.

    Raises
    ------
    InputError
        If the FBCB stacks processing elements that the design does not have.
    """
    options, platform, network = design.options, design.platform, design.network
    work, rows = distinct(network)
    kinds = [LayerKind(kind) for kind in work.kinds[rows]]
    codes, B_R = fbcb.unpack()
    layouts = [
        [(b, rows, *arrange(options.batching, b, rows, kind)) for b, rows in enumerate(row, 1)]
        for row, kind in zip(B_R.tolist(), kinds, strict=True)
    ]
    cycles, words, parts = kernels.cost_layouts(
        np.array(design.tile), work._replace(gemms=work.gemms[rows]), codes, np.array(layouts),
        platform.words_per_cycle, options.batching is Batching.EQ1,
    )  # fmt: skip
    if not np.isfinite(cycles).all():
        raise InputError(f"{FBCB_FILE}: k does not fit {design.tile}; make it again with `{FbcbTable.made_by}`")
    batch = np.arange(1, options.b_max + 1)
    moved = np.outer([layer.memory_words for layer in network.layers], batch) * options.memory_layers
    waiting = moved / platform.words_per_cycle  # a memory-only layer does nothing else
    has_gemm = np.array([layer.gemm is not None for layer in network.layers])

    def spread(products: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        table = rest.astype(np.float64)
        table[has_gemm] = products
        return table

    parts_s = {
        cause: spread(part, waiting * (cause is Cause.MEMORY)) / platform.clock_hz
        for cause, part in zip(Cause, parts, strict=True)
    }
    return LayerCosts(spread(cycles, waiting) / platform.clock_hz, parts_s, spread(words, moved))
