"""Finished simulations of a plan's search in a file, so that an interrupted search goes on from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from io import BufferedRandom
from pathlib import Path
from typing import Any

import numpy as np

from ...formats import AnyPath, InputError
from ...formats.posix import fcntl
from ...formats.sources import made_with
from .problem import PlanProblem
from .runs import Candidate, Finisher, RaceResult, RaceTask
from .sources import BoardSource, Source

SCHEMA = "fluidb.plan-runs/1"


class KeptRaces:
    """Finished races by the digest of all that they depend on: lines of JSON, each added when its race ends."""

    def __init__(self, stream: BufferedRandom, found: dict[str, Any]) -> None:
        self._stream, self._found = stream, found
        self._digests: dict[int, tuple[PlanProblem, str]] = {}
        self.reused = 0

    def find(self, problem: PlanProblem, task: RaceTask) -> RaceResult | None:
        """The result of a race that was kept; ``None`` if there is none."""
        found = self._found.get(self._key(problem, task))
        if found is None:
            return None
        self.reused += 1
        kept, *counts = found
        return RaceResult([Finisher(Candidate(*plan), *figures) for plan, *figures in kept], *counts)

    def add(self, problem: PlanProblem, task: RaceTask, result: RaceResult) -> None:
        """Keep the result of a race."""
        key = self._key(problem, task)
        self._found[key] = json.loads(json.dumps(result))
        self._stream.write(f"{json.dumps([key, result])}\n".encode())
        self._stream.flush()

    def _key(self, problem: PlanProblem, task: RaceTask) -> str:
        held = self._digests.get(id(problem))
        if held is None or held[0] is not problem:
            held = self._digests[id(problem)] = problem, _digest(_content(problem))
        return _digest([held[1], *task])


@contextmanager
def kept_races(path: AnyPath) -> Iterator[KeptRaces]:
    """Open the file of finished races, or make it; a line that a killed search left unfinished is removed.

    Parameters
    ----------
    path : str or Path
        The file.

    Yields
    ------
    KeptRaces
        What it holds.

    Raises
    ------
    InputError
        If it is another file, is damaged, cannot be written, or another search uses it.
    """
    path = Path(path)
    if path.is_fifo():
        raise InputError(f"{path}: expected a regular file, which is read and then written, found a pipe")
    try:
        stream = path.open("r+b" if path.exists() else "x+b")
    except OSError as error:
        raise InputError(f"{path}: could not be opened ({error.strerror}); choose another file") from None
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{path}: another search uses it; choose another file, or wait") from None
        whole = stream.read()
        if not whole:
            stream.write(f"{json.dumps(SCHEMA)}\n".encode())
            stream.flush()
        else:
            found = _read(whole, path)
            stream.truncate(whole.rfind(b"\n") + 1)
            stream.seek(0, 2)
        yield KeptRaces(stream, found if whole else {})


def _read(whole: bytes, path: Path) -> dict[str, Any]:
    """The races of a file's whole lines."""
    first, *lines = whole[: whole.rfind(b"\n") + 1].splitlines() or [b""]
    if first != json.dumps(SCHEMA).encode():
        raise InputError(f"{path}: expected finished simulations of `fluidb plan` ({SCHEMA}), found another file")
    found = {}
    for number, line in enumerate(lines, 2):
        with suppress(ValueError):
            key, result = json.loads(line)
            found[key] = result
            continue
        raise InputError(f"{path}: line {number} is damaged; remove the file, or what follows line {number - 1}")
    return found


def _content(problem: PlanProblem) -> list[Any]:
    """All that the races of a problem depend on."""
    asked = problem.traffic
    return [
        made_with(),
        problem.network.model_dump(mode="json"),
        [_hardware(item) for item in problem.sources],
        [[item.kept, item.thresholds, item.rates] for item in problem.settings],
        [[item.spec, hashlib.sha256(item.source or b"").hexdigest()] for item in problem.policies],
        [item.text for item in problem.requirements],
        [asked.rate_per_s, asked.count, repr(asked.slo_s), asked.seed],
        [None if item is None else _arrays(item) for item in (asked.trace, asked.samples)],
    ]


def _hardware(source: Source) -> list[Any]:
    if isinstance(source, BoardSource):
        parts = [item.model_dump(mode="json") for item in (source.network, source.board, source.options)]
        return [source.name, *parts]
    return [source.name, source.table(0).digest()]


def _arrays(record: Any) -> dict[str, Any]:
    """The columns of requests or samples, by their digests; what a fault names of them counts, too."""
    found: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        of_numbers = isinstance(value, np.ndarray)
        found[field.name] = [value.dtype.str, value.shape, _sha256(value.tobytes())] if of_numbers else repr(value)
    return found


def _digest(content: object) -> str:
    return _sha256(json.dumps(content).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
