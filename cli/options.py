"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DesignFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder of a design, as `fluidb dse -o DIR` writes it.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON (docs/file-formats.md) and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an output that exists.")]
