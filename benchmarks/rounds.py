"""Measuring side by side: contestants take turns in rounds, and every sample is kept.

A machine that slows down for a while slows all contestants of a round, so that
ratios within a round hold where seconds do not.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
LEAST_S = 0.05
"""A sample of something quicker is the mean of several runs: a clock tick or an interrupt must not show."""


class Sample(NamedTuple):
    """One measurement: seconds, and the peak memory in MB of the process where it had one of its own."""

    seconds: float
    peak_mb: float | None = None


@dataclass(frozen=True)
class Contestant:
    """Something to measure.

    Attributes
    ----------
    name : str
        Unique in its table.
    run : callable
        Measures once.
    against : str, optional
        The contestant whose time divides its own.
    work : float
        Units of work in one run, e.g. evaluations; 0 if they are not counted.
    ours : bool
        Whether it is fluidb that is measured, and not what it is held against.
    """

    name: str
    run: Callable[[], Sample]
    against: str | None = None
    work: float = 0.0
    ours: bool = False


@dataclass(frozen=True)
class Row:
    """What was measured of a contestant, one sample a round."""

    name: str
    seconds: list[float]
    against: str | None = None
    work: float = 0.0
    ours: bool = False
    peak_mb: list[float] = field(default_factory=list)
    shown: bool = True

    @property
    def median_s(self) -> float:
        """Median time."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Units of work a second, at the median."""
        return self.work / self.median_s


@dataclass(frozen=True)
class Table:
    """A table of results.

    Attributes
    ----------
    key, title : str
        Its name in the JSON, and for people.
    about : str
        What was run, in a sentence or two.
    rows : list of Row
        In the order of the table.
    unit : str
        What ``work`` counts.
    remarks : list of str
        What follows from the rows, or what is missing and why.
    """

    key: str
    title: str
    about: str
    rows: list[Row]
    unit: str = ""
    remarks: list[str] = field(default_factory=list)

    def row(self, name: str) -> Row:
        """The row of a name."""
        return next(row for row in self.rows if row.name == name)

    def ratios(self, row: Row) -> list[float]:
        """Time of a row for each round, divided by that of what it is held against in the same round."""
        if row.against is None:
            return []
        return [mine / theirs for mine, theirs in zip(row.seconds, self.row(row.against).seconds, strict=True)]


def take_turns(contestants: Sequence[Contestant], rounds: int) -> list[Row]:
    """Measure everybody once a round; every other round in reverse, so that nobody always follows the same one."""
    samples: dict[str, list[Sample]] = {item.name: [] for item in contestants}
    for turn in range(rounds):
        for item in contestants if turn % 2 == 0 else reversed(contestants):
            samples[item.name].append(item.run())
    return [
        Row(
            item.name,
            [sample.seconds for sample in samples[item.name]],
            item.against,
            item.work,
            item.ours,
            [sample.peak_mb for sample in samples[item.name] if sample.peak_mb is not None],
        )
        for item in contestants
    ]


def timed(function: Callable[[], object]) -> Callable[[], Sample]:
    """Measures a function of this process, as often in a sample as it takes to last :data:`LEAST_S`."""

    def run() -> Sample:
        runs, begin = 0, time.perf_counter()
        while True:
            function()
            runs += 1
            spent = time.perf_counter() - begin
            if spent >= LEAST_S:
                return Sample(spent / runs)

    return run


def _usual() -> dict[str, str]:
    """The environment of a user, whose Python keeps what it has compiled of our sources."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def process(arguments: Iterable[str | Path], environment: Mapping[str, str] | None = None) -> Sample:
    """Wall time and peak memory of a command."""
    # a child's peak starts at that of whoever started it: a small process does
    done = subprocess.run(
        [sys.executable, "-I", "-S", HERE / "probe.py", *arguments],
        env={**_usual(), **(environment or {})}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return Sample(**json.loads(done.stdout))


def script(name: str, **options: object) -> Any:
    """What a script of this folder prints as JSON, run with ``options`` in a process of its own."""
    command = [sys.executable, str(HERE / f"{name}.py"), json.dumps(options)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
