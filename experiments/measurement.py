"""Measures a network on this machine, stage by stage and in place, and writes it as a device (``fluidb measure``)."""

from __future__ import annotations

import io
import os
import platform
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError, check_own_folder, table_text, write_directory
from ..models import Exit
from ..platforms.described import NAME
from ..platforms.device import MAX_BATCH
from ..platforms.measured import Measured
from ..platforms.writer import platform_text
from ..serving.policies.given_batches import POLICY
from ..serving.real.clock import WallClock
from ..serving.real.cores import pinned
from ..serving.real.network import RealNetwork
from ..serving.real.runner import Outcome, serve_in_steps
from ..serving.replay import case_of
from ..serving.scheduler import Scheduler
from ..serving.statistics import mean_interval
from ..tables.decisions import DECISIONS_FILE, tabulate_decisions
from ..tables.latency import LATENCY_FILE, LatencyTable, pair_rows
from ..traffic.exits import decide, levels
from ..traffic.samples import samples_bytes
from ..traffic.trace import Trace
from ..traffic.traffic import Traffic

DEVICE_FILE, TIMES_FILE, SAMPLES_FILE = "device.toml", "times.csv", "samples.npz"

Floats = NDArray[np.float64]

NOISY = 0.05
"""Largest half-width of an interval, as a share of its mean, of a figure that counts as measured."""

WARM_UP = 2
"""Rounds that are not counted."""

ALONE = 20
"""Requests that find the device idle, in every round."""

PAUSE_S = 5e-3
"""Pause before each of these, beside a few times the whole network."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The time of a stage at a batch size: mean and half-width of its interval over rounds, and median."""

    stage: int
    batch: int
    seconds: float
    half_width_s: float
    median_s: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a machine takes for a network.

    Attributes
    ----------
    device : Measured
        It as a device; ``sources`` say how each number was measured.
    table : LatencyTable
        Its latency table.
    cells : list of Cell
        Times of the stages, with their spread.
    round_times : (R,) ndarray of float64
        How long each round took for the stages, as a share of the mean of all.
    drift : float
        By how much the second half of the rounds was slower than the first.
    noisy : list of str
        Figures that were measured badly, and how badly.
    """

    device: Measured
    table: LatencyTable
    cells: list[Cell]
    round_times: Floats
    drift: float
    noisy: list[str]


def machine() -> str:
    """The processor and the system, for people."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"


@dataclass(slots=True)
class _Rounds:
    """What was seen in each round."""

    stage_s: list[Floats]  # (E, b_max + 1) by round
    gathers: list[tuple[int, float]]
    wake_up_s: list[float]


def measure(
    network: RealNetwork,
    *,
    b_max: int = 8,
    rounds: int = 20,
    name: str | None = None,
    seed: int = 0,
    warm_up: int = WARM_UP,
    progress: Callable[[int, int], None] | None = None,
) -> Measurement:
    """Measure a network on this machine.

    A round is a replay by the runner that serves traffic, so that all that it takes between two runs is in the times.
    In a round every batch size comes once, in random order, through all stages, twice: with nobody leaving, which
    gives the times of stages; and with samples leaving at random, which gives those of gathers.  Then some requests
    arrive one by one at an idle device: what they take longer is its wake-up time.

    Parameters
    ----------
    network : RealNetwork
        The network, with samples.
    b_max : int
        Largest batch size.
    rounds : int
        Repetitions that are counted.
    name : str, optional
        The device's name.
    seed : int
        Of the random orders and exits.
    warm_up : int
        Repetitions before these.
    progress : callable, optional
        Called with the rounds that are done, and their number.

    Returns
    -------
    Measurement
        The times.

    Raises
    ------
    InputError
        If a stage fails.
    """
    if not 1 <= b_max <= MAX_BATCH:
        raise InputError(f"--b-max: expected 1 to {MAX_BATCH}, found {b_max}")
    if rounds < 2:
        raise InputError(f"--rounds: expected at least 2, found {rounds}")
    name = name or "this-machine"
    if not re.fullmatch(NAME, name):
        raise InputError(f'--name: expected up to 80 letters, digits, dots, "-" and "_", found "{name}"')
    stages, random = len(network.exits), np.random.default_rng(seed)
    seen = _Rounds([], [], [])
    blank = _blank_table(network, b_max)
    for number in range(warm_up + rounds):
        if number == warm_up:
            seen = _Rounds([], [], [])
        _busy_round(network, blank, random, seen, leaving=False)
        _busy_round(network, blank, random, seen, leaving=True)
        _idle_round(network, blank, random, seen)
        if progress is not None:
            progress(number + 1, warm_up + rounds)
    times_s = np.array(seen.stage_s)
    means = times_s.mean(axis=0)
    cells, noisy = [], []
    for stage in range(stages):
        for batch in range(1, b_max + 1):
            here = times_s[:, stage, batch]
            half_s = _half_width(here)
            cells.append(Cell(stage + 1, batch, float(here.mean()), half_s, float(np.median(here))))
            if half_s > NOISY * here.mean():
                noisy.append(f"stage {stage + 1}, batch {batch}: +- {half_s / here.mean():.1%}")
    wake_up = np.array(seen.wake_up_s)
    if _half_width(wake_up) > NOISY * means[:, 1].sum():
        noisy.append(f"wake_up_s: +- {_half_width(wake_up) / means[:, 1].sum():.1%} of a pass")
    relative = (times_s[:, :, 1:] / means[:, 1:]).mean(axis=(1, 2))
    drift = float(relative[len(relative) // 2 :].mean() / relative[: len(relative) // 2].mean() - 1.0)
    if abs(drift) > NOISY:
        noisy.append(f"drift: the second half of the rounds took {drift:+.1%}")
    device = _device(network, cells, seen, name, f"{rounds} rounds after {warm_up} to warm up", drift)
    return Measurement(device, _table(network, device), cells, relative, drift, noisy)


def _half_width(values: Floats) -> float:
    found = mean_interval(values)
    return 0.0 if found is None else (found.high - found.low) / 2


def _blank_table(network: RealNetwork, b_max: int) -> LatencyTable:
    """A table for the event loop, which plans with it and is then told what a run took."""
    exits = [Exit(name=name, rate=1 / len(network.exits)) for name in network.exits]
    rows = pair_rows(np.full((len(exits), b_max), 1e-3))
    return LatencyTable(network=network.name, platform="none", exits=exits, b_max=b_max, rows=rows)


def _serve(network: RealNetwork, table: LatencyTable, traffic: Traffic, random: np.random.Generator) -> tuple[
    Outcome, list[tuple[int, float]]
]:  # fmt: skip
    rows = random.integers(len(network), size=len(traffic))
    engine, clock = network.engine(rows), WallClock(traffic.trace.arrival_s, threading.Event())
    case = case_of(table, traffic, Scheduler("given-batches", POLICY, {}))
    with clock.running(), pinned(network.cores):
        outcome = serve_in_steps(case, clock, engine)
    if outcome.failure:
        raise InputError(f"{network.path}: {outcome.failure}")
    return outcome, engine.gathers


def _traffic(arrival_s: Floats, exits: NDArray[np.int64], batch: NDArray[np.int64]) -> Traffic:
    trace = Trace(np.arange(len(arrival_s)), arrival_s, exits=exits, predicted_depth=batch.astype(np.float64))
    return Traffic(trace, exits, np.full(len(exits), np.inf), None, "drawn")


def _busy_round(
    network: RealNetwork, table: LatencyTable, random: np.random.Generator, seen: _Rounds, *, leaving: bool
) -> None:
    """Every batch size once, one batch right after the other; the first one is not counted, as the device was idle."""
    stages = len(network.exits)
    batches = np.append(1, random.permutation(np.arange(1, table.b_max + 1)))
    batch = np.repeat(batches, batches)
    exits = random.integers(1, stages + 1, size=len(batch)) if leaving else np.full(len(batch), stages)
    outcome, gathers = _serve(network, table, _traffic(np.zeros(len(batch)), exits, batch), random)
    if leaving:
        seen.gathers += gathers
        return
    runs, stage_s = outcome.replay.runs, np.zeros((stages, table.b_max + 1))
    assert runs is not None
    stage_s[runs.segment[stages:], runs.batch[stages:]] = outcome.took_s[stages:]
    seen.stage_s.append(stage_s)


def _idle_round(network: RealNetwork, table: LatencyTable, random: np.random.Generator, seen: _Rounds) -> None:
    """Requests that find the device idle; what the first stage takes longer than in the busy rounds so far."""
    stages, alone_s = len(network.exits), np.mean([found[:, 1] for found in seen.stage_s], axis=0)
    gaps_s = PAUSE_S + 3 * alone_s.sum() * (1 + random.random(ALONE))
    traffic = _traffic(np.cumsum(gaps_s), np.full(ALONE, stages), np.ones(ALONE, dtype=np.int64))
    outcome, _ = _serve(network, table, traffic, random)
    runs = outcome.replay.runs
    assert runs is not None
    fresh = outcome.replay.fresh
    late_s = runs.end_s[runs.segment == 0] - traffic.trace.arrival_s - alone_s[0]
    seen.wake_up_s.append(float(late_s[fresh].mean()))


def _device(network: RealNetwork, cells: list[Cell], seen: _Rounds, name: str, rounds: str, drift: float) -> Measured:
    """The device, with the source of every number."""
    spread = max(cell.half_width_s / cell.seconds for cell in cells)
    protocol = (
        f"{rounds}, each of every batch size once in random order through all stages, "
        f"by the runner of `fluidb serve-real`; mean, with an interval of at most "
        f"+- {spread:.1%}; the second half of the rounds took {drift:+.1%}"
    )
    sources = {"table": f"measured on {machine()}; {network.runs_on}; Python {platform.python_version()}; {protocol}"}
    content = {
        "name": name,
        "title": f"{network.name} on {machine()}"[:100],
        "table": TIMES_FILE,
        "network": network.name,
        "stages": len(network.exits),
        "wake_up_s": max(0.0, float(np.mean(seen.wake_up_s))),
    }
    sources["wake_up_s"] = f"measured: {ALONE} requests at an idle device in every round, mean"
    if seen.gathers:
        counts, gather_s = np.array(seen.gathers).T
        slope_s = float(np.cov(counts, gather_s)[0, 1] / counts.var(ddof=1)) if np.ptp(counts) else 0.0
        slope_s = max(0.0, slope_s)
        floor_s = max(0.0, float(gather_s.mean() - slope_s * counts.mean()))
        content |= {"gather_floor_s": floor_s, "gather_s_per_sample": slope_s}
        sources |= dict.fromkeys(("gather_floor_s", "gather_s_per_sample"), f"{len(counts)} gathers, least squares")
    times = [[cell.seconds for cell in cells if cell.stage == stage] for stage in range(1, len(network.exits) + 1)]
    return Measured.of({**content, "sources": sources}, times)


def _table(network: RealNetwork, device: Measured) -> LatencyTable:
    """The latency table, with the shares of the samples that leave at each exit at the usual threshold."""
    samples, count = network.samples(), len(network.exits)
    left = decide(samples.confidences, levels(None, count), count)
    exits = [Exit(name=name, rate=float((left == number).mean())) for number, name in enumerate(network.exits, 1)]
    return LatencyTable(
        network=network.name, platform=device.name, exits=exits, b_max=device.b_max,
        rows=pair_rows(np.array(device.times_s[0])), gather_s=device.gathers_s(count), wake_up_s=device.wake_up_s,
    )  # fmt: skip


def check_measured_folder(folder: Path, replace: bool) -> None:
    """Refuse, before any work is done, a folder that holds something else."""
    own = {LATENCY_FILE, DECISIONS_FILE, DEVICE_FILE, TIMES_FILE, SAMPLES_FILE}
    check_own_folder(folder, replace, "a measured device", DEVICE_FILE, own)


def write_measurement(network: RealNetwork, found: Measurement, folder: Path, *, replace: bool = False) -> None:
    """Write the device, its times, its latency table, and the answers to the samples, whole or not at all.

    Raises
    ------
    InputError
        If the folder holds something else, or the file system refuses.
    """
    check_measured_folder(folder, replace)
    rows = io.StringIO()
    rows.write("stage,batch,seconds,half_width_s,median_s\n")
    for cell in found.cells:
        rows.write(f"{cell.stage},{cell.batch},{cell.seconds!r},{cell.half_width_s!r},{cell.median_s!r}\n")
    files: dict[str, str | bytes] = {
        DEVICE_FILE: platform_text(found.device),
        TIMES_FILE: rows.getvalue(),
        LATENCY_FILE: table_text(found.table),
        DECISIONS_FILE: table_text(tabulate_decisions(found.table)),
        SAMPLES_FILE: samples_bytes(network.samples()),
    }
    write_directory(folder, files, replace=replace)
