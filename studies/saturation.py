"""The rate beyond which no policy keeps up."""

from __future__ import annotations

import math
from types import MappingProxyType

import numpy as np

from ..formats.array_types import Floats
from ..serving.inputs import as_thresholds
from ..serving.networks import ServedNetwork
from ..traffic.additions import add_columns
from ..traffic.arrivals import offline
from ..traffic.request_columns import Columns
from ..traffic.samples import as_samples, attach
from ..traffic.trace import Trace
from ..traffic.traffic import prepare

_SAMPLE = 2**16
"""Requests over whose widths and steps the saturation rate is averaged."""

NO_COLUMNS: Columns = MappingProxyType({})
"""Requests that state nothing."""


def saturation_rate(network: ServedNetwork, b_max: int | None = None, columns: Columns = NO_COLUMNS) -> float:
    """Rate beyond which queues of a network grow under any policy.

    A stage takes at least its least time a sample, over batch sizes, SubNets and states, at the sample's width or a
    wider one; a request needs every stage up to its exit. Requests without widths run at the largest, and without steps
    a repeated stage runs as often as it can. Lanes together are :attr:`LatencyTable.speedup` times as fast. Requests
    leave at exits as the table states, or as their samples do.
    """
    table, (sample, reached) = network.latency, _sample_of(network, columns)
    widths = table.widths or [math.inf]
    limit = min(b_max or table.b_max, table.b_max)
    time_s = table.segments(by_layer=False).time_s[:, :, 1 : limit + 1]
    fastest_s = time_s.reshape(-1, len(widths), *time_s.shape[1:]).min(axis=0)  # of every SubNet and state
    least_s = np.minimum.accumulate((fastest_s / np.arange(1, limit + 1)).min(axis=2))  # at a width or a wider one
    own = [0] if sample.width is None else np.searchsorted(-np.array(widths), -sample.width, side="right") - 1
    repeats = (table.exits[-1].steps if sample.steps is None else sample.steps) - 1
    work_s = (least_s[own] * reached).sum(axis=1) + repeats * reached[:, -1] * least_s[own, -1]
    return table.speedup / float(work_s.mean())


def _sample_of(network: ServedNetwork, columns: Columns) -> tuple[Trace, Floats]:
    """Requests of a network with what they state, and the share of each, or of all, that needs each stage."""
    rates = [row.rate for row in network.latency.exits]
    if network.samples is None:
        reached = 1.0 - np.concatenate([[0.0], np.cumsum(rates)[:-1]])
        return add_columns(offline(_SAMPLE), 0, columns), reached[None]
    samples = as_samples(network.samples)
    each = np.tile(np.arange(len(samples)), max(1, _SAMPLE // len(samples)))
    trace = attach(add_columns(offline(len(each)), 0, columns), samples[each])
    thresholds = as_thresholds(network.threshold, network.latency, trace)
    traffic = prepare(trace, rates, slo_s=1.0, threshold=thresholds)  # nobody is late here
    return traffic.trace, (traffic.exits[:, None] > np.arange(len(rates))).astype(np.float64)
