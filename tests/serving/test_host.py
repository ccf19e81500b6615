"""The host's fixed times: the law of bottlenecks, public tables by concurrency, small cases by hand, and faults."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from builders import Run, everybody, lines, scheduler_named, table_of, trace_of, traffic_of, workloads
from fluidb.formats import InputError
from fluidb.platforms.host import Host
from fluidb.serving import POLICIES, ServedNetwork, find_policy, least_violations, parse_requirement, serve, simulate
from fluidb.serving.inputs import Requests
from fluidb.serving.metrics import summarise
from fluidb.tables.latency import LatencyTable
from fluidb.traffic import offline
from fluidb.traffic.clients import Clients
from hypothesis import given, settings
from hypothesis import strategies as st


def hosted(stage_s: list[list[float]], before_s: float, after_s: float, *, overlaps: bool = True) -> LatencyTable:
    """A table of a device with a host."""
    host = Host(before_s=before_s, after_s=after_s, overlaps=overlaps)
    return table_of(stage_s).model_copy(update={"host": host})


def by_clients(table: LatencyTable, clients: int) -> tuple[float, float]:
    """Answers a second, and latency, of clients that do not think, once they are in step."""
    traffic = Clients(clients).send(traffic_of(offline(400), np.ones(400, int), 100.0), 0)
    replay = simulate(table, traffic, "serial")
    finish_s, half = np.sort(replay.finish_s), 200
    steady = slice(half, half + 24 * (half // 48))  # whole turns of up to 8 clients
    return (steady.stop - half) / (finish_s[steady.stop] - finish_s[half]), float(replay.latency_s[steady].mean())


@pytest.mark.parametrize("clients", [1, 2, 3, 4, 6, 8])
def test_clients_get_answers_as_the_law_of_bottlenecks_says(clients: int):
    """Of fixed times the law is exact (Denning and Buzen, Computing Surveys 10, 1978), with and without overlap."""
    before_s, device_s, after_s = 0.5, 0.25, 0.125
    rate, latency_s = by_clients(hosted([[device_s]], before_s, after_s), clients)
    assert rate == pytest.approx(min(clients / (before_s + device_s + after_s), 1 / device_s))
    assert latency_s == pytest.approx(max(before_s + device_s + after_s, clients * device_s))
    rate, latency_s = by_clients(hosted([[device_s]], before_s, after_s, overlaps=False), clients)
    assert rate == pytest.approx(1 / (before_s + device_s + after_s))
    assert latency_s == pytest.approx(clients * (before_s + device_s + after_s))


CAFFE2 = [(1, 159.0, 6701), (2, 204.8, 9807), (3, 204.2, 14846), (4, 199.6, 20499)]
"""Clients, answers a second and microseconds of the 95th percentile: ResNet-50, Triton 1.14, Optimization."""

INCEPTION = [(1, 67.8, 14710), (2, 89.8, 22280), (3, 80.4, 37283), (4, 83.0, 48064)]
"""The same with the mean latency: Inception, Triton's page of its perf_analyzer."""


@pytest.mark.parametrize(("measured", "device_rate", "within"), [(CAFFE2, 204.8, 0.065), (INCEPTION, 83.0, 0.085)])
def test_two_constants_give_a_table_by_concurrency(measured, device_rate: float, within: float):
    """The device's time comes from the busiest row, and the host's is the rest of the first."""
    device_s = 1 / device_rate
    table = hosted([[device_s]], 1 / measured[0][1] - device_s, 0.0)
    for clients, rate, latency_us in measured:
        found_rate, found_s = by_clients(table, clients)
        assert found_rate == pytest.approx(rate, rel=within)
        assert found_s == pytest.approx(latency_us / 1e6, rel=within)
    alone = table.model_copy(update={"host": None})  # one client would keep the device busy
    assert by_clients(alone, 1)[0] > (1 + within) * measured[0][1]


def test_a_host_that_overlaps_is_passed_before_the_queue_and_behind_the_device():
    traffic = traffic_of(trace_of([0.0, 0.25]), np.array([1, 2]), 3.0)
    replay = simulate(hosted([[1.0], [1.0]], 0.5, 0.25), traffic, "serial", record=True)
    assert replay.start_s.tolist() == [0.5, 1.5]
    assert replay.finish_s.tolist() == [1.75, 3.75]
    assert replay.latency_s.tolist() == [1.75, 3.5]
    assert replay.violated.tolist() == [False, True]
    assert replay.runs is not None
    assert replay.runs.end_s.tolist() == [1.5, 2.5, 3.5]
    summary = summarise(replay)
    assert summary.host is not None
    assert (summary.host.time_s, summary.host.latency_share, summary.host.overlaps) == (0.75, 0.75 / 2.625, True)
    assert summary.mean_wait_s == 0.375  # for the device, not for the host
    assert summary.busy_share == 3 / 3.75


def test_a_host_that_does_not_overlap_keeps_the_device():
    """Two inputs before the batch, one output behind the first stage, and one behind the second."""
    table = hosted([[1.0, 1.0], [1.0, 1.0]], 0.5, 0.25, overlaps=False)
    replay = simulate(table, everybody(2, 2), "fluid", record=True)
    assert replay.runs is not None
    assert replay.runs.begin_s.tolist() == [1.0, 2.0]
    assert replay.finish_s.tolist() == [3.5, 3.5]
    apart = simulate(table, traffic_of(offline(2), np.array([1, 2]), 9.0), "fluid", record=True)
    assert apart.finish_s.tolist() == [2.25, 3.5]
    assert apart.runs is not None
    assert apart.runs.begin_s.tolist() == [1.0, 2.25]
    summary = summarise(apart)
    assert (summary.busy_share, summary.mean_wait_s) == (1.0, 0.0)
    assert apart.overhead_s == 1.5
    stopped = simulate(table, traffic_of(offline(2), np.array([1, 2]), 9.0), "fluid", until_s=2.125)
    assert (stopped.overhead_s, stopped.use.ran.sum()) == (1.125, 1.0)  # in the midst of the first output


def test_who_could_not_be_answered_in_time_gives_up_on_the_host_the_queue_or_the_device():
    """Deadlines, of the device so much earlier that there is time for the output; the client knows its own."""
    table, three = hosted([[1.0], [1.0]], 0.5, 0.25), trace_of([0.0, 0.0, 0.0], np.array([0.5, 1.75, 2.5]))
    replay = simulate(table, traffic_of(three, np.array([2, 2, 2])), "serial:on_deadline=drop")
    assert replay.start_s.tolist() == [math.inf, 0.5, 1.5]  # the first gives up on the host
    assert replay.gone_s.tolist() == [0.5, 1.75, 2.5]
    assert replay.finish_s.tolist() == [math.inf] * 3
    answered = simulate(table, traffic_of(trace_of([0.0], np.array([2.0])), np.array([2])), "serial:on_deadline=answer")
    assert (answered.finish_s.tolist(), answered.early.tolist(), answered.violated.tolist()) == ([2.0], [True], [False])
    refused = simulate(table, traffic_of(offline(3), np.full(3, 2), 4.75), "serial:admit=in_time")
    assert refused.finish_s.tolist() == [2.75, 4.75, math.inf]
    assert refused.gone_s.tolist() == [2.75, 4.75, 0.5]
    kept = hosted([[1.0], [1.0]], 0.5, 0.25, overlaps=False)
    refused = simulate(kept, traffic_of(offline(3), np.full(3, 2), 5.5), "serial:admit=in_time")
    assert refused.finish_s.tolist() == [2.75, 5.5, math.inf]


@settings(max_examples=60)
@given(workloads(), st.sampled_from(sorted(POLICIES)), st.booleans())
def test_no_policy_does_better_than_the_bound(workload, policy: str, overlaps: bool):
    table, trace, exits = workload
    table = table.model_copy(update={"host": Host(before_s=0.25, after_s=0.5, overlaps=overlaps)})
    replay = simulate(table, traffic_of(trace, exits), scheduler_named(policy))
    assert least_violations(replay) <= replay.violated.sum()


@pytest.mark.parametrize("overlaps", [True, False])
def test_the_bound_knows_the_host(overlaps: bool):
    """Each is in time alone; without overlap the second of two is not."""
    table = hosted([[1.0]], 0.5, 0.5, overlaps=overlaps)
    for slo_s, late in ((1.5, [2, 2]), (2.0, [1, 1]), (3.0, [0, 1])):
        replay = simulate(table, traffic_of(offline(2), np.ones(2, int), slo_s), "serial")
        assert least_violations(replay) == replay.violated.sum() == late[not overlaps]


def test_each_network_has_its_own_host_and_all_overlap_or_none():
    fast, slow = hosted([[0.25]], 0.0, 0.25), hosted([[0.25]], 1.0, 0.0)
    networks = [ServedNetwork(name="fast", table=fast), ServedNetwork(name="slow", table=slow)]
    trace = trace_of([0.0, 0.25], np.array([9.0, 9.0]))
    trace = type(trace)(trace.request_id, trace.arrival_s, slo_s=trace.slo_s, network=np.array(["slow", "fast"]))
    served = serve(networks, Requests(trace=trace), "serial")
    assert served.replay.latency_s.tolist() == [1.25, 0.5]
    assert [own.summary.host and own.summary.host.time_s for own in served.networks] == [0.25, 1.0]
    assert served.summary.host is not None
    assert served.summary.host.latency_share == 1.25 / 1.75
    other = [networks[0], ServedNetwork(name="slow", table=hosted([[1.0]], 0.5, 0.0, overlaps=False))]
    with pytest.raises(InputError, match='^network "slow": host: overlaps: expected true as for the other networks'):
        simulate(other, trace, "serial")
    with pytest.raises(InputError, match="host_share.*expected a latency table of a device whose file states its host"):
        serve(table_of([[1.0]]), Requests(trace=trace_of([0.0]), slo_s=1.0), find_policy("serial"),
              requirements=[parse_requirement("host_share <= 5 %")])  # fmt: skip


DEVICE = """schema = "fluidb.device/1"
name = "mine"
title = "Mine"
b_max = 2
floor_s = 1e-3
slope_s_per_mac = 1e-12
host = {host}
{more}
[sources]
host = "measured"
"""
FAULTS = {
    "no time": ("{ before_s = 0.0 }", "", "host: expected before_s or after_s above 0, found none"),
    "less than none": ("{ after_s = -1.0 }", "", "host.after_s: expected at least 0"),
    "another key": ("{ befor_s = 1.0 }", "", "host.befor_s"),
    "several lanes": (
        "{ before_s = 1e-3, overlaps = false }", "lanes = 2\nload_full = 0.5",
        "host: overlaps: expected true where 2 batches may run at the same time",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", FAULTS)
def test_a_fault_is_one_line(row: str, tmp_path: Path, fluidb: Run):
    host, more, said = FAULTS[row]
    (tmp_path / "mine.toml").write_text(DEVICE.format(host=host, more=more))
    (line,) = lines(fluidb("latency", "mobilenet_v1", "mine.toml", "-o", "d"))
    assert "mine.toml" in line
    assert said in line


def test_a_device_and_a_board_state_their_host(tmp_path: Path, fluidb: Run):
    (tmp_path / "mine.toml").write_text(DEVICE.format(host="{ before_s = 3e-3, after_s = 0.5e-3 }", more=""))
    fluidb("latency", "mobilenet_v1", "mine.toml", "-o", "d")
    printed = fluidb("serve-sim", "d", "--clients", "1", "--count", "500", "--slo", "1s", "--policy", "serial").stdout
    assert "host             3.5 ms of each answer, " in printed
    record = json.loads(fluidb(
        "serve-sim", "d", "--clients", "1", "--count", "500", "--slo", "1s", "--policy", "serial", "--require",
        "host_share <= 90 %", "--json"
    ).stdout)  # fmt: skip
    assert record["host"] == {
        "time_s": pytest.approx(0.0035),
        "latency_share": pytest.approx(0.0035 / record["mean_latency_s"]),
        "overlaps": True,
    }
    data = Path(__file__).parent.parent / "data"
    board = (data / "pocket.toml").read_text() + "host = { after_s = 1e-3, overlaps = false }\n"
    (tmp_path / "pocket.toml").write_text(board)
    fluidb("dse", data / "tiny.toml", "pocket.toml", "-o", "n")
    fluidb("latency", "n")
    assert json.loads((tmp_path / "n" / "latency.json").read_text())["host"]["after_s"] == 1e-3
