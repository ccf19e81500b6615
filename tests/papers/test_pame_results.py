"""PAME reproduced: what results/pame holds, and the reasons that it gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import Run, compared_rows, result_rows
from fluidb.papers.lab import Lab
from fluidb.papers.pame import PAPER
from fluidb.papers.pame.design import all_seeds, fates
from fluidb.papers.pame.rehearsal import IMAGENET, QNLI, TASKS, halves
from fluidb.papers.pictures import draw
from fluidb.papers.rows import Item, Row
from fluidb.platforms import Device, load_platform
from fluidb.plots import save
from fluidb.rules.exit_choice import CandidateVerdict, choose_exits
from fluidb.rules.exit_thresholds import ExitGoal, Setting
from fluidb.rules.exit_times import moving_on

RESULTS = Path(__file__).parents[2] / "results" / "pame"


def test_what_the_reference_computed_comes_out():
    """Bands of the page that pins the paper down; the tests of the choice of exits have the choice's bands."""
    latency = compared_rows(RESULTS, "pame_fig9")
    for task, quantity, low, high in (
        ("ImageNet", "change of the average, all n", -43, -39), ("ImageNet", "change of the tail, all n", -26, -22),
        ("GLUE", "change of the average, all n", -48, -44), ("GLUE", "change of the tail, all n", -40, -34),
    ):  # fmt: skip
        assert low <= float(latency[quantity, task, "mean"]["ours"]) <= high
    parallel = compared_rows(RESULTS, "pame_fig18")
    assert 26 <= float(parallel["throughput gain, all n", "serial", "mean"]["ours"]) <= 38
    gain = [float(parallel["throughput gain, all n", of, "mean"]["ours"]) for of in ("serial", "tau_b = 4")]
    assert 0 < gain[1] - gain[0] < 3
    assert float(parallel["slow samples, n = 16", "tau_b = 4", "ImageNet"]["ours"]) < 2
    exits = compared_rows(RESULTS, "pame_fig10")
    for n in (16, 32, 64):
        assert float(exits["first exit is H13", "ImageNet", f"n = {n}"]["ours"]) == 100


def test_the_reason_against_a_second_exit_is_what_became_of_the_candidates():
    """All five behind QNLI's first exit make too many batches slow, with the batch-by-batch test of Section 6.4."""
    lab = Lab(seeds=2)
    (claim,) = PAPER.reproduce("pame_fig15", lab).claims
    slow = []
    for item in all_seeds(QNLI, lab, ExitGoal(batch=16)):
        first, setting = item.choice.exits[0], item.choice.settings[0]
        log, stage_s = item.chosen_by, QNLI.stage_s
        alive = log.sureness[:, first - 1, 0] < setting.threshold
        reach = moving_on(alive, 16)
        for verdict in item.choice.steps[1].verdicts:
            place = verdict.candidate
            moves = moving_on(alive & (log.sureness[:, place - 1, 0] < verdict.setting.threshold), 16)
            with_it = stage_s[first, place, reach] + stage_s[place, -1, moves]
            slow.append(100 * np.mean(with_it > stage_s[first, -1, reach]))
    assert len(slow) == 10
    assert min(slow) > 2
    expected = f"(10 of 10 candidates of all seeds); the best of these makes {min(slow):.1f} % of the batches slow"
    assert expected in claim.reason


def test_the_reason_in_fig_16_counts_right_answers():
    """Less sure samples are as often right: the share is of the logs themselves."""
    lab = Lab(requests=2000, seeds=1)
    found = PAPER.reproduce("pame_fig16", lab).claims[0]
    past, fresh = halves(IMAGENET, 0, lab)
    place = choose_exits(past, IMAGENET.stage_s, ExitGoal(batch=16, guard=0.995)).exits[0] - 1
    other = IMAGENET.log(1000, 2 * len(fresh.scores))
    before, changed = (100 * float(log.scores[:, place].mean()) for log in (fresh, other))
    assert found.reason.endswith(
        f"; {changed:.1f} % of the answers at the first exit are right, and {before:.1f} % before the change"
    )


def test_the_gains_of_the_abstract_stand_beside_ours():
    gains, accuracy = compared_rows(RESULTS, "pame_fig9"), compared_rows(RESULTS, "pame_fluid")
    rows = [row for row in result_rows(RESULTS, "pame_fig9") if row["quantity"] == "change of the average"]
    means = [float(row["ours"]) for row in rows]
    assert len(means) == 9
    every = gains["change of the average, all n", "all tasks", "mean"]
    assert (every["paper"], every["basis"]) == ("-39.9", "calibrated")
    assert float(every["ours"]) == pytest.approx(np.mean(means), rel=1e-4)
    least = min(rows, key=lambda row: float(row["ours"]))
    largest = gains["largest change of the average", "all tasks", f"{least['of']}, n = {least['x']}"]
    assert (largest["paper"], largest["ours"], largest["basis"]) == ("-51.4", least["ours"], least["basis"])
    ours = accuracy["accuracy", "by hand, our log", "resnet50 on zc706"]
    assert (ours["paper"], ours["difference"][:5]) == ("75.6", "-16.8")


def test_reasons_of_candidates_are_counted():
    setting = Setting(0.5, 0, 3, 0.9)
    verdicts = [
        CandidateVerdict(1, "imprecise", setting), CandidateVerdict(2, "imprecise", setting._replace(exits=0)),
        CandidateVerdict(3, "no gain", setting), CandidateVerdict(4, "imprecise", setting),
    ]  # fmt: skip
    assert fates(verdicts, "candidates") == (
        "too little of the precision is kept (2 of 4 candidates), no sample is sure enough to leave "
        "(1 of 4 candidates), too little time is saved (1 of 4 candidates)"
    )


def test_what_was_chosen_by_a_figure_is_not_called_a_prediction_of_it():
    """How batches slow each other was chosen by Fig. 18, and the files of the devices say so."""
    beside = [row for row in result_rows(RESULTS, "pame_fig18") if "tau_b" in row["of"] or row["x"] not in ("", "0")]
    assert len(beside) == 40
    assert {row["basis"] for row in beside} == {"calibrated"}
    for name in {task.device for task in TASKS}:
        source = load_platform(name, kind=Device).sources["load_full"]
        assert source.startswith(("calibrated by PAME, Fig. 18", "as v100-tensorrt")), name
    exits = compared_rows(RESULTS, "pame_fig10")
    assert {exits["number of exits", task, "n = 16"]["basis"] for task in ("GLUE", "QNLI")} == {"calibrated"}


def test_rows_with_and_without_an_axis_are_one_table(fluidb: Run):
    done = fluidb("reproduce", "pame_fig18", "--count", 130, "--seeds", 1)
    assert (done.returncode, done.stderr) == (0, "")
    assert "throughput gain, all n" in done.stdout
    assert "predicted" in done.stdout


def test_a_matrix_has_a_field_for_each_pair(tmp_path):
    rows = [Row("time", name, "net", "%", 10.0 * x, x=x) for name in ("H1", "H2") for x in (0.0, 1.0, 2.0)]
    save(draw(Item("m", "M", [], rows[:-1], "samples", picture="matrix"), {}), tmp_path / "m.svg", replace=True)
    text = (tmp_path / "m.svg").read_text()
    for word in ("H1", "H2", "samples", "time, %"):
        assert word in text


def test_a_picture_of_lines_has_one_scale_and_names_those_that_are_equal():
    """Its title is what was found; a legend of long names has as many columns as the picture has room for."""
    names = ["A", "B", "C", *(f"a contender with a name of fifty letters, number {k}" for k in range(5))]
    rows = [
        Row("violations", name, at, "%", 10.0 * x * (1 + names.index(name) // 2), x=x)
        for name in names for at in ("here", "there") for x in (1.0, 2.0 + (at == "there"))
    ]  # fmt: skip
    figure = draw(Item("m", "M", [], rows, "rate"), {})
    here, there = figure.axes
    assert here.get_ylim() == there.get_ylim()
    drawn = [line.get_label() for line in here.lines]
    assert drawn[0] == "A = B"
    assert len(drawn) == 4
    assert " ".join(figure.get_suptitle().split()).startswith(
        f"A has the lowest violations on average, {names[-2]} the highest."
    )
    (legend,) = figure.legends
    assert legend._ncols == 1
    printed = [Row("violations", "A", "here", "%", 3.0, paper=1.0), Row("latency", "A", "here", "ms", 3.0, paper=4.0)]
    found = draw(Item("m", "M", [], printed, picture="bars"), {}).get_suptitle()
    assert found.startswith("Ours differ from the paper by 25 % and 2 points.")
