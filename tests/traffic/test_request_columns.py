"""Columns that are drawn for each request, from their declarations."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from builders import Run, lines, table_of
from fluidb.formats import InputError, write_table
from fluidb.traffic import Trace, poisson, prepare, read_trace, write_trace
from fluidb.traffic.additions import add_columns, parse_columns
from fluidb.traffic.request_columns import ACCURACY, REQUEST_COLUMNS, parse_slo

parse_accuracies = next(column.read for column in REQUEST_COLUMNS if column.key == "min_accuracy")


@pytest.mark.parametrize("values", [[], [0.0, 1.0], [0.5, -0.1], [1.1, 0.5], [0.5, math.nan], [math.inf], [math.nan]])
def test_numbers_hold_what_is_not_outside(values):
    assert ACCURACY.hold(np.array(values)) == (not ACCURACY.outside(np.array(values)).any())


def test_each_distribution_stays_within_its_values():
    trace = poisson(10.0, 20_000, 1)
    uniform = add_columns(trace, 2, parse_columns(min_accuracy="uniform:0.7,0.8")).min_accuracy
    assert uniform is not None
    assert 0.7 <= uniform.min() < 0.7001
    assert 0.7999 < uniform.max() <= 0.8
    assert uniform.mean() == pytest.approx(0.75, abs=1e-3)
    normal = add_columns(trace, 0, parse_columns(slo="normal:20ms,10ms,10ms,30ms")).slo_s
    assert normal is not None
    assert (normal.min(), normal.max()) == (0.01, 0.03)
    assert np.mean(normal == 0.01) == pytest.approx(0.1587, abs=0.01)  # one deviation below the mean
    listed = add_columns(trace, 0, parse_columns(slo="list:10ms,20ms")).slo_s
    assert listed is not None
    assert np.unique(listed).tolist() == [0.01, 0.02]
    assert np.mean(listed == 0.01) == pytest.approx(0.5, abs=0.02)
    classes = add_columns(trace, 0, parse_columns(slo="shares:10ms=0.8,20ms=0.2")).slo_s
    assert classes is not None
    assert np.unique(classes).tolist() == [0.01, 0.02]
    assert np.mean(classes == 0.01) == pytest.approx(0.8, abs=0.015)
    added = add_columns(trace, 0, parse_columns(slo="15ms"))
    assert added.slo_s is not None
    assert set(added.slo_s.tolist()) == {0.015}


def test_streams_are_their_own_and_other_columns_stay():
    trace = poisson(10.0, 100, 1)
    both = add_columns(trace, 3, parse_columns(min_accuracy="uniform:0,1", slo="uniform:1s,2s"))
    one = add_columns(trace, 3, parse_columns(slo="uniform:1s,2s"))
    assert both.slo_s is not None
    assert both.min_accuracy is not None
    assert one.slo_s is not None
    assert both.slo_s.tolist() == one.slo_s.tolist()
    assert np.corrcoef(both.slo_s, both.min_accuracy)[0, 1] ** 2 < 0.1
    other = add_columns(trace, 4, parse_columns(slo="uniform:1s,2s"))
    assert other.slo_s is not None
    assert not np.array_equal(one.slo_s, other.slo_s)
    assert one.min_accuracy is None
    assert np.array_equal(one.arrival_s, trace.arrival_s)


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (
            parse_accuracies,
            "gamma:1,2",
            "expected uniform:LOW,HIGH, normal:MEAN,DEVIATION,LOW,HIGH, list:VALUE,..., shares:VALUE=SHARE,... or",
        ),
        (parse_accuracies, "uniform:0.5", "expected uniform:LOW,HIGH"),
        (parse_accuracies, "normal:0.5,0.1", "expected uniform:LOW,HIGH"),
        (parse_accuracies, "uniform:0.8,0.7", "expected LOW <= HIGH, found 0.8 and 0.7"),
        (parse_accuracies, "1.5", "expected values from 0 to 1, found 1.5"),
        (parse_accuracies, "list:0.5,-0.5", "expected values from 0 to 1, found -0.5"),
        (parse_accuracies, "nan", "expected .*, found .*nan"),
        (parse_accuracies, "normal:0.5,-1,0,1", "expected a mean and a deviation >= 0, found 0.5 and -1"),
        (parse_accuracies, "high", 'expected numbers from 0 to 1, found "high"'),
        (parse_accuracies, "shares:0.5=0.4,0.7=0.5", "expected shares that sum to 1, found a sum of 0.9"),
        (parse_accuracies, "shares:0.5=0.4,70=0.6", "expected values from 0 to 1, found 70"),
        (parse_accuracies, "shares:0.5", 'expected key=number, found "0.5"'),
        (parse_slo, "shares:20=1", "no unit"),
        (parse_slo, "20", "no unit"),
        (parse_slo, "list:20ms,0", "expected values from 1e-12"),
    ],
)
def test_a_distribution_that_is_none(parse, text, expected):
    with pytest.raises(InputError, match=expected) as caught:
        parse(text, "--x")
    assert len(caught.value.faults) == 1
    assert caught.value.faults[0].startswith("--x")


def test_the_command_writes_columns_that_are_read_back(fluidb: Run, tmp_path):
    write_trace(poisson(10.0, 50, 1), tmp_path / "t.csv")
    done = fluidb(
        "trace", "add", "t.csv", "--min-accuracy", "uniform:0.7,0.8", "--slo", "20ms", "--seed", 2, "-o", "c.csv"
    )
    assert (done.returncode, done.stderr) == (0, "")
    expected = add_columns(read_trace(tmp_path / "t.csv"), 2, parse_columns(min_accuracy="uniform:0.7,0.8", slo="20ms"))
    found = read_trace(tmp_path / "c.csv")
    assert found.min_accuracy is not None
    assert expected.min_accuracy is not None
    assert found.min_accuracy.tolist() == expected.min_accuracy.tolist()
    assert found.slo_s is not None
    assert set(found.slo_s.tolist()) == {0.02}
    assert lines(fluidb("trace", "add", "c.csv", "--slo", "20ms", "-o", "n.csv")) == [
        "fluidb: --slo: expected no column slo_s in c.csv, as it is to be drawn; leave out one of the two"
    ]


@pytest.mark.parametrize("value", ["nan", "-0.1"])
def test_a_column_with_no_accuracy_is_refused_by_row(fluidb: Run, tmp_path, value):
    rows = [f"{row},{row}.0,{value if row == 1 else 0.5}" for row in range(3)]
    (tmp_path / "t.csv").write_text("\n".join(["request_id,arrival_s,min_accuracy", *rows]) + "\n")
    (found,) = lines(fluidb("trace", "rescale", "t.csv", "--rate", 1, "-o", "n.csv"))
    assert "row 2 (line 3): min_accuracy: expected an accuracy from 0 to 1" in found
    assert not (tmp_path / "n.csv").exists()


def test_an_objective_is_read_and_drawn_alike_everywhere(fluidb: Run, tmp_path):
    trace = poisson(10.0, 50, 1)
    write_trace(trace, tmp_path / "t.csv")
    (tmp_path / "d").mkdir()
    write_table(table_of([[0.1, 0.15]]), tmp_path / "d" / "latency.json")
    added = add_columns(trace, 3, parse_columns(slo="uniform:100ms,300ms"))
    assert added.slo_s is not None
    served = prepare(trace, [1.0], slo_s=parse_slo("uniform:100ms,300ms"), seed=3)
    assert (served.slo_s.tolist(), served.objective_s) == (added.slo_s.tolist(), None)
    write_trace(added, tmp_path / "a.csv")
    serve = ["serve-sim", "d", "--seed", 3, "--json"]
    drawn = json.loads(fluidb(*serve, "--trace", "t.csv", "--slo", "uniform:100ms,300ms").stdout)
    stated = json.loads(fluidb(*serve, "--trace", "a.csv").stdout)
    assert (drawn.pop("slo"), stated.pop("slo")) == ("uniform:100ms,300ms", None)
    assert drawn == stated | {"trace": "t.csv"}
    texts = {lines(fluidb("trace", "add", "t.csv", "--slo", "uniform:1ms", "-o", "n.csv"))[0]}
    texts |= {lines(fluidb(*serve, "--trace", "t.csv", "--slo", "uniform:1ms"))[0]}
    texts |= {lines(fluidb("capacity", "d", "--require", "p99 <= 1s", "--slo", "uniform:1ms"))[0]}
    (fault,) = texts
    assert "slo: expected uniform:LOW,HIGH, normal:" in fault


def test_a_column_of_one_objective_is_the_objective_of_all():
    for slo_s, shared in (([0.5, 0.5], 0.5), ([0.5, 0.25], None)):
        trace = Trace(np.arange(2), np.zeros(2), slo_s=np.array(slo_s))
        assert prepare(trace, [1.0]).objective_s == shared
