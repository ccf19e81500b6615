"""Plans of exits: the folder, what serving reads of it, the best of all choices, and faults."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from pathlib import Path
from typing import Any

import naive_exits as naive
import numpy as np
import pytest
from builders import Run, files, lines
from fluidb.dse.exits.search import plan_exits, times_of, write_plan
from fluidb.dse.exits.tabulate import goal_of
from fluidb.formats import InputError, read_table, write_table
from fluidb.models import load_network
from fluidb.models.loader import read_network_file
from fluidb.rules.exit_choice import choose_exits
from fluidb.rules.exit_log import log_of
from fluidb.rules.exit_thresholds import ExitGoal, Setting
from fluidb.rules.exit_times import replay_exits
from fluidb.tables import read_latency
from fluidb.tables.exit_plan import InferenceTime, read_plan
from fluidb.traffic import Samples, read_samples
from fluidb.traffic.answers import PRESETS, as_measured, draw_answers
from fluidb.traffic.measures import ENTROPY
from fluidb.traffic.samples import write_samples
from hypothesis import given
from hypothesis import strategies as st

BERT = "bert_base", "v100-tensorrt-bert"


@functools.cache
def drawn(values: int = 1) -> Samples:
    return draw_answers(PRESETS["glue"], 11, 4000, seed=1, values=values)


def plan_of(samples: Samples, goal: ExitGoal, network: str = BERT[0], target: str = BERT[1]):
    file, path = read_network_file(network)
    return plan_exits(file, path, times_of(file, path, target), samples, goal)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    found: Path = tmp_path_factory.mktemp("plans") / "plan"
    write_plan(plan_of(drawn(), ExitGoal(16)), found)
    return found


def test_what_is_written_is_what_was_chosen(folder: Path) -> None:
    planned = plan_of(drawn(), ExitGoal(16))
    assert read_plan(folder) == planned.plan
    assert goal_of(read_plan(folder)) == ExitGoal(16)
    assert read_latency(folder) == planned.latency
    times = read_table(InferenceTime, folder / "inference_time.json")
    np.testing.assert_array_equal(times.array(), planned.times.array())
    choice = choose_exits(log_of(drawn()[slice(0, 2000)]), times.array(), ExitGoal(16))
    assert [exit_.place for exit_ in planned.plan.exits] == list(choice.exits)
    net = load_network(str(folder / "network.toml"))
    assert net.exits == planned.latency.exits
    assert [exit_.rate for exit_ in net.exits[:-1]] == [exit_.rate for exit_ in planned.plan.exits]
    pattern = json.loads((folder / "batching_pattern.json").read_text())
    assert all(sum(row["batches"]) == pattern["batches"] == 125 for step in pattern["steps"] for row in step["rows"])


def test_the_other_half_of_the_log_serves_with_the_thresholds_of_the_plan(folder: Path) -> None:
    """Confidences of the samples that are written decide as the plan replayed them."""
    plan, samples = read_plan(folder), read_samples(folder / "samples.npz")
    assert len(samples) == plan.samples_checked
    alive = np.ones(len(samples), dtype=bool)
    score = samples.correct[:, -1].astype(float)
    for number, item in enumerate(plan.exits, 1):
        leaves = alive & (samples.confidence_at(number) >= item.confidence)
        score[leaves] = samples.correct[leaves, number - 1]
        alive &= ~leaves
    assert score.sum() / samples.correct[:, -1].sum() == pytest.approx(plan.checked.precision)


def test_the_folder_serves(fluidb: Run, folder: Path, tmp_path: Path) -> None:
    fluidb("trace", "poisson", "--rate", 300, "--count", 300, "-o", "t.csv")
    levels = ",".join(str(exit_.confidence) for exit_ in read_plan(folder).exits)
    more = ["--samples", folder / "samples.npz", "--threshold", levels, "--slo", "100ms"]
    done = fluidb("serve-sim", folder, "--trace", "t.csv", *more)
    assert (done.returncode, done.stderr) == (0, "")
    assert fluidb("latency", folder / "network.toml", BERT[1], "-o", "again").returncode == 0
    np.testing.assert_allclose(read_latency(tmp_path / "again").array(), read_latency(folder).array(), rtol=1e-12)


def test_a_plan_is_stale_when_a_matrix_was_replaced(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "plan"
    copy.mkdir()
    for name, content in files(folder).items():
        (copy / name).write_bytes(content)
    times = read_table(InferenceTime, copy / "inference_time.json")
    write_table(times.model_copy(update={"platform": "another"}), copy / "inference_time.json")
    with pytest.raises(InputError, match=r"exits.json: stale .made from another fluidb.inference-time/1"):
        read_plan(copy)
    write_table(read_plan(folder).model_copy(update={"inputs": {}}), copy / "exits.json")
    with pytest.raises(InputError, match=r"latency.json: stale .made from another fluidb.exits/1"):
        read_latency(copy)
    write_table(read_latency(folder).model_copy(update={"inputs": {}, "planned": None}), copy / "latency.json")
    with pytest.raises(InputError, match=r"latency.json: does not say how to serve the plan beside it; make both"):
        read_latency(copy)
    (copy / "exits.json").write_bytes((folder / "exits.json").read_bytes())
    (copy / "inference_time.json").unlink()
    with pytest.raises(InputError, match=r"inference_time.json: not there; make it with `fluidb exits`"):
        read_plan(copy)


def test_times_of_gathers_are_of_every_candidate_and_batch(folder: Path) -> None:
    times = read_table(InferenceTime, folder / "inference_time.json")
    for rows in ([[1.0] * times.b_max] * 10, [[1.0]] * 11):
        with pytest.raises(InputError, match=f"gather_s: expected 11 rows, one for each candidate, of {times.b_max} "):
            InferenceTime(**{**dict(times), "gather_s": rows})


def test_requests_of_another_measure_need_thresholds(folder: Path, fluidb: Run, tmp_path: Path) -> None:
    write_samples(as_measured(read_samples(folder / "samples.npz"), ENTROPY, 2), tmp_path / "entropies.npz")
    fluidb("trace", "offline", "--count", 40, "-o", "t.csv")
    asked = ["serve-sim", folder, "--trace", "t.csv", "--samples", "entropies.npz", "--slo", "1s"]
    (line,) = lines(fluidb(*asked))
    assert "--threshold: expected entropies from 0 to 25 nats, which the requests have, found none; the" in line
    assert fluidb(*asked, "--threshold", 0.5).returncode == 0


def test_a_last_stage_that_repeats_is_refused(tmp_path: Path, fluidb: Run) -> None:
    """Which layers repeat would depend on the exits."""
    write_samples(drawn(), tmp_path / "log.npz")
    text = read_network_file("bert_base")[1].read_text()
    (tmp_path / "net.toml").write_text(text.replace("layers = [", "steps = 3\nlayers = [", 1))
    (line,) = lines(fluidb("exits", "net.toml", BERT[1], "--samples", "log.npz", "--batch", 16))
    assert "expected a network without steps, found up to 3; which layers" in line


def test_only_a_plan_is_ever_replaced(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="--force replaces a plan of exits only"):
        write_plan(plan_of(drawn(), ExitGoal(16)), tmp_path / "mine", replace=True)
    assert files(tmp_path / "mine") == {"letter.txt": b"dear"}


def test_same_log_same_bytes(folder: Path, tmp_path: Path) -> None:
    write_plan(plan_of(drawn(), ExitGoal(16)), tmp_path / "again")
    assert files(tmp_path / "again") == files(folder)


def test_a_dense_task_has_count_thresholds(tmp_path: Path) -> None:
    samples = drawn(values=5)
    planned = plan_of(samples, ExitGoal(16, precision=0.97))
    assert planned.log.counts.tolist() == [1, 2, 3, 4, 5]
    assert planned.samples.confidences.shape == (2000, len(planned.plan.exits))
    first = planned.plan.exits[0]
    values = samples.confidences[2000:, first.place - 1]
    leaves = (values >= first.confidence).sum(axis=1) >= first.count
    np.testing.assert_array_equal(planned.samples.confidences[:, 0] >= first.confidence, leaves)
    assert planned.samples.correct.dtype == np.float64
    write_plan(planned, tmp_path / "dense")
    assert read_samples(tmp_path / "dense" / "samples.npz").correct.dtype == np.float64


def test_a_design_s_folder_is_a_target_too(tmp_path: Path, fluidb: Run) -> None:
    """The exits of a network on an NPU: its table knows which layers are heads."""
    fluidb("models", "exits", "resnet50", "-o", "all.toml")
    fluidb("latency", "all.toml", "rtx-2080-ti", "-o", "table")
    samples = draw_answers(PRESETS["imagenet"], 15, 2000, 0)
    from_folder = plan_of(samples, ExitGoal(16), "resnet50", str(tmp_path / "table"))
    assert from_folder.plan.exits == plan_of(samples, ExitGoal(16), "resnet50", "rtx-2080-ti").plan.exits


@given(st.integers(0, 2**32))
def test_no_choice_is_better_than_the_best_of_all_choices(seed: int) -> None:
    """Against a loop over every candidate, every pair of candidates, and their thresholds."""
    random = np.random.default_rng(seed)
    confidences = random.integers(0, 4, (12, 3, 1)) / 4
    scores = np.column_stack([random.random((12, 3)) < 0.7, random.random(12) < 0.9]).astype(float)
    scores[0, -1] = 1.0
    times = np.zeros((5, 5, 4))
    for a, b in itertools.combinations(range(5), 2):
        times[a, b, 1:] = (8 * (b - a) + random.integers(0, 3) + np.arange(3)) / 64
    goal = ExitGoal(3, precision=0.75, slow=0.25, thresholds=(0.25, 0.5, 0.75))
    log = log_of(Samples(confidences, scores))
    plain = [{"values": c.tolist(), "scores": s.tolist()} for c, s in zip(confidences, scores, strict=True)]

    def T(a: int, b: int, B: int) -> float:
        return float(times[a, b, B])

    best = naive.best_chain(lambda chain: naive.replay(plain, T, 3, 3, chain), 3, goal.thresholds, 0.75, 0.25)
    greedy = choose_exits(log, times, goal)
    done = replay_exits(log, times, 3, greedy.exits, greedy.settings)
    if 1 <= len(greedy.exits) <= 2 and done.slow_share <= 0.25:
        assert best is not None
        assert done.average_s >= best[1] - 1e-12


def test_the_choice_is_near_the_best_of_one_or_two_exits() -> None:
    """The first exit alone limits slow batches, so that a pair of exits may be faster: by 15 % at most here."""
    goal, times = ExitGoal(16), plan_of(drawn(), ExitGoal(16)).times.array()
    log = log_of(drawn()[slice(0, 800)])

    def replayed(chain: list[tuple[int, float, int]]) -> tuple[float, float, float, float]:
        settings = [Setting(level, 0, 0, 0.0) for _, level, _ in chain]
        replay = replay_exits(log, times, goal.batch, [place for place, _, _ in chain], settings)
        return replay.average_s, replay.tail_s, replay.slow_share, replay.precision

    best = naive.best_chain(replayed, log.candidates, goal.thresholds, goal.precision, goal.slow)
    greedy = choose_exits(log, times, goal)
    done = replay_exits(log, times, goal.batch, greedy.exits, greedy.settings)
    assert best is not None
    assert 1 <= done.average_s / best[1] < 1.15


# faults


def changed(samples: Samples, **parts: Any) -> Samples:
    return dataclasses.replace(samples, source=Path("log.npz"), **parts)


@pytest.mark.parametrize(
    ("goal", "fault"),
    [
        (ExitGoal(65), "batch: expected 1 to 64, the largest batch of the table, found 65"),
        (ExitGoal(0), "batch: expected 1 to 64, the largest batch of the table, found 0"),
        (ExitGoal(16, precision=1.01), "precision: expected more than 0 % and at most 100 %, found 101 %"),
        (ExitGoal(16, precision=0.0), "precision: expected more than 0 % and at most 100 %, found 0 %"),
        (ExitGoal(16, precision=0.0, guard="bound"), "precision: expected more than 0 % and at most 100 %, found 0 %"),
        (ExitGoal(16, guard=1.5), "guard: expected more than 0 % and at most 100 %, found 150 %"),
        (ExitGoal(16, guard=0.98), "guard: expected at least the precision, 99 %, found 98 %"),
        (ExitGoal(16, slow=1.0), "slow: expected 0 % to less than 100 %, found 100 %"),
        (ExitGoal(16, width=17), "width: expected 1 to the batch size, 16, found 17"),
        (ExitGoal(16, thresholds=(0.9, 1.5)), "thresholds: expected confidences from 0 to 1, found 1.5"),
    ],
)
def test_a_goal_out_of_range_is_one_clear_line(goal: ExitGoal, fault: str) -> None:
    with pytest.raises(InputError) as error:
        plan_of(drawn(), goal)
    (line,) = error.value.faults
    assert line.startswith(fault)


def test_a_log_that_does_not_fit_is_one_clear_line() -> None:
    whole = drawn()
    for samples, fault in (
        (changed(whole, correct=whole.correct[:, :5], confidences=whole.confidences[:, :5]),
         "log.npz: expected answers at 12 exits, the 11 candidates of the network and its end, found 5"),
        (changed(whole[slice(0, 31)]),
         "log.npz: expected at least 32 samples, as each half must hold a batch of 16, found 31"),
        (changed(whole, correct=np.zeros_like(whole.correct)), "log.npz: expected some right answers at the end"),
    ):  # fmt: skip
        with pytest.raises(InputError) as error:
            plan_of(samples, ExitGoal(16))
        (line,) = error.value.faults
        assert line.startswith(fault)


def test_thresholds_to_try_reach_the_choice(tmp_path: Path, fluidb: Run) -> None:
    write_samples(drawn(), tmp_path / "log.npz")
    done = fluidb("exits", *BERT, "--samples", "log.npz", "--batch", 16, "--thresholds", "0.5..0.95", "--json")
    assert json.loads(done.stdout)["confidences"] == [round(0.5 + step / 20, 2) for step in range(10)]
    (line,) = lines(fluidb("exits", *BERT, "--samples", "log.npz", "--batch", 16, "--thresholds", "0.5,1.5"))
    assert "thresholds: expected confidences from 0 to 1, found 1.5" in line


def test_without_a_candidate_the_nearest_miss_is_told(tmp_path: Path, fluidb: Run) -> None:
    write_samples(drawn(), tmp_path / "log.npz")
    common = ["exits", *BERT, "--samples", "log.npz", "--batch", 16, "-o", "plan"]
    (line,) = lines(fluidb(*common, "--thresholds", "0.5", "--precision", "100%"))
    assert "precision: no candidate is left; the nearest, after block" in line
    assert "of the precision, where more than 100.00% must be kept" in line
    (line,) = lines(fluidb(*common, "--slow", "2"))
    assert line.endswith('--slow: expected a unit (%), found no unit in "2"; write e.g. 2%')
    slow = Path("slow.toml")
    text = Path(read_network_file("bert_base")[1]).parent.parent / "platforms" / "v100-tensorrt-bert.toml"
    (tmp_path / slow).write_text(text.read_text().replace("restart_s = 223.5e-6", "restart_s = 1.0"))
    (line,) = lines(fluidb("exits", "bert_base", slow, *common[3:], "--thresholds", "0.9"))
    assert "slow: no candidate is left; the nearest, after block" in line
    assert "% of the batches slower than without exits, where at most 2.00% may be" in line
    assert not (tmp_path / "plan").exists()


def test_a_precision_that_is_kept_since_nobody_leaves_is_not_told_as_kept(tmp_path: Path, fluidb: Run) -> None:
    """A candidate at which no sample is sure enough comes near nothing, and its 100 % are no reason against it."""
    common = ["exits", *BERT, "--samples", "log.npz", "--batch", 16]
    unsure, wrong = np.full((64, 12), 0.3), np.ones((64, 12), dtype=bool)
    write_samples(Samples(unsure, wrong), tmp_path / "log.npz")
    (line,) = lines(fluidb(*common))
    assert line.startswith("fluidb: --thresholds: no candidate is left; no sample leaves at any of them with")
    assert line.endswith("confidence >= 0.5; try a threshold that is easier to reach")
    unsure[:32:4, 6], wrong[:32, 6] = 0.99, False  # at candidate 7 a quarter leaves, wrongly
    write_samples(Samples(unsure, wrong), tmp_path / "log.npz", replace=True)
    (line,) = lines(fluidb(*common))
    assert "the nearest, after block7.norm2, keeps 75.00% of the precision" in line
    unsure[:, 8] = 0.99
    write_samples(Samples(unsure, wrong), tmp_path / "log.npz", replace=True)
    shown = fluidb(*common).stdout
    assert shown.count("no sample is sure enough to leave") == 9
    assert shown.count("no thresholds keep more than 99.00 % with 95 % confidence") == 1
    shown = fluidb(*common, "--guard", "none").stdout
    assert shown.count("no thresholds keep more than 99.00 %\n") == 1


def test_a_target_of_another_kind_is_one_clear_line(tmp_path: Path, fluidb: Run, tiny_design: Path) -> None:
    write_samples(drawn(), tmp_path / "log.npz")
    common = ["--samples", "log.npz", "--batch", 4]
    for target, fault in (
        (tiny_design, "expected times of the network with an exit at each of its 11 candidates, found times of "),
        ("zc706", "expected a device, found a board"),
        ("numpy-x86", "expected the network whose times it has"),
    ):
        (line,) = lines(fluidb("exits", "bert_base", target, *common))
        assert fault in line


def test_a_log_of_entropies_chooses_the_same_exits(fluidb: Run, tmp_path) -> None:
    """The measure changes the thresholds of a plan and nothing else, also while exits are adapted."""
    confidences = (0.6, 0.7, 0.8, 0.9, 0.99)
    entropies = [float(-(p * np.log(p) + (1 - p) * np.log(1 - p))) for p in confidences]
    by = [
        plan_of(samples, ExitGoal(16, thresholds=tuple(levels)))
        for samples, levels in ((drawn(), confidences), (as_measured(drawn(), ENTROPY, 2), entropies))
    ]
    first, second = (planned.plan for planned in by)
    assert (first.measure, second.measure) == ("confidence", "entropy")
    assert second.confidences == entropies
    assert dict(zip(confidences, entropies, strict=True))[first.exits[0].confidence] == second.exits[0].confidence
    without = {"inputs": True, "measure": True, "confidences": True, "exits": {"__all__": {"confidence"}},
               "steps": {"__all__": {"candidates": {"__all__": {"confidence"}}}}}  # fmt: skip
    assert first.model_dump(exclude=without) == second.model_dump(exclude=without)
    turned = plan_of(as_measured(drawn(), ENTROPY, 2), ExitGoal(16, thresholds=tuple(reversed(entropies))))
    assert turned.plan.confidences == entropies
    with pytest.raises(InputError, match="thresholds: expected entropies from 0 to 25 nats, found 26$"):
        plan_of(as_measured(drawn(), ENTROPY, 2), ExitGoal(16, thresholds=(0.1, 26.0)))
    for name, planned, samples in zip("ce", by, (drawn(), as_measured(drawn(), ENTROPY, 2)), strict=True):
        write_plan(planned, tmp_path / name)
        write_samples(samples, tmp_path / f"{name}.npz")
    surer = draw_answers(PRESETS["glue"], 11, 4000, seed=5, overconfidence=2.0)
    write_samples(surer, tmp_path / "c-then.npz")
    write_samples(as_measured(surer, ENTROPY, 2), tmp_path / "e-then.npz")
    fluidb("trace", "poisson", "--rate", 500, "--count", 4000, "-o", "t.csv")
    adapted = [
        json.loads(fluidb("adapt", name, "--trace", "t.csv", "--samples", f"{name}.npz", "--window", 20, "--from", "2s",
                          "--then-samples", f"{name}-then.npz", "--policy", "pame:timeout=10ms", "--json").stdout)
        for name in "ce"
    ]  # fmt: skip
    changes = [found.pop("changes") for found in adapted]
    assert adapted[0] | {"plan": "e"} == adapted[1]
    assert len(changes[0]) == len(changes[1]) > 0
    assert all(0 <= exit_["confidence"] <= 0.7 for change in changes[1] for exit_ in change["exits"])
    mixed = fluidb("adapt", "c", "--trace", "t.csv", "--samples", "e.npz", "--policy", "pame:timeout=10ms")
    assert "e.npz: expected confidence, by which the plan was chosen, found entropy" in lines(mixed)[0]


# ---- measured times


def csv_of(times: np.ndarray, path: Path) -> Path:
    ends = range(len(times))
    gathers = bool(times[1, 1].any())
    pairs = [(a, b) for a in ends for b in ends if a < b or (gathers and 0 < a == b < ends[-1])]
    rows = [(a, b, n, times[a, b, n]) for a, b in pairs for n in range(1, times.shape[2])]
    lines_ = [",".join(map(repr, (a, b, n, float(seconds)))) for a, b, n, seconds in rows[::-1]]
    path.write_text("\n".join(["from,to,batch,seconds", *lines_]) + "\n")
    return path


def test_measured_times_of_all_stages_give_the_plan_of_the_device(fluidb: Run, folder: Path, tmp_path: Path) -> None:
    """As a CSV, and as the file of another plan; the plan that is written serves."""
    write_samples(drawn(), tmp_path / "log.npz")
    times = read_table(InferenceTime, folder / "inference_time.json").array()
    csv_of(times, tmp_path / "t.csv")
    (tmp_path / "t.json").write_bytes((folder / "inference_time.json").read_bytes())
    fluidb("trace", "poisson", "--rate", 300, "--count", 300, "-o", "requests.csv")
    for target in ("t.csv", "t.json"):
        found = tmp_path / target.replace(".", "-")
        common = ["--samples", "log.npz", "--batch", 16, "--guard", "none", "-o", found]
        done = fluidb("exits", BERT[0], target, *common)
        assert (done.returncode, done.stderr) == (0, "")
        assert read_plan(found).exits == read_plan(folder).exits
        assert read_plan(found).expected == read_plan(folder).expected
        np.testing.assert_allclose(read_latency(found).array(), read_latency(folder).array(), rtol=1e-12)
        more = ["--samples", found / "samples.npz", "--threshold", "0.9", "--slo", "100ms"]
        assert fluidb("serve-sim", found, "--trace", "requests.csv", *more).returncode == 0


def test_a_device_with_measured_stages_is_planned_and_its_plan_serves(fluidb: Run, tmp_path: Path) -> None:
    write_samples(drawn(), tmp_path / "log.npz")
    fluidb("models", "exits", BERT[0], "-o", "every.toml")
    rows = [f"{stage},{batch},{(0.5 + 0.1 * batch) * 1e-3}" for stage in range(1, 13) for batch in range(1, 17)]
    (tmp_path / "times.csv").write_text("\n".join(["stage,batch,seconds", *rows]) + "\n")
    fluidb("platforms", "import", "times.csv", "--network", "every.toml", "-o", "mine.toml")
    done = fluidb("exits", BERT[0], "mine.toml", "--samples", "log.npz", "--batch", 16, "-o", "plan")
    assert (done.returncode, done.stderr) == (0, "")
    stages = read_latency(tmp_path / "plan").stage_array()[0]
    assert stages.sum(axis=0)[16] == pytest.approx(12 * 2.1e-3, rel=0.01)  # heads of BERT are small
    fluidb("trace", "poisson", "--rate", 100, "--count", 300, "-o", "t.csv")
    more = ["--samples", "plan/samples.npz", "--threshold", "0.9", "--slo", "100ms"]
    assert fluidb("serve-sim", "plan", "--trace", "t.csv", *more).returncode == 0


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda rows: rows[:-1], "from 0 to 1, batch 1: expected a time, found none"),
        (lambda rows: [*rows, rows[-1]], "from 0 to 1, batch 1: expected one time, found several"),
        (lambda rows: [*rows, "3,3,1,1.0"], "from 1 to 1, batch 1: expected a time, found none (and 20 more)"),
        (lambda rows: [*rows, "0,0,1,1.0"], "from 0 to 0, batch 1: expected a later place, or a gather at a candidate"),
        (lambda rows: [*rows, "3,13,1,1.0"], "to: expected a place from 0 (the input) to 12 (the end)"),
        (lambda rows: [*rows, "3,4,1,0"], "seconds: expected seconds, from 1e-9"),
        (lambda rows: [row.replace("to", "till") for row in rows], "header: expected a column to"),
        (lambda _: [], "expected"),
    ],
)
def test_measured_times_that_are_not_whole_are_one_clear_line(tmp_path: Path, change, fault) -> None:
    path = csv_of(np.ones((13, 13, 3)) - np.eye(13)[..., None], tmp_path / "t.csv")
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    file, where = read_network_file(BERT[0])
    with pytest.raises(InputError) as error:
        times_of(file, where, str(path))
    assert fault in error.value.faults[0]
    assert str(path) in error.value.faults[0]


def test_times_of_other_candidates_are_refused(folder: Path) -> None:
    file, path = read_network_file("resnet50")
    samples = draw_answers(PRESETS["imagenet"], 15, 400, seed=1)
    with pytest.raises(InputError, match="expected times of the network with an exit at each of its 15 candidates"):
        plan_exits(file, path, times_of(file, path, str(folder / "inference_time.json")), samples, ExitGoal(16))
