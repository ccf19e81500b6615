"""Tables III to V, the parts of the gain (Fig. 7), and predictions for the other platforms."""

from __future__ import annotations

import numpy as np

from ...formats.array_types import Floats
from ..lab import Lab, row
from ..rows import ASSUMED, CALIBRATED, GIVEN, PREDICTED, Claim, Item, Row
from . import PUBLISHED
from .benchmarks import (
    ALONE,
    BENCHMARKS,
    BOTH,
    CNN,
    EARLY_EXIT,
    ENCODER,
    PADDED,
    REORGANISED,
    SEQUENCES,
    SIMILAR,
    SLIMMABLE,
    gain,
    geometric,
    least_times,
    makespans,
    variances,
)

HERE, ALL = "RTX 2080 Ti", "geometric mean"
OPEN = "geometric mean of the predicted"
OVER = {"gain over batch size 1": ALONE, "gain over padding": PADDED}
STALLED = 32
"""Samples that LazyBatching holds at most, if the activations of those that wait fill the memory: assumed."""


def batchcond_table3(lab: Lab) -> Item:
    """Gains in throughput on the platform that was modelled."""
    rows, printed = [], PUBLISHED["gains"][HERE]
    for place, (quantity, over) in enumerate(OVER.items()):
        gains = {benchmark.name: gain(benchmark, BOTH, over, lab) for benchmark in BENCHMARKS}
        gains[ALL] = geometric(list(gains.values()))
        rows += [
            row(quantity, name, HERE, "x", values, printed[name][place], basis=CALIBRATED)
            for name, values in gains.items()
        ]
    notes = [
        "The least times and slopes of the device were chosen by these figures; the other items have the predictions.",
        (
            "All inputs wait from the beginning. A batch of one runs to its own exit at its own width; random batches "
            "with padding run to the deepest exit and at the largest width among them."
        ),
    ]
    return Item("batchcond_table3", "Table III: gain in throughput", notes, rows, picture="bars")


def batchcond_platforms(lab: Lab) -> Item:
    """The other platforms: one factor given, one figure predicted."""
    rows: list[Row] = []
    for platform, printed in PUBLISHED["gains"].items():
        if platform == HERE:
            continue
        gains: dict[str, list[Floats]] = {}
        for benchmark in BENCHMARKS:
            floors = least_times(benchmark, printed[benchmark.name][0], lab)
            gains[benchmark.name] = [gain(benchmark, BOTH, over, lab, floors) for over in OVER.values()]
            rows.append(Row("factor of least times", benchmark.name, platform, "x", floors, basis=GIVEN))
        gains[ALL] = [geometric([values[place] for values in gains.values()]) for place in range(len(OVER))]
        rows += [
            row(quantity, name, platform, "x", values[place], printed[name][place], basis=(GIVEN, PREDICTED)[place])
            for place, quantity in enumerate(OVER)
            for name, values in gains.items()
        ]
    notes = [
        (
            "The paper publishes neither times nor batch sizes of these platforms. For each network we multiply the "
            "least times of the RTX 2080 Ti by one factor, so that the gain over batch size 1 is the paper's. Batch "
            "sizes stay. This predicts the gain over padding."
        ),
        (
            "The predictions are near the paper's for the CNNs, and for BERT on the A40. They are far off for "
            "transformers on the Jetson, and for translation on the A40. The Jetson has small least times, so that "
            "padding would cost its full time at our batch sizes: the paper must have had other sizes there."
        ),
    ]
    title = "Table III: other platforms, with one factor given for each network"
    return Item("batchcond_platforms", title, notes, rows, picture="bars")


def batchcond_table4(lab: Lab) -> Item:
    """Gain in the similarity of the inputs of a batch."""
    printed, ratios = PUBLISHED["variance"], {}
    for benchmark in BENCHMARKS:
        ratios[benchmark.name] = variances(benchmark, PADDED, lab) / variances(benchmark, SIMILAR, lab)
    basis = dict.fromkeys((CNN.name, SLIMMABLE.name, ALL), CALIBRATED)
    open_ = [name for name in ratios if name not in basis]
    mean = {ALL: geometric(list(ratios.values())), OPEN: geometric([ratios[name] for name in open_])}
    paper = printed | {OPEN: float(geometric([np.array(printed[name]) for name in open_]))}
    rows = [
        row("reduction of variance", name, HERE, "x", ratio, paper[name], basis=basis.get(name, PREDICTED))
        for name, ratio in (ratios | mean).items()
    ]
    notes = [
        (
            "We compare random batches with similar ones by the variance within a batch, averaged over batches: the "
            "variance of depth for the early-exit CNN, of width for the others. The paper does not say which variance "
            "it means, nor how large the batches of sentences are. With known lengths the variance falls with the "
            "square of the batch size."
        ),
        "The first two figures chose the correlations of predictions, .71 and .42. Lengths need no prediction.",
        (
            f"So the mean of all five is no prediction. The {OPEN} is one; it is compared with the same mean of the "
            "paper's figures."
        ),
    ]
    return Item("batchcond_table4", "Table IV: variance within batches", notes, rows, picture="bars")


def batchcond_table5(lab: Lab) -> Item:
    """Against LazyBatching, and against sorting by length."""
    printed, rows = PUBLISHED["others"], []
    for benchmark in (CNN, SEQUENCES):
        for name, policy in (("LazyBatching", "lazy"), (f"LazyBatching, b_max = {STALLED}", f"lazy:b_max={STALLED}")):
            ratio = makespans(benchmark, BOTH, lab, policy=policy) / makespans(benchmark, BOTH, lab)
            paper = printed["LazyBatching"][benchmark.name]
            basis = ASSUMED if "b_max" in policy else PREDICTED
            rows.append(row(f"gain over {name}", "BatchCond", benchmark.name, "x", ratio, paper, basis=basis))
    for benchmark in (ENCODER, EARLY_EXIT, SEQUENCES):
        paper = printed["sorting by length"][benchmark.name]
        ratio = gain(benchmark, BOTH, SIMILAR, lab)
        rows.append(row("gain over sorting by length", "BatchCond", benchmark.name, "x", ratio, paper, basis=PREDICTED))
    notes = [
        (
            "The rules of both baselines are not published for this case: the paper reproduced them as well as it "
            "could. For LazyBatching we take the policy `lazy`, once without a limit and once with at most "
            f"{STALLED} samples on the device, since activations of samples that wait fill its memory. For sorting by "
            "length we take similar batches without reorganisation."
        ),
    ]
    return Item("batchcond_table5", "Table V: against other ways to batch", notes, rows, picture="bars")


def batchcond_fig7(lab: Lab) -> Item:
    """Contribution of each part."""
    parts = {"SimBatch": SIMILAR, "ABR": REORGANISED, "both": BOTH}
    rows, mean, printed = [], {}, PUBLISHED["parts"]
    for name, way in parts.items():
        gains = {benchmark.name: gain(benchmark, way, PADDED, lab) for benchmark in BENCHMARKS}
        mean[name] = geometric(list(gains.values()))
        basis = CALIBRATED if way is BOTH else PREDICTED
        rows += [row("gain over padding", name, at, "x", values, basis=basis) for at, values in gains.items()]
        paper = printed.get(name) if name == "SimBatch" else None
        rows.append(row("gain over padding", name, ALL, "x", mean[name], paper, basis=basis))
    more = mean["both"] / mean["SimBatch"]
    rows.append(row("gain over SimBatch", "BatchCond", ALL, "x", more, printed["ABR"], basis=PREDICTED))
    claims = []
    for benchmark in (EARLY_EXIT, SEQUENCES):
        by_depth = makespans(benchmark, BOTH._replace(by="depth"), lab) / makespans(benchmark, BOTH, lab)
        paper = PUBLISHED["depth_and_width"]["width_over_depth"]
        rows.append(
            row(
                "batches similar in width, over depth",
                "BatchCond",
                benchmark.name,
                "x",
                by_depth,
                paper,
                basis=PREDICTED,
            )
        )
        statement = f"Batches similar in width are faster than batches similar in depth, {benchmark.name}"
        ours, reason = f"{by_depth.mean():.2f}x", "with predictions as good as the CNN's, the steps decide the time"
        claims.append(Claim(statement, "V-A", f"{paper:g}x on average", ours, bool(by_depth.min() > 1), reason))
    apart = [mean[name].mean() for name in ("SimBatch", "ABR")]
    claims.append(
        Claim("SimBatch and ABR add up", "V-B", "1.8x and another 1.4x",
              f"alone {apart[0]:.2f}x and {apart[1]:.2f}x, together {mean['both'].mean():.2f}x", bool(more.min() > 1))
    )  # fmt: skip
    notes = [
        (
            "The figure shows each part alone, and both together. In our model a stage takes a least time, or a time "
            "for each sample if that is longer. So the parts overlap: where reorganisation may split freely, similar "
            "batches add little."
        ),
        "We assume that depth is predicted for the transformers as well as for the CNN, with a correlation of .71.",
    ]
    return Item("batchcond_fig7", "Fig. 7: parts of the gain", notes, rows, claims=claims, picture="bars")
