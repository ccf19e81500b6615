"""SUSHI's scheduler: every request as an independent simulator serves it, and what must hold of any of them."""

from __future__ import annotations

from dataclasses import replace

import naive_sushi_serving as naive
import numpy as np
import pytest
from builders import supernet_table, ticks, trace_of, traffic_of
from fluidb.formats import InputError
from fluidb.serving import find_policy, simulate
from fluidb.traffic import Traffic
from hypothesis import given, settings
from hypothesis import strategies as st

MODES = ["accuracy", "latency", "slack"]


@st.composite
def supernets(draw):
    """SubNets and SubGraphs; several are alike, so that ties are common."""
    subnets, states, places = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    vector = st.lists(st.integers(0, 3), min_size=places, max_size=places)
    times = st.lists(ticks(1, 6), min_size=states, max_size=states)
    return naive.SuperNet(
        draw(st.lists(times, min_size=subnets, max_size=subnets)),
        draw(st.lists(st.integers(1, 4).map(lambda k: k / 4), min_size=subnets, max_size=subnets)),
        draw(st.lists(vector, min_size=subnets, max_size=subnets)),
        [[0] * places, *draw(st.lists(vector, min_size=states - 1, max_size=states - 1))],
        [j / 64 for j in range(states)],
    )


def traffic_with(gaps: list[float], slos: list[float], accuracies: list[float]) -> Traffic:
    trace = replace(trace_of(np.cumsum(gaps), slos), min_accuracy=np.array(accuracies))
    return traffic_of(trace, np.ones(len(gaps), dtype=int))


@st.composite
def queries(draw):
    count = draw(st.integers(1, 24))
    listed = [draw(st.lists(one, min_size=count, max_size=count)) for one in (
        ticks(0, 8), ticks(1, 12), st.integers(0, 4).map(lambda k: k / 4),
    )]  # fmt: skip
    return traffic_with(*listed)


def as_queries(traffic: Traffic) -> list[naive.Query]:
    trace = traffic.trace
    assert trace.min_accuracy is not None
    rows = zip(trace.arrival_s, trace.arrival_s + traffic.slo_s, trace.min_accuracy, strict=True)
    return [naive.Query(*map(float, row)) for row in rows]


@settings(max_examples=40)
@given(
    supernets(), queries(), st.sampled_from(MODES), st.integers(1, 5), st.sampled_from(["l2", "latency"]),
    st.booleans(), st.sampled_from(["follow", "clairvoyant", "last"]), st.booleans(),
)  # fmt: skip
def test_every_request_as_in_an_independent_simulator(net, traffic, mode, q, by, charged, graph, one):
    fixed = len(net.subgraphs) - 1 if graph == "last" else graph
    only = len(net.subnets) - 1 if one else None
    spec = f"sushi:mode={mode},q={q},distance={by},refill={'charged' if charged else 'free'},graph={fixed}"
    table = supernet_table(net.latency_s, list(net.accuracy), net.subnets, net.subgraphs)
    replay = simulate(table, traffic, find_policy(spec if only is None else f"{spec},subnet={only}"))
    expected = naive.serve(net, as_queries(traffic), mode, q, by=by, charged=charged, graph=fixed, only=only)
    assert replay.start_s.tolist() == [item.start_s for item in expected]
    assert replay.finish_s.tolist() == [item.finish_s for item in expected]
    assert replay.variant.tolist() == [item.subgraph * len(net.subnets) + item.subnet for item in expected]


@settings(max_examples=40)
@given(supernets(), queries(), st.integers(1, 5))
def test_no_constraint_is_missed_that_can_be_met(net, traffic, q):
    """What each mode promises of every request, whatever the buffer holds and however long the queue is."""
    table = supernet_table(net.latency_s, list(net.accuracy), net.subnets, net.subgraphs)
    accuracy, every = np.array(net.accuracy), np.array(net.latency_s)
    asked, due_s = traffic.trace.min_accuracy, traffic.trace.arrival_s + traffic.slo_s
    assert asked is not None
    for mode in MODES:
        replay = simulate(table, traffic, find_policy(f"sushi:mode={mode},q={q}"))
        subnet, state = replay.variant % len(accuracy), replay.variant // len(accuracy)
        if mode == "accuracy":
            assert np.all((accuracy[subnet] >= asked) | (asked > accuracy.max()))
        if mode == "slack":
            could = np.any(replay.start_s + every[:, state] <= due_s, axis=0)
            assert np.array_equal(replay.finish_s <= due_s, could)


def test_clairvoyance_over_all_requests_is_the_best_state_in_hindsight():
    rng = np.random.default_rng(3)
    times = (rng.integers(4, 12, (3, 5)) / 64).tolist()
    vectors = rng.integers(0, 9, (8, 4)).tolist()
    table = supernet_table(times, [0.5, 0.75, 1.0], vectors[:3], vectors[3:])
    traffic = traffic_with(*((rng.integers(low, high, 60) / 64).tolist() for low, high in ((0, 20), (4, 30), (0, 60))))

    def worth(spec: str) -> tuple[int, float]:
        replay = simulate(table, traffic, find_policy(spec))
        return int(replay.violated.sum()), -float(np.array([0.5, 0.75, 1.0])[replay.variant % 3].sum())

    alone = [worth(f"sushi:graph={state}") for state in range(5)]
    assert len(set(alone)) > 1
    assert worth("sushi:graph=clairvoyant,q=60") == min(alone)


def test_the_buffer_changes_after_every_q_requests_and_the_next_one_waits_for_it():
    """Two SubNets, and a SubGraph like each: the first two requests need the small one, the others the large one."""
    table = supernet_table([[1.0, 0.5, 0.75], [4.0, 3.0, 2.0]], [0.5, 1.0], [[1, 1], [8, 8]], [[0, 0], [1, 1], [7, 7]])
    asked = [0.5, 0.5, 1.0, 1.0, 1.0, 1.0]
    traffic = traffic_with([0.0] * 6, [100.0] * 6, asked)
    free = simulate(table, traffic, find_policy("sushi:mode=accuracy,q=2"))
    assert (free.variant // 2).tolist() == [0, 0, 1, 1, 2, 2]
    assert np.diff(free.finish_s, prepend=0.0).tolist() == [1.0, 1.0, 3.0, 3.0, 2.0, 2.0]
    charged = simulate(table, traffic, find_policy("sushi:mode=accuracy,q=2,refill=charged"))
    assert np.diff(charged.finish_s, prepend=0.0).tolist() == [1.0, 1.0, 3.0 + 1 / 64, 3.0, 2.0 + 2 / 64, 2.0]
    assert charged.overhead_s == 3 / 64


@pytest.mark.parametrize(
    ("spec", "change", "expected"),
    [
        ("sushi:graph=3", {}, "graph: expected at most 2, the last of the table, found 3"),
        ("sushi:subnet=2", {}, "subnet: expected at most 1, the last of the table, found 2"),
        (
            "sushi", {"subnets": "unknown"},
            ("latency table: expected the accuracy of every SubNet, by which sushi chooses, found none of s0 and 1 "
            "more; state it, or serve one SubNet with sushi:subnet=N"),
        ),
        (
            "sushi:mode=accuracy", {},
            ("trace: expected the column min_accuracy, which mode=accuracy keeps to, found none; "
            "draw it (min_accuracy)"),
        ),
        (
            "sushi:mode=accuracy", {"subnets": None, "states": None, "reuse": None},
            "latency table: expected SubNets for mode=accuracy to choose from, found none",
        ),
        (
            "sushi:distance=l2", {"reuse": None},
            ("latency table: expected the vectors of SubNets and states, by which sushi chooses what to keep, found "
            "none; use sushi:distance=latency"),
        ),
        (
            "sushi:distance=latency,refill=charged", {"reuse": None},
            "latency table: expected the times of refills, found none; use sushi:refill=free",
        ),
    ],
)  # fmt: skip
def test_what_it_cannot_serve_is_refused_in_a_line(spec, change, expected):
    table = supernet_table([[1.0, 0.5, 0.5]] * 2, [0.5, 1.0], [[1], [2]], [[0], [1], [2]])
    if change.get("subnets") == "unknown":
        assert table.subnets is not None
        change = {"subnets": [net.model_copy(update={"accuracy": None}) for net in table.subnets]}
    elif "subnets" in change:
        assert table.stage_s is not None
        change = change | {"stage_s": table.stage_s[:1]}
    with pytest.raises(InputError) as refused:
        simulate(table.model_copy(update=change), traffic_of(trace_of([0.0]), np.array([1]), 9.0), find_policy(spec))
    assert list(refused.value.faults) == [f"policy {spec}: {expected}"]


@pytest.mark.parametrize("asked", [np.nan, -0.25, 1.5])
def test_a_constraint_that_is_no_accuracy_is_refused_with_its_row(asked):
    table = supernet_table([[1.0]], [0.5], [[1]], [[0]])
    traffic = traffic_with([0.0] * 3, [9.0] * 3, [0.5, asked, asked])
    with pytest.raises(InputError) as refused:
        simulate(table, traffic, find_policy("serial"))
    assert list(refused.value.faults) == [
        f"trace: row 2: min_accuracy: expected an accuracy from 0 to 1, found {asked:g} (and 1 more row)"
    ]


WHOLE = "a whole number >= "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("q=0", f"{WHOLE}1, found"), ("q=1.5", f"{WHOLE}1, found"), ("q=two", f"{WHOLE}1, found"),
        ("graph=-1", f"follow or clairvoyant or {WHOLE}0"), ("graph=best", f"follow or clairvoyant or {WHOLE}0"),
        ("subnet=-2", f"any or {WHOLE}0"), ("mode=fast", "accuracy"),
    ],
)  # fmt: skip
def test_parameters_out_of_range_are_refused(text, expected):
    with pytest.raises(InputError, match=f"policy: {text.partition('=')[0]}: expected {expected}"):
        find_policy(f"sushi:{text}")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"refill_s": [0.0]}, "reuse: refill_s: expected 2 values, one for each state, found 1"),
        ({"overlap": [[1.0]]}, "reuse: overlap: expected a list for each of 2 states, of 1 SubNets"),
        ({"content": None}, "reuse: expected overlap and content, or neither"),
        ({"joules_per_byte": 1e-9}, "reuse: expected off_chip_bytes beside joules_per_byte, found none"),
    ],
)
def test_what_the_states_keep_must_fit_the_table(change, expected):
    with pytest.raises(InputError, match=expected):
        supernet_table([[1.0, 0.5]], [0.5], [[1]], [[0], [1]], **change)


@pytest.mark.parametrize(
    ("mode", "times_s", "accuracies"), [("accuracy", (1.0, 1.0), (0.5, 0.75)), ("latency", (2.0, 1.0), (0.5, 0.5))]
)
def test_of_equally_fast_subnets_the_more_accurate_and_of_equally_accurate_ones_the_faster(mode, times_s, accuracies):
    table = supernet_table([[time_s] for time_s in times_s], list(accuracies), [[1], [1]], [[0]])
    replay = simulate(table, traffic_with([0.0], [9.0], [0.25]), find_policy(f"sushi:mode={mode}"))
    assert replay.subnet.tolist() == [1]
