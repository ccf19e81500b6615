"""Batches that should be split (Fig. 5), latency of batches (Fig. 6), windows (Fig. 8) and batch sizes (Fig. 9)."""

from __future__ import annotations

import numpy as np

from ..lab import Lab, row
from ..rows import CALIBRATED, PREDICTED, Claim, Item, Row
from . import PUBLISHED
from .benchmarks import (
    ALONE,
    BENCHMARKS,
    BOTH,
    CNN,
    ENCODER,
    PADDED,
    SEEDS,
    SEQUENCES,
    SIMILAR,
    count_of,
    gain,
    replayed,
    table,
    variances,
)

SIZES = (4, 32, 128)
"""Batches of Fig. 5."""

POWERS = (2, 4, 8, 16, 32, 64, 128, 256)
"""Batches of Fig. 9, beside each network's own."""

SHORT, LONG = 64.0, 96.0
"""Lengths of its sentences, in tokens."""

LAYERS = 12
"""Of BERT-base; its table has them as one stage."""

SATURATED = 0.95
"""A window that gives this share of the gain of all has saturated."""


def batchcond_fig5(_: Lab) -> Item:
    """Time of a stage when a batch is split, less that when it is padded."""
    rows, cnn, bert = [], table(CNN.name), table(ENCODER.name)
    point = len(cnn.exits) - 2  # behind the last block but one
    block_s, gather_s = cnn.array()[point, point + 1], cnn.gather_array()[point]
    widths = bert.widths or []
    short_s, long_s = (bert.array(widths.index(width))[0, -1] / LAYERS for width in (SHORT, LONG))
    apart_s = bert.gather_array()[0]
    last, first = {}, {}
    for size in SIZES:
        few = np.arange(1, size)  # samples that left, or that are short
        stay = size - few
        last[size] = block_s[stay] + gather_s[stay] - block_s[size]
        first[size] = short_s[few] + apart_s[few] + long_s[stay] + apart_s[stay] - long_s[size]
        drawn = {"early-exit CNN, last block": last[size], "transformer encoder, first layer": first[size]}
        for at, values in drawn.items():
            rows += [
                Row("split less pad", f"B = {size}", at, "us", 1e6 * value, x=100 * share, basis=PREDICTED)
                for share, value in zip(few / size, values, strict=True)
            ]
    claims = [
        Claim("A large batch that loses few samples should be padded", "III-B, Fig. 5a", "pad",
              f"splitting off one of 128 changes the time by {1e6 * last[128][0]:+.0f} us", bool(last[128][0] > 0)),
        Claim("A small batch should be padded", "III-B, Fig. 5a", "pad",
              f"splitting 4 changes the time by {1e6 * last[4].min():+.0f} us at best", bool(last[4].min() >= 0)),
        Claim("A large batch that loses many should be split", "III-B, Fig. 5a", "split",
              f"splitting 128 changes the time by {1e6 * last[128].min():+.0f} us at best", bool(last[128].min() < 0)),
        Claim("Sentences should be split by length only where the hardware is filled", "III-B, Fig. 5b", "split large",
              f"splitting 4 changes the time by {1e6 * first[4].min():+.0f} us at best, splitting 128 by "
              f"{1e6 * first[128].min():+.0f} us",
              bool(first[4].min() > 0 > first[128].min())),
    ]  # fmt: skip
    notes = [
        "The paper draws this figure without numbers. Ours come from the model of the device.",
        "Splitting is faster where the difference is below 0.",
        f"Sentences have {SHORT:g} or {LONG:g} tokens; x is the share of the shorter ones.",
    ]
    return Item("batchcond_fig5", "Fig. 5: pad or split", notes, rows, "samples that left, or are short, %", claims)


def batchcond_fig6(lab: Lab) -> Item:
    """Latency of batches, sequence to sequence."""
    rows, means, longest = [], {}, {}
    quantiles = np.linspace(0, 1, 11)
    for name, way in (("padding", PADDED), ("BatchCond", BOTH)):
        took = []
        for seed in lab.first(SEEDS):
            replay = replayed(SEQUENCES, way, lab, seed)
            took.append(np.array([
                replay.finish_s[replay.batch == number].max() - replay.start_s[replay.batch == number].min()
                for number in range(1, int(replay.batch.max()) + 1)
            ]))  # fmt: skip
        means[name], longest[name] = (np.array([pick(values) for values in took]) for pick in (np.mean, np.max))
        times_ms = 1e3 * np.array([np.quantile(values, quantiles) for values in took])
        rows += [
            row("latency of a batch", name, SEQUENCES.name, "ms", values, x=100 * quantile, basis=PREDICTED)
            for quantile, values in zip(quantiles, times_ms.T, strict=True)
        ]
    ratio, paper = means["padding"] / means["BatchCond"], PUBLISHED["depth_and_width"]["batch_latency"]
    rows.append(row("mean latency, padding over BatchCond", "BatchCond", "mean", "x", ratio, paper, basis=PREDICTED))
    claims = [
        Claim("The longest latency of a batch is smaller, too", "V-A", "smaller",
              f"{longest['BatchCond'].mean():.3f} s; padding: {longest['padding'].mean():.3f} s",
              bool(np.all(longest["BatchCond"] < longest["padding"])), "the longest sentences come together"),
    ]  # fmt: skip
    notes = ["A latency runs from the time at which a batch enters until its last sample has returned."]
    return Item("batchcond_fig6", "Fig. 6: latency of batches", notes, rows, "faster batches, %", claims)


def batchcond_fig8(lab: Lab) -> Item:
    """Windows, sequence to sequence."""
    rows, count = [], count_of(SEQUENCES, lab)
    windows = [size for size in (64, 128, 256, 512, 1024) if size < count] + [count]
    random = variances(SEQUENCES, PADDED, lab)
    gains = {}
    for window in windows:
        way = BOTH._replace(window=window)
        gains[window] = gain(SEQUENCES, way, PADDED, lab)
        figures = {
            "gain over batch size 1": gain(SEQUENCES, way, ALONE, lab),
            "gain over padding": gains[window],
            "reduction of variance": random / variances(SEQUENCES, SIMILAR._replace(window=window), lab),
        }
        rows += [
            row(quantity, "BatchCond", SEQUENCES.name, "x", values, x=window, basis=PREDICTED)
            for quantity, values in figures.items()
        ]
    at = min(PUBLISHED["window"]["saturates"], count)
    share = gains.get(at, gains[count]) / gains[count]
    least = gains[windows[0]]
    claims = [
        Claim("Gains largely saturate at a window of 512", "V-D, Fig. 8", "saturate",
              f"{100 * share.mean():.1f} % of the gain with the largest window", bool(share.min() >= SATURATED)),
        Claim("Reorganisation alone helps where the window allows no choice", "V-D, Fig. 8", "substantial",
              f"{least.mean():.2f}x over padding at a window of {windows[0]}", bool(least.min() > 1)),
    ]  # fmt: skip
    notes = ["A window of one batch allows no similar batches, so that only reorganisation is left."]
    return Item("batchcond_fig8", "Fig. 8: size of the window", notes, rows, "window, inputs", claims)


def batchcond_fig9(lab: Lab) -> Item:
    """Batch sizes."""
    rows, small = [], {}
    for benchmark in BENCHMARKS:
        for size in (*(size for size in POWERS if size < benchmark.batch), benchmark.batch):
            values = gain(benchmark, BOTH._replace(batch=size), PADDED._replace(batch=size), lab)
            basis = CALIBRATED if size == benchmark.batch else PREDICTED
            rows.append(row("gain over padding", benchmark.name, "all", "x", values, x=size, basis=basis))
            small[benchmark.name, size] = values
    encoder, cnn = small[ENCODER.name, 8], small[CNN.name, 4]
    claims = [
        Claim("Where the least time of the hardware rules, there is no gain: sentences in batches of 8", "V-E, Fig. 9",
              "1x",
              f"{encoder.mean():.2f}x", bool(abs(encoder.mean() - 1) < 0.05)),
        Claim("Batches similar in depth gain even if they are small: early-exit CNN in batches of 4", "V-E, Fig. 9",
              "> 1x", f"{cnn.mean():.2f}x", bool(cnn.min() > 1)),
    ]  # fmt: skip
    notes = ["BatchCond and padding run batches of the same size. The batches that are padded are random."]
    return Item("batchcond_fig9", "Fig. 9: batch sizes", notes, rows, "batch size B", claims)
