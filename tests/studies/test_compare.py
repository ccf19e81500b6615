"""Scenarios and `fluidb compare`: one traffic for all, kept runs, what counts as a change."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import (
    COMPILED,
    DATA,
    DUEL,
    Run,
    Start,
    call_fluidb,
    edited_scenario,
    files,
    killed,
    lines,
    read_terminal,
    table_of,
    wait_for,
)
from fluidb.formats import InputError, read_table, write_table
from fluidb.serving.networks import as_served
from fluidb.serving.one_run import LEAST
from fluidb.studies import load_scenario
from fluidb.studies.comparison import Comparison, compare, read_comparison
from fluidb.studies.earlier import changes_since
from fluidb.studies.scenario import SCENARIOS
from fluidb.studies.store import COMPARED, GridRun, RunTable, Store, figure_of, find_engines, run_each, traffic
from fluidb.studies.workers import Workers
from fluidb.traffic import gamma, offline, poisson, prepare

OF_AN_NPU = [
    figure.key
    for figure in COMPARED
    if figure.part not in ("subnets", "deadlines", "admission") and figure.key != "fairness"
]
FAST = {"one by one": "serial", "waits": "adaptb:timeout=M", "fluid": "fluid:call=1us"}


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a comparison that nothing interrupted; not to be changed."""
    folder = tmp_path_factory.mktemp("compare") / "kept"
    compare(load_scenario(str(DUEL)), folder)
    return folder


@pytest.fixture(scope="session")
def outcome(kept: Path) -> Comparison:
    return read_comparison(kept / "compare.json")


def run_tables(folder: Path) -> list[RunTable]:
    return [read_table(RunTable, path) for path in sorted((folder / "runs").glob("*.json"))]


# the grid


def test_the_grid_is_cases_then_slos_then_rates_then_contenders(outcome: Comparison) -> None:
    found = [(p.case, p.slo_s, p.rate_per_s, p.trace, p.requests) for p in outcome.points]
    assert found == [
        ("light and heavy", 400 * 1e-6, 2000.0, None, 60),
        ("light and heavy", 400 * 1e-6, 8000.0, None, 60),
        ("light and heavy", 2e-3, 2000.0, None, 60),
        ("light and heavy", 2e-3, 8000.0, None, 60),
        ("tiny on pocket at 0.8GB/s", 1e-3, None, "duel.csv", 8),
    ]
    for point in outcome.points:
        assert [contender.name for contender in point.contenders] == list(FAST)
        for contender in point.contenders:
            assert list(contender.metrics) == OF_AN_NPU
            assert all(list(value.seeds) == ["3", "1", "2"] for value in contender.metrics.values())
            assert (contender.differences is None) == (contender.name == "one by one")
    assert [point.bandwidth_gb_s for point in outcome.points] == [0.4] * 4 + [0.8]


def test_every_contender_gets_the_same_arrivals_and_exits(kept: Path) -> None:
    """Runs of one point and seed have one traffic; every other seed and rate has another."""
    groups: dict[tuple[object, ...], set[str]] = {}
    tables = run_tables(kept)
    for table in tables:
        key = table.key
        groups.setdefault((key["rate_per_s"], key["trace_sha256"], key["seed"]), set()).add(table.traffic_sha256)
    assert len(tables) == 5 * 3 * 3
    assert len(groups) == 3 * 3
    assert all(len(digests) == 1 for digests in groups.values())
    assert len(set.union(*groups.values())) == len(groups)


NETWORKS = as_served(table_of([[1.0]] * 3, [0.25, 0.35, 0.4]))
"""Networks with the exits of the scenario."""


def test_arrivals_and_exits_are_those_of_the_single_commands() -> None:
    point = load_scenario(str(DUEL)).points[1]
    found = traffic(point, NETWORKS, 2).whole
    expected = poisson(8000.0, 60, 2)
    assert found.trace.arrival_s.tolist() == expected.arrival_s.tolist()
    assert found.exits.tolist() == prepare(expected, [0.25, 0.35, 0.4], slo_s=1.0, seed=2).exits.tolist()


def test_bursty_arrivals_are_those_of_the_process_gamma(tmp_path: Path) -> None:
    path = edited_scenario(tmp_path, ("[2000, 8000]", "[2000, 8000]\ncv = 2.0"))
    scenario = load_scenario(str(path))
    trace = traffic(scenario.points[1], NETWORKS, 2).whole.trace
    assert trace.arrival_s.tolist() == gamma(8000.0, 2.0, 60, 2).arrival_s.tolist()
    found, _ = compare(scenario)
    assert [point.cv for point in found.points] == [2.0] * 4 + [None]
    assert found.points[0].key != compare(load_scenario(str(DUEL)))[0].points[0].key


def test_all_wait_at_time_0_and_depths_are_predicted(tmp_path: Path) -> None:
    """The keys of a case are the options of the commands; every run depends on them."""
    edits = (
        ("rates = [2000, 8000]", "offline = true\npredict_depth = 0.6"),
        ('["400us", "2ms"]', '["1s"]'),
    )
    scenario = load_scenario(str(edited_scenario(tmp_path, *edits)))
    found = traffic(scenario.points[0], NETWORKS, 2).whole
    expected = prepare(offline(60), [0.25, 0.35, 0.4], slo_s=1.0, seed=2, predict_depth=0.6)
    assert found.trace.at_once
    assert found.trace.predicted_depth is not None
    assert expected.trace.predicted_depth is not None
    assert np.array_equal(found.trace.predicted_depth, expected.trace.predicted_depth)
    outcome, _ = compare(scenario)
    point = outcome.points[0]
    assert (point.rate_per_s, point.offline, point.predict_depth, point.arrivals) == (None, True, 0.6, "all at once")
    assert [contender.metrics["depth_variance"].mean > 0 for contender in point.contenders] == [False, True, True]
    unused: Any = None  # no engine: a key does not depend on it
    keys = []
    for name, correlation in (("sure.toml", 1.0), ("unsure.toml", 0.6)):
        path = edited_scenario(tmp_path, (edits[0][0], f"offline = true\npredict_depth = {correlation}"), name=name)
        keys.append(GridRun(load_scenario(str(path)).points[0], scenario.contenders[0], unused, 0).key())
    assert {name for name in keys[0] if keys[0][name] != keys[1][name]} == {"predict_depth"}


def test_the_text_says_what_waits_and_what_is_predicted(fluidb: Run, tmp_path: Path) -> None:
    edited_scenario(tmp_path, ("rates = [2000, 8000]", "offline = true\npredict_depth = 0.6"))
    text = fluidb("compare", "mine.toml").stdout
    assert "traffic          all wait at time 0, 60 requests a run\npredicted depth  correlation 0.6\n" in text
    assert re.search(r"^fluid +2 +at once ", text, flags=re.MULTILINE)
    headings = [line.count("variance of depth") for line in text.splitlines() if line.startswith("contender")]
    assert headings == [1, 0]


def test_figures_are_those_of_dse_latency_trace_and_serve_sim(fluidb: Run, tmp_path: Path, outcome: Comparison) -> None:
    """One run of the grid by hand, through the other commands."""
    engine = ["--batching", "row", "--no-stacking", "--b-max", 2, "--weights", "0,1"]
    fluidb("dse", DATA / "tiny.toml", DATA / "pocket.toml", "-o", "d", *engine)
    fluidb("latency", "d")
    fluidb("trace", "poisson", "--rate", 8000, "--count", 60, "--seed", 1, "-o", "t.csv")
    arguments = ["--trace", "t.csv", "--slo", "2ms", "--policy", "adaptb:timeout=M", "--seed", 1, "--json"]
    done = json.loads(fluidb("serve-sim", "d", *arguments).stdout)
    found = {name: value.seeds["1"] for name, value in outcome.points[3].contenders[1].metrics.items()}
    assert found["p99_latency_s"] == next(x["latency_s"] for x in done["percentiles"] if x["name"] == "p99")
    assert found["mac_share"] == done["utilisation"]["mac_share"]
    assert found["unavoidable_rate"] == done["unavoidable_violations"] / done["requests"]
    for name in ("mean_latency_s", "violation_rate", "processing_rate_per_s", "busy_share"):
        assert found[name] == done[name]


def test_means_intervals_and_differences_by_hand(outcome: Comparison) -> None:
    for point in outcome.points:
        base = point.contenders[0].metrics
        for contender in point.contenders:
            for name, value in contender.metrics.items():
                values = np.array(list(value.seeds.values()))
                half = 4.303 * values.std(ddof=1) / np.sqrt(3)
                assert value.low is not None
                assert value.high is not None
                least, most = figure_of(name).limits
                ends = max(values.mean() - half, least), min(values.mean() + half, most)
                assert (value.mean, value.low, value.high) == pytest.approx((values.mean(), *ends), abs=1e-12)
                if contender.differences is None:
                    continue
                paired = values - list(base[name].seeds.values())
                half = 4.303 * paired.std(ddof=1) / np.sqrt(3)
                found = contender.differences[name]
                assert found.mean == pytest.approx(paired.mean(), abs=1e-15)
                assert found.high == pytest.approx(paired.mean() + half, abs=1e-12)
                assert found.beyond_noise == (abs(paired.mean()) > half and abs(paired.mean()) > 1e-12)
    marks = [d.beyond_noise for p in outcome.points for c in p.contenders for d in (c.differences or {}).values()]
    assert {True, False} == set(marks)


def test_the_fewest_violations_by_hand(fluidb: Run, tmp_path: Path) -> None:
    """Contenders that are alike lead together, and the next one differs from them seed by seed."""
    both = [f'name = "{name}", policy = "{policy}", engine = {{ b_max = 2, weights = [1.0, 2.0] }} }},'
            for name, policy in (("fluid", "fluid:call=1us"), ("twin", "fluid:call=1us"))]  # fmt: skip
    path = edited_scenario(tmp_path, (both[0], f"{both[0]}\n  {{ {both[1]}"))
    found, _ = compare(load_scenario(str(path)))
    rows = re.findall(r"^(.*?)  +\S+ +\S+  +(.*?)  +([-+]\d+\.\d\d) ±(\d+\.\d\d) ?(\*?) *$",
                      fluidb("compare", path).stdout, re.MULTILINE)  # fmt: skip
    told = 0
    for point in found.points:
        rates = {contender.name: [contender.metrics["violation_rate"].seeds[seed] for seed in ("3", "1", "2")]
                 for contender in point.contenders}  # fmt: skip
        ranked = sorted(rates, key=lambda name: sum(rates[name]))
        first = [name for name in ranked if rates[name] == rates[ranked[0]]]
        if len(first) == len(ranked):
            assert point.lead is None
            continue
        second = next(name for name in ranked if name not in first)
        paired = np.array(rates[first[0]]) - np.array(rates[second])
        half = 4.303 * paired.std(ddof=1) / np.sqrt(3)
        assert point.lead is not None
        assert point.lead[:2] == (", ".join(first), second)
        assert (point.lead.less.mean, point.lead.less.high) == pytest.approx((paired.mean(), paired.mean() + half))
        star = "*" if half < abs(paired.mean()) else ""
        assert (*point.lead[:2], f"{100 * paired.mean():+.2f}", f"{100 * half:.2f}", star) in rows
        told += len(first) > 1
    assert told > 0


def test_a_single_seed_has_the_intervals_of_its_run_if_that_is_long_enough(tmp_path: Path) -> None:
    found, _ = compare(load_scenario(str(edited_scenario(tmp_path, ("[3, 1, 2]", "[3]")))))
    for estimate in found.points[0].contenders[1].metrics.values():
        assert (estimate.low, estimate.high) == (None, None)
    difference = (found.points[0].contenders[1].differences or {})["mean_latency_s"]
    assert (difference.low, difference.beyond_noise) == (None, None)
    done = call_fluidb("compare", "mine.toml", cwd=tmp_path)
    assert done.returncode == 0
    assert "±" not in done.stdout

    long = edited_scenario(tmp_path, ("[3, 1, 2]", "[3]"), ("requests = 60", f"requests = {20 * LEAST}"))
    found, _ = compare(load_scenario(str(long)))
    metrics = found.points[0].contenders[0].metrics
    for name in ("mean_latency_s", "p99_latency_s", "violation_rate"):
        low, high = metrics[name].low, metrics[name].high
        assert low is not None
        assert high is not None
        assert low <= metrics[name].mean < high
    assert metrics["busy_share"].low is None


def test_an_engine_that_several_share_is_kept_once(tmp_path: Path) -> None:
    """Two contenders of the three share one, and so does a second case of the same board."""
    row = 'batching = "row", stacking = false, b_max = 2, search_batch = 2'
    path = edited_scenario(
        tmp_path,
        ('batching = "none", stacking = false, b_max = 2, search_batch = 2', row),
        ('bandwidth = "0.8GB/s"\n', ""),
    )
    compare(load_scenario(str(path)), tmp_path / "d")
    assert len(list((tmp_path / "d" / "designs").iterdir())) == 2


def test_recorded_think_times_stand_beside_the_scenario_and_count(fluidb: Run, tmp_path: Path) -> None:
    """The file's content is part of what a finished run depends on, and of the key of a point."""
    edits = ("rates = [2000, 8000]", 'clients = [3]\nthink = "trace:think.csv"')
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    file, keys, means = edited_scenario(folder, edits), [], []
    for times in ("0.0001\n0.0002", "0.01\n0.02"):
        (folder / "think.csv").write_text(f"think_s\n{times}\n")
        outcome = json.loads(fluidb("compare", file, "--json", "-o", "runs").stdout)
        keys.append(outcome["points"][0]["think_sha256"])
        means.append(outcome["points"][0]["contenders"][0]["metrics"]["processing_rate_per_s"]["mean"])
    assert keys[0] != keys[1]
    assert means[0] > 2 * means[1]
    (folder / "think.csv").unlink()
    (line,) = lines(fluidb("compare", file))
    assert re.search(r"cases\[0\].*think: .*think.csv: expected a file of think times, found none", line)


def test_clients_that_wait_are_points_of_the_grid(fluidb: Run, tmp_path: Path) -> None:
    """Contenders that drop requests have no latency that is finite; the others have no differences to it."""
    path = edited_scenario(
        tmp_path,
        ("rates = [2000, 8000]", 'clients = [1, 6]\nthink = "exponential:100us"'),
        ('policy = "adaptb:timeout=M"', 'policy = "adaptb:timeout=M,on_deadline=drop,admit=queue:2"'),
    )
    outcome = json.loads(fluidb("compare", path, "--json", "-o", "d").stdout)
    alone, busy = (point for point in outcome["points"][:2])
    assert (alone["clients"], alone["think"], alone["rate_per_s"]) == (1, "exponential:100us", None)
    assert "clients" not in outcome["points"][-1]  # the point of a trace
    serial, waits, fluid = busy["contenders"]
    assert "unavoidable_rate" not in serial["metrics"]
    assert waits["metrics"]["dropped_rate"]["mean"] > 0
    assert waits["metrics"]["refused_rate"]["mean"] > 0
    assert "mean_latency_s" not in waits["metrics"]
    assert "mean_latency_s" not in waits["differences"]
    assert fluid["differences"]["mean_latency_s"]["mean"] < 0
    text = fluidb("compare", path, "-o", "d", "--plot", "p.svg").stdout
    assert "clients that wait for their answers, think time exponential:100us" in text
    assert "6 clients" in text
    assert " 1 client " in text
    assert " none " in text
    assert fluidb("compare", path, "-o", "d", "--against", "d/compare.json").returncode == 0
    one, six = read_comparison(tmp_path / "d" / "compare.json").points[:2]
    assert one.key != six.key


# the command


def test_same_bytes_for_any_number_of_threads(fluidb: Run, tmp_path: Path) -> None:
    for folder, threads in (("a", 1), ("b", 7)):
        assert fluidb("compare", DUEL, "-o", folder, "--threads", threads, "--json").stdout == (
            (tmp_path / folder / "compare.json").read_text()
        )
    kept = [files(tmp_path / folder) for folder in "ab"]
    assert len(kept[0]) == 1 + 6 + 45
    assert kept[0] == kept[1]


def test_without_a_folder_nothing_is_written(fluidb: Run, tmp_path: Path) -> None:
    assert fluidb("compare", DUEL).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_text_has_a_table_of_figures_and_one_of_differences_for_each_case(fluidb: Run) -> None:
    text = fluidb("compare", DUEL).stdout
    assert text.count("contender  ") == text.count("less one by one  ") == 2
    assert re.search(r"^waits +0\.4 +8000 +[0-9.]+ ±[0-9.]+ ", text, flags=re.MULTILINE)
    assert re.search(r"^fluid +1 +trace +[-+][0-9.]+ ±[0-9.]+ ", text, flags=re.MULTILINE)
    assert "mean us" in text


def test_a_terminal_sees_progress_and_what_was_kept(start: Start, tmp_path: Path, kept: Path) -> None:
    shutil.copytree(kept, tmp_path / "d")
    master, slave = pty.openpty()
    running = start("compare", DUEL, "-o", "d", stderr=slave)
    os.close(slave)
    seen = b"".join(read_terminal(master))
    os.close(master)
    running.communicate(timeout=180)
    assert running.returncode == 0
    assert b"searches and runs" in seen
    assert b"wrote d; 45 runs were kept there already" in seen


# resuming


def test_killed_in_the_middle_goes_on_to_the_same_bytes(fluidb: Run, tmp_path: Path, kept: Path) -> None:
    """SIGKILL at a step to the disk; the rerun computes what is missing and nothing else."""
    folders = {tmp_path / str(step): step for step in (1, 12, 97)}
    for folder in folders:
        folder.mkdir()
    assert killed(folders, "compare", DUEL, "-o", "d") == [-signal.SIGKILL] * len(folders)
    for folder, step in folders.items():
        before = {path: path.stat().st_mtime_ns for path in (folder / "d").rglob("[!.]*.json")}
        assert abs(len(before) - step // 2) <= 2  # two steps to the disk for each file
        assert len(before) < 52
        assert fluidb("compare", DUEL, "-o", folder / "d").returncode == 0
        assert all(path.stat().st_mtime_ns == when for path, when in before.items())
        found = {name: content for name, content in files(folder / "d").items() if not name.endswith(".part")}
        assert found == files(kept)


def test_kept_runs_are_really_used(fluidb: Run, tmp_path: Path, kept: Path) -> None:
    """A figure changed on disk, its checksum right, turns up in the outcome."""
    shutil.copytree(kept, tmp_path / "d")
    path = min((tmp_path / "d" / "runs").glob("*.json"))
    table = read_table(RunTable, path)
    write_table(table.model_copy(update={"figures": table.figures | {"busy_share": 77.0}}), path)
    content = json.loads(fluidb("compare", DUEL, "-o", "d", "--json").stdout)
    values = [c["metrics"]["busy_share"]["seeds"].values() for p in content["points"] for c in p["contenders"]]
    assert [value for group in values for value in group].count(77.0) == 1


def test_damaged_files_are_computed_again(fluidb: Run, tmp_path: Path, kept: Path) -> None:
    shutil.copytree(kept, tmp_path / "d")
    runs = sorted((tmp_path / "d" / "runs").glob("*.json"))
    runs[0].write_bytes(runs[0].read_bytes()[:-40])
    runs[1].write_text(re.sub(r'"busy_share": [0-9.e-]+', '"busy_share": 0.5', runs[1].read_text()))
    runs[2].write_bytes(runs[3].read_bytes())  # whole, but another run's
    runs[4].unlink()
    designs = sorted((tmp_path / "d" / "designs").glob("*.json"))
    designs[0].write_text("{}")
    designs[1].write_bytes(designs[2].read_bytes())
    (tmp_path / "d" / "compare.json").write_text("[")
    assert fluidb("compare", DUEL, "-o", "d").returncode == 0
    assert files(tmp_path / "d") == files(kept)


def test_a_run_is_kept_under_all_it_depends_on(tmp_path: Path) -> None:
    """Another seed, SLO, rate, number of requests, policy, file of a policy, trace or NPU is another run."""
    names: dict[str, set[str]] = {}
    changes: list[tuple[str, list[tuple[str, str]]]] = [
        ("as it is", []),
        ("seed", [("[3, 1, 2]", "[4, 5, 6]")]),
        ("slo", [('"400us", "2ms"', '"410us", "3ms"'), ('"1ms"', '"2ms"')]),
        ("policy", [('"serial"', '"fluid"'), ("timeout=M", "timeout=L"), ("call=1us", "call=2us")]),
        ("requests and trace", [("requests = 60", "requests = 61")]),
        ("board", []),
    ]
    for index, (what, edits) in enumerate(changes):
        folder = tmp_path / str(index)
        folder.mkdir()
        path = edited_scenario(folder, *edits)
        if what == "requests and trace":
            (folder / "duel.csv").write_text((DATA / "duel.csv").read_text() + "8,0.005\n")
        if what == "board":
            board = folder / "pocket.toml"
            board.write_text(board.read_text().replace("clock_mhz = 100.0", "clock_mhz = 101.0"))
        compare(load_scenario(str(path)), folder / "d")
        names[what] = {item.name for item in (folder / "d" / "runs").iterdir()}
    for what, found in names.items():
        assert len(found) == 45, what
        assert what == "as it is" or not found & names["as it is"], what


TWINS = """
schema = "fluidb.scenario/1"
title = "Two networks of one name"
requests = 20
seeds = [1]
baseline = "serial"
contenders = [{ name = "serial", policy = "serial" }]

[[cases]]
network = "tiny.toml"
platform = "pocket.toml"
slos = ["1ms"]
rates = [10.0]

[[cases]]
name = "wide"
network = "wide/tiny.toml"
platform = "pocket.toml"
slos = ["1ms"]
rates = [10.0]
"""


def test_networks_of_one_name_have_an_npu_each(tmp_path: Path) -> None:
    """They differ in the size of a layer alone."""
    for name in ("tiny.toml", "pocket.toml"):
        shutil.copy(DATA / name, tmp_path)
    (tmp_path / "wide").mkdir()
    text = (tmp_path / "tiny.toml").read_text().replace("out = 16", "out = 256").replace("groups = 16", "groups = 256")
    (tmp_path / "wide" / "tiny.toml").write_text(text)
    (tmp_path / "twins.toml").write_text(TWINS)
    one, wide = (point.contenders[0].metrics for point in compare(load_scenario(tmp_path / "twins.toml"))[0].points)
    assert wide["mean_latency_s"].mean > 1.5 * one["mean_latency_s"].mean


def test_an_edited_policy_file_is_another_run(tmp_path: Path) -> None:
    policy = (
        "from fluidb.serving.policies import go_on, launch\n\n"
        "def mine(view, data):\n    return launch(1, 99) if view.depth == 0 else go_on(99)\n"
    )
    path = edited_scenario(tmp_path, ('"serial"', '"mine.py:mine"'))
    (tmp_path / "mine.py").write_text(policy)
    _, reused = compare(load_scenario(str(path)), tmp_path / "d")
    _, again = compare(load_scenario(str(path)), tmp_path / "d")
    (tmp_path / "mine.py").write_text(policy + "# edited\n")
    _, after = compare(load_scenario(str(path)), tmp_path / "d")
    assert (reused, again, after) == (0, 45, 30)


def test_only_our_own_folder_is_written_to(fluidb: Run, tmp_path: Path, kept: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    (tmp_path / "empty").mkdir()
    shutil.copytree(kept, tmp_path / "d")
    other = edited_scenario(tmp_path, ("requests = 60", "requests = 50"))
    assert "mine: exists already" in lines(fluidb("compare", DUEL, "-o", "mine"))[0]
    assert "mine.toml: exists already" in lines(fluidb("compare", DUEL, "-o", "mine.toml"))[0]
    assert "expected a folder" in lines(fluidb("compare", DUEL, "-o", "mine.toml/where"))[0]
    assert "another scenario" in lines(fluidb("compare", other, "-o", "d"))[0]
    assert files(tmp_path / "d") == files(kept)
    assert fluidb("compare", other, "-o", "d", "--force").returncode == 0
    assert fluidb("compare", DUEL, "-o", "empty").returncode == 0
    assert len(files(tmp_path / "d")) == 52 + 36  # the trace is replayed whole, whatever requests says


def test_ctrl_c_keeps_the_runs_and_says_so(start: Start, tmp_path: Path) -> None:
    """The runs of one policy have no end, so that some are finished and some are not, on any machine."""
    (tmp_path / "mine.py").write_text("def stuck(view, data):\n    while True:\n        pass\n")
    path = edited_scenario(tmp_path, ('"fluid:call=1us"', '"mine.py:stuck"'))
    running = start("compare", path, "-o", "d")
    wait_for(lambda: any((tmp_path / "d").glob("runs/[!.]*.json")))
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=180)
    assert running.returncode == 130
    assert out == ""
    assert err == "fluidb: interrupted; finished runs are kept in d, and the same command continues from them\n"
    assert not (tmp_path / "d" / "compare.json").exists()


# against an earlier comparison


def worsened(kept: Path, path: Path, **factors: float) -> None:
    """An earlier comparison in which figures of one contender at one point were other ones."""
    content = json.loads((kept / "compare.json").read_text())
    for name, factor in factors.items():
        figure = content["points"][1]["contenders"][2]["metrics"][name]
        figure["seeds"] = {seed: value * factor for seed, value in figure["seeds"].items()}
    path.write_text(json.dumps(content))


def test_the_same_again_is_no_regression(fluidb: Run, kept: Path) -> None:
    done = fluidb("compare", DUEL, "--against", kept / "compare.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "90 figures, seed by seed" in done.stdout
    assert re.search(r"^worse +0 beyond noise$", done.stdout, flags=re.MULTILINE)
    content = json.loads(fluidb("compare", DUEL, "--against", kept / "compare.json", "--json").stdout)
    assert content.pop("against") == {"method": "paired", "figures": 90, "worse": [], "better": []}
    assert content == json.loads((kept / "compare.json").read_text())


def test_what_got_worse_is_told_with_exit_code_1(fluidb: Run, tmp_path: Path, kept: Path) -> None:
    """Latency was lower and the processing rate higher: worse; MACs were fewer: better; busy has no good side."""
    worsened(kept, tmp_path / "e.json", mean_latency_s=0.5, processing_rate_per_s=2.0, mac_share=0.5, busy_share=0.5)
    done = fluidb("compare", DUEL, "--against", "e.json")
    assert (done.returncode, done.stderr) == (1, "")
    told = done.stdout.split("got worse")[1].splitlines()[2:]
    assert len(told) == 2
    assert re.match(r"light and heavy: fluid +0\.4 +8000 +mean us +[0-9.]+ +[0-9.]+ +\+", told[0])
    assert re.match(r"light and heavy: fluid +0\.4 +8000 +done /s +[0-9.,]+ +[0-9.,]+ +-", told[1])
    done = fluidb("compare", DUEL, "--against", "e.json", "--json")
    held = json.loads(done.stdout)["against"]
    assert done.returncode == 1
    assert [item["metric"] for item in held["worse"]] == ["mean_latency_s", "processing_rate_per_s"]
    assert [item["metric"] for item in held["better"]] == ["mac_share"]
    assert held["worse"][0]["now"] == pytest.approx(2 * held["worse"][0]["earlier"])


def test_other_seeds_are_held_against_by_welch(tmp_path: Path, kept: Path, outcome: Comparison) -> None:
    """Seeds 3, 1, 2 against 7 to 12: noise is no regression, a latency four times as long is."""
    path = edited_scenario(tmp_path, ("[3, 1, 2]", "[7, 8, 9, 10, 11, 12]"))
    found, _ = compare(load_scenario(str(path)))
    held = changes_since(found, outcome)
    assert (held.method, held.figures) == ("welch", 90)
    assert len(held.worse) + len(held.better) <= 15  # one in twenty, at random; they go together
    worsened(kept, tmp_path / "e.json", mean_latency_s=0.25)
    held = changes_since(found, read_comparison(tmp_path / "e.json"))
    assert ("fluid", "mean_latency_s") in {(item.contender, item.metric) for item in held.worse}


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        (
            [("requests = 60", "requests = 61")],
            'case "light and heavy", SLO 0.4 ms, 2000 /s, 60 requests is not in this scenario',
        ),
        ([('"400us", "2ms"', '"400us"')], "is not in this scenario"),
        ([('"fluid", policy', '"flood", policy')], "contender flood, fluid is in one of the two only"),
        ([("[3, 1, 2]", "[3]")], "two seeds or more"),
    ],
)
def test_comparisons_that_do_not_match(
    fluidb: Run, tmp_path: Path, kept: Path, edits: list[tuple[str, str]], expected: str
) -> None:
    path = edited_scenario(tmp_path, *edits)
    (found,) = lines(fluidb("compare", path, "--against", kept / "compare.json", "-o", "d"))
    assert expected in found
    assert not (tmp_path / "d").exists()  # told before any work


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "no JSON"),
        ('{"schema": "fluidb.run/1"}', 'expected schema "fluidb.compare-output/1", found "fluidb.run/1"'),
        ('{"schema": "fluidb.compare-output/1"}', "title: expected this key"),
        (None, "found no such file"),
    ],
)
def test_an_earlier_file_that_is_none(fluidb: Run, tmp_path: Path, text: str | None, expected: str) -> None:
    if text is not None:
        (tmp_path / "e.json").write_text(text)
    shown = lines(fluidb("compare", DUEL, "--against", "e.json"))
    assert any(line.startswith("fluidb: e.json: ") and expected in line for line in shown), shown


def test_an_earlier_file_of_a_later_version_may_have_more_keys(tmp_path: Path, kept: Path) -> None:
    content = json.loads((kept / "compare.json").read_text())
    content["points"][0]["contenders"][0]["colour"] = "red"
    (tmp_path / "e.json").write_text(json.dumps(content))
    assert read_comparison(tmp_path / "e.json") == read_comparison(kept / "compare.json")


# faults of a scenario file

FAULTS: dict[str, tuple[list[tuple[str, str]], str]] = {
    "schema": ([("scenario/1", "scenario/2")], "schema: expected 'fluidb.scenario/1'"),
    "unknown key": ([("baseline =", "base_line =")], "base_line: unknown key; did you mean baseline?"),
    "no requests": ([("requests = 60\n", "")], "cases: rates, offline and clients need the key requests"),
    "one request": ([("requests = 60", "requests = 1")], "requests: expected at least 2"),
    "no seeds": ([("[3, 1, 2]", "[]")], "seeds: "),
    "negative seed": ([("[3, 1, 2]", "[3, -1]")], "seeds[1]: expected at least 0"),
    "seed twice": ([("[3, 1, 2]", "[3, 1, 3]")], "seeds: expected every seed once, found 3 twice"),
    "baseline": ([('baseline = "one', 'baseline = "two')], "baseline: expected the name of a contender (one by one,"),
    "contender twice": ([('name = "fluid"', 'name = "waits"')], 'contenders: expected every name once, found "waits"'),
    "policy": ([('"serial"', '"cereal"')], 'contenders[0] ("one by one").policy: policy: unknown policy "cereal"'),
    "parameter": ([("timeout=M", "timeout=X")], 'contenders[1] ("waits").policy: policy: timeout'),
    "letter": (
        [('"serial"', '"serial:timeout=M"')],
        'contenders[0] ("one by one").policy: policy: serial has no parameter "timeout"',
    ),
    "policy file": ([('"serial"', '"no.py:mine"')], 'contenders[0] ("one by one").policy: policy: '),
    "batching": ([('"none"', '"nun"')], 'contenders[0] ("one by one").engine.batching: expected'),
    **{
        f"objective {wrong}": (
            [('"fluid:call=1us", engine = {', f'"fluid:call=1us", engine = {{ objective = "{wrong}",')],
            f'engine.objective: expected one of gop_s, latency, energy, gop_s_w, found "{wrong}"',
        )
        for wrong in ("traffic", "speed")
    },
    "search batch": ([("search_batch = 2", "search_batch = 3")], "engine: search_batch: expected at most b_max = 2"),
    "weights": ([("[1.0, 2.0]", "[1.0]")], 'contenders[2] ("fluid").engine: weights: expected 2 values'),
    "heavy weight": (
        [("[1.0, 2.0]", "[1.0, 2e6]")],
        'contenders[2] ("fluid").engine.weights[1]: expected at most 1000000',
    ),
    "no weight": ([("[1.0, 2.0]", "[0.0, 0.0]")], 'contenders[2] ("fluid").engine: weights: expected at least one'),
    "both": ([("weights", "search_batch = 1, weights")], "engine: search_batch: expected weights or search_batch"),
    "network": ([('"tiny.toml"', '"teeny.toml"')], 'cases[0] ("light and heavy").network: '),
    "cv": ([('trace = "duel.csv"', 'trace = "duel.csv"\ncv = 2.0')], "cases[1]: expected cv with rates only"),
    "no cv": ([("[2000, 8000]", "[2000, 8000]\ncv = 0")], 'cases[0] ("light and heavy").cv: expected at least 0.001'),
    "near miss": ([('"tiny.toml"', '"resnet5"')], 'unknown network "resnet5"; did you mean resnet50'),
    "platform": ([('"pocket.toml"', '"zc70"')], 'cases[1].platform: unknown platform "zc70"; did you mean zc706'),
    "bandwidth": ([('"0.8GB/s"', '"0.8"')], "cases[1].bandwidth: bandwidth: expected a unit (MB/s, GB/s), found no"),
    "slo": ([('"400us"', '"400"')], 'cases[0] ("light and heavy").slos[0]: duration: expected a unit'),
    "slo twice": ([('"2ms"', '"0.4ms"')], 'slos: expected every SLO once, found "0.0004" twice'),
    "no slos": ([('["1ms"]', "[]")], "cases[1].slos: "),
    "rate": ([("[2000, 8000]", "[2000, 0]")], 'cases[0] ("light and heavy").rates[1]: expected more than 0'),
    "rate twice": ([("[2000, 8000]", "[2000, 2000.0]")], "rates: expected every rate once"),
    "no traffic": (
        [('trace = "duel.csv"', "")],
        "expected rates, trace, offline = true or clients, found none of them",
    ),
    "no clients": ([("rates = [2000, 8000]", "clients = [0]")], "clients[0]: expected at least 1"),
    "clients twice": ([("rates = [2000, 8000]", "clients = [2, 2]")], "clients: expected every number of clients once"),
    "think time below 0": (
        [("rates = [2000, 8000]", 'clients = [2]\nthink = "-1ms"')],
        "think: expected a number >= 0 and a unit",
    ),
    "think time of a rate": (
        [("rates = [2000, 8000]", 'rates = [2000]\nthink = "1ms"')],
        "expected think with clients",
    ),
    "two traffics": ([('trace = "duel.csv"', 'trace = "duel.csv"\nrates = [1.0]')], "found rates and trace"),
    "three traffics": ([("rates = [2000, 8000]", "rates = [1.0]\noffline = true")], "found rates and offline"),
    "no correlation": (
        [("rates = [2000, 8000]", "rates = [1.0]\npredict_depth = 2.0")],
        ".predict_depth: expected a correlation from -1 to 1, 0 or at least 0.01 in size, found 2",
    ),
    "hardly a correlation": ([("rates = [2000, 8000]", "rates = [1.0]\npredict_depth = 0.005")], "found 0.005"),
    "case twice": (
        [('name = "light and heavy"', 'name = "tiny on pocket at 0.8GB/s"')],
        "cases: expected every name (stated, or NETWORK on PLATFORM, or the table's folder) once",
    ),
    "trace": ([('"duel.csv"', '"no.csv"')], "cases[1].trace: "),
    "tile of nobody": (
        [('trace = "duel.csv"', 'trace = "duel.csv"\ntiles = { me = [8, 1, 1] }')],
        'tiles: expected the names of contenders (one by one, waits, fluid), found "me"',
    ),
    "tile too large": (
        [('trace = "duel.csv"', 'trace = "duel.csv"\ntiles = { fluid = [8, 1000, 1] }')],
        "cases[1].tiles.fluid: <8,1000,1>: expected at most 24 DSPs",
    ),
    "no TOML": ([("seeds = [", "seeds = ")], "not valid TOML"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_every_fault_of_a_scenario_names_its_key(tmp_path: Path, case: str) -> None:
    edits, expected = FAULTS[case]
    path = edited_scenario(tmp_path, *edits)
    with pytest.raises(InputError) as caught:
        load_scenario(str(path))
    assert all(line.startswith(f"{path}: ") for line in caught.value.faults)
    assert any(expected in line for line in caught.value.faults), caught.value.faults


def test_all_faults_are_told_at_once(fluidb: Run, tmp_path: Path) -> None:
    edited_scenario(tmp_path, ('"serial"', '"cereal"'), ('"tiny.toml"', '"resnet5"'), ('"duel.csv"', '"no.csv"'))
    shown = lines(fluidb("compare", "mine.toml"))
    assert [line.split(": ")[2] for line in shown] == [
        'contenders[0] ("one by one").policy', 'cases[0] ("light and heavy").network',
        "cases[1].network", "cases[1].trace",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("header", "value", "expected"),
    [("slo_s", "1.0", "no column slo_s beside the key slos"), ("exit", "9", "expected 1 to 3, the exits")],
)
def test_a_trace_that_does_not_fit(tmp_path: Path, header: str, value: str, expected: str) -> None:
    path = edited_scenario(tmp_path)
    (tmp_path / "duel.csv").write_text(f"request_id,arrival_s,{header}\n0,0.0,{value}\n1,1.0,{value}\n")
    with pytest.raises(InputError, match=r"cases\[1\]\.trace: ") as caught:
        load_scenario(str(path))
    assert expected in str(caught.value)


def test_near_miss_of_a_scenario(fluidb: Run) -> None:
    (found,) = lines(fluidb("compare", "tabl2"))
    assert 'unknown scenario "tabl2"; did you mean table2?' in found


# what ships


def test_shipped_scenarios_load_and_are_listed(fluidb: Run) -> None:
    paper = ["fig7", "fig8", "fig9", "table2"]
    assert SCENARIOS.names() == [*paper[:3], "fluid-slack", "fluid-slack-parts", "similar", "table2"]
    told = " ".join(fluidb("compare", "--help").stdout.split())
    for name in SCENARIOS.names():
        scenario = load_scenario(name)
        assert name in told
        if name not in paper:
            continue  # tests/serving/test_fluid_slack.py
        assert len(scenario.file.seeds) >= 3  # Section IV
        assert scenario.file.sources
        for contender in scenario.contenders:
            weights = [1.0] * 8 if contender.name == "FluidB" else [0.0] * 7 + [1.0]
            assert contender.options.weight_array().tolist() == weights
            assert contender.options.stacking == (contender.name == "FluidB")
    baselines = ["SERIAL", *(f"{kind}-AdaptB-{size}" for kind in ("FC", "R") for size in "SML"), "LazyBatching"]
    for name in ("fig7", "fig8", "fig9"):
        assert [contender.name for contender in load_scenario(name).contenders] == [*baselines, "FluidB"]


@pytest.mark.skipif(not COMPILED, reason="searches boards of the paper: minutes as plain Python")
def test_table_2_from_fewer_requests(tmp_path: Path) -> None:
    """FluidB beats LazyBatching in every cell beyond noise; the paper's first cell has 173 ms and 23.53 %."""
    text = (SCENARIOS.folder / "table2.toml").read_text().replace("15_000", "6_000")
    (tmp_path / "t.toml").write_text(text)
    found, _ = compare(load_scenario(str(tmp_path / "t.toml")))
    assert len(found.points) == 4
    for point in found.points:
        fluid = point.contenders[1]
        for name in ("mean_latency_s", "violation_rate"):
            difference = (fluid.differences or {})[name]
            assert difference.mean < 0, (point.case, name)
            assert difference.beyond_noise, (point.case, name)
    first = found.points[0].contenders[0].metrics
    assert first["mean_latency_s"].mean == pytest.approx(0.173, rel=0.15)
    assert first["violation_rate"].mean == pytest.approx(0.2353, abs=0.05)


@pytest.mark.skipif(not COMPILED, reason="searches boards of the paper: minutes as plain Python")
def test_the_page_prints_what_the_command_does(fluidb: Run, tmp_path: Path) -> None:
    """docs/compare.md: its scenarios run."""
    page = (DATA.parent.parent / "docs" / "compare.md").read_text()
    mine, case = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "mine.toml").write_text(mine)
    assert fluidb("compare", "mine.toml", "-o", "mine").returncode == 0
    (tmp_path / "buffer.toml").write_text(
        'schema = "fluidb.scenario/1"\ntitle = "SubNets"\nrequests = 400\nseeds = [0, 1]\nbaseline = "no buffer"\n'
        'contenders = [\n  { name = "no buffer", policy = "sushi:mode=accuracy,graph=0" },\n'
        '  { name = "slack", policy = "sushi" },\n]\n' + case
    )
    assert fluidb("dse", "ofa_mobilenet_v3", "sushi-zcu104", "-o", "mbv3").returncode == 0
    assert fluidb("compare", "buffer.toml", "-o", "buffer").returncode == 0


def test_a_policy_that_breaks_its_contract_stops_the_comparison(fluidb: Run, tmp_path: Path) -> None:
    edited_scenario(tmp_path, ('"serial"', '"bad.py:greedy"'))
    (tmp_path / "bad.py").write_text(
        "from fluidb.serving.policies import launch\n\n"
        "def greedy(view, data):\n    return launch(view.waiting + 1, 1)\n"
    )
    (found,) = lines(fluidb("compare", "mine.toml"))
    assert "greedy: admitted more requests than wait" in found


def test_a_run_by_itself(tmp_path: Path) -> None:
    """The library's pieces: an engine, a run, kept nowhere."""
    scenario, nowhere, here = load_scenario(str(DUEL)), Store(None), Workers(1)
    point, contender = scenario.points[0], scenario.contenders[2]
    asked = (*point.site.npu, contender.options)
    ((_, engine),) = find_engines([asked], nowhere, here)
    ((_, table, reused),) = run_each([GridRun(point, contender, engine, 3)], nowhere, here)
    assert not reused
    assert list(table.figures) == OF_AN_NPU
    assert table.inputs == {"fluidb.latency/2": engine.table.digest()}
