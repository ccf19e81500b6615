"""Clocks: they say what time it is and who has arrived, and let a device that is idle wait."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

START_S = 0.05
"""From the start of the clock to time 0, so that the thread of arrivals runs when the first one comes."""

SWITCH_S = 1e-4
"""How soon a thread that waits for Python gets it."""

PRIORITY = -10
"""Of the thread of arrivals, where the system allows one."""


class Clock(Protocol):
    """What the time is, and who has arrived.

    Attributes
    ----------
    arrival_s : (N,) ndarray of float64
        When each request arrives, in order; known at the latest once it has.
    """

    arrival_s: NDArray[np.float64]

    def now_s(self) -> float:
        """The time."""
        ...

    def arrived(self) -> int:
        """How many requests have arrived, in order."""
        ...

    def wait(self, until_s: float, seen: int) -> None:
        """Return at a time, or once more requests have arrived than were seen, whichever is first."""
        ...


class VirtualClock:
    """A clock that goes forward only when the device runs or waits.

    Parameters
    ----------
    arrival_s : (N,) ndarray of float64
        When each request arrives, in order.
    """

    def __init__(self, arrival_s: NDArray[np.float64]) -> None:
        self.arrival_s, self.time_s = arrival_s, 0.0

    def now_s(self) -> float:
        """The time."""
        return self.time_s

    def arrived(self) -> int:
        """How many requests have arrived."""
        return int(np.searchsorted(self.arrival_s, self.time_s, side="right"))

    def wait(self, until_s: float, seen: int) -> None:
        """Go forward to a time, or to the next arrival."""
        next_s = float(self.arrival_s[seen]) if seen < len(self.arrival_s) else math.inf
        self.time_s = max(self.time_s, min(until_s, next_s))


class LiveClock:
    """The machine's clock, with requests that arrive when a client calls :meth:`arrive`.

    Parameters
    ----------
    count : int
        How many requests will arrive.
    stop : Event
        Set from outside to end all waiting.

    Attributes
    ----------
    arrival_s : (N,) ndarray of float64
        When each request arrived; infinite before.
    late_s : (N,) ndarray of float64
        How much later than scheduled each was let in; 0 if its client's call is its arrival.
    begun : Event
        Set once requests may arrive.
    """

    def __init__(self, count: int, stop: threading.Event) -> None:
        self.arrival_s, self.stop = np.full(count, math.inf), stop
        self.late_s = np.zeros(count)
        self.count, self.zero_s = 0, math.inf
        self.news, self.begun = threading.Condition(), threading.Event()

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
        with self.news:
            self.arrival_s[self.count : self.count + count] = self.now_s()
            self.count += count
            self.news.notify()

    def now_s(self) -> float:
        """The time."""
        return time.perf_counter() - self.zero_s

    def arrived(self) -> int:
        """How many requests have arrived."""
        return self.count

    def wait(self, until_s: float, seen: int) -> None:
        """Sleep until a time, the next arrival, or the stop."""
        with self.news:
            while self.count == seen and not self.stop.is_set():
                left_s = until_s - self.now_s()
                if left_s <= 0:
                    return
                self.news.wait(min(left_s, START_S))


class WallClock(LiveClock):
    """The machine's clock, with a thread that lets the requests of a trace arrive.

    Parameters
    ----------
    arrival_s : (N,) ndarray of float64
        When each request arrives, in order.
    stop : Event
        Set from outside to end all waiting.
    """

    def __init__(self, arrival_s: NDArray[np.float64], stop: threading.Event) -> None:
        super().__init__(len(arrival_s), stop)
        self.arrival_s = arrival_s

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let time begin, with garbage collection off; at the end no thread is left."""
        feeding = threading.Thread(target=self._feed, daemon=True)
        with super().running():
            self.zero_s += START_S
            feeding.start()
            try:
                yield
            finally:
                self.count, feeds = len(self.arrival_s), self.count  # the thread ends at its next look
                feeding.join()
                self.count = feeds

    def _feed(self) -> None:
        """Let each request arrive at its time."""
        with contextlib.suppress(OSError, AttributeError):  # only the system's administrator may raise a priority
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PRIORITY)
        while self.count < len(self.arrival_s) and not self.stop.is_set():
            left_s = self.arrival_s[self.count] - self.now_s()
            if left_s > 0:
                time.sleep(min(left_s, START_S))
                continue
            with self.news:
                due = int(np.searchsorted(self.arrival_s, self.now_s(), side="right"))
                self.late_s[self.count : due] = self.now_s() - self.arrival_s[self.count : due]
                self.count = max(due, self.count)
                self.news.notify()
