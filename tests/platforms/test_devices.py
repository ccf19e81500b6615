"""Devices: their three forms, the CSV files of measured times, and faults."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from builders import TINY, Run, edited, edits, lines
from fluidb.formats import InputError
from fluidb.platforms import Device, Platform, load_platform
from fluidb.platforms.by_stage import StagedDevice
from fluidb.platforms.measured import MeasuredDevice
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
BY_STAGE = """schema = "fluidb.device/1"
name = "gpu"
title = "A GPU"
network = "tiny"
b_max = 4
widths = [4, 16]
gather_floor_s = 1e-3

[[groups]]
stages = 2
floor_s = 0.010
slope_s_per_sample = [{ seconds = 1e-3, power = 1 }, { seconds = 2e-3, power = 0.5 }]
check_s = 0.5e-3
check_s_per_sample = 1e-4
gather_s_per_sample = 1e-5

[[groups]]
floor_s = 0.002
slope_s_per_sample = 1e-3
gather_floor_s = 9.0
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
    platform = load_platform(str(measured), kind=MeasuredDevice)
    assert platform.times_s[0] == [pytest.approx([1e-3 * (i + 1), 1e-3 * (i + 2)]) for i in (1, 2, 3)]
    assert (platform.b_max, platform.form, platform.unsourced) == (2, "measured", ["table"])


def test_rows_in_any_order_beside_other_columns(measured: Path):
    header, *rows = TIMES.splitlines()
    again = [f"run7,{row}" for row in reversed(rows)]
    expected = load_platform(str(measured), kind=MeasuredDevice).times_s[0]
    (measured.parent / "times.csv").write_text("\n".join([f"note,{header}", *again]))
    assert load_platform(str(measured), kind=MeasuredDevice).times_s[0] == expected


WIDE = "stage,batch,width,seconds\n" + "".join(
    f"{i},{b},{w},{1e-3 * (i + b + w):g}\n" for i in (1, 2, 3) for b in (1, 2) for w in (8, 16)
)
GATHERS = "stage,batch,seconds\n1,1,0.1\n1,2,0.2\n2,1,0.3\n2,2,0.4\n"


def test_times_by_width_and_gathers_by_stage(measured: Path):
    (measured.parent / "times.csv").write_text(WIDE)
    (measured.parent / "gathers.csv").write_text(GATHERS)
    measured.write_text(MEASURED + 'gather_table = "gathers.csv"\n')
    platform = load_platform(str(measured), kind=MeasuredDevice)
    assert platform.widest_first == [16.0, 8.0]
    assert platform.times_s == [
        [pytest.approx([1e-3 * (i + b + w) for b in (1, 2)]) for i in (1, 2, 3)] for w in (16, 8)
    ]  # fmt: skip
    assert platform.gathers_s(3) == [[0.0, 0.0, 0.0], [0.0, 0.1, 0.2], [0.0, 0.3, 0.4]]
    (measured.parent / "gathers.csv").write_text(GATHERS + "0,1,0.5\n0,2,0.6\n")
    at_input = load_platform(str(measured), kind=MeasuredDevice).gathers_s(3)
    assert at_input is not None
    assert at_input[0] == [0.0, 0.5, 0.6]
    (measured.parent / "gathers.csv").write_text("batch,seconds\n2,0.2\n1,0.1\n")
    assert load_platform(str(measured), kind=MeasuredDevice).gathers_s(3) == [[0.0, 0.1, 0.2]] * 3


BAD_GATHERS = {
    "no batch sizes": (
        GATHERS.replace("batch", "size"),
        ["line 1: expected the columns batch, seconds; found no batch"],
    ),
    "batch left out": (GATHERS.replace("2,1,0.3\n", ""), ["gathers.csv: stage 2, batch 1: expected a row, found none"]),
    "stage left out": (
        "stage,batch,seconds\n1,1,0.1\n1,2,0.2\n",
        [f"gathers.csv: stage 2, batch {b}: expected a row, found none" for b in (1, 2)],
    ),
    "input in part": (GATHERS + "0,1,0.5\n", ["gathers.csv: stage 0, batch 2: expected a row, found none"]),
    "empty cell": (GATHERS.replace("0.3", ""), ['gathers.csv: line 4: seconds: expected a number, found ""']),
    "behind the end": (GATHERS + "3,1,0.1\n", ["line 6: stage: expected at most the 2 that a gather can be behind"]),
    "too many samples": (
        GATHERS + "1,3,0.1\n",
        ["line 6: batch: expected at most the 2 of the times of stages, found 3"],
    ),
    "twice": (GATHERS + "1,1,0.1\n", ["line 6: stage 1, batch 1: expected one row, found a second"]),
    "no rows": ("batch,seconds\n", [f"gathers.csv: batch {b}: expected a row, found none" for b in (1, 2)]),
}


@pytest.mark.parametrize("case", BAD_GATHERS)
def test_a_fault_of_gathers_names_row_and_column(measured: Path, case: str):
    text, parts = BAD_GATHERS[case]
    (measured.parent / "gathers.csv").write_text(text)
    measured.write_text(MEASURED + 'gather_table = "gathers.csv"\n')
    lines = faults(measured)
    assert len(lines) == len(parts)
    for line, part in zip(lines, parts, strict=True):
        assert part in line


def test_gathers_are_stated_once(measured: Path):
    measured.write_text(MEASURED + 'gather_table = "gathers.csv"\n')
    assert "gather_table: expected a CSV file of measured times, found none at" in faults(measured)[0]
    (measured.parent / "gathers.csv").write_text(GATHERS)
    measured.write_text(MEASURED + 'gather_table = "gathers.csv"\ngather_floor_s = 1e-3\n')
    assert faults(measured) == [
        "mine.toml: gather_table: expected no gather_floor_s and gather_s_per_sample beside it, found some"
    ]


def test_times_by_stage_worked_out_by_hand(tmp_path: Path):
    """4 wide: 4 + 4 = 8 ms a sample, above the floor of 10 ms from two on; 16 wide: 16 + 8 = 24 ms a sample."""
    (tmp_path / "gpu.toml").write_text(BY_STAGE)
    platform = load_platform(str(tmp_path / "gpu.toml"), kind=StagedDevice)
    check = [0.6e-3, 0.7e-3, 0.8e-3, 0.9e-3]
    narrow, wide = [0.010, 0.016, 0.024, 0.032], [0.024, 0.048, 0.072, 0.096]
    first = [[layers + exit_ for layers, exit_ in zip(times, check, strict=True)] for times in (wide, narrow)]
    last = [0.002, 0.002, 0.003, 0.004]
    assert platform.widest_first == [16.0, 4.0]
    assert platform.times_s == [[pytest.approx(times)] * 2 + [pytest.approx(last)] for times in first]
    at_input, behind = [0.0, *[1e-3] * 4], [0.0, 1.01e-3, 1.02e-3, 1.03e-3, 1.04e-3]
    assert np.array(platform.gathers_s(3)) == pytest.approx(np.array([at_input, behind, behind]))
    assert platform.unsourced == [
        "gather_floor_s", "b_max", "widths", "floor_s", "slope_s_per_sample", "check_s", "check_s_per_sample",
        "gather_s_per_sample",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (("widths = [4, 16]\n", ""), "widths: expected the widths that batches run at"),
        (
            ("[{ seconds = 1e-3, power = 1 }, { seconds = 2e-3, power = 0.5 }]", "1e-3"),
            "widths: expected a slope_s_per_sample with a power of the width beside it",
        ),
        (("[4, 16]", "[16, 4]"), "widths: expected every width once, in ascending order"),
        (("[4, 16]", "[0, 4]"), "widths[0]: expected more than 0, found 0"),
        (("check_s = ", "chek_s = "), "groups[0].chek_s: unknown key; did you mean check_s?"),
        (("power = 0.5", "power = -1"), "groups[0].slope_s_per_sample[1].power: expected at least 0"),
        (("floor_s = 0.002\n", ""), "groups[1].floor_s: expected this key, found none"),
        (('network = "tiny"\n', ""), "network: expected this key, found none"),
        (
            ("slope_s_per_sample = 1e-3", 'slope_s_per_sample = "1 ms"'),
            "groups[1].slope_s_per_sample[0]: expected a number",
        ),
        (
            ("gather_floor_s = 9.0", 'gather_floor_s = 9.0\n[sources]\nfloor = "a"'),
            "sources: expected keys of this",
        ),
    ],
)
def test_a_fault_of_times_by_stage_names_its_key(tmp_path: Path, change: tuple[str, str], part: str):
    (tmp_path / "gpu.toml").write_text(BY_STAGE.replace(*change))
    (line,) = faults(tmp_path / "gpu.toml")
    assert part in line


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
    "width missing": (WIDE.replace("2,1,16,0.019\n", ""), ["stage 2, batch 1, width 16: expected a row, found none"]),
    "empty width": (WIDE.replace("2,1,16,", "2,1,,"), ["times.csv: line 7: width: expected a number"]),
    "nothing": ("", ["times.csv: line 1: expected the columns stage, batch, seconds; found no stage, batch, seconds"]),
    "no rows": ("stage,batch,seconds\n", [f"stage {i}, batch 1: expected a row, found none" for i in (1, 2, 3)]),
    "quote without end": (TIMES + '"4,1,0.5\n', ["line 7: expected CSV, found none (unexpected end of data)"]),
}


@pytest.mark.parametrize("case", BAD_TIMES)
def test_a_fault_of_measured_times_names_row_and_column(measured: Path, case: str):
    text, parts = BAD_TIMES[case]
    (measured.parent / "times.csv").write_text(text)
    lines = faults(measured)
    assert len(lines) == len(parts)
    for line, part in zip(lines, parts, strict=True):
        assert part in line


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (("floor_s = 1e-4\n", ""), "floor_s: expected this key, found none"),
        (("1e-8", "0.0"), "slope_s_per_mac: expected at least"),
        (("b_max = 4", "b_max = 513"), "b_max: expected at most 512, found 513"),
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
        assert min(map(min, load_platform(str(folder / "mine.toml"), kind=MeasuredDevice).times_s[0])) > 0
    except InputError as error:
        assert all(fault.startswith(f"{folder}/times.csv: ") for fault in error.faults)


def test_a_device_is_made_of_measured_times(fluidb: Run, measured: Path):
    done = fluidb("platforms", "import", "times.csv", "--network", TINY, "--name", "mine", "-o", "made.toml")
    assert (done.returncode, done.stderr) == (0, "")
    ours, made = (
        load_platform(str(measured), kind=MeasuredDevice),
        load_platform(str(measured.with_name("made.toml")), kind=MeasuredDevice),
    )
    assert (made.times_s[0], made.network, made.stages, made.name) == (ours.times_s[0], "tiny", 3, "mine")
    assert made.unsourced == []
    assert (
        "no faults; measured, b = 1..2, lanes: 1; a source for every number"
        in fluidb("platforms", "check", "made.toml").stdout
    )
    assert json.loads(fluidb("platforms", "show", "made.toml", "--json").stdout)["table"] == "times.csv"
    (measured.parent / "g.csv").write_text("batch,seconds\n1,0.1\n2,0.2\n")
    done = fluidb("platforms", "import", "times.csv", "--network", TINY, "--gathers", "g.csv", "-o", "both.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        load_platform(str(measured.with_name("both.toml")), kind=MeasuredDevice).gathers_s(3) == [[0.0, 0.1, 0.2]] * 3
    )


def test_what_is_shown_of_groups_are_their_values_one_by_one(fluidb: Run, tmp_path: Path):
    (tmp_path / "gpu.toml").write_text(BY_STAGE + '[sources]\nfloor_s = "measured"\n')
    lines = {
        line.split()[0]: line.split(maxsplit=1)[1]
        for line in fluidb("platforms", "show", "gpu.toml").stdout.splitlines()[4:]
    }
    assert " ".join(lines["groups.floor_s"].split()) == "0.01, 0.002 measured"
    assert lines["groups.stages"].strip() == "2, 1"
    assert lines["groups.slope_s_per_sample"].strip() == "0.001 W^1 + 0.002 W^0.5, 0.001"
    assert lines["widths"].strip() == "4, 16"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["dse", TINY, "mine.toml"],
            "mine.toml: expected a board, found a device; make its",
        ),
        (["pareto", TINY, "mine.toml"], "mine.toml: expected a board, found a device"),
        (["pareto", TINY, "sushi-zcu104"], "sushi-zcu104: expected a board, found an accelerator; search its"),
        (["compare", "s.toml"], "cases[0].platform: mine.toml: expected a board, found a device"),
        (["platforms", "import", "times.csv", "-o", "n.toml"], "times.csv: expected --network, whose stages"),
        (
            ["platforms", "import", "mine.toml", "--gathers", "times.csv", "-o", "n.toml"],
            "--gathers: expected with measured times only, found mine.toml; leave it out",
        ),
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
    assert expected in lines(fluidb(*arguments))[0]


@pytest.mark.parametrize(("name", "kind"), [("zc706", "board"), ("rtx-2080-ti", "device"), ("numpy-x86", "device")])
def test_a_kind_is_known_by_its_schema(name: str, kind: str):
    assert load_platform(name, kind=Platform).kind == kind
