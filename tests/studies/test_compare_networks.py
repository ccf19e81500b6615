"""`fluidb compare` of several networks on one device: the case's table is their file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import DATA, Run, lines
from fluidb.studies import load_scenario
from fluidb.studies.comparison import compare
from fluidb.studies.scenario import Served

SCENARIO = """\
schema = "fluidb.scenario/1"
title = "Whose turn is it?"
requests = 400
seeds = [1, 2]
baseline = "fcfs"

contenders = [
  { name = "fcfs", policy = "fluid" },
  { name = "edf", policy = "fluid:between=edf" },
]

[[cases]]
table = "networks.toml"
rates = [8000.0]
"""

SAMPLES = """confidence_1,confidence_2,correct_1,correct_2,correct_3
0.95,0.97,1,1,1
0.65,0.90,1,1,0
0.30,0.60,0,0,1
"""


@pytest.fixture
def folder(tmp_path: Path, tiny_design: Path) -> Path:
    """A design, the file of two networks on it, and a scenario."""
    (tmp_path / "tiny").symlink_to(tiny_design)
    (tmp_path / "networks.toml").write_text((DATA / "networks.toml").read_text())
    (tmp_path / "s.csv").write_text(SAMPLES)
    (tmp_path / "mine.toml").write_text(SCENARIO)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_networks_with_traffic_of_their_own_are_compared(fluidb: Run, folder: Path) -> None:
    """Without traffic in the case, each run draws the traffic of each network with its seed, as ``serve-sim`` does."""
    edit(folder / "mine.toml", "rates = [8000.0]\n", "")
    edit(folder / "mine.toml", "requests = 400\n", "")
    (fault,) = lines(fluidb("compare", "mine.toml"))
    assert fault.endswith("found none of them, and no traffic of each network in networks.toml")
    edit(folder / "networks.toml", "share = 3\n", "rate = 6000\n")
    edit(folder / "networks.toml", 'switch = "10us"\n', "clients = 2\n")
    edit(folder / "networks.toml", 'networks/1"\n', 'networks/1"\nduration = "50ms"\n')
    done = fluidb("compare", "mine.toml")
    assert "of each network its own" in done.stdout
    record = json.loads(fluidb("compare", "mine.toml", "--json").stdout)
    metrics = record["points"][0]["contenders"][1]["metrics"]
    serve = ["serve-sim", "networks.toml", "--seed", 2, "--between", "edf", "--json"]
    alone = json.loads(fluidb(*serve).stdout)
    for key in ("mean_latency_s", "violation_rate", "busy_share"):
        assert metrics[key]["seeds"]["2"] == alone[key]
    assert metrics["violation_rate[goods]"]["seeds"]["2"] == alone["networks"][1]["violation_rate"]
    before = load_scenario(folder / "mine.toml").points[0].site.on
    edit(folder / "networks.toml", "clients = 2", "clients = 3")
    after = load_scenario(folder / "mine.toml").points[0].site.on
    assert isinstance(before, Served)
    assert isinstance(after, Served)
    assert before.key != after.key


def test_every_figure_is_that_of_a_single_replay(fluidb: Run, folder: Path) -> None:
    record = json.loads(fluidb("compare", "mine.toml", "--json").stdout)
    (point,) = record["points"]
    assert (point["case"], point["network"], point["platform"]) == ("networks.toml", "tiny, tiny", "pocket")
    fluidb("trace", "poisson", "--rate", 8000, "--count", 400, "--seed", 2, "-o", "t.csv")
    serve = ["serve-sim", "networks.toml", "--trace", "t.csv", "--seed", 2, "--between", "edf", "--json"]
    alone = json.loads(fluidb(*serve).stdout)
    metrics = {key: item["seeds"]["2"] for key, item in point["contenders"][1]["metrics"].items()}
    for key in ("mean_latency_s", "violation_rate", "busy_share", "fairness"):
        assert metrics[key] == alone[key]
    assert metrics["unavoidable_rate"] == alone["unavoidable_violations"] / 400
    for part in alone["networks"]:
        assert metrics[f"violation_rate[{part['name']}]"] == part["violation_rate"]
        assert metrics[f"p99_latency_s[{part['name']}]"] == part["percentiles"][3]["latency_s"]
    text = fluidb("compare", "mine.toml", "-o", "d").stdout
    assert "people violations %" in text
    assert fluidb("compare", "mine.toml", "--against", "d/compare.json").returncode == 0


def test_a_run_depends_on_all_that_the_file_states(folder: Path) -> None:
    assert compare(load_scenario(folder / "mine.toml"), folder / "d")[1] == 0
    assert compare(load_scenario(folder / "mine.toml"), folder / "d")[1] == 4
    for old, new in (
        ("share = 3", "share = 2"),
        ("weight = 2", "weight = 4"),
        ('"10us"', '"11us"'),
        ('"1ms"', '"2ms"'),
        ("weight = 4", 'weight = 4\nadmit = "queue:3"'),
        ("queue:3", "queue:2"),
    ):
        edit(folder / "networks.toml", old, new)
        assert compare(load_scenario(folder / "mine.toml"), folder / "d")[1] == 0
    edit(folder / "s.csv", "0.65", "0.75")
    assert compare(load_scenario(folder / "mine.toml"), folder / "d")[1] == 0


def test_what_each_network_refuses_and_drops_is_compared(fluidb: Run, folder: Path) -> None:
    edit(folder / "networks.toml", 'switch = "10us"', 'admit = "queue:0"')
    edit(folder / "mine.toml", '"fluid:between=edf"', '"fluid:on_deadline=drop"')
    edit(folder / "mine.toml", "8000.0", "20000.0")
    (point,) = json.loads(fluidb("compare", "mine.toml", "--json").stdout)["points"]
    admits, drops = (contender["metrics"] for contender in point["contenders"])
    assert admits["refused_rate"]["mean"] > 0
    for seed, share in admits["refused_rate"]["seeds"].items():
        assert admits["refused_rate[people]"]["seeds"][seed] == 0
        assert 0 < share < admits["refused_rate[goods]"]["seeds"][seed]
    assert admits["dropped_rate[people]"]["mean"] == 0
    assert drops["dropped_rate[people]"]["mean"] > 0


def test_clients_and_traces_too(fluidb: Run, folder: Path) -> None:
    edit(folder / "mine.toml", "rates = [8000.0]", 'clients = [4]\nthink = "100us"')
    (point,) = json.loads(fluidb("compare", "mine.toml", "--json").stdout)["points"]
    assert "unavoidable_rate" not in point["contenders"][0]["metrics"]
    edit(folder / "mine.toml", 'clients = [4]\nthink = "100us"', 'trace = "t.csv"')
    (folder / "t.csv").write_text("request_id,arrival_s,network\n1,0.0,goods\n2,0.1,people\n3,0.2,goods\n")
    (point,) = json.loads(fluidb("compare", "mine.toml", "--json").stdout)["points"]
    assert point["requests"] == 3


BAD = {
    "objectives beside": (
        "mine.toml", "rates = [8000.0]", 'rates = [8000.0]\nslos = ["1ms"]', "expected neither objectives nor columns"
    ),
    "columns beside": (
        "mine.toml", "rates = [8000.0]", 'rates = [8000.0]\nwidth = "shares:1=1"', "found width; state slo"
    ),
    "no objective": (
        "networks.toml", 'slo = "1ms"\n', "", 'network "goods": slo: expected a latency objective'
    ),
    "network without a table": (
        "networks.toml", 'table = "tiny"\nslo = "1ms"', 'slo = "1ms"', '("goods"): table: expected the folder of'
    ),
    "unknown network of a trace": (
        "mine.toml", "rates = [8000.0]", 'trace = "cars.csv"', "network: expected one of people, goods"
    ),
    "rule that is none": ("mine.toml", "between=edf", "between=luck", "between: expected fcfs or edf or shares"),
    "rule between one": (
        "mine.toml", '"networks.toml"', '"tiny"\nslos = ["1ms"]', "between: expected several networks, found one"
    ),
    "trace of networks on one table": (
        "mine.toml",
        '"networks.toml"\nrates = [8000.0]',
        '"tiny"\nslos = ["1ms"]\ntrace = "cars.csv"',
        "network: expected no such column",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(fluidb: Run, folder: Path, case: str) -> None:
    (folder / "cars.csv").write_text("request_id,arrival_s,network\n1,0.0,cars\n")
    file, old, new, expected = BAD[case]
    edit(folder / file, old, new)
    (line,) = lines(fluidb("compare", "mine.toml"))
    assert expected in line


def test_other_studies_serve_one_network(fluidb: Run, folder: Path) -> None:
    (line,) = lines(fluidb("thresholds", "networks.toml", "--target", "1s", "--samples", "s.csv"))
    assert line.startswith("fluidb: networks.toml: expected a folder with a latency table, found a file; ")


def test_a_network_without_a_request_has_no_figures(fluidb: Run, folder: Path) -> None:
    """All others fare as in `serve-sim`, which serves it, too."""
    rows = "".join(f"{k},{k / 8000},people\n" for k in range(400))
    (folder / "people.csv").write_text(f"request_id,arrival_s,network\n{rows}")
    edit(folder / "mine.toml", "rates = [8000.0]", 'trace = "people.csv"')
    edit(folder / "mine.toml", "requests = 400\n", "")
    (point,) = json.loads(fluidb("compare", "mine.toml", "--json").stdout)["points"]
    alone = json.loads(fluidb("serve-sim", "networks.toml", "--trace", "people.csv", "--seed", 2, "--json").stdout)
    metrics = point["contenders"][0]["metrics"]
    assert metrics["mean_latency_s"]["seeds"]["2"] == alone["mean_latency_s"]
    assert metrics["mean_latency_s[people]"]["seeds"]["2"] == alone["networks"][0]["mean_latency_s"]
    assert not [key for key in metrics if "goods" in key]
    assert "goods" not in fluidb("compare", "mine.toml").stdout
