"""Clients that wait: each sends its next request when it has thought about the answer to its last one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..formats import InputError, parse_duration
from .randomness import THINK_TIMES, stream
from .traffic import Traffic

MOST = 10**6
"""Most clients."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Clients that wait for their answers: a closed loop, in place of arrivals.

    Attributes
    ----------
    count : int
        Clients; as many requests are on their way at most.
    think_s : float
        Seconds from an answer, or from time zero, to the next request of a client; their mean, if they are drawn.
    exponential : bool
        Whether think times are drawn from an exponential distribution.

    Raises
    ------
    InputError
        If there are no clients, or too many, or the think time is not a number of seconds >= 0.
    """

    count: int
    think_s: float = 0.0
    exponential: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST:
            raise InputError(f"clients: expected a whole number from 1 to {MOST:,}, found {self.count}; state e.g. 8")
        if not 0 <= self.think_s < np.inf:
            raise InputError(f"think: expected a duration >= 0, found {self.think_s:g} s; state e.g. 50ms, or 0")

    def send(self, traffic: Traffic, seed: int) -> Traffic:
        """Let these clients send requests, in their order, instead of that they arrive.

        Parameters
        ----------
        traffic : Traffic
            Requests that all arrive at time 0 (:func:`fluidb.traffic.offline`).
        seed : int
            Seed of think times that are drawn.

        Returns
        -------
        Traffic
            The requests, as :func:`fluidb.serving.simulate` takes them.

        Raises
        ------
        InputError
            If the requests have times of arrival.
        """
        trace, count = traffic.trace, self.count + len(traffic)
        if trace.arrival_s.any():
            where = trace.source or "trace"
            raise InputError(
                f"{where}: expected all requests at time 0 beside clients, which send them, found later ones"
            )
        think_s = np.full(count, self.think_s)
        if self.exponential:
            think_s = stream(seed, THINK_TIMES).exponential(self.think_s, count)
        return replace(traffic, trace=replace(trace, arrival_s=np.full(len(traffic), np.inf)), think_s=think_s)


def parse_think(text: str, what: str = "think") -> tuple[float, bool]:
    """Read a think time: ``50ms`` for all, or ``exponential:50ms`` for drawn ones; whether they are drawn.

    Raises
    ------
    InputError
        If it is neither.
    """
    form, colon, mean = text.rpartition(":")
    if form not in ("", "exponential") or (colon and not form):
        raise InputError(f'{what}: expected a duration or exponential:DURATION, found "{text}"; e.g. 50ms')
    return (0.0 if mean.strip() == "0" else parse_duration(mean, what)), bool(form)
