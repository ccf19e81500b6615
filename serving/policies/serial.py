"""SERIAL: one request at a time."""

import math

from .interface import Policy, compile_policy


@compile_policy
def decide(view, latency, settings, due_s):
    """Take the oldest request when idle and run it until it exits.

    Source: paper 000, Section IV, baseline (i).  No parameters.  Work-conserving.
    """
    if view.depth == 0:
        return 1, latency.shape[1], math.inf
    return 0, latency.shape[1], math.inf


POLICY = Policy(decide)
