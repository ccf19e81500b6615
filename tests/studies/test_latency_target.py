"""Thresholds for a latency target: what they give when they are served, and faults."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from builders import Run, lines, table_of
from fluidb.formats import InputError
from fluidb.studies.latency_target import meet_target
from fluidb.tables import read_latency
from fluidb.traffic import Samples
from fluidb.traffic.answers import PRESETS, as_measured, draw_answers
from fluidb.traffic.measures import ENTROPY
from fluidb.traffic.samples import write_samples

TABLE = table_of([[1.0], [2.0], [4.0]])


def drawn(count: int = 4000) -> Samples:
    return as_measured(draw_answers(PRESETS["imagenet"], 2, count, 1), ENTROPY, 1000)


@pytest.mark.parametrize("by", ["latest", "accuracy"])
@pytest.mark.parametrize("target_s", [0.5, 1.0, 2.2, 5.0, 9.0])
def test_a_target_is_met_on_the_samples_that_chose(by, target_s):
    target = meet_target(TABLE, drawn(), target_s, objective=by)
    assert [exit_.time_s for exit_ in target.exits] == [1.0, 3.0, 7.0]
    assert target.feasible == (target_s >= 1)
    assert target.measure == "entropy"
    assert (target.chosen.samples, target.checked.samples) == (2000, 2000)
    assert target.chosen.mean_s <= max(target_s, 1.0) + 1e-9
    if 1 <= target_s <= 7 and by == "latest":
        assert target.chosen.mean_s == pytest.approx(target_s, rel=2e-3)
    for exit_ in target.exits:
        assert exit_.chosen_share == pytest.approx(exit_.wanted_share, abs=1e-3)
        assert exit_.checked_share == pytest.approx(exit_.wanted_share, abs=0.05)
    if not target.feasible:
        assert [exit_.threshold for exit_ in target.exits] == ["always", "always", None]
        assert target.checked.mean_s == 1.0
    if target_s == 9:
        assert [exit_.threshold for exit_ in target.exits] == ["never", "never", None]


def test_the_second_half_checks_and_does_not_choose():
    samples = drawn(200)
    wrong = np.concatenate([samples.correct[:100], np.zeros((100, 3), dtype=bool)])
    target = meet_target(TABLE, replace(samples, correct=wrong), 3.0)
    assert target == replace(meet_target(TABLE, samples, 3.0), checked=replace(target.checked, accuracy=0.0))


def test_a_table_with_several_times_for_an_exit_is_refused():
    last = TABLE.exits[-1].model_copy(update={"steps": 3})
    decoder = TABLE.model_copy(update={"exits": [*TABLE.exits[:-1], last]})
    with pytest.raises(InputError, match="test: expected one time for each exit, found times by width"):
        meet_target(decoder, drawn(10), 3.0)


def test_accuracy_prefers_the_exit_that_brings_most_for_its_time():
    """The second exit is as good as the last: no sample goes further."""
    rng = np.random.default_rng(0)
    right = rng.random((1000, 1)) < np.array([0.5, 0.9, 0.9])
    samples = Samples(rng.random((1000, 2)), right)
    by = {by: meet_target(TABLE, samples, 3.0, objective=by) for by in ("latest", "accuracy")}
    assert [exit_.wanted_share for exit_ in by["accuracy"].exits] == [0, 1, 0]
    assert [exit_.wanted_share for exit_ in by["latest"].exits] == pytest.approx([2 / 3, 0, 1 / 3])
    assert by["accuracy"].chosen.accuracy > by["latest"].chosen.accuracy


def test_the_printed_thresholds_serve_the_target(fluidb: Run, tmp_path, tiny_design):
    """One request at a time, drawn from the samples: its mean latency is the samples' mean."""
    write_samples(drawn(2000), tmp_path / "e.npz")
    time_s = read_latency(tiny_design).array()[0, 1:, 1]
    target = f"{1e6 * (0.6 * time_s[0] + 0.4 * time_s[2]):.4f}us"
    done = fluidb("thresholds", tiny_design, "--target", target, "--samples", "e.npz", "--json")
    record = json.loads(done.stdout)
    assert [exit_["wanted_share"] for exit_ in record["exits"]] == pytest.approx([0.6, 0, 0.4], abs=1e-4)
    text = fluidb("thresholds", tiny_design, "--target", target, "--samples", "e.npz").stdout
    (line,) = [line for line in text.splitlines() if line.startswith("thresholds")]
    threshold = line.split("--threshold ")[1].split()[0]
    assert threshold == f"{record['exits'][0]['threshold']},never"
    fluidb("trace", "poisson", "--rate", 1, "--count", 3000, "-o", "t.csv")
    served = fluidb("serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1s", "--samples", "e.npz",
                    "--threshold", threshold, "--policy", "serial:call=0", "--json")  # fmt: skip
    assert json.loads(served.stdout)["mean_latency_s"] == pytest.approx(record["chosen"]["mean_s"], rel=0.06)
    early = fluidb("thresholds", tiny_design, "--target", "1ns", "--samples", "e.npz", "--objective", "accuracy")
    assert early.returncode == 0
    assert "not feasible" in early.stdout
    assert "--threshold always,always (entropy)" in early.stdout


def test_faults_of_a_target(fluidb: Run, tmp_path, tiny_design):
    write_samples(drawn(10), tmp_path / "e.npz")
    write_samples(as_measured(draw_answers(PRESETS["glue"], 2, 10, 0, values=3), ENTROPY, 2), tmp_path / "dense.npz")
    write_samples(drawn(1), tmp_path / "one.npz")
    write_samples(draw_answers(PRESETS["glue"], 3, 10, 0), tmp_path / "four.npz")
    for arguments, expected in (
        (["400", "--samples", "e.npz"], "--target: expected a unit"),
        (["1ms", "--samples", "no.npz"], "no.npz: expected samples"),
        (["1ms", "--samples", "dense.npz"], "dense.npz: expected one entropy at each exit of"),
        (["1ms", "--samples", "four.npz"], "found 4 exits with 1 values each"),
        (["1ms", "--samples", "one.npz"], "expected at least 2 samples"),
        (["1ms"], "--samples: expected answers at every exit beside a target, found none"),
        (
            ["1ms", "--samples", "e.npz", "--slo", "1ms"],
            "--slo: an option with a trace or clients, but this is a target; leave it out",
        ),
        (
            ["1ms", "--samples", "e.npz", "--objective", "luck"],
            '--objective: expected one of latest, accuracy, found "luck"',
        ),
    ):
        (line,) = lines(fluidb("thresholds", tiny_design, "--target", *arguments))
        assert expected in line
