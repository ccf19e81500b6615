"""Slow, obvious simulators of the two baselines AdaptB and LazyBatching, for comparison with the fast compiled ones.

They are written from the paper's words alone (Sections II-A, III-B, IV "Baselines" and "Comparison to LazyBatching")
and from what the project's reference page makes of them (its sections 5 and 6); they share no code with the package
and were written without reading it. A comment states each rule that the words leave open.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from naive_serving import Latency, Outcome


def _waiting(arrival_s: Sequence[float], head: int, now: float) -> int:
    """Count the requests from ``head`` on that have arrived by ``now``, or exactly now."""
    count = 0
    while head + count < len(arrival_s) and arrival_s[head + count] <= now:
        count += 1
    return count


def adaptb(
    arrival_s: Sequence[float],
    exit_of: Sequence[int],
    slo_s: float | Sequence[float],
    latency: Latency,
    b_max: int,
    timeout_s: float,
) -> Outcome:
    """Serve by AdaptB: dispatch a full batch, or the waiting requests at the timeout, and run it to the end.

    Arguments as of `naive_serving.fluid`; on an idle engine the oldest request waits up to ``timeout_s``.
    """
    del slo_s
    total = len(arrival_s)
    start_s = [float("nan")] * total
    finish_s = [float("nan")] * total
    now = 0.0
    head = 0  # the oldest request that has not been dispatched yet
    while head < total:
        # The engine is idle. Step from event to event until a batch may go.
        waiting = _waiting(arrival_s, head, now)
        timeout_at = arrival_s[head] + timeout_s
        if waiting == 0:
            now = arrival_s[head]
            continue
        if waiting < b_max and now < timeout_at:
            now = timeout_at
            if head + waiting < total:
                now = min(timeout_at, arrival_s[head + waiting])  # the next arrival may fill the batch before that
            continue

        # Dispatch, oldest first.
        batch = list(range(head, head + min(waiting, b_max)))
        head += len(batch)
        for request in batch:
            start_s[request] = now

        # Run stage by stage, with the samples that have not exited; none may join.
        stage = 0
        while batch:
            now += latency[stage][stage + 1][len(batch)]
            remaining = []
            for request in batch:
                if exit_of[request] == stage + 1:
                    finish_s[request] = now
                else:
                    remaining.append(request)
            batch = remaining
            stage += 1
    return Outcome(finish_s, start_s, [0] * total, 0)


@dataclass
class _SubBatch:
    """An entry of LazyBatching's stack: samples before the same layer."""

    next_layer: int
    requests: list[int]
    admitted: int  # samples at its start; exits do not lower it, a merge adds both


def lazy(
    arrival_s: Sequence[float],
    exit_of: Sequence[int],
    slo_s: float | Sequence[float],
    layer_s: Sequence[Sequence[float]],
    exit_after: Sequence[int],
    single_s: float,
    b_max: int,
    call_s: float,
) -> tuple[Outcome, int]:
    """Serve by LazyBatching: decide at every layer boundary if the waiting requests may go first and catch up.

    ``layer_s[l][b]`` is the time of layer l with b samples; ``exit_after[l]`` the exit, from 1, whose stage ends with
    it, or 0; ``single_s`` the scheduler's only estimate, the time of one sample through the network; ``b_max`` the most
    requests in the sub-batches on the stack; ``call_s`` the time of a decision with samples on the NPU. Returns the
    outcome, and the number of these decisions.
    """
    total = len(arrival_s)
    slo = [float(slo_s)] * total if isinstance(slo_s, (int, float)) else slo_s
    start_s = [float("nan")] * total
    finish_s = [float("nan")] * total
    preempted = [0] * total
    preemptions = 0
    decisions = 0
    now = 0.0
    head = 0  # the oldest request that has not been admitted yet
    stack: list[_SubBatch] = []  # the last entry is the top, the one that runs
    while stack or head < total:
        if not stack:
            # The NPU is idle: launch as soon as a request is there, without a check and without a cost.
            now = max(now, arrival_s[head])
            incoming = list(range(head, head + min(_waiting(arrival_s, head, now), b_max)))
            head += len(incoming)
            for request in incoming:
                start_s[request] = now
            stack.append(_SubBatch(0, incoming, len(incoming)))
        else:
            # A layer boundary with samples on the NPU: first merge, then decide once.
            while len(stack) >= 2 and stack[-1].next_layer == stack[-2].next_layer:
                upper = stack.pop()
                stack[-1].requests = stack[-1].requests + upper.requests
                stack[-1].admitted = stack[-1].admitted + upper.admitted

            # The call is made, and paid for, even when there is no room or no request waits: it comes "on every layer".
            decisions += 1
            room = min(_waiting(arrival_s, head, now), b_max - sum(sub_batch.admitted for sub_batch in stack))
            in_flight = [request for sub_batch in stack for request in sub_batch.requests]
            n = 0  # admitted one after the other, while all requests, those just admitted included, keep their slack
            while n < room:
                judged = [*in_flight, *range(head, head + n + 1)]
                estimate_s = single_s * len(judged)
                if not all(slo[request] - ((now - arrival_s[request]) + estimate_s) > 0 for request in judged):
                    break
                n += 1
            if n > 0:
                preemptions += 1
                for request in stack[-1].requests:  # those further down already stand still
                    preempted[request] += 1
                incoming = list(range(head, head + n))
                head += n
                for request in incoming:
                    start_s[request] = now  # the moment of admission, before the call's cost
                stack.append(_SubBatch(0, incoming, n))
            now += call_s

        # The top runs one layer; its samples leave if their exit ends here, and it vanishes once it is empty.
        top = stack[-1]
        layer = top.next_layer
        now += layer_s[layer][len(top.requests)]
        remaining = []
        for request in top.requests:
            if exit_of[request] == exit_after[layer]:
                finish_s[request] = now
            else:
                remaining.append(request)
        top.requests = remaining
        top.next_layer = layer + 1
        if not top.requests:
            stack.pop()
    return Outcome(finish_s, start_s, preempted, preemptions), decisions
