"""The command line through its real entry point."""

from __future__ import annotations

import csv
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import DATA, FLUIDB, POCKET, TINY, Run
from fluidb.dse import read_design, read_latency
from fluidb.formats import InputError

GOLDEN = Path(__file__).parent / "golden"


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Faults on stderr, after checking that there is nothing else."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    found = done.stderr.splitlines()
    assert all(line.startswith("fluidb: ") for line in found)
    return found


def test_the_chain_of_the_readme(fluidb: Run, tmp_path: Path) -> None:
    """dse, latency, trace, serve-sim: each reads what the one before wrote."""
    for arguments in (
        ["dse", TINY, POCKET, "-o", "tiny", "--b-max", 4],
        ["latency", "tiny"],
        ["trace", "poisson", "--rate", 2000, "--count", 500, "--seed", 1, "-o", "t.csv"],
        ["serve-sim", "tiny", "--trace", "t.csv", "--policy", "fluid", "--slo", "2ms", "--requests", "r.csv"],
    ):
        done = fluidb(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), arguments
        assert done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.csv", "t.csv", "tiny"]
    assert sorted(path.name for path in (tmp_path / "tiny").iterdir()) == ["design.json", "fbcb.json", "latency.json"]
    with (tmp_path / "r.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 500
    assert sorted(int(row["request_id"]) for row in rows) == list(range(500))
    for row in rows:
        assert float(row["latency_s"]) == pytest.approx(float(row["finish_s"]) - float(row["arrival_s"]))
        assert int(row["violated"]) == (float(row["latency_s"]) > 0.002)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("dse", ["dse", TINY, POCKET, "--b-max", 4]),
        ("dse-row", ["dse", TINY, POCKET, "--b-max", 2, "--batching", "row", "--no-stacking", "--top", 2]),
        ("latency", ["latency", "DESIGN"]),
        ("fbcb", ["fbcb", "DESIGN"]),
        ("serve-sim", ["serve-sim", "DESIGN", "--trace", "t.csv", "--slo", "400us", "--seed", 3]),
        ("serve-sim-serial", ["serve-sim", "DESIGN", "--trace", "t.csv", "--slo", "400us", "--policy", "serial"]),
        ("trace-import", ["trace", "import", "azure-llm-2023", DATA / "azure-llm-2023.csv", "-o", "i.csv"]),
        ("models", ["models"]),
        ("model", ["models", "show", TINY]),
        ("platforms", ["platforms"]),
        ("platform", ["platforms", "show", "zc706"]),
        ("help", ["--help"]),
    ],
)
@pytest.mark.parametrize("kind", ["txt", "json"])
def test_golden_output(
    fluidb: Run, tmp_path: Path, tiny_design: Path, name: str, arguments: list[str], kind: str
) -> None:
    """What is printed, as text and as JSON; `GOLDEN=write pytest tests/test_cli.py` writes the files anew."""
    if kind == "json" and name == "help":
        return
    (tmp_path / "tiny").symlink_to(tiny_design)
    fluidb("trace", "poisson", "--rate", 8000, "--count", 400, "--seed", 5, "-o", "t.csv")
    arguments = ["tiny" if item == "DESIGN" else item for item in arguments] + (["--json"] if kind == "json" else [])
    done = fluidb(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    path = GOLDEN / f"{name}.{kind}"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(done.stdout)
    if kind == "json":
        content, expected = json.loads(done.stdout), json.loads(path.read_text())
        assert content["schema"].startswith("fluidb.")
        assert content.keys() == expected.keys()
        assert content == approximately(expected)
    else:
        assert done.stdout == path.read_text()


def approximately(value: object) -> object:
    """The same structure with floats compared to 12 digits: another CPU may add in another order."""
    if isinstance(value, dict):
        return {key: approximately(item) for key, item in value.items()}
    if isinstance(value, list):
        return [approximately(item) for item in value]
    return pytest.approx(value, rel=1e-12) if isinstance(value, float) else value


def test_same_input_same_bytes_for_any_number_of_threads(fluidb: Run, tmp_path: Path) -> None:
    for folder, threads in (("a", 1), ("b", 2), ("c", 5)):
        fluidb("dse", TINY, POCKET, "-o", folder, "--b-max", 3, "--threads", threads)
        fluidb("latency", folder)
        fluidb("trace", "poisson", "--rate", 900, "--count", 200, "--seed", 4, "-o", f"{folder}.csv")
        fluidb("serve-sim", folder, "--trace", f"{folder}.csv", "--slo", "1ms", "--requests", f"{folder}-r.csv")
    for name in ("{}/design.json", "{}/fbcb.json", "{}/latency.json", "{}.csv", "{}-r.csv"):
        contents = {(tmp_path / name.format(folder)).read_bytes() for folder in "abc"}
        assert len(contents) == 1, name


def test_a_seed_draws_other_exits(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    fluidb("trace", "poisson", "--rate", 900, "--count", 200, "-o", "t.csv")
    common = ["serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1ms"]
    for seed in (1, 2):
        fluidb(*common, "--seed", seed, "--requests", f"{seed}.csv")
    assert (tmp_path / "1.csv").read_text() != (tmp_path / "2.csv").read_text()


def test_traces_with_exits_confidences_and_objectives(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    header = "request_id,arrival_s"
    (tmp_path / "exits.csv").write_text(f"{header},exit,slo_s\n5,0.0,1,0.5\n6,1.0,3,1e-9\n")
    done = fluidb("serve-sim", tiny_design, "--trace", "exits.csv", "--json")
    content = json.loads(done.stdout)
    assert (content["samples_per_exit"], content["violations"], content["exits_from"]) == ([1, 0, 1], 1, "trace")
    (tmp_path / "sure.csv").write_text(f"{header},confidence_1,confidence_2\n5,0.0,0.7,0.9\n6,1.0,0.1,0.2\n")
    done = fluidb("serve-sim", tiny_design, "--trace", "sure.csv", "--slo", "1s", "--threshold", 0.6, "--json")
    content = json.loads(done.stdout)
    assert (content["samples_per_exit"], content["exits_from"]) == ([1, 0, 1], "confidence >= 0.6")


def test_backbone_bandwidth_and_weights_reach_the_search(fluidb: Run) -> None:
    def found(*more: object) -> dict[str, Any]:
        return dict(json.loads(fluidb("dse", TINY, POCKET, "--b-max", 2, "--json", *more).stdout))

    base = found()
    assert found("--bandwidth", "800MB/s")["bandwidth_gb_s"] == 0.8
    assert found("--bandwidth", "800MB/s")["objective_gop_s"] > base["objective_gop_s"]
    assert found("--backbone")["fbcb_register_bits"] < base["fbcb_register_bits"]
    assert found("--weights", "1,0")["objective_gop_s"] < base["objective_gop_s"]
    assert found("--no-memory-layers")["objective_gop_s"] > base["objective_gop_s"]
    assert found("--no-stacking")["objective_gop_s"] <= base["objective_gop_s"]
    assert found("--batching", "eq1")["options"]["batching"] == "eq1"
    slow = found("--all-rows")
    assert slow["designs_evaluated"] > base["designs_evaluated"]
    assert {key: slow[key] for key in ("T_R", "T_P", "T_C")} == {key: base[key] for key in ("T_R", "T_P", "T_C")}


BAD = {
    "near miss of a network": (["dse", "resnet5", "zc706"], ['unknown network "resnet5"; did you mean resnet50']),
    "near miss of a board": (["dse", TINY, "zcu10"], ['unknown platform "zcu10"; did you mean zcu104']),
    "folder that is none": (["latency", "nowhere"], ["nowhere: expected the folder of a design", "fluidb dse -o"]),
    "trace that is none": (["serve-sim", "DESIGN", "--trace", "no.csv", "--slo", "1s"], ["no.csv", "no such file"]),
    "objective without a unit": (["serve-sim", "DESIGN", "--trace", "t.csv", "--slo", "200"], ["--slo", "no unit"]),
    "no objective": (["serve-sim", "DESIGN", "--trace", "t.csv"], ["--slo 200ms"]),
    "unknown policy": (["serve-sim", "DESIGN", "--trace", "t.csv", "--slo", "1s", "--policy", "x"], ["serial, fluid"]),
    "threshold nothing uses": (
        ["serve-sim", "DESIGN", "--trace", "t.csv", "--slo", "1s", "--threshold", "0.5"],
        ["threshold"],
    ),
    "weights that are none": (["dse", TINY, POCKET, "--weights", "1,a"], ["--weights", '"1,a"']),
    "weights all zero": (["dse", TINY, POCKET, "--weights", "0,0", "--b-max", "2"], ["not all 0"]),
    "too few weights": (["dse", TINY, POCKET, "--weights", "1,2"], ["expected 8 values", "found 2"]),
    "bandwidth without a unit": (["dse", TINY, POCKET, "--bandwidth", "3.2"], ["--bandwidth", "no unit"]),
    "negative rate": (
        ["trace", "poisson", "--rate", "-1", "--count", "5", "-o", "n.csv"],
        ["rate: expected a positive"],
    ),
    "no requests": (["trace", "poisson", "--rate", "1", "--count", "0", "-o", "n.csv"], ["count: expected at least 1"]),
    "negative seed": (
        ["trace", "poisson", "--rate", "1", "--count", "1", "--seed", "-1", "-o", "n.csv"],
        ["seed: expected"],
    ),
    "output nowhere": (["dse", TINY, POCKET, "-o", "no/where"], ["expected the folder", "create it first"]),
    "output in the way": (["dse", TINY, POCKET, "-o", "t.csv"], ["t.csv: output folder exists already", "--force"]),
    "force spares strangers": (["dse", TINY, POCKET, "-o", "mine", "--force"], ["holds no design.json"]),
    "trace in the way": (["trace", "poisson", "--rate", "1", "--count", "1", "-o", "t.csv"], ["exists already"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(fluidb: Run, tmp_path: Path, tiny_design: Path, case: str) -> None:
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n1,0.0\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    before = sorted(tmp_path.rglob("*"))
    arguments, expected = BAD[case]
    found = lines(fluidb(*[tiny_design if item == "DESIGN" else item for item in arguments]))
    assert len(found) == 1
    assert all(part in found[0] for part in expected), found
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "arguments",
    [["dse"], ["dse", TINY], ["dse", TINY, POCKET, "--b-max", "0"], ["dse", TINY, POCKET, "--wat"], ["nonsense"],
     ["trace", "poisson", "--rate", "x", "--count", "1", "-o", "a"], ["dse", TINY, POCKET, "--batching", "x"]],
)  # fmt: skip
def test_wrong_usage_is_told_without_a_traceback(fluidb: Run, arguments: list[str]) -> None:
    done = fluidb(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert "Error" in done.stderr


def test_every_fault_of_a_file_has_its_line(fluidb: Run, tmp_path: Path) -> None:
    text = Path(POCKET).read_text().replace("dsps = 24", "dsps = -24").replace("word_bits = 16", 'word_bits = "16"')
    (tmp_path / "b.toml").write_text(text)
    found = lines(fluidb("dse", TINY, "b.toml"))
    assert found == [
        "fluidb: b.toml: dsps: expected greater than or equal to 1, found -24",
        'fluidb: b.toml: word_bits: expected a valid integer, found "16"',
    ]


def test_a_board_too_small_for_any_design(fluidb: Run, tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(Path(POCKET).read_text().replace("0.02", "0.00001"))
    (found,) = lines(fluidb("dse", TINY, "b.toml"))
    assert "no design fits" in found


def test_names_from_files_cannot_drive_the_terminal(fluidb: Run, tmp_path: Path) -> None:
    text = Path(POCKET).read_text().replace("Pocket board for tests", r"\u001b[2Jgone\u0007")
    (tmp_path / "b.toml").write_text(text)
    done = fluidb("platforms", "show", "b.toml")
    assert "\x1b" not in done.stdout
    assert r"\x1b[2Jgone\x07" in done.stdout


def test_force_replaces_a_design_and_makes_its_latency_table_go(fluidb: Run, tmp_path: Path) -> None:
    fluidb("dse", TINY, POCKET, "-o", "d", "--b-max", 2)
    fluidb("latency", "d")
    assert fluidb("dse", TINY, POCKET, "-o", "d", "--b-max", 3, "--force").returncode == 0
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["design.json", "fbcb.json"]
    assert read_design(tmp_path / "d")[0].options.b_max == 3


def test_stale_and_damaged_tables_are_refused(fluidb: Run, tmp_path: Path) -> None:
    for folder, b_max in (("a", 2), ("b", 3)):
        fluidb("dse", TINY, POCKET, "-o", folder, "--b-max", b_max)
        fluidb("latency", folder)
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n1,0.0\n")
    a, b = tmp_path / "a", tmp_path / "b"
    kept = {path.name: path.read_bytes() for path in a.iterdir()}

    def refusal() -> str:
        (found,) = lines(fluidb("serve-sim", "a", "--trace", "t.csv", "--slo", "1s"))
        return found

    for name, maker in (("design.json", "fluidb dse"), ("fbcb.json", "fluidb dse"), ("latency.json", "fluidb latency")):
        path = a / name
        path.write_bytes((b / name).read_bytes())
        assert "stale" in refusal(), name
        path.write_bytes(kept[name][:-100])
        assert f"a/{name}: damaged" in refusal()
        path.write_bytes(kept[name].replace(b"0", b"1", 1))
        assert f"a/{name}: damaged" in refusal()
        path.unlink()
        assert f"a/{name}: not there; make it with `{maker}`" in refusal()
        path.write_bytes(kept[name])
    assert fluidb("serve-sim", "a", "--trace", "t.csv", "--slo", "1s").returncode == 0


def test_json_goes_alone_to_stdout_and_nothing_to_stderr(fluidb: Run) -> None:
    done = fluidb("dse", TINY, POCKET, "-o", "d", "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["output"] == "d"


def test_a_terminal_sees_progress_and_the_next_step(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    done = subprocess.run(
        [FLUIDB, "dse", TINY, POCKET, "-o", "d"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=slave, check=True
    )
    os.close(slave)
    seen = b""
    while chunk := _read(master):
        seen += chunk
    os.close(master)
    assert b"designs" in seen
    assert b"next: fluidb latency d" in seen
    assert b"designs " not in done.stdout


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


def test_a_reader_that_leaves_early_is_no_fault(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{FLUIDB} models show inception_v3 | head -1",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def test_ctrl_c_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    text = Path(POCKET).read_text().replace("dsps = 24", "dsps = 12000").replace("0.02", "400.0")
    (tmp_path / "big.toml").write_text(text)
    running = subprocess.Popen(
        [FLUIDB, "dse", "inception_v3", "big.toml", "-o", "d", "--b-max", "256"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(4)  # the search takes minutes: this lands in its midst
    assert running.poll() is None
    asked = time.monotonic()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert time.monotonic() - asked < 10  # it answers in milliseconds; a kernel of this size takes minutes
    assert (out, err) == ("", "fluidb: interrupted; nothing was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["big.toml"]


KILLED = """
import os, signal, sys
from fluidb.cli import main

left = int(sys.argv.pop(1))
real = os.fsync

def fsync(descriptor):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(descriptor)

os.fsync = fsync
main()
"""


@pytest.mark.parametrize("syncs", range(7))
@pytest.mark.parametrize("force", [False, True])
def test_killed_in_mid_write_leaves_a_whole_design_or_none(
    fluidb: Run, tmp_path: Path, syncs: int, force: bool
) -> None:
    """The process dies at each step to the disk in turn; what is read afterwards is whole."""
    if force:
        fluidb("dse", TINY, POCKET, "-o", "d", "--b-max", 2)
    arguments = ["dse", TINY, POCKET, "-o", "d", "--b-max", "3", *(["--force"] if force else [])]
    done = subprocess.run([sys.executable, "-c", KILLED, str(syncs), *arguments], cwd=tmp_path, check=False)
    assert done.returncode == (-signal.SIGKILL if syncs < 6 else 0)
    try:
        design, fbcb = read_design(tmp_path / "d")
    except InputError as error:
        assert not force, error
        assert not (tmp_path / "d").exists()
    else:
        assert design.options.b_max == fbcb.b_max == (3 if syncs >= 5 else 2)
    assert fluidb("dse", TINY, POCKET, "-o", "d", "--force").returncode == 0


def test_killed_in_mid_write_of_a_latency_table(fluidb: Run, tmp_path: Path) -> None:
    fluidb("dse", TINY, POCKET, "-o", "d", "--b-max", 3)
    subprocess.run([sys.executable, "-c", KILLED, "0", "latency", "d"], cwd=tmp_path, check=False)
    with pytest.raises(InputError, match="not there"):
        read_latency(tmp_path / "d")
    assert fluidb("latency", "d").returncode == 0


def test_version(fluidb: Run) -> None:
    assert fluidb("--version").stdout == "fluidb 0.1.0\n"
    done = subprocess.run([sys.executable, "-m", "fluidb", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == "fluidb 0.1.0\n"
