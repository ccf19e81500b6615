"""A slow, obvious simulator of `fluid-slack`, for comparison with the fast compiled one.

It is written from the rules of docs/policies.md alone; it shares no code with the package. Requests are numbers,
queues and batches are plain lists of them, and nothing is kept that can be worked out anew.
"""

from collections.abc import Sequence

from naive_serving import Latency, Outcome


def split(due: Sequence[float], waiting: list[int], end: float) -> tuple[list[int], list[int]]:
    """Requests at the head whose deadline is before ``end``, and all the others."""
    behind = list(waiting)
    missing = []
    while behind and due[behind[0]] < end:
        missing.append(behind.pop(0))
    return missing, behind


def in_time(
    now: float, due: Sequence[float], waiting: list[int], size: int, considered: list[int], whole: Sequence[float]
) -> int:
    """Count the requests in time if ``size`` of those ``waiting``, oldest first, were launched now (rule 1).

    The plan looks at those ``considered``; ``whole`` is the time of the whole network by batch size.
    """
    clock = now + whole[size]
    _, behind = split(due, waiting, clock)
    behind = [request for request in behind if request in considered]
    count = len([request for request in behind[:size] if due[request] >= clock])
    behind = behind[size:]
    while behind:
        if due[behind[0]] < clock + whole[1]:
            behind = behind[1:]  # could not be in time even alone: left out
            continue
        sizes = [b for b in range(1, len(whole)) if b <= len(behind) and clock + whole[b] <= due[behind[0]]]
        clock += whole[max(sizes)]
        count += len([request for request in behind[: max(sizes)] if due[request] >= clock])
        behind = behind[max(sizes) :]
    return count


def fluid_slack(
    arrival_s: Sequence[float],
    exit_of: Sequence[int],
    slo_s: float | Sequence[float],
    latency: Latency,
    b_max: int,
    patience: float = 6.0,
    *,
    planned: bool = True,
) -> Outcome:
    """Serve by the rules of docs/policies.md; arguments as of `naive_serving.fluid`.

    The patience is in SLOs of the oldest waiting request; a ``planned`` launch may be smaller than FluidB's.
    """
    total = len(arrival_s)
    slo = [float(slo_s)] * total if isinstance(slo_s, (int, float)) else list(slo_s)
    due = [arrival_s[request] + slo[request] for request in range(total)]
    last = len(latency[0]) - 1
    whole = latency[0][last]
    start_s, finish_s = [float("nan")] * total, [float("nan")] * total
    preempted = [0] * total
    preemptions = 0
    now, last_turn = 0.0, 0.0
    entered, stayed = 0, 0
    queue: list[int] = list(range(total))  # not yet admitted; those from the future are not looked at

    def here() -> list[int]:
        return [request for request in queue if arrival_s[request] <= now]

    def late() -> list[int]:
        return split(due, here(), now + whole[1])[0]

    def turn_is_due() -> bool:
        if not here():
            return False
        wait = patience * (due[here()[0]] - arrival_s[here()[0]])  # the SLO, rounded as the deadline is
        if len(late()) > b_max:
            wait = wait * (b_max / len(late()))
        return now >= last_turn + wait

    def chosen(size: int, end: float) -> list[int]:
        missing, behind = split(due, here(), end)
        return sorted(behind[:size] + missing[: max(0, size - len(behind))])

    def foresees() -> bool:
        if last == 1:
            return True
        return stayed >= 0.3 * entered and b_max * whole[1] <= 1.6 * whole[b_max]

    def best_size(largest: int) -> int:
        if not planned or len(late()) >= b_max:
            return largest
        considered = here()[: len(late()) + 2 * b_max]
        sizes = [
            size for size in range(1, largest + 1) if b_max <= 8 or size * whole[largest] >= 0.9 * largest * whole[size]
        ]
        saved = {size: in_time(now, due, here(), size, considered, whole) for size in sizes}
        return max(saved, key=lambda size: (saved[size], size))

    def enter(batch: list[int]) -> list[int]:
        nonlocal entered
        entered += len(batch)
        for request in batch:
            queue.remove(request)
            start_s[request] = now
        return batch

    def through(batch: list[int], stage: int) -> list[int]:
        nonlocal now
        now += latency[stage - 1][stage][len(batch)]
        for request in batch:
            if exit_of[request] == stage:
                finish_s[request] = now
        return [request for request in batch if exit_of[request] != stage]

    while queue:
        now = max(now, arrival_s[queue[0]])
        size = min(len(here()), b_max)
        if (turn_is_due() and late()) or not foresees():
            going = here()[:size]
        else:
            size = best_size(size)
            going = chosen(size, now + whole[size])
        if going == here()[: len(going)]:
            last_turn = now
        batch = enter(going)
        stage = 0
        while batch:
            stage += 1
            batch = through(batch, stage)
            while batch:
                size = min(len(here()), b_max - len(batch))
                overhead = latency[0][stage][size] + latency[stage][last][len(batch) + size]  # Equation (4)
                allowed = overhead < min(due[request] for request in batch) - now
                if size == 0 or turn_is_due() or not allowed:
                    stayed += len(batch) if stage == last - 1 else 0
                    break
                preemptions += 1
                for request in batch:
                    preempted[request] += 1
                newcomers = enter(chosen(size, now + overhead) if foresees() else here()[:size])
                for earlier in range(1, stage + 1):
                    if newcomers:
                        newcomers = through(newcomers, earlier)
                batch = batch + newcomers
    return Outcome(finish_s, start_s, preempted, preemptions)
