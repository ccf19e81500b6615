"""The explanations of `fluidb explain`, one module for each kind of folder, and options that several of them have."""

from typing import Annotated

from ...declare import option

Layer = Annotated[
    str | None,
    option("Explain one layer: every batch size and every (k, B_R), or the rows of its block in a partition.", "NAME"),
]
Top = Annotated[int, option("Layers to list, the slowest first.", min=1, max=100_000)]
