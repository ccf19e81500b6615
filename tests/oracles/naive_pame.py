"""A slow, obvious simulator of PAME's run time, for comparison with the fast compiled one.

It is written from PAME, Sections 4.2 and 7.8, and from the page on its readings; it shares no code with the package.
The device is a list of batches, each with the seconds of work that are left of its stage; from event to event all of
them advance at the same pace, which is slower the more of the device they take together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from naive_serving import Latency, Outcome


@dataclass
class _Batch:
    samples: list[int]
    stages_done: int
    work_s: float  # what is left of its stage, alone on the device


def pame(
    arrival_s: Sequence[float],
    exit_of: Sequence[int],
    latency: Latency,
    n: int,
    timeout_s: float,
    tau_b: float,
    load: Sequence[float],
    streams: int,
) -> Outcome:
    """Serve by PAME: ``arrival_s`` does not decrease, exits count from 1, ``latency`` is the table T_{i:j}^b.

    The oldest request waits up to ``timeout_s`` for a full batch of ``n``. A new batch may start beside one of fewer
    than ``tau_b`` samples. ``load`` is the share of the device that a batch takes, by its samples.
    """
    total = len(arrival_s)
    start_s, finish_s = [float("nan")] * total, [float("nan")] * total
    arrived = 0
    queue: list[int] = []
    running: list[_Batch] = []
    now = 0.0
    while arrived < total or queue or running:
        # everything of this instant: stages that have ended, then arrivals, then a new batch
        for batch in list(running):
            if batch.work_s == 0.0:
                batch.stages_done += 1
                for request in list(batch.samples):
                    if exit_of[request] == batch.stages_done:
                        finish_s[request] = now  # answered at the end of its stage
                        batch.samples.remove(request)
                if batch.samples:  # compacted: the next engine runs the survivors only
                    batch.work_s = latency[batch.stages_done][batch.stages_done + 1][len(batch.samples)]
                else:
                    running.remove(batch)
        while arrived < total and arrival_s[arrived] <= now:
            queue.append(arrived)
            arrived += 1
        may_start = not running or (
            streams > 1 and len(running) == 1 and running[0].stages_done > 0 and len(running[0].samples) < tau_b
        )
        if may_start and queue and (len(queue) >= n or now >= arrival_s[queue[0]] + timeout_s):
            samples, queue = queue[:n], queue[n:]
            for request in samples:
                start_s[request] = now
            running.append(_Batch(samples, 0, latency[0][1][len(samples)]))
            may_start = False
        # the next instant
        slow = max(1.0, sum(load[len(batch.samples)] for batch in running)) if len(running) > 1 else 1.0
        times = [now + batch.work_s * slow for batch in running]
        if arrived < total:
            times.append(arrival_s[arrived])
        if may_start and queue:
            times.append(arrival_s[queue[0]] + timeout_s)
        if not times:
            break
        then = min(times)
        for batch in running:
            batch.work_s -= (then - now) / slow
        now = then
    return Outcome(finish_s, start_s, [0] * total, 0)
