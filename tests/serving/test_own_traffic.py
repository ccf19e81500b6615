"""Networks with traffic of their own in one run: against queueing theory and DISB's workload, and their faults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import COMPILED, SEEDS, Run, assert_mean, table_of, trace_of
from fluidb.formats import InputError, write_table
from fluidb.serving import Requests, ServedNetwork, prepare_requests, serve, simulate
from fluidb.serving.networks import read_networks
from fluidb.traffic import Clients, Trace, superpose
from fluidb.traffic.own import OwnTraffic
from fluidb.traffic.transforms import for_network

REAL_TIME_S, BEST_EFFORT_S = 0.00277, 0.00424
"""Times of the two networks of DISB's workload A."""


def disb(clients: int, lasts_s: float = 20.0) -> list[ServedNetwork]:
    """A network in real time, beside one of best effort whose clients wait for their answers."""
    periodic = OwnTraffic(frames_per_s=100, lasts_s=lasts_s)
    closed = OwnTraffic(clients=Clients(clients), lasts_s=lasts_s)
    return [
        ServedNetwork(name="best", table=table_of([[BEST_EFFORT_S]]), slo_s=1.0, priority=2, traffic=closed),
        ServedNetwork(name="real", table=table_of([[REAL_TIME_S]]), slo_s=0.01, priority=1, traffic=periodic),
    ]


def test_best_effort_gets_what_the_real_time_network_leaves():
    """It has the rest of the time, and with priority the other one waits for at most one of its requests."""
    for clients in (1, 3):
        served = serve(disb(clients), Requests(seed=1), "serial:between=priority")
        best, real = (own.summary for own in served.networks)
        assert real.processing_rate_per_s == pytest.approx(100, rel=1e-3)
        assert best.processing_rate_per_s == pytest.approx((1 - 100 * REAL_TIME_S) / BEST_EFFORT_S, rel=1e-3)
        assert REAL_TIME_S < real.max_latency_s <= REAL_TIME_S + BEST_EFFORT_S
        assert served.summary.requests == best.requests + real.requests
        assert served.unavoidable_violations is None
        assert [own.unavoidable_violations for own in served.networks] == [None, 0]
    served = serve(disb(3), Requests(seed=1), "serial:between=fcfs")
    assert served.networks[1].summary.max_latency_s > REAL_TIME_S + 2 * BEST_EFFORT_S


@pytest.mark.parametrize("load", [0.5, 0.75])
def test_priorities_are_an_M_G_1_queue_with_priorities(load: float):
    """Cobham, Operations Research 2, 1954: without preemption, each class waits for those before it."""
    service_s, parts = np.array([0.11, 0.02, 0.05]), load * np.array([0.3, 0.5, 0.2])
    rates_per_s, priorities = parts / service_s, [2, 1, 3]
    left_s = rates_per_s @ service_s**2 / 2
    expected = []
    for own in priorities:
        before = sum(part for part, other in zip(parts, priorities, strict=True) if other < own)
        through = sum(part for part, other in zip(parts, priorities, strict=True) if other <= own)
        expected.append(left_s / (1 - before) / (1 - through))
    lasts_s = (40_000 if COMPILED else 4_000) / rates_per_s.sum()
    networks = [
        ServedNetwork(
            name=f"n{k}", table=table_of([[service_s[k]]]), slo_s=1.0, priority=priorities[k],
            traffic=OwnTraffic(rate_per_s=rates_per_s[k], lasts_s=lasts_s),
        )
        for k in range(3)
    ]  # fmt: skip
    waits = []
    for seed in SEEDS:
        replay = simulate(networks, prepare_requests(networks, Requests(seed=seed), None), "serial:between=priority")
        waits.append([(part.start_s - part.traffic.trace.arrival_s).mean() for part in replay.by_network])
    for found, wait_s in zip(np.array(waits).T, expected, strict=True):
        assert_mean(found, wait_s)


def test_frames_are_a_D_D_1_queue():
    """Below saturation nobody waits; above, each frame waits longer than the one before by the same time."""
    for service_s in (0.03, 0.05):
        own = OwnTraffic(frames_per_s=25.0, lasts_s=20.0)
        networks = [ServedNetwork(name="camera", table=table_of([[service_s]]), slo_s=1.0, traffic=own)]
        replay = simulate(networks, prepare_requests(networks, Requests(seed=4), None), "serial")
        assert len(replay.latency_s) in (500, 501)
        longer_s = max(0.0, service_s - 0.04) * np.arange(len(replay.latency_s))
        assert replay.latency_s == pytest.approx(service_s + longer_s)


def test_jitter_delays_each_frame_by_itself():
    """The phase of a frame in its period is normal, about the camera's phase."""
    arrival_s = OwnTraffic(frames_per_s=10.0, jitter_s=0.01, lasts_s=2000.0).draw(3, 0).arrival_s
    turns = np.exp(2j * np.pi * 10 * arrival_s)
    late_s = np.angle(turns / turns.mean()) / (2 * np.pi * 10)
    assert len(arrival_s) == pytest.approx(20_000, abs=2)
    assert arrival_s.max() < 2000.0
    assert late_s.std() == pytest.approx(0.01, rel=0.03)
    assert np.corrcoef(late_s[1:], late_s[:-1])[0, 1] == pytest.approx(0.0, abs=0.03)


def test_a_replay_is_repeated_whatever_order_requests_came_in():
    """What is recorded, and what runs until an end, are of the same requests."""
    networks = disb(2, 0.5)
    traffic = prepare_requests(networks, Requests(seed=1), None)
    whole = simulate(networks, traffic, "serial:between=priority", record=True)
    arrival_s = whole.traffic.trace.arrival_s
    assert np.all(np.diff(arrival_s) >= 0)
    assert whole.runs is not None
    assert whole.runs.begin_s.tolist() == whole.start_s[whole.runs.members].tolist()
    assert whole.runs.end_s.tolist() == whole.finish_s[whole.runs.members].tolist()
    part = simulate(networks, traffic, "serial:between=priority", until_s=0.25)
    count = len(part.start_s)
    assert 0 < count < len(whole.start_s)
    assert part.traffic.trace.arrival_s.tolist() == arrival_s[:count].tolist()
    assert part.network.tolist() == whole.network[:count].tolist()
    done = np.isfinite(part.finish_s)
    assert part.finish_s[done].tolist() == whole.finish_s[:count][done].tolist()
    opening = simulate(networks, traffic, "serial:between=priority", until_s=float(arrival_s[whole.network == 1][0]))
    assert opening.network.tolist() == [0] * len(opening.start_s)


def test_a_network_draws_the_same_beside_any_other():
    """Its own stream gives its requests and exits, whatever the networks behind it do; traces are cut at the end."""
    own = OwnTraffic(rate_per_s=30, lasts_s=10.0)
    table = table_of([[0.01], [0.02]], [0.4, 0.6])
    first = ServedNetwork(name="first", table=table, slo_s=0.1, traffic=own)
    given = OwnTraffic(trace=trace_of(np.arange(20.0)), lasts_s=10.0)
    found = []
    for other in (given, OwnTraffic(clients=Clients(2, 0.01), lasts_s=10.0)):
        networks = [first, ServedNetwork(name="other", table=table, slo_s=0.1, traffic=other)]
        traffic = prepare_requests(networks, Requests(seed=7), None)
        found.append(traffic)
        assert sorted(np.concatenate([part.trace.request_id for part in traffic.parts])) == [*range(len(traffic))]
    assert found[0].parts[0].trace.arrival_s.tolist() == found[1].parts[0].trace.arrival_s.tolist()
    assert found[0].parts[0].exits.tolist() == found[1].parts[0].exits.tolist()
    assert found[0].parts[1].trace.arrival_s.tolist() == [*map(float, range(10))]
    assert found[0].clients == ()  # all arrive by themselves, as in one trace
    assert found[1].clients == (0, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a file of networks finds the latency table t."""
    (tmp_path / "t").mkdir()
    write_table(table_of([[0.01]]), tmp_path / "t" / "latency.json")
    return tmp_path


ROWS = {
    "two kinds": ("rate = 5\nfps = 5", "", "expected trace, rate, fps or clients, found rate and fps"),
    "no end": ("rate = 5", "", "duration: expected how long the traffic of rate lasts, found none"),
    "jitter above the period": ('fps = 30\njitter = "34ms"', "60s", "jitter: expected at most the period, 33.3333 ms"),
    "jitter of a rate": (
        'rate = 5\njitter = "1ms"',
        "60s",
        "jitter: expected beside fps only, found beside rate",
    ),
    "count of a rate": ("rate = 5\ncount = 9", "60s", "count: expected beside clients only"),
    "think of nobody": ('think = "1ms"', "60s", "think: expected clients beside it, found none"),
    "no request": ("fps = 0.001", "1s", "duration: expected a request before 1 s, found none"),
    "too many": ("rate = 1e6", "60s", "duration: expected at most 10,000,000 requests"),
    "nobody": ("clients = 0", "60s", "clients: expected a whole number from 1"),
    "the first too late": (
        'clients = 1\nthink = "2s"',
        "1s",
        "think: expected every client's first request within 1 s",
    ),
    "too few": ("clients = 1\ncount = 3", "1s", "count: expected more than 3 requests"),
    "priority twice": ("rate = 5\npriority = 1", "60s", 'found 1 of "other" and "own"'),
    "traffic of one": ("", "60s", 'expected traffic of every network or of none, found none of "own"'),
    "networks in a trace": ('trace = "named.csv"', "60s", "named.csv: expected no column network in the trace of one"),
    "no file": ('trace = "none.csv"', "60s", "none.csv"),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_fault_is_one_line(row: str, folder: Path):
    keys, duration, said = ROWS[row]
    (folder / "named.csv").write_text("request_id,arrival_s,network\n0,0.0,other\n")
    (folder / "n.toml").write_text(
        'schema = "fluidb.networks/1"\n' + (f'duration = "{duration}"\n' if duration else "")
        + '[[networks]]\nname = "other"\ntable = "t"\nslo = "1s"\npriority = 1\nfps = 30\n'.replace(
            "fps = 30", "fps = 30" if duration else "clients = 1\ncount = 3"
        )
        + f'[[networks]]\nname = "own"\ntable = "t"\nslo = "1s"\n{keys}\n'
    )  # fmt: skip
    with pytest.raises(InputError) as error:
        serve(folder / "n.toml", Requests(), "serial")
    (fault,) = error.value.faults
    assert said in fault
    assert "own" in fault


def test_a_duration_ends_something(folder: Path):
    text = 'schema = "fluidb.networks/1"\nduration = "1s"\n[[networks]]\nname = "own"\ntable = "t"\nslo = "1s"\n'
    (folder / "n.toml").write_text(text)
    with pytest.raises(InputError, match="duration: expected traffic of each network, which it ends, found none"):
        read_networks(folder / "n.toml")


def test_clients_may_send_a_number_of_requests_without_an_end():
    own = OwnTraffic(clients=Clients(2), count=50)
    networks = [ServedNetwork(name="n", table=table_of([[0.5]]), slo_s=1.0, traffic=own)]
    served = serve(networks, Requests(), "serial")
    assert (served.summary.requests, served.replay.finish_s.max()) == (50, 25.0)


def test_of_equal_times_the_sources_come_in_the_order_of_their_networks():
    """Two traces and two clients, whose requests all come at 0 s and whole seconds, each a quarter long."""
    table, own = table_of([[0.25]]), OwnTraffic(trace=trace_of([0.0, 1.0]))
    closed = OwnTraffic(clients=Clients(1, 0.25), count=2)
    kinds = {"client": closed, "first": own, "other": own, "late": replace(closed, clients=Clients(1))}
    networks = [ServedNetwork(name=name, table=table, slo_s=9.0, traffic=kind) for name, kind in kinds.items()]
    replay = simulate(networks, prepare_requests(networks, Requests(), None), "serial")
    names = [replay.names[k] for k in replay.network]
    # at 0.75 s the last client sends again as its answer is there; at 1 s both traces do, before it begins
    assert list(zip(replay.traffic.trace.arrival_s.tolist(), names, strict=True)) == [
        (0.0, "first"), (0.0, "other"), (0.0, "late"), (0.25, "client"), (0.75, "late"), (1.0, "first"),
        (1.0, "other"), (1.25, "client"),
    ]  # fmt: skip
    order = [replay.names[k] for k in replay.network[np.argsort(replay.start_s, kind="stable")]]
    assert order == ["first", "other", "late", "client", "late", "first", "other", "client"]
    by_place = replace(own, trace=trace_of([0.0, 0.0]))
    pair = [ServedNetwork(name=name, table=table, slo_s=9.0, traffic=by_place) for name in ("a", "b")]
    for between in ("fcfs", "edf"):
        tied = simulate(pair, prepare_requests(pair, Requests(), None), f"serial:between={between}")
        assert [tied.names[k] for k in tied.network[np.argsort(tied.start_s, kind="stable")]] == ["a", "a", "b", "b"]


def test_files_that_a_file_of_networks_names_are_not_replaced(fluidb: Run, folder: Path):
    """Whatever may be forced: traces, samples, think times, tables, and the file itself."""
    (folder / "t.csv").write_text("request_id,arrival_s\n0,0.0\n")
    (folder / "think.csv").write_text("think_s\n0.5\n")
    (folder / "n.toml").write_text(
        'schema = "fluidb.networks/1"\nduration = "2s"\nnetworks = [\n'
        '{ name = "a", table = "t", slo = "1s", trace = "t.csv" },\n'
        '{ name = "b", table = "t", slo = "1s", clients = 1, think = "trace:think.csv" },\n]\n'
    )
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    for name in ("t.csv", "think.csv", "n.toml", "t/latency.json"):
        done = fluidb("serve-sim", "n.toml", "--policy", "serial", "--requests", name, "--force")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"{name}: expected another file than {name}, which this command uses too" in done.stderr
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    fluidb("serve-sim", "n.toml", "--policy", "serial", "--requests", "out.csv")
    assert (folder / "out.csv").is_file()


def test_other_commands_say_what_to_do_with_such_a_file(fluidb: Run, folder: Path):
    (folder / "n.toml").write_text(
        'schema = "fluidb.networks/1"\nduration = "2s"\nnetworks = [\n'
        '{ name = "a", table = "t", slo = "1s", rate = 5 },\n{ name = "b", table = "t", slo = "1s", fps = 5 },\n]\n'
    )
    (folder / "t.csv").write_text("request_id,arrival_s\n0,0.0\n")
    for asked, said in (
        (
            ("plan", "n.toml", "zc706", "--require", "p99 <= 1s"),
            "a: network: expected it, as designs for zc706 are searched, found a table only",
        ),
        (("capacity", "n.toml", "--require", "p99[a] <= 1s", "--clients", "1..4"), "--clients: expected none beside"),
        (("capacity", "n.toml", "--require", "p99[a] <= 1s", "--count", "9"), "--count: expected none beside"),
        (("serve-sim", "n.toml", "--trace", "t.csv"), "leave out one of the two"),
    ):
        done = fluidb(*asked)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert said in done.stderr


def test_own_traces_say_what_is_admitted_together():
    """As one trace of both says: of each network, the second request of two that come together is not let in alone."""
    table, both = table_of([[1.0]]), np.array([0, 1, 1])
    own = Trace(np.arange(3), np.array([0.0, 1.0, 1.0]), admitted_with=both)
    networks = [
        ServedNetwork(name=name, table=table, slo_s=9.0, traffic=OwnTraffic(trace=own, lasts_s=9.0)) for name in "ab"
    ]
    spec, merged = "serial:admit=queue:1", superpose([for_network(own, name) for name in "ab"])
    plain = [replace(network, traffic=None) for network in networks]
    alone = [replace(own, admitted_with=None) for _ in "ab"]
    apart = superpose([for_network(trace, name) for trace, name in zip(alone, "ab", strict=True)])
    refused = [
        simulate(of, prepare_requests(of, Requests(), trace), spec).refused
        for of, trace in ((networks, None), (plain, merged), (plain, apart))
    ]
    assert refused[0].tolist() == refused[1].tolist() == [False, False, True, True, True, True]
    assert refused[2].tolist() == [False, False, False, True, True, True]


def test_own_traffic_stands_beside_no_other():
    networks = disb(1, 1.0)
    with pytest.raises(InputError, match=r'expected none with traffic of its own beside a trace.*found "best"'):
        serve(networks, Requests(trace=trace_of([0.0])), "serial")
    with pytest.raises(InputError, match="expected none with traffic of its own"):
        serve(networks, Requests(clients=Clients(1)), "serial")
    plain = [replace(network, traffic=None) for network in networks]
    with pytest.raises(InputError, match="trace: expected a file of requests"):
        serve(plain, Requests(), "serial")
    without = [replace(network, priority=None) for network in networks]
    with pytest.raises(InputError, match='expected a priority of every network, found none of "best"'):
        serve(without, Requests(), "serial:between=priority")


def test_a_file_says_what_each_network_is_sent(fluidb: Run, folder: Path):
    """Also on the screen, with its answers a second."""
    (folder / "n.toml").write_text(
        'schema = "fluidb.networks/1"\nduration = "2s"\nnetworks = [\n'
        '{ name = "a", table = "t", slo = "1s", fps = 30, jitter = "5ms", priority = 1 },\n'
        '{ name = "b", table = "t", slo = "1s", clients = 2, think = "10ms", count = 900 },\n]\n'
    )
    first, other = read_networks(folder / "n.toml")
    assert first.traffic == OwnTraffic(frames_per_s=30, jitter_s=0.005, lasts_s=2.0)
    assert first.priority == 1
    assert other.traffic == OwnTraffic(clients=Clients(2, 0.01), count=900, lasts_s=2.0)
    printed = fluidb("serve-sim", "n.toml", "--policy", "serial:b_max=1").stdout
    answers = [float(row.split()[2]) for row in printed.splitlines() if row.startswith(("a  ", "b  "))]
    assert answers == pytest.approx([30, 70], abs=1.5)  # one is always answered: 100 a second
