"""The paper reproduced: what results/ holds is what the command gives, and its page is made of its tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import COMPILED, Run, result_rows
from fluidb.formats import InputError
from fluidb.papers import PAPERS
from fluidb.papers.fluid_batching import PAPER, PUBLISHED
from fluidb.papers.lab import Lab
from fluidb.papers.report import KEPT, _claims, _table, check_results, write_results
from fluidb.papers.rows import Claim, Item, Row

RESULTS = Path(__file__).parents[2] / "results"
BASES = {"calibrated", "given", "predicted"}
full_size = pytest.mark.skipif(not COMPILED, reason="searches the paper's boards; run compiled")

SAMPLE = Item(
    "table2", "A table", ["a note"],
    [
        Row("mean latency", "FluidB", "somewhere", "ms", 110.0, 100.0, 120.0, 100.0),
        Row("share", "x", "y", "%", 51.0, paper=50.0),
    ],
    picture="bars",
)  # fmt: skip


def rows(folder: Path, name: str) -> dict[tuple[str, ...], dict[str, str]]:
    return {tuple(row[key] for key in ("quantity", "of", "at", "x")): row for row in result_rows(folder, name)}


def row_of(cells: dict[str, str]) -> Row:
    """A row of an item, read from its CSV."""
    numbers = {key: float(cells[key]) if cells[key] else None for key in ("ours", "low", "high", "paper", "x")}
    texts = {key: cells.get(key, "") for key in ("quantity", "of", "at", "unit", "basis")}
    return Row(**texts, **numbers)  # type: ignore[arg-type]


def test_difference_is_in_percent_or_in_points():
    assert [row.difference for row in SAMPLE.rows] == [pytest.approx(10.0), pytest.approx(1.0)]
    assert Row("q", "o", "a", "ms", 1.0).difference is None


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_the_page_is_made_of_the_tables_beside_it(paper):
    """The page shows every item, with the rows and statements of its CSV, and nobody edited them."""
    folder = RESULTS / paper.folder
    page = (folder / "README.md").read_text().splitlines()
    for name in paper.items:
        found = result_rows(folder, name)
        if stated := "statement" in found[0]:
            claims = [Claim(**{**row, "holds": row["holds"] == "True"}) for row in found]  # type: ignore[arg-type]
            wanted = _claims(claims)
        else:
            wanted = _table([row_of(row) for row in found if not row["x"]])[2:]
            if paper is not PAPER:  # the results of the first paper tell nothing of it
                bases = BASES - ({"given"} if paper.name == "edgesp" else set())
                assert all(row["basis"] in bases for row in found if row["paper"])
        assert [line for line in wanted if line not in page] == [], name
        assert (folder / f"{name}.svg").exists() != stated


def test_fluid_batching_comes_within_ten_percent_and_two_points_of_table_two():
    table = rows(RESULTS, "table2")
    for line in PUBLISHED["table2"]:
        latency, late = (table[quantity, "FluidB", line["case"], ""] for quantity in ("mean latency", "violations"))
        assert float(latency["paper"]) == line["FluidB"]["mean_ms"]
        assert abs(float(latency["difference"])) < 10
        assert abs(float(late["difference"])) < 2


@full_size
def test_a_reduced_reproduction_agrees_with_the_results_kept(fluidb: Run, tmp_path: Path):
    """Everything that needs no traffic to the digit; what does, within a reduced form's noise."""
    items = ("table1", "table2", "fig10")
    done = fluidb("reproduce", *items, "--count", 1000, "--seeds", 2, "-o", "out")
    assert done.returncode == 0, done.stderr
    for name in ("table1", "fig10"):
        kept, found = rows(RESULTS, name), rows(tmp_path / "out", name)
        assert kept.keys() == found.keys()
        for key, row in found.items():
            assert float(row["ours"]) == pytest.approx(float(kept[key]["ours"]), rel=1e-5)
    kept, found = rows(RESULTS, "table2"), rows(tmp_path / "out", "table2")
    assert kept.keys() == found.keys()
    for key, row in found.items():
        if key[0] == "mean latency":
            assert float(row["ours"]) == pytest.approx(float(kept[key]["ours"]), rel=0.25)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    again = fluidb("reproduce", "table1", "fig10", "--count", 1000, "--seeds", 2, "-o", "out")
    assert again.returncode == 0, again.stderr
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}


def test_an_item_renews_its_own_files_and_the_page(tmp_path: Path):
    write_results(tmp_path, PAPER, [SAMPLE], Lab())
    page = (tmp_path / "README.md").read_text()
    assert "| mean latency | FluidB | somewhere | 100 ms | 110 ±10 ms | +10.0 % |" in page
    claims = Item(
        "claims", "Claims", [], [], claims=[Claim("It flies", "IV", "1", "2", holds=False, reason="it does not")]
    )
    write_results(tmp_path, PAPER, [claims], Lab())
    page = (tmp_path / "README.md").read_text()
    assert "- It flies: 1 there, 2 here; it does not." in page
    assert "+10.0 %" in page
    assert not (tmp_path / "claims.svg").exists()
    check_results(tmp_path, PAPER, ["claims"])


def test_a_reproduction_that_was_stopped_before_its_page_goes_on(tmp_path: Path):
    def stopped() -> Iterator[Item]:
        yield SAMPLE
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_results(tmp_path, PAPER, stopped(), Lab(tmp_path / KEPT))
    (tmp_path / ".fluidb.0.part").write_text("half")
    check_results(tmp_path, PAPER, ["claims"])
    (tmp_path / "mine").touch()
    with pytest.raises(InputError, match="exists already"):
        check_results(tmp_path, PAPER, ["claims"])


def test_a_damaged_item_is_named(tmp_path: Path):
    write_results(tmp_path, PAPER, [SAMPLE], Lab())
    (tmp_path / KEPT / "table2.json").write_text("{")
    with pytest.raises(InputError, match=r"table2.json: damaged .* reproduce it again"):
        check_results(tmp_path, PAPER, ["table2"])


def test_a_page_loses_no_item_that_only_its_table_tells_of(tmp_path: Path):
    """As in a fresh clone, which has no folder of kept items."""
    write_results(tmp_path, PAPER, [SAMPLE], Lab())
    (tmp_path / KEPT / "table2.json").unlink()
    with pytest.raises(InputError, match=r"table2.csv: expected .* reproduce fluid-batching as a whole"):
        check_results(tmp_path, PAPER, ["fig10"])
    check_results(tmp_path, PAPER, ["table2", "fig10"])


def test_a_folder_of_something_else_is_left_alone(fluidb: Run, tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("# Mine")
    done = fluidb("reproduce", "table1", "-o", "mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert "mine: exists already and is no folder of `fluidb reproduce`" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["README.md"]


def test_unknown_item(fluidb: Run):
    done = fluidb("reproduce", "table9")
    assert done.returncode == 2
    papers = ", ".join(paper.name for paper in PAPERS)
    expected = (
        f"fluidb: expected all, a paper ({papers}) or one of its items, e.g. {next(iter(PAPERS[0].items))}, found "
    )
    assert done.stderr.startswith(f'{expected}"table9"; did you mean ')


@full_size
def test_everything_in_a_reduced_form_says_so_even_where_it_tells_nothing(fluidb: Run, tmp_path: Path):
    """Two requests are enough to make every item of every paper, and too few for its statements."""
    done = fluidb("reproduce", "all", "--count", 2, "--seeds", 1, "-o", "small")
    assert (done.returncode, done.stderr) == (0, "")
    for name in PAPER.items:
        assert (tmp_path / "small" / f"{name}.csv").exists()
    stated = [[row["statement"] for row in result_rows(folder, "claims")] for folder in (RESULTS, tmp_path / "small")]
    assert stated[0] == stated[1]
    page = (tmp_path / "small" / "README.md").read_text()
    assert "- REDUCED, requests of a run: 2" in page
    assert "not known" in page


@full_size
def test_json_of_a_table(fluidb: Run):
    record = json.loads(fluidb("reproduce", "table1", "--json").stdout)
    assert record["schema"] == "fluidb.reproduce-output/1"
    (item,) = record["items"]
    assert [row["ours"] for row in item["rows"][:3]] == [4652, 7, 128]


def test_lab_reduces_a_scenario():
    scenario = Lab(requests=50, seeds=2).scenario("table2")
    assert (scenario.file.seeds, {point.requests for point in scenario.points}) == ([0, 1], {50})
