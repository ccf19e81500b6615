"""``fluidb explain``: what the folder holds decides what is explained."""

from __future__ import annotations

import typer

from ..options import AsJson, DesignFolder, Picture, refuse_others
from .explanations.design import DesignExplanation
from .explanations.subgraphs import SubGraphExplanation


def command(
    ctx: typer.Context,
    directory: DesignFolder,
    design: DesignExplanation,
    subgraphs: SubGraphExplanation,
    picture: Picture,
    *,
    as_json: AsJson = False,
) -> None:
    """Say where a design's time goes and what other choices cost.

    Of every layer and batch size: MACs, padding, waiting for memory; the chosen
    k and B_R and the next best; the loss under one fixed configuration; the
    designs that came next. --plot draws roofline, causes and utilisation.
    `fluidb docs explain` reads an example. Of SubGraphs: the layers of a SubNet with
    and without what is resident (`fluidb docs sushi`).
    """
    from ...tables.latency import DESIGN_FILE, SUBGRAPHS_FILE

    explanations: dict[str, DesignExplanation | SubGraphExplanation] = {DESIGN_FILE: design, SUBGRAPHS_FILE: subgraphs}
    chosen = next((item for file, item in explanations.items() if (directory / file).exists()), design)
    refuse_others(ctx, chosen, explanations.values(), str(directory))
    picture.check()
    chosen.run(directory, picture, as_json=as_json)
