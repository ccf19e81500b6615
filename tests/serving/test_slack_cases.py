"""fluid-slack against FluidB on random devices: nowhere more violations on every seed.

A few are drawn; `FLUIDB_SLACK=1000 pytest tests/serving/test_slack_cases.py` draws more.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from builders import COMPILED, table_of
from fluidb.serving import find_policy, simulate
from fluidb.serving.networks import ServedNetwork
from fluidb.studies.saturation import saturation_rate
from fluidb.tables.latency import LatencyTable
from fluidb.traffic import Trace, Traffic, prepare

CASES = int(os.environ.get("FLUIDB_SLACK", "40"))
SEEDS, REQUESTS = 5, 2_000
Random = np.random.Generator


def stage_s(random: Random, b_max: int) -> list[float]:
    """Times of a stage by batch size: affine, concave, in steps, or constant up to a size."""
    batch, scale, fixed = np.arange(1, b_max + 1), random.uniform(0.2e-3, 3e-3), random.uniform(0, 1)
    forms = (
        fixed + (1 - fixed) * batch,
        batch ** random.uniform(0.2, 1),
        fixed + (1 - fixed) * np.ceil(batch / random.integers(2, 9)),
        np.maximum(1, batch / random.uniform(1, b_max + 1)),
    )
    found: list[float] = (scale * forms[random.integers(len(forms))]).tolist()
    return found


def device(random: Random) -> LatencyTable:
    """A device of one to three lanes, and a network of one to eight exits."""
    b_max = int(random.choice([1, 2, 3, 4, 6, 8, 9, 12, 16, 24, 32, 48, 64]))
    stages, lanes = int(random.choice([1, 1, 2, 3, 4, 8])), int(random.choice([1, 1, 1, 2, 3]))
    table = table_of([stage_s(random, b_max) for _ in range(stages)])
    content = table.model_dump()
    for row, rate in zip(content["exits"], random.dirichlet(np.full(stages, random.choice([0.3, 1, 3]))), strict=True):
        row["rate"] = float(rate)
    if lanes > 1:
        batch = np.arange(b_max + 1)
        load = random.uniform(0.6, 1.3) * batch / (batch + random.uniform(0.1, 5))
        content |= {"lanes": lanes, "load": load.tolist()}
    return LatencyTable.model_validate(content)


def gaps_s(random: Random, kind: str, rate_per_s: float) -> np.ndarray:
    """Gaps between arrivals: Poisson, gamma, groups of ten, or a rate that is high and low in turn (MMPP)."""
    if kind == "gamma":
        cv = random.uniform(1.5, 4)
        return random.gamma(1 / cv**2, cv**2 / rate_per_s, REQUESTS)
    gaps = random.exponential(1 / rate_per_s, REQUESTS)
    if kind == "groups":
        return np.where(np.arange(REQUESTS) % 10 == 0, 10 * gaps, 0.0)
    if kind == "mmpp":
        high = np.repeat(random.permuted([0, 1] * 10), REQUESTS // 20)
        return gaps / np.where(high, 1.7, 0.3)
    return gaps


def traffic(
    random: Random, table: LatencyTable, load: float, slo_x: float, kind: str, mixed: bool, seed: int
) -> Traffic:
    arrival_s = np.cumsum(gaps_s(random, kind, load * saturation_rate(ServedNetwork(table=table))))
    slo_s = slo_x * table.array()[0, -1, 1] * (random.choice([1.0, 2.0, 5.0], REQUESTS) if mixed else np.ones(REQUESTS))
    trace = Trace(np.arange(REQUESTS), arrival_s - arrival_s[0], slo_s=slo_s)
    return prepare(trace, [row.rate for row in table.exits], slo_s=None, seed=seed)


@pytest.mark.skipif(not COMPILED, reason="minutes as plain Python")
@pytest.mark.parametrize("case", range(CASES))
def test_never_worse_on_every_seed(case: int) -> None:
    random = np.random.default_rng(case)
    table = device(random)
    load, slo_x = random.uniform(0.3, 1.3), float(np.exp(random.uniform(np.log(1.05), np.log(10))))
    kind, mixed = str(random.choice(["poisson", "gamma", "groups", "mmpp"])), bool(random.random() < 0.3)
    more = []
    for seed in range(SEEDS):
        requests = traffic(random, table, load, slo_x, kind, mixed, seed)
        fluid, slack = (
            simulate(table, requests, find_policy(f"{name}:lanes={table.lanes}")).violated.sum()
            for name in ("fluid", "fluid-slack")
        )
        more.append(int(slack - fluid))
    assert min(more) <= 0, (table.b_max, table.lanes, len(table.exits), load, slo_x, kind, mixed, more)
