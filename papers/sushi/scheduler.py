"""The scheduler, one query at a time as in the paper: Figs. 15 to 18, Tables 5 and 6, hit ratio."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ...formats.array_types import Floats
from ...serving import Replay, Summary, find_policy, simulate, summarise
from ...serving.subnets import SubNetSummary
from ...tables.latency import LatencyTable
from ...traffic import Trace, Traffic, prepare
from ...traffic.additions import add_columns
from ...traffic.distributions import Distribution
from ..lab import Lab, row
from ..rows import ASSUMED, CALIBRATED, NEAR, PREDICTED, Claim, Item, Row
from . import PUBLISHED
from .readings import CHOSEN, MOBILENET, MOBILENET_BOARD, MOBILENET_IDEAL, RESNET, RESNET_BOARD, RESNET_IDEAL, Reading

SEEDS, QUERIES, COLUMNS, Q = 5, 20_000, 100, 8

WITHOUT, UNAWARE, SHARED, SUSHI = "no buffer", "any SubGraph", "shared SubGraph", "SUSHI"
BY_TABLE, CLAIRVOYANT = "SUSHI by table", "clairvoyant"
CONTENDERS = {
    WITHOUT: "graph=0",
    UNAWARE: "graph={}",
    SHARED: "graph=1",
    SUSHI: "distance=l2",
    BY_TABLE: "distance=latency",
    CLAIRVOYANT: "graph=clairvoyant",
}
"""Contenders: nothing resident; always one SubGraph, any or the common part of all SubNets; the nearest SubGraph; the
fastest for the last Q queries; the best for the next Q."""

ANY = 24
"""SubGraphs, at equal distances in the table, whose mean stands for any that stays."""


def _by_time(saved: float) -> str:
    """Why the nearest SubGraph is no good choice: what the fastest one saves."""
    return (
        "the nearest SubGraph is not the fastest, because a channel counts alike in small and large layers: chosen by "
        f"time it saves {saved:.2f} %"
    )


class SeedRun(NamedTuple):
    """A replay of one seed."""

    replay: Replay
    summary: Summary
    subnets: SubNetSummary

    @property
    def latency_ms(self) -> float:
        """Mean latency of a query."""
        return 1e3 * self.summary.mean_latency_s


def times_of(table: LatencyTable) -> Floats:
    """L[state, SubNet], seconds."""
    return table.stage_array()[:, 0, 1].reshape(table.axes[:2])


def with_constraints(table: LatencyTable, trace: Trace, seed: int, slack: float = 1.0) -> Traffic:
    """Queries whose constraints can be met with nothing resident, so that each SubNet is asked for.

    Each accuracy is the accuracy of a SubNet.  Uniform ones between the lowest and the highest would never ask for
    the smallest SubNet, and times up to the longest would never allow the largest one: times go one step further.
    """
    empty_s = slack * times_of(table)[0]
    low_s, high_s = float(empty_s.min()), float(empty_s.max())
    columns = {
        "min_accuracy": Distribution("list", tuple(net.accuracy or 0.0 for net in table.subnets or [])),
        "slo": Distribution("uniform", (low_s, high_s + (high_s - low_s) / max(1, len(empty_s) - 1))),
    }
    return prepare(add_columns(trace, seed, columns), [1.0])


def apart(table: LatencyTable, lab: Lab, seed: int) -> Traffic:
    """Random queries; each finds the accelerator idle, as in the paper."""
    count = lab.requests or QUERIES
    every_s = 2.0 * float(times_of(table).max())
    return with_constraints(table, Trace(np.arange(count), np.arange(count) * np.float64(every_s)), seed)


def serve(table: LatencyTable, traffic: Traffic, options: str) -> SeedRun:
    """Serve with the policy ``sushi``."""
    replay = simulate(table, traffic, find_policy(f"sushi:{options}"))
    summary = summarise(replay)
    assert summary.subnets is not None
    return SeedRun(replay, summary, summary.subnets)


def all_seeds(reading: Reading, lab: Lab, options: str, columns: int = COLUMNS) -> list[SeedRun]:
    """A replay for each seed, of the same queries for all options."""
    table = reading.latency(columns)
    return [serve(table, apart(table, lab, seed), options) for seed in lab.first(SEEDS)]


def contend(name: str, reading: Reading, lab: Lab, mode: str, columns: int = COLUMNS) -> list[list[SeedRun]]:
    """Replays of a contender by seed; of one that keeps any SubGraph, a list for each of several SubGraphs."""
    options, states = f"mode={mode},q={Q},{CONTENDERS[name]}", len(reading.latency(columns).states or [])
    kept = np.unique(np.linspace(1, states - 1, ANY).round().astype(int)) if name == UNAWARE else [0]
    return [all_seeds(reading, lab, options.format(state), columns) for state in kept]


def latency(runs: list[list[SeedRun]]) -> Floats:
    """Mean latency in ms, by seed."""
    return np.asarray(np.mean([[run.latency_ms for run in one] for one in runs], axis=0))


def accuracy(runs: list[list[SeedRun]]) -> Floats:
    """Accuracy served in %, by seed."""
    return np.asarray(np.mean([[100 * (run.subnets.served_accuracy or 0.0) for run in one] for one in runs], axis=0))


def less(times: Floats, base: Floats) -> Floats:
    """Latency saved in percent, by seed."""
    return 100 * (1 - times / base)


def sushi_fig15(lab: Lab) -> Item:
    """Shares of queries whose constraint each mode meets."""
    rows, claims = [], []
    for reading in (RESNET, MOBILENET):
        timely, accurate = (
            all_seeds(reading, lab, f"mode={mode},q={Q},{CONTENDERS[SUSHI]}") for mode in ("latency", "accuracy")
        )
        for name, kept in (
            ("latency", np.array([100 * (1 - run.summary.violation_rate) for run in timely])),
            ("accuracy", np.array([100 * (1 - (run.subnets.accuracy_miss_rate or 0.0)) for run in accurate])),
        ):
            rows.append(row(f"constraint on {name} met", f"STRICT_{name.upper()}", reading.net, "%", kept))
            claims.append(
                Claim(f"{reading.net}: STRICT_{name.upper()} keeps to the constraint", "5.6", "almost always",
                      f"at least {kept.min():.2f} % of the queries", bool(kept.min() > 99.0),
                      f"with {(kept > 99.0).sum()} of {kept.size} seeds")
            )  # fmt: skip
    notes = [
        (
            "Every constraint can be met with nothing resident. A query asks for the accuracy of a SubNet, or for a "
            "time between the time of the smallest SubNet and one step more than the time of the largest."
        )
    ]
    return Item("sushi_fig15", "Fig. 15: constraints that are met", notes, rows, claims=claims, picture="bars")


def _out_of_reach(reading: Reading, own: dict[str, Floats], ideal: dict[str, Floats]) -> str:
    """What keeps an average of the paper out of reach: on our side the array, on its side its own Fig. 10."""
    ours = (
        f"a choice that knows the next {Q} queries saves {own[CLAIRVOYANT].mean():.1f} % on our array, whose "
        f"utilisation is {reading.utilisation:.0f} %; at ideal utilisation it saves {ideal[CLAIRVOYANT].mean():.1f} "
        f"%, and SUSHI saves {ideal[SUSHI].mean():.1f} %"
    )
    paper, most = PUBLISHED["fig16"][reading.net], max(PUBLISHED["fig10"][reading.net])
    theirs = f"; the paper's average exceeds the most that any SubNet saves in its own Fig. 10, {most:g} %"
    return f"{ours}{theirs if paper > most else ''}; its baseline is not defined"


def sushi_fig16(lab: Lab) -> Item:
    """End to end: latency at the same accuracy, accuracy at the same latency."""
    rows, claims, printed = [], [], PUBLISHED["fig16"]
    small = replace(MOBILENET, name="potential, 80 x 9, all at 128", smallest=None, side=128)
    ideal = {RESNET: RESNET_IDEAL, MOBILENET: MOBILENET_IDEAL}
    strict: dict[Reading, dict[str, Floats]] = {}
    saved: dict[Reading, dict[str, Floats]] = {}
    for reading in (RESNET, RESNET_BOARD, RESNET_IDEAL, MOBILENET, MOBILENET_BOARD, MOBILENET_IDEAL, small):
        names = [name for name in CONTENDERS if name != UNAWARE or reading not in ideal.values()]
        strict[reading] = own = {name: latency(contend(name, reading, lab, "accuracy")) for name in names}
        timely = {name: accuracy(contend(name, reading, lab, "latency")) for name in names}
        saved[reading] = {name: less(value, own[WITHOUT]) for name, value in own.items()}
        at = f"{reading.net}, {reading.name}"
        for name in [name for name in names if name != WITHOUT]:
            gained = timely[name] - timely[WITHOUT]
            paper, points = (printed[reading.net], printed["accuracy"]) if name == SUSHI else (None, None)
            rows.append(row("latency saved", name, at, "%", saved[reading][name], paper, basis=PREDICTED))
            rows.append(row("accuracy gained", name, at, "points", gained, points, basis=PREDICTED))
    for reading, best in ideal.items():
        paper, ours = printed[reading.net], float(saved[reading][SUSHI].mean())
        claims.append(
            Claim(f"SUSHI shortens {reading.net} by {paper:g} % at the same accuracy", "5.7", f"{paper:g} %",
                  f"{ours:.1f} %", abs(ours - paper) < NEAR * paper,
                  _out_of_reach(reading, saved[reading], saved[best]))
        )  # fmt: skip
        gap, table = (float(less(strict[reading][name], strict[reading][UNAWARE]).mean()) for name in (SUSHI, BY_TABLE))
        claims.append(
            Claim(f"SUSHI is better than a state-unaware cache, {reading.net}", "5.7", "better",
                  f"{gap:.2f} % less latency", gap > 0, _by_time(table))
        )  # fmt: skip
    notes = [
        (
            "*Latency saved* is under STRICT_ACCURACY, and *accuracy gained* under STRICT_LATENCY, both against the "
            "same queries with nothing resident. The paper prints its largest gain of accuracy; ours are means, of "
            "illustrative accuracies."
        ),
        (
            f"With *any SubGraph* one SubGraph stays, and we take the mean over {ANY} SubGraphs of the table. This "
            "is our reading of SUSHI without its scheduler, as the paper's cache begins with a random SubGraph. "
            "With *shared*, what all SubNets share stays."
        ),
        (
            f"After every {Q} queries *SUSHI* takes the SubGraph that is nearest by ||G - average||_2. *By table* "
            f"takes the SubGraph with which the last {Q} queries would have been fastest. *Clairvoyant* takes the "
            f"best SubGraph for the next {Q}."
        ),
        (
            "With inputs of 128 x 128 MobileNet-V3 saves more: computing takes less time, and fetching is a larger "
            "share of it. The paper does not state its inputs."
        ),
    ]
    return Item("sushi_fig16", "Fig. 16: end to end", notes, rows, claims=claims, picture="dots")


def _by_q(name: str, title: str, reading: Reading, lab: Lab) -> Item:
    """Figs. 17 and 18: latency by the number of queries between two choices."""
    rows, base = [], latency(contend(WITHOUT, reading, lab, "accuracy"))
    saved: dict[str, dict[int, float]] = {}
    steps = (1, 2, 4, 8, 10, 16, 32)
    for of in (SUSHI, BY_TABLE):
        for q in steps:
            savings = less(latency([all_seeds(reading, lab, f"mode=accuracy,q={q},{CONTENDERS[of]}")]), base)
            timely = accuracy([all_seeds(reading, lab, f"mode=latency,q={q},{CONTENDERS[of]}")])
            saved.setdefault(of, {})[q] = float(savings.mean())
            rows.append(row("latency saved", of, reading.net, "%", savings, x=q, basis=PREDICTED))
            rows.append(row("accuracy served", of, reading.net, "%", timely, x=q, basis=PREDICTED))
    printed, own = PUBLISHED[name.removeprefix("sushi_")], saved[SUSHI]
    best = max(own, key=own.__getitem__)
    said = ", ".join(f"Q = {q}: {value:.2f} %" for q, value in own.items())
    few = (
        "queries are drawn independently, so that the last ones say nothing of the next: from Q = 1 to "
        f"{steps[-1]} the most and the least differ by {np.ptp(list(own.values())):.2f} points"
    )
    if "best" in printed:
        wanted, text = [printed["best"]], f"Q = {printed['best']} is best"
    else:
        wanted = printed["better"]
        text = f"Q = {' or '.join(map(str, wanted))} is better than Q = 2 and Q >= {printed['worse']}"
    claims = [
        Claim(text, "A.1", f"Q = {' or '.join(map(str, wanted))}", f"Q = {best} ({said})", best in wanted, few),
        Claim("A choice after each query is the best", "A.1", "Q = 1", f"Q = {best}", best == 1, few),
    ]
    notes = [f"The table has {COLUMNS} columns, and refills are free."]
    return Item(name, title, notes, rows, "queries between two choices, Q", claims)


sushi_fig17 = partial(_by_q, "sushi_fig17", "Fig. 17: how often the buffer changes, ResNet-50", RESNET)
sushi_fig18 = partial(_by_q, "sushi_fig18", "Fig. 18: how often the buffer changes, MobileNet-V3", MOBILENET)


LITTLE = 0.1
"""A difference in latency, in points, that counts as none in Table 5, whose own steps are ten times as large."""


def sushi_table5(lab: Lab) -> Item:
    """Latency saved by the number of columns."""
    printed, rows, claims = PUBLISHED["table5"], [], []
    for reading in (RESNET, MOBILENET):
        savings: dict[str, list[float]] = {}
        kept = contend(UNAWARE, reading, lab, "accuracy", max(printed["columns"]))
        unaware = latency(kept)
        alike = less(np.array([latency([runs]).mean() for runs in kept]), unaware.mean())
        for columns, paper in zip(printed["columns"], printed[reading.net], strict=True):
            for of in (SUSHI, BY_TABLE):
                saved = less(latency(contend(of, reading, lab, "accuracy", columns)), unaware)
                rows.append(row("latency saved", f"{of}, {columns} columns", reading.net, "%", saved,
                                paper if of == SUSHI else None, basis=PREDICTED))  # fmt: skip
                savings.setdefault(of, []).append(float(saved.mean()))
        by_table, size = np.array(savings[BY_TABLE]), printed[reading.net][-1]
        rise, later = by_table[2] - by_table[0], by_table[-1] - by_table[2]
        shape, holds = "more columns help, hardly beyond 80", rise > LITTLE and abs(later) < LITTLE
        if reading is MOBILENET:
            shape, holds = "more columns hardly help", np.ptp(by_table) < LITTLE
        said = ", ".join(f"{value:.2f}" for value in by_table)
        claims.append(
            Claim(f"{reading.net}: {shape}, if the table chooses", "A.2",
                  " ".join(f"{value:g}" for value in printed[reading.net]), f"{said} %", bool(holds))
        )  # fmt: skip
        claims.append(
            Claim(f"{reading.net}: with {printed['columns'][-1]} columns the scheduler saves {size:g} %", "A.2",
                  f"{size:g} %", f"{savings[SUSHI][-1]:.2f} %", abs(savings[SUSHI][-1] - size) < NEAR * size,
                  f"the best of {len(kept)} SubGraphs that stay saves {alike.max():.2f} %; "
                  f"{_by_time(savings[BY_TABLE][-1])}")
        )  # fmt: skip
    notes = [
        (
            f"Savings are against a SubGraph that stays, as the mean over {ANY} SubGraphs of the largest table. This "
            "is our reading of SUSHI without its scheduler, which the paper does not define. A table has the first "
            "columns of a larger one."
        ),
        "*By table* takes the SubGraph with which the last queries would have been fastest.",
    ]
    return Item("sushi_table5", "Table 5: columns of the latency table", notes, rows, claims=claims, picture="dots")


NANOSECONDS = 1.0
"""Assumed time of a step of a choice: a comparison and a multiply-add in a processor's pipeline."""


def sushi_table6(_: Lab) -> Item:
    """Steps of a choice, which the benchmarks time."""
    printed, rows = PUBLISHED["table6"], []
    subnets = len(RESNET.subgraphs().subnets)
    fastest_us = 1e6 * min(min(times) for times in RESNET.subgraphs().time_s)
    for columns, paper in zip(printed["columns"], printed["microseconds"], strict=True):
        steps = columns * subnets
        rows.append(Row("time of a choice", f"{columns} columns", "ResNet-50", "us", 1e-3 * NANOSECONDS * steps,
                        paper=paper, basis=ASSUMED))  # fmt: skip
    last = rows[-1].ours
    claims = [
        Claim("A choice takes less than 1/1000 of an inference", "A.3", "< 1/1000",
              f"1/{fastest_us / last * Q:,.0f} with 2000 columns, once in {Q} queries",
              last / Q < 1e-3 * fastest_us, basis=ASSUMED),
    ]  # fmt: skip
    notes = [
        (
            f"A choice is a product of {subnets} counts with each column. We count these steps and assume "
            f"{NANOSECONDS:g} ns for each, as a result must not depend on the machine. Measured times are in "
            "benchmarks/README.md."
        )
    ]
    return Item("sushi_table6", "Table 6: time to look up", notes, rows, claims=claims, picture="bars")


def sushi_hits(lab: Lab) -> Item:
    """Hit ratio of the served queries."""
    rows = []
    for reading in (RESNET, RESNET_BOARD, MOBILENET, MOBILENET_BOARD):
        for mode in ("accuracy", "latency"):
            runs = all_seeds(reading, lab, f"mode={mode},q={Q},{CONTENDERS[SUSHI]}")
            values = np.array([run.subnets.hit_ratio or 0.0 for run in runs])
            of = f"{reading.net}, {reading.name}"
            basis, paper = CALIBRATED if reading in CHOSEN else PREDICTED, PUBLISHED["hits"][reading.net]
            rows.append(row("hit ratio", of, f"STRICT_{mode.upper()}", "", values, paper, basis=basis))
    mean: dict[str, list[float]] = {}
    for line in rows:
        mean.setdefault(line.of.partition(",")[0], []).append(line.ours)
    resnet, mobilenet = (mean[reading.net][0] for reading in (RESNET, MOBILENET))
    claims = [
        Claim("The hit ratio of the smaller network is higher", "A.4", "0.78 and 0.66",
              f"{mobilenet:.2f} and {resnet:.2f}", mobilenet > resnet, basis=CALIBRATED)
    ]  # fmt: skip
    notes = [
        (
            "The hit ratio is the mean of ||min(SubNet, SubGraph)|| / ||SubNet|| over the queries. The paper does "
            "not say in which mode."
        ),
        "These ratios helped to choose the reading *potential*: with the boards' buffers they are lower.",
    ]
    return Item("sushi_hits", "Appendix A.4: hit ratio", notes, rows, claims=claims, picture="dots")
