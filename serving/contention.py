"""How much longer the segments of lanes take that run side by side; compiled."""

from ..jit import compiled

ROUNDS, CLOSE = 100, 1e-12
"""Rounds at most in which cores find how much longer they move words, and a change after which they stop."""


@compiled(inline="always")
def moving_share(lane):
    """Share of its time in which a core moves words, once that takes longer."""
    moved = lane.load * lane.stretch
    return moved / (1.0 - lane.load + moved)


@compiled(inline="always")
def share_memory(lanes, contention, running):
    """Find how much longer each running lane moves words, beside others that move theirs (docs/metrics.md, Cores).

    The factors fall from above to a fixed point, so that no round lets the memory move more words than it can.
    """
    for k in range(lanes.size):
        lanes[k].stretch = 1.0 + contention * (running - 1)
    for _ in range(ROUNDS):
        moving = change = 0.0
        for k in range(lanes.size):
            if lanes[k].running:
                moving += moving_share(lanes[k])
        for k in range(lanes.size):
            lane = lanes[k]
            if lane.running:
                before = lane.stretch
                lane.stretch = 1.0 + contention * max(0.0, moving - moving_share(lane))
                change = max(change, before - lane.stretch)
        if change < CLOSE:
            break


@compiled(inline="always")
def slow_each_other(beside, contention, state, record):
    """Stretch or shorten what is left of the running segments when batches start or end beside each other."""
    if beside is None:
        return
    lanes, now_s = state.lanes, state.clock[0].now_s
    if lanes.size == 1:
        return
    running, share = 0, 0.0
    for k in range(lanes.size):
        if lanes[k].running:
            running += 1
            share += lanes[k].load
    slowdown = max(1.0, share) if running > 1 else 1.0
    if contention >= 0.0:
        share_memory(lanes, contention, running)
    for k in range(lanes.size):
        lane = lanes[k]
        if lane.running:
            if contention >= 0.0:
                slowdown = 1.0 + lane.load * (lane.stretch - 1.0)
            # a segment that starts now has the time of a batch alone; the others' has the earlier slowdown in it
            longer_s = (lane.end_s - max(now_s, lane.begin_s)) * (slowdown / lane.slowdown - 1.0)
            lane.slowdown = slowdown
            lane.end_s += longer_s
            state.counts[lane.network].overhead_s += longer_s
            if lane.run < record.run_s.shape[0]:
                record.run_s[lane.run, 1] = lane.end_s
