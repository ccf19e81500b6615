"""Figures of the Fluid Batching paper, and ours beside them (``fluidb reproduce fluid-batching``)."""

from ...plots import COLOURS
from ..paper import Paper, read_published

PUBLISHED = read_published(__file__)
"""Values that the paper prints."""

INTRODUCTION = """\
Written by `fluidb reproduce all -o results`; `fluidb reproduce NAME -o results` renews one item. Every figure stands
beside the paper's with the difference: percent of the paper's figure, or percentage points where both are percentages.
± is Student's 95 % interval over seeds. Nothing was fitted to a cell: one bandwidth for each board, one design of
heads, one rule for exits, one time of a scheduler call ([the model](../docs/model.md))."""

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
