"""BatchCond at run time: every request as plain loops serve it, what holds for any trace, and what is refused.

Bound (``docs/policies.md``): at most 2 floor(q/B) + 1 + (p + 1) floor(k/B) other batches are launched between the
arrival of r and its launch.

Proof.

1. Until r is in the window, all that is launched arrived before r: at most floor(q/B) batches of B. A smaller batch
   is launched only when the rest of a window goes first, which empties the window. If r is not in the next window
   either, that one has k >= B requests, and a batch of B follows. So there are at most floor(q/B) + 1 smaller
   batches.
2. Once r is in the window, at most floor(k/B) batches of B are launched after each filling. The window is filled at
   most p + 1 times with r in it; then the rest goes first, with r.

So r waits at most for the timeout, the rest of the batch that runs when it arrives, and these batches. If no larger
batch and no larger width takes less time, none takes longer than a padded batch of B at the largest width, with the
predictor's time for B; or, if requests run more steps than predicted, this multiplied by the number of its
sub-batches.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import naive_batchcond_serving as naive
import numpy as np
import pytest
from builders import (
    by_stage,
    repeating,
    scheduler_named,
    table_of,
    ticks,
    trace_of,
    traffic_of,
    with_variants,
    workloads,
)
from fluidb.dse.device.tabulate import tabulate_device
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import load_platform
from fluidb.platforms.by_stage import StagedDevice
from fluidb.serving import POLICIES, find_policy, simulate, summarise
from fluidb.tables.latency import LatencyTable
from fluidb.traffic import prepare
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_serving import Outcome

WIDTHS = [8.0, 4.0, 2.0]


def machine_of(table: LatencyTable) -> naive.Machine:
    """A latency table for the plain loops."""
    time_s, gather_s = table.segments(by_layer=False).time_s.tolist(), table.gather_array().tolist()
    widths, last = table.widths or [1.0], len(table.exits)
    return naive.Machine(
        lambda width, stage, batch: time_s[widths.index(width)][min(stage, last) - 1][batch],
        lambda stage, batch: gather_s[stage][batch],
        widths,
        table.places,
        table.b_max,
    )


@st.composite
def tables(draw, widths: bool = True) -> LatencyTable:
    """Times without any order, or larger for larger batches and widths; some steps; gathers that may be worth it."""
    count, stages, b_max = draw(st.integers(1, 3)) if widths else 1, draw(st.integers(1, 3)), draw(st.integers(1, 5))
    plain = by_stage([[1.0] * b_max] * stages)
    times_s: list[list[list[float]]] = []
    ordered = draw(st.booleans())
    for variant in range(count):
        stage_s = np.array([draw(st.lists(ticks(1, 200), min_size=b_max, max_size=b_max)) for _ in range(stages)])
        if ordered:
            stage_s = stage_s.cumsum(axis=1) * 0.25**variant
        times_s.append(stage_s.tolist())
    gathers = st.lists(ticks(0, 40), min_size=b_max, max_size=b_max).map(lambda row: [0.0, *row])
    last = plain.exits[-1].model_copy(update={"steps": draw(st.integers(1, 3))})
    axes: dict[str, Any] = {
        "exits": [*plain.exits[:-1], last],
        "gather_s": draw(st.lists(gathers, min_size=stages, max_size=stages)),
        "widths": WIDTHS[:count] if count > 1 else None,
        "stage_s": times_s,
    }
    return LatencyTable(**{**dict(plain), **axes})


@st.composite
def cases(draw, widths: bool = True):
    """A table, traffic with predictions that may lie, options, and their text."""
    table = draw(tables(widths))
    gaps = draw(st.lists(st.one_of(st.just(0.0), ticks(0, 300)), min_size=1, max_size=24))
    count, last = len(gaps), len(table.exits)
    exits = np.array(draw(st.lists(st.integers(1, last), min_size=count, max_size=count)))

    def some(numbers: st.SearchStrategy[int]) -> np.ndarray:
        return np.array(draw(st.lists(numbers, min_size=count, max_size=count)))

    steps = some(st.integers(1, table.exits[-1].steps))
    width, depth = some(st.integers(1, int(table.widths[0]) if table.widths else 8)), some(st.integers(-1, 5))
    trace = replace(
        trace_of(np.cumsum(gaps)), steps=steps, width=width.astype(float), predicted_depth=depth.astype(float)
    )
    if draw(st.booleans()):
        trace = replace(trace, predicted_width=some(st.integers(1, 9)).astype(float))
    similar = draw(st.sampled_from(["off", "depth", "width"]))
    reorganise = draw(st.sampled_from(["depth", "both", *(["optimal", "width"] if table.widths else []), "off"]))
    words = {
        "similar": similar,
        "reorganise": reorganise,
        "window": draw(st.sampled_from([table.b_max, table.b_max + 2, 2 * table.b_max, math.inf])),
        "patience": draw(st.sampled_from([0, 1, 3, math.inf])),
        "lookahead": draw(st.sampled_from([1, 2, math.inf])) if reorganise not in ("width", "off") else 1,
        "predictor": draw(ticks(0, 4)) if similar != "off" else 0.0,
        "timeout": draw(ticks(0, 200)),
    }
    return table, traffic_of(trace, exits, 100.0), words


def spec_of(words: dict[str, Any]) -> str:
    times = {key: f"{words[key]}s" if words[key] else "0" for key in ("predictor", "timeout")}
    texts = {**words, **times}
    return "batchcond:" + ",".join(f"{key}={value}" for key, value in texts.items())


def expected(table: LatencyTable, traffic, words: dict[str, Any]) -> Outcome:
    """What the plain loops do."""
    trace, last, steps = traffic.trace, len(table.exits), table.exits[-1].steps
    leaves_after = np.where(traffic.exits == last, last - 1 + trace.steps, traffic.exits)
    predicted = np.where(trace.predicted_depth > 0, np.minimum(trace.predicted_depth, steps), steps)
    widths = trace.width if trace.predicted_width is None else trace.predicted_width
    keys = {"off": None, "depth": trace.predicted_depth, "width": widths}[words["similar"]]
    options = naive.Options(
        keys, words["window"], words["patience"], words["reorganise"], int(min(words["lookahead"], 99)),
        words["predictor"], words["timeout"],
    )  # fmt: skip
    wanted = trace.width if table.widths else np.ones(len(trace))
    return naive.batchcond(
        trace.arrival_s.tolist(), leaves_after.tolist(), (last - 1 + predicted).astype(int).tolist(), wanted.tolist(),
        machine_of(table), options,
    )  # fmt: skip


@settings(max_examples=60)
@given(cases())
def test_every_request_as_in_plain_loops(case):
    table, traffic, words = case
    found, plain = simulate(table, traffic, find_policy(spec_of(words))), expected(table, traffic, words)
    assert found.start_s.tolist() == plain.start_s
    assert found.finish_s.tolist() == plain.finish_s


@settings(max_examples=60)
@given(workloads(), st.data(), st.integers(0, 4), st.sampled_from([0, 1, 3]))
def test_fluid_lets_alike_requests_in_together(workload, data, more, patience):
    """Algorithm 1 of Fluid Batching with a window, as in plain loops."""
    table, trace, exits = workload
    predicted = data.draw(st.lists(st.integers(0, 4), min_size=len(trace), max_size=len(trace)))
    traffic = traffic_of(replace(trace, predicted_depth=np.array(predicted, dtype=float)), exits)
    spec = f"fluid:similar=depth,window={table.b_max + more},patience={patience}"
    replay = simulate(table, traffic, find_policy(spec))
    options = naive.Options(predicted, table.b_max + more, patience)
    plain = naive.fluid(
        trace.arrival_s.tolist(), exits.tolist(), trace.slo_s.tolist(), table.array().tolist(), table.b_max, options
    )
    assert replay.start_s.tolist() == plain.start_s
    assert replay.finish_s.tolist() == plain.finish_s
    assert replay.preempted.tolist() == plain.preempted
    assert replay.preemptions == plain.preemptions


def test_a_batch_of_several_widths_is_cut_where_that_is_faster():
    """Time by width and samples: padded, four take 32 s.  Two wide and two narrow ones take 16 s and 4 s, and 1 s each
    to be gathered; the best cut is the same.  With gathers of 8 s the batch is padded."""
    for gather_s, reorganise, finish_s in (
        (1.0, "both", [17.0, 22.0, 17.0, 22.0]),
        (1.0, "optimal", [17.0, 22.0, 17.0, 22.0]),
        (1.0, "depth", [32.0] * 4),
        (8.0, "width", [32.0] * 4),
    ):
        axes = {"widths": [8.0, 4.0, 2.0], "gather_s": [[0.0, *[gather_s] * 4]]}
        table = with_variants([[8.0, 16.0, 24.0, 32.0]], **axes)
        trace = replace(trace_of([0.0] * 4), width=np.array([8.0, 2.0, 5.0, 1.0]))
        replay = simulate(
            table, traffic_of(trace, np.ones(4, int), 100.0), find_policy(f"batchcond:reorganise={reorganise}")
        )
        assert replay.finish_s.tolist() == finish_s
        assert replay.overhead_s == (2 * gather_s if finish_s[0] < 32 else 0)


# what is predicted changes times, and nothing else


@settings(max_examples=30)
@given(cases(), st.sampled_from([0.0, -1.0]))
def test_predictions_that_lie_change_times_only(case, sign):
    """Constant or turned round: everybody is served once, from the same exit, and as many stages run."""
    table, traffic, words = case
    words = {**words, "similar": "depth", "patience": 1}
    lying = replace(traffic, trace=replace(traffic.trace, predicted_depth=sign * traffic.trace.predicted_depth))
    for told in (traffic, lying):
        replay = simulate(table, told, find_policy(spec_of(words)), record=True)
        assert np.all(np.isfinite(replay.finish_s))
        assert replay.runs is not None
        served = np.bincount(replay.runs.members, minlength=len(told))
        last = len(table.exits)
        assert served.tolist() == np.where(told.exits == last, last - 1 + told.trace.steps, told.exits).tolist()


@pytest.mark.parametrize("similar", ["depth", "width"])
@pytest.mark.parametrize("count", [1, 3, 4, 9, 11])
def test_fewer_requests_than_a_batch_and_batches_that_do_not_divide_them(count, similar):
    """Everybody waits: batches of four, and one of those that are left."""
    table = table_of([[1.0, 1.25, 1.5, 1.75]])
    trace = replace(trace_of([0.0] * count), predicted_depth=np.arange(count)[::-1], predicted_width=np.arange(count))
    replay = simulate(table, traffic_of(trace, np.ones(count, int), 100.0), find_policy(f"batchcond:similar={similar}"))
    full, rest = divmod(count, 4)
    assert replay.launches[0, 0, 1:].tolist() == [full * (size == 4) + (size == rest) for size in range(1, 5)]
    order = np.argsort(replay.finish_s, kind="stable")
    assert {*order[:4]} == ({*range(count)[-4:]} if similar == "depth" else {*range(count)[:4]})


# how long anybody waits (docs/policies.md)


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 6), min_size=20, max_size=60),
    st.integers(0, 3),
    st.integers(1, 4),
    st.integers(0, 6),
    st.sampled_from([0.0, 1.5]),
    st.booleans(),
)
def test_nobody_waits_longer_than_the_bound(gaps, patience, b_max, more, timeout_s, oldest_last):
    """Batches of a second; the prediction says that whoever came first is served last, or is drawn."""
    window, table = b_max + more, table_of([[1.0] * b_max])
    arrival_s = np.cumsum(gaps) / 4
    predicted = -np.arange(len(gaps)) if oldest_last else np.random.default_rng(len(gaps)).permutation(len(gaps))
    trace = replace(trace_of(arrival_s), predicted_depth=predicted.astype(float))
    traffic = traffic_of(trace, np.ones(len(gaps), int), 100.0)
    words = f"similar=depth,window={window},patience={patience}" + (f",timeout={timeout_s}s" if timeout_s else "")
    replay = simulate(table, traffic, find_policy(f"batchcond:{words}"))
    begins = np.unique(replay.start_s)
    for request, (arrived_s, start_s) in enumerate(zip(arrival_s, replay.start_s, strict=True)):
        ahead = int((replay.start_s[:request] >= arrived_s).sum())
        before = int(((begins >= arrived_s) & (begins < start_s)).sum())
        batches = 2 * (ahead // b_max) + (patience + 1) * (window // b_max) + 1
        assert before <= batches
        assert start_s - arrived_s <= timeout_s + (1 + batches) * 1.0


def test_without_patience_a_request_may_starve():
    """Two at a time, one more each time: whoever is said to be last stays behind while others come."""
    count, table = 40, table_of([[1.0, 1.0]])
    arrival_s = np.concatenate([[0.0, 0.0, 0.0], np.repeat(np.arange(0.5, 19), 2)])[:count]
    predicted = np.where(np.arange(count) == 2, 9.0, 1.0)
    traffic = traffic_of(replace(trace_of(arrival_s), predicted_depth=predicted), np.ones(count, int), 100.0)
    waits = [
        simulate(table, traffic, find_policy(f"batchcond:similar=depth,window=8,patience={patience}")).start_s[2]
        for patience in ("0", "2", "inf")
    ]
    assert waits == [1.0, 3.0, 19.0]


# the page that says how to read the paper, section 5


def test_without_noise_and_gathers_the_time_is_that_of_the_needed_work():
    """Time by samples only: all exits together. With a floor: of each stage of each batch the larger of the two."""
    rng = np.random.default_rng(2)
    exits, b_max, stages = rng.integers(1, 6, 100), 8, 5
    trace = replace(trace_of([0.0] * 100), predicted_depth=exits.astype(float))
    for floor in (0, 4):
        stage = [float(max(floor, b)) for b in range(1, b_max + 1)]
        spec = "batchcond:similar=depth,reorganise=depth,window=inf"
        replay = simulate(table_of([stage] * stages), traffic_of(trace, exits, 1e6), find_policy(spec))
        batches = np.split(np.sort(exits), range(b_max, 100, b_max))
        staying = [int((batch > stage).sum()) for batch in batches for stage in range(stages)]
        assert replay.end_s == sum(max(floor, count) if count else 0 for count in staying)
        assert floor or replay.end_s == exits.sum()


def test_a_window_of_one_batch_gains_nothing():
    rng = np.random.default_rng(3)
    table, count = table_of([[1.0, 1.25, 1.5, 2.0]] * 3), 200
    trace = replace(trace_of([0.0] * count), predicted_depth=rng.permutation(count).astype(float))
    traffic = traffic_of(trace, rng.integers(1, 4, count), 1e6)
    alike, random, more = (
        simulate(table, traffic, find_policy(f"batchcond:{words}"))
        for words in ("similar=depth,window=4", "similar=off", "similar=depth,window=5")
    )
    assert alike.finish_s.tolist() == random.finish_s.tolist()
    assert more.finish_s.tolist() != random.finish_s.tolist()


def test_a_window_of_512_is_as_good_as_all():
    """Ten thousand waiting images on the device that brings the paper's figures out; predictions correlate by 0.71."""
    network = load_network("ee_resnet34")
    table, rng = (
        tabulate_device(network, load_platform("rtx-2080-ti-ee-resnet34", kind=StagedDevice)),
        np.random.default_rng(4),
    )
    traffic = prepare(trace_of([0.0] * 10_000), [exit_.rate for exit_ in table.exits], slo_s=1e6, seed=1)
    noise = rng.normal(0, traffic.exits.std() * math.sqrt(1 / 0.71**2 - 1), len(traffic))
    traffic = replace(traffic, trace=replace(traffic.trace, predicted_depth=np.round(traffic.exits + noise)))
    random, some, everybody = (
        simulate(table, traffic, find_policy(f"batchcond:similar={words}")).end_s
        for words in ("off", "depth,window=512", "depth,window=inf")
    )
    assert random / some >= 0.95 * random / everybody
    assert everybody < random


def test_equation_1_may_look_ahead():
    """A gather of 1.5 s is not worth the second saved in the next stage, but the two seconds of the next two."""
    table = table_of([[1.0, 2.0]] * 3).model_copy(update={"gather_s": [[0.0, 1.5, 1.5]] * 3})
    traffic = traffic_of(trace_of([0.0, 0.0]), np.array([1, 3]), 100.0)
    ends = [
        simulate(table, traffic, find_policy(f"batchcond:lookahead={stages}")).end_s for stages in ("1", "2", "inf")
    ]
    assert ends == [6.0, 5.5, 5.5]


# sequence to sequence


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_serves_requests_of_several_widths_with_steps_of_their_own(policy):
    """One trace, one table: an encoder by width, a decoder whose step repeats; each step runs once for each request."""
    rng, count = np.random.default_rng(5), 60
    plain = with_variants(
        [[1.0, 1.25, 1.5], [0.5, 0.5, 0.75]], widths=[8.0, 4.0, 2.0], gather_s=[[0.0] + [0.0625] * 3] * 2
    )
    last = plain.exits[-1].model_copy(update={"steps": 6})
    table = plain.model_copy(update={"exits": [*plain.exits[:-1], last]})
    steps, width = rng.integers(1, 7, count), rng.integers(1, 9, count).astype(float)
    trace = trace_of(np.cumsum(rng.exponential(1.0, count)), 60.0)
    trace = replace(trace, steps=steps, width=width, predicted_depth=steps.astype(float))
    replay = simulate(
        table,
        traffic_of(trace, np.full(count, 2)),
        scheduler_named(policy),
        record=True,
    )
    assert replay.runs is not None
    assert np.bincount(replay.runs.members).tolist() == (1 + steps).tolist()
    ran = np.array(table.widths)[replay.variant]
    assert np.all(width <= ran)
    assert policy != "serial" or np.all((width > ran / 2) | (ran == 2))
    assert summarise(replay).unfinished == 0


def test_fluid_and_lazy_expect_the_predicted_steps_and_else_the_longest_rest():
    """The second comes at the first step; to wait for ten steps of the first would violate, two of them would not."""
    table, steps = repeating([[1.0, 1.0], [1.0, 1.0]], 10), np.array([2, 2])
    for policy in ("fluid", "lazy"):
        for predicted, together in ((2.0, True), (0.0, False)):
            trace = replace(trace_of([0.0, 0.5], [9.0, 9.0]), steps=steps, predicted_depth=np.full(2, predicted))
            replay = simulate(table, traffic_of(trace, np.array([2, 2])), find_policy(policy))
            assert (replay.preemptions > 0) == together


# what is refused


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("similar=depth,window=2", "window: expected at least 3, the largest batch, found 2"),
        (
            "similar=depth",
            "similar=depth: expected a trace with predicted_depth, found none; draw it (predict_depth), e.g. 0.7",
        ),
        (
            "similar=width",
            "similar=width: expected a trace with predicted_width or width, found neither; draw one: `trace add`",
        ),
        (
            "predictor=5us",
            "predictor: expected similar=depth or similar=width, which use predictions, found similar=off",
        ),
        (
            "reorganise=off,lookahead=2",
            "lookahead: expected reorganise=depth, both or optimal, which split at exits, found reorganise=off",
        ),
        ("reorganise=width", "reorganise=width: expected a latency table with widths, found none"),
        ("reorganise=optimal", "reorganise=optimal: expected a latency table with widths, found none"),
    ],
)
def test_parameters_that_do_not_fit_are_one_clear_line(words, fault):
    predicted = None if "window" not in words else np.zeros(2)
    traffic = traffic_of(replace(trace_of([0.0, 0.0]), predicted_depth=predicted), np.ones(2, int), 1.0)
    with pytest.raises(InputError) as refused:
        simulate(table_of([[1.0, 1.0, 1.0]]), traffic, find_policy(f"batchcond:{words}"))
    assert list(refused.value.faults) == [f"policy batchcond:{words}: {fault}"]


@pytest.mark.parametrize(("name", "least"), [("window", 1), ("patience", 0), ("lookahead", 1)])
def test_counts_are_whole_numbers_or_infinite(name, least):
    assert find_policy(f"batchcond:{name}=inf").spec == f"batchcond:{name}=inf"
    with pytest.raises(InputError, match=f'{name}: expected a whole number >= {least} or inf, found "1.5"'):
        find_policy(f"batchcond:{name}=1.5")


def test_predictions_of_steps_need_steps():
    """Predictions of exits would be read as predictions of steps."""
    table = repeating([[1.0], [1.0]], 3)
    trace = replace(trace_of([0.0]), predicted_depth=np.ones(1))
    fault = "predicted_depth: expected a trace with steps, which it predicts where the last stage repeats, found none"
    with pytest.raises(InputError, match=fault):
        simulate(table, traffic_of(trace, np.array([2]), 1.0), find_policy("fluid"))


def test_the_oldest_of_a_window_ends_the_timeout_though_it_is_not_the_first():
    """Three shallow requests go first; of the two that are left the deeper one, behind in the window, came earlier."""
    arrivals, depths = [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0, 3.0], [1.0, 1.0, 1.0, 5.0, 4.0, 1.0, 1.0, 1.0]
    trace = replace(trace_of(arrivals), predicted_depth=np.array(depths))
    traffic = traffic_of(trace, np.ones(8, dtype=int), 100.0)
    replay = simulate(table_of([[4.0] * 3]), traffic, find_policy("batchcond:similar=depth,window=8,timeout=9s"))
    assert replay.start_s.tolist() == [0.0, 0.0, 0.0, 10.0, 10.0, 4.0, 4.0, 4.0]
