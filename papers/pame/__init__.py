"""Figures of the PAME paper, and ours beside them (``fluidb reproduce pame``)."""

from ..paper import Paper, read_published

PUBLISHED = read_published(__file__)
"""Values that the paper prints."""

INTRODUCTION = """\
Written by `fluidb reproduce pame -o results`; `fluidb reproduce NAME -o results` renews one item. Every figure stands
beside the paper's with the difference: percent of the paper's figure, or percentage points where both are percentages.
± is Student's 95 % interval over seeds. The paper publishes no log of confidences, so logs are drawn from a model of
difficulty, and the V100 is a model too ([exits](../../docs/exits.md)). The last column of a table says what a figure is
worth. It is *calibrated* if a parameter of the two models was chosen by it, *given* if we set the load so that the
paper's figure comes out, and *predicted* in all other cases. Only predictions are evidence; a verdict without such a
word is a prediction. MPII and Cityscapes are left out: the paper states neither their logs nor what the layers of their
heads cost."""

PAPER = Paper(
    name="pame",
    package=__name__,
    title="# The PAME paper, reproduced",
    introduction=INTRODUCTION,
    items={
        "pame_fig7": "design",
        "pame_fig9": "design",
        "pame_fig10": "design",
        "pame_fig11": "design",
        "pame_fig12": "design",
        "pame_fig13": "design",
        "pame_fig14": "design",
        "pame_fig15": "design",
        "pame_fig16": "runtime",
        "pame_fig17": "design",
        "pame_fig18": "runtime",
        "pame_fluid": "boards",
    },
    exact=tuple(f"pame_fig{number}" for number in (9, 10, 11, 12, 14, 15, 16, 17, 18)),
    folder="pame",
)
