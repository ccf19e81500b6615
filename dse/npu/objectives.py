"""Objectives of a search by name, computed from the cost of designs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats.array_types import Floats, Ints
from ...platforms import ENERGY_KEYS, Board
from .choices import Objective


class Cost(NamedTuple):
    """Cost of D designs, for batches of b = 1..B_max samples that all run to the end."""

    macs: float  # of one sample
    platform: Board
    cycles: Floats  # (D, B_max)
    words: Floats | None = None  # (D, B_max), moved off chip; None if not counted
    accesses: Floats | None = None  # (D, B_max), to buffers on chip; None if not counted
    launched_macs: float = 0.0  # of the runs that a simulation counted
    busy_cycles: Floats | None = None  # (D,), of those runs

    @property
    def batch(self) -> Ints:
        """Batch sizes, 1..B_max."""
        return np.arange(1, self.cycles.shape[1] + 1)

    @property
    def time_s(self) -> Floats:
        """Time of each batch."""
        return self.cycles / self.platform.clock_hz

    @property
    def gop_s(self) -> Floats:
        """Throughput of each batch, two operations to a MAC."""
        return 2e-9 * self.macs * self.batch * self.platform.clock_hz / self.cycles

    @property
    def traffic_gop_s(self) -> Floats:
        """Throughput over the runs that a simulation saw (docs/npu.md, Weights from traffic)."""
        assert self.busy_cycles is not None
        return 2e-9 * self.launched_macs * self.platform.clock_hz / self.busy_cycles[:, None]

    @property
    def energy_j(self) -> Floats:
        """Energy of each inference in each batch (docs/model.md, Energy)."""
        assert self.words is not None
        assert self.accesses is not None
        dynamic_j = dynamic_energy(self.platform, self.batch * self.macs, self.words, self.accesses)
        return (dynamic_j + (self.platform.static_w or 0.0) * self.time_s) / self.batch

    @property
    def gop_s_w(self) -> Floats:
        """Throughput per watt of each batch, which is operations per nanojoule."""
        return 2e-9 * self.macs / self.energy_j


def dynamic_energy(platform: Board, macs: NDArray[Any], words: Floats, accesses: Floats) -> Floats:
    """Energy in joules of MACs, words off chip and accesses to buffers (docs/model.md, Energy)."""
    mac_pj, on_chip_pj, off_chip_pj = platform.require(ENERGY_KEYS, "energy")
    return 1e-12 * (macs * mac_pj + accesses * on_chip_pj + words * off_chip_pj)


def prices_of(platform: Board, objective: Objective) -> tuple[float, float, float]:
    """Prices of a cycle, a word off chip and a word on the chip only, by which layouts are chosen for an objective."""
    if not OBJECTIVES[objective].needs:
        from .kernels import TIME_ONLY  # here, because the names of objectives need no numba

        return TIME_ONLY
    _, on_chip_pj, off_chip_pj = platform.require(ENERGY_KEYS, "energy")
    return (platform.static_w or 0.0) / platform.clock_hz, 1e-12 * (off_chip_pj + 2 * on_chip_pj), 2e-12 * on_chip_pj


def weighted(weights: Floats, values: Floats) -> Floats:
    """Weighted sum over the columns of ``values``."""
    return np.cumsum(weights * values, axis=1)[:, -1]  # in order: then designs tie in a block of any size


def _mean(weights: Floats, values: Floats) -> Floats:
    """Weighted mean over the columns: of throughput, Equation (2) by its weights, to compare with the peak."""
    return weighted(weights, values) / float(weights.sum())


def _single(_: Floats, values: Floats) -> Floats:
    return values[:, 0]


@dataclass(frozen=True)
class Definition:
    """Definition of an objective."""

    title: str
    unit: str
    summary: str  # printed after the value; {} is B_max
    higher_is_better: bool
    figure: Callable[[Cost], Floats]  # its value for each design and batch size
    reduce: Callable[[Floats, Floats], Floats]  # from w_b and these values to one for each design
    needs: tuple[str, ...] = ()  # optional keys of a board; if any, words and accesses are counted too

    def evaluate(self, cost: Cost, weights: Floats) -> Floats:
        """Its value for each design, with w_b for b = 1..B_max."""
        return self.reduce(weights, self.figure(cost))

    def text(self, value: float) -> str:
        """A value as it is printed, with its unit: seconds and joules in thousandths."""
        if self.unit not in {"s", "J"}:
            return f"{value:,.1f} {self.unit}"
        return f"{f'{1e3 * value:#,.4g}'.removesuffix('.')} m{self.unit}"  # of four digits before the point, it is last

    def losses(self, values: Floats) -> Floats:
        """Values with a sign by which lower is better."""
        return -values if self.higher_is_better else values


_OVER = "weighted mean over b = 1..{}"

OBJECTIVES = {
    Objective.GOP_S: Definition("throughput", "GOP/s", _OVER, True, lambda cost: cost.gop_s, _mean),
    Objective.LATENCY: Definition("latency", "s", "at b = 1", False, lambda cost: cost.time_s, _single),
    Objective.ENERGY: Definition(
        "energy", "J", "an inference, " + _OVER, False, lambda cost: cost.energy_j, _mean, ENERGY_KEYS
    ),
    Objective.GOP_S_W: Definition("efficiency", "GOP/s/W", _OVER, True, lambda cost: cost.gop_s_w, _mean, ENERGY_KEYS),
    Objective.TRAFFIC: Definition(
        "throughput on the traffic",
        "GOP/s",
        "over the runs that a simulation saw",
        True,
        lambda cost: cost.traffic_gop_s,
        _single,
    ),
}


def check_objectives(platform: Board, names: Sequence[Objective]) -> None:
    """Refuse objectives that need figures a board does not state."""
    for name in names:
        platform.require(OBJECTIVES[name].needs, f"the objective {name}")
