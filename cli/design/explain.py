"""``fluidb explain``: the folder's content decides on the explanation."""

from __future__ import annotations

import typer

from ..declare import refuse_others
from ..options import AsJson, DesignFolder, PictureOptions
from .explanations.design import DesignExplainOptions
from .explanations.partition import PartitionExplainOptions
from .explanations.subgraphs import SubGraphExplainOptions


def command(
    ctx: typer.Context,
    directory: DesignFolder,
    design: DesignExplainOptions,
    partition: PartitionExplainOptions,
    subgraphs: SubGraphExplainOptions,
    picture: PictureOptions,
    *,
    as_json: AsJson = False,
) -> None:
    """Explain the time of a design or of a partition.

    For a design, the command prints for every layer and batch size the MACs, the padding and
    the waiting for memory; the chosen k and B_R and the next best; the loss under one fixed
    configuration; and the designs that came next. --plot draws roofline, causes and
    utilisation. `fluidb docs npu` reads an example. For SubGraphs, it prints the layers of a
    SubNet with and without what is resident (`fluidb docs sushi`).

    For a partition over a cluster, it prints the rows of each block by device, the rows that
    are computed twice, waiting times, and the bytes on each link (`fluidb docs edgesp`). --plot
    draws rows by device over the depth.
    """
    from ...tables.files import DESIGN_FILE, PARTITION_FILE, SUBGRAPHS_FILE

    explanations: dict[str, DesignExplainOptions | SubGraphExplainOptions | PartitionExplainOptions] = {
        DESIGN_FILE: design,
        SUBGRAPHS_FILE: subgraphs,
        PARTITION_FILE: partition,
    }
    chosen = next((explanation for file, explanation in explanations.items() if (directory / file).exists()), design)
    refuse_others(ctx, chosen, explanations.values(), str(directory))
    picture.check()
    chosen.run(directory, picture, as_json=as_json)
