"""The choice of exits in plain loops, written from PAME, Section 6, alone.

A log is a list of samples; each has, for every candidate, a list of principal values in descending order, and scores at
every candidate and at the end.  ``T(a, b, B)`` is a function of places and a batch size; ``T(a, a, B)`` is the time to
gather B samples that stay at a where others leave.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

Z_95 = 1.6448536269514722


def leaves(sample, candidate, confidence, count):
    """Section 5.3: enough principal values reach the confidence threshold."""
    return sum(value >= confidence for value in sample["values"][candidate - 1]) >= count


def score_of(sample, chain, last):
    """The score of the answer that a sample gets from exits with thresholds, or from the end."""
    for candidate, confidence, count in chain:
        if leaves(sample, candidate, confidence, count):
            return sample["scores"][candidate - 1]
    return sample["scores"][last - 1]


def find_thresholds(log, chain, candidate, grid, counts, eta, guard, last, allowed=None):
    """Section 6.2: of the pairs that keep Q > eta * Q_ori, the one with the highest exit rate.

    ``allowed`` are the (candidate, confidence, count) that are tried, if not all.
    """
    own = sum(sample["scores"][-1] for sample in log)
    passing, best = [], None
    for count in counts:
        for confidence in grid:
            out = sum(
                leaves(sample, candidate, confidence, count)
                for sample in log
                if not any(leaves(sample, *exit_) for exit_ in chain)
            )
            if out == 0 or (allowed is not None and (candidate, confidence, count) not in allowed):
                continue
            scores = [score_of(sample, [*chain, (candidate, confidence, count)], last) for sample in log]
            margin = sum(scores) - eta * own
            if guard == "bound":
                parts = [score - eta * sample["scores"][-1] for score, sample in zip(scores, log, strict=True)]
                spread = sum(part**2 for part in parts) - sum(parts) ** 2 / len(log)
                margin = sum(parts) - Z_95 * math.sqrt(max(spread, 0.0))
            if margin > 0:
                passing.append((out, sum(scores), confidence, count))
            if best is None or margin > best:
                best = margin
    if not passing:
        return None
    out, total, confidence, count = max(passing)
    return confidence, count, out, total / own


def batches_of(log, n):
    """Whole batches of n samples; or batches of the sizes n, which have all samples."""
    if isinstance(n, int):
        return [log[start : start + n] for start in range(0, len(log) - n + 1, n)]
    return [log[end - size : end] for size, end in zip(n, itertools.accumulate(n), strict=True)]


def moving_by_batch(log, chain, n):
    """Number of samples of each batch that pass all exits of a chain."""
    return [sum(not any(leaves(sample, *exit_) for exit_ in chain) for sample in batch) for batch in batches_of(log, n)]


def quantile(sizes, tau):
    """The smallest size that at most a share tau of the batches that are not empty exceeds."""
    some = [size for size in sizes if size > 0]
    for size in sorted(some):
        if sum(other > size for other in some) <= tau * len(some) + 1e-9:
            return size
    return 0


def behind(T, place, N, stays, some_leave):
    """Time of the samples that stay at an exit: they are gathered if others leave, and run to the end."""
    if stays == 0:
        return 0.0
    return T(place, N, stays) + (T(place, place, stays) if some_leave else 0.0)


def choose(log, T, K, n, v, eta, tau, g, grid, counts, posterior="observed", guard=None, sizes=None, allowed=None):
    """Sections 6.1 to 6.4.  Returns the chain of exits, and the fate of each candidate by step.

    Batches are whole, or of ``sizes``; then slow batches and the average count every single batch.
    """
    N = K + 1
    searched = guard if isinstance(guard, float) else eta
    h = math.ceil(n / v)
    chain: list[tuple[int, float, int]] = []
    steps: list[tuple[int, int, dict[int, Any]]] = []
    a, n_in = 0, n
    while True:
        limit = T(a, N, n_in)
        step: dict[int, Any] = {}
        best = None
        reach = moving_by_batch(log, chain, sizes or n)
        for i in range(a + 1, K + 1):
            thresholds = find_thresholds(log, chain, i, grid, counts, searched, guard, N, allowed)
            if thresholds is None:
                step[i] = ("imprecise",)
                continue
            confidence, count, _, _ = thresholds
            b = moving_by_batch(log, [*chain, (i, confidence, count)], sizes or n)
            C, t = [0] * (h + 1), []
            for size in b:
                C[math.ceil(size / v)] += 1
            for j in range(h + 1):
                n_j = min(j * v, n_in)
                t.append(T(a, i, n_in) + behind(T, i, N, n_j, n_j < n_in or v > 1))  # a wider bin: some may have left
            if a == 0 and sizes:
                late, value = 0, 0.0
                for size, after in zip(sizes, b, strict=True):
                    time = T(0, i, size) + behind(T, i, N, after, after < size)
                    late += time > T(0, N, size) * (1 + 1e-9)
                    value += (size - after) * T(0, i, size) + after * time
                slow, value = late / len(b), value / len(log)
                outcome = "slow" if slow > tau + 1e-9 else "longer"
            elif a == 0:
                slow = sum(c for c, time in zip(C, t, strict=True) if time > limit * (1 + 1e-9)) / len(b)
                value = sum(  # Equation 2
                    ((n - min(j * v, n)) * t[0] + min(j * v, n) * t[j]) * C[j] for j in range(h + 1)
                ) / (n * len(b))
                outcome = "slow" if slow > tau + 1e-9 else "longer"
            else:
                late = 0
                for before, after in zip(reach, b, strict=True):
                    with_it = (T(a, i, before) if before else 0.0) + behind(T, i, N, after, after < before)
                    late += with_it > (T(a, N, before) if before else 0.0) * (1 + 1e-9)
                slow = late / len(b)
                w = min(quantile(b, tau), n_in)
                value = T(a, i, n_in) + behind(T, i, N, w, w < n_in)  # Equation 3
                outcome = "no gain" if value >= (1 - g) * limit else "longer"
                if posterior == "observed" and slow > tau + 1e-9:
                    outcome = "slow"
            step[i] = (outcome, thresholds, C, t, slow, value)
            if outcome == "longer" and (best is None or value < step[best][5]):
                best = i
        steps.append((a, n_in, step))
        if best is None:
            return chain, steps, "none left"
        step[best] = ("taken", *step[best][1:])
        confidence, count = step[best][1][:2]
        chain = [*chain, (best, confidence, count)]
        b = moving_by_batch(log, chain, sizes or n)
        if not any(b):
            return chain, steps, "all leave"
        if posterior == "observed":
            n_in = quantile(b, tau)
        else:
            fits = [min(j * v, n_in) for j, time in enumerate(step[best][3]) if time <= limit * (1 + 1e-9)]
            n_in = max(fits)
            if n_in == 0:
                return chain, steps, "none left"
        a = best


def replay(log, T, K, n, chain):
    """Run batches through a chain of exits.  Returns average, tail, share of slow batches and precision."""
    N = K + 1
    latencies, tails, slow = [], [], []
    for batch in batches_of(log, n):
        there, clock, a = batch, 0.0, 0
        for exit_ in chain:
            if there:
                clock += T(a, exit_[0], len(there))
            stay = [sample for sample in there if not leaves(sample, *exit_)]
            latencies += [clock] * (len(there) - len(stay))
            if 0 < len(stay) < len(there):
                clock += T(exit_[0], exit_[0], len(stay))
            there, a = stay, exit_[0]
        if there:
            clock += T(a, N, len(there))
        latencies += [clock] * len(there)
        tails.append(clock)
        slow.append(clock > T(0, N, len(batch)) * (1 + 1e-9))
    own = sum(sample["scores"][-1] for sample in log)
    precision = sum(score_of(sample, chain, N) for sample in log) / own
    return sum(latencies) / len(latencies), sum(tails) / len(tails), sum(slow) / len(slow), precision


def best_chain(replayed, K, grid, eta, tau):
    """The chain of one or two exits with the least average latency that keeps the precision, and that latency.

    ``replayed(chain)`` says what a chain gives, as ``replay`` does.
    """
    best = None
    for number in (1, 2):
        for places in itertools.combinations(range(1, K + 1), number):
            for levels in itertools.product(grid, repeat=number):
                chain = [(place, level, 1) for place, level in zip(places, levels, strict=True)]
                average, _, slow, precision = replayed(chain)
                if precision > eta and slow <= tau + 1e-9 and (best is None or average < best[1]):
                    best = chain, average
    return best
