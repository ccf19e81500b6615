"""Clocks: the time, the requests that have arrived, and the waiting of an idle device."""

from __future__ import annotations

import contextlib
import gc
import math
import select
import sys
import threading
import time
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from ..formats.array_types import Floats

START_S = 0.05
"""From the start of the clock to time 0: the core is awake when the first request comes."""

SWITCH_S = 1e-4
"""Seconds after which Python passes to a thread that waits."""


class Clock(Protocol):
    """The time, and the requests that have arrived."""

    arrival_s: Floats  # when each request arrives, in order; known at the latest once it has

    def now_s(self) -> float:
        """The time."""
        ...

    def arrived(self) -> int:
        """Number of requests that have arrived, in order."""
        ...

    def wait(self, until_s: float, seen: int) -> None:
        """Return at a time, or once more requests have arrived than were seen."""
        ...


class VirtualClock:
    """A clock that goes forward only when the device runs or waits."""

    def __init__(self, arrival_s: Floats) -> None:
        self.arrival_s, self.time_s = arrival_s, 0.0

    def now_s(self) -> float:
        """The time."""
        return self.time_s

    def arrived(self) -> int:
        """Number of requests that have arrived."""
        return int(np.searchsorted(self.arrival_s, self.time_s, side="right"))

    def wait(self, until_s: float, seen: int) -> None:
        """Go forward to a time, or to the next arrival."""
        next_s = float(self.arrival_s[seen]) if seen < len(self.arrival_s) else math.inf
        self.time_s = max(self.time_s, min(until_s, next_s))


class LiveClock:
    """The machine's clock; requests arrive when a client calls :meth:`arrive`, and ``stop`` ends all waiting."""

    def __init__(self, count: int, stop: threading.Event) -> None:
        self.arrival_s, self.stop = np.full(count, math.inf), stop
        self.count, self.zero_s = 0, math.inf
        self.lock, self.begun = threading.Lock(), threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let time begin, with garbage collection off."""
        collects, switch_s = gc.isenabled(), sys.getswitchinterval()
        gc.disable()
        sys.setswitchinterval(SWITCH_S)
        self.zero_s = time.perf_counter()
        self.begun.set()
        try:
            yield
        finally:
            sys.setswitchinterval(switch_s)
            if collects:
                gc.enable()

    def arrive(self, count: int) -> None:
        """Let requests arrive now; from any thread, once serving has begun."""
        with self.lock:
            self.arrival_s[self.count : self.count + count] = self.now_s()
            self.count += count

    def now_s(self) -> float:
        """The time."""
        return time.perf_counter() - self.zero_s

    def arrived(self) -> int:
        """Number of requests that have arrived."""
        return self.count

    def wait(self, until_s: float, seen: int) -> None:
        """Ask again and again until a time, the next arrival, or the stop: a core that sleeps is slow when it wakes."""
        while self.arrived() == seen and self.now_s() < until_s and not self.stop.is_set():
            select.select((), (), (), 0)  # other threads may run; time.sleep(0) takes some 80 us


class WallClock(LiveClock):
    """The machine's clock, with the requests of a trace, which need no thread: that would be late by tenths of a ms.

    Late requests would share batches that they do not share in the simulator.
    """

    def __init__(self, arrival_s: Floats, stop: threading.Event) -> None:
        super().__init__(len(arrival_s), stop)
        self.arrival_s, self.scheduled_s = arrival_s, [*arrival_s.tolist(), math.inf]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let time begin, with garbage collection off."""
        with super().running():
            self.zero_s += START_S
            yield

    def arrived(self) -> int:
        """Number of requests that have arrived."""
        now_s = self.now_s()
        while self.scheduled_s[self.count] <= now_s:
            self.count += 1
        return self.count
