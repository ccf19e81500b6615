"""Cores on which the threads of a stage are pinned."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

from ..formats import InputError


def chosen_cores(threads: int) -> list[int]:
    """A core for each thread of a stage: the last of those that this process may use; the first serve interrupts."""
    pins = sys.platform == "linux"
    allowed = sorted(os.sched_getaffinity(0)) if pins else list(range(os.cpu_count() or 1))
    if not 1 <= threads <= len(allowed):
        raise InputError(f"threads: expected 1 to {len(allowed)}, the cores of this process, found {threads}")
    return allowed[-threads:] if pins else []


def cores_text(cores: Sequence[int]) -> str:
    """The cores that the threads are pinned to, as text."""
    return f"pinned to core {', '.join(map(str, cores))}" if cores else "not pinned"


@contextlib.contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Pin the calling thread, and threads that it starts, to the first core, if there is one; then release it."""
    if not cores or sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores[:1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
