"""PAME: batches of a fixed size through a multi-exit network, the next one beside the rest of this one."""

import math

from .interface import Decision, Policy, compile_policy, go_on, sleep
from .parameters import Parameter, at_least, timeout

TIMEOUT, TAU_B = 0, 1  # places in settings


@compile_policy
def decide(view, data):
    """Launch when B_max wait or the oldest has waited for the timeout; begin beside a batch that has become small.

    A batch runs to the end; samples that exit leave it. With several lanes the next batch may begin
    once stage 1 of this one has left fewer than tau_b samples; at most two batches are in flight.

    The last number of its memory is the variant of the network that new batches run; the adaptation of exits
    changes it (:mod:`fluidb.serving.adaptation`).

    Source: PAME, Sections 4.2 and 7.8.  The timeout is ours: the paper's batches are always full.  Not
    work-conserving.

    ``timeout``
        ``S``, ``M``, ``L`` for 5, 45, 95 % of the SLO, or a duration.
    ``tau_b``
        Samples; 0 keeps batches one after the other.
    """
    if view.depth > 0:
        return go_on(view.segments)
    in_flight = 0
    for k in range(data.lanes.size):
        if data.lanes[k].depth > 0:
            in_flight += 1
            if data.lanes[k].stage == 0 or data.lanes[k].samples >= data.settings[TAU_B]:
                return sleep(math.inf)  # the loop asks again when that batch has ended a stage
    if in_flight > 1:
        return sleep(math.inf)
    launch_s = view.head_arrival_s + data.settings[TIMEOUT]
    if view.waiting >= view.b_max or view.now_s >= launch_s:
        variant = int(data.memory[data.memory.size - 1])
        return Decision(min(view.waiting, view.b_max), 0, view.segments, math.inf, True, variant, 0.0)
    return sleep(launch_s)


POLICY = Policy(
    decide,
    (Parameter("timeout", "S", timeout), Parameter("tau_b", "4", at_least("tau_b", 0.0))),
    work_conserving=False,
    memory=1,
)
