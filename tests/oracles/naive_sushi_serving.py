"""A slow, obvious simulator of SUSHI's scheduler with a queue, for comparison with the compiled policy.

It is written from SUSHI, Section 3.3, and from the page on its readings; it shares no code with the package.
Averages and distances are exact fractions, so that ties are real ties.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple


class SuperNet(NamedTuple):
    """SubNets and SubGraphs: L[i][j], accuracies, vectors of both, and the time to load each SubGraph."""

    latency_s: list[list[float]]
    accuracy: list[float]
    subnets: list[list[int]]
    subgraphs: list[list[int]]
    refill_s: list[float]


class Query(NamedTuple):
    """A query: its arrival, its deadline, and its least accuracy."""

    arrival_s: float
    due_s: float
    accuracy: float


class Served(NamedTuple):
    """Outcome of a query."""

    start_s: float
    finish_s: float
    subnet: int
    subgraph: int


def pick(net: SuperNet, c: int, query: Query, mode: str, from_s: float, only: int | None) -> int:
    """The SubNet for a query while SubGraph c is resident; a query that begins late has less time in mode slack."""
    able = [i for i in range(len(net.accuracy)) if only is None or i == only]

    def fastest_first(i: int) -> tuple[float, float, int]:
        return net.latency_s[i][c], -net.accuracy[i], i

    def best_first(i: int) -> tuple[float, float, int]:
        return -net.accuracy[i], net.latency_s[i][c], i

    if mode == "accuracy":
        enough = [i for i in able if net.accuracy[i] >= query.accuracy]
        return min(enough, key=fastest_first) if enough else min(able, key=best_first)
    begin_s = from_s if mode == "slack" else query.arrival_s
    enough = [i for i in able if begin_s + net.latency_s[i][c] <= query.due_s]
    return min(enough, key=best_first) if enough else min(able, key=fastest_first)


def distance(net: SuperNet, j: int, window: list[int]) -> Fraction:
    """||G_j - average||^2."""
    total = Fraction(0)
    for place, held in enumerate(net.subgraphs[j]):
        average = Fraction(sum(net.subnets[i][place] for i in window), len(window))
        total += (held - average) ** 2
    return total


def spent(net: SuperNet, j: int, window: list[int]) -> float:
    """The time that these SubNets take with SubGraph j."""
    total = 0.0
    for i in range(len(net.accuracy)):
        total += window.count(i) * net.latency_s[i][j]
    return total


def serve(
    net: SuperNet,
    queries: Sequence[Query],
    mode: str,
    q: int,
    *,
    by: str = "l2",
    charged: bool = False,
    graph: str | int = "follow",
    only: int | None = None,
) -> list[Served]:
    """Serve queries one after the other, in order of arrival.

    Modes are ``accuracy``, ``latency`` and ``slack``. After each ``q`` queries the SubGraph with the least distance
    ``by`` (``l2`` or ``latency``) is loaded, and the next query waits for that if it is ``charged``. ``graph`` is
    ``follow``, ``clairvoyant`` or the SubGraph that is always resident; ``only`` is the only SubNet, if there is one.
    """
    columns = range(len(net.subgraphs))
    served: list[Served] = []
    c, free_s = 0, 0.0
    window: list[int] = []
    for t, query in enumerate(queries):
        now = max(free_s, query.arrival_s)
        before = c
        if isinstance(graph, int):
            c = graph
        elif t % q == 0 and graph == "clairvoyant":
            outcomes = []
            for j in columns:
                begin_s = now + (net.refill_s[j] if charged and j != before else 0.0)
                busy = net.refill_s[j] if charged and j != before else 0.0
                late, accuracies = 0, 0.0
                for ahead in queries[t : t + q]:
                    begin_s = max(begin_s, ahead.arrival_s)
                    i = pick(net, j, ahead, mode, begin_s, only)
                    begin_s += net.latency_s[i][j]
                    busy += net.latency_s[i][j]
                    late += begin_s > ahead.due_s
                    accuracies += 0.0 if mode == "accuracy" else net.accuracy[i]
                outcomes.append((late, -accuracies, busy, j))
            c = min(outcomes)[-1]
        elif t > 0 and t % q == 0:
            measure = distance if by == "l2" else spent
            c = min(columns, key=lambda j: (measure(net, j, window), j))
            window = []
        from_s = now + (net.refill_s[c] if charged and c != before else 0.0)
        i = pick(net, c, query, mode, from_s, only)
        window.append(i)
        free_s = from_s + net.latency_s[i][c]
        served.append(Served(now, free_s, i, c))
    return served
