"""``fluidb hardware``: the RTL of a design, and tables for its software."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...formats.display import as_word
from ..declare import option, written
from ..options import AsJson, DesignFolder, Force
from ..render import facts, show


def command(
    directory: DesignFolder,
    output: Annotated[Path, written("The folder to write.")],
    integers: Annotated[
        Path | None,
        option("The design's network in integers (`fluidb quantise`); its memory image is written, too.", "FILE"),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a design as hardware: SystemVerilog, control block, C header.

    DIR needs its latency table (`fluidb latency DIR`); the NPU takes exactly the cycles that
    the table counts. Its Fluid Batching Engine chooses how each layer and batch runs. A design
    by --overlap ideal or paper has no hardware. README.md in the folder says how to simulate
    and use it (`fluidb docs hardware`).
    """
    from ...dse.hardware.write import write_hardware

    files = write_hardware(directory, output, integers=integers, replace=force)
    record = {"output": output, "files": files}
    then = f"{as_word(output / 'README.md')} says how to simulate and instantiate it"
    show(as_json, "fluidb.hardware-output/2", record, [facts(("file", str(file)) for file in files)], output, then)
