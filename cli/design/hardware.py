"""``fluidb hardware``: the RTL of a design, and tables for its software."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..options import AsJson, DesignFolder, Force, written
from ..render import facts, show


def command(
    directory: DesignFolder,
    output: Annotated[Path, written("The folder to write.")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a design as hardware: SystemVerilog, control block, C header.

    The engine runs each product in the cycles that the design's latency table counts
    (a design by --overlap ideal or paper has none), and the Fluid Batching Engine
    tells how to run each layer and batch. README.md in the folder says how to simulate
    and use both (`fluidb docs hardware`).
    """
    from ...dse.npu.hardware import write_hardware

    files = write_hardware(directory, output, replace=force)
    record = {"output": output, "files": files}
    then = f"; next: how to simulate and instantiate it stands in {output / 'README.md'}"
    show(as_json, "fluidb.hardware-output/2", record, [facts(("file", str(file)) for file in files)], output, then)
