"""LAZY: LazyBatching, preemption at every layer without knowledge of exits."""

from .estimates import between_s, expected_end, own_end
from .interface import Policy, compile_policy, go_on, launch


@compile_policy
def decide(view, data):
    """At every layer admit waiting requests, one after the other, while every request keeps its slack.

    Every request: those on the NPU, those just admitted, and the one to be admitted.  The slack of a request is its SLO
    less the time that it has waited and less the time of all samples that would be on the NPU, one after the other
    through the whole network.  The batch is full when B_max were admitted, whether or not some of them exited.  Batches
    merge where they meet.

    Source: Choi, Kim, Rhu, Lazy Batching, HPCA 2021, as Fluid Batching describes its baseline (iv), Section IV.
    No parameters.  Work-conserving.
    """
    room = min(view.waiting, view.b_max - view.admitted)
    if view.depth == 0:
        return launch(room, 1)
    admit, due_s = 0, view.deadline_s
    end = expected_end(view, data, view.in_flight, 0) if view.steps > 1 else view.stages
    while admit < room:
        request = data.queue[view.first + admit]
        due_s = min(due_s, data.requests.due_s[request])
        if view.steps > 1:
            end = max(end, own_end(view, data.requests.predicted_depth[request]))
        alone_s = between_s(data.latency_s, 0, 0, end, 1)
        if due_s - view.now_s - alone_s * (view.in_flight + admit + 1) <= 0:
            break
        admit += 1
    return launch(admit, 1) if admit > 0 else go_on(1)


POLICY = Policy(decide, by_layer=True)
