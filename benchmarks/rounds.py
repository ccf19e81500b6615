"""Measurement side by side: entrants take turns in rounds, and every sample is kept.

A machine that slows down for a while slows all entrants of a round, so that
ratios within a round stay valid even if seconds do not.
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
"""Least length of a sample; of a shorter run it is the mean of several, to hide clock ticks and interrupts."""


class Sample(NamedTuple):
    """One measurement: seconds, and peak memory in MB if it ran in a process of its own."""

    seconds: float
    peak_mb: float | None = None


@dataclass(frozen=True)
class Entrant:
    """A program to measure."""

    name: str  # unique in its table
    run: Callable[[], Sample]  # measures once
    against: str | None = None  # name of the entrant whose time divides its own
    work: float = 0.0  # units of work in one run, e.g. evaluations; 0 if they are not counted
    ours: bool = False  # fluidb, and not a reference


@dataclass(frozen=True)
class BenchmarkRow:
    """Samples of an entrant, one for each round."""

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
class BenchmarkTable:
    """A table of results."""

    key: str  # in the JSON
    title: str
    about: str  # description of the runs, in a sentence or two
    rows: list[BenchmarkRow]
    unit: str = ""  # of ``work``
    remarks: list[str] = field(default_factory=list)  # conclusions from the rows, or missing rows with the reason

    def row(self, name: str) -> BenchmarkRow:
        """Row of this name."""
        return next(row for row in self.rows if row.name == name)

    def ratios(self, row: BenchmarkRow) -> list[float]:
        """Time of a row over the time of its reference in the same round, for each round."""
        if row.against is None:
            return []
        return [mine / theirs for mine, theirs in zip(row.seconds, self.row(row.against).seconds, strict=True)]


def take_turns(entrants: Sequence[Entrant], rounds: int) -> list[BenchmarkRow]:
    """Measure each entrant once in each round; every second round goes in reverse order."""
    samples: dict[str, list[Sample]] = {entrant.name: [] for entrant in entrants}
    for turn in range(rounds):
        for item in entrants if turn % 2 == 0 else reversed(entrants):
            samples[item.name].append(item.run())
    return [
        BenchmarkRow(
            entrant.name,
            [sample.seconds for sample in samples[entrant.name]],
            entrant.against,
            entrant.work,
            entrant.ours,
            [sample.peak_mb for sample in samples[entrant.name] if sample.peak_mb is not None],
        )
        for entrant in entrants
    ]


def timed(function: Callable[[], object]) -> Callable[[], Sample]:
    """Measure a function of this process, repeated in a sample until :data:`LEAST_S` have passed."""

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
    """Environment of a user, whose Python keeps compiled sources."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def process(arguments: Iterable[str | Path], environment: Mapping[str, str] | None = None) -> Sample:
    """Wall time and peak memory of a command."""
    # a child's peak starts at its parent's, so a small process starts it
    done = subprocess.run(
        [sys.executable, "-I", "-S", HERE / "probe.py", *arguments],
        env={**_usual(), **(environment or {})}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return Sample(**json.loads(done.stdout))


def script(name: str, **options: object) -> Any:
    """JSON that a script of this folder prints when it runs with ``options`` in a process of its own."""
    command = [sys.executable, str(HERE / f"{name}.py"), json.dumps(options)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
