"""Latency tables of devices: what they hold, and every serving command on them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from builders import POCKET, ROOT, TINY, Run, call_fluidb, lines
from fluidb.dse.device.tabulate import tabulate_device, write_device
from fluidb.formats import InputError, read_table, write_table
from fluidb.models import Exit, Gemm, Layer, Network, Shape, load_network
from fluidb.platforms import Device, load_platform
from fluidb.platforms.device import AnalyticDevice
from fluidb.serving import find_policy, least_violations, simulate, summarise
from fluidb.serving.policies import FOR_ONE_NETWORK
from fluidb.tables import LatencyTable, read_latency
from fluidb.traffic import Trace, prepare
from hypothesis import given
from hypothesis import strategies as st

SHIPPED = ["rtx-2080-ti", "numpy-x86"]
MAP = Shape(1, 1, 1)


def network_of(stages: list[list[int]], memory_words: int = 0) -> Network:
    """A stage for each list of MACs, each opened and closed by a layer that only moves words, if there are any."""
    layers = []
    for stage, macs in enumerate(stages, 1):
        layers += [Layer(name=f"p{stage}.{i}", stage=stage, gemm=Gemm(m, 1, 1), shape=MAP) for i, m in enumerate(macs)]
        if memory_words:
            moved = Layer(name=f"m{stage}", stage=stage, gemm=None, memory_words=memory_words, shape=MAP)
            layers = [*layers[: -len(macs)], moved, *layers[-len(macs) :], moved]
    exits = [Exit(name=f"e{stage}", rate=1 / len(stages)) for stage in range(1, len(stages) + 1)]
    return Network(name="net", title="net", layers=layers, exits=exits)


def model_of(**keys: object) -> Device:
    stated = {"name": "dev", "title": "dev", "b_max": 4, "floor_s": 0.010, "slope_s_per_mac": 0.001}
    device: Device = AnalyticDevice.read(stated | keys, Path("dev.toml"))
    return device


def test_a_table_worked_out_by_hand():
    """Floor 10 ms, 1 ms a MAC: 4 MACs pass the floor at b = 3, 20 MACs at once; words take 8 ms each at b = 1."""
    device = model_of(bandwidth_gb_s=1e-6, word_bits=64, gather_floor_s=0.002, gather_s_per_sample=0.001)
    table = tabulate_device(network_of([[4, 20], [2]], memory_words=1), device)
    one, two = [0.046, 0.082, 0.120, 0.160], [0.026, 0.042, 0.058, 0.074]
    assert table.array()[0, 1, 1:] == pytest.approx(one)
    assert table.array()[1, 2, 1:] == pytest.approx(two)
    assert table.array()[0, 2, 1:] == pytest.approx([a + b for a, b in zip(one, two, strict=True)])
    assert table.gather_s == pytest.approx(np.array([[0, 0.003, 0.004, 0.005, 0.006]] * 2))
    assert [(layer.name, layer.stage) for layer in table.layers] == [
        ("m1", 1), ("p1.0", 1), ("p1.1", 1), ("m2", 2), ("p2.0", 2)
    ]  # fmt: skip
    assert [layer.time_s[0] for layer in table.layers] == pytest.approx([0.008, 0.010, 0.028, 0.008, 0.018])
    assert (table.network, table.platform, table.b_max, table.lanes) == ("net", "dev", 4, 1)


def test_layers_that_only_move_data_take_no_time_without_a_bandwidth():
    table = tabulate_device(network_of([[4], [2]], memory_words=1), model_of(lanes=2, load_full=0.75))
    assert [layer.name for layer in table.layers] == ["p1.0", "p2.0"]
    assert (table.gather_s, table.lanes, table.load, table.speedup) == (None, 2, [0.0, *[0.75] * 4], 2 / 1.5)


def test_the_share_that_a_batch_takes_grows_with_its_size():
    """Two batches that take 0.5 each fit beside each other; where the smallest takes more, none do."""
    half = tabulate_device(network_of([[4]]), model_of(lanes=2, load_full=1.5, load_half_batch=2.0))
    assert half.load == pytest.approx([0.0, 0.5, 0.75, 0.9, 1.0])
    assert half.speedup == 2.0
    full = tabulate_device(network_of([[4]]), model_of(lanes=3, load_full=1.0))
    assert full.speedup == 1.0
    with pytest.raises(ValueError, match="load: expected 5 shares"):
        LatencyTable.model_validate(half.model_dump() | {"load": [0.0]})
    with pytest.raises(ValueError, match="load: expected if there are several lanes"):
        LatencyTable.model_validate(half.model_dump() | {"lanes": 1})


stages_of_macs = st.lists(st.lists(st.integers(1, 10**6), min_size=1, max_size=4), min_size=1, max_size=4)


@given(stages_of_macs, st.floats(0, 1e-3), st.floats(1e-9, 1e-3), st.integers(1, 16), st.integers(0, 9))
def test_more_samples_take_no_less_and_pairs_are_sums_of_stages(stages, floor_s, slope, b_max, words):
    device = model_of(b_max=b_max, floor_s=floor_s, slope_s_per_mac=slope, bandwidth_gb_s=0.1, word_bits=16)
    table = tabulate_device(network_of(stages, words), device)
    times = table.array()
    assert np.all(np.diff(times[..., 1:], axis=-1) >= 0)
    assert np.all(times[..., 1:] <= times[..., 1:2] * np.arange(1, b_max + 1) * (1 + 1e-12))
    for i in range(len(stages) + 1):
        for j in range(i + 1, len(stages) + 1):
            assert times[i, j] == pytest.approx(sum(times[k, k + 1] for k in range(i, j)), rel=1e-12)
    by_layer, by_stage = table.segments(by_layer=True), table.segments(by_layer=False)
    for stage in by_stage.stage:
        assert by_layer.time_s[0, by_layer.stage == stage].sum(axis=0) == pytest.approx(by_stage.time_s[0, stage - 1])


@given(stages_of_macs, st.sampled_from([None, 0.1]), st.sampled_from([None, 0.625]), st.sampled_from([None, 1e-4]))
def test_what_is_written_reads_back(tmp_path_factory, stages, bandwidth, load, gather_s):
    device = model_of(
        bandwidth_gb_s=bandwidth,
        word_bits=bandwidth and 16,
        lanes=2 if load else 1,
        load_full=load,
        gather_s_per_sample=gather_s,
    )
    table, path = tabulate_device(network_of(stages), device), tmp_path_factory.mktemp("tables") / "latency.json"
    write_table(table, path)
    assert read_latency(path.parent) == read_table(LatencyTable, path) == table
    written = json.loads(path.read_text())
    stated = [key in written for key in ("lanes", "load", "gather_s")]
    assert stated == [load is not None, load is not None, gather_s is not None]
    assert {"peak_macs_per_s", "macs"}.isdisjoint({*written, *written["layers"][0]})


def test_what_measures_this_machine_writes_a_table_of_times(tmp_path):
    """docs/your-own.md names the program; a device reads what it prints."""
    code = [sys.executable, str(ROOT / "benchmarks" / "measure.py"), TINY, "--b-max", "2", "--repetitions", "1"]
    printed = subprocess.run(code, capture_output=True, text=True, check=True).stdout
    network, file = load_network(TINY), tmp_path / "here.toml"
    (tmp_path / "here.csv").write_text(printed)
    name = json.dumps(network.name)
    keys = f'name = "here"\ntitle = "here"\ntable = "here.csv"\nnetwork = {name}\nstages = {len(network.exits)}\n'
    file.write_text(f'schema = "fluidb.device/1"\n{keys}[sources]\ntable = "here"\n')
    table = tabulate_device(network, load_platform(str(file), kind=Device))
    assert printed.count("\n") == 1 + 2 * len(network.exits)
    assert table.b_max == 2


def test_measured_times_are_those_of_one_network():
    table = tabulate_device(load_network("resnet50"), load_platform("numpy-x86", kind=Device))
    assert (table.layers, table.b_max) == ([], 8)
    assert np.all(np.diff(table.array()[0, -1]) > 0)
    assert len(table.segments(by_layer=True).stage) == 4
    with pytest.raises(InputError, match="whose times it has, resnet50 with 4 stages, found resnet50-backbone with 1"):
        tabulate_device(load_network("resnet50").backbone(), load_platform("numpy-x86", kind=Device))


@pytest.mark.parametrize("keys", [{"floor_s": 1e6, "slope_s_per_mac": 1.0}, {"slope_s_per_mac": 1.0}])
def test_a_pass_of_centuries_is_a_fault(keys):
    with pytest.raises(InputError, match="expected every stage of net to take time, and a pass at most 1e"):
        tabulate_device(network_of([[10**12]]), model_of(**keys))


def test_several_lanes_lower_what_no_scheduler_can_prevent():
    """Two batches side by side at 1.25 times their time: 1.6 times as much in a second."""
    trace = Trace(np.arange(40), np.repeat(np.arange(20) * 0.01, 2))
    bounds = []
    for lanes in ({}, {"lanes": 2, "load_full": 0.625}):
        table = tabulate_device(network_of([[1]]), model_of(b_max=1, **lanes))
        replay = simulate(table, prepare(trace, [1.0], slo_s=0.03), find_policy("fluid"))
        assert summarise(replay).utilisation is None
        bounds.append(least_violations(replay))
    assert bounds[0] > bounds[1] > 0


@pytest.fixture(scope="module", params=SHIPPED)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shipped device's table, and a trace beside it; not to be changed."""
    made = tmp_path_factory.mktemp("device")
    for arguments in (
        ["latency", "resnet50", request.param, "-o", "d"],
        ["trace", "poisson", "--rate", 4, "--count", 300, "--seed", 1, "-o", "t.csv"],
    ):
        done = call_fluidb(*arguments, cwd=made)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout
    sure = "0.3,0.5,0.9,0.9,0,1,1,1\n0.9,0.9,0.9,0.9,1,1,1,1\n"
    head = ",".join(f"{what}_{i}" for what in ("confidence", "correct") for i in (1, 2, 3, 4))
    (made / "s.csv").write_text(f"{head}\n{sure}")
    assert sorted(path.name for path in (made / "d").iterdir()) == ["decisions.json", "latency.json"]
    return made


@pytest.mark.parametrize("policy", ["serial", "adaptb", "lazy", "fluid", "fluid-slack", "pame"])
def test_serve_sim(folder: Path, tmp_path: Path, policy: str):
    common = ["serve-sim", "d", "--trace", "t.csv", "--slo", "2s", "--policy", policy]
    done = call_fluidb(*common, "--timeline", tmp_path / "timeline.json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    name = json.loads((folder / "d" / "latency.json").read_text())["platform"]
    assert f"where the MACs went  not known: the latency table of {name} states no causes" in done.stdout
    assert "device busy" in done.stdout
    assert "NPU" not in done.stdout
    content = json.loads(call_fluidb(*common, "--json", cwd=folder).stdout)
    assert (content["network"], content["platform"], content["utilisation"]) == ("resnet50", name, None)
    assert content["requests"] == sum(exit_["requests"] for exit_ in content["exits"]) == 300
    layers = policy == "lazy" and name == "rtx-2080-ti"  # asked after each layer, if the table has them
    assert (max(stage["segments"] for stage in content["stages"]) > 1) == layers
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert sum(event["name"] == "exit" for event in events) == 300


def test_thresholds_capacity_and_report(folder: Path, tmp_path: Path):
    done = call_fluidb(
        "thresholds", "d", "--trace", "t.csv", "--samples", "s.csv", "--slo", "2s",
        "--thresholds", "0.5,0.7,0.9", "--json", cwd=folder,
    )  # fmt: skip
    assert len(json.loads(done.stdout)["points"]) == 3
    least = ["--require", "mean <= 1s", "--count", 200, "--seeds", 2, "--json"]
    record = json.loads(call_fluidb("capacity", "d", "--slo", "2s", *least, cwd=folder).stdout)
    assert 0 < record["kept_per_s"] <= record["saturation_per_s"]
    page = tmp_path / "page.html"
    done = call_fluidb("report", "d", "-o", page, "--trace", "t.csv", "--slo", "2s", "--json", cwd=folder)
    (shown,) = json.loads(done.stdout)["designs"]
    assert (shown["network"], "T_R" in shown, len(shown["policies"])) == ("resnet50", False, len(FOR_ONE_NETWORK))
    text = page.read_text()
    assert "the latency table states no causes" in text
    assert "MACs made %" not in text
    assert call_fluidb("report", "d", "-o", tmp_path / "bare.html", cwd=folder).returncode == 0


@pytest.mark.parametrize(
    "command",
    [
        ["serve-sim", "d", "--trace", "t.csv", "--slo", "2s", "--require", "mac_share >= 5 %"],
        ["capacity", "d", "--slo", "2s", "--require", "mac_share <= 5 %"],
    ],
)
def test_a_share_of_macs_cannot_be_required(folder: Path, command: list[str]):
    (line,) = lines(call_fluidb(*command, cwd=folder))
    assert "expected a latency table that states where MACs go, found one that does not" in line


BAD: dict[str, tuple[list[str], str]] = {
    "no output": (["latency", TINY, "dev.toml"], "latency: a device expects --output, found none; add e.g. -o DIR"),
    "no device": (["latency", "d", "-o", "e"], "latency: --output and --plot need a device"),
    "a board": (["latency", TINY, POCKET, "-o", "e"], "expected a device, found a board; search an NPU for it"),
    "unknown device": (
        ["latency", TINY, "rtx-2080", "-o", "e"],
        'unknown platform "rtx-2080"; did you mean rtx',
    ),
    "unknown network": (["latency", "resnet5", "dev.toml", "-o", "e"], 'unknown network "resnet5"'),
    "measured for another": (
        ["latency", TINY, "numpy-x86", "-o", "e"],
        "the network whose times it has, resnet50 with 4 stages",
    ),
    "in the way": (["latency", TINY, "dev.toml", "-o", "mine"], "mine: output folder exists already"),
    "force spares strangers": (["latency", TINY, "dev.toml", "-o", "mine", "--force"], "holds no latency.json"),
    "no design": (
        ["fbcb", "made"],
        "made: expected the folder of a design for a board, found a latency table without one",
    ),
    "a table already": (["latency", "made"], "or serve what is there with `fluidb serve-sim made`"),
    "no folder": (["serve-sim", "e", "--trace", "t", "--slo", "1s"], "e: expected a folder with a latency table"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(fluidb: Run, tmp_path: Path, case: str):
    stated = '"fluidb.device/1"\nname = "dev"\ntitle = "dev"\nb_max = 2\nfloor_s = 1e-4\nslope_s_per_mac = 1e-9\n'
    (tmp_path / "dev.toml").write_text(f"schema = {stated}")
    (tmp_path / "mine").mkdir()
    device = load_platform(str(tmp_path / "dev.toml"), kind=Device)
    write_device(tabulate_device(load_network(TINY), device), tmp_path / "made")
    arguments, part = BAD[case]
    (line,) = lines(fluidb(*arguments))
    assert part in line
    assert not (tmp_path / "e").exists()


def test_force_replaces_an_earlier_table_only(fluidb: Run, tmp_path: Path, tiny_design: Path):
    arguments = ["latency", "resnet50", "rtx-2080-ti", "-o"]
    assert fluidb(*arguments, "d").returncode == 0
    kept = (tmp_path / "d" / "latency.json").read_bytes()
    assert fluidb(*arguments, "d").returncode == 2
    assert fluidb(*arguments, "d", "--force").returncode == 0
    assert (tmp_path / "d" / "latency.json").read_bytes() == kept
    done = fluidb(*arguments, tiny_design, "--force")
    assert (done.returncode, (tiny_design / "design.json").exists()) == (2, True)


def test_a_changed_byte_is_damage(fluidb: Run, tmp_path: Path):
    fluidb("latency", "resnet50", "numpy-x86", "-o", "d")
    path = tmp_path / "d" / "latency.json"
    path.write_bytes(path.read_bytes().replace(b"0.05", b"0.06", 1))
    done = fluidb("serve-sim", "d", "--trace", "t.csv", "--slo", "1s")
    assert (
        done.stderr
        == "fluidb: d/latency.json: damaged (its checksum does not fit); make it again with `fluidb latency`\n"
    )
