"""Search and simulation in turn, until the design fits the traffic that it sees (``docs/codesign.md``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..dse.design import DesignTable, tabulate_design
from ..dse.fbcb import FbcbTable
from ..dse.latency import LatencyTable, tabulate_latency
from ..dse.objectives import Objective
from ..dse.search import SearchOptions, search
from ..dse.space import Tile
from ..models import Network
from ..platforms import Platform
from .contenders import Contender
from .launches import launches_of
from .metrics import Summary, summarise
from .simulate import simulate
from .traces import Trace

MAX_ROUNDS = 20
"""Rounds after which designs that keep changing are given up on; a handful is usual."""


@dataclass(frozen=True, slots=True)
class Round:
    """A design, and what its users experienced.

    Attributes
    ----------
    design, fbcb, latency
        Its tables.
    summary : Summary
        What the simulation says.
    """

    design: DesignTable
    fbcb: FbcbTable
    latency: LatencyTable
    summary: Summary

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
    """The rounds, the first searched without regard to traffic.

    Attributes
    ----------
    rounds : list of Round
        In order; designs differ from one to the next.
    settled : bool
        Whether the last design is the one that its own traffic asks for; else designs
        came back in turn.
    """

    rounds: list[Round]
    settled: bool

    @property
    def chosen(self) -> Round:
        """The settled design, or of those that came in turn the one with the least work."""
        return self.rounds[-1] if self.settled else min(self.rounds, key=lambda item: item.busy_s)


def codesign(
    network: Network,
    platform: Platform,
    options: SearchOptions,
    trace: Trace,
    contender: Contender,
    exits: NDArray[np.int64],
    *,
    slo_s: float | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Codesign:
    """Alternate search and simulation until the design no longer changes.

    Parameters
    ----------
    network, platform : Network, Platform
        What runs, and on what.
    options : SearchOptions
        The first search; the others take their weights from the traffic.
    trace : Trace
        Requests, the same in every round.
    contender : Contender
        The policy.
    exits : (N,) ndarray of int64
        1-based exit of each request, the same in every round.
    slo_s : float, optional
        Latency objective, where the trace has none.
    threads : int, optional
        Threads of the searches; the result does not depend on it.
    progress : callable, optional
        Called with (rounds done, rounds at most).

    Returns
    -------
    Codesign
        Every round.

    Raises
    ------
    InputError
        As :func:`fluidb.dse.search` and :func:`fluidb.serving.simulate` do.
    """
    rounds: list[Round] = []
    found = search(network, platform, options, threads=threads)
    while len(rounds) < MAX_ROUNDS:
        design, fbcb = tabulate_design(network, platform, options, found)
        latency = tabulate_latency(design, fbcb)
        summary = summarise(simulate(latency, trace, contender, exits=exits, slo_s=slo_s), latency)
        rounds.append(Round(design, fbcb, latency, summary))
        if progress:
            progress(len(rounds), MAX_ROUNDS)
        launches = launches_of(summary.stages)
        options = options.model_copy(update={"objective": Objective.TRAFFIC, "launches": launches, "weights": []})
        found = search(network, platform, options, threads=threads)
        if found.best.tile == rounds[-1].tile:
            return Codesign(rounds, settled=True)
        if found.best.tile in [item.tile for item in rounds]:
            break
    return Codesign(rounds, settled=False)
