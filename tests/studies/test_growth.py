"""`fluidb capacity` of networks with traffic of their own: by which factor rates may grow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import Run, table_of
from fluidb.formats import InputError, write_table
from fluidb.serving import Requests, ServedNetwork, parse_requirement, serve
from fluidb.studies import CapacityOptions, find_capacity
from fluidb.studies.growth import grown
from fluidb.traffic import Clients
from fluidb.traffic.own import OwnTraffic

NAMES = ["poisson", "camera"]
FEW = CapacityOptions(seeds=2, slo_s=1.0, tolerance=0.02)


def pair(lasts_s: float = 100.0) -> list[ServedNetwork]:
    """A load of 0.1 of Poisson arrivals, and of 0.3 of frames."""
    return [
        ServedNetwork(
            name="poisson", table=table_of([[0.01]]), priority=1,
            traffic=OwnTraffic(rate_per_s=10.0, lasts_s=lasts_s),
        ),
        ServedNetwork(
            name="camera", table=table_of([[0.03]]), priority=2,
            traffic=OwnTraffic(frames_per_s=10.0, jitter_s=0.01, lasts_s=lasts_s),
        ),
    ]  # fmt: skip


def test_frames_that_come_more_often_jitter_by_the_same_share_of_their_period():
    """Four times the rate for twice as long: at once, or of the camera alone."""
    poisson, camera = (own.traffic for own in grown(pair(), None, 4.0, 2))
    assert poisson == OwnTraffic(rate_per_s=40.0, lasts_s=200.0)
    assert camera == OwnTraffic(frames_per_s=40.0, jitter_s=0.0025, lasts_s=200.0)
    poisson, again = (own.traffic for own in grown(pair(), "camera", 4.0, 2))
    assert poisson == OwnTraffic(rate_per_s=10.0, lasts_s=200.0)
    assert again == camera


@pytest.mark.parametrize(("grow", "most"), [(None, 0.8 / 0.4), ("camera", 0.7 / 0.3), ("poisson", 0.5 / 0.1)])
def test_a_bound_on_the_busy_share_is_reached_where_the_loads_say(grow: str | None, most: float):
    """The device is busy for the sum of rate times service; what does not grow keeps its part."""
    asked = [parse_requirement("busy_share <= 80 %")]
    capacity = find_capacity(pair(), "serial:between=priority", asked, replace(FEW, grow=grow))
    assert capacity.growth is not None
    assert capacity.growth.kept is not None
    assert capacity.growth.not_kept is not None
    assert capacity.growth.kept <= most * 1.01
    assert capacity.growth.kept == pytest.approx(most, rel=0.06)
    assert capacity.growth.not_kept == pytest.approx(most, rel=0.06)
    rate = {None: 20.0, "camera": 10.0, "poisson": 10.0}[grow]
    assert capacity.kept_per_s == pytest.approx(rate * capacity.growth.kept)
    saturated = {None: 1 / 0.4, "camera": 0.9 / 0.3, "poisson": 0.7 / 0.1}[grow]
    assert capacity.saturation_per_s == pytest.approx(rate * saturated)


def test_each_probe_is_what_serve_says_and_the_answer_is_that_of_every_factor_in_turn():
    """By brute force over a ladder of factors, each judged by the same runs."""
    asked = [parse_requirement("p90[poisson] <= 45 ms", networks=NAMES)]
    capacity = find_capacity(pair(), "serial:between=fcfs", asked, FEW)
    assert capacity.growth is not None
    held = []
    for factor in [0.2 * k for k in range(1, 12)]:
        runs = [
            serve(grown(pair(), None, factor, 16), Requests(seed=seed, slo_s=1.0), "serial:between=fcfs",
                  requirements=asked)
            for seed in range(2)
        ]  # fmt: skip
        held.append((factor, all(run.requirements[0].holds for run in runs)))
    last = max(factor for factor, holds in held if holds)
    first = min(factor for factor, holds in held if not holds)
    assert last < first
    assert capacity.growth.kept is not None
    assert capacity.growth.not_kept is not None
    assert capacity.growth.kept < first + 1e-9
    assert capacity.growth.not_kept > last - 1e-9
    for probe in capacity.probes:
        assert probe.factor is not None
        durations = {1: 1, 2: 2, 4: 4, 8: 8, 16: 16}
        served = [serve(grown(pair(), None, probe.factor, times), Requests(seed=0, slo_s=1.0), "serial:between=fcfs")
                  for times in durations]  # fmt: skip
        assert any(abs(one.summary.requests - probe.requests) < 0.1 * probe.requests + 10 for one in served)


def test_clients_stay_as_many():
    networks = [
        *pair(20.0)[:1],
        ServedNetwork(
            name="best", table=table_of([[0.01]]), priority=2, traffic=OwnTraffic(clients=Clients(2), lasts_s=20.0)
        ),
    ]
    larger = grown(networks, None, 3.0, 2)
    assert [network.traffic for network in larger] == [
        OwnTraffic(rate_per_s=30.0, lasts_s=40.0), OwnTraffic(clients=Clients(2), lasts_s=40.0)
    ]  # fmt: skip
    asked = [parse_requirement("mean[poisson] <= 30 ms", networks=["poisson", "best"])]
    capacity = find_capacity(networks, "serial:between=priority", asked, FEW)
    assert capacity.growth is not None
    # M/D/1 beside a device that is never idle: half a service to its end, and the queue; Cobham's formula
    load = 1 - 0.005 / 0.02
    assert capacity.growth.kept == pytest.approx(load / 0.1, rel=0.1)


FAULTS: dict[str, tuple[list[ServedNetwork], dict[str, Any], str, str]] = {
    "unknown": (pair(), {"grow": "other"}, "busy_share <= 9 %", r'grow: expected .*\(poisson, camera\), found "other"'),
    "mix": (pair(), {"grow": "camera"}, "mean <= 1 s", r'require: expected a network, as in "mean\[camera\]'),
    "clients": (pair(), {"clients": Clients(1)}, "mean <= 1 s", "clients: expected none beside networks with traffic"),
    "no time": (
        [replace(pair()[0], traffic=OwnTraffic(rate_per_s=200.0, lasts_s=9.0)), pair()[1]], {"grow": "camera"},
        "mean[camera] <= 1 s", "rate: expected the networks beside camera to leave some time free, found that",
    ),
    "alone": (
        [ServedNetwork(name="a", table=table_of([[1.0]]))], {"grow": "a"}, "busy_share <= 9 %",
        "grow: expected networks with traffic of their own, found none",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", FAULTS)
def test_a_fault_is_one_line(row: str):
    networks, more, text, said = FAULTS[row]
    asked = [parse_requirement(text, networks=[network.name for network in networks])]
    with pytest.raises(InputError, match=said) as error:
        find_capacity(networks, "serial", asked, replace(FEW, **more))
    assert len(error.value.faults) == 1


def test_a_file_says_what_grows(fluidb: Run, tmp_path: Path):
    for name, network in zip(NAMES, pair(), strict=True):
        (tmp_path / name).mkdir()
        write_table(network.latency, tmp_path / name / "latency.json")
    file = (
        'schema = "fluidb.networks/1"\nduration = "50s"\nnetworks = [\n'
        '{ name = "poisson", table = "poisson", slo = "1s", rate = 10, priority = 1 },\n'
        '{ name = "camera", table = "camera", slo = "1s", fps = 10, priority = 2 },\n]\n'
    )
    (tmp_path / "n.toml").write_text(file)
    asked = "capacity", "n.toml", "--policy", "serial", "--require", "busy_share <= 80 %", "--seeds", "2"
    record = json.loads(fluidb(*asked, "--json").stdout)
    assert record["growth"]["kept"] == pytest.approx(2.0, rel=0.06)
    assert record["growth"]["network"] is None
    printed = fluidb(*asked, "--grow", "camera").stdout
    assert "what grows         camera" in printed
    assert "times the rates of the file" in printed
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n0,0.0\n")
    (tmp_path / "n.toml").write_text(file.replace("rate = 10", 'trace = "t.csv"'))
    done = fluidb(*asked)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert 'network "poisson": trace: expected rate, fps or clients, as a trace cannot grow' in done.stderr
