"""Frames of periodic cameras."""

from __future__ import annotations

import math

import numpy as np

from ...formats import InputError
from ..randomness import CAMERAS, stream
from ..trace import Trace
from .bounds import MAX_COUNT, RATES_PER_S, check_count, check_range, trace_of

MAX_CAMERAS = 10_000
MAX_JITTER_PERIODS = 10.0
MAX_DROP = 0.99
_JITTER = f"a standard deviation in seconds of at most {MAX_JITTER_PERIODS:g} frame periods"
_REACH = 10.0
"""Jitter of more standard deviations has a probability of 1e-23, and is ignored."""


def cameras(
    number: int, frames_per_s: float, count: int, seed: int, *, jitter_s: float = 0.0, drop: float = 0.0
) -> Trace:
    """Frames of cameras that run at one rate, each with its own phase.

    The phase is uniform over the frame period.  An independent Gaussian jitter is
    added to the time of every frame, and every frame is lost with a given probability.
    Frames arrive in the order of their times with jitter, so that a frame may
    overtake an earlier one.  The mean rate is number * frames_per_s * (1 - drop).

    Parameters
    ----------
    number : int
        Cameras, 1 to 10,000.
    frames_per_s : float
        Frame rate of each in frames/s.
    count : int
        Frames that arrive, of all cameras.
    seed : int
        Same seed, same trace.
    jitter_s : float
        Standard deviation of a frame's delay in seconds, at most 10 periods.
    drop : float
        Probability that a frame is lost, at most 0.99.

    Returns
    -------
    Trace
        Requests 0..count - 1; the cameras were already running at time zero.

    Raises
    ------
    InputError
        If a parameter is out of bounds.
    """
    check_count(number, "cameras", MAX_CAMERAS, "camera")
    check_range("fps", frames_per_s, RATES_PER_S, "a positive number of frames a second")
    check_count(count)
    check_range("jitter", jitter_s, (0.0, MAX_JITTER_PERIODS / frames_per_s), _JITTER)
    check_range("drop", drop, (0.0, MAX_DROP), "the share of frames that are lost")
    if count > MAX_COUNT * (1 - drop):
        raise InputError(
            f"count: expected at most {MAX_COUNT:,} frames with the lost ones, found {count / (1 - drop):.3g}; "
            f"ask for fewer requests"
        )
    rng = stream(seed, CAMERAS)
    phases = rng.random(number)
    # jitter may bring in frames from before time zero and from after the end
    margin = math.ceil(_REACH * jitter_s * frames_per_s)
    drawn, arrivals, certain = -margin, np.empty(0), 0
    while certain < count:
        block = math.ceil(1.05 * (count - certain) / (number * (1 - drop))) + (
            2 * margin + 1 if drawn == -margin else 1
        )
        frames = (np.arange(drawn, drawn + block)[:, None] + phases).ravel()
        if drop > 0:
            frames = frames[rng.random(frames.size) >= drop]
        times = frames / frames_per_s
        if jitter_s > 0:
            times += jitter_s * rng.standard_normal(times.size)
        drawn += block
        arrivals = np.concatenate([arrivals, times[times >= 0]])
        certain = int(np.count_nonzero(arrivals < (drawn - margin) / frames_per_s))  # no later frame can come before
    return trace_of(np.sort(arrivals)[:count])
