"""What SubNets gave and fetched: figures by hand, in the summary, requirements, timeline and report."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from builders import Run, lines, supernet_table, trace_of, traffic_of
from fluidb.formats import InputError, write_table
from fluidb.serving import Replay, find_policy, simulate, summarise, write_requests
from fluidb.serving.requirements import judge, parse_requirement
from fluidb.serving.subnets import SubNetShare, SubNetSummary
from fluidb.serving.timeline import timeline_events
from fluidb.tables import LatencyTable
from fluidb.traffic import Trace, write_trace

COSTS = {
    "hit_ratio": [[0.0, 0.0], [1.0, 0.5], [0.5, 0.75]],
    "off_chip_bytes": [[4e6, 9e6], [2e6, 7e6], [3e6, 5e6]],
    "joules_per_byte": 1e-10,
}


def two_subnets(**more) -> LatencyTable:
    """Two SubNets, and a SubGraph like each; the refill of the first has 1000 bytes, of the second 2000."""
    times = [[1.0, 0.5, 0.75], [4.0, 3.0, 2.0]]
    return supernet_table(times, [0.5, 1.0], [[1, 1], [8, 8]], [[0, 0], [1, 1], [7, 7]], **more)


def six_queries() -> Trace:
    return replace(trace_of([0.0] * 6, [9.0] * 6), min_accuracy=np.array([0.5, 0.5, 1.0, 1.0, 1.0, 1.0]))


def served(spec: str, table: LatencyTable | None = None, **options) -> Replay:
    traffic = traffic_of(six_queries(), np.ones(6, dtype=int))
    return simulate(table or two_subnets(**COSTS), traffic, find_policy(spec), **options)


def test_figures_by_hand():
    """Two with nothing resident, two with the small SubGraph, two with the large one: 1, 1, 3, 3, 2 and 2 s."""
    moved = (2 * 4e6 + 2 * 7e6 + 2 * 5e6 + 1000 + 2000) / 6
    expected: dict[str, Any] = {
        "served_accuracy": pytest.approx(5 / 6),
        "accuracy_miss_rate": 0.0,
        "hit_ratio": pytest.approx((2 * 0.5 + 2 * 0.75) / 6),
        "swaps": 2,
        "off_chip_bytes": pytest.approx(moved),
        "off_chip_energy_j": pytest.approx(1e-10 * moved),
        "shares": [SubNetShare("s0", 2, 1.5), SubNetShare("s1", 4, (5 + 8 + 10 + 12) / 4)],
    }
    assert summarise(served("sushi:mode=accuracy,q=2")).subnets == SubNetSummary(**expected)


def test_who_did_not_return_has_missed_what_it_asked_for():
    """Only the small SubNet: four of six ask for more; stopped when three are back, the others have it not either."""
    small = summarise(served("sushi:subnet=0,graph=0")).subnets
    stopped = summarise(served("sushi:subnet=0,graph=0", until_s=3.5)).subnets
    none = summarise(served("sushi:subnet=0,graph=0", until_s=0.5)).subnets
    assert small
    assert stopped
    assert none
    assert (small.served_accuracy, small.swaps, stopped.served_accuracy) == (0.5, 0, 0.5)
    assert (small.accuracy_miss_rate, stopped.accuracy_miss_rate) == pytest.approx((4 / 6, 4 / 6))
    assert stopped.off_chip_bytes == 4e6
    assert (none.served_accuracy, none.accuracy_miss_rate) == (None, None)
    easy = replace(six_queries(), min_accuracy=np.full(6, 0.5))
    traffic, policy = traffic_of(easy, np.ones(6, dtype=int)), find_policy("sushi:subnet=0,graph=0")
    cut = summarise(simulate(two_subnets(**COSTS), traffic, policy, until_s=3.5)).subnets
    assert cut
    assert cut.accuracy_miss_rate == 0.5  # three are back, and have what they asked for


def test_what_a_table_does_not_state_has_no_figure():
    bare = two_subnets()
    found = summarise(served("sushi", bare)).subnets
    assert found
    assert [found.hit_ratio, found.off_chip_bytes, found.off_chip_energy_j] == [None] * 3
    for name in ("hit_ratio", "off_chip", "off_chip_energy"):
        bound = {"hit_ratio": "50 %", "off_chip": "1MB", "off_chip_energy": "1mJ"}[name]
        with pytest.raises(InputError, match=f'require: "{name} <= {bound}": expected a latency table that states'):
            judge(parse_requirement(f"{name} <= {bound}"), summarise(served("sushi", bare)))


def test_requests_name_subnet_and_state(tmp_path):
    run = served("sushi:mode=accuracy,q=2")
    assert run.columns()["subnet"].tolist() == [0, 0, 1, 1, 1, 1]
    assert run.columns()["state"].tolist() == [0, 0, 1, 1, 2, 2]
    write_requests(run, tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text().splitlines()[0].endswith("stalled_s,subnet,state,min_accuracy")


def test_the_timeline_shows_every_change_of_the_buffer():
    events = list(timeline_events(served("sushi:mode=accuracy,q=2,refill=charged", record=True)))
    swaps = [(event["ts"], event["args"]) for event in events if event["name"] == "swap"]
    assert swaps == [(2e6, {"from": "EMPTY", "to": "G1"}), (8015625.0, {"from": "G1", "to": "G2"})]
    ran = [event["args"]["subnet"] for event in events if event["ph"] == "X"]
    assert ran == ["s0", "s0", "s1", "s1", "s1", "s1"]
    assert [event["ts"] for event in events if event["ph"] != "M"] == sorted(
        event["ts"] for event in events if event["ph"] != "M"
    )


def test_the_commands_print_them(fluidb: Run, tmp_path):
    (tmp_path / "d").mkdir()
    write_table(two_subnets(**COSTS), tmp_path / "d" / "latency.json")
    write_trace(six_queries(), tmp_path / "t.csv")
    command = ["serve-sim", "d", "--trace", "t.csv", "--policy", "sushi:mode=accuracy,q=2"]
    done = fluidb(*command, "--require", "served_accuracy >= 80 %", "--require", "off_chip <= 5MB")
    assert done.returncode == 1  # 5.334 MB
    printed = " ".join(done.stdout.split())
    for text in (
        "accuracy of the SubNets 83.33 %", "less accurate than asked 0.00 %", "hit ratio 41.67 %",
        "changes of the buffer 2", "off chip, each request 5.334 MB", "its energy 0.533", "s1 4 66.7 %",
        "off_chip <= 5MB 5.334 MB FAILS",
    ):  # fmt: skip
        assert text in printed
    found = json.loads(fluidb(*command, "--json").stdout)["subnets"]
    expected = summarise(served("sushi:mode=accuracy,q=2")).subnets
    assert expected
    assert found == asdict(expected)
    fluidb("report", "d", "--trace", "t.csv", "--policy", "sushi", "--policy", "serial", "-o", "r.html")
    page = (tmp_path / "r.html").read_text()
    for heading in ("SubNets' accuracy %", "less accurate %", "hits %", "off chip MB", "energy off chip mJ"):
        assert heading in page
    write_table(two_subnets(), tmp_path / "d" / "latency.json")
    refused = lines(fluidb(*command, "--require", "off_chip <= 5MB"))
    assert refused == [
        'fluidb: --require: "off_chip <= 5MB": expected a latency table that states off-chip bytes, found none'
    ]
