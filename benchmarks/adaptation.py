"""PAME at run time: a million requests with confidences, alone, side by side, and with exits that are adapted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from fluidb.dse.device.tabulate import tabulate_device
from fluidb.dse.exits.stage_times import keep_exits, stage_times
from fluidb.models.candidates import load_with_exits
from fluidb.platforms import Device, load_platform
from fluidb.rules.exit_choice import choose_exits
from fluidb.rules.exit_log import log_of
from fluidb.rules.exit_thresholds import ExitGoal
from fluidb.serving import Replay, find_policy, simulate
from fluidb.serving.adaptation import EVENTS, DeviceTimes, PlannedExits, adapt
from fluidb.serving.judgement import Exits
from fluidb.traffic import poisson, prepare
from fluidb.traffic.answers import PRESETS, draw_answers
from rounds import BenchmarkTable, Entrant, take_turns, timed

BATCH, LOGGED, SLO_S = 16, 50_000, 0.2
RATE_PER_S = 700.0
SERIAL, BESIDE = "pame", "pame:lanes=2"


def measure(rounds: int, count: int) -> BenchmarkTable:
    """ResNet-101 on PAME's V100 with the exits that PAME chooses for the preset ImageNet."""
    every = tabulate_device(load_with_exits("resnet101"), load_platform("v100-tensorrt", kind=Device))
    samples, stage_s = draw_answers(PRESETS["imagenet"], len(every.exits) - 1, LOGGED, 0), stage_times(every)
    past, goal = log_of(samples), ExitGoal(batch=BATCH)
    choice = choose_exits(past, stage_s, goal)
    levels = [setting.threshold for setting in choice.settings]
    table = keep_exits(every, "resnet101", choice.exits, [0.0] * len(levels) + [1.0])
    arrivals, drawn = poisson(RATE_PER_S, count, 1), samples.draw(count, 1)
    here = drawn.at_exits(choice.exits, [1] * len(levels))
    trace = replace(arrivals, confidences=here.confidences, correct=here.correct)
    traffic = prepare(trace, [0.0] * len(levels) + [1.0], slo_s=SLO_S, threshold=levels)
    log = log_of(drawn)

    def served(policy: str) -> Callable[[], Replay]:
        return partial(simulate, table, traffic, find_policy(f"{policy}{',' if ':' in policy else ':'}b_max={BATCH}"))

    def adapted() -> Any:
        first, times = PlannedExits(Exits.of(choice), goal, past), DeviceTimes(stage_s, every.load)
        return adapt(log, trace.arrival_s, first, times, find_policy(BESIDE), slo_s=SLO_S)

    whole = served(SERIAL)()
    assert np.isfinite(whole.finish_s).all()
    adapted()  # compiles
    entrants = [
        Entrant(SERIAL, timed(served(SERIAL)), None, count, ours=True),
        Entrant(BESIDE, timed(served(BESIDE)), SERIAL, count, ours=True),
        Entrant(f"{BESIDE}, exits adapted", timed(adapted), SERIAL, count, ours=True),
    ]
    return BenchmarkTable(
        "pame",
        "PAME at run time",
        f"{count:,} Poisson requests at {RATE_PER_S:g}/s with confidences, batches of {BATCH}, ResNet-101 on PAME's "
        f"V100, SLO {1e3 * SLO_S:g} ms, one core. Adapted: the network has 12 stages instead of 2, most of which take "
        f"no time, and the last 100 batches are judged after every {EVENTS} events.",
        take_turns(entrants, rounds),
        "requests",
    )
