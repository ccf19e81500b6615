"""AdaptB: adaptive batching with a timeout."""

import math

from .interface import Parameter, Policy, compile_policy, duration

TIMEOUT = 0  # place in settings


@compile_policy
def decide(view, latency, settings, due_s):
    """Dispatch when B_max wait or the oldest has waited for the timeout; run to the end with who has not exited.

    Source: paper 000, Sections II-A and IV, baselines (ii) and (iii); which layers
    batch is the engine's matter (``fluidb dse --batching fc`` or ``row``).  Not work-conserving.

    ``timeout``
        T_timeout: ``S``, ``M``, ``L`` for 5, 45, 95 % of the SLO, or a duration.
    """
    to_the_end = latency.shape[1]
    if view.depth > 0:
        return 0, to_the_end, math.inf
    due_s = view.head_arrival_s + settings[TIMEOUT]
    if view.waiting >= view.b_max or view.now_s >= due_s:
        return min(view.waiting, view.b_max), to_the_end, math.inf
    return 0, 0, due_s


POLICY = Policy(
    decide,
    (Parameter("timeout", "S", duration("timeout", {"S": 0.05, "M": 0.45, "L": 0.95})),),
    work_conserving=False,
)
