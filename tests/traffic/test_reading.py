"""The reader of traces: plain numbers, text and faults, wherever one piece of the file ends and the next begins."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from fluidb.formats import InputError
from fluidb.traffic import Samples, draw_samples, gamma, poisson, read_trace, reading, rows, write_trace
from fluidb.traffic import trace as traces


@contextlib.contextmanager
def in_pieces(size):
    """Read and write some rows at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traces, "PIECE", size)
        patch.setattr(rows, "BATCH", size)
        patch.setattr(reading, "PIECE_BYTES", 8 * size)
        yield


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_what_is_written_and_read_in_pieces_is_the_same(size, tmp_path):
    rng = np.random.default_rng(3)
    samples = Samples(rng.random((11, 2)), rng.random((11, 3)) < 0.5)
    for arrivals in (poisson(15.0, 200, 3), gamma(3.0, 2.5, 200, 3)):
        for trace in (arrivals, draw_samples(arrivals, samples, 4)):
            write_trace(trace, tmp_path / "whole.csv")
            with in_pieces(size):
                write_trace(trace, tmp_path / "pieces.csv")
                back = read_trace(tmp_path / "pieces.csv")
            assert (tmp_path / "pieces.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
            for name in ("request_id", "arrival_s", "confidences", "correct"):
                assert np.array_equal(getattr(back, name), getattr(trace, name))


LINES = [f"{i},{i / 4},{i % 3 + 1}" for i in range(90)]
EDITS = {
    "nothing": {},
    "a quote": {50: '"50",12.5,1'},
    "carriage returns": {0: "0,0,1\r", 75: "75,18.75,1\r"},
    "no number": {80: "80,soon,1", 85: "85,later,0"},
    "out of range in one piece, no number in another": {20: "20,5,0", 80: "80,30,x"},
    "ragged behind another fault": {20: "x,5,1", 80: "80,30", 81: "81"},
    "blank line": {70: ""},
    "unsorted": {64: "64,1,1", 72: "72,1,1"},
    "twice": {64: "63,16,1", 72: "0,18,2", 85: " 0,21.25,2"},
    "twice and unsorted and out of range": {64: "63,15,9999999", 72: "+0,18,2"},
    "open quote": {89: '89,22.25,"1'},
    "not UTF-8": {89: "89,22.25,\udcff"},
    "ids in any order": {10: "11,2.5,1", 11: "10,2.75,1"},
}


@pytest.mark.parametrize("case", EDITS)
def test_faults_and_values_are_the_same_in_pieces(case, tmp_path):
    path = tmp_path / "t.csv"
    lines = [EDITS[case].get(i, row) for i, row in enumerate(LINES)]
    path.write_bytes(("request_id,arrival_s,exit\n" + "\n".join(lines) + "\n").encode(errors="surrogateescape"))

    def read():
        try:
            trace = read_trace(path)
        except InputError as error:
            return error.faults
        return [
            None if column is None else column.tolist() for column in (trace.request_id, trace.arrival_s, trace.exits)
        ]

    whole = read()
    for size in (1, 3, 64):
        with in_pieces(size):
            assert read() == whole


def test_faults_in_pieces_name_row_and_count(tmp_path):
    path = tmp_path / "t.csv"
    lines = [EDITS["twice and unsorted and out of range"].get(i, row) for i, row in enumerate(LINES)]
    path.write_text("request_id,arrival_s,exit\n" + "\n".join(lines) + "\n")
    with in_pieces(7), pytest.raises(InputError) as caught:
        read_trace(path)
    assert caught.value.faults == (
        f'{path}: row 65 (line 66): exit: expected an exit, counted from 1, found "9999999"',
        f'{path}: row 65 (line 66): request_id: expected a new id, found "63" (and 1 more row)',
        f'{path}: row 65 (line 66): arrival_s: expected no earlier arrival than the row before, found "15"',
    )
