"""PAME while its load changes: the three cases of Section 7.6, and what must hold of any change."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from fluidb.dse.device.tabulate import tabulate_device
from fluidb.dse.exits.stage_times import stage_times
from fluidb.formats import InputError
from fluidb.models.candidates import load_with_exits
from fluidb.platforms import Device, load_platform
from fluidb.rules.exit_choice import ExitGoal, Log, choose_exits, log_of, replay_exits
from fluidb.serving import find_policy
from fluidb.serving.adaptation import AdaptiveRun, Exits, Hardware, adapt
from fluidb.traffic.answers import PRESETS, draw_answers

BATCH, WINDOW = 16, 40
GOAL = ExitGoal(batch=BATCH)
TABLE = tabulate_device(load_with_exits("resnet101"), load_platform("v100-tensorrt", kind=Device))
STAGE_S = stage_times(TABLE)


def drawn(seed: int, batches: int, **shift: Any) -> Log:
    return log_of(draw_answers(PRESETS["imagenet"], len(STAGE_S) - 2, BATCH * batches, seed, **shift))


def joined(*logs: Log) -> Log:
    confidences, scores = (np.concatenate(parts) for parts in list(zip(*logs, strict=True))[:2])
    return Log(confidences, scores, logs[0].counts)


PAST = drawn(0, 600)
FOUND = Exits.of(choose_exits(PAST, STAGE_S, GOAL))


def served(log: Log, exits: Exits = FOUND, spec: str = "pame:timeout=0", **options) -> AdaptiveRun:
    """Everybody waits from the beginning, so that all batches are full."""
    options = {"window": WINDOW} | options
    return adapt(log, np.zeros(len(log.scores)), STAGE_S, GOAL, exits, PAST, find_policy(spec), **options)


@pytest.mark.parametrize("exits", [FOUND, Exits((4, 6, 10), (0.5, 0.6, 0.9), (0, 0, 0)), Exits((), (), ())])
def test_without_a_window_every_batch_is_as_estimated(exits):
    log, choice = drawn(1, 60), choose_exits(PAST, STAGE_S, GOAL)
    settings = [choice.settings[0]._replace(confidence=sure, column=at) for _, sure, at in zip(*exits, strict=True)]
    expected = replay_exits(log, STAGE_S, BATCH, exits.places, settings)
    found = served(log, exits, window=0)
    ((end, whole),) = found.blocks(log, 60)
    assert end == len(log.scores)
    assert found.changes == []
    assert whole == pytest.approx((expected.precision, expected.slow_share, expected.average_s, expected.tail_s))
    leaving = np.bincount(found.exit, minlength=len(STAGE_S))[[*exits.places, len(STAGE_S) - 1]] / len(log.scores)
    assert leaving == pytest.approx(expected.exit_shares)


def test_precision_below_eta_raises_the_threshold_by_one_step():
    log = joined(drawn(1, 50), drawn(2, 200, overconfidence=0.6))
    first, *others = served(log).changes
    for change in (first, *others):
        assert change.precision < GOAL.precision or change.cause == "slow batches"
    assert first.cause == "precision"
    assert first.exits == FOUND._replace(
        confidences=(GOAL.confidences[GOAL.confidences.index(FOUND.confidences[0]) + 1],)
    )
    assert [change.exits.confidences for change in others if change.cause == "precision"]


def test_of_two_exits_the_one_that_loses_most_gets_stricter():
    """The first exit lets only sure samples leave; what is lost is lost at the second."""
    exits = Exits((5, 8), (0.95, 0.5), (0, 0))
    changes = served(drawn(2, 100, overconfidence=0.6), exits).changes
    assert changes[0].exits == Exits((5, 8), (0.95, 0.55), (0, 0))


def test_an_exit_without_a_stricter_step_moves_back():
    """Answers are so much surer that nearly all leave at the strictest threshold."""
    first = served(drawn(3, 100, overconfidence=3.0), Exits((3,), (GOAL.confidences[-1],), (0,))).changes[0]
    assert first.cause == "precision"
    assert first.exits.places[0] > 3


def test_slow_batches_move_the_exit_back_and_choose_thresholds_anew():
    """An early exit at which few leave makes most batches slow."""
    early = Exits((4,), (0.95,), (0,))
    log = drawn(3, 200)
    first = served(log, early, window=100).changes[0]
    assert first.cause == "slow batches"
    assert first.slow_share > GOAL.slow
    assert first.exits.places[0] > 4
    # of the batches that had started, one or two were still in flight
    ends = range(first.request - 2 * BATCH, first.request, BATCH)
    windows = [log.part(slice(end - BATCH * 100, end)) for end in ends]
    assert first.exits in [Exits.of(choose_exits(window, STAGE_S, GOAL, range(4, 12))) for window in windows]


def test_precision_comes_before_slow_batches():
    """An early exit with a low threshold loses precision; made stricter, it becomes slow, and only then moves."""
    causes = [change.cause for change in served(drawn(3, 900), Exits((2,), (0.5,), (0,))).changes]
    moved = causes.index("slow batches")
    assert set(causes[:moved]) == {"precision"}
    assert moved > 1


def test_other_hardware_is_chosen_for_with_the_batching_patterns_of_before():
    """Backbone four times as quick, exits as slow as before: the exit does not pay any more where it stood."""
    quick = 0.25 * STAGE_S
    quick[:, 1:-1] += 0.004 * (quick[:, 1:-1] > 0)
    expected = Exits.of(choose_exits(PAST, quick, GOAL))
    assert expected != FOUND
    log, changes = drawn(4, 150), []
    found = served(log, hardware=[Hardware(0.5, quick)], window=20)
    changes = [change for change in found.changes if change.cause == "hardware"]
    assert [change.exits for change in changes] == [expected]
    before, after = (found.finish_s - found.start_s)[[0, -1]]
    assert changes[0].time_s > 0.5
    assert after < before


@pytest.mark.parametrize("lanes", [1, 2])
def test_batches_in_flight_keep_what_they_began_with(lanes):
    """Each request leaves where the exits that held when its batch began let it leave, and nowhere else."""
    log = joined(drawn(1, 100), drawn(2, 300, difficulty=0.8))
    found = served(log, spec=f"pame:timeout=0,tau_b=8,lanes={lanes}", window=20, load=TABLE.load)
    assert len(found.changes) > 2
    known = [(0, FOUND), *((change.request, change.exits) for change in found.changes), (len(log.scores), FOUND)]
    for (first, exits), (last, _) in itertools.pairwise(known):
        rows = np.arange(first, last)
        expected = np.full(len(rows), len(STAGE_S) - 1)
        for place, confidence, column in reversed(list(zip(*exits, strict=True))):
            expected[log.confidences[rows, place - 1, column] >= confidence] = place
        assert found.exit[rows].tolist() == expected.tolist()
    assert np.all(np.isfinite(found.finish_s))


def test_adaptation_does_not_depend_on_what_comes_later():
    log, other = (
        drawn(1, 200, difficulty=0.5),
        joined(drawn(1, 200, difficulty=0.5).part(slice(0, 1600)), drawn(5, 100)),
    )
    first, second = served(log), served(other)
    assert first.finish_s[:1584].tolist() == second.finish_s[:1584].tolist()


def test_a_batch_or_a_log_that_does_not_fit_is_a_fault():
    log = drawn(1, 1)
    with pytest.raises(InputError, match="batch: expected at most 8, the largest of the stage times, found 16"):
        adapt(log, np.zeros(16), STAGE_S[:, :, :9], GOAL, FOUND, PAST, find_policy("pame"))
    with pytest.raises(InputError, match="samples: expected confidences at 9 candidates, found 11"):
        adapt(log, np.zeros(16), STAGE_S[2:, 2:], GOAL, FOUND, PAST, find_policy("pame"))
