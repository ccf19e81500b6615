"""FLUID: the exit-aware preemptive scheduler of Fluid Batching."""

import math

from .interface import compile_policy


@compile_policy
def decide(view, latency):
    """Launch at once with what waits; at each exit backfill the room in the batch if the SLO allows.

    A backfilling batch runs up to the exit where the preempted one stands, without
    preemption of its own, and merges with it; then the criterion is evaluated anew.

    Source: paper 000, Algorithm 1, Equations (3) and (4).  Work-conserving; its
    parameters <B_max, T_SLO> are the engine's and the requests'.
    """
    if view.depth == 0:
        return min(view.waiting, view.b_max), 1, math.inf  # line 2
    exit_reached, end = view.stage, latency.shape[1] - 1
    b_incr = min(view.waiting, view.b_max - view.size)  # lines 10-11
    if b_incr > 0:
        # Equation (3): SLO less the time in queue and on the NPU, of the sample that is due first
        slack_s = view.deadline_s - view.now_s
        # Equation (4): the new batch up to this exit, then the merged one to the end
        overhead_s = latency[0, exit_reached, b_incr] + latency[exit_reached, end, view.size + b_incr]
        if overhead_s < slack_s:  # line 12
            return b_incr, exit_reached, math.inf
    return 0, 1, math.inf
