"""Search and simulation in turn, until the design fits the traffic that it sees (``docs/npu.md``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..dse.npu.choices import Objective
from ..dse.npu.design import DesignTable, tabulate_design
from ..dse.npu.fbcb import FbcbTable
from ..dse.npu.latency import tabulate_latency
from ..dse.npu.search import SearchOptions, search
from ..dse.npu.space import Tile
from ..formats import brief
from ..models import Network
from ..platforms import Board
from ..serving.inputs import AnyPolicy, Requests, as_scheduler, as_thresholds
from ..serving.metrics import Summary, summarise
from ..serving.replay import simulate
from ..tables.latency import LatencyTable
from ..tables.launches import launches_of


@dataclass(frozen=True, slots=True)
class Round:
    """A design, and the figures of its traffic."""

    design: DesignTable
    fbcb: FbcbTable
    latency: LatencyTable
    summary: Summary  # of the simulation

    @property
    def tile(self) -> Tile:
        """The design."""
        return self.design.tile

    @property
    def busy_s(self) -> float:
        """Time that the NPU took for the traffic."""
        return self.summary.busy_share * self.summary.span_s


@dataclass(frozen=True, slots=True)
class Codesign:
    """The rounds, the first searched without regard to traffic."""

    rounds: list[Round]  # in order; designs differ from one to the next
    back_to: int  # 0-based round whose design the last round's traffic asks for

    __repr__ = brief

    @property
    def settled(self) -> bool:
        """True if the last design is the one that its own traffic asks for; else designs come back in turn."""
        return self.back_to == len(self.rounds) - 1

    @property
    def chosen(self) -> Round:
        """The settled design, or of those that come back in turn the one with the least work."""
        return min(self.rounds[self.back_to :], key=lambda item: item.busy_s)


def codesign(
    network: Network,
    platform: Board,
    options: SearchOptions,
    requests: Requests,
    policy: AnyPolicy,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Codesign:
    """Alternate search and simulation until the design no longer changes.

    Parameters
    ----------
    network, platform : Network, Board
    The network, and the board that it runs on.
    options : SearchOptions
    The first search; the others take their weights from the traffic.
    requests : Requests
    The same requests in every round.
    policy : Scheduler or str
    The policy that serves them.
    threads : int, optional
    Threads of the searches; the result does not depend on it.
    progress : callable, optional
    Called with (rounds done, rounds known of).
    """
    rounds: list[Round] = []
    trace = requests.read()
    threshold = as_thresholds(None, network.exits, trace)
    traffic = requests.traffic(trace, [item.rate for item in network.exits], threshold)
    scheduler = as_scheduler(policy)
    found = search(network, platform, options, threads=threads)
    while True:  # there are finitely many designs
        design, fbcb = tabulate_design(network, platform, options, found)
        latency = tabulate_latency(design, fbcb)
        summary = summarise(simulate(latency, traffic, scheduler))
        rounds.append(Round(design, fbcb, latency, summary))
        if progress:
            progress(len(rounds), len(rounds) + 1)
        launches = launches_of(summary.stages)
        goal = {"objective": Objective.TRAFFIC, "launches": launches, "weights": []}
        options = SearchOptions.model_validate(dict(options) | goal)
        found = search(network, platform, options, threads=threads)
        tiles = [item.tile for item in rounds]
        if found.best.tile in tiles:
            return Codesign(rounds, tiles.index(found.best.tile))
