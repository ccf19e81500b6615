"""Drawn answers, their description, and samples of dense tasks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from builders import Run, lines, trace_of
from fluidb.formats import InputError
from fluidb.traffic import Samples, draw_samples, read_samples
from fluidb.traffic.answers import PRESETS, accuracies, draw_answers
from fluidb.traffic.description import describe_samples
from fluidb.traffic.samples import write_samples
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize("preset", PRESETS)
def test_accuracy_is_that_of_the_curve(preset: str) -> None:
    found = draw_answers(PRESETS[preset], 11, 40_000, 0).correct.mean(axis=0)
    assert found == pytest.approx(accuracies(PRESETS[preset], 11), abs=0.012)


def test_the_curve_of_imagenet_worked_out_by_hand() -> None:
    """At candidate 3.73 it is half-way; with 23 candidates every second one lies where one of the eleven does."""
    model = PRESETS["imagenet"]
    curve = accuracies(model, 11)
    assert curve[[0, 10]] == pytest.approx([0.189 + 0.569 / (1 + np.exp(2.73 / 0.316)), 0.758], abs=1e-6)
    assert curve[-1] == 0.774
    assert accuracies(model, 23)[1:23:2] == pytest.approx(curve[:-1])


@pytest.mark.parametrize(("preset", "network", "classes"), [
    ("imagenet", "ee_resnet34", 10), ("imagenet", "resnet101", 1000), ("glue", "bert_base", 2), ("glue", "ee_bert", 3),
    ("imagenet", "transformer_seq2seq", 1000),  # without heads: as many as the preset has
])  # fmt: skip
def test_answers_are_of_as_many_classes_as_the_heads_tell_apart(
    fluidb: Run, tmp_path: Path, preset: str, network: str, classes: int
) -> None:
    """The least sure answer has the entropy of equal chances, and the chance of one of them."""
    common = ["samples", "generate", preset, "--network", network, "--count", 500, "--json"]
    for measure in ("entropy", "confidence"):
        done = fluidb(*common, "--measure", measure, "-o", f"{measure}.npz")
        assert json.loads(done.stdout)["classes"] == classes
    assert read_samples(tmp_path / "confidence.npz").confidences.min() == pytest.approx(1 / classes)
    assert -read_samples(tmp_path / "entropy.npz").confidences.min() == pytest.approx(np.log(classes))


def test_same_seed_same_bytes_and_exits_share_their_difficulty(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        write_samples(draw_answers(PRESETS["qnli"], 4, 500, seed), tmp_path / f"{name}.npz")
    a, b, c = ((tmp_path / f"{name}.npz").read_bytes() for name in "abc")
    assert a == b != c
    right = draw_answers(PRESETS["imagenet"], 11, 5000, 0).correct
    assert np.corrcoef(right[:, 6], right[:, 9])[0, 1] > 0.5


def test_harder_samples_are_wrong_and_surer_answers_only_surer() -> None:
    usual, hard, sure = (
        draw_answers(PRESETS["imagenet"], 11, 5000, 0, difficulty=difficulty, overconfidence=overconfidence)
        for difficulty, overconfidence in ((0, 0), (0.5, 0), (0, 0.3))
    )
    assert hard.correct.mean() < usual.correct.mean() - 0.05
    np.testing.assert_array_equal(sure.correct, usual.correct)
    assert (sure.confidences >= usual.confidences).all()
    assert sure.confidences.mean() > usual.confidences.mean() + 0.05


def test_a_dense_answer_has_sorted_values_and_a_score(tmp_path: Path) -> None:
    dense = draw_answers(PRESETS["imagenet"], 3, 200, 0, values=7)
    assert dense.confidences.shape == (200, 4, 7)
    assert (np.diff(dense.confidences, axis=2) <= 0).all()
    assert set(np.round(dense.correct.ravel() * 7, 9)) <= set(range(8))
    write_samples(dense, tmp_path / "d.npz")
    samples = read_samples(tmp_path / "d.npz")
    np.testing.assert_array_equal(samples.confidences, dense.confidences)
    np.testing.assert_array_equal(samples.correct, dense.correct)


def test_a_count_threshold_asks_the_count_th_largest_value() -> None:
    samples = Samples(np.array([[[0.2, 0.9, 0.5]], [[0.4, 0.1, 0.3]]]), np.array([[0.5, 1.0], [0.25, 0.75]]))
    assert [samples.confidence_at(1, count).tolist() for count in (1, 2, 3)] == [[0.9, 0.4], [0.5, 0.3], [0.2, 0.1]]
    left = samples.at_exits([1], [2])
    assert left.confidences.tolist() == [[0.5], [0.3]]
    assert left.correct.tolist() == [[0.5, 1.0], [0.25, 0.75]]
    middle = Samples(np.array([[0.1, 0.2, 0.3]]), np.array([[0.0, 0.25, 0.5, 1.0]])).at_exits([2], [1])
    assert (middle.confidences.tolist(), middle.correct.tolist()) == ([[0.2]], [[0.25, 1.0]])
    trace = draw_samples(trace_of([0.0, 1.0, 2.0]), left, 0)
    assert trace.correct is not None
    assert set(trace.correct[:, 0]) <= {0.5, 0.25}
    with pytest.raises(
        InputError, match="expected one confidence for each exit, found 3 principal values; `fluidb exits`"
    ):
        draw_samples(trace_of([0.0]), samples, 0)


def test_a_description_worked_out_by_hand() -> None:
    samples = Samples(np.array([[0.95], [0.9], [0.55], [0.5]]), np.array([[1, 1], [0, 1], [1, 1], [0, 0]], dtype=bool))
    first, last = describe_samples(samples, [0.9, 0.99])
    assert [first.accuracy, first.mean] == pytest.approx([0.5, 0.725])
    ranges = [(row.samples, row.confidence, row.accuracy) for row in first.calibration]
    assert np.array(ranges) == pytest.approx(np.array([(2, 0.525, 0.5), (2, 0.925, 0.5)]))
    assert first.calibration_error == pytest.approx((0.025 + 0.425) / 2)
    assert [(row.threshold, row.exit_share, row.accuracy) for row in first.thresholds] == [
        (0.9, 0.5, 0.5),
        (0.99, 0.0, None),
    ]
    assert (last.accuracy, last.mean) == (0.75, None)
    assert [(row.threshold, row.exit_share, row.accuracy) for row in last.thresholds] == [
        (0.9, 0.5, 0.5),
        (0.99, 1.0, 0.75),
    ]


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(0, 1))
def test_what_leaves_at_an_exit_is_what_is_left_of_those_before_it(seed: int, exits: int, more: int) -> None:
    """One sample after the other, by hand; the shares of all exits sum to 1."""
    random = np.random.default_rng(seed)
    sure, right = random.integers(0, 5, (6, exits - 1 + more)) / 4, random.integers(0, 2, (6, exits)) == 1
    answers: dict[int, list[bool]] = {exit_: [] for exit_ in range(exits)}
    for values, correct in zip(sure.tolist(), right.tolist(), strict=True):
        exit_ = next((place for place, value in enumerate(values[: exits - 1]) if value >= 0.5), exits - 1)
        answers[exit_].append(correct[exit_])
    described = describe_samples(Samples(sure, right), [0.5])
    assert sum(about.thresholds[0].exit_share for about in described) == pytest.approx(1)
    for about, left in zip(described, answers.values(), strict=True):
        assert about.thresholds[0].exit_share == len(left) / 6
        assert about.thresholds[0].accuracy == (pytest.approx(sum(left) / len(left)) if left else None)


@pytest.mark.parametrize(
    ("arrays", "fault"),
    [
        ({"confidence": np.full((2, 1, 2), 1.5), "score": np.ones((2, 2))},
         "row 1: confidence_1_1: expected a confidence from 0 to 1, found 1.5 (and 3 more values)"),
        ({"confidence": np.ones((2, 1)), "score": np.full((2, 2), -1.0)},
         "row 1: score_1: expected a score from 0 to 1, found -1.0 (and 3 more values)"),
        ({"confidence": np.ones((2, 1, 0)), "score": np.ones((2, 2))},
         "expected at least one principal value, found none"),
        ({"confidence": np.ones((2, 1)), "score": np.ones((2, 2, 2))},
         "score: expected samples x exits, found 3 dimensions"),
        ({"confidence": np.ones((2, 1)), "score": np.ones((2, 2)), "correct": np.ones((2, 2))},
         "found confidence, correct"),
    ],
)  # fmt: skip
def test_a_fault_of_a_dense_log_is_one_clear_line(tmp_path: Path, arrays, fault: str) -> None:
    np.savez(tmp_path / "s.npz", **arrays)
    with pytest.raises(InputError) as error:
        read_samples(tmp_path / "s.npz")
    (line,) = error.value.faults
    assert fault in line


def test_faults_of_the_commands(fluidb: Run, tmp_path: Path) -> None:
    generate = ["samples", "generate", "glue", "--network", "bert_base", "-o", "log.npz"]
    for arguments, fault in (
        (
            ["samples", "generate", "glue", "--network", "alexnet_cifar10", "-o", "log.npz"],
            "--network: expected a network with exits or candidates, found none in",
        ),
        (["samples", "generate", "coco", *generate[3:]], 'preset: expected one of imagenet, glue, qnli, found "coco"'),
        ([*generate, "--count", 0], "--count: expected 1 to 100,000,000, found 0"),
        ([*generate, "--values", 10**5], "count: expected at most 27 samples of 12 exits and 100000 values each"),
        ([*generate[:-1], "log.csv"], "log.csv: expected a file that ends in .npz"),
    ):
        (line,) = lines(fluidb(*arguments))
        assert fault in line
    assert not list(tmp_path.iterdir())
    dense = draw_answers(PRESETS["glue"], 3, 20, 0, values=4)
    with pytest.raises(InputError, match=r"^count: expected 1 to 4, the principal values of an answer, found 5$"):
        describe_samples(dense, [0.5], 5)


def test_a_picture_of_samples_is_the_same_twice(fluidb: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    fluidb("samples", "generate", "glue", "--network", "bert_base", "--count", 200, "-o", "log.npz")
    for name in ("a.svg", "b.svg"):
        assert fluidb("samples", "show", "log.npz", "--plot", name).returncode == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert "accuracy of those that leave" in (tmp_path / "a.svg").read_text()
