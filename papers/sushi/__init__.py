"""The figures of the SUSHI paper, and ours beside them (``fluidb reproduce sushi``)."""

from ..paper import Paper, read_published

PUBLISHED = read_published(__file__)
"""The figures that the paper prints."""

INTRODUCTION = """\
Written by `fluidb reproduce sushi -o results`; `fluidb reproduce NAME -o results` renews one item. Every figure stands
beside the paper's with the difference: percent of the paper's figure, or percentage points where both are percentages.
± is Student's 95 % interval over seeds. The paper prints neither its SubNets nor their accuracies, nor what its
baselines are. So we chose SubNets of the paper's sizes, the accuracies are illustrative, and no reading of the paper
gives all its figures ([SUSHI](../../docs/sushi.md)). We show two readings. In *potential*, all that the SubNets share
is resident, whatever its size. In *board*, only as much is resident as the boards' persistent buffers hold. The last
column of a table says what a figure is worth. It is *calibrated* if a parameter or the reading was chosen by it,
*given* if the paper states what we set, *assumed* if a number without a source decides it, and *predicted* in all other
cases. Only predictions are evidence; a verdict without such a word is a prediction."""

PAPER = Paper(
    name="sushi",
    package=__name__,
    title="# The SUSHI paper, reproduced",
    introduction=INTRODUCTION,
    items={
        "sushi_table1": "accelerator",
        "sushi_table3": "accelerator",
        "sushi_fig10": "accelerator",
        "sushi_fig11": "accelerator",
        "sushi_fig12": "accelerator",
        "sushi_fig13": "accelerator",
        "sushi_fig14": "accelerator",
        "sushi_fig15": "scheduler",
        "sushi_fig16": "scheduler",
        "sushi_fig17": "scheduler",
        "sushi_fig18": "scheduler",
        "sushi_table5": "scheduler",
        "sushi_table6": "scheduler",
        "sushi_hits": "scheduler",
        "sushi_queue": "queue",
    },
    exact=tuple(f"sushi_{name}" for name in ("table3", "fig10", "fig13", "fig16", "table5", "table6", "hits")),
    folder="sushi",
)
