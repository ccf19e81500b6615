"""Replaying requests on a device, under a policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..formats import AnyPath, InputError
from ..traffic.trace import Trace, write_columns
from ..traffic.traffic import Traffic
from .case import case_of
from .device_traffic import DeviceTraffic, prepare_requests
from .inputs import AnyPolicy, Requests
from .networks import AnyServed, ServedNetwork, as_served, scheduler_on
from .outcome import Replay
from .play import Loop
from .scheduler import Scheduler


def simulate(
    table: AnyServed,
    traffic: Traffic | DeviceTraffic | Trace,
    policy: AnyPolicy,
    *,
    until_s: float = math.inf,
    record: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Serve requests with a policy.

    Of several networks, the policy serves the queue of each, and its rule ``between``, ``fcfs`` if it states none, says
    whose turn it is.

    Parameters
    ----------
    table : LatencyTable, sequence of ServedNetwork, str or Path
        Times of the design that serves one network; or the networks of a device.
    traffic : Traffic, DeviceTraffic or Trace
        Requests with their exits and objectives; see :func:`fluidb.traffic.prepare` and :func:`prepare_requests`. Of a
        trace that states objectives, or of networks that do, exits are drawn with seed 0.
    policy : Scheduler or str
        The policy, e.g. ``"fluid"``.
    until_s : float
        Stop then; requests that arrived and have not returned stay unfinished.
    record : bool
        Keep every run, for a timeline (see :func:`record_runs`).
    progress : callable, optional
        Called with the requests that were served, and their number.

    Returns
    -------
    Replay
        The outcome of every request.

    Raises
    ------
    InputError
        If no request arrives in time, tables are of several devices, or the policy broke its contract.
    """
    networks = as_served(table)
    if isinstance(traffic, Trace):
        traffic = prepare_requests(networks, Requests(trace=traffic), traffic)
    offered, scheduler = DeviceTraffic.of(traffic, networks[0].name), scheduler_on(networks, policy)
    if len(offered.parts) != len(networks):
        raise InputError(
            f"traffic: expected requests of {len(networks)} networks, found some of {len(offered.parts)}; make them "
            "with prepare_requests"
        )
    _check_end(offered.whole, until_s)
    if offered.whole.think_s is None:
        offered = offered.first(int(np.searchsorted(offered.whole.trace.arrival_s, until_s, side="left")))
    replay = _replay(networks, offered, scheduler, until_s, None, progress)
    return record_runs(replay, networks, scheduler) if record else replay


def _check_end(whole: Traffic, until_s: float) -> None:
    """Refuse an end before the first request; with clients, before one can have sent it."""
    first_s = float(whole.trace.arrival_s[0])
    if whole.think_s is not None:
        first_s = min(first_s, float(whole.think_s[: whole.clients].min()))
    if first_s >= until_s:
        raise InputError(f"until: expected a time after the first arrival at {first_s:g} s, found {until_s:g} s")


def record_runs(replay: Replay, networks: Sequence[ServedNetwork], scheduler: Scheduler) -> Replay:
    """Replay again and keep every run, for a timeline; the first replay knows their number."""
    launches = [use.launches for use in replay.uses]
    members = sum(int(runs.sum(axis=(0, 1)) @ np.arange(runs.shape[2])) for runs in launches)
    room = sum(int(runs.sum()) for runs in launches), members
    return _replay(networks, replay.offered, scheduler, replay.until_s, room)


def _replay(
    networks: Sequence[ServedNetwork],
    offered: DeviceTraffic,
    scheduler: Scheduler,
    until_s: float,
    room: tuple[int, int] | None,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """A replay; it keeps its runs if it gets ``room``: the number of runs, and of samples in them."""
    case = case_of(networks, offered, scheduler)
    run = Loop(scheduler, case.work, case.shared, case.terms, room or (0, 0)).to(until_s, progress=progress)
    return case.replay(run, until_s, recorded=room is not None)


def write_requests(result: Replay, path: AnyPath, *, replace: bool = True) -> None:
    """Write the outcome of every request as CSV, whole or not at all; times that never came are empty.

    Parameters
    ----------
    result : Replay
        The replay.
    path : str or Path
        Destination.
    replace : bool
        Whether an existing file is replaced; else it is a fault.

    Raises
    ------
    InputError
        If the file system refuses, or a file is in the way.
    """
    write_columns(result.columns(), path, replace=replace)
