"""AdaptB: adaptive batching with a timeout."""

from .interface import Policy, compile_policy, go_on, launch, sleep
from .parameters import Parameter, timeout

TIMEOUT = 0  # place in settings


@compile_policy
def decide(view, data):
    """Dispatch when B_max wait or the oldest has waited for the timeout; run to the end, without samples that exit.

    Source: Fluid Batching, Sections II-A and IV, baselines (ii) and (iii), which differ in the layers that batch
    (``fluidb dse --batching fc`` or ``row``).  Not work-conserving.

    ``timeout``
        T_timeout: ``S``, ``M``, ``L`` for 5, 45, 95 % of the SLO, or a duration.
    """
    if view.depth > 0:
        return go_on(view.segments)
    dispatch_s = view.head_arrival_s + data.settings[TIMEOUT]
    if view.waiting >= view.b_max or view.now_s >= dispatch_s:
        return launch(min(view.waiting, view.b_max), view.segments)
    return sleep(dispatch_s)


POLICY = Policy(decide, (Parameter("timeout", "S", timeout),), work_conserving=False)
