"""The report: well-formed, self-contained, escaped, true to the other commands, and sound in a real browser."""

from __future__ import annotations

import csv
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import DATA, POCKET, TINY, Run, call_fluidb, everybody, lines, table_of, tool, write_deep
from chromium import Page
from fluidb.dse import read_design
from fluidb.dse.npu.design import DesignTable, write_design
from fluidb.dse.npu.fbcb import FbcbTable
from fluidb.plots.report import Report, ReportEntry, report_text
from fluidb.plots.report.charts import BusyTimes, ChartPoint, busy_until, draw_intervals, draw_strips, shares_up_to
from fluidb.plots.report.content import serve
from fluidb.serving import DeviceTraffic, find_policy, simulate
from fluidb.serving.networks import as_served
from fluidb.serving.policies import FOR_ONE_NETWORK
from fluidb.tables import read_latency
from fluidb.traffic import poisson, prepare, read_trace
from hypothesis import given
from hypothesis import strategies as st

VOID = {"meta", "br", "hr", "img", "input", "link"}
EVIL = """<script>hacked=1</script>"'&amp;<img src=x onerror=hacked=1>"""
"""What a name may hold to break out of a text or an attribute."""
CONTROLS = "\u202e\u0007\u001b[31m"
"""Right-to-left override, bell, a terminal's escape."""


class Node:
    """An element as an HTML parser sees it."""

    def __init__(self, tag: str, given: dict[str, str]) -> None:
        self.tag, self.given, self.children = tag, given, list[Node | str]()

    def all(self, tag: str | None = None) -> Iterator[Node]:
        for child in self.children:
            if isinstance(child, Node):
                if tag in (None, child.tag):
                    yield child
                yield from child.all(tag)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class Reader(HTMLParser):
    """Builds the tree, and takes no element that is closed out of turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.root = Node("root", {})
        self.open = [self.root]
        self.feed(page)
        self.close()
        assert self.open == [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(path: Path) -> Node:
    return Reader(path.read_text()).root


def tables(page: Node) -> dict[str, dict[str, list[str]]]:
    """Rows of every table by its caption: cells by the row's name, its headings under an empty one."""
    found = {}
    for table in page.all("table"):
        (caption,), (head, *rows) = table.all("caption"), table.all("tr")
        cells = {"": [cell.text for cell in head.all("th")]}
        for row in rows:
            (name,) = row.all("th")
            cells[name.text] = [cell.text for cell in row.all("td")]
        found[caption.text] = cells
    return found


def picture(page: Node, ident: str) -> Node:
    return next(svg for svg in page.all("svg") if svg.given["id"] == ident)


def of_class(node: Node, name: str) -> list[Node]:
    return [item for item in node.all() if name in item.given.get("class", "").split()]


def corners(node: Node) -> np.ndarray:
    """Points of a path of straight lines."""
    return np.array([[float(x), float(y)] for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", node.given["d"])])


@pytest.fixture(scope="session")
def report(tiny_design: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A report with everything in it, made in a folder of its own, and what was printed with --json."""
    return made_report(tiny_design, tmp_path_factory.mktemp("report"), rate=9000, count=500)


@pytest.fixture(scope="session")
def long_report(tiny_design: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A report of as many requests as intervals need."""
    return made_report(tiny_design, tmp_path_factory.mktemp("report"), rate=3500, count=6000)


def made_report(design: Path, folder: Path, rate: int, count: int) -> tuple[Path, dict[str, Any]]:
    (folder / "tiny").symlink_to(design)
    call_fluidb("trace", "poisson", "--rate", rate, "--count", count, "--seed", 2, "-o", "t.csv", cwd=folder)
    done = call_fluidb(
        "report", "tiny", "-o", "r.html", "--trace", "t.csv", "--slo", "400us", "--seed", 3, "--json", cwd=folder
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "r.html", json.loads(done.stdout)


def link_inputs(report: Path, folder: Path) -> None:
    """The design and the trace of a report in another folder."""
    for name in ("tiny", "t.csv"):
        (folder / name).symlink_to(report.with_name(name))


def rename_inside(folder: Path, names: dict[str, str]) -> None:
    """Put names into a design that no network file may hold: who sends a folder can."""
    texts = [table.model_dump_json(by_alias=True) for table in read_design(folder)]
    for name, other in names.items():
        texts = [text.replace(json.dumps(name), json.dumps(other)) for text in texts]
    design, fbcb = DesignTable.model_validate_json(texts[0]), FbcbTable.model_validate_json(texts[1])
    write_design(folder, design, fbcb.derived_from(design), replace=True)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in which every name that comes from a user is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    evil = json.dumps(EVIL + CONTROLS)[1:-1]
    network, board = (Path(file).read_text().replace('title = "', f'title = "{evil}') for file in (TINY, POCKET))
    (folder / "n.toml").write_text(network)
    (folder / "b.toml").write_text(board)
    (folder / f"p{CONTROLS}<b>&'\".py").write_text(
        "from fluidb.serving.policies import launch\n\ndef decide(view, data):\n    return launch(1, 99)\n"
    )
    design, trace = f"d{CONTROLS}<img src=x onerror=hacked=1>\"'&", f"t{CONTROLS}<svg onload=hacked=1>\"'&.csv"
    policy = f"p{CONTROLS}<b>&'\".py:decide"
    call_fluidb("dse", "n.toml", "b.toml", "-o", design, "--b-max", 2, cwd=folder)
    rename_inside(folder / design, {"conv1": EVIL + CONTROLS, "tiny": EVIL})
    for arguments in (
        ["latency", design],
        ["trace", "poisson", "--rate", 2000, "--count", 50, "--seed", 1, "-o", trace],
        ["report", design, design, "-o", "r.html", "--trace", trace, "--slo", "1ms",
         "--policy", "serial", "--policy", policy],
    ):  # fmt: skip
        done = call_fluidb(*arguments, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder / "r.html"


@pytest.mark.parametrize("which", ["report", "hostile"])
def test_the_page_is_well_formed_and_self_contained(request, which):
    made = request.getfixturevalue(which)
    page = read(made[0] if which == "report" else made)
    idents = [node.given["id"] for node in page.all() if "id" in node.given]
    assert len(set(idents)) == len(idents)
    for node in page.all():
        assert node.tag not in {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
        assert not any(name.startswith("on") or name in ("src", "style", "srcset") for name in node.given)
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(node.given.get(name, "").split()) <= set(idents)
        if "href" in node.given:
            assert node.given["href"].removeprefix("#") in idents
    assert "url(" not in next(page.all("style")).text
    assert "@import" not in next(page.all("style")).text
    levels = [int(node.tag[1]) for node in page.all() if re.fullmatch("h[1-6]", node.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    for table in page.all("table"):
        assert len(list(table.all("caption"))) == 1
        assert all(cell.given["scope"] in ("row", "col") for cell in table.all("th"))
        assert len({len(list(row.all("td"))) + len(list(row.all("th"))) for row in table.all("tr")}) == 1
    for figure in page.all("figure"):
        assert next(figure.all("figcaption")).text
        assert len(list(figure.all("table"))) == 1
    for svg in page.all("svg"):
        assert svg.given["role"] == "img"
        assert [node.tag for node in svg.all()][:2] == ["title", "desc"]


def test_hostile_names_are_text(hostile):
    raw = hostile.read_text()
    assert not any(not (c.isprintable() or c == "\n") for c in raw)
    page = read(hostile)
    seen = EVIL + r"\u202e\x07\x1b[31m"
    assert next(page.all("title")).text == next(page.all("h1")).text == "2 designs and comparisons"
    assert any(node.text.startswith(seen) for node in page.all("dd"))  # title of the network
    assert seen in tables(page)["Utilisation, %, by layer and batch size"]
    conclusion, overview, first, *_ = [node.text for node in page.all("h2")]
    assert (conclusion, overview) == ("Conclusion", "At a glance")
    assert r"d\u202e\x07\x1b[31m<img src=x onerror=hacked=1>" in first
    assert r"t\u202e\x07\x1b[31m<svg onload=hacked=1>" in next(page.all("p")).text
    assert "serial, p\\u202e\\x07\\x1b[31m<b>&'\".py:decide" in tables(page)["Policies under the same requests"]


def rows_of(design: dict[str, Any]) -> dict[str, str]:
    """The row of every policy: several under which all is the same have one."""
    first = {policy["policy"]: policy["same_as"] or policy["policy"] for policy in design["policies"]}
    return {name: ", ".join(other for other in first if first[other] == first[name]) for name in first}


def test_figures_are_those_of_the_other_commands(long_report):
    path, printed = long_report
    ((design,), page) = printed["designs"], read(path)
    shown = tables(page)
    assert sorted(policy["policy"] for policy in design["policies"]) == sorted(FOR_ONE_NETWORK)
    for policy in design["policies"][2:]:
        name, row = policy["policy"], rows_of(design)[policy["policy"]]
        done = call_fluidb(
            "serve-sim", "tiny", "--trace", "t.csv", "--slo", "400us", "--seed", 3, "--policy", name, "--json",
            cwd=path.parent,
        )  # fmt: skip
        told = json.loads(done.stdout)
        known = {key: value for key, value in policy.items() if key not in ("same_as", "differences")}
        assert known == {key: told[key] for key in known}
        p99 = next(percentile for percentile in told["percentiles"] if percentile["name"] == "p99")
        cells = shown["99th percentile of latency, us"][row]
        assert cells == [f"{1e6 * value:,.1f}" for value in (p99["latency_s"], *p99["interval_s"])]
        low, high = told["violation_interval"]
        rate = told["violation_rate"]
        assert shown["Violations"][row] == [str(told["violations"]), *(f"{100 * x:.2f}" for x in (rate, low, high))]
        cells = shown["Percentiles of latency, us"][row]
        latencies = [percentile["latency_s"] for percentile in told["percentiles"]] + [told["max_latency_s"]]
        assert cells == [f"{1e6 * value:,.1f}" for value in latencies]
        assert shown["Policies under the same requests"][row][:1] == [f"{1e6 * told['mean_latency_s']:,.1f}"]
    times_s = read_latency(path.parent / "tiny").array()
    rows = list(shown["From exit to exit, us, by batch size"].values())[1:]
    assert rows == [
        [f"{1e6 * time_s:,.1f}" for time_s in times_s[i, j, 1:]] for i, j in itertools.combinations(range(4), 2)
    ]


def test_requests_by_exit_sum_to_all_of_them(report):
    path, printed = report
    ((design,), page) = printed["designs"], read(path)
    rows = tables(page)["Requests by exit"]
    for policy in design["policies"]:
        own = [rows[f"{rows_of(design)[policy['policy']]}, exit {exit_['exit']}"] for exit_ in policy["exits"]]
        assert [row[0] for row in own] == [f"{exit_['requests']:,}" for exit_ in policy["exits"]]
        late = sum(float(row[0]) * float(row[3]) / 100 for row in own if row[3])
        assert late == pytest.approx(policy["violations"], abs=0.05 * len(own))
    bars = [max(corners(bar)[:, 0]) / 3.6 for bar in of_class(picture(page, "section-1-exits"), "bar")]
    shown = [float(row[3]) for name, row in rows.items() if name and row[3]]
    assert bars == pytest.approx(shown, abs=0.05)


def test_the_roofline_is_over_every_layer_and_its_axes_are_round(report):
    page = read(report[0])
    drawn, rows = picture(page, "section-1-roofline"), list(tables(page)["Layers at b = 1"].values())[1:]
    dots = of_class(drawn, "dot")
    assert len(dots) == len(rows)
    places = np.array([[float(x) for x in re.findall(r"[\d.]+", dot.given["transform"])] for dot in dots])
    told = [re.findall(r": ([\d.,e+]+) operations/byte, ([\d.,]+) GOP/s", dot.text)[0] for dot in dots]
    values = np.log([[float(value.replace(",", "")) for value in pair] for pair in told])
    for axis, sign in ((0, 1), (1, -1)):  # logarithmic; upright, the sheet counts from the top
        slope, offset = np.polyfit(values[:, axis], places[:, axis], 1)
        assert sign * slope > 0
        assert np.allclose(slope * values[:, axis] + offset, places[:, axis], atol=0.6)


def conclusion(path: Path) -> list[str]:
    """The verdict, and the lines below it."""
    said = next(node for node in read(path).all("section"))
    assert [node.text for node in said.all("h2")] == ["Conclusion"]
    return [line.text for line in said.all() if line.tag in ("p", "li")]


def test_the_conclusion_says_what_the_figures_say(report):
    path, printed = report
    (design,), (best, following, required, *rest) = printed["designs"], conclusion(path)
    first, second, *_ = sorted(design["policies"], key=lambda item: (item["violation_rate"], item["mean_latency_s"]))
    assert printed["best"] == {"design": "tiny", "policy": first["policy"]}
    rate = f"{100 * first['violation_rate']:.2f}"
    assert best == f"{first['policy']} has the fewest violations: {rate} % of the requests (no interval)."
    assert len(rest) == 2
    assert re.match(r"At batch 1 [\d.]+ % of the time makes MACs, and .+ loses most, [\d.]+ %; at batch ", rest[0])
    key = second["violation_rate"], second["mean_latency_s"]
    equal = [
        policy["policy"] for policy in design["policies"] if (policy["violation_rate"], policy["mean_latency_s"]) == key
    ]
    assert following.startswith(f"Next is {', '.join(equal)} with {100 * second['violation_rate']:.2f} %. ")
    assert "(no interval)" in following
    assert required.startswith("No requirement was stated, so this page does not say whether the SLO is kept.")
    p99 = {row: next(p for p in policy["percentiles"] if p["name"] == "p99")["latency_s"]
           for policy in design["policies"] for row in [rows_of(design)[policy["policy"]]]}  # fmt: skip
    assert f"take up to {1e3 * min(p99.values()):.2f} ms under {min(p99, key=lambda name: p99[name])}" in rest[-1]


def test_policies_that_serve_the_same_requests_are_told_apart_by_paired_differences(long_report):
    """Against plain loops; the intervals of the two rates overlap."""
    path, printed = long_report
    (design,) = printed["designs"]
    by_name = {policy["policy"]: policy for policy in design["policies"]}
    best = printed["best"]["policy"]
    assert by_name[best]["differences"] is None
    latencies_s, late = {}, {}
    for name in by_name:
        done = call_fluidb("serve-sim", "tiny", "--trace", "t.csv", "--slo", "400us", "--seed", 3, "--policy", name,
                           "--requests", f"{name}.csv", "--force", cwd=path.parent)  # fmt: skip
        assert done.returncode == 0
        with (path.parent / f"{name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        latencies_s[name] = [float(row["latency_s"]) for row in rows]
        late[name] = [row["violated"] in ("1", "True", "true") for row in rows]
    told = 0
    page, unit = tables(read(path)), 1e6
    shown = page[f"Less {rows_of(design)[best]} on tiny, on the same requests"]
    for name, item in by_name.items():
        if rows_of(design)[name] == rows_of(design)[best]:
            continue
        changes = item["differences"]
        count = len(late[name])
        assert changes["violation_rate"]["mean"] == pytest.approx((sum(late[name]) - sum(late[best])) / count)
        less = sum(a - b for a, b in zip(latencies_s[name], latencies_s[best], strict=True)) / count
        assert changes["mean_latency_s"]["mean"] == pytest.approx(less, rel=1e-6)
        for change in changes.values():
            assert change["low"] <= change["mean"] <= change["high"]
            assert change["beyond_noise"] is (change["low"] > 0 or change["high"] < 0)
        wanted = [f"{scale * changes[key][end]:,.{digits}f}"
                  for key, scale, digits in (("violation_rate", 100, 2), ("mean_latency_s", unit, 1))
                  for end in ("mean", "low", "high")]  # fmt: skip
        cells = shown[rows_of(design)[name]]
        assert [*cells[:3], *cells[4:7]] == wanted
        overlap = item["violation_interval"][0] <= by_name[best]["violation_interval"][1]
        told += overlap and changes["violation_rate"]["beyond_noise"]
    assert told > 0


def test_policies_under_which_all_is_the_same_have_one_row(report):
    path, printed = report
    (design,) = printed["designs"]
    same = {policy["policy"]: policy["same_as"] for policy in design["policies"]}
    assert same["pame"] == "adaptb"  # on one lane
    assert [same[name] for name in ("serial", "adaptb", "fluid", "fluid-slack")] == [None] * 4
    rows = tables(read(path))["Policies under the same requests"]
    assert "adaptb, pame" in rows
    assert len(rows) == 1 + len(set(rows_of(design).values())) < 1 + len(FOR_ONE_NETWORK)
    assert "gave every request the same outcome" in path.read_text()


def test_requirements_are_judged_and_decide_who_is_best(fluidb: Run, long_report, tmp_path):
    path, printed = long_report
    link_inputs(path, tmp_path)
    p99 = {policy["policy"]: next(p for p in policy["percentiles"] if p["name"] == "p99")["latency_s"]
           for policy in printed["designs"][0]["policies"]}  # fmt: skip
    rates = {policy["policy"]: policy["violation_rate"] for policy in printed["designs"][0]["policies"]}
    between_us = 1e6 * (min(p99.values()) + sorted(set(p99.values()))[1]) / 2  # one alone keeps it
    asked = ["report", "tiny", "-o", "r.html", "--trace", "t.csv", "--slo", "400us", "--seed", 3, "--force"]
    done = fluidb(*asked, "--require", f"p99 <= {between_us}us", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert p99[told["best"]["policy"]] == min(p99.values())
    for policy in told["designs"][0]["policies"]:
        (verdict,) = policy["requirements"]
        assert verdict["holds"] is (p99[policy["policy"]] == min(p99.values()))
    assert " has the fewest violations of all that keep the requirements: " in conclusion(tmp_path / "r.html")[0]
    judged = tables(read(tmp_path / "r.html"))["Requirements; ? where 95 % intervals leave it open"]
    (cells,) = [cells for name, cells in judged.items() if name]
    assert [cell.startswith("kept") for cell in cells].count(True) == 1
    least = min(rates.values())
    done = fluidb(*asked, "--require", f"violation_rate <= {50 * least} %")
    assert (done.returncode, done.stderr) == (1, "")
    assert f"Requirement violation_rate <= {50 * least} %: not kept, " in done.stdout
    assert not any("kept, beyond doubt" in line and "not kept" not in line for line in conclusion(tmp_path / "r.html"))
    assert conclusion(tmp_path / "r.html")[0].startswith("No policy keeps all requirements; ")


def test_of_several_designs_the_best_is_named_and_how_far_the_others_are(fluidb: Run, long_report, tmp_path):
    link_inputs(long_report[0], tmp_path)
    for arguments in (["dse", TINY, POCKET, "--bandwidth", "0.8GB/s", "-o", "fast"], ["latency", "fast"]):
        assert fluidb(*arguments).returncode == 0
    done = fluidb("report", "tiny", "fast", "tiny", "-o", "r.html", "--trace", "t.csv", "--slo", "250us", "--seed", 3,
                  "--policy", "serial", "--policy", "fluid", "--require", "p99 <= 1s", "--json")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    told, said = json.loads(done.stdout), conclusion(tmp_path / "r.html")
    slow, fast, _ = ({policy["policy"]: policy for policy in design["policies"]} for design in told["designs"])
    best = min(fast, key=lambda name: fast[name]["violation_rate"])
    leader = min(slow, key=lambda name: slow[name]["violation_rate"])
    assert told["best"] == {"design": "fast", "policy": best}
    assert fast[best]["violation_rate"] < slow[leader]["violation_rate"]
    rate = f"{100 * slow[leader]['violation_rate']:.2f}"
    change = slow[leader]["differences"]["violation_rate"]
    fewer = f"{100 * change['low']:.2f} to {100 * change['high']:.2f} percentage points fewer"
    expected = f"On tiny the best is {leader} with {rate} %. On the same requests, violations under {best} on fast are "
    assert said[1].startswith(f"{expected}{fewer}; the mean latency is ")
    sections = [node for node in read(tmp_path / "r.html").all("section") if node.given["id"].startswith("section-")]
    within = [[line.text for line in next(node.all("ul")).all("li")] for node in sections]
    assert max(map(len, [said[1:], *within])) <= 5
    other = next(name for name in slow if name != leader)
    for found in (within[0], within[2]):
        assert any(f"Next is {other} with {100 * slow[other]['violation_rate']:.2f} %." in line for line in found)


def test_of_many_requirements_the_conclusion_has_a_line_and_the_section_a_table(fluidb: Run, long_report, tmp_path):
    link_inputs(long_report[0], tmp_path)
    required = ["p99 <= 1s", "p50 <= 1s", "mean <= 1s", "p95 <= 1s", "p99 < 1ns", "violation_rate <= 100 %"]
    fluidb("report", "tiny", "-o", "r.html", "--trace", "t.csv", "--slo", "400us", "--seed", 3, "--policy", "serial",
           "--policy", "fluid", *(part for text in required for part in ("--require", text)))  # fmt: skip
    verdict, *said = conclusion(tmp_path / "r.html")
    assert verdict.startswith("No policy keeps all requirements; ")
    assert len(said) <= 5
    assert any(line.endswith(" keeps 5 of 6 requirements; broken: p99 < 1ns.") for line in said)
    judged = tables(read(tmp_path / "r.html"))["Requirements; ? where 95 % intervals leave it open"]
    assert list(judged)[1:] == required
    assert [cells[0].rstrip("?") for cells in list(judged.values())[1:]] == ["kept"] * 4 + ["not kept", "kept"]


def test_of_many_exits_some_are_drawn(fluidb: Run, tmp_path):
    """The latency table, the picture by exit and the numbers of stages stay as long as a screen."""
    write_deep(tmp_path / "deep.toml", exits=20, rate=0.05)
    for arguments in (
        ["dse", "deep.toml", POCKET, "--b-max", 2, "-o", "deep"],
        ["latency", "deep"],
        ["trace", "poisson", "--rate", 1000, "--count", 400, "-o", "t.csv"],
        ["report", "deep", "-o", "r.html", "--trace", "t.csv", "--slo", "1ms", "--policy", "serial"],
    ):
        assert fluidb(*arguments).returncode == 0
    page = read(tmp_path / "r.html")
    shown = tables(page)
    caption = next(
        name for name in shown if name.startswith("From the input to each exit (latency.json has every pair)")
    )
    assert len(shown[caption]) == 1 + 20
    assert len(shown["Requests by exit"]) == 1 + 20
    drawn = [node.text for node in page.all("text") if node.text.startswith("serial, exit ")]
    assert drawn == [f"serial, exit {number}" for number in (1, 4, 6, 9, 12, 15, 17, 20)]


def test_requirements_that_all_or_none_keep_are_said_by_design(fluidb: Run, long_report, tmp_path):
    link_inputs(long_report[0], tmp_path)
    done = fluidb("report", "tiny", "tiny", "-o", "r.html", "--trace", "t.csv", "--slo", "1s", "--policy", "adaptb",
                  "--policy", "fluid", "--require", "p99 <= 1s", "--require", "p99 < 1ns")  # fmt: skip
    assert done.returncode == 1
    said = conclusion(tmp_path / "r.html")
    assert said[0].startswith("No policy keeps all requirements; ")
    assert said[0].endswith(", and the shortest mean latency of the 4 with as few violations.")
    for words, line in (("kept", "p99 <= 1s"), ("not kept", "p99 < 1ns")):
        sure = f"{words}, beyond doubt at 95 %, by all 2 on tiny"
        assert f"Requirement {line}: {sure}; {sure}." in said


def test_pictures_show_what_their_tables_say(long_report):
    page = read(long_report[0])
    shown = tables(page)
    widths = [max(corners(bar)[:, 0]) / 3.6 for bar in of_class(picture(page, "section-1-resources"), "bar")]
    assert widths == pytest.approx([float(row[-1]) for row in list(shown["Resources"].values())[1:]], abs=0.05)
    map_ = picture(page, "section-1-utilisation")
    cells = [cell for cell in of_class(map_, "cell") if cell.children]
    wanted = [
        float(x) / 100 for row in list(shown["Utilisation, %, by layer and batch size"].values())[1:] for x in row
    ]
    assert [float(cell.given["fill-opacity"]) for cell in cells] == pytest.approx(wanted, abs=0.001)
    batches = len(shown["Utilisation, %, by layer and batch size"][""]) - 1
    places = np.array([corners(cell).min(axis=0) for cell in cells]).reshape(-1, batches, 2)
    assert (np.diff(places[:, :, 0], axis=0) > 0).all()  # a column for each layer, a row for each batch size
    assert (np.diff(places[:, :, 1], axis=1) > 0).all()
    for ident, table in (("p99", "99th percentile of latency, us"), ("violations", "Violations")):
        drawn = picture(page, f"section-1-{ident}")
        rows = [[float(x.replace(",", "")) for x in row[-3:]] for row in list(shown[table].values())[1:]]
        dots = [float(re.findall(r"[\d.]+", dot.given["transform"])[0]) for dot in of_class(drawn, "dot")]
        ends = [corners(node)[:, 0].tolist() for node in of_class(drawn, "whisker") if "transform" not in node.given]
        # one scale for all of them: what lies on a line in the table does so in the picture
        values = np.array([value for value, *_ in rows] + [bound for _, *bounds in rows for bound in bounds])
        marks = np.array(dots + [x for pair in ends for x in pair]) - 8  # 0 is at the left
        # the scales that bring each mark to its value in the table, which has two digits
        least, most = (marks - 0.15) / (values + 0.005), (marks + 0.15) / np.maximum(values - 0.005, 1e-9)
        assert least.max() <= most.min()


def test_the_distribution_is_exact_at_every_point(report, tiny_design):
    path, printed = report
    page, policies = read(path), [find_policy(policy["policy"]) for policy in printed["designs"][0]["policies"]]
    table = read_latency(tiny_design)
    rates = [row.rate for row in table.exits]
    traffic = prepare(read_trace(path.with_name("t.csv")), rates, slo_s=4e-4, seed=3)
    latencies_s = [
        item.replay.latency_s.tolist() for item in serve(as_served(table), DeviceTraffic.of(traffic), policies)
    ]
    curves = [corners(curve) for curve in of_class(picture(page, "section-1-cdf"), "curve")]
    shortest, longest = 0.9 * min(map(min, latencies_s)), 1.1 * max(map(max, latencies_s))
    for curve, values in zip([points for points in curves if len(points) > 2], latencies_s, strict=True):
        assert (np.diff(curve, axis=0) == 0).any(axis=1).all()  # a staircase
        for (x, before), (_, after) in itertools.pairwise(curve.tolist()):
            at_s = shortest * (longest / shortest) ** ((x - 34) / 318)
            share = sum(value <= at_s * (1 + 1e-12) for value in values) / len(values)
            if after != before:
                assert after == pytest.approx(178 - 170 * share, abs=0.051)


@given(st.lists(st.floats(1e-6, 1e3), min_size=1), st.lists(st.floats(1e-7, 1e4), min_size=1))
def test_thinning_is_exact(values, grid):
    grid = [*grid, *values]  # where it jumps, too
    naive = [sum(value <= at for value in values) / len(values) for at in grid]
    assert shares_up_to(np.array(values), np.array(grid)).tolist() == naive


@pytest.mark.parametrize("policy", ["serial", "adaptb:timeout=M", "lazy", "fluid"])
def test_the_thumbnail_is_the_beginning_of_the_whole(tiny_design, policy):
    table = read_latency(tiny_design)
    rates = [row.rate for row in table.exits]
    traffic = prepare(poisson(9000, 300, seed=4), rates, slo_s=4e-4, seed=1)
    (served,) = serve(as_served(table), DeviceTraffic.of(traffic), [find_policy(policy)])
    whole = simulate(table, traffic, find_policy(policy), record=True).runs
    assert whole is not None
    runs = [part.runs for part in served.opening.by_network]
    shown, until_s = busy_until(runs, served.opening.until_s), served.opening.until_s
    begun = whole.begin_s < until_s
    assert 0 < begun.sum() < len(begun)
    assert np.array_equal(shown.begin_s, whole.begin_s[begun])
    assert np.array_equal(shown.end_s, np.minimum(whole.end_s[begun], until_s))
    assert np.array_equal(shown.batch, whole.batch[begun])
    assert np.array_equal(shown.preempts, whole.flags[begun] & 1)


def test_the_first_moments_are_drawn_as_they_were(report):
    path, _ = report
    page = read(path)
    drawn, (caption,) = picture(page, "section-1-opening"), [name for name in tables(page) if "The first" in name]
    length = float(caption.split()[2].replace(",", ""))
    rows = list(tables(page)[caption].values())[1:]
    b_max = len(tables(page)["Utilisation, %, by layer and batch size"][""]) - 1
    strips = of_class(drawn, "fill")
    assert len(strips) == len(rows)
    for strip, (busy, samples, _) in zip(strips, rows, strict=True):
        x, y = corners(strip).T
        area = abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2
        wanted = float(busy.replace(",", "")) / length * 344 * float(samples) / b_max * 34
        assert area == pytest.approx(wanted, rel=0.02)
    assert len(of_class(drawn, "ink")) == sum(int(row[-1].replace(",", "")) for row in rows)


def test_runs_of_several_lanes_overlap():
    """Lane 0 runs 2 of 4 samples from 0 to 10 s, lane 1 runs 4 from 5 to 15 s: both are drawn whole."""
    busy = BusyTimes(
        np.array([0.0, 5.0]), np.array([10.0, 15.0]), np.array([2, 4]), np.zeros(2, np.bool_), np.array([0, 1])
    )
    drawn = draw_strips([("a", busy)], 0.0, 20.0, 4)
    paths = [node.get("d", "") for node in drawn.iter("path") if node.get("class") == "fill s0"]
    places = [np.array([[float(x), float(y)] for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", d)]) for d in paths]
    sizes = [np.ptp(points, axis=0).tolist() for points in places]
    assert sizes == [pytest.approx([172, 17], abs=0.11), pytest.approx([172, 34], abs=0.11)]


def test_a_device_is_busy_as_long_as_its_lanes_are_on_average():
    """Four samples of 1 s each, two on either lane."""
    table = table_of([[1.0]]).model_copy(update={"lanes": 2, "load": [0.0, 0.5]})
    networks, traffic = as_served(table), DeviceTraffic.of(everybody(4, 1))
    shown = ReportEntry("device", networks, served=serve(networks, traffic, [find_policy("serial:lanes=2")]))
    found = tables(Reader(report_text(Report([shown]))).root)
    assert found["The first 20.000 s"]["serial:lanes=2"] == ["2.000", "1.00", "0"]


@pytest.mark.parametrize("high", [3e-6, 0.037, 1.0, 12.3, 98765.0])
def test_ticks_are_round_and_few(high):
    drawn = draw_intervals([ChartPoint("a", high, "")], "{:.12g}".format, None)
    ticks = [float(node.text or "") for node in drawn.iter("text") if node.get("class") == "tick"]
    assert 3 <= len(ticks) <= 7
    assert 0 == ticks[0] < ticks[-1] <= high * (1 + 1e-9)
    assert f"{ticks[1]:e}"[:8] in ("1.000000", "2.000000", "5.000000")


def test_a_name_needs_no_glyph_and_is_no_formula(tmp_path):
    drawn = draw_intervals([ChartPoint("$x^2$ \U0001f980 漢字 \x07<b>", 1.0, "")], "{:g}".format, None)
    assert [node.text for node in drawn.iter("text") if node.get("class") == "label"] == [
        "$x^2$ \U0001f980 漢字 \\x07<b>"
    ]


def test_without_the_extra_it_is_one_line(tmp_path, tiny_design):
    without = "import sys; sys.modules['matplotlib'] = None; from fluidb.cli import main; main()"
    (said,) = lines(subprocess.run(
        [sys.executable, "-c", without, "report", str(tiny_design), "-o", "r.html"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    ))  # fmt: skip
    assert said.startswith("fluidb: r.html: a picture needs matplotlib, which is not installed; run pip")
    assert not (tmp_path / "r.html").exists()


def test_same_input_same_bytes(report, fluidb: Run, tmp_path):
    path, _ = report
    link_inputs(path, tmp_path)
    done = fluidb("report", "tiny", "-o", "r.html", "--trace", "t.csv", "--slo", "400us", "--seed", 3)
    assert done.returncode == 0
    block, said = done.stdout.split("\n\n")
    assert [re.split("  +", line)[4] for line in block.splitlines()[2:]] == [*tables(read(path))["Violations"]][1:]
    assert said.splitlines() == conclusion(path)[:3]
    assert (tmp_path / "r.html").read_bytes() == path.read_bytes()


def test_without_a_trace_the_design_alone(fluidb: Run, tmp_path, tiny_design):
    done = fluidb("report", tiny_design, "-o", "r.html")
    assert (done.returncode, done.stderr) == (0, "")
    page = read(tmp_path / "r.html")
    assert "From exit to exit, us, by batch size" in tables(page)
    assert not any("Policies" in node.text for node in page.all("h3"))


def test_a_policy_that_waits_longer_than_the_thumbnail(fluidb: Run, tmp_path, tiny_design):
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n0,0\n1,0.5\n")
    done = fluidb(
        "report", tiny_design, "-o", "r.html", "--trace", "t.csv", "--slo", "2s", "--policy", "adaptb:timeout=1s"
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = tables(read(tmp_path / "r.html"))
    (caption,) = (name for name in found if name.startswith("The first"))
    assert found[caption]["adaptb:timeout=1s"] == ["0.0", "", "0"]
    assert found["99th percentile of latency, ms"]["adaptb:timeout=1s"][1] == "1,000 more requests needed"
    assert found["Violations"]["adaptb:timeout=1s"] == ["0", "0.00", "400 more requests needed", ""]


def test_a_policy_that_needs_predictions_has_them(fluidb: Run, tmp_path, tiny_design):
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n0,0\n1,0.5\n")
    asked = [
        "report",
        tiny_design,
        "-o",
        "r.html",
        "--trace",
        "t.csv",
        "--slo",
        "2s",
        "--policy",
        "batchcond:similar=depth",
    ]
    (said,) = fluidb(*asked).stderr.splitlines()
    assert "expected a trace with predicted_depth, found none" in said
    assert fluidb(*asked, "--predict-depth", "0.5").returncode == 0


def test_a_comparison_with_its_intervals(fluidb: Run, tmp_path):
    assert fluidb("compare", DATA / "duel.toml", "-o", "duel").returncode == 0
    done = fluidb("report", "duel", "-o", "r.html", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    kept = json.loads((tmp_path / "duel" / "compare.json").read_text())
    assert json.loads(done.stdout)["comparisons"] == [{"folder": "duel", "scenario_sha256": kept["scenario_sha256"]}]
    page = read(tmp_path / "r.html")
    assert next(page.all("h1")).text == kept["title"]
    shown = [table for table in page.all("table") if next(table.all("caption")).text.startswith("Violations, %")]
    assert len(shown) == len(kept["points"]) == 5
    sure = [
        contender["differences"]["violation_rate"]
        for point in kept["points"] for contender in point["contenders"] if contender["name"] == "fluid"
    ]  # fmt: skip
    fewer, more = (sum(it["beyond_noise"] and sign * it["mean"] > 0 for it in sure) for sign in (-1, 1))
    against = tables(page)["Violations, less one by one, beyond noise"]["fluid"]
    assert against == [str(fewer), str(more), str(5 - fewer - more)]
    verdict, *said = conclusion(tmp_path / "r.html")
    assert re.match(r".+ has the fewest violations at \d of 5 points, at \d of these beyond noise", verdict)
    assert len(said) <= 5
    for table, point in zip(shown, kept["points"], strict=True):
        for row, item in zip(list(table.all("tr"))[1:], point["contenders"], strict=True):
            name, *cells = [cell.text for cell in row.all() if cell.tag in ("th", "td")]
            found, change = item["metrics"]["violation_rate"], (item["differences"] or {}).get("violation_rate")
            wanted = [f"{100 * found[key]:,.2f}" for key in ("mean", "low", "high")]
            wanted += [f"{100 * change[key]:,.2f}" for key in ("mean", "low", "high")] if change else ["", "", ""]
            wanted.append("" if change is None else "yes" if change["beyond_noise"] else "no")
            assert [name, *cells] == [item["name"], *wanted]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["tiny"], "r.html: output exists already"),
        (["tiny", "--force", "--slo", "1ms"], "--slo: would change nothing without a trace"),
        (["tiny", "--force", "--policy", "fluid"], "--policy: would change nothing without a trace"),
        (["tiny", "--force", "--require", "p99 <= 1s"], "--require: would change nothing without a trace"),
        (["tiny", "--force", "--predict-depth", "0.5"], "--predict-depth: would change nothing without a trace"),
        (["tiny", "--force", "--trace", "no.csv", "--slo", "1ms"], "no.csv: expected a trace"),
        (["tiny", "--force", "--trace", "t.csv"], "--slo: expected a latency objective"),
        (["tiny", "--force", "--trace", "t.csv", *(["--policy", "fluid"] * 2)], "--policy: expected at most 7"),
        (["none", "--force"], "none: expected a folder with a latency table"),
        (["broken", "--force"], "broken/compare.json: no JSON"),
    ],
)
def test_wrong_input_is_one_line_and_changes_nothing(fluidb: Run, tmp_path, tiny_design, arguments, line):
    (tmp_path / "tiny").symlink_to(tiny_design)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "compare.json").write_text("{")
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n0,0\n")
    (tmp_path / "r.html").write_text("mine")
    (said,) = lines(fluidb("report", *arguments, "-o", "r.html"))
    assert said.startswith(f"fluidb: {line}")
    assert (tmp_path / "r.html").read_text() == "mine"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with Page(tool("chromium"), tmp_path_factory.mktemp("profile")) as page:
        yield page


CONTRASTS = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const channels = colour => {
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  };
  const luminance = colour => { const [r, g, b] = channels(colour); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const paper = luminance(getComputedStyle(document.body).backgroundColor);
  const ratio = own => (Math.max(own, paper) + .05) / (Math.min(own, paper) + .05);
  const least = (selector, key) => Math.min(
    ...[...document.querySelectorAll(selector)].map(node => ratio(luminance(getComputedStyle(node)[key]))));
  return {
    text: Math.min(least("h1,h2,h3,p,dt,dd,a,th,td,caption,summary,figcaption,strong", "color"), least("text", "fill")),
    marks: Math.min(least("path.fill,.bar,.dot", "fill"), least(".curve,.whisker", "stroke"))};
})()"""  # WCAG 2.2: relative luminance and contrast ratio


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser_it_renders(browser, report, width, scheme):
    browser.view(width, scheme=scheme)
    browser.open(report[0])
    assert browser.evaluate("getComputedStyle(document.querySelector('dl')).display") == "grid"  # the sheet's hash fits
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("[...document.querySelectorAll('svg')].every(s => s.getBoundingClientRect().height > 50)")
    found = browser.evaluate(CONTRASTS)
    assert found["text"] >= 4.5
    assert found["marks"] >= 3  # WCAG 2.2, 1.4.11
    assert browser.screenshot().startswith(b"\x89PNG")
    assert browser.complaints == []
    assert browser.requests == [report[0].as_uri()]


def test_in_a_browser_every_table_fits(browser, report):
    """At 1,200 pixels, also those that are folded."""
    browser.view(1200)
    browser.open(report[0])
    browser.evaluate("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    wide = "[...document.querySelectorAll('.scroll')].filter(n => n.scrollWidth > n.clientWidth + 1)"
    assert browser.evaluate(f"{wide}.map(n => n.getAttribute('aria-label'))") == []


def test_in_a_browser_all_data_are_reached_by_keyboard(browser, report):
    browser.view(1280)
    browser.open(report[0])
    browser.press("Tab", 9)
    assert browser.evaluate("document.activeElement.className") == "skip"
    assert browser.evaluate("document.activeElement.getBoundingClientRect().top >= 0")
    wanted = browser.evaluate("document.querySelectorAll('summary').length")
    seen = 0
    for _ in range(10 * wanted):
        browser.press("Tab", 9)
        where = browser.evaluate("document.activeElement.tagName")
        if where == "BODY":
            break
        if where == "SUMMARY":
            seen += 1
            assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
            browser.press("Enter", 13, "\r")
    assert seen == wanted == browser.evaluate("document.querySelectorAll('details[open]').length")


def test_in_a_browser_hostile_names_do_nothing(browser, hostile):
    browser.view(390)
    browser.open(hostile)
    assert browser.evaluate("typeof hacked") == "undefined"
    assert browser.evaluate("document.scripts.length + document.images.length") == 0
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    assert browser.complaints == []
    assert browser.requests == [hostile.as_uri()]


def test_in_print_the_data_are_open(browser, report):
    browser.view(1280, scheme="dark")
    browser.open(report[0])
    hidden = "[...document.querySelectorAll('details td')].filter(cell => cell.checkVisibility()).length"
    assert browser.evaluate(hidden) == 0
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.evaluate(hidden) == browser.evaluate("document.querySelectorAll('details td').length") > 0
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.pdf().startswith(b"%PDF")


def test_several_networks_have_figures_of_each(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    """The figures of ``serve-sim``; what a policy refuses or drops has columns, and infinite means are not compared."""
    (tmp_path / "tiny").symlink_to(tiny_design)
    text = (DATA / "networks.toml").read_text().replace('samples = "s.csv"\n', 'admit = "queue:2"\n')
    (tmp_path / "networks.toml").write_text(text)
    fluidb("trace", "poisson", "--rate", 9000, "--count", 600, "--seed", 2, "-o", "t.csv")
    policies = ["fluid:between=edf", "fluid:on_deadline=answer", "serial"]
    asked = [part for policy in policies for part in ("--policy", policy)]
    asked += ["--require", "violation_rate[people] <= 50 %", "--json"]
    done = fluidb("report", "networks.toml", "tiny", "--slo", "1ms", "--trace", "t.csv", "-o", "r.html", *asked)
    assert done.returncode == 2
    assert "require: expected a network of tiny" in done.stderr
    done = fluidb("report", "networks.toml", "--trace", "t.csv", "-o", "r.html", *asked)
    (entry,) = json.loads(done.stdout)["designs"]
    page = Reader((tmp_path / "r.html").read_text()).root
    found = tables(page)
    assert entry["network"] == "tiny, tiny"
    assert list(found["Networks on pocket"]) == ["", "people", "goods"]
    by_network = found["Requests by network"]
    for policy, item in zip(policies, entry["policies"], strict=True):
        run = fluidb("serve-sim", "networks.toml", "--trace", "t.csv", "--policy", policy, "--json")
        alone = json.loads(run.stdout)
        for part, other in zip(item["networks"], alone["networks"], strict=True):
            assert part == {key: other[key] for key in part}
            row = by_network[f"{part['name']}, {policy}"]
            assert row[0] == f"{part['requests']:,}"
            assert row[3] == f"{100 * part['violation_rate']:.2f}"
            assert row[4] == f"{100 * part['admission']['refused_rate']:.2f}"
    headings = found["Policies under the same requests"][""]
    assert {"refused %", "dropped %", "early %", "fairness %"} <= set(headings)
    assert all(
        policy["differences"] is None or policy["differences"]["mean_latency_s"] is None for policy in entry["policies"]
    )
    assert "Share of the requests of each network" in page.text
    assert "nan" not in page.text


def test_a_network_without_a_request_has_a_row_without_figures(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    (tmp_path / "tiny").symlink_to(tiny_design)
    (tmp_path / "networks.toml").write_text((DATA / "networks.toml").read_text().replace('samples = "s.csv"\n', ""))
    rows = "".join(f"{k},{k / 8000},people\n" for k in range(500))
    (tmp_path / "t.csv").write_text(f"request_id,arrival_s,network\n{rows}")
    asked = ["--policy", "fluid", "--policy", "serial", "--json"]
    done = fluidb("report", "networks.toml", "--trace", "t.csv", "-o", "r.html", *asked)
    for policy in json.loads(done.stdout)["designs"][0]["policies"]:
        people, goods = policy["networks"]
        assert (people["name"], people["requests"]) == ("people", 500)
        assert goods == {"name": "goods", "requests": 0}
    cells = re.findall(r">goods, [^<]*</bdi></th>(.*?)</tr>", (tmp_path / "r.html").read_text(), re.DOTALL)
    assert cells
    assert set(cells) == {"<td>0</td>" + 6 * "<td></td>"}


def test_clients_send_other_requests_under_each_policy(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    (tmp_path / "tiny").symlink_to(tiny_design)
    asked = ["report", "tiny", "--slo", "400us", "--clients", 5, "--think", "exponential:100us", "--count", 500]
    record = json.loads(fluidb(*asked, "--policy", "fluid", "--policy", "serial", "-o", "r.html", "--json").stdout)
    fluid, serial = record["designs"][0]["policies"]
    given = ["--slo", "400us", "--clients", 5, "--think", "exponential:100us", "--count", 500]
    alone = json.loads(fluidb("serve-sim", "tiny", *given, "--policy", "serial", "--json").stdout)
    assert serial["mean_latency_s"] == alone["mean_latency_s"]
    differing = fluid["differences"] or serial["differences"]
    assert differing == {"violation_rate": None, "mean_latency_s": None}
    text = Reader((tmp_path / "r.html").read_text()).root.text
    assert "Serving 5 clients that wait for their answers" in text
    assert "Its clients send other requests" in text
