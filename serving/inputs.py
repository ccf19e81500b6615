"""Inputs of a study, as objects or by their names: a latency table, requests, a policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..formats import AnyPath, InputError
from ..models import Exit
from ..models.network import thresholds_of
from ..tables.latency import LatencyTable, read_latency
from ..traffic.clients import Clients
from ..traffic.distributions import Objective
from ..traffic.measures import MEASURES, Threshold
from ..traffic.reading import read_trace
from ..traffic.trace import Trace
from .scheduler import Scheduler, find_policy

AnyTable = LatencyTable | AnyPath
"""A latency table, or the folder that holds it."""

AnyPolicy = Scheduler | str
"""A policy with its parameters, or its text, e.g. ``"fluid:call=50us"``."""

AnyThresholds = Threshold | Sequence[Threshold] | None
"""Value of the measure at which a sample leaves: one for all exits, or one for each but the last; or the usual."""


def as_table(given: AnyTable) -> LatencyTable:
    """The latency table, read if it was given by its folder."""
    return given if isinstance(given, LatencyTable) else read_latency(given)


def as_scheduler(given: AnyPolicy, table: LatencyTable | None = None) -> Scheduler:
    """The policy, found if it was given as text; a batch size that it does not state is the one of the table's plan."""
    scheduler = given if isinstance(given, Scheduler) else find_policy(given)
    if table is None or table.planned is None or scheduler.b_max is not None:
        return scheduler
    return scheduler.in_batches(table.planned.batch)


def as_thresholds(given: AnyThresholds, on: LatencyTable | Sequence[Exit], trace: Trace) -> AnyThresholds:
    """The thresholds that were given, else what the table or the exits state, if thresholds decide who leaves."""
    stated = on.thresholds if isinstance(on, LatencyTable) else thresholds_of(on)
    if given is not None or stated is None or trace.confidences is None or trace.exits is not None:
        return given
    measure, thresholds = stated
    if trace.measure.name != measure:
        raise InputError(
            f"threshold: expected {trace.measure.plural}, which the requests have, found none; the exits were chosen "
            f"by {MEASURES[measure].plural}"
        )
    return thresholds


@dataclass(frozen=True, kw_only=True, slots=True)
class Requests:
    """The requests of a study.

    Attributes
    ----------
    trace : Trace, str or Path, optional
        The requests, or their file; not stated where networks have traffic of their own.
    samples : str or Path, optional
        File of confidences and answers to draw from, if the trace has none.
    slo_s : float, Distribution or Shares, optional
        Latency objective in seconds of all requests, or the distribution of their own ones, if the trace has none.
    seed : int
        Seed of exits, samples, objectives or predictions that are drawn.
    predict_depth : float, optional
        Correlation with the depth of requests of the predictions that are drawn, if the trace has none.
    clients : Clients, optional
        Clients that wait for their answers, who send the requests; the trace then has all of them at time 0.
    """

    trace: Trace | AnyPath | None = None
    samples: AnyPath | None = None
    slo_s: Objective | None = None
    seed: int = 0
    predict_depth: float | None = None
    clients: Clients | None = None

    @property
    def file(self) -> Path | None:
        """The file of the trace, if it has one."""
        if isinstance(self.trace, Trace):
            return self.trace.source
        return None if self.trace is None else Path(self.trace)

    def read(self, progress: Callable[[int, int], None] | None = None) -> Trace:
        """The trace, without the samples that its requests draw.

        Parameters
        ----------
        progress : callable, optional
            Called with the bytes read so far, and the size of the file.

        Returns
        -------
        Trace
            The requests.

        Raises
        ------
        InputError
            If the file cannot be read, or there is none.
        """
        if self.trace is None:
            raise InputError(
                "trace: expected a file of requests, or --clients that send them, found neither; state one of them"
            )
        return self.trace if isinstance(self.trace, Trace) else read_trace(self.trace, progress)
