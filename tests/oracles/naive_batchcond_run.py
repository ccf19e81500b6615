"""BatchCond's experiment (Section V) in plain loops: all requests wait from the beginning.

Written from the paper, with the decisions of ``naive_batchcond``; it shares no code with the package. Time by variant,
stage and batch size, gathers by stage and batch size, are functions; a stage beyond the last repeats it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from naive_batchcond import depth_decision, width_decision


class Costs(NamedTuple):
    """Times of a device: ``stage_s(width, stage, batch)`` and ``gather_s(stage, batch)``, stages from 1.

    Width decisions use ``whole_s(width, batch)``; ``ideal`` is the ideal batch size of each width.
    """

    stage_s: Callable[[float, int, int], float]
    gather_s: Callable[[int, int], float]
    whole_s: Callable[[float, int], float]
    ideal: dict[float, int]


class Rules(NamedTuple):
    """Options: size of batches and of the window, reorganisation, time of a prediction."""

    batch: int
    window: int
    split_depth: bool
    split_width: bool
    predictor_s: float = 0.0


def in_batches(keys: Sequence[float] | None, count: int, rules: Rules) -> list[list[int]]:
    """SimBatch: windows one after the other, each sorted stably by prediction and cut into batches."""
    found = []
    for start in range(0, count, rules.window):
        inside = list(range(start, min(start + rules.window, count)))
        if keys is not None:
            inside.sort(key=lambda request: keys[request])
        found += [inside[at : at + rules.batch] for at in range(0, len(inside), rules.batch)]
    return found


def run_batch(
    members: list[int], width: float, depths: Sequence[int], costs: Costs, split: bool, now: float, ends: list[float]
) -> float:
    """Run a batch through the stages; each request ends with its last stage. Returns the time of the end."""
    places, stage, staying = len(members), 0, list(members)
    while staying:
        stage += 1
        now += costs.stage_s(width, stage, places)
        for request in staying:
            if depths[request] == stage:
                ends[request] = now
        staying = [request for request in staying if depths[request] > stage]
        if staying and split:
            following_s, gather_s = partial(costs.stage_s, width, stage + 1), partial(costs.gather_s, stage)
            what = depth_decision(following_s, gather_s, places, places - len(staying))
            if what == "split":
                now += costs.gather_s(stage, len(staying))
                places = len(staying)
    return now


def run(
    depths: Sequence[int], widths: Sequence[float], keys: Sequence[float] | None, costs: Costs, rules: Rules
) -> tuple[list[float], list[list[int]]]:
    """Time at which each request returns, and the batches that were formed."""
    now, ends = 0.0, [0.0] * len(depths)
    batches = in_batches(keys, len(depths), rules)
    for members in batches:
        ordered = sorted(members, key=lambda request: -widths[request])
        sub_batches = [[widths[request] for request in ordered]]
        if rules.split_width:
            own = [widths[request] for request in ordered]
            sub_batches, _ = width_decision(
                own, lambda b, w: costs.whole_s(w, b), lambda b: costs.gather_s(0, b), costs.ideal
            )
        at = 0
        for sub_batch in sub_batches:
            inside = ordered[at : at + len(sub_batch)]
            at += len(sub_batch)
            now += rules.predictor_s * len(inside)  # charged with the sub-batch
            if len(sub_batches) > 1:
                now += costs.gather_s(0, len(inside))
            now = run_batch(inside, max(sub_batch), depths, costs, rules.split_depth, now, ends)
    return ends, batches
