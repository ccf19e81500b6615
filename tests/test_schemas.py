"""JSON Schema of outputs: every golden output fits, and an output that differs does not."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import POCKET, ROOT, TINY, Run, lines, supernet_table
from fluidb.formats import write_table
from fluidb.models import NETWORKS
from fluidb.platforms import PLATFORMS
from jsonschema import Draft202012Validator, ValidationError
from schemas import FOLDER, check_output, file_of, widened

BELOW = ("items", "additionalProperties")
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.json"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_outputs_fit_their_schemas(path: Path) -> None:
    check_output(json.loads(path.read_text()))


@pytest.mark.parametrize("name", PLATFORMS.names())
def test_every_platform_that_ships_fits_the_schemas(fluidb: Run, name: str) -> None:
    for command in (["show", name], ["check", PLATFORMS.find(name)]):
        check_output(json.loads(fluidb("platforms", *command, "--json").stdout))


@pytest.mark.parametrize("name", NETWORKS.names())
def test_every_network_that_ships_fits_the_schema(fluidb: Run, name: str) -> None:
    check_output(json.loads(fluidb("models", "show", name, "--json").stdout))


RARE = {
    "no answer": ["serve-sim", "one", "--trace", "t.csv", "--slo", "1ns", "--admit", "in_time"],
    "clients and thresholds": [
        "thresholds", "one", "--clients", 2, "--count", 20, "--slo", "1s", "--samples", "s.csv", "--thresholds", "0.5",
    ],
    "one rate grows": [
        "capacity", "own.toml", "--grow", "b", "--rate", "5..20", "--seeds", 2, "--require", "mean[b] <= 1s",
    ],
    "no limit of T_C": ["dse", TINY, "zc706", "--b-max", 1],
    "a limit of W": ["dse", TINY, "pynq-z1", "--b-max", 2],
    "a board without energies": ["dse", TINY, "pocket.toml,ulx3s", "--b-max", 1, "-o", "both"],
    "an engine, not written": ["dse", TINY, "nvdla-2048"],
    "no labels": ["quantise", "digits", "--inputs", "x.npz", "-o", "integers"],
    "accuracy asked for": ["report", "subnets", "--trace", "asked.csv", "--slo", "1s", "-o", "page.html"],
    "no accuracy asked for": ["report", "subnets", "bare", "--trace", "t.csv", "--slo", "1s", "-o", "page.html"],
}  # fmt: skip
"""Commands whose outputs have null, or lack a key, where most others have a value."""

OWN = """
schema = "fluidb.networks/1"
duration = "20s"
networks = [
  { name = "a", table = "one", slo = "1s", fps = 5 },
  { name = "b", table = "one", slo = "1s", rate = 5 },
]
"""
SAMPLES = "confidence_1,confidence_2,correct_1,correct_2,correct_3\n0.4,0.6,0,1,1\n0.7,0.8,1,1,1\n"


@pytest.mark.parametrize("command", RARE.values(), ids=RARE)
def test_rare_outputs_fit_their_schemas(fluidb: Run, tmp_path: Path, tiny_design: Path, command: list[object]) -> None:
    (tmp_path / "one").symlink_to(tiny_design)
    (tmp_path / "pocket.toml").write_text(Path(POCKET).read_text())
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "s.csv").write_text(SAMPLES)
    fluidb("trace", "poisson", "--rate", 10, "--count", 20, "-o", "t.csv")
    fluidb("trace", "add", "t.csv", "--min-accuracy", "0.6", "-o", "asked.csv")
    np.savez(tmp_path / "x.npz", image=np.random.default_rng(0).random((2, 1, 8, 8), np.float32))
    nets = [[1e-3, 1e-3], [2e-3, 1e-3]], [0.7, 0.8], [[1, 1], [2, 2]], [[0, 0], [1, 1]]
    known = {
        "hit_ratio": [[0.0, 0.0], [1.0, 0.5]],
        "off_chip_bytes": [[4e6, 9e6], [2e6, 7e6]],
        "joules_per_byte": 1e-10,
    }
    for folder, more in (("subnets", known), ("bare", {})):
        (tmp_path / folder).mkdir()
        write_table(supernet_table(*nets, **more), tmp_path / folder / "latency.json")
    done = fluidb(*command, "--json")
    assert done.returncode == 0, done.stderr
    check_output(json.loads(done.stdout))


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
    (line,) = lines(fluidb("docs", "fluidb.serve-sim-output/2"))
    assert "did you mean fluidb.serve-sim-output/1" in line
