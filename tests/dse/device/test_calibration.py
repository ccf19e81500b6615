"""Calibration: constants that made the times are found, none is better, and what a table cannot tell is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import DATA, Run, lines
from fluidb.dse.device.alternatives import nearer
from fluidb.dse.device.calibration import calibrate
from fluidb.dse.device.engine import Needs, batch_times, needs, tabulate_engine
from fluidb.dse.device.errors import Bound
from fluidb.dse.device.fit import CONSTANTS, FINE, TimedRows, alike
from fluidb.dse.device.measurements import SHAPE, Measurement, read_measurements
from fluidb.models.loader import read_network_file
from fluidb.models.works import LayerWork
from fluidb.platforms import load_platform
from fluidb.platforms.engine import Engine
from fluidb.platforms.writer import platform_text
from hypothesis import given, settings
from hypothesis import strategies as st

NETWORKS = ["resnet18", "mobilenet_v1", "vgg16", "bert_base", "inception_v3", "alexnet"]
TRUE: dict[str, Any] = {"effective_gb_s": 5.5, "not_hidden": 0.25, "layer_s": 2e-5, "inference_s": 4e-4}
START = {"schema": "fluidb.engine/1", "name": "e", "title": "e", "pixels": 1, "input_channels": 1, "output_channels": 1}
ONE = Engine.read(START | {"clock_mhz": 1.0, "word_bits": 8, "bandwidth_gb_s": 1.0}, Path("e.toml"))


def kv260(**keys: Any) -> Engine:
    return load_platform("dpu-b4096-kv260", kind=Engine).model_copy(update=CONSTANTS | keys)


def row_of(
    network: str, seconds: float, cycles: list[float], moved: list[float], layer: str | None = None
) -> Measurement:
    work = LayerWork("w", 1, in_head=False, gemm=None, window=(1, 1), stride=(1, 1), line=1, words=1)
    return Measurement(
        network, layer, seconds, Needs([work] * len(cycles), np.array(cycles), np.array(moved), np.zeros(len(moved)))
    )


def predicted(
    row: Measurement, gb_s: float, not_hidden: float, layer_s: float, inference_s: float, mhz: float = 1.0
) -> float:
    total = inference_s if row.layer is None else 0.0
    for cycles, moved in zip(row.needs.cycles, row.needs.bytes, strict=True):
        computing, moving = cycles / (1e6 * mhz), moved / (1e9 * gb_s)
        total += max(computing, moving) + not_hidden * min(computing, moving) + layer_s
    return total


def test_the_constants_that_made_a_table_are_found(tmp_path: Path) -> None:
    """Times of whole networks and of two layers, made by an engine with known constants."""
    made = kv260(**TRUE)
    lines = ["network,layer,latency_ms"]
    for network in NETWORKS:
        file, path = read_network_file(network)
        table = tabulate_engine(file.model_copy(update={"exits": []}), path, made)
        lines.append(f"{network},,{1e3 * sum(use.time_s[0] for use in table.layers)!r}")
        if network == "vgg16":
            lines += [f"vgg16,{use.name},{1e3 * use.time_s[0]!r}" for use in table.layers if use.name == "classifier.3"]
    (tmp_path / "m.csv").write_text("\n".join(lines))
    engine = kv260(effective_gb_s=None)
    calibration = calibrate(engine, read_measurements(tmp_path / "m.csv", engine), ["alexnet"])
    for name, value in TRUE.items():
        assert getattr(calibration.engine, name) == pytest.approx(value, rel=2e-3), name
    assert calibration.alike == []
    assert len(calibration.errors(held_out=True)) == 1
    assert abs(np.append(calibration.errors(held_out=True), calibration.errors(held_out=False))).max() < 1e-3
    assert (calibration.error, calibration.engine.measured) == (None, "not known")  # from one network
    assert not calibration.engine.unsourced
    every = calibrate(engine, read_measurements(tmp_path / "m.csv", engine), keep=["not_hidden"])
    assert every.error is not None
    assert (every.error.networks, every.engine.measured) == (len(NETWORKS), [every.error.low, every.error.high])
    for network in NETWORKS[:2]:  # each is predicted as if it alone had been held out
        alone = calibrate(engine, read_measurements(tmp_path / "m.csv", engine), [network], ["not_hidden"])
        of_it = [row for row in every.left_out if row.network == network]
        assert of_it == [row for row in alone.rows if row.held_out]


def huber(ratio: float) -> float:
    """The loss of one row."""
    size = abs(np.log(ratio))
    return float(size**2 / 0.1 if size < 0.05 else size - 0.025)


CELLS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**9)), min_size=1, max_size=4)


@settings(max_examples=5)
@given(st.lists(st.tuples(CELLS, st.booleans()), min_size=6, max_size=12), st.integers(0, 2**31))
def test_no_other_constants_are_better(cells: list[tuple[list[tuple[int, int]], bool]], seed: int) -> None:
    """On times with noise and a gross error: against those that made them, random ones, and changes of those found."""
    draw = np.random.default_rng(seed)
    true = [10 ** draw.uniform(-1.5, 0), draw.random(), *draw.exponential(0.3, 2), 10 ** draw.uniform(-1, 0)]
    noise = np.exp(draw.normal(0, 0.1, len(cells))) * np.where(np.arange(len(cells)) == 0, 10, 1)
    rows = []
    for (parts, of_layer), factor in zip(cells, noise, strict=True):
        row = row_of("n", 1.0, [c for c, _ in parts], [m for _, m in parts], "w" if of_layer else None)
        rows.append(row._replace(seconds=factor * predicted(row, *true)))
    engine = TimedRows(rows, ONE).fitted([*CONSTANTS])

    def loss(constants: list[float]) -> float:
        return sum(huber(predicted(row, *constants) / row.seconds) for row in rows)

    best = [engine.effective_gb_s or 1.0, engine.not_hidden, engine.layer_s, engine.inference_s]
    best.append(engine.effective_mhz or 1.0)
    least = loss(best)
    tried = [true]
    tried += [
        [10 ** draw.uniform(-3, 0), draw.random(), *draw.exponential(1.0, 2), 10 ** draw.uniform(-2, 0)]
        for _ in range(300)
    ]
    for place in range(1, 4):  # the rates have valleys between the values that are tried
        for factor in (0.9, 1.1):
            tried.append([value * (factor if at == place else 1) for at, value in enumerate(best)])
            tried[-1][1] = min(tried[-1][1], 1.0)
    assert all(loss(constants) >= least * (1 - 2e-2) - 1e-3 for constants in tried)


@pytest.mark.parametrize("times", [10.0, 0.1])
def test_gross_errors_hardly_move_the_constants(times: float) -> None:
    """Every hundredth row ten times too long or too short: least squares would make other constants."""
    draw = np.random.default_rng(5)
    rows = []
    for at in range(400):
        row = row_of("n", 1.0, [10 ** draw.uniform(4, 7)], [10 ** draw.uniform(7, 10)], "w")
        factor = np.exp(draw.normal(0, 0.03)) * (times if at % 100 == 50 else 1)
        rows.append(row._replace(seconds=factor * predicted(row, 0.5, 0.3, 0.05, 0.0)))
    engine = TimedRows(rows, ONE).fitted(["effective_gb_s", "not_hidden", "layer_s"])
    assert engine.effective_gb_s == pytest.approx(0.5, rel=0.02)
    assert engine.not_hidden == pytest.approx(0.3, abs=0.02)
    assert engine.layer_s == pytest.approx(0.05, rel=0.05)


def test_causes_and_what_is_kept() -> None:
    """At 1 MHz and 1 GB/s: 1 s of computing, 1 s of moving, and nothing but a start."""
    rows = [
        row_of("a", 2.5, [1e6, 1e6], [1.0, 1.0]), row_of("b", 1.5, [1.0], [1e9]), row_of("c", 0.5, [1.0], [1.0]),
        row_of("d", 5.0, [3e6], [1.0]),
    ]  # fmt: skip
    stated = ONE.model_copy(update={"inference_s": 0.5})
    calibration = calibrate(stated, rows, ["d"], ["inference_s"])
    assert [row.bound for row in calibration.rows] == [Bound.COMPUTE, Bound.MEMORY, Bound.START_UP, Bound.COMPUTE]
    assert [row.held_out for row in calibration.rows] == [False, False, False, True]
    assert calibration.engine.inference_s == 0.5
    assert calibration.earned.constants == []  # the peaks and the stated start say it all
    assert abs(calibration.errors(held_out=False)).max() < 1e-3
    assert calibration.errors(held_out=True, bound=Bound.MEMORY).size == 0
    assert set(calibration.engine.sources) == {"measured_error"}


def test_constants_that_a_table_cannot_tell_apart() -> None:
    """Equal numbers of layers: a layer or an inference. All computing: nothing on bandwidth."""
    rows = [row_of("n", 1.1 * size, [size * 1e6], [size * 5e8]) for size in (1, 2, 3, 4, 5)]
    free = [name for name in CONSTANTS if name != "effective_mhz"]

    def groups(rows: list[Measurement]) -> list[list[str]]:
        return alike(table := TimedRows(rows, ONE), table.fitted(free), free)

    assert ["layer_s", "inference_s"] in groups(rows)
    assert groups([row_of("n", 2.0, [1e6], [5e8])] * 4) == [free[:1], free[1:]]  # the peak is fast enough
    idle = [row_of("n", 1.1 * size, [size * 1e6] * size, [0.0] * size) for size in (1, 2, 3, 4, 5)]
    assert groups(idle)[:2] == [["effective_gb_s"], ["not_hidden"]]


@pytest.mark.parametrize("free", [["effective_mhz"], ["effective_gb_s", "effective_mhz"]])
def test_a_rate_that_no_row_needs_stays_at_its_peak(free: list[str]) -> None:
    """All rows move, at half the peak where that may be fitted: a slower clock would predict the same times.

    Beside a slower memory the clock is within one of the ratios that are tried.
    """
    share = 0.5 if "effective_gb_s" in free else 1.0
    rows = [row_of("n", size / share, [size * 1e3], [size * 1e9]) for size in (1, 2, 3, 4)]
    engine = TimedRows(rows, ONE).fitted(free)
    assert engine.bytes_per_s == pytest.approx(1e9 * share)
    assert 10 ** (-1 / FINE.decade) < engine.cycles_per_s / 1e6 <= 1


def held_out_errors(path: Path) -> list[float]:
    """Mean errors of one network of SCALE-Sim, with all constants fitted to the others, and with all but the clock."""
    engine = load_platform(path, kind=Engine)
    rows = read_measurements(DATA / "scalesim" / "cycles.csv", engine)
    fitted, held = (
        TimedRows([row for row in rows if (row.network == "ds_mobilenet") == away], engine) for away in (False, True)
    )
    nearest = [fitted.fitted([name for name in CONSTANTS if name != kept]) for kept in ("", "effective_mhz")]
    return [float(abs(held.shares(near, held.every) - 1).mean()) for near in nearest]


@pytest.mark.parametrize(("name", "shape", "fill"), [("os-16", (16, 1, 16), 30), ("ws-16", (1, 16, 16), 46)])
def test_arrays_of_scale_sim_are_described(
    fluidb: Run, tmp_path: Path, name: str, shape: tuple[int, ...], fill: int
) -> None:
    """Cycles of SCALE-Sim 3.0: rows + columns - 2 for a tile that fills, which is proposed where it is not stated."""
    keys = dict(zip(("pixels", "input_channels", "output_channels"), shape, strict=True))
    stated = START | keys | {"name": name, "clock_mhz": 1000.0, "word_bits": 8, "bandwidth_gb_s": 64.0}
    records = {}
    for cycles in (0, fill):
        engine = Engine.read(stated | {"fill_cycles": cycles}, Path("e.toml"))
        (tmp_path / f"{cycles}.toml").write_text(platform_text(engine))
        done = fluidb(
            "calibrate", f"{cycles}.toml", DATA / "scalesim" / "cycles.csv", "--hold-out", "ds_mobilenet", "--json"
        )
        records[cycles] = json.loads(done.stdout)
        assert done.returncode == int(records[cycles]["worse_than_none"]), done.stderr
    found, without = records[fill], records[0]
    assert not found["worse_than_none"]
    assert [found["platform"][key] for key in CONSTANTS] == [*CONSTANTS.values()]
    held = {
        cycles: next(error for error in record["errors"] if error["rows"] == "held out")
        for cycles, record in records.items()
    }
    assert held[fill]["mean"] < 5e-3
    assert max(error["worst"] for error in found["errors"]) < 0.03
    assert abs(held[fill]["total"]) < 5e-3
    assert found["nearer"] is None
    assert min(held_out_errors(tmp_path / "0.toml")) > 0.5
    assert without["nearer"]["changes"] == {"fill_cycles": 32}
    (near,) = [
        error["mean"] for error in without["nearer"]["errors"] if (error["rows"], error["bound"]) == ("held out", None)
    ]
    assert near < held[0]["mean"] / 3
    text = fluidb("calibrate", "0.toml", DATA / "scalesim" / "cycles.csv").stdout
    assert "fill_cycles = 32: mean error fitted" in text


def test_properties_that_a_table_shows_are_proposed_and_not_taken() -> None:
    """Pixels in a line and channels of one position, of an engine that states neither; few rows propose nothing."""
    true = kv260(**TRUE | {"inference_s": 0.0}, input_channels=12, pixel_tiles="line", inner_tiles="position")
    draw = np.random.default_rng(2)
    rows, stated = [], kv260(input_channels=12, pixel_tiles="map", inner_tiles="window")
    for network in NETWORKS:
        file, path = read_network_file(network)
        need, other = (needs(file.model_copy(update={"exits": []}), path, engine) for engine in (true, stated))
        for at, time_s in enumerate(batch_times(need, true) * np.exp(draw.normal(0, 0.03, len(need.works)))):
            rows.append(Measurement(network, need.works[at].name, float(time_s), other.of_layer(at)))
    held = ["resnet18", "mobilenet_v1"]
    calibration = calibrate(stated, rows, held)
    proposal = nearer(calibration, rows, held)
    assert proposal is not None
    assert proposal.changes == {"pixel_tiles": "line", "inner_tiles": "position"}
    assert abs(proposal.calibration.errors(held_out=True)).mean() < 0.04
    assert (calibration.engine.pixel_tiles, calibration.engine.inner_tiles) == ("map", "window")
    few = [row for row in rows if row.network == "alexnet"]
    assert nearer(calibrate(stated, few), few) is None


BAD = {
    "no such network": ("network,latency_ms\nresnet5,1", "m.csv: line 2: network: unknown network"),
    "no such layer": ("network,layer,latency_ms\nvgg16,feature,1", "m.csv: line 2: layer: expected a layer of vgg16"),
    "layers of another tool": (
        "network,layer,latency_ms\nvgg16,a,1\nvgg16,b,1\nvgg16,features.0,1",
        'found "a"; the first is features.0; 1 more rows of vgg16 have no layer of it',
    ),
    "cycles without a clock": ("network,cycles\nvgg16,1e9", "m.csv: line 2: clock_mhz: expected the clock"),
    "a negative time": ("network,latency_ms\nvgg16,-3", "m.csv: line 2: latency_ms: expected more than 0"),
    "a time that no clock shows": (
        "network,latency_ms\nvgg16,1e-300\nalexnet,1",
        "line 2: latency_ms: expected a time",
    ),
    "microseconds as milliseconds": (
        "network,latency_ms\nvgg16,52000\nresnet50,13800",
        "m.csv: expected times between 0.0333333 and 300 of what products and transfers take at the peaks, found",
    ),
    "half a shape": (
        "network,layer,input_height,latency_ms\nn,a,5,1",
        "line 2: expected layer and all of input_height, input_width, input_channels, output_channels",
    ),
    "no whole groups": (
        "network,layer,input_height,input_width,input_channels,output_channels,groups,latency_ms\nn,a,5,5,3,4,2,1",
        "line 2: groups: expected a divisor of both channels, found 2",
    ),
    "a window beyond the map": (
        "network,layer,input_height,input_width,input_channels,output_channels,kernel_width,latency_ms\nn,a,5,5,3,4,7,1",
        "line 2: kernel_height, kernel_width: expected a window within the padded map",
    ),
    "both": (
        "network,latency_ms,cycles\nvgg16,1,1",
        "line 2: latency_ms, latency_us, cycles: expected one of them, found latency_ms and cycles",
    ),
    "too few rows": ("network,latency_ms\nvgg16,1", "m.csv: expected at least 2 rows to fit, so that each"),
    "a cell too many": ("network,latency_ms\nvgg16,1,5", "m.csv: line 2: expected 2 values, found 3"),
    "a cell too few": (
        "network,latency_ms\nvgg16",
        "line 2: latency_ms, latency_us, cycles: expected one of them, found none",
    ),
    "a column twice": ("network,cycles,cycles\nvgg16,1,2", "m.csv: line 1: expected every column once, found cycles"),
    "no rows": ("network,latency_ms\n", "m.csv: expected rows of dpu-b4096-kv260, found none"),
    "a stranger in many rows": ("network,layer,latency_ms\nx,a,1\nx,b,1\nx,c,1", "line 2: network: unknown network"),
    "of another": (
        "platform,network,latency_ms\nx,vgg16,1",
        "m.csv: expected rows of dpu-b4096-kv260, found rows of x",
    ),
    "no times": (
        "network,ms\nvgg16,1",
        "m.csv: line 1: expected the columns network, and latency_ms, latency_us, or cycles",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_one_clear_line(fluidb: Run, tmp_path: Path, case: str) -> None:
    text, part = BAD[case]
    (tmp_path / "m.csv").write_text(text)
    (line,) = lines(fluidb("calibrate", "dpu-b4096-kv260", "m.csv", "-o", "new.toml"))
    assert part in line
    assert not (tmp_path / "new.toml").exists()


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--hold-out", "resnet"], "--hold-out: expected networks of the table"),
        (["--keep", "bandwidth"], "--keep: expected some of effective_gb_s"),
    ],
)
def test_bad_options_are_one_clear_line(fluidb: Run, tmp_path: Path, options: list[str], part: str) -> None:
    (tmp_path / "m.csv").write_text("network,latency_ms\nvgg16,50\n")
    (line,) = lines(fluidb("calibrate", "dpu-b4096-kv260", "m.csv", *options))
    assert part in line


def test_the_command_writes_an_engine_that_serves(fluidb: Run, tmp_path: Path) -> None:
    """Cycles at a clock are the same times; what is written predicts what was printed."""
    rows = {"resnet18": 5.3, "vgg16": 52.0, "mobilenet_v1": 3.2, "mobilenet_v2": 3.9}
    lines = [f"{name},{ms * 1e5},100" for name, ms in rows.items()]
    (tmp_path / "m.csv").write_text("\n".join(["network,cycles,clock_mhz", *lines]))
    given = ["calibrate", "dpu-b4096-kv260", "m.csv", "--hold-out", "mobilenet_v2", "--keep", "not_hidden,inference_s"]
    done = fluidb(*given, "-o", "new.toml", "--plot", "new.svg", "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert [row["measured_s"] for row in printed["rows"]] == pytest.approx([ms / 1e3 for ms in rows.values()])
    assert (tmp_path / "new.svg").read_text().count("held out") == 1
    engine = load_platform(str(tmp_path / "new.toml"), kind=Engine)
    assert engine.model_dump(mode="json", exclude={"schema_"}) == printed["platform"]
    for row in printed["rows"]:
        file, path = read_network_file(row["network"])
        table = tabulate_engine(file.model_copy(update={"exits": []}), path, engine)
        assert sum(use.time_s[0] for use in table.layers) == pytest.approx(row["predicted_s"])
    other = tmp_path / "us.csv"
    other.write_text("\n".join(["network,latency_us", *(f"{name},{ms * 1e3}" for name, ms in rows.items())]))
    record = json.loads(fluidb(*given[:2], "us.csv", *given[3:], "--json").stdout)
    assert [row["error"] for row in record["rows"]] == pytest.approx(
        [row["error"] for row in printed["rows"]], abs=1e-9
    )
    again = fluidb(*given, "-o", "new.toml")
    assert again.returncode == 2
    assert "held out" in fluidb(*given).stdout


def test_tables_by_layer_of_several_arrays_give_back_their_constants(fluidb: Run, tmp_path: Path) -> None:
    """Cycles of all layers with noise of 5 %, as Excel writes them: sums by network are nearer than layers."""
    draw = np.random.default_rng(3)
    arrays = {
        "a": (1, 16, 16, 3.0, 0.3),
        "b": (8, 16, 16, 5.0, 0.1),
        "c": (32, 32, 1, 1.5, 0.5),
        "d": (4, 8, 12, 6.0, 0.0),
    }
    lines = ["platform,network,layer,cycles,clock_mhz"]
    for name, (*shape, gb_s, not_hidden) in arrays.items():
        keys = dict(zip(("pixels", "input_channels", "output_channels"), shape, strict=True))
        engine = Engine.read(START | keys | {"name": name, "clock_mhz": 250.0, "word_bits": 8, "bandwidth_gb_s": 12.8},
                             Path("e.toml"))  # fmt: skip
        (tmp_path / f"{name}.toml").write_text(platform_text(engine))
        made = engine.model_copy(update={"effective_gb_s": gb_s, "not_hidden": not_hidden, "layer_s": 1e-5})
        for network in ("resnet18", "vgg16", "mobilenet_v1", "inception_v3", "mobilenet_v2"):
            need = needs(*read_network_file(network), made)
            for work, time_s in zip(need.works, batch_times(need, made), strict=True):
                if not work.in_head:
                    cycles = float(time_s * engine.clock_hz * np.exp(draw.normal(0, 0.05)))
                    lines.append(f"{name},{network},{work.name},{cycles!r},250")
    (tmp_path / "layers.csv").write_text("\ufeff" + "\r\n".join(lines))
    for name, (*_, gb_s, not_hidden) in arrays.items():
        done = fluidb("calibrate", f"{name}.toml", "layers.csv", "--hold-out", "inception_v3,mobilenet_v2", "--json")
        assert done.returncode == 0, done.stderr
        record = json.loads(done.stdout)
        found, errors = record["platform"], {(error["rows"], error["bound"]): error for error in record["errors"]}
        assert found["effective_gb_s"] == pytest.approx(gb_s, rel=0.1)
        assert found["not_hidden"] == pytest.approx(not_hidden, abs=0.1)
        assert (record["alike"], found["inference_s"], found["effective_mhz"]) == ([], 0.0, None)
        assert errors["held out", None]["mean"] < 0.05
        assert abs(errors["held out", None]["total"]) < 0.02
        sums = []
        for network in ("inception_v3", "mobilenet_v2"):
            rows = [row for row in record["rows"] if row["network"] == network]
            sums.append(sum(row["measured_s"] for row in rows) / sum(row["predicted_s"] for row in rows))
        assert (record["error"], found["measured_error"]) == (None, "not known")  # two networks
        assert sums == pytest.approx([1, 1], abs=0.02)
        assert errors["held out", None]["count"] == sum(
            errors["held out", bound]["count"] for bound in Bound if ("held out", bound) in errors
        )
    text = fluidb("calibrate", "a.toml", "layers.csv", "--hold-out", "mobilenet_v2").stdout
    line = next(line for line in text.splitlines() if line.startswith("vgg16"))
    assert line.split()[1:3] == ["21", "layers"]
    assert "too fast" not in text


def test_times_shorter_than_the_products_are_pointed_at(fluidb: Run, tmp_path: Path) -> None:
    """Seconds in the column of milliseconds."""
    (tmp_path / "m.csv").write_text(
        "network,latency_ms\nvgg16,.05\nvgg16,.06\nresnet50,.013\nresnet18,5\nmobilenet_v1,3\nresnet34,9\n"
    )
    text = fluidb("calibrate", "dpu-b4096-kv260", "m.csv").stdout
    told = "too fast vgg16, resnet50: they take less time than products or transfers alone; check unit, clock"
    assert told in " ".join(text.split())


def rows_made_by(made: Engine, networks: list[str]) -> list[Measurement]:
    rows = []
    for network in networks:
        file, path = read_network_file(network)
        need = needs(file.model_copy(update={"exits": []}), path, made)
        rows.append(Measurement(network, None, float(batch_times(need, made).sum()), need))
    return rows


@pytest.mark.parametrize(
    ("true", "at_bounds"),
    [
        ({"effective_mhz": 120.0}, []),
        ({"effective_gb_s": 5.5, "not_hidden": 1.0}, ["not_hidden"]),
        ({"effective_mhz": 200.0, "effective_gb_s": 6.0, "layer_s": 3e-5}, []),
        ({}, []),
    ],
)
def test_only_constants_that_earn_their_place_are_kept(true: dict[str, float], at_bounds: list[str]) -> None:
    """The constants that made the times, a slower clock among them, and no others; a bound that is reached is said."""
    calibration = calibrate(kv260(), rows_made_by(kv260(**true), NETWORKS))
    assert set(calibration.earned.constants) == true.keys()
    assert [getattr(calibration.engine, name) for name in true] == pytest.approx([*true.values()], rel=2e-3)
    assert calibration.at_bounds == at_bounds
    assert calibration.earned.mean < 1e-3
    assert calibration.every is not None
    assert calibration.every.mean < 1e-2
    peak = np.mean(
        [abs(row.error) for row in calibrate(kv260(), rows_made_by(kv260(**true), NETWORKS), keep=CONSTANTS).rows]
    )
    assert calibration.without.mean == pytest.approx(peak)


def test_constants_that_are_worse_than_none_are_not_written(fluidb: Run, tmp_path: Path) -> None:
    """Fitted networks run at half the clock, and the one held out at the whole."""
    slow, fast = rows_made_by(kv260(effective_mhz=150.0), NETWORKS[:4]), rows_made_by(kv260(), NETWORKS[4:5])
    (tmp_path / "e.toml").write_text(platform_text(kv260()))
    lines = [f"{row.network},{1e3 * row.seconds!r}" for row in [*slow, *fast]]
    (tmp_path / "m.csv").write_text("\n".join(["network,latency_ms", *lines]))
    given = ["calibrate", "e.toml", "m.csv", "--hold-out", NETWORKS[4], "-o", "new.toml"]
    done = fluidb(*given)
    assert (done.returncode, (tmp_path / "new.toml").exists()) == (1, False)
    assert "and by 0.0 % without constants; hold out others, or state --anyway" in " ".join(done.stdout.split())
    record = json.loads(fluidb(*given, "--anyway", "--json").stdout)
    assert record["worse_than_none"]
    assert record["compared"]["kept"]["constants"] == ["effective_mhz"]
    assert load_platform(str(tmp_path / "new.toml"), kind=Engine).effective_mhz == pytest.approx(150, rel=1e-3)


def test_a_layer_may_state_its_sizes(tmp_path: Path) -> None:
    """Rows with the sizes of layers of two networks need what the networks' own layers need."""
    sizes = [*SHAPE, "kernel_height", "kernel_width", "stride", "padding", "groups"]
    engine, lines = kv260(), [f"network,layer,latency_us,{','.join(sizes)}"]
    expected = []
    for network in ("vgg16", "mobilenet_v2"):
        file, path = read_network_file(network)
        need = needs(file.model_copy(update={"exits": []}), path, engine)
        for at, work in enumerate(need.works):
            if work.gemm is None:
                continue
            gemm, (height, width), stride = work.gemm, work.window, work.stride[0]
            channels = gemm.P // (height * width) * gemm.groups
            lines_of = gemm.R // work.line
            side = work.line * stride if gemm.R > 1 else 1
            values = side * (lines_of > 1) or 1, side, channels, gemm.C * gemm.groups, height, width, stride
            lines.append(f"{network},{work.name},100,{','.join(map(str, values))},{height // 2},{gemm.groups}")
            expected.append((need.cycles[at], need.bytes[at]))
    (tmp_path / "m.csv").write_text("\n".join(lines))
    rows = read_measurements(tmp_path / "m.csv", engine)
    assert np.array([(row.needs.cycles[0], row.needs.bytes[0]) for row in rows]) == pytest.approx(np.array(expected))


def test_many_times_of_one_thing_become_few_rows(tmp_path: Path) -> None:
    """They have the mean logarithm of all and the same number; what else the file says stays."""
    draw = np.random.default_rng(4)
    times = np.exp(draw.normal(0, 0.1, 500))
    lines = [f"vgg16,{time!r}" for time in times.tolist()]
    lines[100] = f"vgg16,,{1e3 * float(times[100])!r}"  # of another unit
    lines = [*lines[:250], "alexnet,3", *lines[250:], "alexnet,3"]
    (tmp_path / "m.csv").write_text("\n".join(["network,latency_ms,latency_us", *lines]))
    rows = read_measurements(tmp_path / "m.csv", kv260())
    assert [row.seconds for row in rows if row.network == "alexnet"] == [3e-3, 3e-3]
    many = [row for row in rows if row.network == "vgg16"]
    assert len(many) < 10
    assert sum(row.repeats for row in many) == 500
    mean = np.average(np.log([1e3 * row.seconds for row in many]), weights=[row.repeats for row in many])
    assert mean == pytest.approx(np.log(times).mean())
    assert [row.seconds for row in many] == sorted(row.seconds for row in many)


def test_an_engine_is_checked_as_it_is(fluidb: Run, tmp_path: Path) -> None:
    """Nothing is fitted, and the error is of all networks; layers are held out by name."""
    rows = [row._replace(seconds=1.1 * row.seconds) for row in rows_made_by(kv260(effective_gb_s=6.0), NETWORKS)]
    engine = kv260(effective_gb_s=6.0)
    (tmp_path / "e.toml").write_text(platform_text(engine))
    lines = [f"{row.network},{1e3 * row.seconds!r}" for row in rows]
    (tmp_path / "m.csv").write_text("\n".join(["network,latency_ms", *lines]))
    record = json.loads(fluidb("calibrate", "e.toml", "m.csv", "--check", "-o", "new.toml", "--json").stdout)
    assert (record["platform"]["effective_gb_s"], record["compared"]["kept"]["constants"]) == (6.0, [])
    assert [record["error"]["low"], record["error"]["high"]] == pytest.approx([1.1, 1.1], rel=1e-3)
    assert load_platform(str(tmp_path / "new.toml"), kind=Engine).measured == pytest.approx([1.1, 1.1], rel=1e-3)
    assert "the engine as it is" in fluidb("calibrate", "e.toml", "m.csv", "--check").stdout
    layers = [row._replace(layer=f"l{at}") for at, row in enumerate(rows)]
    calibration = calibrate(engine, layers, [f"{NETWORKS[1]}:l1"], CONSTANTS.keys() - {"effective_gb_s"})
    assert [row.held_out for row in calibration.rows] == [False, True, False, False, False, False]
