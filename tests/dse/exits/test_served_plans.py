"""Plans of random networks for random devices, written by the command, read again, and served.

A few are drawn; `FLUIDB_PLANS=1000 pytest tests/dse/exits/test_served_plans.py` draws more.
"""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Run, blocks, call_fluidb
from fluidb.dse.exits.tabulate import goal_of
from fluidb.formats import read_table, toml
from fluidb.rules.exit_log import log_of
from fluidb.serving import Requests, find_policy, serve
from fluidb.serving.adaptation import DeviceTimes, PlannedExits, adapt
from fluidb.serving.judgement import Exits
from fluidb.tables import read_latency
from fluidb.tables.exit_plan import ExitPlan, InferenceTime, read_plan
from fluidb.traffic import Samples, Trace, read_samples, read_trace, write_trace
from fluidb.traffic.answers import PRESETS, as_measured, draw_answers
from fluidb.traffic.measures import MEASURES
from fluidb.traffic.samples import write_samples

PLANS = int(os.environ.get("FLUIDB_PLANS", "12"))
Random = np.random.Generator


def written(path: Path, content: dict[str, object]) -> Path:
    path.write_text("\n".join(toml.toml_lines(content)))
    return path


def network(random: Random) -> dict[str, object]:
    """A chain of regions of convolutions, each with maps of its own; a head of its own for candidates, or the end's."""
    layers: list[dict[str, object]] = [{"name": "stem", "op": "conv", "out": 8, "kernel": 3, "stride": 2, "pad": 1}]
    regions: list[list[str]] = []
    for region in range(random.integers(1, 4)):
        regions.append([])
        wide = int(random.integers(2, 12)) * 8
        for block in range(random.integers(2, 5)):
            kernel = int(random.choice([1, 3]))
            stride = 2 if region and not block else 1
            layers += [
                {"name": f"r{region}.{block}.{part}", "op": "conv", "out": wide, "kernel": kernel, "pad": kernel // 2,
                 "stride": stride if part == "a" else 1}
                for part in "ab"
            ]  # fmt: skip
            regions[-1].append(f"r{region}.{block}.b")
    layers += [{"name": "pool", "op": "globalavgpool"}, {"name": "classes", "op": "linear", "out": 10}]
    candidates: dict[str, object] = {"regions": regions}
    blocks = sum(map(len, regions))
    if random.random() < 0.3:
        candidates["after"] = sorted(
            (1 + random.choice(blocks - 1, random.integers(1, blocks), replace=False)).tolist()
        )
    if random.random() < 0.3:
        candidates |= {"head": "pool-linear", "classes": 10}
    return {
        "schema": "fluidb.network/1", "name": "net", "title": "Random", "candidates": candidates,
        "input": {"height": 32, "width": 32, "channels": 3}, "layers": layers,
    }  # fmt: skip


def device(random: Random) -> dict[str, Any]:
    """A device whose optional times are there or not, a gather up to as long as many layers."""
    content: dict[str, Any] = {
        "schema": "fluidb.device/1", "name": "dev", "title": "Random", "b_max": int(random.integers(2, 25)),
        "floor_s": 1e-6 * random.integers(1, 200), "slope_s_per_mac": 1e-12 * random.integers(1, 500),
    }  # fmt: skip
    optional: dict[str, Any] = {
        "launch_samples": random.integers(0, 6) / 2, "batch_multiple": int(random.integers(1, 5)),
        "bridge_factor": 1 + random.random(), "check_s": 1e-6 * random.integers(0, 100),
        "restart_s": 1e-6 * random.integers(0, 300), "move_s_per_sample": 1e-6 * random.integers(0, 20),
        "gather_floor_s": 10 ** random.uniform(-6, -2.5), "gather_s_per_sample": 10 ** random.uniform(-7, -4),
        "wake_up_s": 10 ** random.uniform(-5, -2),
    }  # fmt: skip
    content |= {key: value for key, value in optional.items() if random.random() < 0.6}
    if random.random() < 0.3:
        content |= {"bandwidth_gb_s": 1.0 + random.integers(0, 20), "word_bits": 16}
    if random.random() < 0.3:
        content |= {"lanes": 2, "load_full": 1.15, "load_half_batch": 4.0}
    return content


def answers(random: Random, candidates: int, count: int) -> Samples:
    """The answers of classes by confidence or entropy, or of a dense task."""
    preset, seed = PRESETS[random.choice(list(PRESETS))], int(random.integers(2**31))
    samples = draw_answers(preset, candidates, count, seed, values=int(random.choice([1, 1, 1, 3])))
    if samples.values > 1 or random.random() < 0.6:
        return samples
    return as_measured(samples, MEASURES[random.choice([*MEASURES])], preset.classes)


def expected_s(plan: ExitPlan, times: np.ndarray, exits: np.ndarray) -> np.ndarray:
    """Time at which each sample of a batch that runs alone leaves, from its start, by its exit: stage after stage."""
    finish_s, now_s, at = np.zeros(len(exits)), 0.0, 0
    for number, place in enumerate([*(exit_.place for exit_ in plan.exits), len(times) - 1], 1):
        there, stays = int((exits >= number).sum()), int((exits > number).sum())
        if there:
            now_s += times[at, place, there]
        finish_s[exits == number] = now_s
        if 0 < stays < there:
            now_s += times[place, place, stays]
        at = place
    return finish_s


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two plans lie for devices that take time for gathers, with requests; only made-up names are written."""
    made: Path = tmp_path_factory.mktemp("plans")
    (made / "mygpu.toml").write_text(blocks("docs/your-own.md", "toml")[2])
    write_samples(draw_answers(PRESETS["imagenet"], 15, 2000, seed=1), made / "log.npz")
    log = ["--samples", "log.npz", "--guard", "none", "--batch"]
    for command in (
        ["exits", "resnet50", "mygpu.toml", *log, 12, "-o", "plan"],
        ["exits", "resnet50", "rtx-2080-ti", *log, 16, "-o", "other"],
        ["trace", "poisson", "--rate", 4000, "--count", 400, "-o", "t.csv"],
    ):
        assert call_fluidb(*command, cwd=made).returncode == 0
    return made


def test_every_command_serves_a_plan_as_planned(folder: Path) -> None:
    """Its batch size and its thresholds hold: what a command prints is what it prints if they are typed."""
    plan, samples = read_plan(folder / "plan"), read_samples(folder / "plan/samples.npz")
    levels = [exit_.confidence for exit_ in plan.exits]

    def printed(*command: object) -> dict[str, Any]:
        done = call_fluidb(*command, "--json", cwd=folder)
        assert (done.returncode, done.stderr) == (0, ""), command
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    traffic = ["--trace", "t.csv", "--samples", "plan/samples.npz", "--slo", "50ms"]
    typed = ["--threshold", ",".join(map(str, levels))]
    for policy in ("fluid", "pame"):
        served = ["serve-sim", "plan", *traffic, "--policy"]
        whole = printed(*served, f"{policy}:b_max=12", *typed)
        assert printed(*served, policy) == whole
        assert printed(*served, f"{policy}:b_max=16", "--threshold", 0.99) != whole
    text = call_fluidb("serve-sim", "plan", *traffic, cwd=folder).stdout
    assert text.startswith(f"policy           fluid:b_max=12, exits from confidence >= {levels[0]:g}")
    sweep = printed("thresholds", "plan", *traffic)
    assert sweep == printed("thresholds", "plan", *traffic, "--policy", "fluid:b_max=12")
    assert {point["threshold"] for point in sweep["points"]} >= {0.5, *levels}
    assert printed("serve-sim", "other", "--trace", "t.csv", "--slo", "50ms")["policy"] == "fluid:b_max=16"
    keep = ["capacity", "plan", "--slo", "50ms", "--require", "p99 <= 50ms", "--count", 400, "--seeds", 2]
    assert printed(*keep) == printed(*keep, "--policy", "fluid:b_max=12")

    # the same requests, with answers or with the exits at which these leave
    part = samples[slice(0, 400)]
    exits = np.array([*(part.confidences[:, at] >= level for at, level in enumerate(levels)), np.ones(400, dtype=bool)])
    trace = read_trace(folder / "t.csv")
    answered = replace(trace, confidences=part.confidences, correct=part.correct)
    write_trace(answered, folder / "answers.csv")
    write_trace(replace(trace, exits=1 + exits.argmax(axis=0)), folder / "exits.csv")
    reports = [
        printed("report", "plan", "--trace", name, "--slo", "50ms", "--policy", policy, "-o", "r.html", "--force")
        for name, policy in (("answers.csv", "fluid"), ("exits.csv", "fluid:b_max=12"))
    ]
    one, other = (found["designs"][0]["policies"][0] for found in reports)
    assert one["exits_from"].startswith("confidence >=")
    assert {**one, "exits_from": "trace", "accuracy": None, "exits": None} == {**other, "exits": None}
    figures = []
    for name, policy in (("answers", "fluid"), ("exits", "fluid:b_max=12")):
        (folder / "s.toml").write_text(
            'schema = "fluidb.scenario/1"\ntitle = "t"\nseeds = [1]\nbaseline = "a"\n'
            f'contenders = [{{ name = "a", policy = "{policy}" }}]\n'
            f'cases = [{{ table = "plan", slos = ["50ms"], trace = "{name}.csv" }}]\n'
        )
        figures.append(printed("compare", "s.toml")["points"][0]["contenders"][0]["metrics"])
    assert figures[0] == figures[1]


@pytest.mark.parametrize("seed", range(PLANS))
def test_a_plan_is_served_as_planned(fluidb: Run, tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    net, dev = network(random), device(random)
    written(tmp_path / "net.toml", net)
    written(tmp_path / "dev.toml", dev)
    assert fluidb("models", "exits", "net.toml", "-o", "all.toml").returncode == 0
    assert fluidb("latency", "all.toml", "dev.toml", "-o", "all").returncode == 0
    candidates = len(read_latency(tmp_path / "all").exits) - 1
    batch = int(random.integers(1, dev["b_max"] + 1))
    log = answers(random, candidates, int(random.integers(8 * batch, 40 * batch)))
    write_samples(log, tmp_path / "log.npz")
    options = ["--batch", batch, "--precision", f"{random.integers(80, 99)}%", "--slow", f"{random.integers(2, 60)}%"]
    target = random.choice(["dev.toml", "all"])
    done = fluidb("exits", "net.toml", target, "--samples", "log.npz", *options, "-o", "plan")
    if done.returncode:
        (line,) = done.stderr.splitlines()
        assert "no candidate is left" in line
        pytest.skip("no exit pays")
    plan, table, rest = (
        read_plan(tmp_path / "plan"),
        read_latency(tmp_path / "plan"),
        read_samples(tmp_path / "plan/samples.npz"),
    )
    times = read_table(InferenceTime, tmp_path / "plan/inference_time.json").array()

    # in whole batches, one after the other, the other half of the log is served as it was planned
    whole = len(rest) // batch * batch
    part = rest[slice(0, whole)]
    trace = Trace(
        np.arange(whole), np.zeros(whole), confidences=part.confidences, correct=part.correct, measure=rest.measure
    )
    found = serve(tmp_path / "plan", Requests(trace=trace, slo_s=1e3), "pame").replay
    took_s = (found.finish_s - found.start_s).reshape(-1, batch)
    took_s[0] -= table.wake_up_s or 0.0
    batch_s = took_s.max(axis=1)
    assert took_s.mean() == pytest.approx(plan.checked.average_s, rel=1e-9)
    assert batch_s.mean() == pytest.approx(plan.checked.tail_s, rel=1e-9)
    assert (batch_s > plan.checked.original_s * (1 + 1e-9)).mean() == plan.checked.slow_share

    # so it is by `adapt` that changes nothing
    first, counts = log_of(log[slice(0, len(log) // 2)]), log_of(log).counts.tolist()
    exits = Exits(
        tuple(exit_.place for exit_ in plan.exits),
        tuple(MEASURES[plan.measure].to_array(exit_.confidence) for exit_ in plan.exits),
        tuple(counts.index(exit_.count) for exit_ in plan.exits),
    )
    second = log_of(log[slice(len(log) // 2, len(log) // 2 + whole)])
    taken = DeviceTimes(times, table.load, table.wake_up_s or 0.0)
    planned = PlannedExits(exits, goal_of(plan), first)
    still = adapt(second, trace.arrival_s, planned, taken, find_policy("pame"), window=0, slo_s=1e3)
    np.testing.assert_allclose(still.finish_s, found.finish_s, rtol=1e-9)

    # in batches of any size, the served times are in the plan's matrix
    rate = random.uniform(0.2, 1.5) * batch / plan.checked.average_s
    fluidb("trace", "poisson", "--rate", rate, "--count", 200, "-o", "t.csv")
    done = fluidb("serve-sim", "plan", "--trace", "t.csv", "--samples", "plan/samples.npz", "--slo",
                  f"{1e3 * plan.checked.original_s:g}ms", "--policy", "pame", "--requests", "r.csv")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    with (tmp_path / "r.csv").open() as file:
        rows = np.array([[float(row[key]) for key in ("start_s", "finish_s", "exit")] for row in csv.DictReader(file)])
    ended_s = -np.inf
    for start_s in np.unique(rows[:, 0]):
        _, finish_s, left = rows[rows[:, 0] == start_s].T
        assert len(left) <= batch
        woke_s = (table.wake_up_s or 0.0) if start_s > ended_s else 0.0
        np.testing.assert_allclose(finish_s - start_s - woke_s, expected_s(plan, times, left), rtol=1e-6)
        ended_s = finish_s.max()
