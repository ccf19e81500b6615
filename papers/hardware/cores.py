"""Frames a second of many threads on AMD's boards with one, two and three cores, from the latency of one thread."""

from __future__ import annotations

import csv
import math
from typing import NamedTuple

import numpy as np

from ...dse.cores import engine_cores
from ...models.loader import read_backbone_file
from ...platforms import load_platform
from ...platforms.engine import Engine
from ..lab import Lab
from ..rows import CALIBRATED, PREDICTED, Claim, Item, Row
from . import THREADS

FITTED = "dpu-b4096-zcu102", ("resnet50", "resnet50_tfslim", "mobilenet_v1")
"""The board and the networks whose rows give both constants."""

AIM = 10.0
"""Required mean error in per cent of the rows held out, of boards with several cores."""

FRAME = 224 * 224
"""Pixels of the input for which the host's time is stated."""


class Measured(NamedTuple):
    """A row of the table, and what the model knows of it."""

    platform: str
    cores: int
    network: str
    row: str
    latency_s: float  # of one thread
    many_per_s: float  # frames of many threads
    moving: float  # share of an inference on a core in which words move
    frames: float  # pixels of its input, as a multiple of the pixels of FRAME

    @property
    def fitted(self) -> bool:
        """True if the constants were fitted to it."""
        return self.platform == FITTED[0] and self.network in FITTED[1]

    def many(self, contention: float, host_s: float) -> float:
        """Frames a second of many threads: each core runs one inference after the other."""
        core_s = self.latency_s - host_s * self.frames
        return self.cores / (core_s * slowdown(self.moving, contention, self.cores))


def slowdown(moving: float, contention: float, cores: int) -> float:
    """Factor by which alike cores slow each other: the fixed point of docs/metrics.md, Cores, solved."""
    waits = contention * (cores - 1)
    linear = 1.0 - (2.0 + waits) * moving
    stretch = (math.sqrt(linear**2 + 4.0 * moving * (1.0 - moving)) - linear) / (2.0 * moving)
    return 1.0 + moving * (stretch - 1.0)


def measured_rows() -> list[Measured]:
    """The rows of the table."""
    rows: list[Measured] = []
    known: dict[tuple[str, str], tuple[float, float]] = {}
    with THREADS.open(newline="", encoding="utf-8") as table:
        for cells in csv.DictReader(table):
            platform, network = cells["platform"], cells["network"]
            if (platform, network) not in known:
                file, path = read_backbone_file(network)
                engine = load_platform(platform, kind=Engine)
                (core,) = engine_cores(file, path, [engine], [1])
                moving = float(core.moved_s[:, 0].sum() / core.table.pass_s()[0, 1])
                known[platform, network] = moving, file.input.height * file.input.width / FRAME
            numbers = float(cells["latency_ms"]) / 1e3, float(cells["fps_many"]), *known[platform, network]
            rows.append(Measured(platform, int(cells["cores"]), network, cells["row"], *numbers))
    return rows


def fit(rows: list[Measured]) -> tuple[float, float]:
    """The contention and the host's time of least squared relative error of the time of a frame."""
    best, least = (0.0, 0.0), math.inf
    frames = np.array([row.frames for row in rows])
    latency_s, many = np.array([[row.latency_s, row.many_per_s] for row in rows]).T
    for contention in np.linspace(0, 1, 1001).tolist():
        slowed = np.array([slowdown(row.moving, contention, row.cores) / row.cores for row in rows])
        whole, less = latency_s * slowed * many, frames * slowed * many  # the time is whole - host_s * less
        host_s = max(0.0, float((whole - 1) @ less / (less @ less)))
        error = float(np.square(whole - host_s * less - 1).sum())
        if error < least:
            best, least = (contention, host_s), error
    return best


def hardware_cores(_: Lab) -> Item:
    """Every row of the networks that ship."""
    measured = measured_rows()
    contention, host_s = fit([row for row in measured if row.fitted])
    rows, held = [], []
    for row in measured:
        ours = row.many(contention, host_s)
        of = f"{row.network}: {row.row.partition('_imagenet')[0]}"
        at = f"{row.platform}, {row.cores} core{'s'[: row.cores - 1]}"
        basis = CALIBRATED if row.fitted else PREDICTED
        rows.append(Row("frames of many threads", of, at, "/s", ours, paper=row.many_per_s, basis=basis))
        if not row.fitted:
            held.append((row, abs(100 * (ours / row.many_per_s - 1))))
    several = [error for row, error in held if row.cores > 1]
    flat = [row._replace(moving=1.0) for row in measured]
    one = fit([row for row in flat if row.fitted])
    alike = [abs(100 * (row.many(*one) / row.many_per_s - 1)) for row in flat if not row.fitted and row.cores > 1]
    far = max(held, key=lambda pair: pair[1])
    notes = [
        (
            "One thread waits for the host, and many threads do not. The host's part was fitted to "
            f"{len(measured) - len(held)} rows of {', '.join(FITTED[1])} on {FITTED[0]}: it takes {1e3 * host_s:.2f} "
            f"ms for 224 x 224 pixels. Cores wait for {contention:.3f} of the transfers of another core at the same "
            "time (the contention of the engines that ship)."
        ),
        (
            f"{len(held)} rows are held out, with a mean error of {np.mean([error for _, error in held]):.1f} %. "
            f"{len(held) - len(several)} of these rows come from boards with one core, which test the host's time only."
        ),
        (
            "If every network has the same slowdown, fitted in the same way, the error is "
            f"{np.mean(alike):.1f} % on boards with several cores. So these rows alone do not show that a network "
            "waits longer if it moves more words."
        ),
    ]
    claim = Claim(
        "boards with several cores: rows held out are predicted",
        "aim",
        f"mean at most {AIM:g} %",
        f"mean {np.mean(several):.1f} % of {len(several)} rows, worst {max(several):.1f} %",
        float(np.mean(several)) <= AIM,
        f"the farthest off is {far[0].network} on {far[0].platform}, {far[1]:.1f} %",
    )
    return Item("hardware_cores", "Several cores on one memory", notes, rows, claims=[claim], picture="dots")
