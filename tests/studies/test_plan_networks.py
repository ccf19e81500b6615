"""`fluidb plan` of a file of networks: against every choice by brute force, and its faults."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from builders import Run, table_of
from fluidb.formats import InputError, write_table
from fluidb.serving import Requests, parse_requirement, serve
from fluidb.serving.figures import FIGURES
from fluidb.serving.statistics import mean_interval
from fluidb.studies.plan.served import ServedTraffic, multipliers_of, networks_on, plan_served
from fluidb.tables.latency import BuiltNpu, Cores
from fluidb.traffic import poisson

POLICIES = ["serial:between=fcfs|edf", "fluid:b_max=1|2,between=priority"]
SPECS = [
    "serial:between=fcfs",
    "serial:between=edf",
    "fluid:b_max=1,between=priority",
    "fluid:b_max=2,between=priority",
]
NAMES = ["a", "b"]


def write_hardware(folder: Path, factor: float, pe: int | None) -> None:
    """The tables of two networks on a design with a number of multipliers, or on a device."""
    for name, time_s in (("first", 0.02), ("second", 0.05)):
        npus = None
        if pe is not None:
            npus = [BuiltNpu(board="b", tile=[8, 1, pe], clock_mhz=1.0, bandwidth_gb_s=1.0, word_bits=16)]
        table = table_of([[factor * time_s, 1.5 * factor * time_s]])
        place = folder / name
        place.mkdir(parents=True)
        write_table(table.model_copy(update={"network": name, "npus": npus}), place / "latency.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three designs, the dearest first, and a file of networks with traffic of their own."""
    for name, factor, pe in (("large", 0.4, 30), ("small", 1.6, 10), ("middle", 0.8, 20)):
        write_hardware(tmp_path / name, factor, pe)
    (tmp_path / "n.toml").write_text(
        'schema = "fluidb.networks/1"\nduration = "40s"\nnetworks = [\n'
        '{ name = "a", table = "large/first", slo = "100ms", priority = 1, rate = 10 },\n'
        '{ name = "b", table = "large/second", slo = "1s", priority = 2, clients = 1, think = "exponential:100ms" },\n'
        "]\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    "texts",
    [["violation_rate[a] <= 20 %"], ["violation_rate[a] <= 2 %", "processing_rate[b] >= 4 /s"],
     ["mean[a] <= 62 ms", "processing_rate[b] >= 2 /s"], ["mean[a] <= 1 ms"]],
)  # fmt: skip
def test_the_answer_is_that_of_every_choice(texts: list[str], folder: Path):
    """Each design with each policy on the same seeds; the cheapest kept one is the answer, the first of equal ones."""
    required = [parse_requirement(text, networks=NAMES) for text in texts]
    hardware, traffic = [folder / name for name in ("large", "small", "middle")], ServedTraffic(seed=3, seeds=3)
    kept = []
    for cost, place in ((10, hardware[1]), (20, hardware[2]), (30, hardware[0])):
        for spec in SPECS:
            runs = [serve(networks_on_file(folder, place), Requests(seed=seed), spec) for seed in (3, 4, 5)]
            sides = []
            for requirement in required:
                summaries = [
                    next(own.summary for own in run.networks if own.name == requirement.network) for run in runs
                ]
                values = np.array([FIGURES[requirement.name].of(summary) for summary in summaries])
                interval = mean_interval(values)
                assert interval is not None
                sides.append(requirement.side(interval.within(FIGURES[requirement.name].limits)))
            if all(sides):
                kept.append((cost, str(place), spec))
    answer = plan_served(folder / "n.toml", hardware, required, POLICIES, traffic)
    if not kept:
        assert answer.best is None
        assert (len(answer.plans), answer.left) == (12, 0)
        return
    assert answer.best is not None
    assert (answer.best.multipliers, answer.best.hardware, answer.best.policy) == kept[0]
    assert [(p.multipliers, p.hardware, p.policy) for p in answer.plans if p.kept] == [
        plan for plan in kept if plan[0] == kept[0][0]
    ]
    assert len(answer.plans) + answer.left == 12


def networks_on_file(folder: Path, place: Path):
    """The networks of the file, with the tables of a design in their folders."""
    from fluidb.serving.networks import read_networks

    return networks_on(read_networks(folder / "n.toml"), place)


def test_networks_may_share_a_rate_or_a_trace_and_one_with_clients_is_planned_too(folder: Path):
    text = (folder / "n.toml").read_text().replace('duration = "40s"\n', "")
    shared = text.replace(", rate = 10", "").replace(', clients = 1, think = "exponential:100ms"', "")
    (folder / "shared.toml").write_text(shared)
    required = [parse_requirement("busy_share <= 60 %")]
    at_rate = plan_served(folder / "shared.toml", [folder / "middle"], required, SPECS[:1],
                          ServedTraffic(rate_per_s=10.0, count=500, seeds=2))  # fmt: skip
    networks = networks_on_file(folder, folder / "middle")
    plain = [type(one)(name=one.name, table=one.table, slo_s=one.slo_s) for one in networks]
    runs = [serve(plain, Requests(trace=poisson(10.0, 500, seed), seed=seed), SPECS[0]) for seed in (0, 1)]
    assert at_rate.plans[0].figures[0] is not None
    assert at_rate.plans[0].figures[0].values.tolist() == [run.summary.busy_share for run in runs]
    with pytest.raises(InputError, match="networks: expected a trace or a rate, found none"):
        plan_served(folder / "shared.toml", [folder / "middle"], required)
    with pytest.raises(InputError, match="expected neither trace nor rate beside traffic of their own, found rate"):
        plan_served(folder / "n.toml", [folder / "middle"], required, (), ServedTraffic(rate_per_s=1.0))
    (folder / "one.toml").write_text(
        'schema = "fluidb.networks/1"\nnetworks = [{ name = "b", table = "large/second", slo = "1s", clients = 4, '
        "count = 200 }]\n"
    )
    one = plan_served(folder / "one.toml", [folder / "small", folder / "middle"], [parse_requirement("mean <= 170 ms")])
    assert one.best is not None
    # four clients without a think time: on the small design alone 320 ms each, on the middle one 160 ms
    assert (Path(one.best.hardware).name, one.best.policy) == ("middle", "serial")
    write_hardware(folder / "twin", 0.8, 20)
    twins = [folder / "twin", folder / "middle"]
    both = plan_served(folder / "one.toml", twins, [parse_requirement("mean <= 170 ms")])
    assert both.best is not None
    assert (Path(both.best.hardware).name, len(both.plans), both.left) == ("twin", 8, 0)  # they cost the same


def test_multipliers_are_those_of_every_core():
    """T_P x T_C, for each pixel side by side; two cores of the first kind and one of the second."""
    npus = [
        BuiltNpu(board="b", tile=tile, clock_mhz=1.0, bandwidth_gb_s=1.0, word_bits=16)
        for tile in ([8, 2, 3], [8, 5, 7, 4, 1])
    ]
    table = table_of([[1.0]])
    assert multipliers_of(table) is None
    assert [multipliers_of(table.model_copy(update={"npus": [npu]})) for npu in npus] == [6, 140]
    cores = Cores(names=["k", "l"], of=[0, 1, 0], contention=0.0, moving=[[[0.0]]] * 2)
    assert multipliers_of(table.model_copy(update={"npus": npus, "cores": cores})) == 2 * 6 + 140


def test_the_command_prints_the_plan_or_why_there_is_none(fluidb: Run, folder: Path):
    asked = "plan", "n.toml", "large,small,middle", "--seeds", "2", "--policy", POLICIES[0]
    printed = fluidb(*asked, "--require", "violation_rate[a] <= 20 %").stdout
    assert printed.startswith("hardware     middle\nmultipliers  20\npolicy       serial:between=")
    record = json.loads(fluidb(*asked, "--require", "violation_rate[a] <= 20 %", "--json").stdout)
    assert record["best"]["hardware"] == "middle"
    assert [plan["hardware"] for plan in record["plans"]] == ["small", "small", "middle", "middle"]
    assert True not in [plan["kept"] for plan in record["plans"][:2]]
    assert record["left"] == 2
    missed = fluidb(*asked, "--require", "mean[a] <= 1 ms")
    assert missed.returncode == 1
    assert 'no plan surely keeps the requirements; with serial:between=fcfs on small "mean[a] <= 1 ms" is not kept' in (
        missed.stderr
    )


def test_faults_are_one_line(fluidb: Run, folder: Path):
    write_hardware(folder / "device", 1.0, None)
    (folder / "empty").mkdir()
    asked = "--require", "mean[a] <= 1 s"
    for options, said in (
        (
            ("n.toml", "zc706", *asked),
            "zc706: expected a folder with a latency table of each network, found none; make",
        ),
        (("n.toml", "empty", *asked), "empty: expected one latency table of first, found 0"),
        (("n.toml", "large,device", *asked), "hardware: expected NPUs only or devices only"),
        (("n.toml", "large"), "--require: expected at least one, found none"),
        (("n.toml", *asked), "platforms: expected at least one, found none"),
        (("n.toml", "large", *asked, "--minimise", "energy"), "--minimise: expected it with one network, found a file"),
        (("n.toml", "large", *asked, "--rate", "1,2"), "--rate: expected requests a second of all networks together"),
        (("n.toml", "large", "--require", "mean[c] <= 1 s"), 'unknown network "c"'),
    ):
        done = fluidb("plan", *options)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), options
        assert said in done.stderr
