"""Random loads, served while exits follow them: no change by chance, and the plan again with its load.

A few are drawn; `FLUIDB_LOADS=1000 pytest tests/serving/test_random_loads.py` draws more.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

import naive_adaptation as naive
import numpy as np
import pytest
from fluidb.dse.device.tabulate import tabulate_device
from fluidb.dse.exits.stage_times import stage_times
from fluidb.models.candidates import load_with_exits
from fluidb.platforms import Device, load_platform
from fluidb.rules.exit_choice import choose_exits
from fluidb.rules.exit_log import Log, log_of
from fluidb.rules.exit_thresholds import ExitGoal
from fluidb.rules.exit_times import NEARLY
from fluidb.serving import find_policy
from fluidb.serving.adaptation import AdaptiveRun, DeviceTimes, Hardware, PlannedExits, adapt
from fluidb.serving.judgement import Exits
from fluidb.traffic import poisson
from fluidb.traffic.answers import PRESETS, draw_answers

LOADS = int(os.environ.get("FLUIDB_LOADS", "6"))
HARDWARE = {
    (network, device, preset): tabulate_device(load_with_exits(network), load_platform(device, kind=Device))
    for network, device, preset in (
        ("resnet101", "v100-tensorrt", "imagenet"),
        ("resnet50", "rtx-2080-ti", "imagenet"),
        ("bert_base", "v100-tensorrt-bert", "glue"),
    )
}
Random = np.random.Generator


def joined(*logs: Log) -> Log:
    return Log(
        np.concatenate([log.sureness for log in logs]), np.concatenate([log.scores for log in logs]), logs[0].counts
    )


class Case:
    """A plan, and requests: as in its log, of another load, and as in its log again."""

    def __init__(self, random: Random) -> None:
        network, device, preset = key = list(HARDWARE)[random.integers(len(HARDWARE))]
        self.table = HARDWARE[key]
        self.stage_s, self.name = stage_times(self.table), f"{network} on {device}"
        exits: tuple[int, ...] = ()
        while not exits:  # most logs have an exit that pays
            self.seed = int(random.integers(1 << 30))
            self.past = self.drawn(preset, int(random.integers(6000, 16000)), 0)
            self.goal = ExitGoal(
                batch=int(random.choice([8, 12, 16, 32])),
                precision=float(random.choice([0.97, 0.98, 0.99])),
                slow=float(random.choice([0.02, 0.05])),
                guard="bound",
            )
            half = self.past.part(slice(0, len(self.past.scores) // 2))
            self.exits = Exits.of(choose_exits(half, self.stage_s, self.goal))
            exits = self.exits.places
        size, whole_s = self.goal.batch, float(self.stage_s[0, -1, self.goal.batch])
        self.rate = float(random.uniform(0.1, 1.0)) * size / whole_s
        timeout = f"{1e3 * random.uniform(0.1, 1.0) * whole_s:.3f}ms"
        lanes = 1 + int(random.integers(2)) * (self.table.lanes > 1)
        self.policy = f"pame:timeout={timeout},lanes={lanes}"
        self.count = int(random.integers(300, 900)) * size
        shift = random.choice(["difficulty", "overconfidence"])
        self.shift: dict[str, Any] = {shift: float(random.choice([-1, 1]) * random.uniform(0.5, 2.0))}
        self.changed = bool(random.random() < 0.6)
        same = [self.past.part(random.integers(len(self.past.scores), size=n * self.count)) for n in (1, 3)]
        other = self.drawn(preset, self.count, 1, **self.shift) if self.changed else same[0]
        self.log = joined(same[0], other, same[1])
        self.arrival_s = poisson(self.rate, len(self.log.scores), int(random.integers(1 << 30))).arrival_s

    def drawn(self, preset: str, count: int, more: int, **shift: Any) -> Log:
        return log_of(draw_answers(PRESETS[preset], len(self.stage_s) - 2, count, self.seed + more, **shift))

    def served(self, window: int = 100, hardware: Sequence[Hardware] = ()) -> AdaptiveRun:
        return adapt(
            self.log, self.arrival_s, PlannedExits(self.exits, self.goal, self.past),
            DeviceTimes(self.stage_s, self.table.load, hardware=hardware), find_policy(self.policy), window=window,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.name}, {self.goal.batch}, {self.rate:.0f}/s, {self.policy}, {self.shift if self.changed else ''}"


@pytest.mark.parametrize("seed", range(LOADS))
def test_exits_follow_the_load_and_nothing_else(seed: int) -> None:
    random = np.random.default_rng(seed)
    case = Case(random)
    found = case.served()
    about = f"{case}: {found.changes}"
    assert np.all(np.isfinite(found.finish_s)), about
    assert found.exit.tolist() == [int(place) for place in expected_exits(case, found)], about

    # no change by chance; exits of the plan after the end of another load
    first = case.count if case.changed else len(case.log.scores)
    assert not [change for change in found.changes if change.request <= first], about
    if found.changes:
        assert found.changes[-1].exits == case.exits, about

    # each change is judged by the batches as they ran
    starts, chain = found.starts(), case.exits
    assert all(change.exits != before.exits for before, change in itertools.pairwise(found.changes)), about
    for change in found.changes[:3]:
        judged = starts[(starts >= change.judged_from) & (starts <= change.judged_to)].tolist()
        assert len(judged) > 100, about
        assert found.finish_s[judged[0] : judged[-1]].max() == change.time_s, about
        expected = naive.figures(
            case.log.sureness[:, :, 0], case.log.scores, judged,
            list(zip(chain.places, chain.thresholds, strict=True)),
            lambda a, b, n: case.stage_s[a, b, n], len(case.stage_s) - 1,
        )  # fmt: skip
        assert (change.precision, change.slow_share) == pytest.approx(expected), about
        chain = change.exits

    # slow are batches that take longer than the whole network on the hardware on which they ran
    other_s = case.stage_s * random.uniform(0.3, 0.8)
    fixed = case.served(window=0, hardware=[Hardware(float(case.arrival_s[case.count]), other_s)])
    slow, starts = [], fixed.starts()
    for begin, end in itertools.pairwise(starts):
        limit_s = {times[0, -1, end - begin] for times in (case.stage_s, other_s)}
        assert fixed.whole_s[begin] in limit_s, about
        slow.append(fixed.finish_s[begin:end].max() - fixed.start_s[begin] > fixed.whole_s[begin] * (1 + NEARLY))
    assert fixed.observe(case.log).slow_share == np.mean(slow), about
    assert fixed.whole_s[-1] in other_s[0, -1], about


def expected_exits(case: Case, found: AdaptiveRun) -> np.ndarray:
    """Where each request leaves, by the exits that held when its batch began."""
    known = [(0, case.exits), *((change.request, change.exits) for change in found.changes)]
    ends = [begin for begin, _ in known[1:]] + [len(case.log.scores)]
    parts = []
    for (begin, exits), end in zip(known, ends, strict=True):
        left = np.full(end - begin, len(case.stage_s) - 1)
        for place, sure, column in reversed(list(zip(*exits, strict=True))):
            left[case.log.sureness[begin:end, place - 1, column] >= sure] = place
        parts.append(left)
    return np.concatenate(parts)
