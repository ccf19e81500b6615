"""What the docs tell a reader to do works, and prints what they say."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from itertools import product
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import onnx
import pytest
import typer
from builders import COMPILED, ROOT, blocks, call_fluidb, run_shell
from fluidb.cli.app import COMMANDS, app
from fluidb.dse import SearchOptions, search
from fluidb.dse.npu import persistent
from fluidb.dse.npu.search import SearchResult
from fluidb.models.digits import INPUTS
from fluidb.platforms import load_platform
from fluidb.platforms.measured import MeasuredDevice

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]

needs_speed = pytest.mark.skipif(not COMPILED, reason="searches a board of the paper: minutes as plain Python")


@pytest.fixture(scope="module")
def main_job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the README's main job, not to be changed, and what it prints; `make demo` runs it as processes."""
    folder = tmp_path_factory.mktemp("main-job")
    return folder, run_shell(blocks("README.md", "sh")[1], folder)


@needs_speed
def test_the_readme_prints_what_it_says(main_job):
    _, printed = main_job
    claimed = blocks("README.md", "text")[0]
    for line in claimed.splitlines():
        assert line in printed.splitlines()
    (worth,) = re.findall(r"`(20,000 over [^`]*)`", (ROOT / "docs" / "intervals.md").read_text())
    assert worth in printed


@needs_speed
def test_the_readme_says_what_the_papers_words_give(tmp_path):
    commands = blocks("README.md", "sh")[1].replace("dse resnet50 zc706", "dse resnet50 zc706 --overlap paper")
    printed = run_shell(commands, tmp_path)
    mean, violations = re.findall(r"^(?:average latency|violations) +(\S+ (?:ms|%))", printed, re.MULTILINE)
    page = " ".join((ROOT / "README.md").read_text().split())
    assert f"`dse --overlap paper` does the same, and gives this design, {mean} and {violations}." in page
    assert "<T_R,T_P,T_C> = <4652,7,128>" in printed


@needs_speed
def test_the_page_says_what_deadlines_and_admission_do_to_the_main_job(main_job):
    folder, _ = main_job
    page = " ".join((ROOT / "docs" / "policies.md").read_text().split())
    for rule in ("serve", "drop", "answer"):
        served = ("serve-sim", "r50-zc706", "--trace", "t.csv", "--slo", "200ms", "--on-deadline", rule, "--json")
        record = json.loads(call_fluidb(*served, cwd=folder).stdout)
        assert re.search(rf"{100 * record['violation_rate']:.2f} % (violate )?with `{rule}`", page)
    assert f"({100 * record['deadlines']['early_rate']:.2f} % early)" in page
    served = ("serve-sim", "r50-zc706", "--trace", "t.csv", "--slo", "200ms", "--admit", "queue:4", "--json")
    record = json.loads(call_fluidb(*served, cwd=folder).stdout)
    refused, violated = 100 * record["admission"]["refused_rate"], 100 * record["violation_rate"]
    assert f"`queue:4` refuses {refused:.2f} % of the requests; {violated:.2f} % violate, the refused" in page


@needs_speed
def test_the_page_says_whom_each_rule_between_networks_serves(tmp_path):
    page, (networks, mixed) = (ROOT / "docs" / "policies.md").read_text(), blocks("docs/policies.md", "toml")
    (tmp_path / "two.toml").write_text(networks)
    (tmp_path / "mix.toml").write_text(mixed)
    run_shell(blocks("docs/policies.md", "sh")[0], tmp_path)
    for rule in ("fcfs", "edf", "shares", "priority"):
        served = ("serve-sim", "two.toml", "--trace", "t11.csv", "--between", rule, "--json")
        record = json.loads(call_fluidb(*served, cwd=tmp_path).stdout)
        rates = [f"{100 * part['violation_rate']:.2f} %" for part in record["networks"]]
        assert re.search(rf"^\| `{rule}`.*\| {', '.join(rates)} \|$", page, re.MULTILINE), rates
    record = json.loads(call_fluidb("serve-sim", "mix.toml", "--between", "priority", "--json", cwd=tmp_path).stdout)
    people, goods = (f"{part['processing_rate_per_s']:.3g}" for part in record["networks"])
    said = f"answers `people` {people} times a second, and `goods`, whose client asks again at once, {goods} times"
    assert said in " ".join(page.split())


@needs_speed
def test_the_page_says_whether_two_small_cores_beat_a_large_one(tmp_path):
    page = (ROOT / "docs" / "policies.md").read_text()
    said = " ".join(page.split())
    run_shell(blocks("docs/policies.md", "sh")[1], tmp_path)
    rates = {}
    for rule in (None, "shared", "shortest", "least_work"):
        table = "r50-large" if rule is None else "r50-pair"
        policy = "fluid" if rule is None else f"fluid:dispatch={rule}"
        served = ("serve-sim", table, "--trace", "t10.csv", "--slo", "100ms", "--policy", policy, "--json")
        rates[rule] = f"{100 * json.loads(call_fluidb(*served, cwd=tmp_path).stdout)['violation_rate']:.2f} %"
        assert rule is None or re.search(rf"^\| `{rule}`.*\| {rates[rule]} \|$", page, re.MULTILINE), rates
    assert f"{rates[None]} of the requests violate their SLO, and with two small ones {rates['least_work']}." in said
    alone_ms = []
    for table in ("r50-large", "r50-pair"):
        made = json.loads((tmp_path / table / "latency.json").read_text())
        alone_ms.append(f"{1e3 * sum(layer['time_s'][0] for layer in made['layers']):.2f} ms")
    assert f"A request alone takes {alone_ms[0]} on the large one and {alone_ms[1]} on a small one." in said


@needs_speed
def test_the_readme_goes_from_an_onnx_file_to_a_slo_in_four_commands(tmp_path):
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
    shutil.copy(light, tmp_path / "net.onnx")
    commands, claimed = blocks("README.md", "sh")[2], blocks("README.md", "text")[1]
    assert len(commands.splitlines()) == 4
    printed = run_shell(commands, tmp_path)
    for line in claimed.splitlines():
        assert line in printed.splitlines()
    assert run_shell(blocks("docs/import.md", "sh")[0], tmp_path)


@needs_speed
def test_the_tutorial_followed_literally_prints_what_it_says(tmp_path):
    (script,) = blocks("docs/tutorial.md", "python")
    (tmp_path / "make_net.py").write_text(script)
    first, *commands = blocks("docs/tutorial.md", "sh")
    assert first == "python make_net.py\n"
    subprocess.run([sys.executable, "make_net.py"], cwd=tmp_path, check=True)
    printed = run_shell("".join(commands), tmp_path, call_fluidb)
    lines = iter(printed.splitlines())
    for line in "".join(blocks("docs/tutorial.md", "text")).splitlines():
        assert line in lines  # in this order: a later command may print an earlier figure
    serial, slack, larger = (
        float(rate) for rate in re.findall(r"^highest rate kept +([\d.]+) /s$", printed, re.MULTILINE)
    )
    assert serial < slack < 200 < larger  # the page's decision
    page = " ".join((ROOT / "docs" / "tutorial.md").read_text().split())
    whole = json.loads(call_fluidb("explain", "net", "--json", cwd=tmp_path).stdout)
    share = f"{100 * whole['compute_s'][7] / whole['time_s'][7]:.0f} %"
    assert f"In a batch of 8 the design makes MACs during {share} of the time." in page
    rates = re.findall(r"^(?:objective|peak) +([\d.]+) GOP/s", printed, re.MULTILINE)
    reached, peak = map(float, rates[:2])
    assert f"It reaches {100 * reached / peak:.0f} % of its own peak." in page
    assert {path.name for path in tmp_path.glob("*.svg")} == {"explain.svg", "fluid.svg", "capacity.svg"}
    assert "Conclusion" in (tmp_path / "net.html").read_text()


@needs_speed
def test_the_throughputs_in_sentences_are_what_a_search_finds(tmp_path):
    def gop_s(*asked: str) -> float:
        return float(json.loads(call_fluidb("dse", "resnet50", *asked, "--json", cwd=tmp_path).stdout)["objective"])

    npu = " ".join((ROOT / "docs" / "npu.md").read_text().split())
    whole, *smaller = (gop_s("zc706", "--tile", f"{T_R},7,128") for T_R in (1024, 512, 256))
    half, quarter = (f"{100 * rate / whole:.1f} %" for rate in smaller)
    assert f"<512,7,128> reaches {half} of the throughput of <1024,7,128>, <256,7,128> {quarter}." in npu


@needs_speed
def test_what_wrong_predictions_cost_is_what_the_page_says(tmp_path):
    page = " ".join((ROOT / "docs" / "batchcond.md").read_text().split())
    device, waiting = blocks("docs/batchcond.md", "sh")[0], blocks("docs/batchcond.md", "sh")[2]
    run_shell(device.replace(" --plot cnn.svg", "") + waiting.splitlines(keepends=True)[0], tmp_path)
    policy = "batchcond:similar=depth,reorganise=off,predictor=4.5us"
    for correlation, said in (("0", "only cost their time"), ("-0.71", "are as good as right ones")):
        served = ("serve-sim", "cnn", "--trace", "all.csv", "--slo", "60s", "--policy", policy, "--json")
        record = json.loads(call_fluidb(*served, "--predict-depth", correlation, cwd=tmp_path).stdout)
        assert f"`--predict-depth {correlation}`) {said} ({record['processing_rate_per_s']:,.0f} /s)" in page


def test_the_site_has_the_help_of_every_command():
    page = run_path(str(ROOT / "website" / "commands.py"))["page"]()
    for command in COMMANDS:
        assert f"## fluidb {command}\n\n```text\n" in page
        assert f"Usage: fluidb {command} " in page
    assert re.findall(r"<(?:int|float|str|path|list).*|<=x|\{[a-z]\w+\}|[<[]\w+\|\w.*", page) == []  # types of Python
    assert "[[" not in page  # an optional argument has brackets once
    assert "\nOptions with a board, an accelerator or a cluster:\n" in page


def test_a_page_shows_every_picture_that_make_draws():
    drawn = set(re.findall(r"docs/images/([\w.-]+)", (ROOT / "Makefile").read_text()))
    text = "".join(page.read_text().replace("](docs/images/", "](images/") for page in PAGES)
    shown = re.findall(r"!\[([^]]+)\]\(images/([\w.-]+)\)", text)
    assert drawn <= {name for _, name in shown} == {path.name for path in (ROOT / "docs" / "images").iterdir()}
    assert all(len(words) > 60 for words, _ in shown)
    assert all(path.stat().st_size < 150_000 for path in (ROOT / "docs" / "images").iterdir())


@pytest.fixture
def shown_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the sizes of a persistent buffer only those are searched that a page shows; the others have their results."""
    shown = set(re.findall(r"^(\d+\.\d\d) +<", (ROOT / "docs" / "sushi.md").read_text(), re.MULTILINE))
    assert len(shown) == 4
    found: list[SearchResult] = []

    def searched(network: Any, platform: Any, options: SearchOptions, **settings: Any) -> SearchResult:
        if f"{options.persistent_mbit:.2f}" in shown:
            found.append(search(network, platform, options, **settings))
        return found[-1]

    monkeypatch.setattr(persistent, "search", searched)


@needs_speed
@pytest.mark.parametrize("page", ["docs/npu.md", "docs/plan.md", "docs/batchcond.md", "docs/sushi.md"])
def test_the_page_prints_what_it_says(tmp_path, page, shown_sizes):
    printed = run_shell("".join(blocks(page, "sh")), tmp_path).splitlines()
    for line in "".join(blocks(page, "text")).splitlines():
        assert line in printed


@needs_speed
def test_the_page_on_decisions_prints_what_it_says(main_job, tmp_path):
    """All but the scenarios: the page's have a test of their own, and shipped ones take minutes."""
    page = "docs/compare.md"
    shutil.copytree(main_job[0], tmp_path, dirs_exist_ok=True)
    commands = [block for block in blocks(page, "sh") if "fluidb compare" not in block]
    printed = run_shell("".join(commands), tmp_path)
    assert printed.count("holds by") == 2
    assert "highest rate kept" in printed
    assert set("".join(blocks(page, "text")).splitlines()) <= set(printed.splitlines())


@needs_speed
def test_the_page_on_edgesp_prints_what_it_says(tmp_path):
    page = "docs/edgesp.md"
    for language, file in (("toml", "half.toml"), ("csv", "pi.csv")):
        (text,) = blocks(page, language)
        (tmp_path / file).write_text(text)
    printed = run_shell("".join(blocks(page, "sh")), tmp_path, call_fluidb)
    claimed, found = (  # the last digits of a threshold depend on the processor
        set(re.sub(r"(\.\d{12})\d+", r"\1", text).splitlines()) for text in ("".join(blocks(page, "text")), printed)
    )
    assert claimed <= found
    made = {path.name for path in tmp_path.iterdir()}
    assert {"fit.svg", "six.svg", "six.json", "pipelined.json"} < made


@needs_speed
def test_subnets_of_the_page_are_searched(tmp_path):
    (own,) = blocks("docs/sushi.md", "toml")
    (tmp_path / "mine.toml").write_text(own)
    assert call_fluidb("dse", "mine.toml", "sushi-u50", cwd=tmp_path).returncode == 0


@needs_speed
@pytest.mark.parametrize(("number", "file"), [(0, "small.toml"), (1, "myboard.toml")])
def test_a_network_and_a_board_are_described_as_the_page_says(tmp_path, number, file):
    (tmp_path / file).write_text(blocks("docs/your-own.md", "toml")[number])
    printed = run_shell(blocks("docs/your-own.md", "sh")[number], tmp_path)
    assert f"{file}: no faults; " in printed
    assert re.search(r"^design +<T_R,T_P,T_C(,V,W)?> = <", printed, flags=re.MULTILINE)


def test_exits_are_chosen_and_served_as_the_page_says(tmp_path):
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
    shutil.copy(light, tmp_path / "net.onnx")
    commands, claimed = blocks("docs/exits.md", "sh")[0], blocks("docs/exits.md", "text")[0]
    printed = run_shell(commands, tmp_path)
    assert set(claimed.splitlines()) <= set(printed.splitlines())
    assert "exits from confidence >= 0.5 of plan/samples.npz" in printed


def test_the_devices_of_the_page_serve(tmp_path):
    page = "docs/your-own.md"
    for file, text in zip(("mygpu.toml", "mystages.toml"), blocks(page, "toml")[2:], strict=True):
        (tmp_path / file).write_text(text)
    (times,) = blocks(page, "csv")
    (tmp_path / "times.csv").write_text(times)
    printed = run_shell(blocks(page, "sh")[2], tmp_path)
    assert "mycpu.toml: no faults; measured, b = 1..2, lanes: 1; a source for every number" in printed
    assert "mygpu.toml: no faults; analytic, b = 1..16, lanes: 2; no source for" in printed
    assert "mystages.toml: no faults; by stage, b = 1..16, lanes: 1; no source for" in printed
    assert "not known: the latency table of times states no causes" in printed


@needs_speed
def test_the_import_of_the_page_prints_what_it_says(tmp_path):
    (table,), (claimed,) = blocks("docs/import.md", "csv"), blocks("docs/import.md", "text")
    (tmp_path / "small.csv").write_text(table)
    commands = blocks("docs/import.md", "sh")[1]
    assert run_shell(commands, tmp_path).startswith(claimed)


def test_the_arrivals_of_the_page_are_made(tmp_path):
    commands = blocks("docs/traffic.md", "sh")[0]
    assert run_shell(commands, tmp_path).count("CV of gaps") == 8  # one trace has no gaps
    assert len(list(tmp_path.glob("*.csv"))) == 9


@needs_speed
def test_the_python_of_the_page_runs(tmp_path):
    run_scripts(blocks("docs/python-api.md", "python"), tmp_path)


@needs_speed
def test_a_policy_is_added_as_the_page_says(tmp_path):
    policy, script, *_ = blocks("docs/extend.md", "python")
    call_fluidb("dse", "resnet50", "zc706", "-o", "r50-zc706", cwd=tmp_path)
    call_fluidb("latency", "r50-zc706", cwd=tmp_path)
    (tmp_path / "patient.py").write_text(policy)
    serving, debugging, *_ = blocks("docs/extend.md", "sh")
    assert run_shell(serving, tmp_path)
    assert "patient.py:patient:debug=on" in run_shell(debugging, tmp_path)
    run_scripts([script], tmp_path)


def run_scripts(scripts, folder):
    """Each as a program, but in this process, which has imported and compiled what they need."""
    for text in scripts:
        (folder / "page.py").write_text(text)
        with chdir(folder), redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            run_path("page.py", run_name="__main__")
        assert err.getvalue() == ""
        assert re.search(r"[0-9.]+ (ms|s)", out.getvalue())


@needs_speed
def test_a_paper_is_added_as_the_page_says(tmp_path):
    """The toy paper of docs/extend.md: one folder, outside of the sources."""
    page = (ROOT / "docs" / "extend.md").read_text()
    (tmp_path / "toy").mkdir()
    files = re.findall(r"as\s`(toy/\S+)`:\n\n```\w+\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert len(files) == 4
    for name, text in files:
        (tmp_path / name).write_text(text)
    printed = run_shell(blocks("docs/extend.md", "sh")[2], tmp_path)
    assert "FluidB is faster than SERIAL" in printed
    made = {path.name for path in (tmp_path / "toy-results" / "toy").iterdir()}
    assert made == {
        *("README.md", ".kept"),
        *(f"{name}.{kind}" for name in ("throughput", "light") for kind in ("csv", "svg")),
    }
    written = (tmp_path / "toy-results" / "toy" / "README.md").read_text()
    assert "| throughput | b = 8 | resnet50 on zc706 | 250 GOP/s |" in written


def written_by(page: Path) -> set[str]:
    """Names of the files and folders that the examples of a page write, and of those that its reader saves."""
    text = page.read_text()
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    commands = [*re.findall(r"^ *(?:\$ )?fluidb .*", text, re.MULTILINE), *re.findall(r"`([^`]+)`", prose)]
    return {
        *re.findall(r"(?<!\S)(?:-o|--plot|--requests|--timeline) ([a-z][\w.-]*)", "\n".join(commands)),
        *re.findall(r"^(?:write_\w+|save)\(.*\"(.+?)\"", text, re.MULTILINE),
        *re.findall(r"[Ss]ave this as\s`([\w.-]+)`", prose),
    }


def test_no_two_pages_write_the_same_file_or_folder():
    """Who follows one page and then another meets no `exists already`."""
    pages = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
    names = [(name, page.name) for page in pages for name in sorted(written_by(page))]
    assert len(names) > 80
    first = dict(reversed(names))
    assert [(name, page, first[name]) for name, page in names if first[name] != page] == []


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_pages_that_the_source_names_exist():
    names = {path.stem for path in ROOT.glob("docs/*.md")} | {"cli"}  # a page of perf_analyzer
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    sources = [ROOT / file for file in files if file.endswith((".py", ".pyi", ".toml"))]
    named = [
        (path.relative_to(ROOT), name)
        for path in sources
        for name in re.findall(r"(?:(?<![\w/])docs/|`fluidb docs )([a-z-]+)(?:\.md|`)", path.read_text())
    ]
    assert len(named) > 100
    assert [item for item in named if item[1] not in names] == []


def test_the_map_of_rooms_is_the_tree():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = set(re.findall(r"^    ([a-z]+)/ ", page, re.MULTILINE))
    assert rooms == {path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests"}


def test_the_questions_are_answered_by_the_source():
    page = (ROOT / "docs" / "architecture.md").read_text()
    answers = page[page.index("## Questions of new readers") : page.index("## Where something new goes")]
    assert len(re.findall(r"^\| .+\? \|", answers, re.MULTILINE)) == 27
    places = []
    for row in re.findall(r"^\| .+\? \| (.*) \|", answers, re.MULTILINE):
        file = ""
        for word, before_file in re.findall(r"`([\w/.]+)`( of `)?", row):
            if "/" in word:
                file = word
            elif file.endswith(".py") and not before_file:
                places.append((file, word))
    assert len(places) >= 20
    defined = r"^ *(?:(?:def|class) )?{}\b|\.{} = "
    lost = [(file, name) for file, name in places
            if not re.search(defined.format(name, name), (ROOT / file).read_text(), re.MULTILINE)]  # fmt: skip
    assert lost == []
    for file in re.findall(r"`(dse/[\w/]+\.(?:sv|in|hpp\.in))`", page):
        assert (ROOT / file).is_file(), file


def test_every_row_is_part_of_a_table():
    """A row behind an empty line is shown as text with bars."""
    for page in PAGES:
        for rows in re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE):
            assert re.search(r"\A.*\n\|[-:| ]+\|\n", rows), f"{page.name}: {rows[:60]}"


def test_a_word_has_one_meaning():
    words = re.findall(r"^\| (.+?) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    twice = {word for word in words if words.count(word) > 1}
    assert twice == {"word"}  # the headings


def test_every_page_leads_to_the_glossary():
    for page in {ROOT / "README.md", *ROOT.glob("docs/*.md")} - {ROOT / "docs" / "glossary.md"}:
        assert "glossary.md)" in page.read_text(), page.name


def test_tests_that_the_docs_name_exist():
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for page in PAGES:
        for name in re.findall(r"`(test_[A-Za-z0-9_]+)`", page.read_text()):
            assert f"def {name}(" in text, f"{page.name}: {name}"
        for name in re.findall(r"\btests/[a-z_/]+\.py", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_every_command_is_in_the_docs():
    formats = (ROOT / "docs" / "file-formats.md").read_text()
    for command in COMMANDS:
        assert f"`{command}`" in formats


@needs_speed
def test_a_real_device_is_measured_and_served_as_the_page_says(tmp_path, monkeypatch):
    """The verdict depends on the machine that runs the test; what is printed with it is not."""
    monkeypatch.setattr("fluidb.machine.protocol.ALONE", 3)
    with np.load(INPUTS) as held:  # each command first runs the whole network on all of them
        np.savez(tmp_path / "few.npz", **{name: held[name][:40] for name in held})
    monkeypatch.setattr("fluidb.machine.network.INPUTS", tmp_path / "few.npz")
    commands, validate, _ = blocks("docs/real-device.md", "sh")
    printed = run_shell(commands, tmp_path)
    assert "all as the network alone gives" in printed
    assert len((tmp_path / "real.csv").read_text().splitlines()) == 201
    assert validate.count("--count 100 ") == 1
    done = call_fluidb(*shlex.split(validate.replace("--count 100", "--count 20"))[1:], cwd=tmp_path)
    assert re.search(r"^0\.3 fluid +mean +.*(within|off|refused)$", done.stdout, flags=re.MULTILINE), done.stderr
    assert done.returncode in (0, 1)


def timed_run(start_ms: float, compute_ms: float) -> dict[str, float]:
    """An entry of what `trtexec --exportTimes` writes, with the keys of TensorRT's own sources."""
    host_ms, begin = 0.25, start_ms - 0.25
    return {
        "startEnqMs": begin, "endEnqMs": begin + 0.1, "startH2dMs": begin, "endH2dMs": start_ms,
        "startComputeMs": start_ms, "endComputeMs": start_ms + compute_ms,
        "startD2hMs": start_ms + compute_ms, "endD2hMs": start_ms + compute_ms + host_ms,
        "h2dMs": host_ms, "computeMs": compute_ms, "d2hMs": host_ms, "latencyMs": compute_ms + 2 * host_ms,
    }  # fmt: skip


@needs_speed
def test_times_of_tensorrt_become_a_device(tmp_path, monkeypatch, capsys):
    """The page's scripts cut a network into files and read what trtexec says of them; its commands serve with that."""
    monkeypatch.chdir(tmp_path)
    model = onnx.load(ROOT / "models" / "digits" / "digits.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(model, "net.onnx")
    _, _, cut, read = blocks("docs/real-device.md", "python")
    exec(cut, {})
    assert len(list(tmp_path.glob("stage*.onnx"))) == 4
    assert "stage 2 reads block1: batch 32 64 64\n" in capsys.readouterr().out
    for stage, batch in product((1, 2, 3, 4), (1, 2)):
        runs = [timed_run(100.0, 50.0), timed_run(200.0, stage + batch), timed_run(210.0, stage + batch + 1)]
        Path(f"s{stage}b{batch}.json").write_text(json.dumps(runs))
    exec(read, {})
    assert (
        call_fluidb("trace", "poisson", "--rate", 20, "--count", 50, "-o", "digits.csv", cwd=tmp_path).returncode == 0
    )
    run_shell(blocks("docs/real-device.md", "sh")[2], tmp_path)
    times_s = load_platform("gpu.toml", kind=MeasuredDevice).times_s
    assert times_s == [[[(stage + batch + 0.5) / 1000 for batch in (1, 2)] for stage in (1, 2, 3, 4)]]


def options_of_commands() -> dict[str, set[str]]:
    """By command, `trace import` for one of several, its options."""
    root: Any = typer.main.get_command(app)
    above = typer.Context(root, info_name="fluidb")
    options = {}
    for name in COMMANDS:
        _, command, _ = root.resolve_command(above, [name])
        below = {f"{name} {each}": its for each, its in getattr(command, "commands", {}).items()}
        for path, its in {name: command, **below}.items():
            options[path] = {
                "--help",
                *(each for parameter in its.params for each in [*parameter.opts, *parameter.secondary_opts]),
            }
    return options


def test_options_that_the_pages_name_exist():
    """An option in a command of fluidb is one of that command; one in a sentence, of some command."""
    known = options_of_commands()
    any_of = {"--version", "--install-completion", *set().union(*known.values())}
    seen, wrong = 0, []
    for page in {*PAGES} - {ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"}:
        text = page.read_text()
        spans = re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
        lines = [line for line in text.splitlines() if re.match(r" *(\$ )?fluidb ", line)]
        for words in [*spans, *lines]:
            matches = re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", words)
            named = re.search(rf"\bfluidb ({'|'.join(COMMANDS)})(?: ([a-z][a-z-]*))?(?![\w-])", words)
            if named is None and not words.startswith(("--", "serve", *COMMANDS)):
                continue  # of another program
            path = "" if named is None else f"{named[1]} {named[2]}"
            expected = any_of if named is None else known[path if path in known else named[1]]
            seen += len(matches)
            wrong += [f"{page.name}: {words}: {option}" for option in matches if option not in expected]
    assert seen > 300
    assert wrong == []


def test_the_pages_name_every_schema_and_no_other():
    """A file whose version has grown, or a new one, is described."""
    folders = [path.parent for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests"]
    source = "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    written = set(re.findall(r'"(fluidb\.[a-z-]+/\d+)"', source))
    named = set(re.findall(r"\bfluidb\.[a-z-]+/\d+", (ROOT / "docs" / "file-formats.md").read_text()))
    assert len(written) > 50
    assert named == written


def test_the_classes_of_tables_have_the_schemas_that_the_page_says():
    page = (ROOT / "docs" / "file-formats.md").read_text()
    rows = re.findall(r"^\|.*\| `(fluidb\.[a-z-]+/\d+)` \|.*\| `([\w.]+)\.(\w+)` \|$", page, re.MULTILINE)
    assert len(rows) == 12
    for schema, module, name in rows:
        assert getattr(import_module(f"fluidb.{module}"), name).schema_name == schema
