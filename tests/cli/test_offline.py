"""A trace in which all requests wait at time 0 is an ordinary trace: every command serves it, or says why not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from builders import Run, lines

COUNT = 450
SERVED = ("--trace", "t.csv", "--slo", "2ms")


@pytest.fixture
def waiting(fluidb: Run) -> Run:
    """The command line beside an offline trace."""
    assert fluidb("trace", "offline", "--count", COUNT, "-o", "t.csv").returncode == 0
    return fluidb


def test_the_trace_and_what_is_printed_of_it(fluidb: Run, tmp_path: Path):
    done = fluidb("trace", "offline", "--count", 3, "-o", "t.csv")
    assert done.stdout == ("requests      3\nrate          none, all arrive at one time\nlast arrival  0.000 s\n")
    assert (tmp_path / "t.csv").read_text() == "request_id,arrival_s\n0,0.0\n1,0.0\n2,0.0\n"
    record = json.loads(fluidb("trace", "offline", "--count", 3, "-o", "t.csv", "--force", "--json").stdout)
    assert (record["process"], record["seed"], record["arrival_rate_per_s"]) == ("offline", None, 0.0)
    (fault,) = lines(fluidb("trace", "offline", "--count", 0, "-o", "none.csv"))
    assert fault == "fluidb: --count: expected at least 1 request and at most 100,000,000, found 0"


def test_serve_sim_says_when_all_have_returned(waiting: Run, tiny_design: Path):
    command = ("serve-sim", tiny_design, *SERVED)
    bounds = ("makespan <= 1s", "depth_variance < 0.1", "processing_rate > 1/s")
    required = [word for bound in bounds for word in ("--require", bound)]
    done = waiting(*command, *required)
    assert done.returncode == 1
    assert "no interval" not in done.stderr
    text = done.stdout
    assert "450 over 0.1 s, all waiting from the beginning" in text
    assert "95 % interval        none, as this is one observation" in text
    assert "more requests needed" not in text
    assert not any(line.startswith(("arrival rate", "warm-up")) for line in text.splitlines())
    record = json.loads(waiting(*command, *required, "--json").stdout)
    makespan, variance, rate = record["requirements"]
    assert makespan["value"] == record["makespan_s"] == record["span_s"]
    assert rate["value"] == pytest.approx(COUNT / record["makespan_s"])
    assert (variance["unit"], variance["holds"], variance["interval"]) == ("squared", False, None)
    assert f"variance in a batch  {record['depth_variance']:.4g} of depth" in text
    (fault,) = lines(waiting(*command, "--require", "width_variance < 1"))
    assert fault.endswith("expected a trace with a column width, found none; require another figure")
    assert json.loads(waiting(*command, "--until", "1us", "--json").stdout)["makespan_s"] is None


def test_one_request_has_no_rate(fluidb: Run, tiny_design: Path, tmp_path: Path):
    (tmp_path / "log.csv").write_text("t\n1.5\n")
    made = fluidb("trace", "import", "csv", "log.csv", "--columns", "arrival=t", "--unit", "s", "-o", "t.csv")
    assert "rate          none, all arrive at one time" in made.stdout.splitlines()
    text = fluidb("serve-sim", tiny_design, *SERVED).stdout.splitlines()
    assert any(line.startswith("warm-up") for line in text)
    assert not any(line.startswith("arrival rate") for line in text)
    assert fluidb("report", tiny_design, *SERVED, "-o", "r.html").returncode == 0
    assert ": 1 request, an SLO of 2 ms" in (tmp_path / "r.html").read_text()


def test_thresholds_report_and_merge_serve_it(waiting: Run, tiny_design: Path, tmp_path: Path):
    random = np.random.default_rng(0)
    np.savez(tmp_path / "s.npz", confidence=random.random((50, 3)), correct=random.random((50, 3)) < 0.7)
    swept = waiting("thresholds", tiny_design, *SERVED, "--samples", "s.npz", "--json")
    assert len(json.loads(swept.stdout)["points"]) > 3
    assert waiting("report", tiny_design, *SERVED, "-o", "r.html").returncode == 0
    page = (tmp_path / "r.html").read_text()
    assert "450 requests, all waiting from the beginning, an SLO of 2 ms" in page
    assert "makespan s" in page
    assert "more requests needed" not in page
    assert waiting("trace", "merge", "t.csv", "t.csv", "-o", "m.csv").returncode == 0
    assert len((tmp_path / "m.csv").read_text().splitlines()) == 2 * COUNT + 1


@pytest.mark.parametrize("option", ["--rate", "--cv"])
def test_what_has_no_rate_is_not_rescaled(waiting: Run, option: str):
    (fault,) = lines(waiting("trace", "rescale", "t.csv", option, 2, "-o", "r.csv"))
    assert fault.startswith("fluidb: trace: expected requests at two different times at least, found one; ")


def test_capacity_searches_a_rate_and_so_bounds_no_makespan(fluidb: Run, tiny_design: Path):
    (fault,) = lines(fluidb("capacity", tiny_design, "--slo", "2ms", "--require", "makespan <= 1s"))
    assert "expected an upper bound on a figure that more traffic makes worse" in fault
