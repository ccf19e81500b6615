"""The settings of the exits of all networks that a plan tries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from ...dse.exits.stage_times import stage_times
from ...formats import InputError
from ...models import Network
from ...serving.networks import ServedNetwork
from ...tables.latency import LatencyTable
from ...traffic.exits import chosen_thresholds
from ...traffic.measures import NEVER, Threshold
from ...traffic.samples import as_samples
from .exits import (
    MOST_SETTINGS,
    ExitSetting,
    as_stated,
    chosen_settings,
    every_setting,
    joined,
    ordered,
    setting_with,
    settings_of,
)
from .plan_traffic import PlanTraffic


class TriedSettings(NamedTuple):
    """Which settings of a network's exits are tried."""

    thresholds: Sequence[Threshold] | None  # at each exit; by default the usual ones and never
    most: float  # settings up to which all are tried
    never: bool  # whether an exit that only answers at the deadline may be of use


def _settings_of_one(
    network: ServedNetwork, model: Network, fastest: Sequence[LatencyTable], tried: TriedSettings
) -> list[ExitSetting]:
    """Every setting of a network's exits, or those that PAME's rule chooses where exits are many.

    If its file states its threshold, there is one.  ``fastest``: the latency table of the fastest design of each kind
    of hardware.
    """
    if network.samples is None:
        return as_stated(model.exits)
    samples, last = as_samples(network.samples), len(model.exits)
    if network.threshold is not None:
        stated = tuple(chosen_thresholds(network.threshold, last, samples.measure))
        return [setting_with(samples, tuple(range(1, last)), stated)]
    thresholds, never = (*samples.measure.usual, NEVER) if tried.thresholds is None else tried.thresholds, tried.never
    if every_setting(model.exits, thresholds, never=never, most=tried.most):
        return settings_of(model.exits, samples, thresholds, never=never)
    stage_s = [stage_times(table, model) for table in fastest]
    return chosen_settings(model.exits, samples, thresholds, stage_s, never=never)


def tried_settings(
    traffic: PlanTraffic,
    fastest: Sequence[Sequence[LatencyTable]],
    thresholds: Sequence[Threshold] | None,
    *,
    never: bool,
) -> list[ExitSetting]:
    """Every setting of the exits of all networks that is tried; the most accurate first.

    ``fastest``: by kind of hardware, the latency table of each network on its fastest design; ``never``: whether an
    exit that only answers at the deadline may be of use.
    """
    tried = TriedSettings(thresholds, MOST_SETTINGS ** (1 / len(traffic.given)), never)
    tables_of = zip(*fastest, strict=True)
    each = [
        _settings_of_one(network, model, tables, tried)
        for network, model, tables in zip(traffic.given, traffic.models, tables_of, strict=True)
    ]
    if (count := math.prod(map(len, each))) > MOST_SETTINGS:
        raise InputError(
            f"thresholds: expected at most {MOST_SETTINGS:,} settings of the exits of all networks, found {count:,}; "
            "state fewer with --thresholds, or the threshold of a network in its file"
        )
    exits = [len(model.exits) for model in traffic.models]
    return ordered(joined(parts, exits) for parts in product(*each))
