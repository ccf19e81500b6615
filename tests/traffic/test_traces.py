"""Traces: what is written is read back, and every fault names its row."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Run, lines
from fluidb.formats import InputError
from fluidb.traffic import Trace, parse_thresholds, poisson, prepare, read_trace, write_trace
from fluidb.traffic import trace as traces
from fluidb.traffic.exits import chosen_thresholds, decide, draw
from fluidb.traffic.request_columns import REQUEST_COLUMNS
from hypothesis import example, given
from hypothesis import strategies as st

HEADER = "request_id,arrival_s"


def read_text(tmp_path, text: str) -> Trace:
    path = tmp_path / "t.csv"
    path.write_text(text)
    return read_trace(path)


@given(
    st.lists(st.floats(0, 1e9), min_size=1, max_size=20),
    st.booleans(),
    st.integers(0, 3),
    st.booleans(),
    st.integers(0, 3),
    st.integers(0, 9),
)
def test_what_was_written_is_read_back(tmp_path_factory, arrivals, exits, confidences, slos, answers, seed):
    count, rng = len(arrivals), np.random.default_rng(seed)
    more = [item.name for item in REQUEST_COLUMNS if exits and item.name not in ("slo_s", "steps")]
    own: dict[str, Any] = {name: rng.random(count) for name in more}
    trace = Trace(
        rng.choice(10**6, count, replace=False),
        np.sort(np.array(arrivals)),
        rng.integers(1, 4, count) if exits else None,
        rng.random((count, confidences)) if confidences else None,
        rng.random(count) + 1e-3 if slos else None,
        rng.random((count, answers)) < 0.5 if answers else None,
        steps=rng.integers(1, 9, count) if slos else None,
        **own,
    )
    path = tmp_path_factory.getbasetemp() / "t.csv"
    write_trace(trace, path)
    back = read_trace(path)
    for name in (item.name for item in fields(Trace) if item.name not in ("source", "measure", "drawn_from")):
        expected, found = getattr(trace, name), getattr(back, name)
        assert (expected is None) == (found is None)
        assert expected is None or expected.dtype == found.dtype
        assert expected is None or np.array_equal(expected, found)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_pieces_make_the_same_file(tmp_path, monkeypatch, count):
    rng = np.random.default_rng(count)
    trace = Trace(np.arange(count), np.sort(rng.random(count)), rng.integers(1, 4, count), rng.random((count, 2)))
    write_trace(trace, tmp_path / "whole.csv")
    monkeypatch.setattr(traces, "PIECE", 3)
    write_trace(trace, tmp_path / "pieces.csv")
    assert (tmp_path / "pieces.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert len((tmp_path / "whole.csv").read_text().splitlines()) == count + 1


def written(folder: Path, columns: dict[str, list[Any]]) -> list[str]:
    traces.write_columns({name: np.array(values) for name, values in columns.items()}, folder / "c.csv", replace=True)
    return (folder / "c.csv").read_text().splitlines()


def test_texts_with_commas_and_quotes_are_read_back_beside_numbers(tmp_path):
    columns: dict[str, list[Any]] = {"layer": ["conv,a", 'say "b"'], "k": ["", "1/2"], "time_s": [0.5, 1e-20]}
    traces.write_columns(columns, tmp_path / "c.csv", replace=False)
    with (tmp_path / "c.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["layer"] for row in rows] == columns["layer"]
    assert [row["k"] for row in rows] == columns["k"]
    assert [float(row["time_s"]) for row in rows] == columns["time_s"]


@given(st.lists(st.tuples(st.floats(), st.integers(-(2**63), 2**63 - 1), st.booleans()), min_size=1))
@example([(edge, 0, True) for bound in (1e-5, 1e-4, 1e15, 1e16) for edge in (bound, math.nextafter(bound, 0), -bound)])
def test_numbers_are_written_as_python_writes_them(tmp_path_factory, rows):
    floats, integers, flags = map(list, zip(*rows, strict=True))
    lines = written(tmp_path_factory.getbasetemp(), {"floats": floats, "integers": integers, "flags": flags})
    expected = [f"{repr(x) if math.isfinite(x) else ''},{n},{int(flag)}" for x, n, flag in rows]
    assert lines == ["floats,integers,flags", *expected]


def test_as_few_digits_are_written_as_tell_a_number_from_its_neighbours(tmp_path):
    drawn = (10 ** np.random.default_rng(1).uniform(-5, 17, 20_000)).tolist()
    assert written(tmp_path, {"drawn": drawn}) == ["drawn", *map(repr, drawn)]


def test_what_a_spreadsheet_writes_is_read(tmp_path):
    """A byte order mark, carriage returns, quotes, spaces, columns in another order."""
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbf"arrival_s", request_id\r\n"0.5", 7\r\n1e0,8\r\n')
    trace = read_trace(path)
    assert trace.request_id.tolist() == [7, 8]
    assert trace.arrival_s.tolist() == [0.5, 1.0]


FAULTS = {
    "empty": ("", "expected a header, found an empty file"),
    "header only": (HEADER + "\n", "at least one request"),
    "no arrival column": ("request_id\n1\n", "header: expected a column arrival_s"),
    "no known column": (
        "request_id;arrival_s\n0;1\n",
        'header: expected columns such as request_id, arrival_s, found "request_id;arrival_s"; the first line',
    ),
    "column in milliseconds": ("request_id,arrival_ms\n1,2\n", "header: expected a column arrival_s, found none"),
    "unknown column": (f"{HEADER},colour\n1,2,3\n", 'header: unknown column "colour"'),
    "column twice": (f"{HEADER},arrival_s\n1,2,3\n", 'header: column "arrival_s" stands twice'),
    "confidence gap": (f"{HEADER},confidence_2\n1,2,0.5\n", "confidence_1 to confidence_1 without a gap"),
    "unsorted": (f"{HEADER}\n1,2\n2,1.5\n", r'row 2 \(line 3\): arrival_s: expected no earlier arrival.*"1.5"'),
    "admitted with a later one": (
        f"{HEADER},admitted_with\n1,1,1\n2,1,1\n3,2,1\n",
        r'row 3 \(line 4\): admitted_with: expected a new number, or the one of the row before.*"1"',
    ),
    "admitted with one further up": (
        f"{HEADER},admitted_with\n1,1,1\n2,1,2\n3,1,1\n",
        r'row 3 \(line 4\): admitted_with: expected a new number.*"1"',
    ),
    "admitted with another network's": (
        f"{HEADER},admitted_with,network\n1,1,1,a\n2,1,1,b\n",
        r'row 2 \(line 3\): admitted_with: expected a new number.*"1"',
    ),
    "negative": (f"{HEADER}\n1,-2\n", r'row 1 \(line 2\): arrival_s: expected seconds >= 0.*"-2"'),
    "nan": (f"{HEADER}\n1,1\n2,nan\n", r'row 2 \(line 3\): arrival_s: expected seconds >= 0.*"nan"'),
    "infinite": (f"{HEADER}\n1,inf\n", r"row 1 .*arrival_s: expected seconds"),
    "absurdly late": (f"{HEADER}\n1,1e11\n", r"row 1 .*arrival_s: expected seconds >= 0 and <= 1e\+10"),
    "no number": (
        f"{HEADER}\n1,1\n2,soon\n3,soon\n",
        r'row 2 \(line 3\): arrival_s: .*found "soon" \(and 1 more row\)',
    ),
    "missing value": (f"{HEADER}\n1,1\n2,\n", r"row 2 \(line 3\): arrival_s: .*found nothing"),
    "missing column": (f"{HEADER}\n1,1\n2\n", r"row 2 \(line 3\): expected 2 values, found 1"),
    "blank line": (f"{HEADER}\n1,1\n\n2,2\n", r"row 2 \(line 3\): expected 2 values, found 0"),
    "duplicate": (f"{HEADER}\n1,1\n2,1\n1,3\n", r'row 3 \(line 4\): request_id: expected a new id, found "1"'),
    "fractional id": (f"{HEADER}\n1.5,1\n", r"row 1 \(line 2\): request_id: expected a whole number"),
    "negative id": (f"{HEADER}\n-1,1\n", r"row 1 \(line 2\): request_id: expected a whole number >= 0"),
    "huge id": (f"{HEADER}\n{2**63},1\n", r"row 1 \(line 2\): request_id: expected a whole number"),
    "exit zero": (f"{HEADER},exit\n1,1,0\n", r"row 1 \(line 2\): exit: expected an exit, counted from 1"),
    "confidence above one": (f"{HEADER},confidence_1\n1,1,1.5\n", r"row 1 .*confidence_1: expected a confidence"),
    "answer neither right nor wrong": (
        f"{HEADER},correct_1\n1,1,1\n2,1,2\n",
        r'row 2 \(line 3\): correct_1: expected 0 or 1, found "2"',
    ),
    "answer that is no number": (f"{HEADER},correct_1\n1,1,yes\n", r'row 1 \(line 2\): correct_1: .*found "yes"'),
    "half an answer": (f"{HEADER},correct_1\n1,1,0.5\n", r'row 1 \(line 2\): correct_1: expected 0 or 1, found "0.5"'),
    "no answer": (f"{HEADER},correct_1\n1,1,\n", r"row 1 \(line 2\): correct_1: expected 0 or 1, found nothing"),
    "answers with a gap": (f"{HEADER},correct_1,correct_3\n1,1,0,1\n", "correct_1 to correct_2 without a gap"),
    "answers from 0": (f"{HEADER},correct_0\n1,1,0\n", 'header: unknown column "correct_0"; .*correct_1...'),
    "no slo": (f"{HEADER},slo_s\n1,1,0\n", r"row 1 \(line 2\): slo_s: expected seconds > 0"),
    "underscore": (f"{HEADER}\n1,1_0\n", r'row 1 \(line 2\): arrival_s: expected seconds.*"1_0"'),
    "digits of another script": (f"{HEADER}\n\u0661,1\n", r"row 1 \(line 2\): request_id: expected a whole number"),
    "open quote": (f'{HEADER}\n1,"1\n', "expected CSV"),
    "giant field": (f"{HEADER}\n1,{'9' * 200_000}\n", "expected CSV|arrival_s"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_names_its_row(tmp_path, case):
    text, expected = FAULTS[case]
    with pytest.raises(InputError, match=expected) as caught:
        read_text(tmp_path, text)
    assert all(fault.startswith(f"{tmp_path}/t.csv: ") for fault in caught.value.faults)


def test_faults_of_several_columns_are_reported_at_once(tmp_path):
    with pytest.raises(InputError) as caught:
        read_text(tmp_path, f"{HEADER},exit,slo_s\nx,-1,0,-1\n")
    assert len(caught.value.faults) == 4


def test_not_text_and_not_there(tmp_path):
    path = tmp_path / "t.csv"
    with pytest.raises(InputError, match="no such file; make one with `fluidb trace`"):
        read_trace(path)
    path.write_bytes(HEADER.encode("utf-16"))
    with pytest.raises(InputError, match="expected UTF-8 text, found byte 0xff"):
        read_trace(path)
    with pytest.raises(InputError, match="expected a file, found a folder"):
        read_trace(tmp_path)


@given(st.one_of(st.binary(max_size=100), st.binary(max_size=100).map(lambda raw: HEADER.encode() + b"\n" + raw)))
def test_no_bytes_break_the_reader(tmp_path_factory, raw):
    path = tmp_path_factory.getbasetemp() / "t.csv"
    path.write_bytes(raw)
    try:
        trace = read_trace(path)
    except InputError:
        return
    assert np.all(np.diff(trace.arrival_s) >= 0)


def test_poisson_has_the_moments_of_theory():
    """Gaps of mean and standard deviation 1/rate; counts in a window of that mean and variance."""
    rate, count = 15.0, 200_000
    arrival = poisson(rate, count, seed=3).arrival_s
    gaps = np.diff(arrival, prepend=0.0)
    assert gaps.min() > 0
    assert gaps.mean() == pytest.approx(1 / rate, rel=4 / np.sqrt(count))
    assert gaps.std() == pytest.approx(1 / rate, rel=4 * np.sqrt(2 / count))
    assert np.corrcoef(gaps[1:], gaps[:-1])[0, 1] == pytest.approx(0, abs=4 / np.sqrt(count))
    windows = np.bincount(arrival.astype(int))[:-1]
    assert windows.var() == pytest.approx(windows.mean(), rel=0.06)


def test_equal_seeds_do_not_tie_exits_to_gaps():
    """One seed for trace and exits must not make early exits come with short gaps."""
    gaps = np.diff(poisson(1.0, 50_000, 7).arrival_s, prepend=0.0)
    exits = draw([0.25] * 4, 50_000, 7)
    assert abs(np.corrcoef(gaps, exits)[0, 1]) < 0.02


def test_drawn_exits_follow_the_rates():
    rates = [0.051, 0.169, 0.090, 0.690]
    exits = draw(rates, 100_000, 5)
    shares = np.bincount(exits, minlength=5)[1:] / exits.size
    assert np.all(np.abs(shares - rates) < 4 * np.sqrt(np.array(rates) * (1 - np.array(rates)) / exits.size))
    assert draw([0.0, 1.0, 0.0], 1000, 1).tolist() == [2] * 1000


def test_exits_come_from_the_trace_then_confidences_then_rates():
    count = 4
    arrival, ids = np.arange(count, dtype=float), np.arange(count)
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.1, 0.79], [0.8, 0.9]])
    given_exits = np.array([3, 1, 2, 3])
    rates = [0.2, 0.3, 0.5]
    assert prepare(Trace(ids, arrival, given_exits, scores), rates, slo_s=1.0).exits.tolist() == [3, 1, 2, 3]
    assert prepare(Trace(ids, arrival, None, scores), rates, slo_s=1.0).exits.tolist() == [1, 2, 3, 1]
    assert prepare(Trace(ids, arrival, None, scores), rates, slo_s=1.0, threshold=0.85).exits.tolist() == [1, 3, 3, 2]
    assert prepare(Trace(ids, arrival), rates, slo_s=1.0, seed=6).exits.tolist() == draw(rates, count, 6).tolist()
    last = np.column_stack([scores, np.zeros(count)])  # a confidence at the last exit changes nothing
    assert prepare(Trace(ids, arrival, None, last), rates, slo_s=1.0).exits.tolist() == [1, 2, 3, 1]


RATES = [0.2, 0.3, 0.5]


def test_exits_that_do_not_fit_the_network_are_refused():
    trace = Trace(np.arange(2), np.arange(2.0), np.array([1, 4]))
    with pytest.raises(InputError, match="trace: row 2: exit: expected 1 to 3"):
        prepare(trace, RATES, slo_s=1.0)
    with pytest.raises(InputError, match="threshold"):
        prepare(trace, RATES, slo_s=1.0, threshold=0.5)


def test_a_trace_that_does_not_fit_the_network_is_named_with_its_row(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER},exit\n1,0,3\n2,1,1\n3,2,4\n4,3,9\n")
    with pytest.raises(InputError) as caught:
        prepare(read_trace(path), RATES, slo_s=1.0)
    assert caught.value.faults == (
        f'{path}: row 3 (line 4): exit: expected 1 to 3, the exits of the network, found "4" (and 1 more row)',
    )


@pytest.mark.parametrize("confidences", [1, 4])
@pytest.mark.parametrize("answers", [2, 4])
def test_confidences_and_answers_are_as_many_as_the_exits(confidences, answers):
    trace = Trace(
        np.arange(2), np.arange(2.0), None, np.zeros((2, confidences)), correct=np.ones((2, answers), dtype=bool)
    )
    with pytest.raises(InputError) as caught:
        prepare(replace(trace, source=Path("t.csv")), RATES, slo_s=1.0)
    scores, right = caught.value.faults
    each = "one for each exit but the last, as the network has 3"
    draw = "`fluidb samples generate --network DIR` draws answers at the exits of a table"
    assert scores == f"t.csv: confidence: expected confidence_1 to confidence_2, {each}, found {confidences}; {draw}"
    assert (
        right == f"t.csv: answers: expected correct_1 to correct_3, one for each exit of the network, found {answers}"
    )


def test_a_network_with_a_single_exit_needs_no_confidence():
    for columns in (0, 1):
        trace = Trace(np.arange(3), np.arange(3.0), None, np.zeros((3, columns)))
        assert prepare(trace, [1.0], slo_s=1.0).exits.tolist() == [1, 1, 1]
    with pytest.raises(InputError, match="expected none, as the network has 1, found 2"):
        prepare(Trace(np.arange(1), np.arange(1.0), None, np.zeros((1, 2))), [1.0], slo_s=1.0)


def test_one_threshold_for_each_exit():
    scores = np.array([[0.8, 0.9], [0.7, 0.9], [0.7, 0.6], [0.75, 0.0]])
    assert decide(scores, [0.75, 0.9], 3).tolist() == [1, 2, 3, 1]
    trace = Trace(np.arange(4), np.arange(4.0), None, scores)
    traffic = prepare(trace, RATES, slo_s=1.0, threshold=[0.75, 0.6])
    assert (traffic.exits.tolist(), traffic.origin) == ([1, 2, 2, 1], "confidence >= 0.75, 0.6")
    assert prepare(trace, RATES, slo_s=1.0, threshold=[0.7]).exits.tolist() == [1, 1, 1, 1]
    for wrong, expected in (
        ([0.5] * 3, "threshold: expected 1 value, or 2, one for each exit but the last, found 3"),
        ([0.5, 1.5], "threshold: expected confidences from 0 to 1, found 0.5, 1.5"),
        (float("nan"), "threshold: expected confidences from 0 to 1, found nan"),
    ):
        with pytest.raises(InputError) as caught:
            prepare(trace, RATES, slo_s=1.0, threshold=wrong)
        assert caught.value.faults == (expected,)
    with pytest.raises(InputError, match="expected 1 value, or 3, one for each exit but the last, found 2"):
        chosen_thresholds([0.5, 0.5], 4)


@pytest.mark.parametrize(
    "text", ["", "0.8,", "25.5", "-0.1", "nan", "inf", "0.5;0.6", "high", "0.5,0.6,70", "never mind"]
)
def test_thresholds_that_are_none(text):
    with pytest.raises(
        InputError, match="--threshold: expected a confidence from 0 to 1, an entropy in nats, from 0 to 25, .*, or one"
    ):
        parse_thresholds(text, "--threshold")


@given(st.data(), st.integers(2, 5))
def test_a_higher_threshold_never_lets_a_sample_leave_earlier(data, last):
    confidence = st.one_of(st.floats(0, 1), st.sampled_from([0.5, 0.75]))  # ties between score and threshold
    row = st.lists(confidence, min_size=last - 1, max_size=last - 1)
    scores, levels = np.array(data.draw(st.lists(row, min_size=1, max_size=8))), data.draw(row)
    raised, place = list(levels), data.draw(st.integers(0, last - 2))
    raised[place] = data.draw(st.floats(levels[place], 1))
    before, after = decide(scores, levels, last), decide(scores, raised, last)
    assert np.all(after >= before)
    assert np.all((after == before) | (before == place + 1))  # and only those move that left there
    for sample, left in zip(scores.tolist(), before.tolist(), strict=True):
        sure = [i for i, (score, level) in enumerate(zip(sample, levels, strict=True), 1) if score >= level]
        assert left == min([*sure, last])


@pytest.mark.parametrize("quote", ["", '"'])  # plain numbers, and what only the slower reader takes
def test_standard_input_is_read_as_a_file_is(fluidb: Run, tmp_path, tiny_design, monkeypatch, quote):
    text = f"request_id,arrival_s\n{quote}0{quote},0\n1,1e-4\n"
    (tmp_path / "t.csv").write_text(text)
    serve = ["serve-sim", tiny_design, "--slo", "1ms", "--json", "--trace"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    piped, plain = fluidb(*serve, "-"), fluidb(*serve, "t.csv")
    assert (piped.returncode, piped.stderr) == (0, "")
    assert piped.stdout.replace('"trace": "-"', '"trace": "t.csv"') == plain.stdout
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert fluidb("trace", "merge", "-", "t.csv", "-o", "m.csv").returncode == 0
    assert (tmp_path / "m.csv").read_text().count("\n") == 5


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "expected a header, found an empty file"),
        (
            b"request_id,arrival_s\n0,soon\n",
            'row 1 (line 2): arrival_s: expected seconds >= 0 and <= 1e+10, found "soon"',
        ),
        (b"request_id,arrival_s\n0,\xff\n", "expected UTF-8 text, found byte 0xff"),
    ],
)
def test_damage_of_standard_input_is_one_line(fluidb: Run, tiny_design, monkeypatch, content, fault):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    (line,) = lines(fluidb("serve-sim", tiny_design, "--slo", "1ms", "--trace", "-"))
    assert line == f"fluidb: standard input: {fault}"
