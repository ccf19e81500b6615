"""The figures of the EdgeSP paper, and ours beside them (``fluidb reproduce edgesp``)."""

from ..paper import Paper, read_published

PUBLISHED = read_published(__file__)
"""The figures that the paper prints."""

INTRODUCTION = """\
Written by `fluidb reproduce edgesp -o results`; `fluidb reproduce NAME -o results` renews one item. The paper prints
few figures: it states no numbers for its curves, no rates of its devices and no layers of its networks. So most
results are compared with a statement of the paper instead of a figure. Preset A (`edgesp-a`) is calibrated to
AlexNet's milliseconds of Section 4.4, preset B (`edgesp-b`) to the shape of Fig. 5
([clusters](../../docs/edgesp.md)). The last column of a table says what a figure is worth. It is *calibrated* if a rate
or an accuracy of ours was chosen by it, *assumed* if the speed of a server decides it, which the paper does not state,
and *predicted* in all other cases. Only predictions are evidence; a verdict without such a word is a prediction. The
paper has six devices; further ones are ours. Its Algorithms 1 and 2 and its Equation 4 are mended
([how](../../docs/edgesp.md#where-the-paper-is-open-or-mended))."""

PAPER = Paper(
    name="edgesp",
    package=__name__,
    title="# The EdgeSP paper, reproduced",
    introduction=INTRODUCTION,
    items={
        "edgesp_fig5": "devices",
        "edgesp_fig6": "communication",
        "edgesp_fig7": "targets",
        "edgesp_rules": "rules",
        "edgesp_zeta": "rules",
    },
    exact=("edgesp_fig7",),
    folder="edgesp",
)
