"""Whether networks, tables, requests and a policy fit each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from ..tables.latency import LatencyTable
from ..traffic.rows import more
from ..traffic.trace import Trace
from ..traffic.traffic import Traffic
from .networks import ServedNetwork
from .policies.interface import CARRIED
from .scheduler import Scheduler
from .state import PRIORITY


def _kinds(table: LatencyTable) -> tuple[list[int], float] | None:
    """What tables of the same cores have alike."""
    return None if table.cores is None else (table.cores.of, table.cores.contention)


def _pinned_faults(network: ServedNetwork) -> list[str]:
    """Faults of the cores that are to serve a network."""
    cores, lanes = list(network.cores or []), network.latency.lanes
    if network.latency.cores is None:
        return ["cores: expected none where the latency table has no cores, found some"]
    wrong = [number for number in cores if not 1 <= number <= lanes]
    if cores and not wrong and len(set(cores)) == len(cores):
        return []
    fault = "none" if not cores else str(wrong[0]) if wrong else "one twice"
    return [f"cores: expected some of 1 to {lanes}, each once, found {fault}"]


def _faults_of_several(networks: Sequence[ServedNetwork], scheduler: Scheduler) -> Iterator[str]:
    """What only one network can have."""
    if len(networks) == 1:
        return
    for network in networks:
        if len(network.latency.states or ()) > 1:
            fault = "expected a latency table without states, which the device has for one network only, found some"
            yield from network.about([fault])
    if scheduler.policy.thresholds:
        yield (
            f"policy {scheduler.spec}: expected one that sets no thresholds where several networks are served; choose "
            "e.g. fluid"
        )


def check_device(networks: Sequence[ServedNetwork], scheduler: Scheduler) -> None:
    """Refuse tables of several devices, and what only one network can have."""
    first, faults = networks[0].latency, []
    overlap = next((network.latency.host.overlaps for network in networks if network.latency.host), True)
    for network in networks:
        table, own = network.latency, []
        if (table.platform, table.lanes) != (first.platform, first.lanes):
            own.append(
                f'expected a latency table of {first.platform}, as "{networks[0].name}" has, found one of '
                f"{table.platform}"
            )
        elif _kinds(table) != _kinds(first):
            own.append(
                f'expected a latency table of the same cores as "{networks[0].name}" has, found other cores; make both '
                "with the same --cores"
            )
        if network.cores is not None:
            own += _pinned_faults(network)
        if table.host is not None and table.host.overlaps != overlap:
            own.append(
                f"host: overlaps: expected {str(overlap).lower()} as for the other networks, found "
                f"{str(not overlap).lower()}; state the same for all"
            )
        limit = network.limit or scheduler.admit
        if limit is not None and limit.newest and scheduler.policy.counts_on_queue:
            own.append(
                f"admit: expected no newest:N under {scheduler.spec}, which counts on requests that wait, found some; "
                "state e.g. queue:8, or choose e.g. fluid"
            )
        faults += network.about(own)
    faults += _faults_of_several(networks, scheduler)
    if scheduler.together and scheduler.policy.thresholds:
        faults.append(
            f"policy {scheduler.spec}: together: expected a policy that sets no thresholds, found one that does; leave "
            "it out, or choose e.g. fluid"
        )
    if scheduler.between == PRIORITY and (without := [own.name for own in networks if own.priority is None]):
        faults.append(
            f'policy {scheduler.spec}: between: expected a priority of every network, found none of "{without[0]}"; '
            "state a number of its own"
        )
    if faults:
        raise InputError(faults)


def check_policy(scheduler: Scheduler, table: LatencyTable, traffic: Traffic, least_s: float) -> None:
    """Refuse limits that a table does not have, and times too late for its least segment."""
    if scheduler.dispatch is not None and table.cores is None:
        raise InputError(
            f"policy {scheduler.spec}: dispatch: expected a latency table of several cores, found one of "
            f"{table.platform}; make one with `fluidb latency --cores`, or leave dispatch out"
        )
    last_s = float(traffic.trace.arrival_s.max(initial=0.0))
    if np.spacing(last_s) > 1e-3 * least_s:
        raise InputError(
            f"trace: arrivals as late as {last_s:g} s leave too few digits for a segment of {least_s:g} s; "
            "start the trace near 0"
        )
    lanes = scheduler.lanes if table.cores is None else _check_cores(scheduler, table)
    for key, asked, most in (("lanes", lanes, table.lanes), ("b_max", scheduler.b_max or 1, table.b_max)):
        if asked > most:
            raise InputError(
                f"policy {scheduler.spec}: {key}: expected at most {most} on {table.platform}, found {asked}"
            )


def _check_cores(scheduler: Scheduler, table: LatencyTable) -> int:
    """The number of a table's cores, which all serve; refuse what they cannot have."""
    if scheduler.lanes > 1:
        raise InputError(
            f"policy {scheduler.spec}: lanes: expected none on {table.platform}, whose {table.lanes} cores all serve, "
            "found some; leave it out"
        )
    if scheduler.policy.thresholds:
        raise InputError(f"policy {scheduler.spec}: expected one that sets no thresholds on cores; choose e.g. fluid")
    return table.lanes


def check_columns(table: LatencyTable, trace: Trace) -> None:
    """Refuse values out of bounds, more steps or a greater width than the table has, and predictions of no steps."""
    most, faults = table.exits[-1].steps, []
    limits: list[tuple[str, NDArray[Any] | None, float, str]]
    limits = [("steps", trace.steps, most, f"at most {most}, how often the last stage runs")]
    if table.widths is not None:
        limits.append(("width", trace.width, table.widths[0], f"at most {table.widths[0]:g}, the widest of the table"))
    for name, values, limit, expected in limits:
        if values is not None and (wrong := np.flatnonzero(values > limit)).size:
            row, value, where = wrong[0], values[wrong[0]], trace.file_of(name)
            faults.append(f"{where}: row {row + 1}: {name}: expected {expected}, found {value:g}{more(wrong.size)}")
    if most > 1 and trace.predicted_depth is not None and trace.steps is None:
        where = trace.file_of("predicted_depth")
        faults.append(
            f"{where}: predicted_depth: expected a trace with steps, which it predicts where the last stage repeats, "
            "found none; draw them with `fluidb trace add`"
        )
    for column in CARRIED:
        stated: NDArray[Any] | None = getattr(trace, column.name)
        if stated is not None and not column.values.hold(stated):
            wrong = np.flatnonzero(column.values.outside(stated))
            row, where = wrong[0], f"{trace.file_of(column.name)}: row {wrong[0] + 1}: {column.name}"
            faults.append(f"{where}: expected {column.values.expected}, found {stated[row]:g}{more(wrong.size)}")
    if faults:
        raise InputError(faults)
