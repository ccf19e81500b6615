"""A slow, obvious simulator of two request-scheduling policies, for comparison with the fast compiled one.

It is written from the paper's Algorithm 1 ("Exit-Aware Preemptive Scheduling Method", Section III-B, Eqs. 3 and 4)
alone and shares no code with the package: it imports nothing from it and was written without reading it. Where the
paper is silent the rule chosen is stated in a comment. Batches are plain lists of request numbers, so that the paper's
B_act, B_rem and B_incr are the lengths of ``active``, ``remaining`` and ``incoming``.
"""

from collections.abc import Sequence
from typing import NamedTuple

Latency = list[list[list[float]]]
"""``latency[i][j][b]`` is T_{i:j}^b, seconds from exit i (0 = network input) to exit j (1..E) with batch b."""


class Outcome(NamedTuple):
    """Outcome of the requests, in order of arrival."""

    finish_s: list[float]
    start_s: list[float]
    preempted: list[int]
    preemptions: int


class _Npu:
    """The clock, the queue and the accelerator, which does one stage of one batch at a time."""

    def __init__(self, arrival_s: Sequence[float], exit_of: Sequence[int], latency: Latency) -> None:
        self.now = 0.0
        self.arrival_s = arrival_s
        self.exit_of = exit_of
        self.latency = latency
        self.head = 0  # the oldest request which has not entered the NPU yet
        self.start_s = [float("nan")] * len(arrival_s)
        self.finish_s = [float("nan")] * len(arrival_s)

    def n_q(self) -> int:
        """Count the waiting requests, N_Q; one that arrived exactly now is waiting."""
        count = 0
        while self.head + count < len(self.arrival_s) and self.arrival_s[self.head + count] <= self.now:
            count += 1
        return count

    def take(self, count: int) -> list[int]:
        """Let the ``count`` oldest waiting requests enter the NPU now."""
        batch = list(range(self.head, self.head + count))
        self.head += count
        for request in batch:
            self.start_s[request] = self.now
        return batch

    def proc_until_exit(self, batch: list[int], i: int) -> list[int]:
        """Run the stage from exit i-1 to exit i; return the samples that do not leave at exit i."""
        self.now += self.latency[i - 1][i][len(batch)]
        remaining = []
        for request in batch:
            if self.exit_of[request] == i:
                self.finish_s[request] = self.now
            else:
                remaining.append(request)
        return remaining

    def proc_from_start_until_exit(self, batch: list[int], i: int) -> list[int]:
        """Run a batch from the input up to exit i, or until it is empty; return the samples left after exit i."""
        s = 1
        while s <= i and batch:
            batch = self.proc_until_exit(batch, s)
            s += 1
        return batch


def serial(
    arrival_s: Sequence[float], exit_of: Sequence[int], slo_s: float | Sequence[float], latency: Latency, b_max: int
) -> Outcome:
    """Serve one request at a time in order of arrival, each stage by stage until its exit; see `fluid`."""
    del slo_s, b_max
    npu = _Npu(arrival_s, exit_of, latency)
    while npu.head < len(arrival_s):
        npu.now = max(npu.now, arrival_s[npu.head])
        npu.proc_from_start_until_exit(npu.take(1), len(latency[0]) - 1)
    return Outcome(npu.finish_s, npu.start_s, [0] * len(arrival_s), 0)


def fluid(
    arrival_s: Sequence[float], exit_of: Sequence[int], slo_s: float | Sequence[float], latency: Latency, b_max: int
) -> Outcome:
    """Serve by Algorithm 1: preempt at an exit, let new samples catch up, merge, go on.

    ``arrival_s`` does not decrease, exits count from 1, ``slo_s`` is T_SLO of all requests or of each, ``latency`` is
    the table T_{i:j}^b.
    """
    slo = [float(slo_s)] * len(arrival_s) if isinstance(slo_s, (int, float)) else slo_s
    last = len(latency[0]) - 1  # E, the end of the network
    preempted = [0] * len(arrival_s)
    preemptions = 0
    npu = _Npu(arrival_s, exit_of, latency)
    while npu.head < len(arrival_s):
        npu.now = max(npu.now, arrival_s[npu.head])  # the NPU is idle: launch as soon as a request is there
        active = npu.take(min(npu.n_q(), b_max))  # line 2
        i = 1  # line 3
        # Line 5 prints i < |E|, which would never process the last stage; there no sample remains, so nothing preempts.
        while i <= last and active:
            remaining = npu.proc_until_exit(active, i)  # lines 6 to 8
            while 0 < len(remaining) < b_max and npu.n_q() > 0:  # line 9; the paper is silent on empty batch or queue
                b_slack = b_max - len(remaining)  # line 10
                b_incr = min(npu.n_q(), b_slack)  # line 11
                t_overhead = latency[0][i][b_incr] + latency[i][last][len(remaining) + b_incr]  # Eq. 4
                t_slack = min(arrival_s[request] + slo[request] for request in remaining) - npu.now  # Eq. 3
                if t_overhead < t_slack:  # line 12
                    preemptions += 1  # line 13
                    for request in remaining:
                        preempted[request] += 1
                    incoming = npu.proc_from_start_until_exit(npu.take(b_incr), i)  # line 14
                    remaining = remaining + incoming  # lines 15 and 16
                else:
                    break  # line 19
            active = remaining  # line 17
            i += 1  # line 22
    return Outcome(npu.finish_s, npu.start_s, preempted, preemptions)
