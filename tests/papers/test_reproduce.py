"""The paper reproduced: what results/ holds is what the command gives, and its page is made of its tables."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from builders import COMPILED, Run, lines, result_rows
from fluidb.formats import InputError
from fluidb.papers import PAPERS, select
from fluidb.papers.fluid_batching import PAPER, PUBLISHED
from fluidb.papers.lab import Lab
from fluidb.papers.pictures import draw
from fluidb.papers.report import KEPT, _claims, _table, check_results, content, write_results
from fluidb.papers.rows import Claim, Item, Row
from fluidb.plots import save

RESULTS = Path(__file__).parents[2] / "results"
BASES = {"calibrated", "given", "assumed", "predicted"}
OF = {name: paper for paper in PAPERS for name in paper.items}
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
    return Row(**texts, **numbers)


def test_difference_is_in_percent_or_in_points():
    assert [row.difference for row in SAMPLE.rows] == [pytest.approx(10.0), pytest.approx(1.0)]
    assert Row("q", "o", "a", "ms", 1.0).difference is None


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_the_page_is_made_of_the_tables_beside_it(paper):
    """The page shows every item, with the rows and statements of its CSV, and nobody edited them."""
    folder = RESULTS / paper.folder
    page = (folder / "README.md").read_text().splitlines()
    for name in paper.items:
        rows = result_rows(folder, name)
        if stated := "statement" in rows[0]:
            claims = [Claim(**{**row, "holds": row["holds"] == "True"}) for row in rows]
            wanted = _claims(claims)
        else:
            wanted = _table([row_of(row) for row in rows if not row["x"]])[2:]
            assert all(row["basis"] in BASES for row in rows if row["paper"] or paper is PAPER)
        assert [line for line in wanted if line not in page] == [], name
        assert (folder / f"{name}.svg").exists() != stated


def test_fluid_batching_comes_within_ten_percent_and_two_points_of_table_two():
    table = rows(RESULTS, "table2")
    for line in PUBLISHED["table2"]:
        latency, late = (table[quantity, "FluidB", line["case"], ""] for quantity in ("mean latency", "violations"))
        assert float(latency["paper"]) == line["FluidB"]["mean_ms"]
        assert abs(float(latency["difference"])) < 10
        assert abs(float(late["difference"])) < 2


def test_what_chose_a_parameter_of_fluid_batching_is_no_prediction():
    """Heads, exits, pooling traffic and bandwidths were chosen by these figures; a scheduler call has no source."""
    bases = {(row["of"], row["basis"]) for row in result_rows(RESULTS, "table2")}
    assert bases == {
        ("FluidB", "calibrated"), ("LazyBatching", "assumed"), ("LazyBatching to FluidB", "assumed"),
        ("LazyBatching less FluidB", "assumed"), ("geometric mean", "assumed"), ("mean", "assumed"),
    }  # fmt: skip
    designs = result_rows(RESULTS, "table1")
    assert {row["basis"] for row in designs if row["of"] == "search"} == {"calibrated"}
    assert {row["basis"] for row in designs if row["quantity"] == "LUTs"} == {"calibrated"}
    claims = {row["statement"]: row["basis"] for row in result_rows(RESULTS, "claims")}
    chosen = ("FBCB's share of registers", "A batch of 16", "FluidB sustains more than")
    assert {basis for said, basis in claims.items() if said.startswith(chosen)} == {"calibrated"}
    for name in ("fig7", "fig8", "fig9"):
        assert {(row["of"] == "LazyBatching", row["basis"]) for row in result_rows(RESULTS, name)} == {
            (True, "assumed"), (False, "predicted")
        }  # fmt: skip
    assert "othing was fitted" not in (RESULTS / "README.md").read_text()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """One seed of every experiment; its designs are kept."""
    return Lab(tmp_path_factory.mktemp("kept"), seeds=1)


SEEDS = 3.0
"""The farthest that one of eight seeds can be from their mean, in half-widths of its 95 % interval: (8 - 1) / 2.365."""

OF_TWENTY = {"built": 19 / 2.093}
"""The same of items whose scenario has twenty seeds: (20 - 1) / 2.093."""

FREE = {"pame_fig16": ", before"}
"""Items with only some rows that come from each seed alone: the load of Fig. 16 is set by the mean over all of them."""


PARTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "hardware_shapes": ("hardware.boards", "NETWORKS", ("mobilenet_v2",)),
    "hardware_pixels": ("hardware.boards", "FEW", ("mobilenet_v2",)),
    "sensitivity": (
        "fluid_batching.assumptions", "SENSITIVITY",
        ("bandwidth -20 %", "exit rates +20 %", "heads: pool, linear", "heads twice as wide", "scheduler call 100 us"),
    ),
    "edgesp_zeta": ("edgesp.rules", "NETWORKS", ("AlexNet-32", "ResNet-50-224")),
    "built": ("fluid_batching.built", "TIMES", ("as built",)),  # other items have the paper's words
}  # fmt: skip
"""Items that take long: where their inputs stand, and some of them. The test computes the rows of these."""


@full_size
@pytest.mark.parametrize("name", OF)
def test_every_row_of_results_is_what_its_code_computes(lab: Lab, name: str, monkeypatch: pytest.MonkeyPatch):
    """What is not drawn to five digits, and what is drawn within what one of its seeds allows."""
    folder = RESULTS / OF[name].folder
    page, kept = (folder / "README.md").read_text(), result_rows(folder, name)
    if name in PARTS:
        where, constant, some = PARTS[name]
        module = import_module(f"fluidb.papers.{where}")
        every = getattr(module, constant)
        fewer = (
            {key: value for key, value in every.items() if {key, value} & {*some}} if isinstance(every, dict) else some
        )
        monkeypatch.setattr(module, constant, fewer)
        kept = [
            row for row in kept if any(row[key].startswith(some) or row[key].endswith(some) for key in ("of", "at"))
        ]
    item = OF[name].reproduce(name, lab)
    for claim in item.claims:
        assert f"| {claim.statement} | {claim.section} |" in page
    if not item.rows:
        return
    for record, cells in zip(content(item)["rows"], kept, strict=True):
        fixed = record.keys() & {"quantity", "of", "at", "unit", "paper", "x", "basis"}
        texts = {key: "" if record[key] is None else str(record[key]) for key in fixed}
        assert {key: cells[key] for key in fixed} == texts
    for row, mean in zip(item.rows, map(row_of, kept), strict=True):
        if row.quantity.endswith(FREE.get(name, "")):
            wide = (
                0.0
                if mean.low is None or mean.high is None
                else OF_TWENTY.get(name, SEEDS) * (mean.high - mean.low) / 2
            )
            assert row.ours == pytest.approx(mean.ours, rel=2e-5, abs=wide + 1e-12), row


FEW = ("claims", "batchcond_fig8", "pame_fig9", "pame_fig12", "pame_fig15", "pame_fig16", "pame_fig18", "sushi_fig15",
       "sushi_fig17", "sushi_hits", "sushi_queue")  # fmt: skip
"""Items with statements about what is drawn."""


@full_size
def test_two_requests_are_too_few_for_statements_and_enough_for_rows(lab: Lab):
    """No item breaks, and what cannot be known is told."""
    found = {name: OF[name].reproduce(name, Lab(lab.folder, requests=2, seeds=1)) for name in FEW}
    assert all(value.rows or value.claims for value in found.values())
    assert "not known" in {claim.ours for claim in found["claims"].claims}


@full_size
@pytest.mark.parametrize("name", ["edgesp_fig7", "edgesp_fig6", "sushi_table3", "sushi_fig10", "pame_fig7"])
def test_a_picture_of_each_kind_is_drawn(tmp_path: Path, name: str):
    save(draw(OF[name].reproduce(name, Lab(requests=130, seeds=1)), OF[name].looks), tmp_path / "p.svg", replace=True)
    assert (tmp_path / "p.svg").stat().st_size > 1000


STATED = {
    "the log is drawn, not the paper's",
    "the paper blames other users of the server's memory, which we do not model",
    "the paper does not say how the CPU was programmed; we compare the ratio of the two bars instead",
    "the DPU is closed: we know neither its layout of a layer nor its compiler's schedule, and model neither",
    "the longest sentences come together",
    "with predictions as good as the CNN's, the steps decide the time",
    "not with every seed",
}
"""Reasons that hold whatever comes out."""


def test_reasons_are_computed():
    """A reason that is typed in says the same after its figures have changed."""
    typed = set()
    for path in (RESULTS.parent / "papers").glob("*/*.py"):
        tree = ast.parse(path.read_text())
        named = {
            target.id: node.value
            for node in tree.body if isinstance(node, ast.Assign)
            for target in node.targets if isinstance(target, ast.Name)
        }  # fmt: skip
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Claim":
                for reason in [*node.args[5:6], *(item.value for item in node.keywords if item.arg == "reason")]:
                    text = named.get(reason.id) if isinstance(reason, ast.Name) else reason
                    if isinstance(text, ast.Constant):
                        typed.add(text.value)
    assert typed <= STATED


@full_size
def test_a_reduced_reproduction_says_so_and_goes_on(fluidb: Run, tmp_path: Path):
    done = fluidb("reproduce", "table1", "edgesp_fig7", "--count", 2, "--seeds", 1, "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "- REDUCED, requests of a run: 2" in (tmp_path / "out" / "README.md").read_text()
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    again = fluidb("reproduce", "table1", "edgesp_fig7", "--count", 2, "--seeds", 1, "-o", "out")
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
    (line,) = lines(fluidb("reproduce", "table1", "-o", "mine"))
    assert "mine: exists already and is no folder of `fluidb reproduce`" in line
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["README.md"]


def test_unknown_item(fluidb: Run):
    done = fluidb("reproduce", "table9")
    assert done.returncode == 2
    papers = ", ".join(paper.name for paper in PAPERS)
    expected = (
        f"fluidb: expected all, a paper ({papers}), one of its items, e.g. {next(iter(PAPERS[0].items))}, "
        "or a folder with a paper of your own, found "
    )
    assert done.stderr.startswith(f'{expected}"table9"; did you mean ')


MINE = """
from ...papers.paper import Paper
PAPER = Paper(name="mine", package=__name__, title="# Mine", introduction="", items={"one": "items", "two": "items"},
              folder="mine")
"""
MY_ITEMS = """
from ..rows import Item, Row

def one(lab):
    return Item("one", "First", [], [Row("speed", "ours", "here", "x", 1.0)])

def two(lab):
    return Item("two", "Second", [], [Row("speed", "ours", "here", "x", 2.0)])

table1 = one
"""


def write_paper(folder: Path, init: str = MINE) -> None:
    folder.mkdir()
    (folder / "__init__.py").write_text(init)
    (folder / "items.py").write_text(MY_ITEMS)


def test_a_paper_of_the_users_own_is_a_folder_anywhere(fluidb: Run, tmp_path: Path):
    write_paper(tmp_path / "my-paper.v2")

    def items(*words: str) -> list[str]:
        done = fluidb("reproduce", *words, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        return [item["item"] for item in json.loads(done.stdout)["items"]]

    assert items("my-paper.v2") == ["one", "two"]
    assert items("./my-paper.v2:two") == ["two"]
    assert items(str(tmp_path / "my-paper.v2:one"), str(tmp_path / "my-paper.v2:two")) == ["one", "two"]
    assert items("table1", "my-paper.v2:one", "./my-paper.v2:two") == ["table1", "one", "two"]
    for name in ("one", "two", "one"):  # the folder of results is known again
        assert fluidb("reproduce", f"my-paper.v2:{name}", "-o", "out").returncode == 0
    assert fluidb("reproduce", "table1", "-o", "out").returncode == 0
    assert {"one.csv", "two.csv"} < {path.name for path in (tmp_path / "out" / "mine").iterdir()}


def test_papers_of_the_same_folder_name_are_two(fluidb: Run, tmp_path: Path):
    for place, item in (("a", "one"), ("b", "two")):
        (tmp_path / place).mkdir()
        about = f'name="{place}", package=__name__, title="", introduction="", items={{"{item}": "items"}}'
        write_paper(tmp_path / place / "mine", f"from ..paper import Paper\nPAPER = Paper({about})")
        (tmp_path / place / "mine" / "items.py").write_text(MY_ITEMS.replace("ours", place))
    found = json.loads(fluidb("reproduce", "a/mine", "b/mine", "--json").stdout)["items"]
    assert [(item["item"], item["rows"][0]["of"]) for item in found] == [("one", "a"), ("two", "b")]


@pytest.mark.parametrize("word", ["table1", "batchcond"])
def test_a_shipped_name_is_not_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str):
    """``fluidb reproduce pame`` in ``papers`` of a checkout."""
    monkeypatch.chdir(tmp_path)
    before = select([word])
    write_paper(tmp_path / word, "1/0")
    assert select([word]) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "mine, items.py, line 1: could not be loaded: ZeroDivisionError: division by zero"),
        ("1 /", "mine: could not be loaded: SyntaxError: invalid syntax (items.py, line 1)"),
        ("raise SystemExit", "mine, items.py, line 1: could not be loaded: SystemExit: "),
        (MY_ITEMS.replace("def two", "def three"), "/mine/items.py: expected a function named two, found none"),
    ],
)
def test_a_broken_module_of_a_paper_is_one_line(fluidb: Run, tmp_path: Path, text: str, said: str):
    write_paper(tmp_path / "mine")
    (tmp_path / "mine" / "items.py").write_text(text)
    (line,) = lines(fluidb("reproduce", "mine", "-o", "out"))
    assert said in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("init", "word", "said"),
    [
        ("1 / 0", "mine", "mine, __init__.py, line 1: could not be loaded: ZeroDivisionError: division by zero"),
        ("x = 1 /", "mine", "mine: could not be loaded: SyntaxError: invalid syntax (__init__.py, line 1)"),
        ("", "mine", "mine/__init__.py: expected a Paper named PAPER, found none"),
        (MINE.replace('"one"', '"table1"'), "mine", 'expected every name of a paper or item once, found "table1"'),
        (MINE, "mine:three", 'or a folder with a paper of your own, found "three"; see `fluidb docs extend`'),
        (MINE, "mine2", 'or a folder with a paper of your own, found "mine2"; see `fluidb docs extend`'),
    ],
)
def test_a_folder_that_is_no_paper(fluidb: Run, tmp_path: Path, init: str, word: str, said: str):
    write_paper(tmp_path / "mine", init)
    (line,) = lines(fluidb("reproduce", word))
    assert said in line


@full_size
def test_json_of_a_table(fluidb: Run):
    record = json.loads(fluidb("reproduce", "table1", "--json").stdout)
    assert record["schema"] == "fluidb.reproduce-output/1"
    (item,) = record["items"]
    assert [row["ours"] for row in item["rows"][:3]] == [4652, 7, 128]


def test_lab_reduces_a_scenario():
    scenario = Lab(requests=50, seeds=2).scenario("table2")
    assert (scenario.file.seeds, {point.requests for point in scenario.points}) == ([0, 1], {50})
