"""SERIAL: one request at a time."""

import math

from .interface import compile_policy


@compile_policy
def decide(view, latency):
    """Take the oldest request when idle and run it until it exits.

    Source: paper 000, Section IV, baseline (i).  Work-conserving; no parameters.
    """
    if view.depth == 0:
        return 1, latency.shape[1], math.inf
    return 0, latency.shape[1], math.inf
