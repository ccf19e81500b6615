"""`fluidb adapt`: the page that explains it, its record, and its faults."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from builders import Run, blocks, call_fluidb, lines
from fluidb.formats import read_table, write_table
from fluidb.tables.exit_plan import InferenceTime

OWN = ["adapt", "plan101", "--trace", "t.csv", "--samples", "log101.npz"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands of the page ran; not to be changed."""
    made, printed = tmp_path_factory.mktemp("adapt"), []
    for command in blocks("docs/exits.md", "sh")[1].splitlines():
        done = call_fluidb(*shlex.split(command)[1:], cwd=made)
        assert (done.returncode, done.stderr) == (0, ""), command
        printed.append(done.stdout)
    (made / "printed.txt").write_text("".join(printed))
    return made


def test_the_page_shows_what_it_says(folder: Path) -> None:
    printed = (folder / "printed.txt").read_text().splitlines()
    changed, hardware = (block.splitlines() for block in blocks("docs/exits.md", "text")[1:])
    assert set(changed + hardware) <= set(printed)
    start = printed.index(changed[0])
    assert printed[start : start + len(changed)] == changed, "all changes of the first command"


def test_the_record_names_units_and_every_change(folder: Path) -> None:
    options = ["--policy", "pame:timeout=20ms,lanes=2", "--from", "6s", "--then-samples", "harder.npz", "--json"]
    record = json.loads(call_fluidb(*OWN, *options, cwd=folder).stdout)
    assert record["schema"] == "fluidb.adapt-output/1"
    assert record["requests"] == 10_000
    assert record["mean_latency_s"] > record["average_s"] > 0
    requests = [change["request"] for change in record["changes"]]
    assert requests == sorted(requests)
    causes = {change["cause"] for change in record["changes"]}
    assert "slow batches" in causes
    assert causes <= {"precision", "slow batches"}
    still = json.loads(call_fluidb(*OWN, "--policy", "pame:timeout=20ms", "--window", 0, "--json", cwd=folder).stdout)
    assert still["changes"] == []


def test_other_hardware_may_stop_at_the_batch_of_the_plan(folder: Path, tmp_path: Path) -> None:
    times = read_table(InferenceTime, folder / "other/inference_time.json")
    rows = [row.model_copy(update={"time_s": row.time_s[:16]}) for row in times.rows]
    gather_s = [row[:16] for row in times.gather_s or []]
    write_table(times.model_copy(update={"b_max": 16, "rows": rows, "gather_s": gather_s}), tmp_path / "small.json")
    options = [*OWN, "--from", "6s", "--slo", "100ms", "--json", "--then-times"]
    whole, small = (
        json.loads(call_fluidb(*options, path, cwd=folder).stdout)
        for path in ("other/inference_time.json", tmp_path / "small.json")
    )
    assert small == whole


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--slo", "1s", "--from", "1s"], "--from: expected a time, and samples or"),
        (
            ["--slo", "1s", "--then-times", "plan101/inference_time.json"],
            "--from: expected a time, and samples or",
        ),
        (["--policy", "fluid"], "--policy: expected pame, whose exits are adapted, found fluid"),
        (["--policy", "pame:lanes=3,timeout=0"], "lanes: expected at most 2 on v100-tensorrt, found 3"),
        (["--policy", "pame:b_max=4,timeout=0"], "--policy: b_max: expected 16, the batch that the exits were chosen"),
        (["--samples", "plan101/samples.npz"], "expected answers at 12 exits, the candidates of resnet101 and its end"),
        (["--slo", "1s", "--from", "1s", "--then-times", "plan101/exits.json"], "exits.json"),
        ([], "timeout=S is a share of the SLO, and there is not one for all requests; give one (slo), or a duration"),
    ],
)
def test_a_fault_is_one_line(folder: Path, options: list[str], part: str) -> None:
    (found,) = lines(call_fluidb(*OWN, *options, cwd=folder))
    assert part in found


def test_a_folder_without_a_plan_is_named(fluidb: Run, folder: Path) -> None:
    (found,) = lines(fluidb("adapt", "none", "--trace", folder / "t.csv", "--samples", folder / "log.npz"))
    assert "none: expected a folder with a plan of exits, found none" in found
