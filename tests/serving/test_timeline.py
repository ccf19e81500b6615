"""The timeline: the paper's figure event by event, and the rules of the format for any replay."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Run, lines, scheduler_named, table_of, ticks, trace_of, traffic_of, workloads
from fluidb.formats import InputError
from fluidb.formats.trace_events import timeline_text
from fluidb.serving import POLICIES, find_policy, simulate, timeline, write_timeline
from fluidb.serving.batches import MERGES
from fluidb.serving.device_traffic import DeviceTraffic
from fluidb.serving.networks import ServedNetwork
from fluidb.serving.timeline import check_timeline_size, timeline_events
from hypothesis import given, settings
from hypothesis import strategies as st


def figure_6():
    """What ``test_the_timeline_of_figure_6`` replays, with request ids from 1 as in the paper's figure."""
    table = table_of([[1.0] * 8, [1.0] * 8])
    trace = trace_of([0.0, 0.0, 0.2, 0.3, 0.5, 0.9, 1.5, 1.6])
    trace.request_id[:] += 1
    exits = np.array([2, 1, 2, 2, 2, 1, 2, 2])
    return simulate(table, traffic_of(trace, exits, 3.5), find_policy("fluid"), record=True)


def test_figure_6_event_by_event():
    events = list(timeline_events(figure_6()))
    slices = [
        (event["tid"], event["name"], event["ts"], event["dur"], *event["args"].values())
        for event in events
        if event["ph"] == "X"
    ]
    assert slices == [
        (1, "stage 1", 0.0, 1e6, 2, 0, [1, 2]),
        (1, "stage 1", 1e6, 1e6, 4, 1, [3, 4, 5, 6]),
        (2, "stage 2", 2e6, 1e6, 4, 0, [1, 3, 4, 5]),
        (1, "stage 1", 3e6, 1e6, 2, 0, [7, 8]),
        (2, "stage 2", 4e6, 1e6, 2, 0, [7, 8]),
    ]
    instants = [
        (event["ts"], event["tid"], event["name"], *event["args"].values())
        for event in events
        if event["ph"] == "i" and event["name"] != "arrival"
    ]
    assert instants == [
        (1e6, 1, "exit", 2, 1),
        (1e6, 1, "preemption", [1]),
        (2e6, 1, "exit", 6, 1),
        (2e6, 1, "merge", [1, 3, 4, 5]),
        *((3e6, 2, "exit", request, 2) for request in (1, 3, 4, 5)),
        *((5e6, 2, "exit", request, 2) for request in (7, 8)),
    ]
    arrivals = [(event["ts"], event["args"]["request"]) for event in events if event["name"] == "arrival"]
    assert arrivals == [(0.0, 1), (0.0, 2), (2e5, 3), (3e5, 4), (5e5, 5), (9e5, 6), (15e5, 7), (16e5, 8)]

    def counter(name: str, unit: str) -> list[tuple[float, int]]:
        return [(event["ts"], event["args"][unit]) for event in events if event["name"] == name]

    queue = [(2e5, 1), (3e5, 2), (5e5, 3), (9e5, 4), (1e6, 0), (15e5, 1), (16e5, 2), (3e6, 0)]
    assert counter("queue", "requests") == queue
    assert counter("on the NPU", "samples") == [(0.0, 2), (1e6, 5), (2e6, 4), (3e6, 2), (5e6, 0)]
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert lanes == {0: "queue", 1: "stage 1: e1", 2: "stage 2: e2"}


def test_a_replay_in_which_nothing_ran_has_a_timeline():
    """The policy still waits for a batch when the simulation stops."""
    traffic = traffic_of(trace_of([0.0]), np.array([2]), 20)
    replay = simulate(table_of([[1.0] * 2] * 2), traffic, find_policy("adaptb"), until_s=0.01, record=True)
    assert replay.launches.sum() == 0
    assert {event["ph"] for event in timeline_events(replay)} == {"M", "i", "C"}


REQUIRED = {
    "X": {"name", "ph", "ts", "dur", "pid", "tid", "args"},
    "i": {"name", "ph", "ts", "s", "pid", "tid", "args"},
    "C": {"name", "ph", "ts", "pid", "args"},
    "M": {"name", "ph", "pid", "args"},
}


def check_format(content: dict[str, Any]) -> None:
    """The format's rules, for every event; times are whole nanoseconds."""
    assert content["otherData"]["schema"] == "fluidb.timeline/1"
    events = content["traceEvents"]
    for event in events:
        assert event.keys() - {"tid"} == REQUIRED[event["ph"]] - {"tid"}
        assert "tid" in event or "tid" not in REQUIRED[event["ph"]]
    times = [event["ts"] for event in events if event["ph"] != "M"]
    assert times == sorted(times)
    named = {event["tid"] for event in events if event["name"] == "thread_name"}
    assert {event["tid"] for event in events if event["ph"] in "Xi"} <= named
    free_at_ns: Counter[int] = Counter()
    for event in events:
        if event["ph"] == "X":
            begin_ns = round(1e3 * event["ts"])
            assert begin_ns >= free_at_ns[event["tid"]]
            assert event["dur"] > 0
            free_at_ns[event["tid"]] = begin_ns + round(1e3 * event["dur"])
        if event["ph"] == "C":
            assert all(value >= 0 for value in event["args"].values())


@settings(max_examples=50)
@given(workloads(), st.sampled_from(sorted(POLICIES)), ticks(0, 16), st.integers(1, 3))
def test_the_rules_of_the_format_hold_for_every_policy(workload, policy, call_s, lanes):
    table, trace, exits = workload
    table = table.model_copy(update={"lanes": 3, "load": [0.0] + [0.5] * table.b_max})
    scheduler = replace(scheduler_named(policy, call_s), lanes=lanes)
    replay = simulate(table, traffic_of(trace, exits), scheduler, record=True)
    assert replay.runs is not None
    events = list(timeline_events(replay))
    check_format(json.loads("".join(timeline_text({"schema": timeline.SCHEMA}, events))))
    left = {event["args"]["request"]: event for event in events if event["name"] == "exit"}
    assert sum(event["name"] == "exit" for event in events) == len(left) == len(trace)
    for request, event in left.items():
        assert event["args"]["exit"] == exits[request] == 1 + (event["tid"] - 1) % len(table.exits)
        nanosecond = 1e-3  # to which the file rounds, where lanes slow each other down by a third
        assert event["ts"] == pytest.approx(1e6 * replay.finish_s[request], rel=1e-12, abs=0.51 * nanosecond)
    for name in ("queue", "on the NPU"):
        values = [
            next(iter(event["args"].values())) for event in events if event["name"] == name and event["ph"] == "C"
        ]
        assert not values or values[-1] == 0
    count = Counter(event["name"] for event in events if event["ph"] == "i")
    assert count["preemption"] == replay.preemptions
    assert count["merge"] == ((replay.runs.flags & MERGES) > 0).sum()
    assert sum(len(event["args"]["preempted"]) for event in events if event["name"] == "preemption") == sum(
        replay.preempted
    )
    assert sum(event["ph"] == "X" for event in events) == replay.launches.sum()
    tracks = 1 + lanes * len(table.exits)
    assert len(events) <= replay.launches.sum() + 6 * len(trace) + 2 * replay.preemptions + 1 + 2 * tracks


def test_a_layerwise_policy_has_a_slice_for_each_layer_in_the_lane_of_its_stage():
    table = table_of([[1.0, 1.0], [1.0, 1.0]])
    replay = simulate(table, traffic_of(trace_of([0.0, 0.1]), np.array([2, 1]), 20), find_policy("lazy"), record=True)
    events = list(timeline_events(replay))
    ran = [
        (event["tid"], event["name"], event["ts"], event["dur"], event["args"]["requests"])
        for event in events
        if event["ph"] == "X"
    ]
    assert ran == [
        (1, "a1", 0.0, 0.25e6, [0]),
        (1, "a1", 0.25e6, 0.25e6, [1]),
        (1, "b1", 0.5e6, 0.75e6, [0, 1]),
        (2, "a2", 1.25e6, 0.25e6, [0]),
        (2, "b2", 1.5e6, 0.75e6, [0]),
    ]
    assert [event["args"] for event in events if event["name"] == "merge"] == [{"requests": [0, 1]}]


def test_a_batch_that_preempts_may_take_several_runs_to_merge():
    table = table_of([[1.0, 1.0], [1.0, 1.0]])
    replay = simulate(table, traffic_of(trace_of([0.0, 0.3]), np.array([2, 2]), 20), find_policy("lazy"), record=True)
    events = [event for event in timeline_events(replay) if event["name"] in ("preemption", "merge")]
    assert [(event["ts"], event["name"], event["args"]) for event in events] == [
        (1e6, "preemption", {"preempted": [0]}),
        (2e6, "merge", {"requests": [0, 1]}),
    ]


def test_each_lane_has_a_stack_and_tracks_of_its_own():
    """Two requests begin half a second apart, each on a lane of its own; each is preempted by a later one."""
    table = table_of([[1.0] * 2] * 3).model_copy(update={"lanes": 2})
    traffic = traffic_of(trace_of([0.0, 0.5, 0.75, 1.25]), np.array([3, 3, 1, 1]), 20)
    replay = simulate(table, traffic, find_policy("fluid:lanes=2"), record=True)
    events = list(timeline_events(replay))
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert names == ["queue", *(f"lane {lane}, stage {n}: e{n}" for lane in (1, 2) for n in (1, 2, 3))]
    ran = [(event["tid"], event["ts"], event["args"]["requests"]) for event in events if event["ph"] == "X"]
    assert ran == [
        (1, 0.0, [0]), (4, 0.5e6, [1]), (1, 1e6, [2]), (4, 1.5e6, [3]),
        (2, 2e6, [0]), (5, 2.5e6, [1]), (3, 3e6, [0]), (6, 3.5e6, [1]),
    ]  # fmt: skip
    preempted = [(event["tid"], event["args"]) for event in events if event["name"] == "preemption"]
    assert preempted == [(1, {"preempted": [0]}), (4, {"preempted": [1]})]


def test_what_stops_early_is_cut_there():
    table = table_of([[1.0, 1.0], [1.0, 1.0]])
    replay = simulate(
        table, traffic_of(trace_of([0.0, 0.5]), np.array([2, 2]), 9), find_policy("serial"), until_s=2.5, record=True
    )
    events = list(timeline_events(replay))
    assert [(event["ts"], event["dur"]) for event in events if event["ph"] == "X"] == [(0, 1e6), (1e6, 1e6), (2e6, 5e5)]
    assert [event["args"]["request"] for event in events if event["name"] == "exit"] == [0]
    assert events[-1]["ts"] <= 2.5e6


def test_too_long_a_timeline_is_refused_before_it_is_recorded(monkeypatch, tmp_path):
    replay = figure_6()
    monkeypatch.setattr(timeline, "MAX_EVENTS", 30)
    with pytest.raises(InputError, match=r"expected at most 30 events, found about 55; .*\(until\), e\.g\. 2\.45s"):
        check_timeline_size(replay)
    with pytest.raises(InputError, match="expected at most"):
        write_timeline(replay, tmp_path / "t.json")
    assert list(tmp_path.iterdir()) == []


def test_a_replay_without_its_runs_is_refused(tmp_path):
    table = table_of([[1.0]])
    replay = simulate(table, traffic_of(trace_of([0.0]), np.array([1]), 1), find_policy("serial"))
    with pytest.raises(InputError, match="record=True"):
        write_timeline(replay, tmp_path / "t.json")
    assert list(tmp_path.iterdir()) == []


def test_serve_sim_writes_a_timeline(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    fluidb("trace", "poisson", "--rate", 8000, "--count", 300, "--seed", 5, "-o", "t.csv")
    common = ["serve-sim", tiny_design, "--trace", "t.csv", "--slo", "400us"]
    for policy in ("fluid", "lazy"):
        texts = set()
        for name in ("a.json", "b.json"):
            done = fluidb(*common, "--policy", policy, "--timeline", name, "--force")
            assert (done.returncode, done.stderr) == (0, "")
            texts.add((tmp_path / name).read_text())
        assert len(texts) == 1
        content = json.loads(texts.pop())
        check_format(content)
        left = [event["args"]["request"] for event in content["traceEvents"] if event["name"] == "exit"]
        assert sorted(left) == list(range(300))
    assert fluidb(*common, "--timeline", "c.json").stdout == fluidb(*common).stdout


def test_a_timeline_in_the_way_is_refused_before_any_work(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    (tmp_path / "mine.json").write_text("years of work")
    found = lines(fluidb("serve-sim", "nowhere", "--trace", "no.csv", "--timeline", "mine.json"))
    assert found[0].startswith("fluidb: mine.json: output exists already")
    (line,) = lines(fluidb("serve-sim", tiny_design, "--trace", "no.csv", "--timeline", "x", "--requests", "x"))
    assert "expected another file than " in line
    assert [path.name for path in tmp_path.iterdir()] == ["mine.json"]


def test_networks_that_never_meet_have_the_timelines_of_each_alone():
    """On tracks one behind the other; runs, members and ends are the network's."""
    tables = [table_of([[0.5, 0.75], [0.25, 0.375]]), table_of([[0.25, 0.5], [0.5, 0.75], [0.25, 0.25]])]
    networks = [ServedNetwork(name=name, table=table) for name, table in zip("ab", tables, strict=True)]
    network = np.arange(60) // 10 % 2
    trace = trace_of(64.0 * (np.arange(60) // 10) + 0.375 * (np.arange(60) % 10))
    exits = 1 + (np.arange(60) % 3 > 0)
    parts = [traffic_of(trace.at(np.flatnonzero(network == k)), exits[network == k], 9.0) for k in range(2)]
    traffic = DeviceTraffic(("a", "b"), network, tuple(parts), traffic_of(trace, exits, 9.0))
    together = [*timeline_events(simulate(networks, traffic, "fluid", record=True))]
    expected = []
    for first, table, part in zip((0, 2), tables, parts, strict=True):
        for event in timeline_events(simulate(table, part, find_policy("fluid"), record=True)):
            expected += [event | {"tid": event["tid"] + first}] if event["ph"] in "Xi" and event["tid"] else []
    found = [event for event in together if event["ph"] in "Xi" and event["tid"]]
    assert Counter(map(json.dumps, found)) == Counter(map(json.dumps, expected))
    assert {event["name"] for event in found} >= {"preemption", "merge", "exit"}
