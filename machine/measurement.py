"""Measures a network on this machine, stage by stage and in place, and writes it as a device (``fluidb measure``)."""

from __future__ import annotations

import io
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..dse.device.decisions import tabulate_decisions
from ..formats import AnyPath, InputError, OwnFolder, table_text
from ..formats.array_types import Floats
from ..models import Exit
from ..platforms.device import MAX_BATCH
from ..platforms.host import Host
from ..platforms.measured import MeasuredDevice
from ..platforms.platform import NAME
from ..platforms.writer import platform_text
from ..serving.statistics import mean_interval
from ..tables.decisions import DECISIONS_FILE
from ..tables.files import LATENCY_FILE
from ..tables.latency import LatencyTable
from ..traffic.exits import decide, levels
from ..traffic.samples import samples_bytes
from .host import MESSAGES, HostRounds, measure_host
from .network import RealNetwork
from .protocol import ALONE, run_protocol

DEVICE_FILE, TIMES_FILE, SAMPLES_FILE = "device.toml", "times.csv", "samples.npz"
MEASURED_FOLDER = OwnFolder(
    "a measured device", DEVICE_FILE, (DEVICE_FILE, TIMES_FILE, SAMPLES_FILE, LATENCY_FILE, DECISIONS_FILE)
)


NOISY = 0.05
"""Largest half-width of an interval, as a share of its mean, of a figure that counts as measured."""

WARM_UP = 2
"""Rounds that are not counted."""


@dataclass(frozen=True, slots=True)
class StageTime:
    """The time of a stage at a batch size: mean and half-width of its interval over rounds, and median."""

    stage: int
    batch: int
    seconds: float
    half_width_s: float
    median_s: float


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """The measured times of a network on this machine."""

    device: MeasuredDevice  # this machine as a device; sources say how each number was measured
    table: LatencyTable
    cells: list[StageTime]  # times of the stages, with their spread
    round_times: Floats  # time of the stages in each round, as a share of the mean of all
    drift: float  # share by which the second half of the rounds was slower than the first
    noisy: list[str]  # figures that were measured badly, and how badly


def machine() -> str:
    """Names of the processor and the system."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    release = platform.release().partition("-")[0]
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {release}"


def measure(
    network: RealNetwork,
    *,
    b_max: int = 8,
    repeats: int = 20,
    name: str | None = None,
    seed: int = 0,
    warm_up: int = WARM_UP,
    host: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> MeasuredTimes:
    """Measure a network on this machine, by :func:`.protocol.run_protocol`; perhaps its host, too."""
    if not 1 <= b_max <= MAX_BATCH:
        raise InputError(f"b_max: expected 1 to {MAX_BATCH}, found {b_max}")
    if repeats < 2:
        raise InputError(f"repeats: expected at least 2, found {repeats}")
    name = name or "this-machine"
    NAME.check(name, where="name: ")
    rates, random = _rates(network), np.random.default_rng(seed)
    seen = run_protocol(network, rates, b_max, warm_up + repeats, random, progress)
    times_s, wake_up_s = seen.stage_s[warm_up:], seen.wake_up_s[warm_up:]
    wake_up_s = wake_up_s[np.isfinite(wake_up_s)]
    means = times_s.mean(axis=0)
    cells, noisy = [], []
    for stage in range(len(rates)):
        for batch in range(1, b_max + 1):
            here = times_s[:, stage, batch]
            half_s = _half_width(here)
            cells.append(StageTime(stage + 1, batch, float(here.mean()), half_s, float(np.median(here))))
            if half_s > NOISY * here.mean():
                noisy.append(f"stage {stage + 1}, batch {batch}: +- {half_s / here.mean():.1%}")
    if _half_width(wake_up_s) > NOISY * means[:, 1].sum():
        noisy.append(f"wake_up_s: +- {_half_width(wake_up_s) / means[:, 1].sum():.1%} of a pass")
    relative = (times_s[:, :, 1:] / means[:, 1:]).mean(axis=(1, 2))
    drift = float(relative[len(relative) // 2 :].mean() / relative[: len(relative) // 2].mean() - 1.0)
    if abs(drift) > NOISY:
        noisy.append(f"drift: the second half of the rounds took {drift:+.1%}")
    wake_s = max(0.0, float(wake_up_s.mean())) if len(wake_up_s) else None
    rounds_text = f"{repeats} rounds after {warm_up} to warm up"
    gathers = seen.gathers[seen.gathers[:, 0] >= warm_up, 1:]
    device = _device(network, cells, wake_s, gathers, name, rounds_text, drift)
    if host:
        messages = measure_host(network, warm_up + repeats, random)
        device = _with_host(device, HostRounds(*(times_s[warm_up:] for times_s in messages)), noisy)
    stated = network.thresholds
    thresholds = [*([None] * (len(rates) - 1) if stated is None else stated), None]
    exits = [
        Exit(name=name, rate=rate, **{network.measure.name: threshold})
        for name, rate, threshold in zip(network.exits, rates.tolist(), thresholds, strict=True)
    ]
    table = LatencyTable(
        network=network.name, platform=device.name, exits=exits, b_max=b_max,
        stage_s=device.times_s, gather_s=device.gathers_s(len(exits)), wake_up_s=wake_s, host=device.host,
    )  # fmt: skip
    return MeasuredTimes(device, table, cells, relative, drift, noisy)


def _with_host(device: MeasuredDevice, messages: HostRounds, noisy: list[str]) -> MeasuredDevice:
    """The device with the times of messages; those that were measured badly are noted."""
    for name, times_s in zip(("before_s", "after_s"), messages, strict=True):
        if _half_width(times_s) > NOISY * times_s.mean():
            noisy.append(f"host.{name}: +- {_half_width(times_s) / times_s.mean():.1%}")
    host = Host(before_s=float(messages.read_s.mean()), after_s=float(messages.write_s.mean()))
    told = (
        f"measured: reading a request of one sample and writing its answer as `fluidb serve` does, tensors as bytes, "
        f"{MESSAGES} in each round, mean; they overlap, as the server has a thread beside the device's"
    )
    return device.model_copy(update={"host": host, "sources": device.sources | {"host": told}})


def _half_width(values: Floats) -> float:
    interval = mean_interval(values)
    return 0.0 if interval is None else (interval.high - interval.low) / 2


def _rates(network: RealNetwork) -> Floats:
    """The share of the samples that leave at each exit, at the thresholds of the network, or at the usual one."""
    samples, count = network.samples(), len(network.exits)
    left = decide(samples.confidences, levels(network.thresholds, count, network.measure), count)
    return np.bincount(left, minlength=count + 1)[1:] / len(samples)


def _device(
    network: RealNetwork,
    cells: list[StageTime],
    wake_up_s: float | None,
    gathers: Floats,
    name: str,
    rounds: str,
    drift: float,
) -> MeasuredDevice:
    spread = max(cell.half_width_s / cell.seconds for cell in cells)
    protocol = (
        f"{rounds}, each of every batch size some times in a row, the sizes in random order, by the runner of "
        f"`fluidb serve-real`; mean, with an interval of at most "
        f"+- {spread:.1%}; the second half of the rounds took {drift:+.1%}"
    )
    sources = {"table": f"measured on {machine()}; {network.runs_on}; Python {platform.python_version()}; {protocol}"}
    content = {
        "name": name,
        "title": f"{network.name} on {machine()}"[:100],
        "table": TIMES_FILE,
        "network": network.name,
        "stages": len(network.exits),
    }
    if wake_up_s is not None:
        content["wake_up_s"] = wake_up_s
        sources["wake_up_s"] = f"measured: {ALONE} requests at an idle device in every round, mean"
    if len(gathers):
        counts, gather_s = gathers.T
        slope_s = float(np.cov(counts, gather_s)[0, 1] / counts.var(ddof=1)) if np.ptp(counts) else 0.0
        slope_s = max(0.0, slope_s)
        floor_s = max(0.0, float(gather_s.mean() - slope_s * counts.mean()))
        content |= {"gather_floor_s": floor_s, "gather_s_per_sample": slope_s}
        sources |= dict.fromkeys(("gather_floor_s", "gather_s_per_sample"), f"{len(counts)} gathers, least squares")
    times = [[cell.seconds for cell in cells if cell.stage == stage] for stage in range(1, len(network.exits) + 1)]
    return MeasuredDevice.of({**content, "sources": sources}, times)


def write_measurement(network: RealNetwork, measured: MeasuredTimes, folder: AnyPath, *, replace: bool = False) -> None:
    """Write the device, its times, its latency table, and the answers to the samples, whole or not at all."""
    rows = io.StringIO()
    rows.write("stage,batch,seconds,half_width_s,median_s\n")
    for cell in measured.cells:
        rows.write(f"{cell.stage},{cell.batch},{cell.seconds!r},{cell.half_width_s!r},{cell.median_s!r}\n")
    files: dict[str, str | bytes] = {
        DEVICE_FILE: platform_text(measured.device),
        TIMES_FILE: rows.getvalue(),
        LATENCY_FILE: table_text(measured.table),
        DECISIONS_FILE: table_text(tabulate_decisions(measured.table)),
        SAMPLES_FILE: samples_bytes(network.samples()),
    }
    MEASURED_FOLDER.write(folder, files, replace=replace)
