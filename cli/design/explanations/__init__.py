"""The explanations of `fluidb explain`, one module for each kind of folder, and options that several of them have."""

from typing import Annotated

from ...options import option

Layer = Annotated[
    str | None,
    option("One layer: every batch size and every (k, B_R); of a partition, the rows of its block.", "NAME"),
]
Top = Annotated[int, option("Layers to list, by time.", min=1, max=100_000)]
