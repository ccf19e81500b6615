"""The Trace Event Format (Google, 2016) that Perfetto and Chrome's tracing page show: phases X, i, C and M."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Event = dict[str, Any]

PROCESS = 1
"""The process of all tracks."""


def microseconds(seconds: float) -> float:
    """Microseconds, rounded to the nanosecond as viewers do."""
    return round(1e9 * seconds) / 1e3


def slice_event(name: str, begin_s: float, end_s: float, track: int, args: Event) -> Event:
    """A slice on a track, from begin to end."""
    begin_us, end_us = microseconds(begin_s), microseconds(end_s)
    return {
        "name": name, "ph": "X", "ts": begin_us, "dur": round(end_us - begin_us, 3), "pid": PROCESS, "tid": track,
        "args": args,
    }  # fmt: skip


def track_names(process: str, tracks: Mapping[int, str]) -> Iterator[Event]:
    """Names of the process and of its tracks, which are shown in the order of their numbers."""
    yield {"name": "process_name", "ph": "M", "pid": PROCESS, "args": {"name": process}}
    for track, name in tracks.items():
        yield {"name": "thread_name", "ph": "M", "pid": PROCESS, "tid": track, "args": {"name": name}}
        yield {"name": "thread_sort_index", "ph": "M", "pid": PROCESS, "tid": track, "args": {"sort_index": track}}


def timeline_text(header: Event, events: Iterable[Event]) -> Iterator[str]:
    """The JSON object in pieces, an event a line; ``header`` has its schema and what else is to be known."""
    yield f'{{"displayTimeUnit": "ms",\n"otherData": {json.dumps(header)},\n"traceEvents": [\n'
    for number, event in enumerate(events):
        yield (",\n" if number else "") + json.dumps(event, allow_nan=False)
    yield "\n]}\n"
