"""The SUSHI scheduler with a queue, an experiment that the paper does not have."""

from __future__ import annotations

import numpy as np

from ...traffic import poisson
from ..lab import Lab, row
from ..rows import PREDICTED, Claim, Item
from .readings import Reading
from .scheduler import COLUMNS, QUERIES, SEEDS, Q, serve, times_of, with_constraints

CONTENDERS = {
    "largest SubNet": "subnet={last},graph=0",
    "no buffer, strict": "mode=latency,graph=0",
    "no buffer, slack": "mode=slack,graph=0",
    "SUSHI, strict": "mode=latency,distance=l2",
    "SUSHI, slack": "mode=slack,distance=l2",
    "by table, slack": "mode=slack,distance=latency",
    "by table, slack, charged": "mode=slack,distance=latency,refill=charged",
    "clairvoyant, slack": "mode=slack,graph=clairvoyant",
}
"""Contenders, each with the options of its policy; ``last`` is the largest SubNet."""

LOADS = (0.3, 0.5, 0.7, 0.9, 1.1)
"""Arrival rates, as shares of the mean rate of the SubNets with nothing resident, each equally often."""

SLACK = 4.0
"""Ratio of latency objectives to times of the SubNets, to leave room for a wait."""

BOARD = Reading("board", "MobileNet-V3", chip="sushi-zcu104")


def sushi_queue(lab: Lab) -> Item:
    """Violations and accuracy by load on ZCU104."""
    table, rows = BOARD.latency(COLUMNS), []
    mean_s, last = float(times_of(table)[0].mean()), len(table.subnets or []) - 1
    late_at, right_at = dict[str, float](), dict[str, float]()  # at the load in the middle
    for load in LOADS:
        rate = load / mean_s
        traffic = [
            with_constraints(table, poisson(rate, lab.requests or QUERIES, seed), seed, SLACK)
            for seed in lab.first(SEEDS)
        ]
        for name, options in CONTENDERS.items():
            runs = [serve(table, one, f"q={Q},{options.format(last=last)}") for one in traffic]
            late = np.array([100 * run.summary.violation_rate for run in runs])
            right = np.array([100 * (run.subnets.served_accuracy or 0.0) for run in runs])
            rows.append(row("violations", name, BOARD.net, "%", late, x=rate, basis=PREDICTED))
            rows.append(row("accuracy served", name, BOARD.net, "%", right, x=rate, basis=PREDICTED))
            if load == LOADS[len(LOADS) // 2]:
                late_at[name], right_at[name] = float(late.mean()), float(right.mean())

    strict, slack, table_, future = (
        late_at[name] for name in ("SUSHI, strict", "SUSHI, slack", "by table, slack", "clairvoyant, slack")
    )
    without, charged = late_at["no buffer, slack"], late_at["by table, slack, charged"]
    at = f"at {100 * LOADS[len(LOADS) // 2]:g} % load"
    claims = [
        Claim(f"With a queue, the time that is left of the SLO must decide, {at}", "asked by us", "fewer violations",
              f"{slack:.2f} % by slack, {strict:.2f} % by STRICT_LATENCY", slack < strict),
        Claim(f"A persistent buffer saves violations, {at}", "asked by us", "fewer",
              f"{table_:.2f} % by table, {without:.2f} % without a buffer", table_ < without,
              f"the accuracy served is {right_at['by table, slack']:.2f} %, and {right_at['no buffer, slack']:.2f} % "
              "without"),
        Claim(f"A refill that is charged costs little, {at}", "asked by us", "little",
              f"{charged:.2f} % charged, {table_:.2f} % free", charged - table_ < 1.0),
        Claim(f"Knowing the next {Q} queries would save violations, {at}", "asked by us", "fewer",
              f"{future:.2f} % clairvoyant, {table_:.2f} % by table", future < table_),
    ]  # fmt: skip
    notes = [
        (
            f"MobileNet-V3 on ZCU104, {COLUMNS} columns, Q = {Q}, Poisson queries. Each SubNet's accuracy is asked for "
            f"equally often; SLOs are {SLACK:g} times uniform times of the SubNets."
        ),
    ]
    title = "The scheduler with a queue, MobileNet-V3 on ZCU104"
    return Item("sushi_queue", title, notes, rows, "arrival rate, 1/s", claims)
