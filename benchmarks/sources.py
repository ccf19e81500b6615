"""Digest of the sources that ``make bench`` measures; as a script, it refuses results of other sources.

Comments, docstrings and layout change no time, so they do not change the digest.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fluidb import jit

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"

BESIDE = (
    "dse/npu/evaluation.py",
    "dse/npu/search.py",
    "dse/npu/space.py",
    "dse/partition/search.py",
    "dse/subgraphs/search.py",
    "rules/exit_choice.py",
    "rules/exit_log.py",
    "rules/exit_thresholds.py",
    "rules/exit_times.py",
    "serving/adaptation.py",
    "serving/case.py",
    "serving/evidence.py",
    "serving/fits.py",
    "serving/judgement.py",
    "serving/play.py",
    "serving/replay.py",
)
"""Files that call the compiled functions, or are measured themselves."""

APART = (
    "bitstream", "board", "board_system", "clock", "compare", "dram", "dram_controller", "dram_network", "http_client",
    "http_clients", "http_cost", "http_flood", "http_litserve", "http_load", "http_locust", "http_plain", "intervals",
    "loadgen", "lut4", "measure", "pages", "ratios", "slack_grid", "sources", "synthesis", "tables",
)  # fmt: skip
"""Scripts of this folder on which no time depends."""


def measured() -> list[Path]:
    """The files that times depend on: those with compiled functions, those beside them, and what measures."""
    own = [path for path in HERE.glob("*.py") if path.stem not in APART]
    return sorted([*jit.sources(), *(HERE.parent / name for name in BESIDE), *own, HERE / "search.c"])


def digest(paths: Iterable[Path]) -> str:
    """SHA-256 of files by their names and contents, of Python its statements."""
    hashed = hashlib.sha256()
    for path in paths:
        text = path.read_text()
        content = repr(_statements(ast.parse(text))) if path.suffix == ".py" else text
        hashed.update(f"{path.name}\0{content}\0".encode())
    return hashed.hexdigest()


def _statements(node: Any) -> Any:
    """A syntax tree as nested lists, alike in every version of Python, without the strings that nothing uses."""
    if isinstance(node, list):
        return [_statements(part) for part in node if not _is_text(part)]
    if not isinstance(node, ast.AST):
        return node
    fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
    return [type(node).__name__, *((name, _statements(value)) for name, value in fields)]


def _is_text(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def main() -> int:
    """Return 1, and say what to do, if the tables are of other sources."""
    if json.loads(RESULTS.read_text()).get("sources_sha256") == digest(measured()):
        return 0
    said = "expected times of these sources, found those of others"
    print(f"benchmarks/{RESULTS.name}: {said}; run `make bench` (ten minutes, on an idle machine)", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
