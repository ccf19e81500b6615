"""Speed of a device of a cluster from measured convolutions (EdgeSP, Section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..formats import AnyPath, InputError
from ..formats.array_types import Floats
from ..traffic.columns import Number
from ..traffic.reading import read_columns
from ..traffic.rows import Tally


class Convolution(NamedTuple):
    """A convolution: height and width of its output, its channels, and the size of its square kernel, F."""

    height: int
    width: int
    in_channels: int
    out_channels: int
    kernel: int

    @property
    def gflop(self) -> float:
        """Floating-point operations in 1e9 (Equation 2)."""
        return 2e-9 * self.height * self.width * (self.in_channels * self.kernel**2 + 1) * self.out_channels


_SIZE = Number(np.int64, 1, 10**6, "a whole number from 1 to 1,000,000")
COLUMNS = {
    **dict.fromkeys(Convolution._fields, _SIZE),
    "seconds": Number(np.float64, 1e-9, 1e6, "seconds, from 1e-9 to 1e6"),
}
"""Columns of the CSV of a sweep."""


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """A convolution of a sweep: its time as measured and as the fit has it."""

    convolution: Convolution
    gflop: float
    measured_s: float
    fitted_s: float

    @property
    def residual_s(self) -> float:
        """The measured time less the fitted one."""
        return self.measured_s - self.fitted_s


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """C(L) = FLOPs / r + b, fitted to a sweep."""

    gflop_s: float  # r: floating-point operations a second, in 1e9
    layer_s: float  # b: fixed time of a layer, at least 0
    r2: float  # coefficient of determination: share of the variance of the times that the line explains
    points: list[SweepPoint]  # the sweep, in the order of its file


def fit_line(work: Floats, time_s: Floats) -> tuple[float, float]:
    """Least squares of ``time_s = slope * work + fixed`` with ``fixed >= 0``."""
    centred = work - work.mean()
    slope = float(centred @ time_s / (centred @ centred))
    fixed = float(time_s.mean() - slope * work.mean())
    return (slope, fixed) if fixed >= 0 else (float(work @ time_s / (work @ work)), 0.0)


def fit_device(path: AnyPath) -> DeviceFit:
    """Fit rate and fixed time of a device to a sweep of convolutions."""
    missing = "expected a sweep of convolutions, found no such file; make one with `fluidb platforms sweep`"
    tally = Tally(Path(path), skip_blank=False, missing=missing, content="convolution")
    columns = read_columns(tally, COLUMNS, list(COLUMNS))
    tally.refuse()
    rows = zip(*(columns[name].tolist() for name in Convolution._fields), strict=True)
    convolutions = [Convolution(*row) for row in rows]
    work, time_s = np.array([convolution.gflop for convolution in convolutions]), columns["seconds"]
    if len(set(work.tolist())) < 2:
        raise InputError(f"{path}: expected convolutions with at least two different numbers of FLOPs, found one")
    slope, fixed = fit_line(work, time_s)
    if slope <= 0:
        raise InputError(f"{path}: expected times that grow with FLOPs, found {1e3 * slope:g} ms for each GFLOP more")
    fitted_s = slope * work + fixed
    left, all_ = time_s - fitted_s, time_s - time_s.mean()
    points = map(SweepPoint, convolutions, work.tolist(), time_s.tolist(), fitted_s.tolist())
    return DeviceFit(1 / slope, fixed, float(1 - (left @ left) / (all_ @ all_)), list(points))
