"""Slow, obvious rules of BatchCond (Section III), for comparison with the fast compiled ones.

They are written from the paper and from the page that says how to read it, and share no code with the package. Samples
are items of lists, widths are their own numbers, and a time is a function of the batch size (and the width).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

Time = Callable[[int], float]
WidthTime = Callable[[int, Any], float]
"""Seconds by batch size and width."""


def depth_decision(stage_s: Time, gather_s: Time, places: int, terminated: int) -> str:
    """Equation (1): pad or split at a decision point."""
    if terminated == 0:
        return "go on"
    if terminated == places:
        return "stop"
    staying = places - terminated
    return "split" if stage_s(places) > stage_s(staying) + gather_s(staying) else "pad"


def ideal_batch(time_s: WidthTime, width: Any, b_max: int) -> int:
    """The smallest batch whose throughput is at least 95 % of the largest."""
    throughput = [batch / time_s(batch, width) for batch in range(1, b_max + 1)]
    return 1 + next(at for at, value in enumerate(throughput) if value >= 0.95 * max(throughput))


def algorithm_1(widths: Sequence[Any], ideal: Mapping[Any, int]) -> list[list[Any]]:
    """Sub-batches as lists of the samples' own widths, widest first; a sub-batch runs at its largest width."""
    sub_batches = [[width] * widths.count(width) for width in sorted(set(widths), reverse=True)]
    for i, filled in enumerate(sub_batches):
        if not filled:
            continue
        wanted = ideal[filled[0]]
        for narrower in sub_batches[i + 1 :]:
            while narrower and len(filled) < wanted:
                filled.append(narrower.pop(0))
    return [sub_batch for sub_batch in sub_batches if sub_batch]


def split_s(sub_batches: Sequence[Sequence[Any]], time_s: WidthTime, gather_s: Time) -> float:
    """Equation (2), with the gather: sub-batches run one after the other."""
    return sum(time_s(len(part), max(part)) + gather_s(len(part)) for part in sub_batches)


def width_decision(
    widths: Sequence[Any], time_s: WidthTime, gather_s: Time, ideal: Mapping[Any, int]
) -> tuple[list[list[Any]], float]:
    """Sub-batches of a batch by Algorithm 1, or one padded batch if that takes no longer; and their time."""
    whole = sorted(widths, reverse=True)
    parts = algorithm_1(widths, ideal)
    pad_s, apart_s = time_s(len(whole), whole[0]), split_s(parts, time_s, gather_s)
    return ([whole], pad_s) if pad_s <= apart_s else (parts, apart_s)


def set_partitions(samples: Sequence[Any]) -> Iterator[list[list[Any]]]:
    """Every way to cut a few samples into sub-batches, in any order and not only in runs."""
    if not samples:
        yield []
        return
    first, rest = samples[0], list(samples[1:])
    for size in range(len(rest) + 1):
        for chosen in combinations(range(len(rest)), size):
            left = [sample for at, sample in enumerate(rest) if at not in chosen]
            for others in set_partitions(left):
                yield [[first, *(rest[at] for at in chosen)], *others]


def least_s(widths: Sequence[Any], time_s: WidthTime, gather_s: Time) -> float:
    """Least time of all ways to cut a batch; a padded one is not gathered."""
    apart_s = min(split_s(parts, time_s, gather_s) for parts in set_partitions(widths))
    return min(time_s(len(widths), max(widths)), apart_s)


def contradictions(splits: Callable[[int, int], bool], b_max: int) -> list[tuple[int, int, int, int]]:
    """Pairs of cells of a decision map, two against two, that no time table can bring about.

    Into n survivors a batch of B splits iff T[B] exceeds T[n] + gather[n].  If B splits into n and C does not, then
    T[B] > T[C]; then B cannot pad towards m survivors where C splits.  ``splits`` is asked with places and survivors.
    """
    found = []
    for n in range(1, b_max):
        for m in range(1, n):
            larger = range(n + 1, b_max + 1)
            only_n = [b for b in larger if splits(b, n) and not splits(b, m)]
            only_m = [b for b in larger if splits(b, m) and not splits(b, n)]
            found += [(b, c, n, m) for b in only_n for c in only_m]
    return found
