"""Tasks of the PAME paper on modelled hardware, with drawn logs: half of a log chooses, the other half judges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from ...dse.device.tabulate import tabulate_device
from ...dse.exits.stage_times import stage_times
from ...formats.array_types import Floats
from ...models.candidates import find_candidates, load_with_exits
from ...models.loader import read_network_file
from ...platforms import Device, load_platform
from ...rules.exit_choice import ExitChoice, choose_exits
from ...rules.exit_log import Log, log_of
from ...rules.exit_thresholds import ExitGoal
from ...rules.exit_times import LogReplay, replay_exits
from ...tables.latency import LatencyTable
from ...traffic.answers import PRESETS, draw_answers
from ..lab import Lab

SIZES = (16, 32, 64)
"""The paper's small, medium and large batch."""

SEEDS = 8
HALF = 25_000
"""Samples of half a log: ImageNet's validation set has 50,000."""


@dataclass(frozen=True, slots=True)
class PaperTask:
    """A task of the paper."""

    name: str  # as printed
    network: str
    device: str
    preset: str  # of answers

    @property
    def names(self) -> list[str]:
        """Names of its candidates."""
        return _candidates(self.network)

    @property
    def table(self) -> LatencyTable:
        """Latency table of the network with an exit at every candidate."""
        return _table(self.network, self.device)

    @property
    def stage_s(self) -> Floats:
        """T(a, b, B)."""
        return _stage_s(self.network, self.device)

    def log(self, seed: int, count: int, overconfidence: float = 0.0) -> Log:
        """A log of answers to ``count`` samples."""
        model = PRESETS[self.preset]
        return log_of(draw_answers(model, len(self.names), count, seed, overconfidence=overconfidence))


@cache
def _candidates(network: str) -> list[str]:
    return [candidate.name for candidate in find_candidates(*read_network_file(network))]


@cache
def _table(network: str, device: str) -> LatencyTable:
    return tabulate_device(load_with_exits(network), load_platform(device, kind=Device))


@cache
def _stage_s(network: str, device: str) -> Floats:
    return stage_times(_table(network, device))


IMAGENET = PaperTask("ImageNet", "resnet101", "v100-tensorrt", "imagenet")
GLUE = PaperTask("GLUE", "bert_base", "v100-tensorrt-bert", "glue")
QNLI = PaperTask("QNLI", "bert_base", "v100-tensorrt-bert", "qnli")
TASKS = (IMAGENET, GLUE, QNLI)


class Rehearsal(NamedTuple):
    """A choice by one half of a log, and its effect on the other."""

    choice: ExitChoice
    judged: LogReplay
    chosen_by: Log
    judged_by: Log


def half(lab: Lab) -> int:
    """Samples of half a log: at least two of the largest batches."""
    return max(lab.requests or HALF, 2 * max(SIZES))


def halves(task: PaperTask, seed: int, lab: Lab) -> tuple[Log, Log]:
    """The half of a log that chooses, and the other half, which judges (Section 7.1)."""
    count = half(lab)
    log = task.log(seed, 2 * count)
    return log.part(slice(0, count)), log.part(slice(count, 2 * count))


def rehearse(task: PaperTask, seed: int, lab: Lab, goal: ExitGoal, only: int | None = None) -> Rehearsal:
    """Choose by one half of a log, and judge by the other."""
    past, fresh = halves(task, seed, lab)
    allowed = np.full((past.candidates, len(past.counts), len(goal.thresholds)), only is None)
    if only is not None:
        allowed[only - 1] = True
    choice = choose_exits(past, task.stage_s, goal, allowed)
    judged = replay_exits(fresh, task.stage_s, goal.batch, choice.exits, choice.settings)
    return Rehearsal(choice, judged, past, fresh)
