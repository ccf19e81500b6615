"""Figures of the Fluid Batching paper, and ours beside them (``fluidb reproduce fluid-batching``)."""

from ...plots import COLOURS
from ..paper import Paper, read_published

PUBLISHED = read_published(__file__)
"""Values that the paper prints."""

INTRODUCTION = """\
Written by `fluidb reproduce all -o results`; `fluidb reproduce NAME -o results` renews one item. Every figure stands
beside the paper's with the difference: percent of the paper's figure, or percentage points where both are percentages.
± is Student's 95 % interval over seeds. The last column of a table says what a figure is worth. It is *calibrated* if
something was chosen by it, *given* if it follows from a design that the paper prints, *assumed* if a number without a
source decides it, such as the time of a scheduler call, and *predicted* in all other cases. Only predictions are
evidence; a verdict without such a word is a prediction. The shares of registers and the rates that are sustained chose
the heads; FluidB's cells of Table II chose the exits and the traffic of pooling; the designs of Table I and the batch
of 16 chose the bandwidths and the reading of the equations; Table I chose the look-up tables
([the model](../docs/model.md)). Each choice is the same for all cells: one bandwidth for each board, one kind of head,
one rule for exits, one time of a scheduler call."""

PAPER = Paper(
    name="fluid-batching",
    package=__name__,
    title="# The Fluid Batching paper, reproduced",
    introduction=INTRODUCTION,
    items={
        "table1": "tables",
        "table2": "tables",
        "fig1": "traffic",
        "fig7": "traffic",
        "fig8": "traffic",
        "fig9": "traffic",
        "fig10": "npu",
        "claims": "claims",
        "built": "built",
        "ablation": "assumptions",
        "calls": "assumptions",
        "sensitivity": "assumptions",
    },
    exact=("table1", "table2"),
    looks={
        "SERIAL": (COLOURS[6], "-", "o"),
        "FC-AdaptB-S": (COLOURS[4], "-", "^"),
        "FC-AdaptB-M": (COLOURS[4], "--", "s"),
        "FC-AdaptB-L": (COLOURS[4], ":", "v"),
        "R-AdaptB-S": (COLOURS[5], "-", "^"),
        "R-AdaptB-M": (COLOURS[5], "--", "s"),
        "R-AdaptB-L": (COLOURS[5], ":", "v"),
        "LazyBatching": (COLOURS[1], "-", "D"),
        "FluidB": (COLOURS[0], "-", "o"),
        "serial": (COLOURS[6], "-", "o"),
        "FC": (COLOURS[4], "-", "^"),
        "R": (COLOURS[5], "-", "s"),
        "P": (COLOURS[3], "-", "v"),
        "Fluid Batching": (COLOURS[0], "--", "o"),
        "with Stackable PEs": (COLOURS[0], "-", "D"),
    },
)
