"""Each number of the engine stands once: in ``dse/engine.py``, from which the files of the RTL have it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from builders import ROOT
from fluidb.dse import engine
from fluidb.dse.hardware.commands import NpuFault
from fluidb.dse.hardware.templates import ENGINE, RTL, filled

PACKAGE, BENCH = "engine_pkg.sv", "memory.hpp"
SHOWN = {
    "WORD_BITS": {PACKAGE, BENCH}, "SUM_BITS": {PACKAGE}, "NUMBER_BITS": {PACKAGE, BENCH}, "SIZE_BITS": {PACKAGE},
    "START": {PACKAGE}, "IN_FLIGHT": {PACKAGE}, "ROW_CYCLES": {PACKAGE}, "DRAIN": {PACKAGE},
    "WRITE_DELAY": {PACKAGE, BENCH}, "FLIGHT_BITS": {PACKAGE}, "BEAT_BITS": {PACKAGE}, "RESET_CYCLES": {PACKAGE},
    "RECORD_WORDS": {PACKAGE}, "AHEAD_BITS": {PACKAGE}, "MOVE_BITS": {PACKAGE},
    "CODE_BITS": {PACKAGE}, "BLOCKS_BITS": {PACKAGE}, "ROWS_BITS": {PACKAGE},
}  # fmt: skip
"""Files of the RTL that state each number; the others are of the model and of jobs only."""
OF_MODEL_ONLY = {"MOST", "LAYER_START", "PREPARE", "ADD_START", "AHEAD"}
SIZES: dict[str, Any] = {"T_R": 16, "T_P": 2, "T_C": 3, "V": 1, "W": 4, "S": 2}


def written() -> dict[str, str]:
    return {PACKAGE: filled(PACKAGE, **SIZES), BENCH: filled(BENCH)}


@pytest.mark.parametrize("name", SHOWN)
def test_a_number_of_the_engine_shows_in_the_files_that_need_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = written()
    value = getattr(engine, name)
    monkeypatch.setattr(engine, name, 7919)
    after = written()
    assert {file for file in before if before[file] != after[file]} == SHOWN[name]
    for file in SHOWN[name]:
        new = [line for line in after[file].splitlines() if line not in before[file].splitlines()]
        assert new
        assert all("7919" in line and re.search(rf"{value}", line.replace("7919", str(value))) for line in new)


def test_every_number_of_the_engine_is_one_of_these() -> None:
    assert {name for name in vars(engine) if name.isupper()} == SHOWN.keys() | OF_MODEL_ONLY


def test_the_page_has_the_code_of_every_fault() -> None:
    page = (ROOT / "docs" / "hardware.md").read_text(encoding="utf-8")
    matches = re.findall(r"^\| (\d+) `([A-Z]+)` \|", page, re.MULTILINE)
    assert matches == [(str(fault.value), fault.name) for fault in NpuFault if fault]


def modules() -> list[Path]:
    return [path for folder in ("npu", "integers", "hardware") for path in sorted((ROOT / "dse" / folder).glob("*.py"))]


@pytest.mark.parametrize("path", modules(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_other_module_states_a_number_of_the_engine(path: Path) -> None:
    """By its name, or as the literals 48, 2**15 and 2**16."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assigned = (node for statement in tree.body if isinstance(statement, ast.Assign) for node in ast.walk(statement))
    bound = {node.id for node in assigned if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    assert not bound & {name for name in vars(engine) if name.isupper()}
    powers = (node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow))
    assert not {ast.unparse(node) for node in powers} & {"2 ** 14", "2 ** 15", "2 ** 16", "2 ** 32", "2 ** 48"}
    numbers = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not numbers & {48, 2**15, 2**16 - 1, 2**16, 2**32}


WIDTHS = (
    r"\[\s*(\d+)\s*:",  # a range, from its highest bit
    r"[+-]:\s*(\d+)\s*\]",  # a part
    r"\{\s*(\d+)\s*\{",  # a repetition
    r"(?<!\w)(\d+)'",  # a cast, or a number with its size
)
"""Numbers that say how wide something is."""
OF_ENGINES = {"15", "16", "17", "31", "32", "47", "48", "64", "128"}


def literal_widths(text: str) -> list[str]:
    """Widths of more than two bits that a module states as numbers, and numbers that are the engine's."""
    code = re.sub(r"//.*", "", text)
    widths = [match[0] for pattern in WIDTHS for match in re.finditer(pattern, code) if int(match[1]) > 2]
    return widths + [number for number in re.findall(r"\b\d+\b", code) if number in OF_ENGINES]


@pytest.mark.parametrize("path", [*sorted(ENGINE.glob("*.sv")), *(RTL / f"{n}.sv" for n in ("npu", "fbe", "fbcb"))],
                         ids=lambda path: path.name)  # fmt: skip
def test_no_module_of_the_rtl_states_a_width(path: Path) -> None:
    """The packages state all."""
    assert literal_widths(path.read_text(encoding="utf-8")) == []


def test_a_width_is_seen() -> None:
    for code in ("logic [15:0] a;", "x[i*WORD+:16]", "{16{sign}}", "32'(a)", "4'sd1", "a * 48", "1 << 15"):
        assert literal_widths(f"  {code}  // 12'b0") != []
