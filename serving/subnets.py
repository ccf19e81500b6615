"""Accuracy of the SubNets that served, and the data that they fetched: figures of SUSHI (``docs/sushi.md``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..formats.array_types import Bools, Ints
from ..tables.latency import LatencyTable
from .outcome import Replay


@dataclass(frozen=True, slots=True)
class SubNetShare:
    """Requests that a SubNet served, and their mean latency; requests that did not return are left out."""

    name: str
    requests: int
    mean_latency_s: float | None


@dataclass(frozen=True, slots=True)
class SubNetSummary:
    """Figures of a replay on a latency table with SubNets; ``None`` where table or trace do not state what it takes."""

    served_accuracy: float | None  # mean accuracy of the SubNets that served the requests that returned
    # share of all requests whose SubNet was less accurate than they asked for, or that did not return
    accuracy_miss_rate: float | None
    # mean over the requests that were begun: share of the SubNet that was resident (SUSHI, Appendix A.4)
    hit_ratio: float | None
    swaps: int  # changes of the state of the device
    # bytes between chip and memory for each request that was begun, swaps included
    off_chip_bytes: float | None
    off_chip_energy_j: float | None  # of those bytes
    shares: list[SubNetShare]


def stated_of(table: LatencyTable) -> dict[str, object]:
    """Inputs of the figures of SubNets, by name of the figure; ``None`` where the table does not state them."""
    accuracies = [net.accuracy for net in table.subnets or []]
    known = accuracies if accuracies and None not in accuracies else None
    reuse = table.reuse
    return {
        "served_accuracy": known,
        "accuracy_misses": known,
        "hit_ratio": reuse and reuse.hit_ratio,
        "off_chip": reuse and reuse.off_chip_bytes,
        "off_chip_energy": reuse and reuse.joules_per_byte,
    }


def swaps_of(states: Ints) -> Bools:
    """True where the device changed its state before a request, of those that were begun, in order of their begin."""
    return np.diff(states, prepend=0).astype(np.bool_)


def summarise_subnets(replay: Replay) -> SubNetSummary | None:
    """The figures of SubNets; ``None`` if the latency table has none."""
    table, asked = replay.table, replay.traffic.trace.min_accuracy
    if table.subnets is None:
        return None
    subnet, state = replay.subnet, replay.state
    returned = np.isfinite(replay.finish_s)
    order = replay.begun
    accuracy = np.array([np.nan if net.accuracy is None else net.accuracy for net in table.subnets])[subnet]
    mean = float(accuracy[returned].mean()) if returned.any() else np.nan
    enough = returned & (accuracy >= asked) if asked is not None else returned
    swaps = swaps_of(state[order])
    hits = moved = energy = None
    if (reuse := table.reuse) is not None and len(order):
        pairs = state[order], subnet[order]
        if reuse.hit_ratio is not None:
            hits = float(np.array(reuse.hit_ratio)[pairs].mean())
        if reuse.off_chip_bytes is not None:
            refills = np.array(reuse.refill_bytes)[state[order][swaps]].sum()
            moved = float(np.array(reuse.off_chip_bytes)[pairs].sum() + refills) / len(order)
            energy = None if reuse.joules_per_byte is None else moved * reuse.joules_per_byte
    shares = []
    for number, net in enumerate(table.subnets):
        here = returned & (subnet == number)
        count = int(here.sum())
        shares.append(SubNetShare(net.name, count, float(replay.latency_s[here].sum()) / count if count else None))
    return SubNetSummary(
        served_accuracy=None if np.isnan(mean) else mean,
        accuracy_miss_rate=None if asked is None or np.isnan(mean) else 1.0 - float(enough.mean()),
        hit_ratio=hits,
        swaps=int(swaps.sum()),
        off_chip_bytes=moved,
        off_chip_energy_j=energy,
        shares=shares,
    )
