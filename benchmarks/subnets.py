"""SUSHI at run time: a million queries with constraints, each served by a SubNet, with about a hundred states."""

from __future__ import annotations

from functools import partial

import numpy as np
from fluidb.dse.subgraphs.search import find_subgraphs, latency_table
from fluidb.models.supernets import load_family
from fluidb.platforms import Accelerator, load_platform
from fluidb.serving import find_policy, simulate
from fluidb.tables.subgraphs import SubGraphOptions
from fluidb.traffic import poisson, prepare
from fluidb.traffic.additions import add_columns, parse_columns
from rounds import BenchmarkTable, Entrant, take_turns, timed

RATE_PER_S = 150.0
STATES = 100
POLICIES = (
    "serial", "sushi", "sushi:mode=accuracy", "sushi:mode=latency", "sushi:distance=latency", "sushi:graph=0",
    "sushi:graph=clairvoyant",
)  # fmt: skip


def measure(rounds: int, count: int) -> BenchmarkTable:
    """OFA-MobileNet-V3 on ZCU104: seven SubNets, and a hundred SubGraphs beside the empty buffer."""
    accelerator = load_platform("sushi-zcu104", kind=Accelerator)
    options = SubGraphOptions(columns=STATES)
    table = latency_table(find_subgraphs(load_family("ofa_mobilenet_v3"), accelerator, options))
    columns = parse_columns(min_accuracy="uniform:0.704,0.766", slo="uniform:5ms,20ms")
    traffic = prepare(add_columns(poisson(RATE_PER_S, count, 1), 1, columns), [1.0])
    entrants = []
    for policy in POLICIES:
        run = partial(simulate, table, traffic, find_policy(policy))
        assert np.isfinite(run().finish_s).all()
        entrants.append(Entrant(policy, timed(run), None if policy == "serial" else "serial", count, ours=True))
    assert table.states is not None
    assert table.subnets is not None
    return BenchmarkTable(
        "subnets",
        "SubNets at run time",
        f"{count:,} Poisson queries at {RATE_PER_S:g}/s with accuracies and SLOs of their own, on ZCU104: "
        f"{len(table.subnets)} SubNets of MobileNet-V3 and {len(table.states)} states of the persistent buffer, one "
        "core. The clairvoyant baseline tries every state on the next 8 queries.",
        take_turns(entrants, rounds),
        "requests",
    )
