"""The schedule of a partition: every rule that it must keep, image by image, and what the event loop makes of it."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from builders import Run, everybody, lines, trace_of
from fluidb.dse.partition.schedule import (
    Schedule,
    _Calendar,
    alone,
    busy_s,
    pipelined_table,
    pipelining,
    schedule,
    steps_of,
)
from fluidb.formats import InputError
from fluidb.models import Exit
from fluidb.platforms import Cluster
from fluidb.platforms.cluster import ClusterDevice, Link, Uplink
from fluidb.serving import POLICIES, find_policy, simulate, summarise
from fluidb.tables.latency import LatencyTable
from fluidb.tables.partition import BlockRows, LayerRows, PartitionOptions, PartitionTable, RowRange, WholeStep
from fluidb.traffic import prepare
from hypothesis import given, settings
from hypothesis import strategies as st


def partition_of(blocks, wholes=None, rates=(1.0,), *, uplink: bool = False) -> PartitionTable:
    """A partition of blocks, each a stage with (transfer, compute) of every device, and (gather, compute) behind."""
    count, stages = len(blocks[0][1]), len(rates)
    names = [f"d{k}" for k in range(count)]
    cluster = Cluster(
        name="c", title="c", owner="d0",
        devices=[ClusterDevice(name=name, gflop_s=1.0, memory_gb=1.0) for name in names],
        links=[] if uplink else [Link(device=name, mbit_s=8.0) for name in names],
        uplink=Uplink(mbit_s=8.0) if uplink else None,
    )  # fmt: skip
    found = []
    for number, (stage, times) in enumerate(blocks):
        bounds = [RowRange(k, k + 1) for k in range(count)]
        transfer_s, compute_s = ([float(pair[i]) for pair in times] for i in (0, 1))
        found.append(
            BlockRows(
                stage=stage, in_branch=False, source="input", source_height=count,
                layers=[LayerRows(name=f"b{number}", height=count, rows=bounds)], held=bounds, needed=bounds,
                missing_rows=[0] * count, link_bytes=[1e6 * time_s for time_s in transfer_s], compute_s=compute_s,
                transfer_s=transfer_s, time_s=max(a + b for a, b in times),
            )
        )  # fmt: skip
    ends = [
        WholeStep(stage=n, in_branch=n < stages, device=names[-1], layers=[f"fc{n}"], gather_s=gather,
                  compute_s=compute, sent_bytes=[1.0] * (count - 1) + [0.0])
        for n, (gather, compute) in enumerate(wholes or [(0.0, 0.0)] * stages, 1)
    ]  # fmt: skip
    exits = [Exit(name=f"e{n}", rate=rate) for n, rate in enumerate(rates, 1)]
    return PartitionTable(
        network="n", exits=exits, cluster=cluster, options=PartitionOptions(), devices=names, blocks=found, wholes=ends
    )


def test_one_block_by_hand():
    """Two devices receive for 1 s and compute for 3 s: the next image is received meanwhile."""
    pipeline = pipelining(partition_of([(1, [(1, 3), (1, 3)])]))
    assert pipeline.busy_s == {"d0 link": 1, "d0 processor": 3, "d1 link": 1, "d1 processor": 3}
    assert [(choice.interval_s, choice.latency_s, choice.in_flight) for choice in pipeline.choices] == [
        (3, 4, 2),
        (4, 4, 1),
    ]
    assert pipeline.gain(pipeline.choices[0]) == pipeline.most_gain == pytest.approx(4 / 3)


def test_an_uplink_is_one_link():
    """Both devices take the uplink for the same 2 s, and compute for 1 s."""
    pipeline = pipelining(partition_of([(1, [(2, 1), (2, 1)])], uplink=True))
    assert pipeline.busy_s == {"uplink": 2, "d0 processor": 1, "d1 processor": 1}
    assert [task.resource for task in pipeline.choices[0].tasks] == ["uplink", "d0 processor", "d1 processor"]
    assert pipeline.choices[0].interval_s == 2


def test_a_cluster_that_is_never_idle_gains_nothing():
    table = partition_of([(1, [(0, 3), (0, 3)]), (1, [(0, 2), (0, 2)])])
    assert [choice.interval_s for choice in pipelining(table).choices] == [5]
    with pytest.raises(InputError, match="n on c: expected a schedule with images side by side, found one that begins"):
        pipelined_table(table, alone(table))


seconds = st.integers(0, 8).map(lambda n: n / 4)


@st.composite
def partitions(draw):
    count, stages = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    device = st.tuples(seconds, seconds.map(lambda time_s: time_s + 0.25))
    devices = st.lists(device, min_size=count, max_size=count)
    blocks = [(stage, draw(devices)) for stage in range(1, stages + 1) for _ in range(draw(st.integers(1, 3)))]
    wholes = [draw(st.tuples(seconds, seconds)) for _ in range(stages)]
    return partition_of(blocks, wholes, [0.25] * (stages - 1) + [1 - 0.25 * (stages - 1)], uplink=draw(st.booleans()))


@settings(max_examples=40)
@given(partitions())
def test_schedules_keep_every_rule(table):
    """Images in a row: no link and no processor does two things, and steps wait for all devices of the one before."""
    pipeline = pipelining(table)
    one = pipeline.choices[-1]
    if table.cluster.uplink is None:
        np.testing.assert_allclose(one.exit_s, table.exit_s)
    bound = max(pipeline.busy_s.values())
    assert [choice.interval_s for choice in pipeline.choices] == sorted(
        choice.interval_s for choice in pipeline.choices
    )
    latencies = [choice.latency_s for choice in pipeline.choices]
    assert all(a > b for a, b in itertools.pairwise(latencies[:-1]))
    assert latencies[-1] == min(latencies) == pytest.approx(one.interval_s)
    names = [step.name for step in steps_of(table)]
    for choice in pipeline.choices:
        assert choice.interval_s >= bound * (1 - 1e-9)
        ends: dict[str, float] = {}
        for task in choice.tasks:
            place = names.index(task.step)
            before = [task.end_s for task in choice.tasks if task.step in names[:place]]
            assert task.begin_s >= max(before, default=0.0) - 1e-9
            own = f"{task.resource.removesuffix(' processor')} link" if table.cluster.uplink is None else "uplink"
            if task.resource.endswith("processor"):
                assert task.begin_s >= ends.get(f"{task.step} {own}", 0.0) - 1e-9
            ends[f"{task.step} {task.resource}"] = task.end_s
        for resource in pipeline.busy_s:
            taken = sorted(
                (task.begin_s + image * choice.interval_s, task.end_s + image * choice.interval_s)
                for image in range(choice.in_flight + 3)
                for task in choice.tasks
                if task.resource == resource
            )
            assert sum(end - begin for begin, end in taken) == pytest.approx(
                (choice.in_flight + 3) * pipeline.busy_s[resource], abs=1e-9
            )
            for (_, end), (begin, _) in itertools.pairwise(taken):
                assert begin >= end - 1e-6
    assert schedule(table, 0.9 * bound) is None


def test_the_slowest_device_of_a_block_and_every_gather_communicate():
    """The first device, which takes 4 s, receives for 1 s; then the map is gathered in 0.5 s."""
    table = partition_of([(1, [(1, 3), (2, 1)])], [(0.5, 1)])
    assert (table.communication_s, table.communication_bytes) == (1.5, 3e6 + 1)


def test_an_image_that_ends_with_an_interval_is_not_in_the_next_one():
    assert 0.1 + 0.2 > 0.3  # by rounding
    assert Schedule(0.1, 0.1, [0.1 + 0.2], []).in_flight == 3


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=6))
def test_a_task_takes_the_earliest_time_that_is_free(interval, tasks):
    """Against a list of the moments that are taken, in whole numbers."""
    calendar = _Calendar(interval)
    taken: set[int] = set()
    for ready, time in tasks:
        found = calendar.place(ready, time)
        begins = [at for at in range(ready, ready + interval) if time <= interval]
        free = [at for at in begins if not taken & {(at + i) % interval for i in range(time)}]
        assert found == (free[0] if free else None)
        taken |= {(free[0] + i) % interval for i in range(time)} if free else set()


def test_busy_on_average_counts_those_that_get_there():
    table = partition_of([(1, [(1, 4)]), (2, [(1, 8)])], rates=(0.75, 0.25))
    assert busy_s(table) == {"d0 link": 2, "d0 processor": 12}
    assert busy_s(table, to_end=False) == {"d0 link": 1.25, "d0 processor": 6}
    pipeline = pipelining(table)
    assert pipeline.average_s == 0.75 * 5 + 0.25 * 14
    assert pipeline.most_gain == pipeline.average_s / 6
    one = pipeline.choices[-1]
    assert (one.interval_s, one.mean_interval_s, pipeline.gain(one)) == (14, pipeline.average_s, 1)
    assert all(choice.interval_s < pipeline.average_s for choice in pipeline.choices[:-1])


TABLE = partition_of([(1, [(2, 3), (2, 2)]), (1, [(1, 1), (1, 1)])], [(1, 1)])


def test_the_event_loop_finishes_an_image_in_an_interval():
    """All images wait at time 0: the lanes of the table together are as fast as the schedule, not more."""
    pipeline = pipelining(TABLE)
    for choice in pipeline.choices[:-1]:
        latency = pipelined_table(TABLE, choice)
        assert latency.array()[0, 1, 1] == choice.latency_s
        count = 60 * latency.lanes
        replay = simulate(latency, everybody(count, 1), find_policy(f"serial:call=0,lanes={latency.lanes}"))
        assert replay.finish_s.max() == pytest.approx(count * choice.interval_s)
        lonely = simulate(latency, replace(everybody(1, 1)), find_policy(f"serial:call=0,lanes={latency.lanes}"))
        assert lonely.finish_s[0] == pytest.approx(choice.latency_s)
    halves = pipelined_table(TABLE, alone(TABLE), groups=2)
    assert (halves.lanes, halves.load) == (2, [0.0, 0.5])
    replay = simulate(halves, everybody(60, 1), find_policy("serial:call=0,lanes=2"))
    assert replay.finish_s.max() == pytest.approx(30 * alone(TABLE).latency_s)
    plain = LatencyTable(network="n", platform="c", exits=TABLE.exits, b_max=1, stage_s=[[[10.0]]])
    assert summarise(simulate(plain, everybody(60, 1), find_policy("serial:call=0"))).processing_rate_per_s == 0.1


@pytest.mark.parametrize("policy", [name for name, policy in POLICIES.items() if not policy.thresholds])
def test_every_policy_serves_a_partition_at_a_batch_of_one(policy):
    """No batch is larger, nobody is lost, and one image alone takes the time of its exit."""
    stage_s = [5.0, 9.0]
    latency = LatencyTable(
        network="n", platform="c", exits=[Exit(name="a", rate=0.5), Exit(name="b", rate=0.5)], b_max=1,
        stage_s=[[[time_s] for time_s in stage_s]],
    )  # fmt: skip
    arrivals = [0.0, 1.0, 2.0, 50.0, 90.0]
    exits = np.array([2, 1, 2, 1, 2])
    traffic = prepare(replace(trace_of(arrivals), exits=exits), [0.5, 0.5], slo_s=30.0)
    replay = simulate(latency, traffic, find_policy(f"{policy}:call=0"))
    assert np.isfinite(replay.finish_s).all()
    assert replay.latency_s[3:].tolist() == [5.0, 14.0]
    assert summarise(replay).mean_batch == 1
    assert replay.finish_s[:3].max() == sum(stage_s) * 2 + 5.0


def test_pipeline_through_the_command_line(fluidb: Run, tmp_path):
    done = fluidb("dse", "alexnet_cifar10", "edgesp-a", "--devices", 3, "-o", "p")
    assert done.returncode == 0, done.stderr
    record = json.loads(fluidb("pipeline", "p", "-o", "fast", "--timeline", "t.json", "--json").stdout)
    first = record["choices"][record["chosen"]]
    assert 1 < first["gain"] <= record["most_gain"] < 3
    assert first["gain"] == pytest.approx(record["average_s"] / first["interval_s"])
    events = [event for event in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if event["ph"] == "X"]
    last = max(event["ts"] + event["dur"] for event in events)
    assert last == pytest.approx(1e6 * (7 * first["interval_s"] + first["exit_s"][-1]), rel=1e-6)
    assert {event["args"]["image"] for event in events} == set(range(1, 9))
    fluidb("trace", "poisson", "--rate", 100, "--count", 400, "-o", "t.csv")
    rates = []
    for folder, lanes in (("p", 1), ("fast", record["lanes"])):
        served = fluidb("serve-sim", folder, "--trace", "t.csv", "--slo", "1s", "--policy", f"serial:lanes={lanes}",
                        "--json")  # fmt: skip
        rates.append(json.loads(served.stdout)["processing_rate_per_s"])
    assert rates[1] / rates[0] == pytest.approx(first["gain"], rel=0.03)
    slow = json.loads(fluidb("pipeline", "p", "--latency", f"{1.01 * record['alone_s']}s", "--json").stdout)
    assert slow["choices"][slow["chosen"]]["exit_s"][-1] <= 1.01 * record["alone_s"]
    assert slow["lanes"] is None
    text = fluidb("pipeline", "p").stdout
    assert f"{first['gain']:.2f} times as many" in text
    for arguments, expected in (
        (["p", "--latency", "1us"], "latency: expected at least 31.8 ms, the time of an image alone, found 0.001 ms"),
        (["p", "-o", "p"], "exists"),
        (["nowhere"], "nowhere: expected the folder of a partition"),
    ):
        assert expected in lines(fluidb("pipeline", *arguments))[0]
    assert math.isclose(record["alone_s"], record["choices"][-1]["interval_s"])
