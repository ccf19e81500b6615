"""The error of a calibrated engine travels: figures at both of its ends, and requirements that are undecided."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from builders import Run
from fluidb.dse.device.tabulate import tabulate_file
from fluidb.formats import InputError, validate
from fluidb.models.loader import read_network_file
from fluidb.platforms import load_platform
from fluidb.platforms.engine import Engine
from fluidb.platforms.writer import platform_text
from fluidb.serving import Requests, parse_requirement, serve
from fluidb.studies import sweep_thresholds
from fluidb.tables import LatencyTable, read_latency
from fluidb.traffic import poisson, write_trace
from fluidb.traffic.samples import Samples, write_samples

ENDS = load_platform("dpu-b4096-kv260", kind=Engine).measured or []


@pytest.fixture
def engine(fluidb: Run, tmp_path: Path) -> Path:
    """The folder of a calibrated engine; a trace lies beside it."""
    assert fluidb("latency", "resnet18", "dpu-b4096-kv260", "-o", "lat").returncode == 0
    write_trace(poisson(150, 2000, seed=1), tmp_path / "t.csv")
    return tmp_path / "lat"


def test_the_ends_are_replays_of_slower_tables(engine: Path) -> None:
    table, served = read_latency(engine), Requests(trace=engine.parent / "t.csv", slo_s=0.02)
    assert table.measured == ENDS
    result = serve(table, served, "serial")
    assert [end.factor for end in result.ends] == table.measured
    for end in result.ends:
        slower = table.slower(end.factor)
        assert slower.measured is None
        assert np.allclose(slower.stage_array(), end.factor * table.stage_array())
        assert serve(slower, served, "serial").summary == end.summary
    latencies = [end.summary.mean_latency_s for end in result.ends]
    assert latencies[0] < result.summary.mean_latency_s < latencies[1]


def test_a_requirement_that_holds_at_the_good_end_alone_is_undecided(fluidb: Run, engine: Path) -> None:
    done = fluidb("serve-sim", "lat", "--trace", "t.csv", "--policy", "serial", "--slo", "20ms", "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    low, high = (end["mean_latency_s"] for end in printed["ends"])
    between = (low + printed["mean_latency_s"]) / 2, (high + printed["mean_latency_s"]) / 2
    wanted = [f"mean <= {1e3 * value:.6f}ms" for value in (*between, 2 * high)]
    served = serve(
        engine, Requests(trace=engine.parent / "t.csv", slo_s=0.02), "serial",
        requirements=[parse_requirement(text) for text in wanted],
    )  # fmt: skip
    assert served.undecided == [True, True, False]
    for text, undecided in zip(wanted, served.undecided, strict=True):
        done = fluidb("serve-sim", "lat", "--trace", "t.csv", "--policy", "serial", "--slo", "20ms", "--require", text)
        assert done.returncode == int(undecided)
        assert (f"undecided  {text}: fails at one end" in done.stdout) == undecided
    assert f"{ENDS[0]:g} of predicted" in done.stdout
    assert "times, 90 % of networks" in done.stdout


def test_capacity_prints_the_rate_at_both_ends(fluidb: Run, engine: Path) -> None:
    given = ["capacity", engine, "--slo", "20ms", "--require", "violation_rate <= 10 %", "--seeds", 2, "--count", 500]
    done = fluidb(*given, "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    fast, slow = (end["kept_per_s"] for end in printed["ends"])
    assert fast > printed["kept_per_s"] > slow
    assert f"kept if times are x {ENDS[1]:g}" in fluidb(*given).stdout


def test_a_threshold_keeps_what_holds_at_both_ends(tmp_path: Path) -> None:
    """A mean between the ones of the nominal and of the slower times holds for the nominal ones only."""
    engine = load_platform("dpu-b4096-kv260", kind=Engine)
    table = tabulate_file(*read_network_file("resnet50"), engine)
    exits = len(table.exits)
    write_samples(Samples(np.full((50, exits), 0.8), np.ones((50, exits), dtype=bool)), tmp_path / "s.npz")
    requests = Requests(trace=poisson(5, 300, seed=1), samples=tmp_path / "s.npz", slo_s=1.0)

    def means(of: LatencyTable) -> list[float]:
        return [point.mean_latency_s for point in sweep_thresholds(of, requests, "serial", [0.7, 0.9]).points]

    here, there = means(table), means(table.slower(table.ends[1]))
    assert here[0] < there[0] < here[1]
    asked = [parse_requirement(f"mean <= {500 * (here[1] + there[1]):.6f}ms")]
    kept = sweep_thresholds(table, requests, "serial", [0.7, 0.9], requirements=asked)
    assert [point.kept for point in kept.points] == [True, False]
    assert [point.pareto for point in kept.points] == [True, False]


def test_tables_without_an_error_have_no_ends(fluidb: Run, engine: Path) -> None:
    assert fluidb("latency", "resnet18", "nvdla-2048", "-o", "plain").returncode == 0
    done = fluidb("serve-sim", "plain", "--trace", "t.csv", "--slo", "20ms", "--json")
    assert "ends" not in json.loads(done.stdout)
    assert "measured" not in json.loads((engine.parent / "plain" / "latency.json").read_text())


def test_an_error_that_is_not_known_is_said_and_has_no_ends(fluidb: Run, engine: Path) -> None:
    calibrated = load_platform("dpu-b4096-kv260", kind=Engine).with_error(None)
    (engine.parent / "e.toml").write_text(platform_text(calibrated))
    assert fluidb("latency", "resnet18", "e.toml", "-o", "few").returncode == 0
    given = ["few", "--slo", "20ms"]
    rates = [*given, "--require", "violation_rate <= 10 %", "--seeds", 2, "--count", 300]
    for command in (["serve-sim", *given, "--trace", "t.csv"], ["capacity", *rates]):
        printed = json.loads(fluidb(*command, "--json").stdout)
        assert (printed["ends"], printed["ends_confidence"]) == (None, None)
        assert "error of times" in (text := fluidb(*command).stdout)
        assert "not known: its constants were fitted" in " ".join(text.split())


def test_an_error_belongs_to_layers_without_causes() -> None:
    stages = {"network": "n", "platform": "p", "exits": [{"name": "e", "rate": 1.0}], "b_max": 1, "stage_s": [[[1.0]]]}
    with pytest.raises(InputError, match="measured: expected only beside layers"):
        validate(LatencyTable, stages | {"measured": [0.9, 1.1]}, "l.json")
