"""``serve-sim`` of several networks: what it prints and writes, and what it refuses in one line."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from builders import DATA, POCKET, TINY, Run, lines
from fluidb.dse import read_design
from fluidb.formats import InputError
from fluidb.serving import Requests, ServedNetwork, serve
from fluidb.serving.networks import read_networks
from fluidb.tables import read_latency
from fluidb.traffic import poisson, read_samples, read_trace, write_trace

SERVE = ["serve-sim", "networks.toml", "--trace", "t.csv"]


@pytest.fixture
def folder(tmp_path: Path, tiny_design: Path) -> Path:
    """A design, the file of two networks on it, and requests."""
    (tmp_path / "tiny").symlink_to(tiny_design)
    text = (DATA / "networks.toml").read_text().replace('samples = "s.csv"\n', "")
    (tmp_path / "networks.toml").write_text(text)
    write_trace(poisson(8000, 2000, 5), tmp_path / "t.csv")
    return tmp_path


def test_figures_of_all_are_those_of_the_networks(fluidb: Run, folder: Path) -> None:
    done = fluidb(*SERVE, "--json", "--requests", "r.csv")
    record = json.loads(done.stdout)
    people, goods = record["networks"]
    for figure in ("requests", "violations", "preemptions", "scheduler_calls", "unavoidable_violations", "unfinished"):
        assert record[figure] == people[figure] + goods[figure]
    for figure in ("busy_share", "processing_rate_per_s", "goodput_per_s"):
        assert record[figure] == pytest.approx(people[figure] + goods[figure])
    for figure in ("mean_latency_s", "mean_wait_s", "stalled_s", "violation_rate"):
        mean = sum(part[figure] * part["requests"] for part in (people, goods)) / 2000
        assert record[figure] == pytest.approx(mean)
    made = [part["utilisation"]["mac_share"] for part in (record, people, goods)]
    assert made[0] == pytest.approx(made[1] + made[2])
    assert people["requests"] / 2000 == pytest.approx(0.75, abs=0.03)
    one, other = (1 - part["violation_rate"] for part in (people, goods))
    assert record["fairness"] == pytest.approx((one + other) ** 2 / (2 * (one**2 + other**2)))
    rows = list(csv.DictReader((folder / "r.csv").read_text().splitlines()))
    assert sum(row["network"] == "people" for row in rows) == people["requests"]
    late = [float(row["latency_s"]) > {"people": 4e-4, "goods": 1e-3}[row["network"]] for row in rows]
    assert sum(late) == record["violations"]


def test_one_network_is_served_as_its_table_alone(tiny_design: Path, tmp_path: Path) -> None:
    """The figures of all, of the network, and of ``serve``, with the seed that is printed."""
    write_trace(poisson(8000, 2000, 5), tmp_path / "t.csv")
    requests = Requests(trace=tmp_path / "t.csv", slo_s=4e-4, seed=3)
    served = serve([ServedNetwork(name="only", table=tiny_design)], requests, "fluid:between=shares")
    seed = int(served.replay.traffic.origin.rpartition(" ")[2])
    alone = serve(tiny_design, Requests(trace=tmp_path / "t.csv", slo_s=4e-4, seed=seed), "fluid")
    assert served.networks[0].summary == alone.summary
    assert served.unavoidable_violations == alone.unavoidable_violations
    assert served.summary.record() | {"stages": [], "exits": []} == {
        **alone.summary.record(), "stages": [], "exits": [], "fairness": 1.0
    }  # fmt: skip


def test_a_trace_names_the_network_of_each_request(fluidb: Run, folder: Path) -> None:
    rows = ["request_id,arrival_s,network", "7,0.0,goods", "8,0.5,people", "9,1.0,goods"]
    (folder / "named.csv").write_text("\n".join(rows) + "\n")
    record = json.loads(fluidb(*SERVE[:2], "--trace", "named.csv", "--json").stdout)
    assert [part["requests"] for part in record["networks"]] == [1, 2]
    trace = read_trace(folder / "named.csv")
    assert trace.network is not None
    assert trace.network.tolist() == ["goods", "people", "goods"]
    write_trace(trace, folder / "again.csv")
    assert (folder / "again.csv").read_text() == (folder / "named.csv").read_text()
    fluidb("trace", "merge", "named.csv", "again.csv", "-o", "merged.csv")
    assert (folder / "merged.csv").read_text().count("goods") == 4


def test_requirements_are_those_of_a_network_or_of_all(fluidb: Run, folder: Path) -> None:
    record = json.loads(fluidb(*SERVE, "--json").stdout)
    rates = [part["violation_rate"] for part in record["networks"]]
    asked = [f"violation_rate[people] <= {100 * rates[0] + 1e-6} %", f"violation_rate[goods] < {100 * rates[1]} %"]
    done = fluidb(*SERVE, "--json", "--require", asked[0], "--require", asked[1], "--require", "fairness >= 1 %")
    assert done.returncode == 1
    verdicts = json.loads(done.stdout)["requirements"]
    assert [verdict["name"] for verdict in verdicts] == ["violation_rate[people]", "violation_rate[goods]", "fairness"]
    assert [verdict["holds"] for verdict in verdicts] == [True, False, True]
    assert [verdict["value"] for verdict in verdicts[:2]] == rates


def test_clients_and_deadlines_serve_several_networks_too(fluidb: Run, folder: Path) -> None:
    more = [
        "--clients",
        6,
        "--think",
        "exponential:100us",
        "--count",
        900,
        "--on-deadline",
        "answer",
        "--between",
        "edf",
    ]
    record = json.loads(fluidb("serve-sim", "networks.toml", *more, "--json").stdout)
    assert (record["requests"], record["unfinished"], record["unavoidable_violations"]) == (900, 0, None)
    assert record["deadlines"]["dropped"] == sum(part["deadlines"]["dropped"] for part in record["networks"])
    assert record["deadlines"]["early"] > 0


def test_each_network_refuses_by_its_own_rule_or_the_option(fluidb: Run, folder: Path) -> None:
    text = (folder / "networks.toml").read_text()
    (folder / "networks.toml").write_text(text.replace('switch = "10us"', 'switch = "10us"\nadmit = "queue:0"'))
    record = json.loads(fluidb(*SERVE, "--json").stdout)
    people, goods = (part["admission"]["refused"] for part in record["networks"])
    assert (people, goods > 0) == (0, True)
    assert record["admission"]["refused"] == goods
    asked = ["--require", "refused[goods] <= 1 %", "--admit", "queue:0", "--json"]
    record = json.loads(fluidb(*SERVE, *asked).stdout)
    assert record["networks"][0]["admission"]["refused"] > 0
    assert not record["requirements"][0]["holds"]
    assert "refused" in fluidb(*SERVE).stdout


def test_a_timeline_has_tracks_of_each_network(fluidb: Run, folder: Path) -> None:
    assert fluidb(*SERVE, "--timeline", "x.json", "--until", "20ms").returncode == 0
    events = json.loads((folder / "x.json").read_text())["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert [tracks[k].partition(":")[0] for k in range(7)] == [
        "queue", *(f"{name}, stage {number}" for name in ("people", "goods") for number in (1, 2, 3))
    ]  # fmt: skip
    assert {event["tid"] for event in events if event["ph"] == "X"} == set(range(1, 7))


def test_a_picture_has_a_curve_for_each_network(fluidb: Run, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    assert fluidb(*SERVE, "--plot", "p.svg").returncode == 0
    picture = (folder / "p.svg").read_text()
    assert "people" in picture
    assert "goods" in picture


EDIT = {
    "network without a table": (
        ('table = "tiny"\nslo = "1ms"', 'slo = "1ms"'),
        'networks[1] ("goods"): table: expected the folder of its latency table, found none; state it, or let',
    ),
    "table that is none": (
        ('table = "tiny"\nslo = "1ms"', 'table = "none"\nslo = "1ms"'),
        'networks.toml: networks[1] ("goods"): none: expected a folder with a latency table',
    ),
    "weights that sum to 0": (
        ("share = 3", "share = 0"),
        "networks.toml: networks: share: expected at least one share above 0, found a sum of 0",
    ),
    "the same name twice": (('"goods"', '"people"'), 'networks: expected every name once, found "people" twice'),
    "name that is none": (('"goods"', '"two goods"'), "name: expected a name of letters, digits"),
    "time to switch without a unit": (('"10us"', '"10"'), "switch: "),
    "negative share": (("share = 3", "share = -3"), 'networks[0] ("people").share: expected at least 0, found -3'),
    "rule of admission that is none": (
        ('switch = "10us"', 'admit = "queue:x"'),
        'networks[1] ("goods"): admit: expected queue:N',
    ),
    "weight of nothing": (("weight = 2", "weight = 0"), 'networks[0] ("people").weight: expected more than 0, found 0'),
    "unknown key": (("share = 3", "shares = 3"), 'networks[0] ("people").shares: unknown key'),
}


@pytest.mark.parametrize("case", EDIT)
def test_a_bad_file_is_one_line(fluidb: Run, folder: Path, case: str) -> None:
    (old, new), expected = EDIT[case]
    text = (folder / "networks.toml").read_text()
    assert old in text
    text = text.replace(old, new)
    if case == "weights that sum to 0":
        text = text.replace('slo = "1ms"', 'slo = "1ms"\nshare = 0')
    (folder / "networks.toml").write_text(text)
    (line,) = lines(fluidb(*SERVE))
    assert expected in line


BAD: dict[str, tuple[list[object], str]] = {
    "unknown network of a trace": (
        [*SERVE[:2], "--trace", "cars.csv"],
        'cars.csv: row 2: network: expected one of people, goods, found "cars" (and 1 more row)',
    ),
    "requirement of an unknown network": (
        [*SERVE, "--require", "p99[cars] <= 1ms"],
        '--require: unknown network "cars" in "p99[cars] <= 1ms"; write p99 or p99[people] or p99[goods]',
    ),
    "requirement of a network on one table": (
        ["serve-sim", "tiny", "--trace", "t.csv", "--slo", "1s", "--require", "p99[cars] <= 1ms"],
        'unknown network "cars" in "p99[cars] <= 1ms"; write p99',
    ),
    "fairness of one": (
        ["serve-sim", "tiny", "--trace", "t.csv", "--slo", "1s", "--require", "fairness >= 9 %"],
        "expected several networks, found one",
    ),
    "rule between one": (
        ["serve-sim", "tiny", "--trace", "t.csv", "--slo", "1s", "--between", "edf"],
        "between: expected several networks, found one",
    ),
    "rule that is none": ([*SERVE, "--between", "luck"], "between: expected fcfs or edf or shares"),
    "networks of a trace on one table": (
        ["serve-sim", "tiny", "--trace", "goods.csv", "--slo", "1s"],
        "goods.csv: network: expected no such column where one network is served",
    ),
    "name in a trace that is none": (
        [*SERVE[:2], "--trace", "spaced.csv"],
        "network: expected a name of letters, digits, _, - or ., which begins",
    ),
    "thresholds that nothing uses": (
        ["serve-sim", "one.toml", *SERVE[2:], "--threshold", "0.5"],
        'network "people": threshold: expected a trace whose exits are decided by confidence_1, ...',
    ),
    "stopped too early": (
        [*SERVE, "--until", "1us"],
        "until: expected a time after the first arrival at ",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_one_line(fluidb: Run, folder: Path, case: str) -> None:
    for name, networks in {"cars": "people,cars,cars", "goods": "goods", "spaced": "two goods"}.items():
        rows = "".join(f"{k},{k}.0,{network}\n" for k, network in enumerate(networks.split(",")))
        (folder / f"{name}.csv").write_text(f"request_id,arrival_s,network\n{rows}")
    (folder / "one.toml").write_text((folder / "networks.toml").read_text().rpartition("[[networks]]")[0])
    arguments, expected = BAD[case]
    (line,) = lines(fluidb(*arguments))
    assert expected in line


def test_a_threshold_holds_for_networks_that_state_none(tiny_design: Path, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(
        "confidence_1,confidence_2,correct_1,correct_2,correct_3\n0.9,0.9,0,1,1\n0.8,1,1,1,1\n"
    )
    samples = read_samples(tmp_path / "s.csv")
    networks = [ServedNetwork(name=name, table=tiny_design, samples=samples) for name in "ab"]
    requests = Requests(trace=poisson(8000, 300, 5), slo_s=4e-4, seed=1)
    stated = [replace(networks[0], threshold=0.7), replace(networks[1], threshold=0.9)]
    given = serve([networks[0], stated[1]], requests, "fluid", threshold=0.7)
    assert given.summary == serve(stated, requests, "fluid").summary
    assert given.summary != serve(networks, requests, "fluid", threshold=0.7).summary


def test_tables_of_two_devices_are_refused(tiny_design: Path) -> None:
    networks = [ServedNetwork(name="a", table=tiny_design), ServedNetwork(name="b", table=tiny_design)]
    other = read_latency(tiny_design).model_copy(update={"platform": "elsewhere"})
    networks[1] = ServedNetwork(name="b", table=other)
    requests = Requests(trace=poisson(8000, 50, 1), slo_s=1.0)
    with pytest.raises(InputError, match=r'network "b": expected a latency table of pocket.*found one of elsewhere'):
        serve(networks, requests, "fluid")


def test_a_file_with_tables_of_two_designs_names_both(fluidb: Run, folder: Path) -> None:
    """And one NPU for both is served."""
    (folder / "other.toml").write_text(Path(TINY).read_text().replace('name = "tiny"', 'name = "other"'))
    text = (folder / "networks.toml").read_text()
    fluidb("dse", "other.toml", POCKET, "--b-max", 4, "--max-dsp", "50%", "-o", "half")
    fluidb("dse", f"{TINY},other.toml", POCKET, "--b-max", 4, "--together", "--shares", "3,1", "-o", "both")
    for table in ("half", "both/tiny-pocket", "both/other-pocket"):
        assert fluidb("latency", table).returncode == 0
    (folder / "networks.toml").write_text('table = "half"'.join(text.rsplit('table = "tiny"', 1)))
    (line,) = lines(fluidb(*SERVE))
    tiles = [f"<{','.join(map(str, read_design(folder / name)[0].tile[:3]))}>" for name in ("tiny", "half")]
    assert line.startswith(f"fluidb: networks.toml: networks: expected times of one NPU, found {tiles[0]} on pocket (")
    assert f" in tiny, and {tiles[1]} on pocket (" in line
    assert line.endswith(
        " in half; search one for all with `fluidb dse tiny,other pocket --together --shares 3,1` "
        "(your files in place of tiny, other, pocket), then `fluidb latency` of each"
    )
    for name, table in {"people": "both/tiny-pocket", "goods": "both/other-pocket"}.items():
        text = re.sub(rf'(name = "{name}"\ntable = )"tiny"', rf'\1"{table}"', text)
    (folder / "networks.toml").write_text(text)
    assert fluidb(*SERVE).returncode == 0


def test_a_network_without_a_request_is_served_and_has_no_figures(fluidb: Run, folder: Path) -> None:
    """All others fare as if it were not there, but for the draws of several."""
    (folder / "people.csv").write_text("request_id,arrival_s,network\n0,1.0,people\n1,2.0,people\n")
    serve = [*SERVE[:2], "--trace", "people.csv"]
    record = json.loads(fluidb(*serve, "--json", "--policy", "fluid:on_deadline=drop").stdout)
    people, goods = record["networks"]
    assert goods == {"name": "goods", "network": "tiny", "requests": 0}
    assert (record["requests"], people["requests"], record["fairness"]) == (2, 2, 1.0)
    assert people["mean_latency_s"] == record["mean_latency_s"] > 0
    rows = [line.split() for line in fluidb(*serve).stdout.splitlines()]
    assert ["goods", "0"] in rows
    stopped = json.loads(fluidb(*serve, "--until", "1.5s", "--json").stdout)
    assert [network["requests"] for network in stopped["networks"]] == [1, 0]
    (line,) = lines(fluidb(*serve, "--require", "p99[goods] <= 1ms"))
    assert 'network: expected a request of "goods", as one of its figures is required, found none; serve more' in line


def test_a_threshold_may_be_a_number_in_the_file_of_networks(folder: Path) -> None:
    text, read = (folder / "networks.toml").read_text(), []
    for level in ("0.6", '"0.6"'):
        (folder / "two.toml").write_text(f"{text}threshold = {level}\n")
        read.append(read_networks(folder / "two.toml")[-1].threshold)
    assert read[0] == read[1] != read_networks(folder / "networks.toml")[-1].threshold
