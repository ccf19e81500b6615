"""Samples: read from npz and CSV alike, drawn uniformly, and every fault of a file named."""

from __future__ import annotations

import io
import pickle
import struct
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import table_of
from fluidb.formats import InputError
from fluidb.serving import simulate, summarise
from fluidb.serving.scheduler import find_policy
from fluidb.traffic import Samples, Trace, draw_samples, poisson, prepare, randomness, read_samples
from fluidb.traffic.exits import draw
from fluidb.traffic.samples import write_samples
from hypothesis import given
from hypothesis import strategies as st


def samples_of(count: int, exits: int, scores: int, seed: int) -> Samples:
    rng = np.random.default_rng(seed)
    return Samples(rng.random((count, scores)), rng.random((count, exits)) < 0.5)


@given(st.integers(1, 8), st.integers(1, 4), st.booleans(), st.integers(0, 9))
def test_npz_and_csv_agree(tmp_path_factory, count, exits, all_scored, seed):
    given_samples = samples_of(count, exits, exits - (not all_scored), seed)
    folder = tmp_path_factory.mktemp("samples")
    np.savez(folder / "s.npz", confidence=given_samples.confidences, correct=given_samples.correct)
    columns = {f"confidence_{i}": column.tolist() for i, column in enumerate(given_samples.confidences.T, 1)}
    columns |= {f"correct_{i}": column.astype(int).tolist() for i, column in enumerate(given_samples.correct.T, 1)}
    rows = "\n".join(",".join(map(repr, row)) for row in zip(*columns.values(), strict=True))
    (folder / "s.csv").write_text(f"{','.join(columns)}\n{rows}\n")
    for name in ("s.npz", "s.csv"):
        samples = read_samples(folder / name)
        assert len(samples) == count
        assert np.array_equal(samples.confidences, given_samples.confidences)
        assert np.array_equal(samples.correct, given_samples.correct)
        assert [str(samples.confidences.dtype), str(samples.correct.dtype)] == ["float64", "bool"]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("scores", ["<f4", ">f8", "<f2"])
@pytest.mark.parametrize("answers", ["?", "u1", ">i8", "<f8"])
def test_any_kind_of_number_is_read(tmp_path, compressed, scores, answers):
    scored, right = np.array([[0.5, 0.25], [1, 0]], order="F"), np.array([[0, 1], [1, 1]])
    save = np.savez_compressed if compressed else np.savez
    save(tmp_path / "s.NPZ.npz", confidence=scored.astype(scores), correct=right.astype(answers))
    (tmp_path / "s.NPZ.npz").rename(tmp_path / "s.NPZ")
    samples = read_samples(tmp_path / "s.NPZ")
    assert samples.confidences.tolist() == scored.tolist()
    assert samples.correct.tolist() == [[False, True], [True, True]]


def requests(count: int) -> Trace:
    return Trace(np.arange(count), np.arange(count, dtype=float))


def drawn(trace: Trace, samples: Samples, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Confidences and answers of the samples that the requests draw."""
    found = draw_samples(trace, samples, seed)
    assert found.confidences is not None
    assert found.correct is not None
    return found.confidences, found.correct


def test_samples_are_drawn_uniformly_and_with_replacement():
    count, kinds = 100_000, 20
    marks = np.arange(kinds)[:, None] / kinds
    scores, _ = drawn(requests(count), Samples(marks, np.ones((kinds, 2), dtype=bool)), 3)
    seen = np.bincount(np.rint(scores[:, 0] * kinds).astype(int), minlength=kinds)
    # chi-squared with 19 degrees of freedom exceeds 43.8 once in a thousand
    assert ((seen - count / kinds) ** 2 / (count / kinds)).sum() < 43.8
    assert seen.min() > 0


def test_a_sample_keeps_its_answers():
    samples = samples_of(50, 3, 2, 1)
    rows = {tuple(scores): tuple(right) for scores, right in zip(samples.confidences, samples.correct, strict=True)}
    for scores, right in zip(*drawn(requests(500), samples, 1), strict=True):
        assert rows[tuple(scores)] == tuple(right)


def test_samples_follow_the_seed_and_nothing_else():
    samples = samples_of(1000, 3, 2, 0)
    once, again, other = (drawn(requests(100), samples, seed)[0] for seed in (5, 5, 6))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)
    late = Trace(np.arange(100), poisson(3.0, 100, 9).arrival_s)
    assert np.array_equal(drawn(late, samples, 5)[0], once)
    with pytest.raises(InputError, match="seed: expected a whole number >= 0"):
        draw_samples(requests(1), samples, -1)


def test_equal_seeds_tie_samples_to_neither_arrivals_nor_exits():
    count = 50_000
    ordered = Samples(np.arange(1000)[:, None] / 1000, np.ones((1000, 2), dtype=bool))
    places = drawn(poisson(1.0, count, 7), ordered, 7)[0][:, 0]
    gaps = np.diff(poisson(1.0, count, 7).arrival_s, prepend=0.0)
    for others in (gaps, draw([0.25] * 4, count, 7)):
        assert abs(np.corrcoef(places, others)[0, 1]) < 0.02
    rows = randomness.stream(7, randomness.SAMPLES).integers(1000, size=count)
    assert np.array_equal(places, rows / 1000)  # the stream of samples, and no other
    purposes = [value for name, value in vars(randomness).items() if name.isupper()]
    assert len(purposes) >= 3
    assert len(set(purposes)) == len(purposes)


def test_accuracy_by_hand():
    """Three requests leave at 1, 2 and 3 and are right, wrong, right there; elsewhere the answers differ."""
    trace = Trace(
        np.arange(3), np.arange(3.0) * 10, None, np.array([[0.9, 0.9], [0.1, 0.8], [0.1, 0.1]]),
        correct=np.array([[1, 0, 0], [1, 0, 1], [0, 0, 1]], dtype=bool),
    )  # fmt: skip
    table = table_of([[1.0, 1.0]] * 3)
    rates = [row.rate for row in table.exits]
    for threshold, leave, expected in (
        (0.8, [1, 2, 3], [1.0, 0.0, 1.0]),
        ([1.0, 0.8], [2, 2, 3], [None, 0.0, 1.0]),
        (0.0, [1, 1, 1], [2 / 3, None, None]),
    ):
        traffic = prepare(trace, rates, slo_s=9.0, threshold=threshold)
        assert traffic.exits.tolist() == leave
        summary = summarise(simulate(table, traffic, find_policy("fluid")))
        assert [exit_.accuracy for exit_ in summary.exits] == expected
        parts = [share * leave.count(i) for i, share in enumerate(expected, 1) if share is not None]
        assert summary.accuracy == pytest.approx(sum(parts) / 3)


@pytest.mark.parametrize("column", ["exits", "confidences", "correct"])
def test_a_trace_that_knows_its_exits_draws_no_samples(column):
    own: dict[str, Any] = {
        "exits": np.array([1]),
        "confidences": np.zeros((1, 1)),
        "correct": np.ones((1, 2), dtype=bool),
    }
    trace = Trace(np.arange(1), np.arange(1.0), **{column: own[column]})
    with pytest.raises(InputError, match=r"t.csv: expected a trace without (exit|confidence_1, ...|correct_1, ...),"):
        draw_samples(replace(trace, source=Path("t.csv")), samples_of(3, 2, 1, 0), 0)


def test_faults_name_the_file_that_has_the_column(tmp_path):
    """The objective is the trace's own, the answers are the samples'."""
    samples = replace(samples_of(3, 2, 1, 0), source=tmp_path / "answers.npz")
    trace = Trace(np.arange(4), np.arange(4.0), slo_s=np.ones(4), source=tmp_path / "t.csv")
    drawn = draw_samples(trace, samples, 0)
    with pytest.raises(InputError, match=r"expected no column slo_s in .*t\.csv beside an objective"):
        prepare(drawn, [0.5, 0.5], slo_s=1.0)
    with pytest.raises(InputError, match=r"answers\.npz: (confidence|answers): expected"):
        prepare(drawn, [0.2] * 5)


CSV_FAULTS = {
    "empty": ("", "expected a header, found an empty file"),
    "header only": ("confidence_1,correct_1\n", "at least one sample"),
    "no answers": ("confidence_1\n0.5\n", "header: expected a column correct_1, found none"),
    "wrong column": ("confidence_1,correct_1,right\n0.5,1,1\n", 'header: unknown column "right"; expected confidence'),
    "column of a trace": ("arrival_s,correct_1\n0.5,1\n", 'header: unknown column "arrival_s"'),
    "gap": ("confidence_2,correct_1\n0.5,1\n", "confidence_1 to confidence_1 without a gap"),
    "twice": ("correct_1,correct_1\n1,1\n", 'header: column "correct_1" stands twice'),
    "nan": ("confidence_1,correct_1\n1,1\nnan,1\n", r'row 2 \(line 3\): confidence_1: expected a confidence.*"nan"'),
    "out of range": ("confidence_1,correct_1\n1.01,1\n", r'row 1 \(line 2\): confidence_1: expected a.*"1.01"'),
    "no answer": ("confidence_1,correct_1\n1,2\n", r'row 1 \(line 2\): correct_1: expected 0 or 1, found "2"'),
    "ragged": ("confidence_1,correct_1\n1\n", r"row 1 \(line 2\): expected 2 values, found 1"),
    "too few confidences": (
        "confidence_1,correct_1,correct_2,correct_3\n1,1,1,1\n",
        "confidence for every exit, with or without the last, found 3 and 1",
    ),
    "too many confidences": ("confidence_1,confidence_2,correct_1\n1,1,1\n", "found 1 and 2"),
}


@pytest.mark.parametrize("case", CSV_FAULTS)
def test_a_fault_of_a_csv_file_names_its_row(tmp_path, case):
    text, expected = CSV_FAULTS[case]
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=expected) as caught:
        read_samples(path)
    assert all(fault.startswith(f"{path}: ") for fault in caught.value.faults)


def npy_of(shape: tuple[int, ...], data: bytes, kind: str = "<f8") -> bytes:
    """An array that announces a shape, whatever data it holds."""
    header = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def npz_of(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def saved(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


ONE = npy_of((1, 1), bytes(8))
GOOD = saved(confidence=np.full((4, 2), 0.5), correct=np.ones((4, 3), dtype=bool))
NPZ_FAULTS = {
    "empty": (b"", "expected an .npz file"),
    "text": (b"confidence_1,correct_1\n1,1\n", "expected an .npz file"),
    "one array alone": (ONE, "expected an .npz file"),
    "pickle": (pickle.dumps([1, 2]), "expected an .npz file"),
    "truncated": (GOOD[:-40], "expected an .npz file"),
    "front cut off": (GOOD[100:], "not a whole .npz file|expected the arrays"),
    "a bit flipped": (GOOD.replace(bytes.fromhex("000000000000e03f"), bytes(8), 1), "not a whole .npz file: Bad CRC"),
    "zip of something else": (npz_of(readme=b"hello"), "expected the arrays confidence and correct .*, found readme"),
    "one missing": (saved(confidence=np.zeros((1, 1))), "expected the arrays .* found confidence"),
    "one too many": (npz_of(confidence=ONE, correct=ONE, names=ONE), "found confidence, correct, names"),
    "pickled": (
        saved(confidence=np.array([[None]]), correct=np.ones((1, 1))),
        "confidence: expected an array of numbers, found object",
    ),
    "text in it": (saved(confidence=np.array([["a"]]), correct=np.ones((1, 1))), "array of numbers, found <U1"),
    "complex": (saved(confidence=np.ones((1, 1)) * 1j, correct=np.ones((1, 1))), "array of numbers, found complex128"),
    "no array": (npz_of(confidence=b"hello", correct=ONE), "not a whole .npz file: "),
    "flat": (
        saved(confidence=np.zeros(3), correct=np.ones((3, 1))),
        "confidence: expected samples x exits, perhaps x principal values, found 1",
    ),
    "cubic": (saved(confidence=np.zeros((1, 1)), correct=np.ones((1, 1, 1))), "correct: .*found 3 dimensions"),
    "bomb": (
        npz_of(confidence=npy_of((10**12, 3), bytes(8)), correct=ONE),
        "at most 33,554,432 values, found 1000000000000 x 3",
    ),
    "overflowing bomb": (npz_of(confidence=npy_of((2**62, 2**62), bytes(8)), correct=ONE), "at most 33,554,432"),
    "bomb of bytes": (npz_of(confidence=npy_of((2**26, 1), b"", "|i1"), correct=ONE), "at most 33,554,432 values"),
    "wrong throughout": (
        saved(confidence=np.full((2**20, 1), 2, "i1"), correct=np.ones((2**20, 1), "i1")),
        "row 1: .*and 1048575 more",
    ),
    "announces more": (
        npz_of(confidence=npy_of((10**7, 3), bytes(8)), correct=ONE),
        "damaged: its header states 10000000 x 3 values",
    ),
    "announces less": (
        npz_of(confidence=npy_of((1, 1), bytes(10**7)), correct=ONE),
        "damaged: its header states 1 x 1 values",
    ),
    "negative shape": (npz_of(confidence=npy_of((-1, 1), b""), correct=ONE), "confidence: damaged|not a whole"),
    "no samples": (saved(confidence=np.zeros((0, 1)), correct=np.ones((0, 2))), "at least one, found 0 and 0"),
    "other lengths": (saved(confidence=np.zeros((3, 1)), correct=np.ones((2, 2))), "found 3 and 2"),
    "no exits": (
        saved(confidence=np.zeros((3, 0)), correct=np.ones((3, 0))),
        "correct for every exit .* found 0 and 0",
    ),
    "too few confidences": (saved(confidence=np.zeros((3, 1)), correct=np.ones((3, 3))), "found 3 and 1"),
    "nan": (
        saved(confidence=np.array([[0, 1], [0, np.nan], [2, 0]]), correct=np.ones((3, 2))),
        r"row 2: confidence_2: expected a confidence from 0 to 1, found nan \(and 1 more values\)",
    ),
    "out of range": (saved(confidence=np.array([[-1]]), correct=np.ones((1, 1))), "row 1: confidence_1: .*found -1"),
    "no answer": (saved(confidence=np.zeros((2, 1)), correct=np.array([[1], [3]])), "row 2: correct_1: .*1, found 3"),
    "too few widths": (
        saved(confidence=np.zeros((2, 1)), correct=np.ones((2, 2)), width=np.ones(3)),
        "width: expected 2 values, one for each sample, found 3",
    ),
    "a width for each exit": (
        saved(confidence=np.zeros((2, 1)), correct=np.ones((2, 2)), width=np.ones((2, 2))),
        "width: expected samples, found 2 dimensions",
    ),
    "no width": (
        saved(confidence=np.zeros((2, 1)), correct=np.ones((2, 2)), width=np.array([8.0, 0.0])),
        "row 2: width: expected a width > 0 and <= 1e9, found 0.0",
    ),
    "nan for an answer": (saved(confidence=np.ones((1, 1)), correct=np.array([[np.nan]])), "correct_1: .*found nan"),
}


@pytest.mark.parametrize("case", NPZ_FAULTS)
def test_a_fault_of_an_npz_file_is_one_clear_line_and_costs_nothing(tmp_path, case):
    content, expected = NPZ_FAULTS[case]
    path = tmp_path / "s.npz"
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(InputError, match=expected) as caught:
        read_samples(path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 5e6
    (fault,) = caught.value.faults
    assert fault.startswith(f"{path}: ")
    assert "\n" not in fault


def test_a_good_file_is_good(tmp_path):
    (tmp_path / "s.npz").write_bytes(GOOD)
    assert read_samples(tmp_path / "s.npz").confidences.shape == (4, 2)


def test_an_array_by_numpy_save_is_no_csv(tmp_path):
    (tmp_path / "one.npy").write_bytes(ONE)
    with pytest.raises(InputError, match=r"one\.npy: expected an \.npz file \(numpy\.savez\)"):
        read_samples(tmp_path / "one.npy")


def test_not_there_and_not_a_file(tmp_path):
    for name in ("s.npz", "s.csv"):
        with pytest.raises(InputError, match=r"expected samples \(.npz or CSV\), found no such file"):
            read_samples(tmp_path / name)
        (tmp_path / name).mkdir()
        with pytest.raises(InputError, match="expected a file, found a folder"):
            read_samples(tmp_path / name)


@given(st.integers(0, len(GOOD) - 1), st.binary(max_size=8), st.integers(0, 8))
def test_no_bytes_break_the_reader(tmp_path_factory, place, put, cut):
    path = tmp_path_factory.getbasetemp() / "s.npz"
    path.write_bytes(GOOD[:place] + put + GOOD[place + cut :])
    try:
        samples = read_samples(path)
    except InputError as error:
        assert all(fault.startswith(f"{path}: ") and "\n" not in fault for fault in error.faults)
        return
    assert samples.confidences.tolist() == [[0.5, 0.5]] * 4
    assert samples.correct.all()


def test_what_else_is_known_of_a_sample_goes_with_it(tmp_path):
    """Widths and predictions are read from both kinds of file, kept by every selection, and drawn with the answers."""
    more = {"width": [8.0, 16.0, 24.0], "predicted_depth": [2.0, 1.0, 1.5], "predicted_width": [9.0, 9.0, 9.0]}
    confidences, correct = np.array([[0.1], [0.5], [0.9]]), np.ones((3, 2), dtype=bool)
    arrays: dict[str, Any] = {name: np.array(values) for name, values in more.items()}
    write_samples(Samples(confidences, correct, **arrays), tmp_path / "s.npz")
    rows = zip(confidences[:, 0], *more.values(), strict=True)
    text = "\n".join(",".join(map(str, row)) + ",1,1" for row in rows)
    (tmp_path / "s.csv").write_text(f"confidence_1,{','.join(more)},correct_1,correct_2\n{text}\n")
    for name in ("s.npz", "s.csv"):
        samples = read_samples(tmp_path / name)
        assert {key: values.tolist() for key, values in samples.more().items()} == more
        second, at_exits = samples[slice(1, 2)], samples.at_exits([1], [1])
        assert second.width is not None
        assert second.width.tolist() == [16.0]
        assert at_exits.predicted_depth is not None
        assert at_exits.predicted_depth.tolist() == more["predicted_depth"]
        trace = draw_samples(requests(40), samples, 2)
        assert trace.confidences is not None
        which = np.searchsorted(confidences[:, 0], trace.confidences[:, 0])
        for key, values in arrays.items():
            assert np.array_equal(getattr(trace, key), values[which])
    with pytest.raises(InputError, match="expected a trace without width, which the samples give"):
        draw_samples(replace(requests(2), width=np.ones(2)), samples, 0)
