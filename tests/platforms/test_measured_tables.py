"""Tables and boards of other tools: Triton's throughputs, ATHEENA's JSON, JSON and YAML as such."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from fluidb.formats import InputError
from fluidb.platforms import Board, load_platform
from fluidb.platforms.fpgaconvnet import import_platform
from fluidb.platforms.measured import import_times

PERF = "Concurrency,Inferences/Second,Client Send,p99 latency\n1,100,2,11\n4,250,2,17\n8,400,3,22\n"
MODEL = (
    "Model,Batch,Concurrency,Model Config Path,Throughput (infer/sec),p99 Latency (ms)\n"
    "r,1,1,a,100,10\nr,2,2,a,250,16\nr,1,4,a,200,16\nr,8,1,a,400,20\n"
)
BOARD = {"name": "zc706", "DSP": 900, "BRAM": 1090, "FF": 437200, "LUT": 218600, "freq": 150, "mem_bandwidth": 9.6}


@pytest.mark.parametrize("text", [PERF, MODEL])
def test_samples_in_flight_take_as_many_by_the_throughput(tmp_path: Path, text: str):
    """Little's law, a line between measured loads, and of equal loads the faster one."""
    (tmp_path / "t.csv").write_text(text)
    device = import_times(tmp_path / "t.csv", tmp_path / "d.toml", "net", 1)
    assert device.times_s[0][0] == pytest.approx([0.010, 0.012, 0.014, 0.016, 0.017, 0.018, 0.019, 0.020])
    assert "b samples in flight take b / throughput" in device.sources["table"]


FAULTS = {
    "several stages": (PERF, 2, "expected times of 2 stages, found a table of perf_analyzer"),
    "no single sample": (PERF.replace("\n1,100", "\n2,100"), 1, "expected a row with one sample in flight, found none"),
    "no number": (PERF.replace("250", "fast"), 1, 'line 3: Inferences/Second: expected a number above 0, found "fast"'),
    "several configurations": (MODEL.replace("2,2,a", "2,2,b"), 1, "expected one Model Config Path, found 2"),
    "another table": (
        "a,b\n1,2\n",
        1,
        "found no stage, batch, seconds; known: a board of fpgaConvNet (TOML) or ATHEENA (JSON), times of stages",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_one_clear_line(tmp_path: Path, case: str):
    text, stages, expected = FAULTS[case]
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        import_times(tmp_path / "t.csv", tmp_path / "d.toml", "net", stages)
    (line,) = caught.value.faults
    assert expected in line


def test_a_board_in_json_is_the_board_in_toml(tmp_path: Path):
    """As ATHEENA writes it, flat or with constraints, against the sections of newer files."""
    (tmp_path / "b.toml").write_text(
        '[device]\nname = "zc706"\n[resources]\nDSP = 900\nBRAM = 1090\nFF = 437200\nLUT = 218600\n'
        "[system]\nboard_frequency = 150.0\nmemory_bandwidth = 9.6\n"
    )
    nested = {key: BOARD[key] for key in ("name", "freq", "mem_bandwidth")}
    nested["constraints"] = {key: BOARD[key] for key in ("DSP", "BRAM", "FF", "LUT")}
    newer = import_platform(tmp_path / "b.toml")
    for content in (BOARD, nested):
        (tmp_path / "b.json").write_text(json.dumps(content))
        assert import_platform(tmp_path / "b.json").model_copy(update={"sources": newer.sources}) == newer


def test_a_board_without_a_name_gets_the_stated_one(tmp_path: Path):
    (tmp_path / "b.json").write_text(json.dumps({key: value for key, value in BOARD.items() if key != "name"}))
    assert import_platform(tmp_path / "b.json", name="mine").name == "mine"
    with pytest.raises(InputError, match="name: expected this key, found none"):
        import_platform(tmp_path / "b.json")


def test_json_and_yaml_are_said_to_be_no_toml(tmp_path: Path):
    for name, text, found in (("b.toml", json.dumps(BOARD), "JSON"), ("b.yaml", "dsps: 900\n", "YAML")):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=f"expected TOML, found {found}; write each key as KEY = VALUE"):
            load_platform(str(tmp_path / name), kind=Board)
    for name, text in (("no.yaml", "dsps: 900\n"), ("no.json", '{"a": 1}')):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=r"expected a board of fpgaConvNet .* or HAT \(CSV\); found"):
            import_platform(tmp_path / name)


@pytest.mark.parametrize("name", ["t.csv", "m.csv", "b.json"])
def test_no_damage_breaks_a_reader(tmp_path: Path, name: str):
    """One clear fault for each thing that is wrong, or a table."""
    rng, path = random.Random(1), tmp_path / name
    whole = {"t.csv": PERF, "m.csv": MODEL, "b.json": json.dumps(BOARD)}[name].encode()
    for _ in range(60):
        raw = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(raw))
            raw[place : place + rng.randint(0, 5)] = rng.choice(
                [b"", b"9", b"-", b"\xff", b"1e999", b",", b"\n", b'"', b"nan"]
            )
        path.write_bytes(raw)
        try:
            if name == "b.json":
                import_platform(path)
            else:
                import_times(path, tmp_path / "d.toml", "net", 1)
        except InputError as error:
            assert all(fault.startswith(f"{path}: ") and "\n" not in fault for fault in error.faults)
