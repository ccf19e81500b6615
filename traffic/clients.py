"""Clients that wait: each sends its next request when it has thought about the answer to its last one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..formats import InputError, parse_duration
from .columns import Number
from .randomness import THINK_TIMES, stream
from .reading import read_columns
from .rows import Tally
from .times import MAX_ARRIVAL_S
from .traffic import Traffic

MOST = 10**6
"""Most clients."""

RECORDED = "trace:"
"""Before the name of a file of think times."""

THINK_S = Number(np.float64, 0, MAX_ARRIVAL_S, f"seconds >= 0 and <= {MAX_ARRIVAL_S:g}")


@dataclass(frozen=True, slots=True)
class Clients:
    """Clients that wait for their answers: a closed loop, in place of arrivals.

    Attributes
    ----------
    count : int
        Clients; as many requests are on their way at most.
    think_s : float or tuple of float
        Seconds from an answer, or from time zero, to the next request of a client; or recorded ones, from which each is
        drawn with replacement.
    exponential : bool
        Whether think times are drawn from an exponential distribution, whose mean ``think_s`` is.

    Raises
    ------
    InputError
        If there are no clients, or too many, or a think time is not a number of seconds >= 0.
    """

    count: int
    think_s: float | tuple[float, ...] = 0.0
    exponential: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST:
            raise InputError(f"clients: expected a whole number from 1 to {MOST:,}, found {self.count}; state e.g. 8")
        if isinstance(self.think_s, tuple) and (self.exponential or not self.think_s):
            times = "none" if not self.think_s else "recorded ones that are to be exponential"
            raise InputError(f"think: expected a duration, or recorded ones, found {times}; state e.g. 50ms")
        times_s = np.atleast_1d(self.think_s)
        if (wrong := times_s[THINK_S.outside(times_s)]).size:
            raise InputError(f"think: expected a duration >= 0, found {wrong[0]:g} s; state e.g. 50ms, or 0")

    @classmethod
    def of(cls, count: int, think: str | None, folder: Path | None = None) -> Clients:
        """Clients with a think time as :func:`parse_think` reads it; they do not think if none is given.

        Parameters
        ----------
        count : int
            Clients.
        think : str, optional
            The think time.
        folder : Path, optional
            Where the name of its file starts; by default the current folder.

        Returns
        -------
        Clients
            The clients.

        Raises
        ------
        InputError
            If the think time cannot be read, or there are no clients, or too many.
        """
        return cls(count, *parse_think(think or "0", folder))

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
        if self.exponential:
            think_s = stream(seed, THINK_TIMES).exponential(self.think_s, count)
        elif isinstance(self.think_s, tuple):
            think_s = stream(seed, THINK_TIMES).choice(self.think_s, count)
        else:
            think_s = np.full(count, self.think_s)
        return replace(traffic, trace=replace(trace, arrival_s=np.full(len(traffic), np.inf)), think_s=think_s)


def parse_think(text: str, folder: Path | None = None) -> tuple[float | tuple[float, ...], bool]:
    """Read a think time: ``50ms`` for all; ``exponential:50ms`` for drawn ones; ``trace:FILE`` for recorded ones.

    It is ``think_s`` and ``exponential`` of :class:`Clients`; the name of the file starts from ``folder``.
    """
    if text.startswith(RECORDED):
        return _recorded((folder or Path()) / text.removeprefix(RECORDED)), False
    form, colon, mean = text.rpartition(":")
    if form not in ("", "exponential") or (colon and not form):
        raise InputError(
            f'think: expected a duration, exponential:DURATION or {RECORDED}FILE, found "{text}"; e.g. 50ms'
        )
    return parse_duration(mean, "think", zero=True), bool(form)


def _recorded(path: Path) -> tuple[float, ...]:
    """The think times of a CSV file with a column ``think_s``."""
    tally = Tally(path, skip_blank=False, missing="expected a file of think times, found none")
    columns = read_columns(tally, {"think_s": THINK_S}, ("think_s",))
    tally.refuse()
    return tuple(columns["think_s"].tolist())
