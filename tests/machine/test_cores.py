"""Threads of a stage stand on cores of their own, and leave them when serving ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from threading import Thread

import pytest
from fluidb.formats import InputError
from fluidb.machine.cores import chosen_cores, cores_text, pinned


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not pin")
def test_a_thread_is_pinned_alone_and_only_meanwhile():
    allowed = os.sched_getaffinity(0)
    cores = chosen_cores(1)
    assert cores == [max(allowed)]
    assert chosen_cores(len(allowed)) == sorted(allowed)
    for threads in (0, len(allowed) + 1):
        with pytest.raises(InputError, match=f"threads: expected 1 to {len(allowed)}, .* found {threads}"):
            chosen_cores(threads)
    seen = []

    def fails():
        with suppress(ValueError), pinned(cores):
            seen.append(os.sched_getaffinity(0))
            raise ValueError("a stage failed")
        seen.append(os.sched_getaffinity(0))

    thread = Thread(target=fails)
    thread.start()
    thread.join()
    assert seen == [set(cores), allowed]


def test_a_system_without_pinning_serves_all_the_same(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert chosen_cores(1) == []
    with pinned([0]):
        pass
    assert (cores_text([]), cores_text([2, 3])) == ("not pinned", "pinned to core 2, 3")
