"""Names of modes, objectives and formats.  The code behind them is elsewhere: the help of commands needs names only."""

from __future__ import annotations

from enum import StrEnum

MAX_DESIGN_BATCH = 256
"""Largest B_max of a design, less than a latency table may have: layouts of a batch grow with its square."""


class Batching(StrEnum):
    """Layout of a batch on the matrices of a layer (Fluid Batching, Figs. 1 and 4a).

    ``FLUID`` chooses B_R for each layer and batch.  ``ROW`` puts all samples down
    the rows (B_R = b).  ``COLUMN`` puts them side by side (B_R = 1), which the
    figures call P.  ``FC`` is ``ROW`` in fully connected layers (R = 1) and runs
    all other layers sample by sample.  ``NONE`` runs every layer sample by sample.
    ``EQ1`` is Fluid Batching by Equation (1) as printed.
    """

    FLUID = "fluid"
    ROW = "row"
    COLUMN = "column"
    FC = "fc"
    NONE = "none"
    EQ1 = "eq1"


class Overlap(StrEnum):
    """How transfers overlap with products, and how words are counted (docs/model.md).

    ``TILES`` is the engine as built, which runs tile by tile.  ``IDEAL`` is its roofline: all its words move
    while it computes.  ``PAPER`` is the roofline with words as they reproduce the figures of Fluid Batching, each
    weight counted once for all samples; Equation (1) as printed is always this.
    """

    TILES = "tiles"
    IDEAL = "ideal"
    PAPER = "paper"


class Objective(StrEnum):
    """Quantity that a search maximises or minimises; defined in :data:`.objectives.OBJECTIVES`.

    ``TRAFFIC`` is the throughput over the runs that a simulation counted; a user names one of :data:`GOALS`.
    """

    GOP_S = "gop_s"
    LATENCY = "latency"
    ENERGY = "energy"
    GOP_S_W = "gop_s_w"
    TRAFFIC = "traffic"


GOALS = [goal for goal in Objective if goal is not Objective.TRAFFIC]
"""Objectives that a user can name."""
