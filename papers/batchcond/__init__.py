"""Figures of the BatchCond paper, and ours beside them (``fluidb reproduce batchcond``)."""

from ..paper import Paper, read_published

PUBLISHED = read_published(__file__)
"""Values that the paper prints."""

INTRODUCTION = """\
Written by `fluidb reproduce batchcond -o results`; `fluidb reproduce NAME -o results` renews one item. Every figure
stands beside the paper's with the difference in percent. ± is Student's 95 % interval over seeds. The paper publishes
no times of stages, the batch sizes of one network only, and not how its inputs are distributed. So the GPU is a model
(each stage has a least time and a time for each sample; gathers and exits take time, too), and inputs are drawn
([BatchCond](../../docs/batchcond.md)). The last column of a table says what a figure is worth. It is *calibrated* if
parameters of the model were chosen by it, *given* if we set the least times so that the paper's figure comes out,
*assumed* if a number without a source decides it, and *predicted* in all other cases. Only predictions are
evidence."""

PAPER = Paper(
    name="batchcond",
    package=__name__,
    title="# The BatchCond paper, reproduced",
    introduction=INTRODUCTION,
    items={
        "batchcond_table3": "tables",
        "batchcond_platforms": "tables",
        "batchcond_table4": "tables",
        "batchcond_table5": "tables",
        "batchcond_fig5": "figures",
        "batchcond_fig6": "figures",
        "batchcond_fig7": "tables",
        "batchcond_fig8": "figures",
        "batchcond_fig9": "figures",
        "batchcond_npu": "npu",
    },
    exact=tuple(f"batchcond_{name}" for name in ("table3", "platforms", "table4", "table5", "fig6", "fig7")),
    folder="batchcond",
)
