"""FLUID: the exit-aware preemptive scheduler of Fluid Batching."""

from ...jit import compiled
from .estimates import between_s, expected_end, fitting
from .interface import Policy, compile_policy, go_on, launch
from .parameters import Parameter, choice
from .window import LEFT, OFF, PARAMETERS, SIMILAR, check_window, count_alike

EXITS, CRITERION, ESTIMATE = range(3, 6)  # places in settings, behind the window's


@compiled(inline="always")
def batch_s(latency_s, variant, i, j, b, coarse):
    """Time of a batch from the table, or as the sum of its samples one after the other."""
    return b * between_s(latency_s, variant, i, j, 1) if coarse else between_s(latency_s, variant, i, j, b)


@compiled(inline="always")
def overhead_s(view, latency_s, variant, end, b_incr, coarse):
    """Equation (4): the new batch up to the exit where the running one stands, then the merged one to the end."""
    up_s = batch_s(latency_s, variant, 0, view.stage, b_incr, coarse)
    return up_s + batch_s(latency_s, min(variant, view.variant), view.stage, end, view.size + b_incr, coarse)


@compile_policy
def decide(view, data):
    """Launch all waiting requests at once; at each exit backfill the room in the batch if the SLO allows.

    A backfilling batch runs up to the exit where the preempted one stands, without
    preemption of its own, and merges with it; then the criterion is evaluated anew.

    Source: Fluid Batching, Algorithm 1, Equations (3) and (4).  Work-conserving.  Its
    parameters <B_max, T_SLO> are the engine's and the requests'.  ``similar``, ``window`` and ``patience`` let alike
    requests in together, as BatchCond does; three more are for ablation:

    ``exits``
        ``aware``: samples that exited leave room; ``unaware``: they do not.
    ``criterion``
        ``on``; or ``off``: preempt whenever there is room and a request waits.
    ``estimate``
        ``exact``: batched times from the table; ``coarse``: batch size times
        single-sample time, as LazyBatching has it.
    """
    if view.depth == 0:
        b_act = min(view.waiting, view.b_max)
        if data.settings[SIMILAR] != OFF:
            b_act = count_alike(view, data, b_act)
            data.memory[LEFT] -= b_act
        return launch(b_act, 1)  # line 2
    taken = view.size if data.settings[EXITS] == 0 else view.admitted
    b_incr = min(view.waiting, view.b_max - taken)  # lines 10-11
    if b_incr > 0:
        if data.settings[SIMILAR] != OFF:
            b_incr = count_alike(view, data, b_incr)
        # Equation (3): SLO less the time in queue and on the NPU, of the sample that is due first
        slack_s = view.deadline_s - view.now_s
        variant = fitting(view, data, b_incr) if view.variants > 1 else 0
        end = expected_end(view, data, view.size, b_incr) if view.steps > 1 else view.stages
        more_s = overhead_s(view, data.latency_s, variant, end, b_incr, data.settings[ESTIMATE] == 1)
        if data.settings[CRITERION] == 1 or more_s < slack_s:  # line 12
            if data.settings[SIMILAR] != OFF:
                data.memory[LEFT] -= b_incr
            return launch(b_incr, view.stage)
    return go_on(1)


POLICY = Policy(
    decide,
    (
        *PARAMETERS,
        Parameter("exits", "aware", choice("exits", "aware", "unaware")),
        Parameter("criterion", "on", choice("criterion", "on", "off")),
        Parameter("estimate", "exact", choice("estimate", "exact", "coarse")),
    ),
    memory=3,
    check=check_window,
)
