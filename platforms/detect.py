"""The files of other tools that become platforms, and how each is known."""

from __future__ import annotations

from pathlib import Path

from ..formats import read_text
from ..formats.files import check_import
from . import triton
from .blocks import HAT, ONCE_FOR_ALL, PROXYLESS, block_tool

FPGACONVNET, ATHEENA, TIMES = "fpgaConvNet", "ATHEENA", "times of stages"

BLOCK_TOOLS = {ONCE_FOR_ALL, PROXYLESS, HAT}

READ = (
    f"a board of {FPGACONVNET} (TOML) or {ATHEENA} (JSON), {TIMES} (CSV: stage, batch, seconds), "
    f"times of loads of {' or '.join(table.tool for table in triton.TABLES)} (CSV), or times of blocks of "
    f"{ONCE_FOR_ALL} or {PROXYLESS} (YAML, JSON, CSV) or {HAT} (CSV)"
)
"""What is read, for people."""


def detect(path: Path) -> str:
    """The tool of a file that is to become a platform, by what it holds; :data:`TIMES` for our own form."""
    check_import(path)
    tool, header = block_tool(path), triton.header_of(path)
    table = triton.table_of(header)
    if tool is not None or table is not None:
        return tool or (table.tool if table else "")
    if path.suffix.lower() == ".csv" or {"stage", "batch", "seconds"} <= set(header):
        return TIMES
    return ATHEENA if read_text(path).lstrip().startswith("{") else FPGACONVNET
