"""Traces longer than memory: read, drawn, replayed and written block by block, with the results of the whole."""

from __future__ import annotations

import contextlib
from dataclasses import astuple

import numpy as np
import pytest
from fluidb.formats import InputError
from fluidb.serving import POLICIES, find_policy, simulate, statistics, summarise
from fluidb.serving.bound import least_violations
from fluidb.serving.replay import write_requests
from fluidb.traffic import (
    Samples,
    Trace,
    draw_samples,
    gamma,
    poisson,
    prepare,
    read_trace,
    reading,
    storage,
    write_trace,
)
from fluidb.traffic import (
    trace as traces,
)
from fluidb.traffic.exits import draw
from hypothesis import given, settings
from hypothesis import strategies as st
from test_serving import contender_of, table_of, ticks, traffic_of, workloads

SIZES = [1, 2, 7, 64]


@contextlib.contextmanager
def in_blocks(size):
    """All that is long in pieces of a few requests, and in files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "BLOCK", size)
        patch.setattr(storage, "IN_MEMORY_BYTES", 8 * size)
        patch.setattr(statistics, "SORTED", size)
        patch.setattr(traces, "PIECE", size)
        patch.setattr(reading, "PIECE_ROWS", size)
        patch.setattr(reading, "PIECE_BYTES", 8 * size)
        yield


def everything(table, trace, contender, exits, until_s, path):
    """Figures, the bound, and the file of every request; or the fault."""
    try:
        found = simulate(table, traffic_of(trace, exits), contender, until_s=until_s)
    except InputError as error:
        return str(error)
    write_requests(found, path)
    return astuple(summarise(found)), least_violations(found), path.read_bytes()


@settings(max_examples=40, deadline=None)
@given(
    workloads(), st.sampled_from(sorted(POLICIES)), ticks(0, 16), st.sampled_from(SIZES),
    st.one_of(st.just(np.inf), ticks(0, 9000)), st.booleans(),
)  # fmt: skip
def test_no_block_changes_a_replay(tmp_path_factory, workload, policy, call_s, size, until_s, answered):
    table, trace, exits = workload
    if answered:
        known = (np.arange(len(trace) * len(table.exits)) % 3 > 0).reshape(len(trace), -1)
        trace = Trace(trace.request_id, trace.arrival_s, slo_s=trace.slo_s, correct=known)
    path = tmp_path_factory.getbasetemp() / "requests.csv"
    arguments = table, trace, contender_of(policy, call_s), exits, until_s, path
    whole = everything(*arguments)
    with in_blocks(size):
        assert everything(*arguments) == whole


@pytest.mark.parametrize("policy", ["fluid-slack", "lazy", "fluid:exits=unaware"])
def test_overload_and_overtaking(policy, tmp_path):
    """A queue that grows without end, late requests that step aside, objectives that differ."""
    table = table_of([[0.25, 0.375, 0.5], [0.5, 0.75, 1.0]])
    slo_s = np.array([1.0 + i * 7 % 5 for i in range(150)])
    trace = Trace(np.arange(150), poisson(4.0, 150, 5).arrival_s, slo_s=slo_s)
    arguments = table, trace, find_policy(policy), draw([0.4, 0.6], 150, 5), 30.0, tmp_path / "r.csv"
    whole = everything(*arguments)
    assert whole[0][1] > 0  # unfinished
    for size in SIZES:
        with in_blocks(size):
            assert everything(*arguments) == whole


@pytest.mark.parametrize("size", SIZES)
def test_what_is_drawn_and_written_is_the_same(size, tmp_path):
    rng = np.random.default_rng(3)
    samples = Samples(rng.random((11, 2)), rng.random((11, 3)) < 0.5)

    def made():
        found = [poisson(15.0, 200, 3), gamma(3.0, 2.5, 200, 3)]
        found += [draw_samples(trace, samples, 4) for trace in found]
        for number, trace in enumerate(found):
            write_trace(trace, tmp_path / f"{number}.csv")
            back = read_trace(tmp_path / f"{number}.csv")
            for name in ("request_id", "arrival_s", "confidences", "correct"):
                assert np.array_equal(getattr(back, name), getattr(trace, name))
        figures = [(trace.rate_per_s, trace.gap_cv, trace.gap_lag1) for trace in found]
        files = [(tmp_path / f"{number}.csv").read_bytes() for number in range(len(found))]
        exits = [
            draw([0.2, 0.3, 0.5], 200, 1).tolist(),
            prepare(found[2], [0.2, 0.3, 0.5], slo_s=1.0, threshold=0.5).exits.tolist(),
        ]
        return figures, files, exits

    whole = made()
    with in_blocks(size):
        assert made() == whole
    gaps = np.diff(poisson(15.0, 200, 3).arrival_s)
    assert whole[0][0][1] == gaps.std() / gaps.mean()


ROWS = [f"{i},{i / 4},{i % 3 + 1}" for i in range(90)]
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
    rows = [EDITS[case].get(i, row) for i, row in enumerate(ROWS)]
    path.write_bytes(("request_id,arrival_s,exit\n" + "\n".join(rows) + "\n").encode(errors="surrogateescape"))

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
        with in_blocks(size):
            assert read() == whole


def test_faults_in_pieces_name_row_and_count(tmp_path):
    path = tmp_path / "t.csv"
    rows = [EDITS["twice and unsorted and out of range"].get(i, row) for i, row in enumerate(ROWS)]
    path.write_text("request_id,arrival_s,exit\n" + "\n".join(rows) + "\n")
    with in_blocks(7), pytest.raises(InputError) as caught:
        read_trace(path)
    assert caught.value.faults == (
        f'{path}: row 65 (line 66): exit: expected an exit, counted from 1, found "9999999"',
        f'{path}: row 65 (line 66): request_id: expected a new id, found "63" (and 1 more rows)',
        f'{path}: row 65 (line 66): arrival_s: expected no earlier arrival than the row before, found "15"',
    )
