"""`plan` against brute force: every design, exit setting and policy simulated whole, by the plain commands' functions."""

from __future__ import annotations

import json
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from builders import POCKET, TINY, Run, board_of, lines
from fluidb.dse import SearchOptions, search
from fluidb.dse.npu.design import tabulate_design
from fluidb.dse.npu.latency import tabulate_latency
from fluidb.dse.npu.space import designs
from fluidb.models import load_network
from fluidb.serving import parse_requirement, simulate, summarise
from fluidb.serving.requirements import judge
from fluidb.serving.scheduler import find_policy
from fluidb.serving.statistics import mean_interval
from fluidb.studies.plan.exits import settings_of
from fluidb.studies.plan.problem import PlanProblem, PlanTraffic, problem_of
from fluidb.studies.plan.search import find_plans
from fluidb.studies.plan.sources import BoardSource, TableSource
from fluidb.traffic import poisson
from fluidb.traffic.samples import Samples, draw_samples, write_samples
from fluidb.traffic.traffic import prepare

NETWORK = load_network(TINY)
POLICIES = ("serial", "adaptb", "lazy", "fluid", "fluid-slack")


def samples_of(count: int, seed: int) -> Samples:
    """Answers that are surer and more often right at later exits."""
    rng = np.random.default_rng(seed)
    hard = rng.random((count, 1))
    confidences = np.clip(1 - hard * [0.9, 0.6] + 0.2 * rng.standard_normal((count, 2)), 0, 1)
    return Samples(confidences, rng.random((count, 3)) < 1 - hard * [0.6, 0.4, 0.3])


def random_problem(seed: int) -> PlanProblem:
    """A small board, three exits, five thresholds, three policies; rates and objectives near what it can keep."""
    draw = Random(seed)
    options = SearchOptions(b_max=draw.choice([2, 3]), stacking=draw.random() < 0.5)
    board = board_of(draw.randint(3, 7), kibit=draw.choice([8, 40]), gb_s=draw.choice([0.05, 0.4]))
    source = BoardSource(NETWORK, board, options)
    whole_s = source.table(len(source.dsps) - 1).array()[0, -1, 1]
    bound = draw.choice([2, 5, 10])
    texts = [draw.choice([f"violation_rate <= {bound} %", f"p95 <= {3e3 * whole_s:.4f}ms", f"mean < {1.5e3 * whole_s:.4f}ms"])]
    if draw.random() < 0.7:
        texts.append(f"accuracy >= {draw.choice([70, 75, 80])} %")
    traffic = PlanTraffic(
        draw.uniform(0.2, 0.9) / whole_s, None, 300, draw.uniform(1.2, 4) * whole_s, samples_of(400, seed), seed, 3
    )
    thresholds = sorted(draw.sample([0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], 5))
    policies = [find_policy(name) for name in draw.sample(POLICIES, 3)]
    return problem_of(NETWORK, [source], policies, [parse_requirement(text) for text in texts], traffic, thresholds)


def brute_force(problem: PlanProblem, thresholds: list[float]) -> list[tuple[int, float, set[tuple[Any, ...]]]]:
    """DSPs and accuracy of the front, and the plans of each that keep the requirements."""
    (source,), asked = problem.sources, problem.traffic
    assert isinstance(source, BoardSource)
    samples = asked.samples
    assert samples is not None
    settings = {}
    for kept in [kept for size in range(3) for kept in combinations((1, 2), size)]:
        for threshold in thresholds:
            sure = np.column_stack([*(samples.confidences[:, place - 1] >= threshold for place in kept), np.ones(400, bool)])
            left = sure.argmax(axis=1)
            shares = np.bincount(left, minlength=len(kept) + 1) / 400
            if (shares[:-1] > 0).all():
                columns = [*(place - 1 for place in kept), 2]
                right = samples.correct[np.arange(400), np.array(columns)[left]].mean()
                settings[kept, threshold if kept else None] = float(right)
    groups: dict[tuple[int, float], set[tuple[Any, ...]]] = {}
    for tile, ((kept, threshold), right) in product(designs(source.board).tolist(), settings.items()):
        network = NETWORK.keep_exits(kept, [NETWORK.exits[place - 1] for place in (*kept, 3)])
        options = source.options.model_copy(update={"tile": tuple(tile)})
        options = SearchOptions.model_validate(dict(options))
        found = search(network, source.board, options)
        table = tabulate_latency(*tabulate_design(network, source.board, options, found))

        def run(policy: str, seed: int, kept=kept, threshold=threshold, table=table):
            here = samples.at_exits(kept, [1] * len(kept))
            trace = draw_samples(poisson(asked.rate_per_s, asked.count, seed), here, seed)
            rates = [1 / (len(kept) + 1)] * (len(kept) + 1)
            traffic = prepare(trace, rates, slo_s=asked.slo_s, seed=seed, threshold=[threshold] * len(kept))
            return summarise(simulate(table, traffic, policy))

        for policy in problem.policies:
            if not all(judge(item, run(policy.spec, asked.seed)).holds for item in problem.requirements):
                continue
            fresh = [run(policy.spec, asked.seed + 1 + at) for at in range(asked.seeds)]
            kept_there = []
            for item in problem.requirements:
                interval = mean_interval(np.array([judge(item, summary).value for summary in fresh]))
                assert interval is not None
                kept_there.append(item.allows(interval.low) and item.allows(interval.high))
            if all(kept_there):
                groups.setdefault((tile[1] * tile[2], right), set()).add((tuple(tile), kept, threshold, policy.spec))
    front, best = [], -1.0
    for (dsps, right), plans in sorted(groups.items(), key=lambda item: (item[0][0], -item[0][1])):
        if right > best:
            front.append((dsps, right, plans))
            best = right
    return front


@pytest.mark.parametrize("seed", range(24))
def test_the_front_is_that_of_brute_force(seed: int) -> None:
    problem = random_problem(seed)
    draw = sorted({item.thresholds[0] for item in problem.settings if item.thresholds})
    wanted = brute_force(problem, [float(item) for item in draw] or [0.5])
    found = find_plans(problem, threads=1 + seed % 2)
    assert [plan.cost for plan in found.front] == [dsps for dsps, _, _ in wanted]
    (source,) = problem.sources
    for plan, (_, right, plans) in zip(found.front, wanted, strict=True):
        setting = problem.settings[plan.candidate.setting]
        assert setting.accuracy == right
        assert source.tiles is not None
        assert setting.thresholds is not None
        at = setting.thresholds[0] if setting.thresholds else None
        policy = problem.policies[plan.candidate.policy].spec
        assert (tuple(source.tiles[plan.candidate.row]), setting.kept, at, policy) in plans
    assert sum(number for name, number in found.counts.items() if name != "all") == found.counts["all"]
    assert found.least_cost is None or not wanted or found.least_cost <= wanted[0][0]
    assert (found.nearest is None) == bool(found.front)
