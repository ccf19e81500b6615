"""Traffic that one of several networks has for itself: a trace, arrivals at a rate, frames of a camera, or clients."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..formats import AnyPath, InputError
from .arrivals import cameras, offline, poisson
from .clients import Clients
from .reading import read_trace
from .trace import Trace

MOST = 10**7
"""Most requests of a network."""

MARGIN = 10.0
"""Standard deviations of a Poisson number that are drawn beyond its mean, at first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTraffic:
    """Traffic of a network, beside other networks with theirs; exactly one of the four kinds is stated.

    Attributes
    ----------
    trace : Trace, str or Path, optional
        Its requests, or their file.
    rate_per_s : float, optional
        Mean rate of Poisson arrivals in requests/s.
    frames_per_s : float, optional
        Rate of requests that arrive periodically, with a random phase.
    jitter_s : float
        Standard deviation in seconds of the delay of each of these, at most a period.
    clients : Clients, optional
        Clients that wait for their answers.
    count : int, optional
        Requests that clients have ready; as many as the device can answer at most if not stated.
    lasts_s : float
        Requests arrive before this time, and clients send none later; a trace, or a count, may have no such end.

    Raises
    ------
    InputError
        If none or several of the kinds are stated, or a number is out of bounds or stands beside the wrong kind.
    """

    trace: Trace | AnyPath | None = None
    rate_per_s: float | None = None
    frames_per_s: float | None = None
    jitter_s: float = 0.0
    clients: Clients | None = None
    count: int | None = None
    lasts_s: float = math.inf

    def __post_init__(self) -> None:
        kinds = {
            "trace": self.trace, "rate": self.rate_per_s, "fps": self.frames_per_s, "clients": self.clients
        }  # fmt: skip
        stated = [kind for kind, value in kinds.items() if value is not None]
        if len(stated) != 1:
            raise InputError(
                f"traffic: expected trace, rate, fps or clients, found {' and '.join(stated) or 'none of them'}"
            )
        for key, given, kind in (("jitter", self.jitter_s > 0, "fps"), ("count", self.count is not None, "clients")):
            if given and stated != [kind]:
                raise InputError(f"{key}: expected beside {kind} only, found beside {stated[0]}; leave it out")
        if self.frames_per_s is not None and not 0 <= self.jitter_s * self.frames_per_s <= 1:
            raise InputError(
                f"jitter: expected at most the period, {1e3 / self.frames_per_s:g} ms at {self.frames_per_s:g} frames "
                f"a second, found {1e3 * self.jitter_s:g} ms"
            )
        if self.count is not None and not 1 <= self.count <= MOST:
            raise InputError(f"count: expected a whole number from 1 to {MOST:,}, found {self.count}")
        if self.lasts_s == math.inf and self.trace is None and self.count is None:
            raise InputError(
                f"duration: expected how long the traffic of {stated[0]} lasts, found none; state e.g. 60s"
            )
        if not self.lasts_s > 0:
            raise InputError(f"duration: expected a positive number of seconds, found {self.lasts_s:g}; state e.g. 60")

    @property
    def key(self) -> str:
        """All that its requests depend on beside the seed; of a trace a digest of the arrays."""
        digest, trace = hashlib.sha256(), self.trace
        if trace is not None:
            trace = trace if isinstance(trace, Trace) else read_trace(trace)
            for name, values in trace.arrays().items():
                digest.update(f"{name} {values.dtype} {values.shape} ".encode())
                digest.update(values.tobytes())
        return f"{replace(self, trace=digest.hexdigest()) if trace is not None else self}"

    def draw(self, seed: int, ready: float) -> Trace:
        """The requests; of clients all at time 0, as many as they have ready, by default those that are given."""
        if self.clients is not None:
            return offline(self._check(ready if self.count is None else self.count))
        if self.trace is not None:
            trace = self.trace if isinstance(self.trace, Trace) else read_trace(self.trace)
            if trace.network is not None:
                raise InputError(
                    f"{trace.source or 'trace'}: expected no column network in the trace of one network, found it; "
                    "leave it out, or serve all networks with --trace"
                )
        elif self.rate_per_s is not None:
            rate_per_s = self.rate_per_s
            trace = self._until_end(rate_per_s, lambda count: poisson(rate_per_s, count, seed))
        else:
            assert self.frames_per_s is not None
            fps, jitter_s = self.frames_per_s, self.jitter_s
            trace = self._until_end(fps, lambda count: cameras(1, fps, count, seed, jitter_s=jitter_s))
        trace = trace.first(int(np.searchsorted(trace.arrival_s, self.lasts_s)))
        if not len(trace):
            raise InputError(f"duration: expected a request before {self.lasts_s:g} s, found none; state a longer one")
        return trace

    def _until_end(self, rate_per_s: float, draw: Callable[[int], Trace]) -> Trace:
        """Arrivals at a rate beyond the end."""
        expected = rate_per_s * self.lasts_s
        count = self._check(expected) + math.ceil(MARGIN * math.sqrt(max(0.0, expected))) + 1
        while (trace := draw(count)).arrival_s[-1] < self.lasts_s:
            count *= 2
        return trace

    def _check(self, count: float) -> int:
        """A number of requests that are few enough to be drawn."""
        if count > MOST:
            raise InputError(
                f"duration: expected at most {MOST:,} requests of a network, found {count:,.0f} in {self.lasts_s:g} s; "
                "state a shorter one"
            )
        return math.ceil(count)
