"""`fluidb adapt`: the page that explains it, its record, and its faults."""

from __future__ import annotations

import functools
import itertools
import json
import re
import shlex
from pathlib import Path

import naive_adaptation as naive
import numpy as np
import pytest
from builders import ROOT, Run, blocks, call_fluidb, lines
from fluidb.formats import read_table, write_table
from fluidb.serving import Requests
from fluidb.studies.adapt import LoadChange, serve_adaptively
from fluidb.tables.exit_plan import InferenceTime, read_plan
from fluidb.traffic import read_samples

OWN = ["adapt", "plan101", "--trace", "busy.csv", "--samples", "log101.npz"]


def commands_of_the_page() -> list[str]:
    return "".join(blocks("docs/exits.md", "sh")[1:]).splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands of the page ran; not to be changed."""
    made, printed = tmp_path_factory.mktemp("adapt"), []
    for command in commands_of_the_page():
        done = call_fluidb(*shlex.split(command)[1:], cwd=made)
        assert (done.returncode, done.stderr) == (0, ""), command
        printed.append(done.stdout)
    (made / "printed.json").write_text(json.dumps(printed))
    return made


def test_the_page_shows_what_it_says(folder: Path) -> None:
    """The end of what each command prints: its figures, and every change."""
    commands, printed = commands_of_the_page(), json.loads((folder / "printed.json").read_text())
    texts = [text for command, text in zip(commands, printed, strict=True) if " adapt " in command]
    for text, shown in zip(texts, blocks("docs/exits.md", "text")[1:], strict=False):
        assert text.endswith(shown)
        assert {"slow", "changes"} <= {line.split()[0] for line in shown.splitlines() if line}
    assert " --until " in blocks("docs/exits.md", "sh")[1]
    follows, stays = (float(re.findall(r"average latency  ([\d.]+) ms", text)[0]) for text in texts[3:])
    told = "the average latency is longer than with the plan's exits"
    assert told in " ".join((ROOT / "docs/exits.md").read_text().split())
    assert follows > 1.2 * stays


def test_a_harder_load_has_fewer_slow_batches_and_precision_is_kept(folder: Path) -> None:
    """The example of the page, without an end: it is served better than by the plan, and precisely."""
    options = [*OWN, "--policy", "pame:timeout=20ms", "--from", "6s", "--then-samples", "harder.npz", "--json"]
    adapted, fixed = (json.loads(call_fluidb(*options, *more, cwd=folder).stdout) for more in ([], ["--window", 0]))
    assert fixed["slow_share"] > 0.02
    assert adapted["slow_share"] < 0.0117
    assert adapted["precision"] > 0.9901
    assert adapted["mean_latency_s"] < fixed["mean_latency_s"]


def test_the_record_names_units_and_every_change(folder: Path) -> None:
    options = ["--policy", "pame:timeout=20ms,lanes=2", "--from", "6s", "--until", "12s"]
    options += ["--then-samples", "harder.npz"]
    record = json.loads(call_fluidb(*OWN, *options, "--json", cwd=folder).stdout)
    assert record["schema"] == "fluidb.adapt-output/2"
    assert record["requests"] == 10_000
    assert record["mean_latency_s"] > record["average_s"] > 0
    assert record["slow_allowed"] >= 0.02
    there, back = record["changes"]
    assert (there["cause"], back["cause"]) == ("load", "load")
    assert 3000 < there["judged_from"] < there["judged_to"] <= there["request"] < back["judged_from"]
    (first,) = read_plan(folder / "plan101").exits
    assert back["exits"] == [{"after": first.after, "confidence": first.confidence, "count": 1}]
    still = json.loads(call_fluidb(*OWN, "--policy", "pame:timeout=20ms", "--window", 0, "--json", cwd=folder).stdout)
    assert still["changes"] == []


def test_other_hardware_lasts_until_it_is_said_to(folder: Path) -> None:
    options = ["--policy", "pame:timeout=20ms", "--from", "6s", "--until", "12s", "--then-times"]
    shown = call_fluidb(*OWN, *options, "other/inference_time.json", "--json", cwd=folder).stdout
    there, back = json.loads(shown)["changes"]
    assert (there["cause"], back["cause"]) == ("hardware", "hardware")
    assert 6 < there["time_s"] < 12 < back["time_s"]
    (first,) = read_plan(folder / "plan101").exits
    assert [exit_["after"] for exit_ in back["exits"]] == [first.after]
    assert there["exits"] != back["exits"]


def stage(times: np.ndarray, a: int, b: int, size: int) -> float:
    return float(times[a, b, size])


def test_slow_batches_of_other_hardware_are_judged_by_its_times(folder: Path) -> None:
    """Batch by batch, in plain loops: the exits of the plan on both, and every batch alone."""
    plan, log = read_plan(folder / "plan101"), read_samples(folder / "log101.npz")
    both = [read_table(InferenceTime, folder / name / "inference_time.json").array() for name in ("plan101", "other")]
    found = serve_adaptively(
        folder / "plan101", Requests(trace=folder / "busy.csv", samples=folder / "log101.npz", slo_s=0.1), "pame",
        window=0, change=LoadChange(from_s=6.0, times=folder / "other/inference_time.json"),
    ).served  # fmt: skip
    assert len(log) == 10_000
    chain, end, slow, ran_on = [(exit_.place, exit_.confidence) for exit_ in plan.exits], len(both[0]) - 1, 0, [0, 0]
    for begin, behind in itertools.pairwise(found.starts()):
        took_s = found.finish_s[begin:behind].max() - found.start_s[begin]
        left = found.exit[begin:behind].tolist()
        alone = [naive.took(left, chain, functools.partial(stage, times), end) for times in both]
        hardware = int(abs(took_s - alone[1]) < abs(took_s - alone[0]))
        ran_on[hardware] += 1
        slow += took_s > both[hardware][0, end, behind - begin] * (1 + 1e-9)
    assert min(ran_on) > 400
    shown = json.loads(
        call_fluidb(*OWN, "--from", "6s", "--then-times", "other/inference_time.json", "--slo", "100ms", "--window", 0,
                    "--json", cwd=folder).stdout
    )  # fmt: skip
    assert shown["slow_share"] == pytest.approx(slow / sum(ran_on), abs=2 / sum(ran_on))
    assert shown["slow_share"] > 0.5


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
            ["--slo", "1s", "--from", "2s", "--until", "1s", "--then-samples", "harder.npz"],
            "--until: expected a time after the time of from, found 1 s",
        ),
        (["--slo", "1s", "--until", "1s"], "--until: expected a time after the time of from, found 1 s"),
        (
            ["--slo", "1s", "--then-times", "plan101/inference_time.json"],
            "--from: expected a time, and samples or",
        ),
        (["--policy", "fluid"], "--policy: expected pame, whose exits are adapted, found fluid"),
        (["--policy", "pame:lanes=3,timeout=0"], "lanes: expected at most 2 on v100-tensorrt, found 3"),
        (
            ["--policy", "pame:on_deadline=drop,timeout=0"],
            "--policy: on_deadline: expected none",
        ),
        (["--policy", "pame:b_max=4,timeout=0"], "--policy: b_max: expected 16, the batch that the exits were chosen"),
        (["--slo", "1s", "--from", "1s", "--then-times", "plan101/exits.json"], "exits.json"),
        ([], "timeout=S is a share of the SLO, but no SLO holds for all requests; give one (slo), or a duration"),
    ],
)
def test_a_fault_is_one_line(folder: Path, options: list[str], part: str) -> None:
    (found,) = lines(call_fluidb(*OWN, *options, cwd=folder))
    assert part in found


def test_samples_of_other_exits_are_refused(folder: Path) -> None:
    options = ["--trace", "busy.csv", "--samples", "plan101/samples.npz"]
    (line,) = lines(call_fluidb("adapt", "plan101", *options, cwd=folder))
    assert "expected answers at 12 exits, the candidates of resnet101 and its end" in line


def test_a_folder_without_a_plan_is_named(fluidb: Run, folder: Path) -> None:
    (found,) = lines(fluidb("adapt", "none", "--trace", folder / "busy.csv", "--samples", folder / "log.npz"))
    assert "none: expected a folder with a plan of exits, found none" in found
