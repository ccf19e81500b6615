"""Finished simulations of a plan's search in a file, so that an interrupted search goes on from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from ...formats import AnyPath, InputError
from ...formats.posix import fcntl
from ...formats.sources import made_with
from .hope import RaceTask
from .problem import PlanNumbers, PlanProblem
from .runs import Finisher, RaceResult
from .sources import BoardSource, Source

SCHEMA = "fluidb.plan-runs/3"
_FIRST = f"{json.dumps(SCHEMA)}\n".encode()


class KeptRaces:
    """Finished races by the digest of all that they depend on: sealed lines, each added when its race ends."""

    def __init__(self, path: Path, stream: FileIO, results: dict[str, Any], damaged: int) -> None:
        self._path, self._stream, self._results = path, stream, results
        self._digests: dict[int, tuple[PlanProblem, str]] = {}
        self.damaged = damaged  # lines that were dropped
        self.reused = 0

    @property
    def notes(self) -> list[str]:
        """What a user should know of the file."""
        dropped = f"{self._path}: damaged lines that were dropped: {self.damaged:,}; their simulations run again"
        return [dropped] if self.damaged else []

    def find(self, problem: PlanProblem, task: RaceTask) -> RaceResult | None:
        """The result of a race that was kept; ``None`` if there is none."""
        result = self._results.get(self._key(problem, task))
        if result is None:
            return None
        self.reused += 1
        kept, *counts = result
        return RaceResult([Finisher(PlanNumbers(*plan), *figures) for plan, *figures in kept], *counts)

    def add(self, problem: PlanProblem, task: RaceTask, result: RaceResult) -> None:
        """Keep the result of a race."""
        key = self._key(problem, task)
        self._results[key] = json.loads(json.dumps(result))
        _write(self._path, self._stream, _sealed([key, result]))

    def _key(self, problem: PlanProblem, task: RaceTask) -> str:
        held = self._digests.get(id(problem))
        if held is None or held[0] is not problem:
            held = self._digests[id(problem)] = problem, _digest(_content(problem))
        return _digest([held[1], *task])


@contextmanager
def kept_races(path: AnyPath) -> Iterator[KeptRaces]:
    """Open the file of finished races, or make it; damaged lines, as a killed search leaves one, are removed."""
    path = Path(path)
    if path.is_fifo():
        raise InputError(f"{path}: expected a regular file, which is read and then written, found a pipe")
    try:
        stream = path.open("r+b" if path.exists() else "x+b", buffering=0)
    except OSError as error:
        raise InputError(f"{path}: could not be opened ({error.strerror}); choose another file") from None
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{path}: another search uses it; choose another file, or wait") from None
        content = stream.readall()
        if content and not content.startswith(_FIRST):
            wanted = f"finished simulations of `fluidb plan` ({SCHEMA})"
            raise InputError(f"{path}: expected {wanted}, found another file; choose another name")
        ended = content[: content.rfind(b"\n") + 1]
        lines = ended[len(_FIRST) :].splitlines(keepends=True)
        results = [_unsealed(line) for line in lines]
        whole = [line for line, result in zip(lines, results, strict=True) if result is not None]
        if b"".join([_FIRST, *whole]) != content:
            stream.seek(0)
            stream.truncate()
            _write(path, stream, b"".join([_FIRST, *whole]))
        yield KeptRaces(path, stream, dict(result for result in results if result), len(lines) - len(whole))


def _sealed(content: object) -> bytes:
    """A line of JSON behind its digest."""
    text = json.dumps(content).encode()
    return b"%s %s\n" % (_sha256(text).encode(), text)


def _unsealed(line: bytes) -> tuple[str, Any] | None:
    """The key and the result of a line; ``None`` if it is not as it was written."""
    seal, _, text = line.rstrip(b"\n").partition(b" ")
    if seal != _sha256(text).encode():
        return None
    key, result = json.loads(text)
    return key, result


def _write(path: Path, stream: FileIO, content: bytes) -> None:
    """Write at the end of the file; a full disk is a fault of this file."""
    left = memoryview(content)
    try:
        while left:
            left = left[stream.write(left) :]
    except OSError as error:
        raise InputError(
            f"{path}: could not be written ({error.strerror}); make room, or choose another file"
        ) from None


def _content(problem: PlanProblem) -> list[Any]:
    """All that the races of a problem depend on."""
    asked = problem.traffic
    return [
        made_with(),
        problem.network.model_dump(mode="json"),
        [_hardware(source) for source in problem.sources],
        [[setting.kept, setting.thresholds, setting.rates] for setting in problem.settings],
        [[policy.spec, hashlib.sha256(policy.source or b"").hexdigest()] for policy in problem.policies],
        [requirement.text for requirement in problem.requirements],
        [asked.rate_per_s, asked.count, repr(asked.slo_s), asked.seed, repr(asked.clients)],
        [None if record is None else _arrays(record) for record in (asked.trace, *asked.samples_of)],
        [network.key for _, network in zip(asked.names, asked.given, strict=False)],  # none of one without a name
    ]


def _hardware(source: Source) -> list[Any]:
    if isinstance(source, BoardSource):
        parts = [part.model_dump(mode="json") for part in (source.network, source.board, source.options)]
        return [source.name, *parts]
    return [source.name, *(table.digest() for table in source.tables(0))]


def _arrays(record: Any) -> dict[str, Any]:
    """The columns of requests or samples, by their digests; what a fault names of them counts, too."""
    columns: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        of_numbers = isinstance(value, np.ndarray)
        columns[field.name] = [value.dtype.str, value.shape, _sha256(value.tobytes())] if of_numbers else repr(value)
    return columns


def _digest(content: object) -> str:
    return _sha256(json.dumps(content).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
