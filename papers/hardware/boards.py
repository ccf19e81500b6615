"""Latencies of AMD's DPU on four boards, as measured and as predicted."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ...dse.device.calibration import calibrate
from ...dse.device.engine import batch_times, needs
from ...dse.device.fit import CONSTANTS
from ...dse.device.measurements import Measurement, read_measurements
from ...dse.device.shapes import search_shape
from ...dse.npu.choices import Objective
from ...dse.npu.options import SearchOptions
from ...dse.npu.search import search
from ...formats.array_types import Floats
from ...models import load_network
from ...models.loader import read_backbone_file
from ...platforms import Board, load_platform
from ...platforms.engine import MOST, Engine
from ..lab import Lab
from ..rows import CALIBRATED, PREDICTED, Claim, Item, Row
from . import MEASUREMENTS

FITTED = ("resnet50", "resnet50_caffe", "resnet50_tfslim", "mobilenet_v1", "vgg16")
"""Networks whose rows gave the constants."""

CAFFE, TF_SLIM = ("cf_resnet50", "tf2_resnet50"), "tf_resnetv1_50"
"""Rows of Caffe's ResNet-50 that the newer compiler makes as fast as TF-Slim's ResNet-50, and TF-Slim's row."""

UNCALIBRATED = "latency at peak"

SHAPED = ("dpu-b4096-zcu104", "dpu-b1600-ultra96")
NETWORKS = ("resnet18", "resnet50", "inception_v3", "vgg16", "mobilenet_v1", "mobilenet_v2")
"""Engines and networks whose best shapes are searched."""

BOARDS, FEW = ("zc706", "zcu104"), ("resnet50", "inception_v3", "mobilenet_v2")
"""Boards whose designs are searched with pixels side by side, and networks."""

PIXELS = [1, 2, 4, 8, 16]
"""Pixels that a design may have."""

NOTE = (
    "*Paper* is the predicted time of the vendor's shape. *Ours* is the time of the best shape with at most as many "
    "multipliers, which is printed behind the network. Clock and constants stay. Other shapes were not measured, and "
    "their buffers are not counted."
)

MEAN, WORST, ORDER = 8.0, 15.0, 0.97
"""Required of networks held out: mean and worst error in per cent, and rank correlation of a board's networks."""


def predicted_s(row: Measurement, engine: Engine) -> float:
    """Time of a measured network as an engine's constants predict it."""
    return float(batch_times(row.needs, engine).sum())


def rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's rank correlation; equal values share the mean of their ranks."""
    ranks = [[np.mean(np.flatnonzero(np.sort(values) == value)) for value in values] for values in (one, other)]
    return float(np.corrcoef(ranks)[0, 1])


def hardware_dpu(_: Lab) -> Item:
    """Every row of the networks that ship."""
    with MEASUREMENTS.open(newline="", encoding="utf-8") as file:
        labels = defaultdict(list)
        for cells in csv.DictReader(file):
            labels[cells["platform"]].append(cells["row"].partition("_imagenet")[0])
    rows: list[Row] = []
    peaks: list[Row] = []
    caffe, apart, over = [], [], []
    for name, names in labels.items():
        engine = load_platform(name, kind=Engine)
        peak = engine.model_copy(update=CONSTANTS)
        measured = dict(zip(names, read_measurements(MEASUREMENTS, engine), strict=True))
        for label, row in measured.items():
            of = f"{row.network}: {label}"
            there, basis = 1e3 * row.seconds, PREDICTED
            peaks.append(Row(UNCALIBRATED, of, name, "ms", 1e3 * predicted_s(row, peak), paper=there, basis=basis))
            basis = CALIBRATED if row.network in FITTED else PREDICTED
            rows.append(Row("latency", of, name, "ms", 1e3 * predicted_s(row, engine), paper=there, basis=basis))
        if TF_SLIM in measured:
            apart += [abs(measured[label].seconds / measured[TF_SLIM].seconds - 1) for label in CAFFE]
            needed = needs(*read_backbone_file("resnet50_caffe"), engine)
            caffe.append(_held_out(engine, measured | {row: measured[row]._replace(needs=needed) for row in CAFFE}))
        other = engine.model_copy(update={"pixel_tiles": "map"})
        over.append(_held_out(other, dict(zip(names, read_measurements(MEASUREMENTS, other), strict=True))))
    claims = [_claim(name, [row for row in rows if row.at == name]) for name in labels]
    notes = [
        (
            "The fixed time of a layer was fitted on the ZCU102 and holds for all boards. The bandwidth was fitted on "
            "each board. The fixed time of an inference stays 0, and so does the share that is not hidden, which no "
            "board's rows tell apart from the two constants."
        ),
        (
            "A row is predicted as the network whose number of operations it states. A ResNet-50 of 8.2 G is "
            "torchvision's v1.5, one of 7.7 G is Caffe's and Keras's, and one of 6.97 G is TF-Slim's. On the B4096 "
            f"boards 7.7 G take as long as 6.97 G, within {100 * max(apart):.1f} %. At tag v1.4 they took 8 to 13 % "
            "longer. The compiler seems to leave out pixels that only strided 1x1 windows would read, which gives "
            "TF-Slim's network, and so we predict these rows as TF-Slim's network. If we predict them as Caffe's, with "
            f"the bandwidth fitted again, networks held out are off by {_each(caffe)} on average. The Ultra96's rows "
            "come from tag v1.2."
        ),
        (
            "Three rows are left out: the KV260's ResNet-152 repeats the row of ResNet-101; MobileNet-V3 takes 600 ms, "
            "so that parts of it run on the host; and EfficientNet-B0 has no latency."
        ),
        (
            "No source says how a DPU's pixels lie in the map. We chose that they lie in a line after we had seen all "
            "rows. If they lie over the map, with the bandwidth fitted again, networks held out are off by "
            f"{_each(over)} on average."
        ),
    ]
    off = np.array([row.difference for row in peaks])
    notes.append(
        "Without constants, at the peak bandwidth and with all transfers hidden, times are "
        f"{-off.max():.0f} to {-off.min():.0f} % too short, {-off.mean():.0f} % on average."
    )
    return Item("hardware_dpu", "AMD's DPU on four boards", notes, rows + peaks, claims=claims, picture="dots")


def hardware_shapes(_: Lab) -> Item:
    """What the shape of an engine costs each network, without its exits, against the best of as many multipliers."""
    rows, notes = [], []
    for name in SHAPED:
        engine = load_platform(name, kind=Engine)
        less = []
        for network in NETWORKS:
            given, best = search_shape(*read_backbone_file(network), engine)[1:3]
            of = f"{network}: {best.engine.shape} ({best.engine.dsps} DSPs)"
            ours, theirs = 1e3 * best.time_s, 1e3 * given.time_s
            rows.append(Row("latency", of, name, "ms", ours, paper=theirs, basis=PREDICTED))
            less.append(100 * (1 - best.time_s / given.time_s))
        notes.append(
            f"{name}, {engine.shape} in {engine.dsps} DSPs: the best shape for each network takes "
            f"{abs(min(less)):.1f} to {max(less):.1f} % less time."
        )
    title = "What the vendor's shape costs (`fluidb dse NETWORK ENGINE`)"
    return Item("hardware_shapes", title, [NOTE, *notes], rows, picture="dots")


def as_engine(board: Board) -> Engine:
    """A board's multipliers as an engine, which takes windows whole as the paper's engine does."""
    return Engine(
        name=f"engine-{board.name}", title=f"multipliers of {board.title}", pixels=1, input_channels=1,
        output_channels=min(board.macs_per_cycle, MOST), clock_mhz=board.clock_mhz, word_bits=board.word_bits,
        macs_per_dsp=board.macs_per_dsp, bandwidth_gb_s=board.bandwidth_gb_s,
    )  # fmt: skip


def _saved(rows: list[Row]) -> str:
    """What pixels save of each network's time, over the boards."""
    less = {network: [0.0 - (row.difference or 0.0) for row in rows if row.of.startswith(network)] for network in FEW}
    return ", ".join(f"{min(times):.1f} to {max(times):.1f} % for {network}" for network, times in less.items())


def hardware_pixels(_: Lab) -> Item:
    """What pixels side by side give boards, as built, and what they would give their multipliers alone."""
    built, ideal = [], []
    for name in BOARDS:
        board = load_platform(name)
        for network in FEW:
            file, path = read_backbone_file(network)
            whole, options = load_network(network).backbone(), SearchOptions(b_max=1, objective=Objective.LATENCY)
            first, wider = (search(whole, board.with_pixels(pixels), options).best for pixels in ([1], PIXELS))
            of, ours, theirs = f"{network}: {wider.tile}", 1e3 * wider.objective, 1e3 * first.objective
            built.append(Row("latency", of, name, "ms", ours, paper=theirs, basis=PREDICTED))
            one, best = (search_shape(file, path, as_engine(board), most_pixels=most).best for most in (1, MOST))
            of, ours, theirs = f"{network}: {best.engine.shape}", 1e3 * best.time_s, 1e3 * one.time_s
            ideal.append(Row("ideal latency", of, name, "ms", ours, paper=theirs, basis=PREDICTED))
    notes = [
        (
            "*Paper* is the best design with one pixel, like the paper's engine. *Ours* is the best of all designs, "
            "which is printed behind the network. *Latency* is the time of one sample as built, with designs "
            "`<T_R,T_P,T_C,V>` whose memories and logic fit the board (`fluidb dse NETWORK BOARD --b-max 1 --objective "
            f"latency --pixels {','.join(map(str, PIXELS))}` with a network without exits). For the *ideal latency* "
            "every word moves once, during the products, and only multipliers count."
        ),
        f"As built, pixels save {_saved(built)}. The board's look-up tables and memories limit V.",
        f"In the ideal they would save {_saved(ideal)}. The depthwise layers of mobilenet_v2 have one column.",
    ]
    return Item("hardware_pixels", "What pixels side by side give a board", notes, built + ideal, picture="dots")


def _held_out(engine: Engine, rows: dict[str, Measurement]) -> float:
    """Mean error of networks held out, with the bandwidth fitted to the others."""
    held = {row.network for row in rows.values()} - set(FITTED)
    return float(
        abs(
            calibrate(engine, [*rows.values()], held, CONSTANTS.keys() - {"effective_gb_s"}).errors(held_out=True)
        ).mean()
    )


def _each(errors: Sequence[float]) -> str:
    """Errors as a list in per cent."""
    return ", ".join(f"{100 * error:.1f} %" for error in errors)


def _claim(board: str, rows: list[Row]) -> Claim:
    """What is required of a board."""
    held = [row for row in rows if row.basis == PREDICTED]
    errors = [abs(row.difference or 0.0) for row in held]
    mean, worst = float(np.mean(errors)), max(errors)
    far = held[int(np.argmax(errors))]
    times = [
        np.mean([(row.paper or 0.0, row.ours) for row in rows if row.of.startswith(f"{network}:")], axis=0)
        for network in dict.fromkeys(row.of.partition(":")[0] for row in rows)
    ]
    order = rank_correlation(*np.array(times).T)
    return Claim(
        f"{board}: networks held out are predicted, and all are in order",
        "aim",
        f"mean at most {MEAN:g} %, worst {WORST:g} %, rank correlation {ORDER:g}",
        f"mean {mean:.1f} %, worst {worst:.1f} %, rank correlation {order:.3f}",
        mean <= MEAN and worst <= WORST and order >= ORDER,
        f"the farthest off is {far.of}, {far.gap}",
    )
