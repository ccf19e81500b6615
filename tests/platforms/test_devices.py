"""Devices: their two forms, the CSV of measured times, and faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import TINY, Run, edited, edits
from fluidb.formats import InputError
from fluidb.platforms import Described, Device, load_platform
from fluidb.platforms.measured import Measured
from hypothesis import given

ANALYTIC = """schema = "fluidb.device/1"
name = "small"
title = "A small device"
b_max = 4
floor_s = 1e-4
slope_s_per_mac = 1e-8
"""
MEASURED = """schema = "fluidb.device/1"
name = "mine"
title = "Measured"
table = "times.csv"
network = "tiny"
stages = 3
"""
TIMES = "stage,batch,seconds\n" + "".join(f"{i},{b},{1e-3 * (i + b):g}\n" for i in (1, 2, 3) for b in (1, 2))


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    (tmp_path / "mine.toml").write_text(MEASURED)
    (tmp_path / "times.csv").write_text(TIMES)
    return tmp_path / "mine.toml"


def faults(path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_platform(str(path), kind=Device)
    return [fault.removeprefix(f"{path.parent}/") for fault in caught.value.faults]


def test_times_by_stage_and_batch(measured: Path):
    found = load_platform(str(measured), kind=Measured)
    assert found.times_s[0] == [pytest.approx([1e-3 * (i + 1), 1e-3 * (i + 2)]) for i in (1, 2, 3)]
    assert (found.b_max, found.form, found.unsourced) == (2, "measured", ["table"])


def test_rows_in_any_order_beside_other_columns(measured: Path):
    header, *rows = TIMES.splitlines()
    again = [f"run7,{row}" for row in reversed(rows)]
    expected = load_platform(str(measured), kind=Measured).times_s[0]
    (measured.parent / "times.csv").write_text("\n".join([f"note,{header}", *again]))
    assert load_platform(str(measured), kind=Measured).times_s[0] == expected


BAD_TIMES = {
    "empty cell": (TIMES.replace("2,1,0.003", "2,1,"), ["times.csv: line 4: seconds: expected a number"]),
    "missing cell": (TIMES.replace("2,1,0.003", "2,1"), ["times.csv: line 4: seconds: expected"]),
    "no number": (TIMES.replace("2,1,0.003", "2,one,0.003"), ["times.csv: line 4: batch: expected a whole number"]),
    "not positive": (TIMES.replace("0.003", "0"), ["line 3: seconds: expected more than 0", "line 4: seconds"]),
    "endless": (TIMES.replace("2,1,0.003", "2,1,inf"), ["times.csv: line 4: seconds: expected a finite number"]),
    "batch of none": (TIMES.replace("2,1,", "2,0,"), ["line 4: batch: expected at least 1"]),
    "twice": (TIMES + "2,1,0.5\n", ["times.csv: line 8: stage 2, batch 1: expected one row, found a second"]),
    "row left out": (TIMES.replace("2,2,0.004\n", ""), ["times.csv: stage 2, batch 2: expected a row, found none"]),
    "stage too many": (TIMES + "4,1,0.5\n", ["line 8: stage: expected at most the 3 of the device, found 4"]),
    "no column": (
        TIMES.replace("seconds", "ms"),
        ["line 1: expected the columns stage, batch, seconds; found no seconds"],
    ),
    "nothing": ("", ["times.csv: line 1: expected the columns stage, batch, seconds; found no stage, batch, seconds"]),
    "no rows": ("stage,batch,seconds\n", [f"stage {i}, batch 1: expected a row, found none" for i in (1, 2, 3)]),
    "quote without end": (TIMES + '"4,1,0.5\n', ["line 7: expected CSV, found none (unexpected end of data)"]),
}


@pytest.mark.parametrize("case", BAD_TIMES)
def test_a_fault_of_measured_times_names_row_and_column(measured: Path, case: str):
    text, parts = BAD_TIMES[case]
    (measured.parent / "times.csv").write_text(text)
    found = faults(measured)
    assert len(found) == len(parts)
    for line, part in zip(found, parts, strict=True):
        assert part in line


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (("floor_s = 1e-4\n", ""), "floor_s: expected this key, found none"),
        (("1e-8", "0.0"), "slope_s_per_mac: expected at least"),
        (("b_max = 4", "b_max = 257"), "b_max: expected at most 256, found 257"),
        (("b_max", "bmax"), "bmax: unknown key; did you mean b_max?"),
        (("b_max", "lanes = 2\nb_max"), "lanes, load_full: expected load_full if there are several lanes, and only"),
        (("b_max", "load_full = 1.0\nb_max"), "lanes, load_full: expected load_full if there are several lanes"),
        (("b_max", "bandwidth_gb_s = 5.0\nb_max"), "bandwidth_gb_s, word_bits: expected both or neither"),
        (("device/1", "device/2"), "schema: expected 'fluidb.device/1', found \"fluidb.device/2\""),
    ],
)
def test_a_fault_of_a_model_names_its_key(tmp_path: Path, change: tuple[str, str], part: str):
    path = tmp_path / "small.toml"
    path.write_text(ANALYTIC.replace(*change))
    assert any(part in line for line in faults(path))


def test_a_table_that_is_not_there(tmp_path: Path):
    (tmp_path / "mine.toml").write_text(MEASURED)
    (line,) = faults(tmp_path / "mine.toml")
    assert "table: expected a CSV file of measured times, found none at" in line


@given(edits)
def test_no_bytes_of_measured_times_break_the_reader(tmp_path_factory: pytest.TempPathFactory, changes):
    folder = tmp_path_factory.getbasetemp()
    (folder / "mine.toml").write_text(MEASURED)
    (folder / "times.csv").write_bytes(edited(TIMES.encode(), changes))
    try:
        assert min(map(min, load_platform(str(folder / "mine.toml"), kind=Measured).times_s[0])) > 0
    except InputError as error:
        assert all(fault.startswith(f"{folder}/times.csv: ") for fault in error.faults)


def test_a_device_is_made_of_measured_times(fluidb: Run, measured: Path):
    done = fluidb("platforms", "import", "times.csv", "--network", TINY, "--name", "mine", "-o", "made.toml")
    assert (done.returncode, done.stderr) == (0, "")
    ours, made = (
        load_platform(str(measured), kind=Measured),
        load_platform(str(measured.with_name("made.toml")), kind=Measured),
    )
    assert (made.times_s[0], made.network, made.stages, made.name) == (ours.times_s[0], "tiny", 3, "mine")
    assert made.unsourced == []
    assert (
        "no faults; measured, b = 1..2, lanes: 1; a source for every number"
        in fluidb("platforms", "check", "made.toml").stdout
    )
    assert json.loads(fluidb("platforms", "show", "made.toml", "--json").stdout)["table"] == "times.csv"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["dse", TINY, "mine.toml"],
            "mine.toml: expected a board, found a device; make its",
        ),
        (["pareto", TINY, "mine.toml"], "mine.toml: expected a board, found a device"),
        (["codesign", TINY, "mine.toml", "--trace", "t.csv"], "mine.toml: expected a board, found a device"),
        (["compare", "s.toml"], "cases[0].platform: mine.toml: expected a board, found a device"),
        (["platforms", "import", "times.csv", "-o", "n.toml"], "import: expected --network with measured times"),
        (
            ["platforms", "import", "times.csv", "--network", "resnet50", "-o", "n.toml"],
            "times.csv: stage 4, batch 1: expected a row, found none",
        ),
    ],
)
def test_what_a_device_is_not_for_is_one_clear_line(fluidb: Run, measured: Path, arguments: list[str], expected: str):
    (measured.parent / "s.toml").write_text(
        'schema = "fluidb.scenario/1"\ntitle = "t"\nbaseline = "a"\nrequests = 9\nseeds = [1, 2]\n'
        '[[cases]]\nnetwork = "resnet50"\nplatform = "./mine.toml"\nrates = [9.0]\nslos = ["1s"]\n'
        '[[contenders]]\nname = "a"\npolicy = "fluid"\n'
    )
    done = fluidb(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr.splitlines()[0]


@pytest.mark.parametrize(("name", "kind"), [("zc706", "board"), ("rtx-2080-ti", "device"), ("numpy-x86", "device")])
def test_a_kind_is_known_by_its_schema(name: str, kind: str):
    assert load_platform(name, kind=Described).kind == kind
