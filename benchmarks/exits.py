"""The choice of exits: 33 candidates, 100 pairs of thresholds, 50,000 samples."""

from __future__ import annotations

import numpy as np
from fluidb.rules.exit_choice import choose_exits
from fluidb.rules.exit_log import Log, levels_of
from fluidb.rules.exit_thresholds import ExitGoal
from rounds import BenchmarkTable, Entrant, take_turns, timed

LEVELS, CHOICE = "levels of all confidences", "choice of the exits"


def measure(rounds: int, samples: int = 50_000, candidates: int = 33) -> BenchmarkTable:
    """Time of a whole choice, and of comparing every confidence with the thresholds once."""
    random = np.random.default_rng(0)
    confidences = -np.sort(-random.random((samples, candidates, 10)), axis=2)
    scores = (random.random((samples, candidates + 1)) < np.linspace(0.5, 0.8, candidates + 1)).astype(np.float64)
    log, goal = Log(confidences, scores, np.arange(1, 11)), ExitGoal(32, precision=0.9)
    places = np.arange(candidates + 2)
    stage_s = np.maximum(places[None, :, None] - places[:, None, None], 0) * (np.arange(33) + 4.5) * (np.arange(33) > 0)
    assert choose_exits(log, stage_s, goal).exits
    rows = take_turns(
        [
            Entrant(LEVELS, timed(lambda: levels_of(log, goal.thresholds))),
            Entrant(CHOICE, timed(lambda: choose_exits(log, stage_s, goal)), LEVELS, ours=True),
        ],
        rounds,
    )
    about = (
        f"`fluidb exits` on a log of a dense task: {candidates} candidates, {len(goal.thresholds)} x {len(log.counts)}"
        f" pairs of thresholds, {samples:,} samples."
    )
    return BenchmarkTable("exits", "Choice of exits", about, rows)
