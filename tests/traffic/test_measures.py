"""Measures of how sure an answer is: the same requests leave at the same exits by all that order answers alike."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import TINY, Run, lines, trace_of
from fluidb.formats import InputError
from fluidb.traffic import (
    Samples,
    draw_samples,
    parse_thresholds,
    prepare,
    read_samples,
    read_trace,
    superpose,
    write_trace,
)
from fluidb.traffic.answers import as_measured
from fluidb.traffic.description import describe_samples
from fluidb.traffic.measures import CONFIDENCE, ENTROPY, MEASURES
from fluidb.traffic.samples import write_samples
from hypothesis import given
from hypothesis import strategies as st

RATES = [0.2, 0.3, 0.5]
ENTROPIES = np.array([[0.1, 0.4], [0.4, 0.0], [2.0, 0.4], [0.5, 0.5]])


def test_a_sample_leaves_where_its_entropy_is_at_most_the_threshold():
    trace = replace(trace_of([0.0, 1.0, 2.0, 3.0]), confidences=-ENTROPIES, measure=ENTROPY)
    cases: tuple[tuple[Any, list[int], str], ...] = (
        (0.4, [1, 1, 2, 3], "entropy <= 0.4"),
        ([0.1, 0.5], [1, 2, 2, 2], "entropy <= 0.1, 0.5"),
        (["never", 0.4], [2, 2, 2, 3], "entropy <= never, 0.4"),
        ("always", [1, 1, 1, 1], "entropy <= always"),
        (["never", "never"], [3, 3, 3, 3], "entropy <= never, never"),
    )
    for threshold, exits, origin in cases:
        found = prepare(trace, RATES, slo_s=1.0, threshold=threshold)
        assert (found.exits.tolist(), found.origin) == (exits, origin)
    with pytest.raises(
        InputError,
        match="threshold: expected entropies from 0 to 25 nats, found none, and this measure has no usual one",
    ):
        prepare(trace, RATES, slo_s=1.0)
    with pytest.raises(InputError, match="threshold: expected entropies from 0 to 25 nats, found never, 26"):
        prepare(trace, RATES, slo_s=1.0, threshold=["never", 26.0])


@given(st.lists(st.lists(st.floats(0.1, 1), min_size=2, max_size=2), min_size=1, max_size=6), st.floats(0.1, 1))
def test_a_confidence_and_the_entropy_of_the_same_order_decide_alike(rows, threshold):
    """The entropy at a confidence, ten classes: -p log p and nine times -q log q, by hand."""
    samples = Samples(np.array(rows), np.ones((len(rows), 3), dtype=bool))
    other = as_measured(samples, ENTROPY, 10)
    for p, found in zip(np.ravel(rows), ENTROPY.to_file(other.confidences).ravel(), strict=True):
        q = (1 - p) / 9
        assert found == pytest.approx(-p * math.log(p) - (9 * q * math.log(q) if q else 0.0), abs=1e-12)
        assert 0 <= found <= math.log(10) + 1e-12
    order = np.argsort(samples.confidences, axis=None, kind="stable")
    assert np.all(np.diff(other.confidences.ravel()[order]) >= -1e-12)
    edge = as_measured(Samples(np.array([[threshold]]), np.ones((1, 2), dtype=bool)), ENTROPY, 10).confidences[0, 0]
    clear = np.abs(np.array(rows) - threshold).min() > 1e-9
    if clear:
        by = [describe_samples(samples, [threshold]), describe_samples(other, [ENTROPY.threshold(edge)])]
        assert len({item[0].thresholds[0].exit_share for item in by}) == 1


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
@given(st.integers(2, 6), st.floats(0, 1))
def test_a_measure_of_the_largest_probability_is_that_of_all_of_them(measure, classes, more):
    """Of answers whose other classes are equally probable; the surer, the more probable the best class is."""
    largest = np.array([1 / classes, 1 / classes + more * (1 - 1 / classes)])
    shares = np.column_stack([(1 - largest) / (classes - 1)] * classes)
    shares[:, 1] = largest
    found = measure.of_largest(largest, classes)
    np.testing.assert_allclose(found, measure.of(shares), atol=1e-12)
    assert not measure.values.outside(found).any()
    doubtful, sure = measure.to_array(found)
    assert sure >= doubtful - 1e-12


def test_measures_of_an_answer_worked_out_by_hand():
    shares = np.array([[0.125, 0.5, 0.25, 0.125], [0.0, 0.0, 1.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
    assert CONFIDENCE.of(shares).tolist() == [0.5, 1, 0.25]
    assert MEASURES["margin"].of(shares).tolist() == [0.25, 1, 0]
    assert ENTROPY.of(shares) == pytest.approx([1.75 * math.log(2), 0, 2 * math.log(2)])


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_a_threshold_out_of_bounds_is_one_in_words(measure):
    """Of a model that asks for a confidence of more than 1, say: no answer leaves, or every one."""
    sure, doubtful = (1e3, -1e3) if measure.surer == "larger" else (-1e3, 1e3)
    values = measure.to_array(np.linspace(measure.low, measure.high, 5))
    for value, leaves in ((sure, False), (doubtful, True), ((measure.low + measure.high) / 2, None)):
        reached = values >= measure.least(measure.stated(value))
        np.testing.assert_array_equal(reached, values >= measure.to_array(value))
        assert leaves is None or (reached == leaves).all()


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
@given(st.floats(0, 1))
def test_thresholds_go_in_and_come_out_the_same(measure, value):
    for threshold in (value, "never", "always"):
        assert measure.threshold(measure.least(threshold)) == threshold
        assert measure.fits(threshold)
    assert parse_thresholds("never,0.5, always") == ["never", 0.5, "always"]


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_files_hold_the_measure_itself(tmp_path, measure):
    values = ENTROPIES / 2
    samples = Samples(measure.to_array(values), np.ones((4, 3), dtype=bool), measure=measure)
    write_samples(samples, tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz") as archive:
        np.testing.assert_array_equal(archive[measure.name], values)
    trace = draw_samples(trace_of([0.0, 1.0, 2.0]), read_samples(tmp_path / "s.npz"), 1)
    merged = superpose([trace, trace])
    for one in (trace, merged):
        write_trace(one, tmp_path / "t.csv")
        back = read_trace(tmp_path / "t.csv")
        assert back.measure is one.measure is measure
        np.testing.assert_array_equal(back.confidences, one.confidences)
    header, *rows = (tmp_path / "t.csv").read_text().splitlines()
    assert f"{measure.name}_1,{measure.name}_2" in header
    assert "-" not in "".join(rows)


def test_a_file_has_one_measure(tmp_path):
    (tmp_path / "s.csv").write_text("confidence_1,entropy_1,correct_1,correct_2\n1,0,1,1\n")
    with pytest.raises(InputError, match="header: expected columns of one measure, found confidence and entropy"):
        read_samples(tmp_path / "s.csv")
    (tmp_path / "s.csv").write_text("entropy_1,correct_1,correct_2\n1,1,1\n-1,1,1\n")
    with pytest.raises(InputError, match=r'row 2 \(line 3\): entropy_1: expected an entropy in nats, .* found "-1"'):
        read_samples(tmp_path / "s.csv")
    for value in (26.0, float("nan")):
        np.savez(tmp_path / "s.npz", correct=np.ones((1, 2)), entropy=[[value]])
        with pytest.raises(InputError, match="row 1: entropy_1: expected an entropy in nats, from 0 to 25, found"):
            read_samples(tmp_path / "s.npz")
    np.savez(tmp_path / "s.npz", correct=np.ones((1, 2)), confidence=[[0.0]], entropy=[[0.0]])
    with pytest.raises(InputError, match="expected the arrays confidence and correct"):
        read_samples(tmp_path / "s.npz")


def test_entropies_through_the_command_line(fluidb: Run, tmp_path: Path, tiny_design):
    fluidb("samples", "generate", "glue", "--network", TINY, "--count", 400, "-o", "c.npz")
    done = fluidb(
        "samples", "generate", "glue", "--network", TINY, "--count", 400, "--measure", "entropy", "-o", "e.npz"
    )
    assert "measure              entropy" in done.stdout
    assert np.isclose(read_samples(tmp_path / "e.npz").confidences.min(), -math.log(10))  # classes of the heads
    shown = fluidb("samples", "show", "e.npz", "--plot", "s.svg", "--thresholds", "0,0.3,25")
    assert shown.returncode == 0, shown.stderr
    assert "mean entropy" in shown.stdout
    assert "calibration" not in shown.stdout + (tmp_path / "s.svg").read_text()
    leave = [line.split() for line in shown.stdout.splitlines() if line.startswith("1 ")][1]
    assert (leave[1], leave[5]) == ("0.0", "100.0")
    fluidb("trace", "poisson", "--rate", 900, "--count", 200, "-o", "t.csv")
    served = ["serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1ms", "--json", "--samples"]
    p = 0.8
    edge = -p * math.log(p) - (1 - p) * math.log((1 - p) / 9)  # the other classes are equally probable
    by = [fluidb(*served, *more).stdout for more in (("c.npz",), ("e.npz", "--threshold", edge))]
    first, second = (text.replace(f"entropy <= {edge:g} of e.npz", "confidence >= 0.8 of c.npz") for text in by)
    assert first == second
    assert "expected entropies from 0 to 25 nats, found none" in lines(fluidb(*served, "e.npz"))[0]
    swept = fluidb("thresholds", tiny_design, "--trace", "t.csv", "--slo", "1ms", "--samples", "e.npz",
                   "--thresholds", "0,2.4")  # fmt: skip
    assert "entropy   e.npz, seed 0" in swept.stdout
    assert [line.split()[1] for line in swept.stdout.splitlines()[-2:]] == ["0.0", "100.0"]
    assert CONFIDENCE.fits("never")
