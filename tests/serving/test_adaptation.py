"""PAME while its load changes: the three cases of Section 7.6, and what must hold of any change."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import naive_adaptation as naive
import numpy as np
import pytest
from fluidb.dse.device.tabulate import tabulate_device
from fluidb.dse.exits.stage_times import stage_times
from fluidb.formats import InputError
from fluidb.models.candidates import load_with_exits
from fluidb.platforms import Device, load_platform
from fluidb.rules.exit_choice import choose_exits
from fluidb.rules.exit_log import Log, log_of
from fluidb.rules.exit_thresholds import ExitGoal, kept_thresholds
from fluidb.rules.exit_times import replay_exits
from fluidb.serving import find_policy
from fluidb.serving.adaptation import AdaptiveRun, Change, DeviceTimes, Hardware, Observation, PlannedExits, adapt
from fluidb.serving.judgement import FALSE_ALARM, Exits, Judge, Verdict
from fluidb.traffic import poisson
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


PLANNED, TIMES = PlannedExits(FOUND, GOAL, PAST), DeviceTimes(STAGE_S)


def served(log: Log, exits: Exits = FOUND, spec: str = "pame:timeout=0", **options) -> AdaptiveRun:
    """Everybody waits from the beginning, so that all batches are full."""
    own = {name: options.pop(name) for name in DeviceTimes._fields if name in options}
    options = {"window": WINDOW} | options
    plan, times = PLANNED._replace(exits=exits), TIMES._replace(**own)
    return adapt(log, np.zeros(len(log.scores)), plan, times, find_policy(spec), **options)


@pytest.mark.parametrize("exits", [FOUND, Exits((4, 6, 10), (0.5, 0.6, 0.9), (0, 0, 0)), Exits((), (), ())])
def test_without_a_window_every_batch_is_as_estimated(exits):
    log, choice = drawn(1, 60), choose_exits(PAST, STAGE_S, GOAL)
    settings = [choice.settings[0]._replace(threshold=sure, column=at) for _, sure, at in zip(*exits, strict=True)]
    expected = replay_exits(log, STAGE_S, BATCH, exits.places, settings)
    run = served(log, exits, window=0)
    ((end, whole),) = run.blocks(log, 60)
    assert end == len(log.scores)
    assert run.changes == []
    assert whole._replace(slow_allowed=0.0) == pytest.approx(
        (expected.precision, expected.slow_share, 0.0, expected.average_s, expected.tail_s)
    )
    leaving = np.bincount(run.exit, minlength=len(STAGE_S))[[*exits.places, len(STAGE_S) - 1]] / len(log.scores)
    assert leaving == pytest.approx(expected.exit_shares)


def plain_figures(log: Log, found: AdaptiveRun, change: Change, exits: Exits) -> tuple[float, float]:
    """Precision and slow batches of those that a change is judged by, in plain loops."""
    starts = [int(start) for start in found.starts() if change.judged_from <= start <= change.judged_to]
    assert (starts[0], starts[-1]) == (change.judged_from, change.judged_to)
    return naive.figures(
        log.sureness[:, :, 0].tolist(), log.scores.tolist(), starts,
        list(zip(exits.places, exits.thresholds, strict=True)), lambda a, b, n: STAGE_S[a, b, n], len(STAGE_S) - 1,
    )  # fmt: skip


def test_answers_that_are_surer_than_right_need_a_stricter_threshold():
    log = joined(drawn(1, 50), drawn(2, 800, overconfidence=0.6))
    result = served(log)
    first = result.changes[0]
    assert first.cause == "load"
    assert first.precision < GOAL.precision
    assert first.exits.thresholds[0] > FOUND.thresholds[0]
    assert first.judged_from < 60 * BATCH
    later, fixed = (run.observe(log, run.starts()[-401:]) for run in (result, served(log, window=0)))
    assert later.precision > GOAL.precision > fixed.precision


@pytest.mark.parametrize(("spec", "surer"), [("pame:timeout=0", 1.0), ("pame:timeout=3ms", 0.6)])
def test_evidence_and_first_choice_are_those_of_plain_loops(spec, surer):
    """Batches are full, or as large as requests happened to arrive."""
    log = joined(drawn(1, 50), drawn(2, 300, overconfidence=surer))
    arrival_s = poisson(500, len(log.scores), 1).arrival_s if "ms" in spec else np.zeros(len(log.scores))
    adapted = adapt(log, arrival_s, PLANNED, TIMES, find_policy(spec), window=WINDOW)
    change, starts = adapted.changes[0], adapted.starts().tolist()
    assert change.cause == "load"
    starts = starts[: starts.index(change.judged_to) + 1]
    chain = list(zip(FOUND.places, FOUND.thresholds, strict=True))
    left = [naive.leaves_at(row, chain, len(STAGE_S) - 1) for row in PAST.sureness[:, :, 0].tolist()]
    shares = [(sum(place <= at for place in left) + 0.5) / (len(left) + 1) for at, _ in chain]
    evidence = naive.evidence(
        log.sureness[:, :, 0].tolist(), log.scores.tolist(), starts, chain, lambda a, b, n: STAGE_S[a, b, n],
        len(STAGE_S) - 1, GOAL.precision, adapted.allowed[starts[:-1]].tolist(), shares,
    )  # fmt: skip
    bets = sum(map(len, evidence.values()))
    enough = [since for gain, since in evidence["load"] if gain >= np.log(bets / FALSE_ALARM)]
    assert change.judged_from in enough
    assert (change.precision, change.slow_share) == pytest.approx(plain_figures(log, adapted, change, FOUND))
    first = choose_new(adapted, log, change)
    assert change.exits == first


def choose_new(found: AdaptiveRun, log: Log, change: Change) -> Exits:
    """Exits for batches of a new load: their thresholds keep the precision on the log of the plan, too."""
    starts = found.starts()
    starts = starts[(starts >= change.judged_from) & (starts <= change.judged_to)]
    rows = log.part(slice(change.judged_from, change.judged_to))
    left = np.argmax(
        np.column_stack([*(rows.sureness[:, p - 1, 0] >= c for p, c in zip(*FOUND[:2], strict=True)),
                         np.ones(len(rows.scores), bool)]), axis=1
    )  # fmt: skip
    kept = rows.scores[np.arange(len(left)), np.array([*FOUND.places, len(STAGE_S) - 1])[left] - 1]
    lost = GOAL.precision * rows.scores[:, -1] - kept
    missed = np.std(lost) / np.sqrt(len(lost)) / rows.scores[:, -1].mean()
    slow = found.allowed[starts[:-1]].mean()
    goal = replace(GOAL, precision=GOAL.precision - missed, slow=slow)
    return Exits.of(choose_exits(rows, STAGE_S, goal, kept_thresholds(PAST, GOAL), np.diff(starts)))


def test_precision_is_found_where_as_many_leave_as_before():
    """Confidences are the log's, and answers at the exit are wrong more often."""
    log = drawn(3, 2000)
    place = FOUND.places[0] - 1
    wrong = np.random.default_rng(0).random(len(log.scores)) < 0.05
    wrong[: 16 * 300] = False
    scores = log.scores.copy()
    scores[wrong, place] = 0.0
    worse = Log(log.sureness, scores, log.counts)
    first = served(worse).changes[0]
    assert first.cause == "precision"
    assert first.judged_from >= 16 * 250
    assert first.exits.places[:1] != FOUND.places or first.exits.thresholds > FOUND.thresholds


def test_slow_batches_are_found_where_as_many_leave_as_before():
    """The same samples in another order: in a third of the batches nobody leaves, in the others more do."""
    log = drawn(3, 900)
    leaves = log.sureness[:, FOUND.places[0] - 1, 0] >= FOUND.thresholds[0]
    stay, rest = np.flatnonzero(~leaves), np.flatnonzero(leaves)
    number = len(stay) // (2 * BATCH)
    hard, easy = stay[: number * BATCH].reshape(-1, BATCH), np.concatenate([stay[number * BATCH :], rest])
    easy = np.random.default_rng(0).permutation(easy)[: len(easy) // BATCH * BATCH].reshape(-1, BATCH)
    every = np.random.default_rng(1).permutation(np.concatenate([hard, easy])).reshape(-1)
    first = served(log.part(every)).changes[0]
    assert first.cause == "slow batches"
    assert first.slow_share > 0.1
    assert first.exits.places[:1] != FOUND.places


@pytest.mark.parametrize("other", [{"difficulty": 2.0}, {"overconfidence": -1.0}, {"overconfidence": 0.6}])
def test_the_plan_returns_with_its_load(other):
    run = served(joined(drawn(1, 300), drawn(2, 500, **other), drawn(3, 1000)))
    changes = [change for change in run.changes if change.request < 800 * BATCH]
    assert changes
    assert changes[0].request > 300 * BATCH
    assert run.changes[-1].exits == FOUND
    assert run.changes[-1].request > 800 * BATCH


def test_another_load_is_found_again_after_the_plan_has_returned():
    parts = [drawn(1, 300), drawn(2, 500, overconfidence=0.6), drawn(3, 1000), drawn(2, 500, overconfidence=0.6)]
    changes = served(joined(*parts)).changes
    assert changes[-2].exits == FOUND
    assert changes[-1].exits != FOUND
    assert changes[-1].cause == "load"
    assert changes[-1].request > 1800 * BATCH


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Batches that were counted whenever exits were judged anew."""
    counts, verdict = list[int](), Judge.judge

    def judge(self: Judge) -> Verdict | None:
        found = verdict(self)
        if found is not None:
            counts.append(self.counted)
        return found

    monkeypatch.setattr(Judge, "judge", judge)
    return counts


def test_the_load_of_the_plan_is_no_evidence_once_it_has_returned(judged):
    """Of 1,000 batches of it only the first ones are judged anew."""
    served(joined(drawn(1, 300), drawn(2, 500, overconfidence=-1.0), drawn(3, 1000)))
    assert 800 < judged[-1] < 1100


@pytest.mark.parametrize("rates", [(700, 175), (175, 700)])
def test_another_rate_is_evidence_once(judged, rates):
    """Behind it, exits are judged only when twice as many of its batches are known."""
    at_arrivals(at_rates(*rates, count=15_000))
    assert 1 <= len(judged) <= 7


def test_the_plan_returns_with_its_hardware():
    """Not what would be chosen for it now."""
    plan, quick = Exits((5,), (0.9,), (0,)), 0.25 * STAGE_S
    quick[:, 1:-1] += 0.004 * (quick[:, 1:-1] > 0)
    goal = replace(GOAL, slow=0.5)
    hardware = [Hardware(0.5, quick), Hardware(1.5, STAGE_S)]
    log = drawn(4, 250)
    planned, times = PlannedExits(plan, goal, PAST), TIMES._replace(hardware=hardware)
    adapted = adapt(log, np.zeros(len(log.scores)), planned, times, find_policy("pame:timeout=0"), window=20)
    assert [change.exits == plan for change in adapted.changes] == [False, True]


def test_more_of_a_load_is_judged_by_twice_as_many_batches():
    changes = served(joined(drawn(1, 100), drawn(2, 1500, difficulty=2.0))).changes
    assert len(changes) > 1
    for one, other in itertools.pairwise(changes):
        assert other.judged_from == one.judged_from or other.cause != "load"
        assert other.judged_to - other.judged_from >= 2 * (one.judged_to - one.judged_from)


@pytest.mark.parametrize("rate", [50, 300, 650])
@pytest.mark.parametrize("spec", ["pame:timeout=20ms", "pame:timeout=2ms,lanes=2"])
def test_an_unchanged_load_changes_nothing_however_small_its_batches_are(rate, spec):
    """Small batches are slow more often, by the log of the plan too."""
    count = 20_000
    rows = np.random.default_rng(rate).integers(len(PAST.scores), size=count)
    arrival_s = poisson(rate, count, rate).arrival_s
    safe = replace(GOAL, guard=0.995)
    exits = Exits.of(choose_exits(PAST, STAGE_S, safe))
    log = PAST.part(rows)
    adapted = adapt(
        log, arrival_s, PlannedExits(exits, safe, PAST), DeviceTimes(STAGE_S, TABLE.load), find_policy(spec)
    )
    assert adapted.changes == []
    whole = adapted.observe(log)
    assert whole.slow_allowed >= GOAL.slow
    if rate == 50:
        assert whole.slow_share > 10 * GOAL.slow


def at_rates(*rates: float, count: int = 6000, seed: int = 0) -> np.ndarray:
    """Arrivals at one rate after the other."""
    random = np.random.default_rng(seed)
    return np.cumsum(np.concatenate([random.exponential(1 / rate, count) for rate in rates]))


def at_arrivals(arrival_s: np.ndarray, log: Log | None = None, window: int = 100) -> tuple[Log, AdaptiveRun]:
    log = drawn(1, len(arrival_s) // BATCH) if log is None else log
    return log, adapt(log, arrival_s, PLANNED, TIMES, find_policy("pame:timeout=20ms"), window=window)


def ending(log: Log, found: AdaptiveRun, after: int) -> Observation:
    """Of the batches that begin with this request or later."""
    starts = found.starts()
    return found.observe(log, starts[starts >= after])


@pytest.mark.parametrize("seed", range(3))
def test_a_rate_that_falls_to_a_quarter_is_noticed_and_the_plan_returns_with_it(seed):
    arrival_s = at_rates(700, 175, 700, seed=seed)
    log, found = at_arrivals(arrival_s)
    fixed = at_arrivals(arrival_s, log, window=0)[1]
    first = found.changes[0]
    assert first.cause == "rate"
    assert 5900 < first.judged_from < first.request < 7000  # the bet began to gain shortly before
    few = [start[(start >= first.request) & (start <= 12_000)] for start in (found.starts(), fixed.starts())]
    slow = [run.observe(log, starts).slow_share for run, starts in zip((found, fixed), few, strict=True)]
    assert slow[0] <= GOAL.slow < 0.1 < slow[1]
    assert found.changes[-1].exits == FOUND
    assert 12_000 < found.changes[-1].request < 15_000
    assert ending(log, found, found.changes[-1].request).slow_share <= GOAL.slow


def test_a_rate_that_rises_after_a_fall_is_noticed_from_then_on():
    changes = at_arrivals(at_rates(700, 175, 350))[1].changes
    assert changes[1].cause == "rate"
    assert 11_900 < changes[1].judged_from < changes[1].request < 13_500


def test_a_rate_that_falls_slowly_is_noticed():
    rates = np.geomspace(700, 175, 40)
    log, found = at_arrivals(at_rates(*rates, 175, 175, count=800))
    assert found.changes[0].cause == "rate"
    assert ending(log, found, 32_000).slow_share <= GOAL.slow


def test_evidence_for_another_rate_is_that_of_plain_loops():
    """Two arrive at a time; the change is judged from where a bet of the plain loops began to gain."""
    arrival_s = np.repeat(at_rates(350, 90, count=4000), 2)
    found = at_arrivals(arrival_s)[1]
    change, starts = found.changes[0], found.starts().tolist()
    assert change.cause == "rate"
    until = starts.index(change.judged_to)
    bets = naive.rate_evidence(arrival_s.tolist(), starts[: until + 1], 100)
    assert change.judged_from in [since for gain, since in bets if gain >= np.log(2 / FALSE_ALARM)]
    before = naive.rate_evidence(arrival_s.tolist(), [start for start in starts if start < 8000], 100)
    assert max(gain for gain, _ in before) < np.log(2 / FALSE_ALARM)


def test_a_rate_that_bursts_as_it_always_did_is_no_evidence():
    random = np.random.default_rng(3)
    assert at_arrivals(np.cumsum(random.gamma(0.25, 4 / 400, 30_000)), drawn(1, 1875))[1].changes == []


def test_batches_of_which_all_may_be_slow_are_no_evidence():
    """Requests come alone, and the exit makes every batch of one slow."""
    slow = STAGE_S.copy()
    slow[:, 1:-1, 1] += slow[0, -1, 1]
    count = 60_000
    log = PAST.part(np.random.default_rng(0).integers(len(PAST.scores), size=count))
    adapted = adapt(log, np.arange(count, dtype=np.float64), PLANNED, DeviceTimes(slow), find_policy("pame:timeout=0"))
    assert adapted.changes == []
    assert (adapted.observe(log).slow_share, adapted.observe(log).slow_allowed) == (1.0, 1.0)


def test_without_an_exit_no_load_is_another_one():
    assert served(joined(drawn(1, 50), drawn(2, 100, overconfidence=-1.0)), Exits((), (), ())).changes == []


def test_other_hardware_is_chosen_for_by_the_log_of_the_plan():
    """Backbone four times as quick, exits as slow as before: the exit does not pay any more where it stood."""
    quick = 0.25 * STAGE_S
    quick[:, 1:-1] += 0.004 * (quick[:, 1:-1] > 0)
    expected = Exits.of(choose_exits(PAST, quick, GOAL))
    assert expected != FOUND
    log = drawn(4, 250)
    run = served(log, hardware=[Hardware(0.5, quick), Hardware(1.5, STAGE_S)], window=20)
    assert [(change.cause, change.exits) for change in run.changes] == [("hardware", expected), ("hardware", FOUND)]
    assert 0.5 < run.changes[0].time_s < 1.5 < run.changes[1].time_s
    before, after = (run.finish_s - run.start_s)[[0, run.changes[1].request - BATCH]]
    assert after < before


def test_batches_are_slow_by_the_times_of_the_hardware_on_which_they_ran():
    """Other hardware on which only stages with an exit are slow: the whole network is as quick as before."""
    slow = STAGE_S.copy()
    slow[:, 1:-1] *= 3.0
    log = drawn(4, 100)
    half = served(log, window=0, hardware=[Hardware(1.0, slow)])
    starts = half.starts()
    took_s = np.array([half.finish_s[a:b].max() - half.start_s[a] for a, b in itertools.pairwise(starts)])
    assert half.observe(log).slow_share == np.mean(took_s > STAGE_S[0, -1, BATCH] * (1 + 1e-9)) > 0.3
    quick = 0.5 * STAGE_S
    quick[:, 1:-1] *= 3.0
    half = served(log, window=0, hardware=[Hardware(1.0, quick)])
    took_s = np.array([half.finish_s[a:b].max() - half.start_s[a] for a, b in itertools.pairwise(half.starts())])
    later = half.whole_s[half.starts()[:-1]] == quick[0, -1, BATCH]
    assert 20 < later.sum() < 80
    assert np.all(took_s[later] > quick[0, -1, BATCH])
    assert half.observe(log).slow_share >= later.mean()
    assert np.mean(took_s > STAGE_S[0, -1, BATCH] * (1 + 1e-9)) < 0.05


@pytest.mark.parametrize("lanes", [1, 2])
def test_batches_in_flight_keep_what_they_began_with(lanes):
    """Each request leaves where the exits that held when its batch began let it leave, and nowhere else."""
    log = joined(drawn(1, 100), drawn(2, 300, difficulty=2.0), drawn(3, 300))
    run = served(log, spec=f"pame:timeout=0,tau_b=8,lanes={lanes}", window=20, load=TABLE.load)
    assert len(run.changes) > 1
    known = [(0, FOUND), *((change.request, change.exits) for change in run.changes), (len(log.scores), FOUND)]
    for (first, exits), (last, _) in itertools.pairwise(known):
        rows = np.arange(first, last)
        expected = np.full(len(rows), len(STAGE_S) - 1)
        for place, confidence, column in reversed(list(zip(*exits, strict=True))):
            expected[log.sureness[rows, place - 1, column] >= confidence] = place
        assert run.exit[rows].tolist() == expected.tolist()
    assert np.all(np.isfinite(run.finish_s))


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
        adapt(log, np.zeros(16), PLANNED, DeviceTimes(STAGE_S[:, :, :9]), find_policy("pame"))
    with pytest.raises(InputError, match="samples: expected confidences at 9 candidates, found 11"):
        adapt(log, np.zeros(16), PLANNED, DeviceTimes(STAGE_S[2:, 2:]), find_policy("pame"))
