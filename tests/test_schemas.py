"""JSON Schema of outputs: every golden output fits, and an output that differs does not."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from builders import ROOT, Run
from jsonschema import Draft202012Validator, ValidationError
from schemas import FOLDER, check_output, file_of, widened

BELOW = ("items", "additionalProperties")
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.json"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_outputs_fit_their_schemas(path: Path) -> None:
    check_output(json.loads(path.read_text()))


def test_every_output_has_a_schema() -> None:
    sources = "".join(path.read_text() for path in ROOT.glob("[!.tb]*/**/*.py"))
    names = set(re.findall(r'"(fluidb\.[a-z-]+-output/\d+)"', sources))
    assert {file_of(name) for name in names} == set(FOLDER.iterdir())
    page = (ROOT / "docs" / "file-formats.md").read_text()
    assert {name for name in names if name not in page} == set()
    for file in FOLDER.iterdir():
        Draft202012Validator.check_schema(json.loads(file.read_text()))


@pytest.mark.parametrize("change", ["unknown", "unknown below", "missing", "type"])
def test_an_output_that_differs_does_not_fit(change: str) -> None:
    output = json.loads((ROOT / "tests" / "golden" / "serve-sim.json").read_text())
    if change == "unknown":
        output["requests_"] = 1
    elif change == "unknown below":
        output["utilisation"]["other_share"] = 0.0
    elif change == "missing":
        del output["percentiles"]
    elif change == "type":
        output["requests"] = "400"
    with pytest.raises(ValidationError):
        check_output(output)


def test_a_schema_allows_what_it_was_made_from() -> None:
    """And no more: of two outputs, one without a key, another with null for a number."""
    one: dict[str, object] = {"schema": "s", "a": 1, "b": [{"x": 1}, {}], "kept": {"p99 <= 1 s": True}}
    two: dict[str, object] = {"schema": "s", "a": None, "c": 2.5, "b": [], "kept": {}}
    schema = widened(widened({}, one), two)
    for output in (one, two):
        Draft202012Validator(schema).validate(output)
    assert schema["required"] == ["a", "b", "kept", "schema"]
    assert schema["properties"]["a"]["type"] == ["integer", "null"]
    for wrong in ({"a": 0.5}, {"b": [{"x": "1"}]}, {"kept": {"any": 1}}, {"c": "2"}):
        with pytest.raises(ValidationError):
            Draft202012Validator(schema).validate(deepcopy(one) | wrong)


@pytest.mark.parametrize("name", ["fluidb.plan-output/2", "fluidb.hardware-output/2", "fluidb.reproduce-output/1"])
def test_every_key_is_described(name: str) -> None:
    """In the schemas that were written with the code beside them, and not only made from outputs."""

    def bare(schema: dict[str, Any]) -> list[str]:
        parts = [*schema.get("properties", {}).items(), *((key, schema[key]) for key in BELOW if key in schema)]
        own = [key for key, part in parts if key not in BELOW and "description" not in part and "const" not in part]
        return own + [key for _, part in parts if isinstance(part, dict) for key in bare(part)]

    assert bare(json.loads(file_of(name).read_text())) == []


def test_docs_prints_a_schema(fluidb: Run) -> None:
    done = fluidb("docs", "fluidb.serve-sim-output/1")
    assert done.stdout == file_of("fluidb.serve-sim-output/1").read_text()
    wrong = fluidb("docs", "fluidb.serve-sim-output/2")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean fluidb.serve-sim-output/1" in wrong.stderr
