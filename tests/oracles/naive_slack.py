"""A slow, obvious simulator of `fluid-slack`, for comparison with the fast compiled one.

It is written from the rules of docs/fluid-slack.md alone; it shares no code with the package. Requests are numbers,
queues and batches are plain lists of them, and nothing is kept that can be worked out anew.
"""

from collections.abc import Sequence

from naive_serving import Latency, Outcome


def in_time_and_end(
    now: float, running: list[float], stage: int, waiting: list[float], entering: int, latency: Latency, b_max: int
) -> tuple[int, float]:
    """Count who would be in time if the first ``entering`` of the ``waiting`` entered now; and say when all are done.

    Parameters
    ----------
    now
        Time.
    running, waiting
        Deadlines of the samples on the NPU, which stand after ``stage``, and of the b_max oldest that wait, not late.
    entering
        How many enter, to catch up with those running and to go on with them to the end of the network.
    latency, b_max
        The table T_{i:j}^b and the largest batch.
    """
    last = len(latency[0]) - 1
    clock = now + latency[0][stage][entering] + latency[stage][last][len(running) + entering]
    in_time = len([due for due in running + waiting[:entering] if clock <= due])
    strangers = [float("inf")] * b_max  # a full batch that is still to come, in no hurry
    queue = waiting[entering:] + strangers
    while queue:
        if clock + latency[0][last][1] > queue[0]:
            queue = queue[1:]  # could not be in time even alone: left out
            continue
        sizes = [b for b in range(1, b_max + 1) if b <= len(queue) and clock + latency[0][last][b] <= queue[0]]
        clock += latency[0][last][max(sizes)]
        in_time += len([due for due in queue[: max(sizes)] if clock <= due < float("inf")])
        queue = queue[max(sizes) :]
    return in_time, clock


def fluid_slack(
    arrival_s: Sequence[float],
    exit_of: Sequence[int],
    slo_s: float | Sequence[float],
    latency: Latency,
    b_max: int,
    patience: float = 6.0,
) -> Outcome:
    """Serve by the rules of docs/fluid-slack.md.

    Parameters
    ----------
    arrival_s, exit_of
        Per request: when it arrives (not decreasing) and the exit, from 1, at which it leaves.
    slo_s
        The SLO, one for all requests or one for each.
    latency
        The table T_{i:j}^b.
    b_max
        B_max, the most samples on the NPU.
    patience
        In SLOs of the oldest waiting request.
    """
    total = len(arrival_s)
    slo = [float(slo_s)] * total if isinstance(slo_s, (int, float)) else list(slo_s)
    due = [arrival_s[request] + slo[request] for request in range(total)]
    last = len(latency[0]) - 1
    start_s, finish_s = [float("nan")] * total, [float("nan")] * total
    preempted = [0] * total
    preemptions = 0
    now, last_turn = 0.0, 0.0
    queue: list[int] = list(range(total))  # not yet admitted and not late; those from the future are not looked at
    late: list[int] = []

    def here() -> list[int]:
        while queue and arrival_s[queue[0]] <= now and due[queue[0]] < now + latency[0][last][1]:
            late.append(queue.pop(0))
        return [request for request in queue if arrival_s[request] <= now]

    def turn_is_due(waiting: list[int]) -> bool:
        everybody = sorted(late + waiting)
        if not everybody:
            return False
        wait = patience * (due[everybody[0]] - arrival_s[everybody[0]])  # the SLO, rounded as the deadline is
        if len(late) > b_max:
            wait = wait * (b_max / len(late))
        return now >= last_turn + wait

    def best_size(running: list[int], stage: int, waiting: list[int], sizes: range) -> int:
        outcomes = []
        for size in sizes:
            in_time, end = in_time_and_end(
                now, [due[r] for r in running], stage, [due[r] for r in waiting[:b_max]], size, latency, b_max
            )
            outcomes.append((-in_time, end, size))
        return min(outcomes)[2]

    def enter(batch: list[int]) -> list[int]:
        for request in batch:
            (late if request in late else queue).remove(request)
            start_s[request] = now
        return batch

    def through(batch: list[int], stage: int) -> list[int]:
        nonlocal now
        now += latency[stage - 1][stage][len(batch)]
        for request in batch:
            if exit_of[request] == stage:
                finish_s[request] = now
        return [request for request in batch if exit_of[request] != stage]

    while queue or late:
        if not late:
            now = max(now, arrival_s[queue[0]])
        waiting = here()
        if late and turn_is_due(waiting):
            last_turn = now
            batch = enter(sorted(late + waiting)[:b_max])
        elif waiting:
            if not late:
                last_turn = now
            batch = enter(waiting[: best_size([], 0, waiting, range(1, min(len(waiting), b_max) + 1))])
        else:
            batch = enter(late[:1])
        stage = 0
        while batch:
            stage += 1
            batch = through(batch, stage)
            while batch:
                waiting = here()
                if turn_is_due(waiting):
                    break
                size = best_size(batch, stage, waiting, range(min(len(waiting), b_max - len(batch)) + 1))
                if size == 0:
                    break
                preemptions += 1
                for request in batch:
                    preempted[request] += 1
                newcomers = enter(waiting[:size])
                for earlier in range(1, stage + 1):
                    if newcomers:
                        newcomers = through(newcomers, earlier)
                batch = batch + newcomers
    return Outcome(finish_s, start_s, preempted, preemptions)
