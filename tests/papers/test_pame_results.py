"""PAME reproduced: what results/pame holds, and every item in a reduced form."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import COMPILED, Run, result_rows
from fluidb.papers.lab import Lab
from fluidb.papers.pame import PAPER
from fluidb.papers.pictures import draw
from fluidb.papers.rows import Item, Row
from fluidb.plots import save

RESULTS = Path(__file__).parents[2] / "results" / "pame"
BASES = {"calibrated", "given", "predicted"}


def kept(name: str) -> dict[tuple[str, str, str], dict[str, str]]:
    """Rows of an item that stand beside the paper's."""
    return {(row["quantity"], row["of"], row["at"]): row for row in result_rows(RESULTS, name) if row["paper"]}


def test_what_the_reference_computed_comes_out():
    """Bands of the page that pins the paper down; the tests of the choice of exits have those of the choice."""
    latency = kept("pame_fig9")
    for task, quantity, low, high in (
        ("ImageNet", "change of the average, all n", -43, -39), ("ImageNet", "change of the tail, all n", -26, -22),
        ("GLUE", "change of the average, all n", -48, -44), ("GLUE", "change of the tail, all n", -40, -34),
    ):  # fmt: skip
        assert low <= float(latency[quantity, task, "mean"]["ours"]) <= high
    parallel = kept("pame_fig18")
    assert 26 <= float(parallel["throughput gain, all n", "serial", "mean"]["ours"]) <= 38
    gain = [float(parallel["throughput gain, all n", of, "mean"]["ours"]) for of in ("serial", "tau_b = 4")]
    assert 0 < gain[1] - gain[0] < 3
    assert float(parallel["slow samples, n = 16", "tau_b = 4", "ImageNet"]["ours"]) < 2
    exits = kept("pame_fig10")
    for n in (16, 32, 64):
        assert float(exits["first exit is H13", "ImageNet", f"n = {n}"]["ours"]) == 100


@pytest.mark.skipif(not COMPILED, reason="serves tens of thousands of requests; run compiled")
@pytest.mark.parametrize("name", ["pame_fig7", "pame_fig16"])
def test_a_reduced_item_is_drawn(tmp_path, name):
    item = PAPER.reproduce(name, Lab(requests=130, seeds=2))
    save(draw(item, {}), tmp_path / "picture.svg", replace=True)
    assert (tmp_path / "picture.svg").stat().st_size > 1000
    assert {row.basis for row in item.rows} <= {*BASES, ""}


def test_rows_with_and_without_an_axis_are_one_table(fluidb: Run):
    done = fluidb("reproduce", "pame_fig18", "--count", 130, "--seeds", 1)
    assert (done.returncode, done.stderr) == (0, "")
    assert "throughput gain, all n" in done.stdout
    assert "predicted" in done.stdout


def test_a_matrix_has_a_field_for_each_pair(tmp_path):
    rows = [Row("time", name, "net", "%", 10.0 * x, x=x) for name in ("H1", "H2") for x in (0.0, 1.0, 2.0)]
    save(draw(Item("m", "M", [], rows[:-1], "samples", picture="matrix"), {}), tmp_path / "m.svg", replace=True)
    text = (tmp_path / "m.svg").read_text()
    for word in ("H1", "H2", "samples", "time, %"):
        assert word in text
