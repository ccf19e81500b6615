"""Fig. 6: the data that AlexNet's devices send, and the time to send it."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from ...dse.partition.study import study
from ...tables.partition import FusionRule, PartitionOptions, PartitionTable
from ..lab import Lab
from ..rows import PREDICTED, Claim, Item, Row
from .cluster import cluster, network

COUNTS = tuple(range(1, 7))
BANDWIDTHS = (10, 25, 50, 75, 100, 125, 150, 200, 500)
"""Mb/s; the paper's axis has no numbers in its text."""

USUAL = 100
"""Mb/s of Section 4.2."""

RULES = (FusionRule.MARGINAL, FusionRule.OPTIMAL)

At = tuple[int, int]
"""A number of devices and a bandwidth."""


class _Sent(NamedTuple):
    """Communication of a sample that runs to the end."""

    megabytes: float
    time_ms: float
    share: float  # of its time, in %
    blocks: list[str]

    @classmethod
    def of(cls, table: PartitionTable) -> _Sent:
        spent_s = table.communication_s
        blocks = [block.title for block in table.blocks]
        return cls(table.communication_bytes / 1e6, 1e3 * spent_s, 100 * spent_s / table.exit_s[-1], blocks)


def _sent(rule: FusionRule) -> dict[At, _Sent]:
    """Communication by number of devices and bandwidth."""
    return {
        (len(studied.every.devices), bandwidth): _Sent.of(studied.every)
        for bandwidth in BANDWIDTHS
        for studied in study(
            network("alexnet_cifar10"), cluster("A").with_bandwidth(bandwidth), PartitionOptions(rule=rule), COUNTS
        )
    }


def _rises(by: dict[At, _Sent], key: str) -> list[tuple[At, At]]:
    """Neighbouring bandwidths between which a figure rises."""
    pairs = [((n, a), (n, b)) for n in COUNTS[1:] for a, b in pairwise(BANDWIDTHS)]
    return [(a, b) for a, b in pairs if getattr(by[a], key) < getattr(by[b], key)]


def _falls(by: dict[At, _Sent], key: str, unit: str) -> tuple[str, str]:
    """How a figure falls with the bandwidth, and what is known of where it does not."""
    ends = [(getattr(by[COUNTS[-1], b], key), b) for b in (BANDWIDTHS[0], BANDWIDTHS[-1])]
    ours = f"{COUNTS[-1]} devices " + ", ".join(f"{value:.1f} {unit} at {b} Mb/s" for value, b in ends)
    rises = _rises(by, key)
    if not rises:
        return ours, ""
    places = ", ".join(f"{n} devices from {a} to {b} Mb/s" for (n, a), (_, b) in rises)
    other = [100 * (by[b].megabytes / by[a].megabytes - 1) for a, b in rises if by[a].blocks != by[b].blocks]
    reason = f"other blocks are chosen in {len(other)} of {len(rises)} cases"
    if other:
        reason += f", which send up to {max(other):.0f} % more"
    return f"{ours}, but it rises with {places}", reason


def _by_rule(texts: list[str]) -> str:
    """What is found by each rule, once if it is the same."""
    if len(set(texts)) == 1:
        return texts[0]
    return "; ".join(f"`{rule}`: {text}" for rule, text in zip(RULES, texts, strict=True))


def edgesp_fig6(_: Lab) -> Item:
    """Data, time and share of the time by number of devices and bandwidth, for a sample that runs to the end."""
    by_rule = [_sent(rule) for rule in RULES]
    first, most, rows = by_rule[0], COUNTS[-1], list[Row]()
    rows += [
        Row("data sent", f"{USUAL} Mb/s", "over devices", "MB", first[n, USUAL].megabytes, x=float(n), basis=PREDICTED)
        for n in COUNTS
    ]
    for (n, bandwidth), sent in sorted(first.items()):
        if n > 1:
            where = (f"{n} devices", "over bandwidth, Mb/s")
            rows += [
                Row(quantity, *where, unit, value, x=float(bandwidth), basis=PREDICTED)
                for quantity, unit, value in (
                    ("time to send", "ms", sent.time_ms), ("share of the time", "%", sent.share)
                )
            ]  # fmt: skip
    rows += [
        Row(f"share of the time, {most} devices", f"rule {rule}", f"{b} Mb/s", "%", by[most, b].share, basis=PREDICTED)
        for rule, by in zip(RULES, by_rule, strict=True)
        for b in BANDWIDTHS
    ]
    alike = sum(first[at].blocks == by_rule[1][at].blocks for at in first)
    notes = [
        (
            "Samples run to the last exit on preset A. A time is the sending time of the device that finishes a "
            "block last, plus the time of gathering."
        ),
        (
            f"Blocks are fused by the rules {' and '.join(f'`{rule}`' for rule in RULES)}, which choose the same ones "
            f"in {alike} of {len(first)} cases. The picture shows the first rule."
        ),
    ]
    title = "Fig. 6: AlexNet's communication"
    return Item("edgesp_fig6", title, notes, rows, "devices or Mb/s", _claims(by_rule), "cells")


def _claims(by_rule: list[dict[At, _Sent]]) -> list[Claim]:
    few, many = COUNTS[1], COUNTS[-1]
    data = [[by[n, USUAL] for n in COUNTS] for by in by_rule]
    less = [
        f"with {n} devices {len(after.blocks)} blocks are chosen instead of {len(before.blocks)}"
        for n, (before, after) in enumerate(pairwise(data[0]), COUNTS[1])
        if after.megabytes < before.megabytes
    ]

    def beside(key: str, unit: str) -> str:
        ends = [(getattr(by[few, USUAL], key), getattr(by[many, USUAL], key)) for by in by_rule]
        return _by_rule([f"{few} devices {a:.1f} {unit}, {many} devices {b:.1f} {unit}" for a, b in ends])

    def more(key: str, less: int, than: int) -> bool:
        return all(getattr(by[less, b], key) < getattr(by[than, b], key) for by in by_rule for b in BANDWIDTHS)

    claims = [
        Claim("More devices send more data", "4.3", "grows",
              _by_rule([", ".join(f"{sent.megabytes:.2f}" for sent in row) + " MB" for row in data]),
              all(a.megabytes <= b.megabytes for row in data for a, b in pairwise(row)), ", ".join(less)),
        Claim("Fewer devices take longer to send", "4.3", "longer", f"{beside('time_ms', 'ms')} at {USUAL} Mb/s",
              more("time_ms", many, few)),
        Claim("The share is higher with more devices", "4.3", "higher", f"{beside('share', '%')} at {USUAL} Mb/s",
              more("share", few, many)),
    ]  # fmt: skip
    for name, key, unit in (("time", "time_ms", "ms"), ("share", "share", "%")):
        judged = [_falls(by, key, unit) for by in by_rule]
        claims.append(
            Claim(f"The {name} falls with the bandwidth", "4.3", "falls", _by_rule([ours for ours, _ in judged]),
                  not any(_rises(by, key) for by in by_rule), _by_rule([reason for _, reason in judged]))
        )  # fmt: skip
    return claims
