"""Widths, steps and predictions: what was asked for comes out, and predictors that lie can be had."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders import Run, lines
from fluidb.formats import InputError
from fluidb.traffic import Trace, offline, prepare, read_trace, write_trace
from fluidb.traffic.additions import add_columns, parse_columns
from fluidb.traffic.predictions import parse_prediction
from fluidb.traffic.randomness import PREDICTED_DEPTHS, STEPS, WIDTHS, stream
from fluidb.traffic.widths import parse_steps, parse_widths
from hypothesis import given, settings
from hypothesis import strategies as st

COUNT = 40_000


def predict(actual: np.ndarray, rho: float, seed: int, low: float, high: float) -> np.ndarray:
    return parse_prediction(rho, "predict_depth").draw(stream(seed, PREDICTED_DEPTHS), actual, low, high)


TEXTS = "lognormal:mean=39,sd=19,low=16,high=128,multiple=8"


def test_log_normal_widths_have_the_mean_and_the_deviation_asked_for():
    drawn = parse_widths("lognormal:mean=390,sd=190").draw(stream(3, WIDTHS), COUNT)
    assert drawn.mean() == pytest.approx(390, rel=4 * 190 / 390 / math.sqrt(COUNT))
    assert drawn.std() == pytest.approx(190, rel=0.05)
    logs = np.log(drawn)
    assert ((logs - logs.mean()) ** 3).mean() / logs.std() ** 3 == pytest.approx(0, abs=0.06)  # no skew is left
    assert (drawn % 1 == 0).all()


def test_limits_hold_and_widths_are_rounded_up_to_multiples():
    raw, rounded = (
        parse_widths(text).draw(stream(1, WIDTHS), COUNT) for text in (TEXTS.removesuffix(",multiple=8"), TEXTS)
    )
    assert (raw.min(), raw.max()) == (16, 128)
    assert (rounded % 8 == 0).all()
    assert ((rounded - raw >= 0) & (rounded - raw < 8)).all()


def test_shares_are_those_asked_for():
    drawn = parse_widths("shares:1=0.07,5=0.53,8=0.16,11=0.04,13=0.20").draw(stream(0, WIDTHS), COUNT)
    found = {int(width): float((drawn == width).mean()) for width in np.unique(drawn)}
    assert found == pytest.approx({1: 0.07, 5: 0.53, 8: 0.16, 11: 0.04, 13: 0.2}, abs=4 * 0.5 / math.sqrt(COUNT))


def test_steps_follow_from_widths():
    """Mean ratio n; variance (ratio relative n)^2 + absolute^2."""
    widths = np.full(COUNT, 50.0)
    steps = parse_steps("ratio=1.08,relative=0.205,absolute=1.5,high=200").draw(stream(0, STEPS), widths)
    assert steps.dtype == np.int64
    assert steps.mean() == pytest.approx(54, abs=0.25)
    assert steps.std() == pytest.approx(math.hypot(54 * 0.205, 1.5), rel=0.02)
    assert parse_steps("ratio=2,high=7").draw(stream(0, STEPS), np.array([0.2, 2.0, 30.0])).tolist() == [1, 4, 7]


def test_streams_are_independent_and_follow_their_seed():
    widths = [parse_widths(TEXTS).draw(stream(seed, WIDTHS), 5000) for seed in (0, 0, 1)]
    assert np.array_equal(widths[0], widths[1])
    assert abs(np.corrcoef(widths[0], widths[2])[0, 1]) < 0.06
    steps = parse_steps("relative=0.2").draw(stream(0, STEPS), np.full(5000, 100.0))
    assert abs(np.corrcoef(widths[0], steps)[0, 1]) < 0.06


@pytest.mark.parametrize(("rho", "ratio"), [(0.71, 2.0), (0.42, 1.2)])
def test_a_prediction_removes_the_share_of_the_variance_that_the_paper_measured(rho, ratio):
    """Table IV: 2x for the early-exit network, 1.2x for the slimmable one; the rest of the formula is 1/(1 - rho^2)."""
    depth = np.clip(np.rint(np.random.default_rng(0).normal(9, 3.5, COUNT)), 1, 17)
    prediction = predict(depth, rho, 0, 1, 17)
    left = np.mean([part.var() for part in np.split(depth[np.argsort(prediction, kind="stable")], COUNT // 100)])
    assert depth.var() / left == pytest.approx(ratio, rel=0.04)


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
    st.sampled_from([-1.0, -0.6, -0.01, 0.0, 0.3, 0.71, 1.0]),
    st.integers(0, 9),
)
def test_a_prediction_is_the_formula_and_stays_within_its_limits(depths, rho, seed):
    actual = np.array(depths)
    prediction = predict(actual, rho, seed, 1, 9)
    assert set(prediction) <= set(range(1, 10))
    if rho == 0:
        assert set(prediction) == {round(float(np.mean(depths)))}
        return
    noise = stream(seed, PREDICTED_DEPTHS).standard_normal(len(depths)) * np.std(depths) * math.sqrt(1 / rho**2 - 1)
    for depth, more, predicted in zip(depths, noise, prediction, strict=True):
        assert predicted == min(9, max(1, round((depth if rho > 0 else 10 - depth) + more)))


def test_predictors_that_lie():
    depth = np.arange(1, 18)
    assert predict(depth, 1, 0, 1, 17).tolist() == depth.tolist()
    assert predict(depth, -1, 0, 1, 17).tolist() == depth[::-1].tolist()
    assert set(predict(depth, 0, 0, 1, 17)) == {9.0}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("normal:mean=3", 'width: expected lognormal:... or shares:..., found "normal:mean=3"'),
        ("lognormal:mean=3", "width: expected the parameter sd, found none"),
        ("lognormal:mean=3,sd=1,skew=2", 'width: unknown parameter "skew"; known: mean, sd, low, high, multiple'),
        ("lognormal:mean=0,sd=1", "width: mean: expected 0.001 to 1,000,000, found 0"),
        ("lognormal:mean=3,sd=1,low=9,high=8", "width: high: expected 9 to 1,000,000, found 8"),
        ("lognormal:mean=3,sd=1,multiple=1.5", "width: multiple: expected"),
        ("lognormal:mean=3,mean=4", "width: expected every key once, found mean twice"),
        ("shares:64=0.5,96=0.4", "found a sum of 0.9"),
        ("shares:64", 'width: expected key=number, found "64"'),
        ("shares:-4=1", 'width: expected a number > 0, found "-4"'),
        ("shares:4=x", 'width: expected a number >= 0, found "x"'),
    ],
)
def test_a_distribution_that_is_none(text, fault):
    with pytest.raises(InputError) as error:
        parse_widths(text)
    (line,) = error.value.faults
    assert line.startswith(fault) or fault in line


def test_a_correlation_out_of_range():
    for rho in (1.5, math.nan, 0.001):
        with pytest.raises(InputError, match=rf"predict_width: expected a correlation from -1 to 1, .* found {rho:g}"):
            parse_prediction(rho, "predict_width")


def test_columns_are_added_and_read_back(fluidb: Run, tmp_path):
    write_trace(offline(50), tmp_path / "in.csv")
    command = ("trace", "add", "in.csv", "--width", "lognormal:mean=33,sd=10,high=100", "--steps", "ratio=1.5,high=90")
    done = fluidb(*command, "--predict-depth", 0.9, "--predict-width", -1, "--seed", 7, "-o", "out.csv")
    assert (done.returncode, done.stderr) == (0, "")
    found, follow = read_trace(tmp_path / "out.csv"), parse_steps("ratio=1.5,high=90")
    assert found.width is not None
    assert found.steps is not None
    assert found.predicted_depth is not None
    assert found.predicted_width is not None
    assert np.array_equal(found.width, parse_widths("lognormal:mean=33,sd=10,high=100").draw(stream(7, WIDTHS), 50))
    assert np.array_equal(found.steps, follow.draw(stream(7, STEPS), found.width))
    low, high = found.steps.min(), found.steps.max()
    assert np.array_equal(found.predicted_depth, predict(found.steps, 0.9, 7, low, high))
    assert np.array_equal(found.predicted_width, found.width.min() + found.width.max() - found.width)
    twice = lines(fluidb("trace", "add", "out.csv", "--width", "shares:3=1", "--steps", "ratio=1", "-o", "again.csv"))
    assert twice == [
        f"fluidb: --{name}: expected no column {name} in out.csv, as it is to be drawn; leave out one of the two"
        for name in ("width", "steps")
    ]
    (nothing,) = lines(fluidb("trace", "add", "out.csv", "-o", "again.csv"))
    assert nothing == "fluidb: add: expected at least one column to draw, found none; add e.g. --width"
    assert not (tmp_path / "again.csv").exists()


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"steps": "ratio=1"}, "steps: expected widths, which steps follow from, found none"),
        ({"predict_depth": 0.5}, "predict_depth: expected a column exit or steps to predict, found neither"),
        ({"predict_width": 0.5}, "predict_width: expected widths to predict, found none"),
    ],
)
def test_what_a_column_follows_from_must_be_there(columns, fault):
    with pytest.raises(InputError, match=fault):
        add_columns(offline(3), 0, parse_columns(**columns))


def test_no_columns_leave_a_trace_as_it_is():
    trace = offline(3)
    assert add_columns(trace, 0, parse_columns()) is trace


def test_predictions_follow_the_exit_wherever_it_comes_from():
    """Drawn, decided by confidence or stated: what is predicted is what happens."""
    rng, rates = np.random.default_rng(0), [0.2, 0.3, 0.5]
    sure = rng.random((400, 2))
    traces = [offline(400), Trace(np.arange(400), np.zeros(400), rng.integers(1, 4, 400))]
    traces.append(Trace(np.arange(400), np.zeros(400), confidences=sure))
    for trace in traces:
        for rho in (1.0, 0.6):
            served = prepare(trace, rates, slo_s=1.0, seed=3, predict_depth=rho)
            expected = predict(served.exits, rho, 3, 1, 3)
            assert served.trace.predicted_depth is not None
            assert np.array_equal(served.trace.predicted_depth, expected)
            assert np.array_equal(served.exits, prepare(trace, rates, slo_s=1.0, seed=3).exits)
    with pytest.raises(InputError, match="predict_depth: expected no column predicted_depth in the trace"):
        prepare(served.trace, rates, slo_s=1.0, predict_depth=0.5)
