"""Differences of two replays of the same requests, taken request by request (``docs/intervals.md``)."""

from __future__ import annotations

import math

from ..serving.one_run import OneRun
from ..serving.outcome import Replay
from .estimates import Difference


def differences(replay: Replay, other: Replay) -> dict[str, Difference | None]:
    """The violation rate and the mean latency of a replay, less the same of another one.

    They are ``None`` with clients that wait, whose requests arrive at other times in another replay; and a mean latency
    where one is infinite.
    """
    run, another = (
        OneRun(one_replay.latency_s, one_replay.fresh, at_once=one_replay.traffic.trace.at_once)
        for one_replay in (replay, other)
    )
    by_figure: dict[str, Difference | None] = {}
    for key, own, others in (
        ("violation_rate", replay.violated, other.violated),
        ("mean_latency_s", replay.latency_s, other.latency_s),
    ):
        means = float(own.mean()), float(others.mean())
        by_figure[key] = None
        if not replay.traffic.clients and math.isfinite(sum(means)):
            by_figure[key] = Difference.of(means[0] - means[1], run.less(another, own, others).interval, sum(means))
    return by_figure
