"""`plan` against brute force: every design, exit setting and policy, all simulated whole."""

from __future__ import annotations

import json
import math
import os
import re
import resource
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from builders import POCKET, TINY, Run, board_of, joint_traffic, lines, plan_traffic, table_of
from fluidb.dse import SearchOptions, search
from fluidb.dse.device.tabulate import tabulate_file
from fluidb.dse.exits.stage_times import stage_times
from fluidb.dse.npu.choices import Overlap
from fluidb.dse.npu.design import tabulate_design
from fluidb.dse.npu.latency import tabulate_latency
from fluidb.dse.npu.resources import Supply
from fluidb.dse.npu.space import designs
from fluidb.dse.npu.tiles import tiles_of
from fluidb.dse.subgraphs.search import find_subgraphs, latency_table
from fluidb.formats import InputError
from fluidb.models import Exit, load_network
from fluidb.models.candidates import with_exits
from fluidb.models.loader import build_network, read_network_file
from fluidb.models.supernets import load_family
from fluidb.platforms import ENERGY_KEYS, Accelerator, Device, load_platform
from fluidb.platforms.host import Host
from fluidb.serving import parse_requirement, simulate, summarise
from fluidb.serving.bound import least_late
from fluidb.serving.networks import as_served
from fluidb.serving.policies import Decision, Policy
from fluidb.serving.requirements import judge
from fluidb.serving.scheduler import Scheduler, find_policy
from fluidb.serving.statistics import Interval, mean_interval
from fluidb.serving.summary import Summary
from fluidb.studies.plan import ask
from fluidb.studies.plan import exits as plan_exits
from fluidb.studies.plan import field as plan_field
from fluidb.studies.plan import runs as plan_runs
from fluidb.studies.plan import search as plan_search
from fluidb.studies.plan import sources as plan_sources
from fluidb.studies.plan.branches import branches_of, first_to_leave
from fluidb.studies.plan.clairvoyant import Clairvoyant
from fluidb.studies.plan.dominance import Unbeaten, faster_is_better
from fluidb.studies.plan.exits import BY_RATE, ExitSetting, as_stated, chosen_settings, settings_of
from fluidb.studies.plan.field import Cost, PlanSpace
from fluidb.studies.plan.given import subnet_sources
from fluidb.studies.plan.hope import Entrant, Hope, NearTask, RaceTask, leave_out_hopeless, required_of
from fluidb.studies.plan.kept import _content, kept_races
from fluidb.studies.plan.least import LeastTimes
from fluidb.studies.plan.plan_traffic import JointTraffic
from fluidb.studies.plan.problem import Fate, PlanNumbers, PlanProblem, fate_of, problem_of
from fluidb.studies.plan.rates import RATIO, find_at_rates, find_highest_rate
from fluidb.studies.plan.record import plan_record
from fluidb.studies.plan.rules import Limit, Load, Until, joint_limits, least_energy, limits_of, surely_run
from fluidb.studies.plan.runs import fresh_runs, networks_on
from fluidb.studies.plan.search import EARLY, STEP, WHOLE, Plans, SearchRun, find_plans
from fluidb.studies.plan.sources import BoardSource, TableSource
from fluidb.studies.plan.trials import TrialRun, Trials
from fluidb.studies.workers import workers
from fluidb.tables.latency import LatencyTable
from fluidb.tables.layer_use import USES, LayerUse
from fluidb.traffic import offline, poisson
from fluidb.traffic.clients import Clients
from fluidb.traffic.exits import decide
from fluidb.traffic.measures import CONFIDENCE, NEVER, Threshold
from fluidb.traffic.samples import Samples, draw_samples, read_samples, write_samples
from fluidb.traffic.traffic import Traffic, prepare
from naive_lateness import surely_late

NETWORK = load_network(TINY)
POLICIES = ("serial", "adaptb", "lazy", "fluid", "fluid-slack")
LEVELS = int(os.environ.get("FLUIDB_PLAN_LEVELS", "2"))
"""Thresholds that random problems try at each exit, beside never."""

DROPPING = ("fluid:on_deadline=answer", "adaptb:on_deadline=answer", "serial:on_deadline=drop", "fluid:admit=queue:2")


def samples_of(count: int, seed: int) -> Samples:
    """Answers that are surer and more often right at later exits."""
    rng = np.random.default_rng(seed)
    hard = rng.random((count, 1))
    confidences = np.clip(1 - hard * [0.9, 0.6] + 0.2 * rng.standard_normal((count, 2)), 0, 1)
    return Samples(confidences, rng.random((count, 3)) < 1 - hard * [0.6, 0.4, 0.3])


def random_problem(seed: int, *, drops: bool = False) -> PlanProblem:
    """A small board, three exits, three thresholds, three policies; rates and objectives near what it can keep.

    ``drops``: of the policies two may leave a request without an answer, or answer it early.
    """
    draw = Random(seed)
    options = SearchOptions(b_max=draw.choice([2, 3]), stacking=draw.random() < 0.5)
    board = board_of(draw.randint(3, 7), kibit=draw.choice([8, 40]), gb_s=draw.choice([0.05, 0.4]))
    energies = dict(zip(ENERGY_KEYS, (4.8, 13.4, 650.0), strict=True))
    board = board.model_copy(update=energies | {"port_words": board.usual_port_words})  # few ports: few designs
    source = BoardSource(NETWORK, board, options, [NETWORK])
    by_cost = np.lexsort((source.nearer(np.arange(len(source.dsps))).whole_s, source.dsps))
    whole_s = source.table(int(by_cost[len(by_cost) // 2])).array()[0, -1, 1]
    bound = draw.choice([2, 5, 10])
    times = 2e3 * whole_s, 1.2e3 * whole_s
    texts = [draw.choice([f"violation_rate <= {bound} %", f"p95 <= {times[0]:.4f}ms", f"mean < {times[1]:.4f}ms"])]
    if draw.random() < 0.7:
        figure = draw.choice(["accuracy", "accuracy_of_all"]) if drops else "accuracy"
        texts.append(f"{figure} >= {draw.choice([70, 75, 80])} %")
    rate_per_s, slo_s = draw.uniform(0.4, 1.4) / whole_s, draw.uniform(0.8, 3) * whole_s
    traffic = plan_traffic(NETWORK, rate_per_s, None, 300, slo_s, samples_of(400, seed), seed, 3)
    tried = sorted(draw.sample([0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], LEVELS))
    names = [*draw.sample(POLICIES, 1), *draw.sample(DROPPING, 2)] if drops else draw.sample(POLICIES, 3)
    policies = [find_policy(name) for name in names]
    return problem_of([source], policies, [parse_requirement(text) for text in texts], traffic, [*tried, "never"])


class Ran(NamedTuple):
    """A plan that keeps the requirements on the first seed."""

    plan: tuple[Any, ...]  # design, exits, threshold, policy
    right: float  # over all requests
    first: Summary
    fresh: list[Summary]
    kept: bool  # on the fresh seeds, too


def thresholds_of(problem: PlanProblem) -> list[float]:
    """The thresholds that the settings of a problem have, never aside."""
    return sorted(
        {float(at) for setting in problem.settings for at in setting.thresholds if at not in (NEVER, BY_RATE)}
    ) or [0.5]


@cache
def every_plan(seed: int, *, drops: bool = False, rate: float = 1.0) -> list[Ran]:
    """All plans of a random problem at a few times its rate, simulated once for the tests that ask about it."""
    problem = random_problem(seed, drops=drops)
    problem = problem if rate == 1 else problem.at_rate(rate * (problem.traffic.rate_per_s or 0.0))
    return list(simulate_plans(problem, thresholds_of(problem)))


def every_setting(samples: Samples, tried: list[float]) -> Iterator[tuple[tuple[int, ...], tuple[Threshold, ...]]]:
    """Every subset of the two exits, each with every threshold or with never; those that let samples leave."""
    choices: list[Threshold | None] = [None, *tried, NEVER]
    for exits in product(choices, repeat=2):
        kept = tuple(place for place, at in enumerate(exits, 1) if at is not None)
        thresholds = tuple(at for at in exits if at is not None)
        gone, of_use = np.zeros(len(samples), np.bool_), True
        for place, at in zip(kept, thresholds, strict=True):
            sure = samples.confidences[:, place - 1] >= CONFIDENCE.least(at)
            of_use &= at == NEVER or bool((sure & ~gone).any())
            gone |= sure
        if of_use:
            yield kept, thresholds


def simulate_plans(problem: PlanProblem, tried: list[float]) -> Iterator[Ran]:
    """Simulate every design, exit setting and policy whole."""
    (source,), asked = problem.sources, problem.traffic
    assert isinstance(source, BoardSource)
    (samples,) = asked.samples_of
    assert samples is not None
    rate_per_s, clients = asked.rate_per_s, asked.clients
    settings: dict[tuple[tuple[int, ...], tuple[Threshold, ...]], float] = {}
    for kept, thresholds in every_setting(samples, tried):
        sure = np.ones((400, len(kept) + 1), np.bool_)
        least = list(map(CONFIDENCE.least, thresholds))
        sure[:, :-1] = samples.confidences[:, [place - 1 for place in kept]] >= np.array(least)
        columns = np.array([*(place - 1 for place in kept), 2])
        settings[kept, thresholds] = float(samples.correct[np.arange(400), columns[sure.argmax(axis=1)]].mean())

    @cache
    def served(kept: tuple[int, ...], thresholds: tuple[Threshold, ...], seed: int) -> tuple[Traffic, float]:
        here = samples.at_exits(kept, [1] * len(kept))
        arrivals = offline(asked.count) if rate_per_s is None else poisson(rate_per_s, asked.count, seed)
        trace = draw_samples(arrivals, here, seed)
        rates = [1 / (len(kept) + 1)] * (len(kept) + 1)
        traffic = prepare(trace, rates, slo_s=asked.slo_s, seed=seed, threshold=thresholds)
        assert trace.correct is not None
        traffic = traffic if clients is None else clients.send(traffic, seed)
        return traffic, float(trace.correct[np.arange(300), traffic.exits - 1].mean())

    tables: dict[tuple[Any, ...], LatencyTable] = {}
    for tile, ((kept, thresholds), right) in product(
        map(tuple, tiles_of(designs(Supply.of(source.board)))), settings.items()
    ):
        if (tile, kept) not in tables:
            network = NETWORK.keep_exits(kept, [NETWORK.exits[place - 1] for place in (*kept, 3)])
            options = SearchOptions.model_validate(dict(source.options) | {"tile": tile})
            result = search(network, source.board, options)
            tables[tile, kept] = tabulate_latency(*tabulate_design(network, source.board, options, result))
        table = tables[tile, kept]

        def run(policy: str, seed: int, kept=kept, thresholds=thresholds, table=table):
            traffic, share = served(kept, thresholds, seed)
            return summarise(simulate(table, traffic, policy)), share

        for policy in problem.policies:
            if NEVER in thresholds and "answer" not in policy.spec:
                continue  # it waits for nothing: without that exit it answers alike and computes less
            first, share = run(policy.spec, asked.seed)
            required = problem.requirements
            if first.deadlines is None:
                required = [
                    replace(requirement, name=requirement.name.removesuffix("_of_all")) for requirement in required
                ]
            if not all(judge(requirement, first).holds for requirement in required):
                continue
            of_all = right if first.deadlines is None else right + (first.deadlines.accuracy_of_all - share)
            fresh = [run(policy.spec, asked.seed + 1 + at)[0] for at in range(asked.seeds)]
            kept_there = []
            for requirement in required:
                values = np.array([judge(requirement, summary).value for summary in fresh])
                interval = mean_interval(values) if np.isfinite(values).all() else Interval(np.inf, np.inf)
                assert interval is not None
                kept_there.append(requirement.allows(interval.low) and requirement.allows(interval.high))
            yield Ran((tile, kept, thresholds, policy.spec), of_all, first, fresh, all(kept_there))


def cost_of(ran: Ran, minimised: str) -> float:
    """DSPs, or the energy of a request on the first seed."""
    if minimised == "dsps":
        return float(ran.plan[0][1] * ran.plan[0][2])
    assert ran.first.energy_j is not None
    return float(f"{ran.first.energy_j:.12g}")


def brute_force(every: list[Ran], minimised: str) -> list[tuple[float, float, set[tuple[Any, ...]]]]:
    """Cost and accuracy of the front, and the plans of each that keep the requirements."""
    groups: dict[tuple[float, float], set[tuple[Any, ...]]] = {}
    for ran in every:
        if ran.kept:
            groups.setdefault((cost_of(ran, minimised), ran.right), set()).add(ran.plan)
    front, best = [], -1.0
    for (cost, right), plans in sorted(groups.items(), key=lambda item: (item[0][0], -item[0][1])):
        if right > best:
            front.append((cost, right, plans))
            best = right
    return front


def p99_of(summaries: list[Summary]) -> float:
    """Mean 99th percentile of some runs."""
    return float(np.mean([item.percentile("p99").latency_s for item in summaries]))


def brute_force_over_p99(every: list[Ran]) -> list[Ran]:
    """The front over the 99th percentile, too: one after another by cost, then accuracy, then p99."""
    ordered = sorted(every, key=lambda ran: (cost_of(ran, "dsps"), -ran.right, p99_of([ran.first])))
    front: list[Ran] = []
    for ran in ordered:
        others = [plan for plan in front if plan.right >= ran.right]
        lower = all(p99_of([ran.first]) < (1 - STEP) * p99_of([item.first]) for item in others)
        if lower and ran.kept and all(p99_of(ran.fresh) < p99_of(item.fresh) for item in others):
            front.append(ran)
    return front


@pytest.mark.parametrize("seed", range(int(os.environ.get("FLUIDB_PLAN_PROBLEMS", "4"))))
@pytest.mark.parametrize("minimised", ["dsps", "energy"])
def test_the_front_is_that_of_brute_force(minimised: Cost, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In waves of two designs, and four are judged at first: those behind a plan on the front are left out."""
    monkeypatch.setattr(plan_field, "WAVE", 2)
    monkeypatch.setattr(plan_search, "REFINED", 4)
    problem = random_problem(seed, drops=seed % 3 == 2)
    wanted = brute_force(every_plan(seed, drops=seed % 3 == 2), minimised)
    answer = find_plans(problem, minimised, SearchRun(threads=1 + seed % 2))
    assert len(answer.front) == len(wanted)
    (source,) = problem.sources
    row_of = {source.tile(row): row for row in range(len(source.dsps))}
    for plan, (_, right, plans) in zip(answer.front, wanted, strict=True):
        setting = problem.settings[plan.numbers.setting]
        assert plan.accuracy == right
        policy = problem.policies[plan.numbers.policy].spec
        assert (source.tile(plan.numbers.row), setting.kept, setting.thresholds, policy) in plans
        alike = np.array([row_of[tile] for tile, *_ in plans])
        work_s = dict(zip(alike.tolist(), LeastTimes.of(source.found_times(alike)).whole_s, strict=True))
        assert work_s[plan.numbers.row] == min(work_s.values())
    assert sum(number for name, number in answer.counts.items() if name != "all") == answer.counts["all"]
    assert answer.least_cost is None or not wanted or answer.least_cost <= wanted[0][0]
    assert (answer.nearest is None) == bool(answer.front)


@pytest.mark.parametrize("seed", range(int(os.environ.get("FLUIDB_PLAN_PROBLEMS", "2"))))
def test_the_front_over_the_percentile_is_that_of_brute_force(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_field, "WAVE", 2)
    monkeypatch.setattr(plan_search, "REFINED", 4)
    rate = 0.02 if seed % 2 else 1.0  # nearly each request is alone: percentiles are near the least that proofs allow
    problem = random_problem(seed)
    problem = problem if rate == 1 else problem.at_rate(rate * (problem.traffic.rate_per_s or 0.0))
    wanted = brute_force_over_p99(every_plan(seed, rate=rate))
    answer = find_plans(problem, over_p99=True)
    assert [(plan.cost, plan.accuracy) for plan in answer.front] == [
        (cost_of(ran, "dsps"), ran.right) for ran in wanted
    ]
    for plan, ran in zip(answer.front, wanted, strict=True):
        assert plan.fresh.figures["p99"].mean == pytest.approx(p99_of(ran.fresh))
    assert answer.over_p99


@pytest.mark.parametrize("minimised", ["dsps", "energy"])
def test_where_fresh_seeds_refute_a_plan_the_next_one_has_its_turn(
    minimised: Cost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fresh seeds that refute four plans of five, by chance: the front has the others."""

    def holds(tile: Sequence[int], *rest: object) -> bool:
        return zlib.crc32(repr((*map(int, tile), *rest)).encode()) % 5 == 0

    problem, (source,) = random_problem(0), random_problem(0).sources
    confirm = plan_search._Walk.confirm

    def by_chance(walk: Any, plan: Any) -> Any:
        setting, policy = walk.problem.settings[plan.setting], walk.problem.policies[plan.policy].spec
        tile = source.tile(plan.row)
        assert tile is not None
        return replace(confirm(walk, plan), verdicts=[holds(tile, setting.kept, setting.thresholds, policy)])

    monkeypatch.setattr(plan_search._Walk, "confirm", by_chance)
    monkeypatch.setattr(plan_field, "WAVE", 2)
    monkeypatch.setattr(plan_search, "REFINED", 4)
    every = [ran._replace(kept=holds(*ran.plan)) for ran in every_plan(0)]
    wanted = [(f"{cost:.12g}", right) for cost, right, _ in brute_force(every, minimised)]
    plans = find_plans(problem, minimised)
    assert [(f"{plan.cost:.12g}", plan.accuracy) for plan in plans.front] == wanted
    assert plans.refuted > 3


def test_with_clients_the_front_is_that_of_brute_force() -> None:
    """What they send follows from each run: rules on arrivals exclude nothing, and a run that fails may end early."""
    given = random_problem(1)
    (source,) = given.sources
    whole_s = max(float(source.table(row).array()[0, -1, 1]) for row in range(len(source.dsps)))
    asked = replace(given.traffic, rate_per_s=None, clients=Clients(3, whole_s / 2, exponential=True))
    texts = f"p95 <= {1.5e3 * whole_s:.4f}ms", f"processing_rate >= {1 / whole_s:.4f} /s"
    tried = thresholds_of(given)
    required = [parse_requirement(text) for text in texts]
    problem = problem_of(given.sources, given.policies, required, asked, [*tried, "never"])
    wanted = brute_force(list(simulate_plans(problem, tried)), "dsps")
    plans = find_plans(problem, run=SearchRun(threads=1))
    assert [(plan.cost, plan.accuracy) for plan in plans.front] == [(cost, right) for cost, right, _ in wanted]
    assert wanted
    assert plans.counts[EARLY]


def test_entries_of_the_field_come_by_rising_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, and none that costs less than what was said to be left before, though few rows are judged at once.

    A row's energy is of its cheapest setting: what costs more waits for the rows behind it.
    """
    monkeypatch.setattr(plan_field, "WAVE", 2)
    monkeypatch.setattr(plan_search, "REFINED", 4)
    walk = plan_search._Walk(random_problem(3), "energy", over_p99=False, first=False, kept=None)
    entries: list[tuple[Any, ...]] = []
    with workers(None, 1) as at:
        for _, wave, rest in walk.waves(at):
            entries += zip(*(column.tolist() for column in wave), strict=True)
            assert max(entries)[0] < rest
    space = PlanSpace(random_problem(3), "energy")
    every = space.entries(slice(None), np.ones(len(space.pairings), np.bool_), space.counts)
    assert sorted(entries) == sorted(zip(*(column.tolist() for column in every), strict=True))
    assert [cost for cost, *_ in entries] == sorted(every.cost.tolist())
    assert len(set(every.row.tolist())) > 12  # judged in three parts


@pytest.mark.parametrize("seed", [17, 28])  # where the rest of a race has the best plan of its cost
def test_of_plans_that_cost_the_same_the_most_accurate_is_taken(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By chance a plan of eight keeps the requirements in the race, and a third of these on fresh seeds, too."""
    given = random_problem(0)
    problem = replace(given, requirements=[parse_requirement("p99 <= 1000s")])
    (source,), numbers = problem.sources, PlanNumbers
    shape = 1, len(source.dsps), len(problem.settings), len(problem.policies)
    in_race, in_fresh = (np.random.default_rng(seed).random((2, *shape)).T < [1 / 8, 1 / 3]).T

    def by_chance(_: object, task: RaceTask) -> plan_runs.RaceResult:
        kept: list[plan_runs.Finisher] = []
        for tried, entrant in enumerate(task.entries):
            if kept and -entrant.less < kept[0].accuracy:
                return plan_runs.RaceResult(kept, 0, 0, 0, len(task.entries) - tried)
            plans = [numbers(0, task.row, entrant.setting, policy) for policy in range(shape[3])]
            kept += [plan_runs.Finisher(at, entrant.cost, None, -entrant.less, 0.0) for at in plans if in_race[at]]
        return plan_runs.RaceResult(kept, 0, 0, 0, 0)

    monkeypatch.setattr(plan_search, "race", by_chance)
    monkeypatch.setattr(
        plan_search._Walk, "confirm", lambda _, plan: plan_runs.FreshFigures({}, [bool(in_fresh[plan])])
    )
    front, every = [(0.0, -1.0)], [numbers(*map(int, at)) for at in np.argwhere(in_race & in_fresh)]
    for cost, less in sorted((float(source.dsps[at.row]), -problem.most_accuracy(0, at.setting)) for at in every):
        if -less > front[-1][1]:
            front.append((cost, -less))
    assert [(plan.cost, plan.accuracy) for plan in find_plans(problem, run=SearchRun(threads=1)).front] == front[1:]


TENTHS = tuple(at / 10 for at in range(1, 11))


def surer_later(count: int, exits: int, seed: int) -> Samples:
    """Answers at early exits and the last that are surer, and more often right, at later ones."""
    rng = np.random.default_rng(seed)
    hard, later = rng.random((count, 1)), np.linspace(0.9, 0.5, exits - 1)
    confidences = np.clip(1 - hard * later + 0.2 * rng.standard_normal((count, exits - 1)), 0, 1)
    return Samples(confidences, rng.random((count, exits)) < 1 - hard * np.append(later, 0.3))


@pytest.mark.parametrize(("exits", "levels"), [(3, TENTHS), (4, TENTHS[::2])])
@pytest.mark.parametrize("seed", range(int(os.environ.get("FLUIDB_PLAN_PROBLEMS", "1"))))
def test_all_thresholds_at_each_exit_are_tried(exits: int, levels: tuple[float, ...], seed: int) -> None:
    """The most accurate plan on given hardware: no setting that is more accurate keeps the requirements."""
    draw = Random(f"{exits} {seed}")
    source = TableSource("one", [table_of([[1.0, draw.uniform(1.1, 1.9)] for _ in range(exits)])])
    samples, network = surer_later(500, exits, seed), NETWORK.model_copy(update={"exits": source.table(0).exits})
    traffic = plan_traffic(network, draw.uniform(0.3, 0.4), None, 200, draw.uniform(8, 9), samples, seed, 2)
    required, policies = [parse_requirement("violation_rate <= 20 %")], [find_policy("serial"), find_policy("fluid")]
    problem = problem_of([source], policies, required, traffic, levels)
    right: dict[tuple[Any, ...], float] = {}
    for at in product([None, *levels], repeat=exits - 1):
        kept = tuple(place for place, level in enumerate(at, 1) if level is not None)
        chosen = tuple(level for level in at if level is not None)
        left = decide(samples.at_exits(kept, [1] * len(kept)).confidences, chosen, len(kept) + 1)
        if set(range(1, len(kept) + 1)) <= set(left.tolist()):
            right[kept, chosen] = samples.correct[np.arange(500), np.array([*kept, exits])[left - 1] - 1].mean()
    assert right == {(setting.kept, setting.thresholds): setting.accuracy for setting in problem.settings}
    by_accuracy: dict[float, list[tuple[int, int]]] = {}
    for number, policy in product(range(len(problem.settings)), range(2)):
        accuracy = problem.settings[number].accuracy
        assert accuracy is not None
        by_accuracy.setdefault(accuracy, []).append((number, policy))
    best: list[tuple[int, int]] = []
    while not best:
        for number, policy in by_accuracy.pop(max(by_accuracy)):
            setting, table = problem.settings[number], problem.served(source.tables(0), number)
            first = summarise(simulate(table, traffic.draw(setting, seed), policies[policy]))
            if judge(required[0], first).holds:
                fresh = {at: traffic.draw(setting, at) for at in traffic.fresh}
                best += [(number, policy)] if fresh_runs(problem, table, policies[policy], fresh).kept else []
    plans = find_plans(problem)
    assert [plan.numbers[2:] for plan in plans.front] == [min(best)]
    assert plans.counts[WHOLE] + plans.counts[EARLY] < plans.counts["all"] / 2


def test_a_threshold_for_each_exit_keeps_what_no_common_one_keeps() -> None:
    """Issue 47, F8: an exit that is right only where it is sure, before one that is right where it is not."""
    confidences = np.array([[0.95, 0.5], [0.5, 0.3], [0.5, 0.1], [0.95, 0.5]] * 50)
    samples = Samples(confidences, np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]] * 50, np.bool_))
    source = TableSource("one", [table_of([[1.0], [1.0], [1.0]])])
    network = NETWORK.model_copy(update={"exits": source.table(0).exits})
    traffic = plan_traffic(network, 0.2, None, 200, 20.0, samples, 0, 2)
    required = [parse_requirement("accuracy >= 90 %")]
    problem = problem_of([source], [find_policy("serial")], required, traffic, [0.2, 0.9])
    (plan,) = find_plans(problem).front
    setting = problem.settings[plan.numbers.setting]
    assert (setting.kept, setting.thresholds, plan.accuracy) == ((1, 2), (0.9, 0.2), 1.0)
    alike = settings_of(network.exits, samples, [0.2, 0.9], alike=True)
    assert max(common.accuracy or 0.0 for common in alike) < 0.9


def test_of_several_rates_plans_that_a_higher_rate_makes_needless_are_left_out() -> None:
    problem = random_problem(1)
    rate_per_s = problem.traffic.rate_per_s
    assert rate_per_s is not None
    rates = [0.3 * rate_per_s, rate_per_s, 0.99 * rate_per_s]
    found = find_at_rates(problem, rates)
    assert [item.problem.traffic.rate_per_s for item in found.searches] == sorted(rates, reverse=True)
    alone = {rate: find_plans(problem.at_rate(rate)).front for rate in rates}
    wanted = [
        (rate, plan.cost, plan.accuracy)
        for rate in sorted(rates, reverse=True)
        for plan in alone[rate]
        if not any(
            other.cost <= plan.cost and other.accuracy >= plan.accuracy
            for higher in rates
            if higher > rate
            for other in alone[higher]
        )
    ]
    assert [(plan.rate_per_s, plan.plan.cost, plan.plan.accuracy) for plan in found.front] == wanted
    assert len({rate for rate, *_ in wanted}) > 1
    assert len(wanted) < sum(map(len, alone.values()))


@pytest.fixture(scope="module")
def kept_search(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plans, bytes]:
    """A search, and its file of simulations."""
    path = tmp_path_factory.mktemp("kept") / "runs"
    with kept_races(path) as kept:
        whole = find_plans(random_problem(2), run=SearchRun(kept=kept))
        assert kept.reused == 0
    return whole, path.read_bytes()


def test_a_search_goes_on_from_the_simulations_that_were_kept(tmp_path: Path, kept_search: tuple[Plans, bytes]) -> None:
    """Also after a kill in the middle of a line; another question finds nothing that is its own."""
    problem, path = random_problem(2), tmp_path / "runs"
    whole = find_plans(problem)
    first, made = kept_search
    assert made.count(b"\n") > 2
    path.write_bytes(made[:-9])
    with kept_races(path) as kept:
        again = find_plans(random_problem(2), run=SearchRun(kept=kept))
        assert kept.reused == made.count(b"\n") - 2
    assert sorted(path.read_bytes().splitlines()) == sorted(made.splitlines())
    with kept_races(path) as kept:
        find_plans(problem.at_rate(1.01 * (problem.traffic.rate_per_s or 0)), run=SearchRun(kept=kept))
        assert kept.reused == 0
    assert whole.counts == first.counts == again.counts
    assert whole.front == first.front == again.front


def test_the_key_of_a_simulation_is_the_same_in_another_process(kept_search: tuple[Plans, bytes]) -> None:
    """A text with an address, as Python writes a function, is another one there."""
    *_, networks = content = _content(kept_search[0].problem)
    assert " at 0x" not in str(content)
    assert networks == []  # no file states them


def test_a_file_of_simulations_that_is_another_or_in_use(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    with kept_races(path), pytest.raises(InputError, match="another search uses it"), kept_races(path):
        pass
    path.write_text("a: 1\n")
    with pytest.raises(InputError, match="found another file"), kept_races(path):
        pass
    assert path.read_text() == "a: 1\n"
    with pytest.raises(InputError, match="could not be opened"), kept_races(tmp_path):
        pass


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: b"[1]\n",
        lambda line: b'{"a": 1}\n',
        lambda line: b"\xff\n",
        lambda line: b"\n",
        lambda line: line.partition(b" ")[2],  # without its seal
        lambda line: line.replace(b", ", b",", 1),
        lambda line: line.replace(b"0]", b"9]"),  # one more run that was simulated whole
    ],
)
def test_a_damaged_simulation_is_dropped_and_runs_again(
    tmp_path: Path, kept_search: tuple[Plans, bytes], damage: Callable[[bytes], bytes]
) -> None:
    (whole, made), path = kept_search, tmp_path / "runs"
    first, *lines = made.splitlines(keepends=True)
    changed = next(at for at, line in enumerate(lines) if damage(line) != line)
    path.write_bytes(b"".join([first, *lines[:changed], damage(lines[changed]), *lines[changed + 1 :]]))

    with kept_races(path) as kept:
        assert kept.notes == [f"{path}: damaged lines that were dropped: 1; their simulations run again"]
        again = find_plans(random_problem(2), run=SearchRun(kept=kept))
        assert kept.reused == len(lines) - 1

    assert (again.counts, again.front) == (whole.counts, whole.front)
    assert sorted(path.read_bytes().splitlines()) == sorted(made.splitlines())
    with kept_races(path) as kept:
        assert kept.notes == []


def test_a_full_disk_is_a_fault_of_the_file_of_simulations(tmp_path: Path) -> None:
    path, limits = tmp_path / "runs", resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60, limits[1]))
        with (
            pytest.raises(InputError, match=r"runs: could not be written \(File too large\)"),
            kept_races(path) as kept,
        ):
            find_plans(random_problem(2), run=SearchRun(kept=kept))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with kept_races(path) as kept:  # what is whole stays
        find_plans(random_problem(2), run=SearchRun(kept=kept))


def at_times(arrival_s: list[float], slo_s: float) -> JointTraffic:
    """Requests that arrive at these times."""
    trace = replace(offline(len(arrival_s)), arrival_s=np.array(arrival_s))
    return joint_traffic(prepare(trace, [1.0], slo_s=slo_s))


def excluded(traffic: JointTraffic, text: str) -> list[bool]:
    """Whether rules exclude a table on which each request takes a second: by latency, and by utilisation."""
    source, (setting,) = TableSource("one", [table_of([[1.0]])]), as_stated([Exit(name="end", rate=1.0)])
    load = Load.of(1, setting, traffic, [parse_requirement(text)])
    return [bool(mask[0]) for mask in load.excluded(Until.of(source.least, setting), 1.0)]


def test_rules_exclude_up_to_the_bound_and_no_further() -> None:
    """Of ten requests within 0.9 s, whose work is 10 s, those in time must be done 5.9 s after the first came."""
    apart, together = at_times([10.0 * i for i in range(10)], 1.5), at_times([0.1 * i for i in range(10)], 5.0)
    assert excluded(apart, "mean <= 999ms") == [True, False]
    assert excluded(apart, "mean <= 1001ms") == [False, False]
    assert excluded(apart, "p90 <= 999ms") == [True, False]
    assert excluded(apart, "p90 <= 1001ms") == [False, False]
    assert excluded(together, "violation_rate <= 30 %") == [False, True]
    assert excluded(together, "violation_rate <= 50 %") == [False, False]
    impatient = replace(together, slo_s=np.repeat([0.5, 1.5], [4, 6]), objective_s=None)  # four are late even alone
    assert excluded(impatient, "violation_rate <= 30 %") == [True, False]
    assert excluded(impatient, "violation_rate <= 70 %") == [False, True]  # three are not done within 2.4 s
    assert excluded(impatient, "violation_rate <= 80 %") == [False, False]


@pytest.mark.parametrize("late", [0, 1, 2, 3, 50])
def test_the_least_percentile_is_that_of_requests_alone(late: int) -> None:
    """Of 200 requests two may be slower than the 99th percentile."""
    table = table_of([[1.0], [2.0]], [1 - late / 200, late / 200])
    exits = np.repeat([2, 1], [late, 200 - late])
    trace = replace(offline(200), arrival_s=np.array([10.0 * at for at in range(200)]), exits=exits)
    traffic = prepare(trace, [0.5, 0.5], slo_s=5.0)
    (setting,) = as_stated(table.exits)
    until = Until.of(TableSource("one", [table]).least, setting)
    (least_s,) = Load.of(2, setting, joint_traffic(traffic), []).least_p99(until)
    found_s = summarise(simulate(table, traffic, "serial")).percentile("p99").latency_s
    assert found_s * (1 - 1e-6) <= least_s <= found_s


def test_runs_end_early_only_if_they_must_fail() -> None:
    """Of forty requests the first eight come at once, and three of them can be in time."""
    traffic = at_times([0.0] * 8 + [100.0 * i for i in range(1, 33)], 3.5)
    table, scheduler = table_of([[1.0]]), find_policy("serial")
    source = TableSource("one", [table])
    for share, fails in ((10, True), (12, True), (13, False), (20, False)):  # 4, 4, 5, 8 of 40 may be late
        limits = limits_of([parse_requirement(f"violation_rate <= {share} %")], traffic)
        clairvoyant = Clairvoyant(source, source.layer_times(0), [1])
        assert clairvoyant.fails((), traffic, limits, by_layer=False) == fails
        assert TrialRun(table, traffic, scheduler).fails(traffic, limits) == fails


def one_two(view: Any, data: Any) -> Decision:
    """Runs one request, then two together as soon as two wait, and so on; names no time."""
    size = int(1 + data.memory[0])
    if view.waiting < size:
        return Decision(0, 0, 0, math.inf, False, 0, 0.0)
    data.memory[0] = 1 - data.memory[0]
    return Decision(size, 0, view.segments, math.inf, False, 0, 0.0)


def test_trials_fail_as_whole_runs_do_whatever_ran_before() -> None:
    """With one setting and one row of hardware after the other, exactly as many are late as in a run alone."""
    names = [*POLICIES, *DROPPING, "fluid:admit=bucket:20:2,on_deadline=drop"]
    policies = [*map(find_policy, names), Scheduler("mine", Policy(one_two, memory=1), {})]
    for seed, policy in enumerate(policies):
        problem = random_problem(3 + 2 * (seed % 3))
        problem = problem.at_rate((1 + seed % 2) * (problem.traffic.rate_per_s or 0.0))
        problem = PlanProblem(
            problem.network, problem.sources, problem.settings, [policy], problem.requirements, problem.traffic
        )
        host = Host(before_s=1e-5, after_s=2e-5, overlaps=seed % 2 > 0) if seed > len(POLICIES) else None
        trials, counts = Trials(problem), set()
        drawn = [problem.drawn(setting, problem.traffic.seed).exits.copy() for setting in problem.settings]
        for number, setting in enumerate(problem.settings):
            row, traffic = number % 3, problem.drawn(setting, problem.traffic.seed)
            table = networks_on(problem, 0, row)(number)[0].latency.model_copy(update={"host": host})
            run = simulate(table, traffic, policy)
            for longer_than_s in (traffic.slo_s, np.full(len(traffic), np.median(run.latency_s))):
                late = surely_late(traffic.trace.arrival_s, run.finish_s, longer_than_s, run.end_s)
                limits = [Limit(problem.requirements[0], longer_than_s, allowed) for allowed in (late - 1, late)]
                trial = trials.on(PlanNumbers(0, row, number, 0), as_served(table))
                assert trial.fails(traffic, limits[:1])
                assert not trial.fails(traffic, limits[1:])
                assert trial.fails(traffic, [*limits[1:], limits[0]])
                counts.add(late)
        assert len(counts) > 1, policy.spec
        for setting, exits in zip(problem.settings, drawn, strict=True):
            assert np.array_equal(problem.drawn(setting, problem.traffic.seed).exits, exits)


def test_no_policy_does_better_with_any_setting_than_a_scheduler_that_knows_the_future() -> None:
    """By layer the bound is the one of the setting's latency table; by stage it is higher, and no policy is below.

    Of a branch it is not above the bound of any setting on it, with which no request leaves earlier.
    """
    by_stages = [name for name in POLICIES if not find_policy(name).policy.by_layer]
    gained = held = 0
    for seed in range(4):
        problem = random_problem(seed)
        source, row = problem.sources[0], seed
        clairvoyant = Clairvoyant(source, source.layer_times(row), [1])
        for number, setting in enumerate(problem.settings):
            traffic = problem.drawn(setting, 1)
            by_layer, by_stage = (
                clairvoyant.late(setting.kept, traffic, traffic.slo_s, by_layer=by_layer) for by_layer in (True, False)
            )
            (table,) = problem.tables(source.tables(row), number)
            assert by_layer == least_late(table, traffic, traffic.slo_s) <= by_stage
            assert by_stage <= simulate(table, traffic, by_stages[number % len(by_stages)]).violated.sum()
            gained += by_stage - by_layer
            (tree,) = [
                tree for tree in branches_of(problem.settings, range(len(problem.settings))) if number in tree.numbers
            ]
            for branch in dict(tree.paths())[number]:
                here = problem.drawn(branch.earliest, 1)
                assert (here.exits <= traffic.exits).all()
                assert clairvoyant.late(setting.kept, here, here.slo_s, by_layer=False) <= by_stage
                held += branch.earliest.thresholds != setting.thresholds
    assert gained > 0
    assert held > 20


def test_what_excludes_a_branch_excludes_each_setting_on_it() -> None:
    """Whatever is to be beaten, by layer or by stage: hope is lost where the setting alone has none, nowhere else."""
    lost = 0
    for seed in range(4):
        problem, draw = random_problem(seed, drops=seed % 2 > 0), Random(seed)
        for row in range(3):
            entries = [
                Entrant(-pairing.most, pairing.setting, pairing.fate, draw.choice([math.inf, 1e-3, 5e-3]), 0.0)
                for pairing in problem.pairings
            ]
            draw.shuffle(entries)
            task, times = RaceTask(0, row, tuple(entries)), problem.sources[0].layer_times(row)
            hope = Hope(problem, task, times)
            for entrant, by_layer in product(entries, (False, True)):
                setting = problem.settings[entrant.setting]
                traffic = surely_run(problem.drawn(setting, problem.traffic.seed), entrant.fate)
                limits = joint_limits(required_of(problem, entrant.below_s), traffic)
                alone = Clairvoyant(problem.sources[0], times, [1])
                fails = alone.fails(setting.kept, traffic, limits, by_layer=by_layer)
                assert hope.of(entrant, by_layer=by_layer) != fails
                lost += fails
    assert lost > 50


def test_near_times_leave_out_only_what_no_policy_can_save() -> None:
    """They are never above the times of tables, and leave out most of what these do; where layers batch, nothing."""
    left_out = lost = 0
    for seed in range(6):
        problem = random_problem(seed, drops=seed % 2 > 0)
        if seed % 3:  # several policies of one fate, none of which asks for layers
            given = problem.network, problem.sources, problem.settings
            policies = [find_policy(name) for name in ("serial", "fluid")]
            problem = PlanProblem(*given, policies, problem.requirements, problem.traffic)
        source, rows = problem.sources[0], np.arange(3)
        near_s, times_s = source.near_times(rows), source.found_times(rows)
        assert (near_s <= times_s).all()
        assert near_s.sum() > 0.9 * times_s.sum()
        for row in rows.tolist():
            entries = tuple(Entrant(-one.most, one.setting, one.fate, math.inf, 0.0) for one in problem.pairings)
            task = RaceTask(0, row, entries)
            hope, by_fate = Hope(problem, task, source.layer_times(row)), problem.by_fate()
            left, hopeless = leave_out_hopeless(problem, NearTask(task, near_s[row]))
            gone = [one for one in entries if one not in left.entries]
            assert hopeless == sum(len(by_fate[one.fate]) for one in gone)
            for one in gone:
                assert problem.by_stage[one.fate]
                assert not hope.of(one, by_layer=False)
            left_out += len(gone)
            lost += sum(not hope.of(one, by_layer=False) for one in entries if problem.by_stage[one.fate])
    assert left_out > 0.8 * lost > 0


def test_confidences_of_a_trace_decide_by_the_usual_threshold() -> None:
    """Without samples a plan has no thresholds: what the exits of the network state says nothing here."""
    sure = [exit_.model_copy(update={"confidence": 0.3}) for exit_ in NETWORK.exits[:-1]]
    network = NETWORK.model_copy(update={"exits": [*sure, NETWORK.exits[-1]]})
    confidences = np.random.default_rng(5).random((200, 2))
    trace = replace(offline(200), confidences=confidences)
    (setting,) = as_stated(network.exits)
    traffic = plan_traffic(network, None, trace, 200, 1.0, None, 0, 2)
    drawn = traffic.draw(setting, 1)
    leaves = np.column_stack([confidences >= 0.8, np.ones(200, np.bool_)])
    assert drawn.exits.tolist() == (leaves.argmax(axis=1) + 1).tolist()
    assert drawn.sampled == (False,)
    assert traffic.measure is None


def test_a_policy_that_merges_batches_at_layers_is_judged_by_layers() -> None:
    """Pairs half a second apart: the first layer is best alone and the second together, 3 s in all, with stages 4 s."""
    layers = [LayerUse(name="a", stage=1, time_s=[1.0, 3.0]), LayerUse(name="b", stage=1, time_s=[1.0, 1.0])]
    table = LatencyTable(network="x", platform="x", exits=[Exit(name="end", rate=1.0)], b_max=2, layers=layers)
    arrival_s = np.add.outer(3.5 * np.arange(60), [0.0, 0.5]).ravel()
    trace = replace(offline(120), arrival_s=arrival_s)
    network, required = NETWORK.model_copy(update={"exits": table.exits}), [parse_requirement("violation_rate <= 1 %")]
    traffic = plan_traffic(network, None, trace, 0, 5.1, None, 0, 1)
    policies = [find_policy(name) for name in ("lazy", "serial", "fluid")]
    problem = PlanProblem(network, [TableSource("one", [table])], as_stated(table.exits), policies, required, traffic)
    entrant = Entrant(0.0, 0, Fate(False, False), math.inf, 0.0)
    result = plan_runs.race(problem, RaceTask(0, 0, (entrant,)))
    assert [plan.policy for plan, *_ in result.kept] == [0]
    assert (result.hopeless, result.ended, result.whole) == (2, 0, 1)


def test_requests_that_state_no_steps_run_the_last_stage_as_often_as_it_can() -> None:
    """Stages of 1 s, the second at most three times: after the first exit 1 s, else 4 s: 2.5 s are too few."""
    traffic = at_times([0.0, 10.0, 20.0], 2.5)
    traffic = replace(traffic, exits=np.array([1, 2, 2]))
    (setting,) = as_stated(table_of([[1.0], [1.0]]).exits)
    source = TableSource("one", [table_of([[1.0], [1.0]])])
    late = [
        Clairvoyant(source, source.layer_times(0), [steps]).late(setting.kept, traffic, traffic.slo_s, by_layer=False)
        for steps in (1, 3)
    ]
    assert late == [0, 2]


def test_of_two_boards_the_cheaper_plan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order they are named; one of them with half the bandwidth needs more."""
    monkeypatch.setattr(plan_field, "WAVE", 1)
    problem = random_problem(3)
    (source,) = problem.sources
    assert isinstance(source, BoardSource)
    slow = BoardSource(NETWORK, source.board.model_copy(update={"bandwidth_gb_s": 0.05}), source.options, [NETWORK])
    alone = [dsps_of(problem_with(problem, [one])) for one in (source, slow)]
    assert alone[0] != alone[1]
    for pair in ([source, slow], [slow, source]):
        assert dsps_of(problem_with(problem, pair))[0] == min(alone[0][:1] + alone[1][:1])


def test_more_to_choose_from_is_never_worse() -> None:
    """Each plan with one exit, threshold, policy or board fewer has one as good with all of them."""
    problem = random_problem(1, drops=True)
    (source,) = problem.sources
    assert isinstance(source, BoardSource)
    slow = BoardSource(NETWORK, source.board.model_copy(update={"bandwidth_gb_s": 0.05}), source.options, [NETWORK])
    front = find_plans(replace(problem, sources=[slow, source])).front
    settings, tried = problem.settings, thresholds_of(problem)
    changes: list[dict[str, Any]] = [{"sources": [slow]}, {"sources": [source]}]
    changes += [
        {"policies": problem.policies[:-1]},
        {"settings": [setting for setting in settings if 1 not in setting.kept]},
    ]
    changes += [
        {"settings": [setting for setting in settings if at not in setting.thresholds]} for at in (NEVER, tried[0])
    ]
    fewer = [replace(problem, _drawn={}, **change) for change in changes]
    found = [plan for one in fewer for plan in find_plans(one).front]
    assert len(found) >= len(fewer) / 2
    for plan in found:
        assert any(other.cost <= plan.cost and other.accuracy >= plan.accuracy for other in front)


def test_fewer_rows_make_no_plan_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside each design the same with two rows less, and with three quarters and half of them."""
    problem = random_problem(1)
    (source,) = problem.sources
    assert isinstance(source, BoardSource)
    largest = designs(source.options.supply(NETWORK, source.board))
    fewer = [np.maximum(2, rows) for rows in (largest[0] - 2, 2 * (3 * largest[0] // 8), 2 * (largest[0] // 4))]
    every = np.unique(np.concatenate([largest, *([rows, *largest[1:]] for rows in fewer)], axis=1), axis=1)
    assert every.shape[1] > 3 * largest.shape[1]
    monkeypatch.setattr(plan_sources, "designs", lambda _supply: every)
    all_rows = BoardSource(NETWORK, source.board, source.options, [NETWORK])
    fronts = [find_plans(replace(problem, sources=[one], _drawn={})).front for one in (source, all_rows)]
    few, many = ([(plan.cost, plan.accuracy) for plan in front] for front in fronts)
    assert few == many != []


def dsps_of(problem: PlanProblem) -> list[int]:
    """DSPs of the plans on the front."""
    found = [plan.numbers for plan in find_plans(problem).front]
    return [int(problem.sources[item.source].dsps[item.row]) for item in found]


def problem_with(problem: PlanProblem, sources: list[BoardSource]) -> PlanProblem:
    """The same with other hardware."""
    return PlanProblem(
        problem.network, sources, problem.settings, problem.policies, problem.requirements, problem.traffic
    )


@pytest.mark.parametrize("seed", range(2))
def test_the_highest_rate_is_kept_and_a_little_more_is_not(seed: int) -> None:
    """With policies that leave requests without an answer in one of the problems."""
    problem, told = random_problem(seed, drops=seed == 1), list[tuple[int, int]]()
    found = find_highest_rate(problem, SearchRun(progress=lambda done, of: told.append((done, of))))
    assert found is not None
    assert [done for done, _ in told] == list(range(len(told)))
    assert told[-1][1] == len(told)  # the search at this rate is left
    bisected = [of for _, of in told if of == told[-1][1]]
    assert len(bisected) >= len(told) - 2  # how many are left is known from where a rate holds
    assert find_plans(problem.at_rate(found)).front
    assert not find_plans(problem.at_rate(RATIO * found)).front


# the command

BOARD = "pocket.toml"
ASKED = ["plan", TINY, BOARD, "--b-max", 2, "--rate", 2000, "--slo", "2ms", "--count", 500, "--seeds", 3]
LIMITS = ["--require", "violation_rate <= 2 %", "--require", "accuracy >= 70 %"]
ANSWERED = [*ASKED, *LIMITS, "--samples", "s.npz", "--thresholds", "0.5,0.9", "--max-dsp", "4DSPs"]


@pytest.fixture
def asking(fluidb: Run, tmp_path: Path) -> Run:
    """The command line in a folder with samples, and with a board of one port: a seventh of the designs."""
    write_samples(samples_of(400, 1), tmp_path / "s.npz")
    text = Path(POCKET).read_text().replace("bandwidth_gb_s = 0.4", "bandwidth_gb_s = 0.2\nport_words = 1")
    (tmp_path / BOARD).write_text(text)
    return fluidb


def test_the_folder_of_a_plan_serves_as_the_plan_says(asking: Run, tmp_path: Path) -> None:
    done = asking(*ANSWERED, "-o", "p", "--plot", "p.svg", "--json")
    record = json.loads(done.stdout)
    assert record["schema"] == "fluidb.plan-output/2"
    assert record["output"] == "p"
    best, *others = record["front"]
    assert all(item["dsps"] > best["dsps"] for item in others)
    assert {"p.svg", "p", "s.npz", BOARD} == {path.name for path in tmp_path.iterdir()}
    (faster,) = [step for step in record["steps"] if "more requests" in step["change"]]
    assert faster["figures"]["busy_share"]["mean"] > best["figures"]["busy_share"]["mean"]
    kept = json.loads((tmp_path / "p" / "plan.json").read_text())
    assert kept["plan"] == best
    rates = []
    for seed in (1, 2, 3):
        trace = ["trace", "poisson", "--rate", 2000, "--count", 500, "--seed", seed, "-o", f"{seed}.csv"]
        assert asking(*trace).returncode == 0
        served = ["serve-sim", "p", "--samples", "p/samples.npz", "--trace", f"{seed}.csv", "--slo", "2ms"]
        replayed = json.loads(asking(*served, "--policy", best["policy"], "--seed", seed, "--json").stdout)
        rates.append(replayed["violation_rate"])
    assert best["figures"]["violation_rate"]["mean"] == pytest.approx(sum(rates) / 3)
    assert asking("fbcb", "p").returncode == 0
    assert asking("report", "p", "-o", "r.html").returncode == 0
    (fault,) = lines(asking(*ANSWERED, "-o", "p"))
    assert fault.startswith("fluidb: p: output folder exists already")
    assert asking(*ANSWERED, "-o", "p", "--force").returncode == 0


def test_the_answer_is_the_same_for_any_number_of_threads_and_on_a_cluster(asking: Run) -> None:
    asked = [*ANSWERED, "--policy", "serial", "--policy", "fluid", "--json"]
    alone = asking(*asked, "--threads", 3).stdout
    assert json.loads(alone)["front"]
    pytest.importorskip("distributed")
    assert asking(*asked, "--scheduler", "local", "--threads", 1).stdout == alone


def test_without_samples_the_exits_are_those_of_the_network(asking: Run) -> None:
    record = json.loads(asking(*ASKED, "--require", "p99 <= 2ms", "--json").stdout)
    (best,) = record["front"]
    assert (best["exits"], best["thresholds"], best["measure"]) == (["add", "concat"], None, None)
    assert "accuracy" not in best["figures"]


def test_the_fewest_devices_of_a_cluster(asking: Run, tmp_path: Path) -> None:
    asked = [
        "plan",
        "alexnet_cifar10",
        "edgesp-a",
        "--slo",
        "1s",
        "--count",
        200,
        "--seeds",
        2,
        "--require",
        "p90 <= 1s",
    ]
    fewest = [json.loads(asking(*asked, "--rate", rate, "--json").stdout)["front"][0]["platform"] for rate in (5, 30)]
    assert fewest[0] == "edgesp-a: 1 of 10 devices"
    assert fewest[1].endswith(" of 10 devices")
    assert fewest[1] != fewest[0]
    done = asking(*asked, "--rate", 5, "-o", "p")
    assert "bound     1 device: no plan can cost less; proved for the requests of seed 0\n" in done.stdout
    assert {path.name for path in (tmp_path / "p").iterdir()} == {"latency.json", "partition.json", "plan.json"}
    assert asking("explain", "p").returncode == 0
    assert re.search("^devices +hardware ", done.stdout, re.MULTILINE)
    share = [*asked, "--rate", 30, "--minimise", "share"]
    best = json.loads(asking(*share, "--json").stdout)
    assert best["searches"][0]["least_cost"] <= best["front"][0]["devices"] / 10
    assert " of a cluster's devices" in asking(*share).stdout


def test_a_board_and_a_cluster_are_counted_apart(asking: Run) -> None:
    """A share is of the board's DSPs or of the cluster's devices; given hardware costs nothing in either."""
    asked = ["plan", "alexnet_cifar10", "edgesp-a,pynq-z1", "--slo", "5s", "--rate", 0.5, "--max-dsp", "8DSPs"]
    asked += ["--count", 200, "--seeds", 2, "--policy", "serial", "--b-max", 1, "--require", "p90 <= 5s"]
    shown = asking(*asked).stdout
    assert "cost      each of its devices counts as one DSP; to compare boards, leave it out\n" in shown
    assert "bound     1 device or DSP: no plan can cost less; proved" in shown
    assert "\n1 device  edgesp-a: 1 of 10 devices  " in shown


def test_hardware_that_is_given_and_a_trace(asking: Run, tiny_design: Path, tmp_path: Path) -> None:
    """Given hardware costs nothing more, so that it wins where it keeps the requirements."""
    (tmp_path / "mine").symlink_to(tiny_design)
    assert asking("trace", "poisson", "--rate", 2000, "--count", 100, "-o", "t.csv").returncode == 0
    asked = ["plan", TINY, f"mine,{BOARD}", "--b-max", 2, "--trace", "t.csv", "--slo", "2ms", "--samples", "s.npz"]
    asked += ["--thresholds", "0.5,0.9", "--max-dsp", "4DSPs"]
    record = json.loads(asking(*asked, *LIMITS, "-o", "p", "--json").stdout)
    best = record["front"][0]
    assert (best["platform"], best["dsps"]) == ("mine", None)
    text = asking(*asked, *LIMITS).stdout
    assert "nothing, because this hardware is given; no board can be cheaper: to compare boards, leave it out" in text
    assert asking(*asked, *LIMITS, "--minimise", "share").stdout == text
    assert "T_R" not in best
    assert {path.name for path in (tmp_path / "p").iterdir()} == {"latency.json", "plan.json", "samples.npz"}
    assert asking("serve-sim", "p", "--trace", "t.csv", "--samples", "p/samples.npz", "--slo", "2ms").returncode == 0


def test_the_plan_that_takes_the_least_energy(asking: Run) -> None:
    """On a board that states energies; a device states none."""
    assert asking("latency", "resnet50", "v100-tensorrt", "-o", "gpu").returncode == 0
    asked = ["plan", TINY, BOARD, "--b-max", 2, "--rate", 2000, "--slo", "2ms", "--count", 500, "--seeds", 2]
    asked += ["--require", "p90 <= 2ms", "--minimise", "energy", "--max-dsp", "10DSPs"]
    record = json.loads(asking(*asked, "--json", "--plot", "p.svg").stdout)
    assert record["minimised"] == "energy"
    assert record["front"][0]["figures"]["energy"]["mean"] >= record["searches"][0]["least_cost"]
    assert "energy" in asking(*asked).stdout
    (fault,) = lines(asking("plan", "resnet50", "gpu", *asked[5:]))
    assert fault.startswith("fluidb: --minimise: gpu: expected energies by layer")


def test_early_answers_keep_a_limit_that_nothing_else_keeps() -> None:
    """A request takes 3 s and should return within 2.5 s; of its first exit it has an answer after 1 s."""
    source = TableSource("one", [table_of([[1.0], [2.0]], [0.0, 1.0])])
    texts = ["serial", "serial:on_deadline=drop", "serial:on_deadline=answer"]
    required = [parse_requirement("violation_rate <= 10 %")]
    trace = replace(offline(200), arrival_s=np.linspace(0, 640, 200))
    network = NETWORK.keep_exits(
        (1,), [Exit(name="early", rate=0.0), NETWORK.exits[-1].model_copy(update={"rate": 1.0})]
    )
    traffic = plan_traffic(network, None, trace, 200, 2.5, None, 0, 2)
    problem = problem_of([source], [find_policy(text) for text in texts], required, traffic)
    answer = find_plans(problem)
    assert [problem.policies[plan.numbers.policy].spec for plan in answer.front] == texts[2:]
    assert answer.counts["latency of one sample"] == 2


def test_an_exit_that_only_answers_at_the_deadline_keeps_what_no_threshold_keeps() -> None:
    """Of four requests one finds the hardware busy. Who leaves early is wrong; who waits is right, or late by a bit."""
    required = [parse_requirement("violation_rate <= 10 %"), parse_requirement("accuracy_of_all >= 75 %")]
    arrival_s = np.repeat(np.arange(50) * 20.0, 4) + np.tile([0.0, 4.0, 8.0, 9.0], 50)
    samples = Samples(np.full((200, 1), 0.9), np.tile([False, True], (200, 1)))
    network = NETWORK.keep_exits(
        (1,), [Exit(name="early", rate=0.5), NETWORK.exits[-1].model_copy(update={"rate": 0.5})]
    )
    policies = [find_policy("serial"), find_policy("serial:on_deadline=answer")]
    source = TableSource("one", [table_of([[0.5], [2.5]], [0.5, 0.5])])
    traffic = plan_traffic(network, None, replace(offline(200), arrival_s=arrival_s), 200, 3.5, samples, 0, 2)
    (plan,) = find_plans(problem_of([source], policies, required, traffic)).front
    assert plan.numbers.policy == 1
    assert plan.accuracy == pytest.approx(0.75)
    assert problem_of([source], policies, required, traffic).settings[plan.numbers.setting].thresholds == ("never",)
    without = problem_of([source], policies, required, traffic, [0.5, 0.9])
    assert not find_plans(without).front


def test_an_exit_that_nobody_takes_is_a_choice_only_where_it_is_of_use() -> None:
    """Requests are answered there at their deadlines, or the times without it are not known."""
    samples, required = samples_of(400, 3), [parse_requirement("p99 <= 1s")]
    traffic = plan_traffic(NETWORK, 1.0, None, 200, 1.0, samples, 0, 2)
    board = random_problem(0).sources[0]
    stages = table_of([[0.1], [0.1], [0.1]], [0.2, 0.2, 0.6]).model_copy(
        update={"layers": [], "stage_s": [[[0.1], [0.1], [0.1]]]}
    )
    table = TableSource("table", [stages])
    late, early = find_policy("serial"), find_policy("serial:on_deadline=answer")
    of_both = problem_of([board, table], [late, early], required, traffic, [0.6, NEVER])
    waits = [(), ("never",), (0.6,), ("never", "never"), ("never", 0.6), (0.6, "never"), (0.6, 0.6)]
    for source, fate, wanted in (
        (board, fate_of(early), waits),
        (board, fate_of(late), [item for item in waits if "never" not in item]),
        (table, fate_of(early), waits[3:]),
        (table, fate_of(late), waits[3:]),
    ):
        found = {of_both.settings[at].thresholds for at in of_both.settings_of(source, fate)}
        assert found == set(wanted)
    one = problem_of([board], [late], required, traffic, [0.6, NEVER])
    assert not any(setting.waits for setting in one.settings)
    less_sure = replace(samples, confidences=np.minimum(samples.confidences, 0.9))
    unsure = plan_traffic(NETWORK, 1.0, None, 200, 1.0, less_sure, 0, 2)
    with pytest.raises(InputError, match="table: expected times by layer"):
        problem_of([table], [late], required, unsure, [1.0])


def test_answers_that_are_given_may_be_right_more_often_than_all() -> None:
    """Of two requests that come at once the second is wrong, and is refused where nobody may wait."""
    texts = ["serial", "serial:admit=queue:0"]
    trace = replace(
        offline(200), arrival_s=np.repeat(np.linspace(0, 200, 100), 2), correct=np.arange(200)[:, None] % 2 == 0
    )
    required = [parse_requirement("accuracy >= 90 %")]
    network = NETWORK.keep_exits((), [NETWORK.exits[-1].model_copy(update={"rate": 1.0})])
    source = TableSource("one", [table_of([[1.0]])])
    traffic = plan_traffic(network, None, trace, 200, 3.0, None, 0, 2)
    problem = problem_of([source], [find_policy(text) for text in texts], required, traffic)
    answer = find_plans(problem)
    assert [problem.policies[plan.numbers.policy].spec for plan in answer.front] == texts[1:]
    assert answer.counts["accuracy"] == 1
    of_all = problem_of([source], problem.policies, [parse_requirement("accuracy_of_all >= 60 %")], traffic)
    assert find_plans(of_all).counts["accuracy"] == 2


def test_with_refusals_the_highest_rate_is_beyond_what_can_be_served() -> None:
    """A request of a second is refused if it finds another: 60 % at 1.5 a second, by Erlang's loss formula."""
    policies = [find_policy("serial:admit=queue:0")]
    network = NETWORK.keep_exits((), [NETWORK.exits[-1].model_copy(update={"rate": 1.0})])
    source = TableSource("one", [table_of([[1.0]])])
    required = [parse_requirement("violation_rate <= 60 %")]
    traffic = plan_traffic(network, 1.0, None, 2000, 1.5, None, 0, 5)
    rate_per_s = find_highest_rate(problem_of([source], policies, required, traffic))
    assert rate_per_s is not None
    assert 1.35 < rate_per_s < 1.55


def test_requests_that_are_refused_take_no_energy() -> None:
    """The bound is as of requests that leave at the first exit."""
    problem = random_problem(5)
    (source,) = problem.sources
    (setting,) = as_stated(NETWORK.exits)
    exits = np.arange(200) % 2 * 2 + 1  # the second of two that come at once takes more, and is refused
    trace = replace(offline(200), arrival_s=np.repeat(np.linspace(0, 100, 100), 2), exits=exits)
    traffic = prepare(trace, setting.rates, slo_s=0.9)
    replay = simulate(source.table(0), traffic, "serial:admit=queue:0")
    energy_j = summarise(replay).energy_j
    assert energy_j is not None
    joint = joint_traffic(traffic)
    served, refused = (least_energy(source, setting, joint, Fate(drops, early=False))[0] for drops in (False, True))
    assert refused <= energy_j < served


def test_early_answers_may_be_right_more_often_than_later_ones() -> None:
    """The first exit is always right and the second never, but a tenth of the samples is sure at the first."""
    sure = np.arange(200)[:, None] % 10 == 0
    samples = Samples(np.where(sure, 0.9, 0.1), np.tile([True, False], (200, 1)))
    network = NETWORK.keep_exits(
        (1,), [Exit(name="early", rate=0.1), NETWORK.exits[-1].model_copy(update={"rate": 0.9})]
    )
    trace = replace(offline(200), arrival_s=np.linspace(0, 640, 200))
    required = [parse_requirement("violation_rate <= 10 %")]
    traffic = plan_traffic(network, None, trace, 200, 2.5, samples, 0, 2)
    source = TableSource("one", [table_of([[1.0], [2.0]], [0.1, 0.9])])
    problem = problem_of([source], [find_policy("serial:on_deadline=answer")], required, traffic, [0.5])
    (plan,) = find_plans(problem).front
    assert plan.accuracy == pytest.approx(1.0)
    assert problem.most_accuracy(0, plan.numbers.setting, early=True) == pytest.approx(1.0)
    assert problem.most_accuracy(0, plan.numbers.setting) < 0.2


def test_subnets_are_not_accurate_on_requests_that_they_drop() -> None:
    chip = load_platform("sushi-zcu104", kind=Accelerator)
    *_, every = subnet_sources("chip", latency_table(find_subgraphs(load_family("ofa_mobilenet_v3"), chip)))
    policies = [find_policy("sushi:on_deadline=drop")]
    network = load_network("ofa_mobilenet_v3:A")
    traffic = plan_traffic(network, 300.0, None, 500, 0.02, None, 0, 2)
    problem = problem_of([every], policies, [parse_requirement("violation_rate <= 90 %")], traffic)
    (plan,) = find_plans(problem).front
    served, dropped = (plan.fresh.figures[name].mean for name in ("served_accuracy", "violation_rate"))
    assert dropped > 0.05
    assert plan.accuracy < served - 0.03


def test_accuracy_of_all_stands_where_a_policy_may_leave_a_request_without_an_answer(asking: Run) -> None:
    fewer = [*ASKED[:-4], "--count", 200, *ASKED[-2:], "--max-dsp", "4DSPs"]
    asked = [*fewer, *LIMITS, "--samples", "s.npz", "--thresholds", "0.6,never", "--require", "accuracy_of_all >= 70 %"]
    answered = json.loads(asking(*asked, "--policy", "fluid:on_deadline=serve|answer", "--json").stdout)
    assert answered["policies"] == ["fluid:on_deadline=serve", "fluid:on_deadline=answer"]
    assert answered["front"]
    assert all(plan["kept"]["accuracy_of_all >= 70 %"] for plan in answered["front"])
    shown = asking(*asked, "--policy", "fluid", "--policy", "serial:on_deadline=drop").stdout
    assert "accuracy of all" in shown


def test_what_the_interval_holds_is_undecided_and_more_requests_decide_it(asking: Run) -> None:
    """A bound that is the mean of the nearest plan is undecided; half of it is kept by none."""
    asked = ["plan", TINY, BOARD, "--b-max", 2, "--rate", 3000, "--slo", "2ms", "--seeds", 3, "--policy", "serial"]
    asked += ["--max-dsp", "6DSPs", "--count", 200]
    found = json.loads(asking(*asked, "--require", "p99 <= 1us", "--json").stdout)["searches"][0]
    assert found["undecided"] is None
    least = found["nearest"]["figures"]["mean"]
    assert least["low"] < least["mean"] < least["high"]
    done = asking(*asked, "--require", f"mean <= {1e6 * least['mean']:.5f}us", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    (searched,) = found["searches"]
    assert (found["front"], list(searched["undecided"]["kept"].values())) == ([], [None])
    (line,) = done.stderr.splitlines()
    assert line.startswith('fluidb: it is undecided whether a plan keeps "mean <= ')
    assert "; more requests than --count 200 decide it, or more seeds than --seeds 3; " in line
    beyond = asking(*asked, "--require", f"mean <= {5e5 * least['low']:.5f}us")
    assert beyond.stderr.startswith("fluidb: no plan keeps")


def test_the_highest_rate(asking: Run) -> None:
    asked = ["plan", TINY, BOARD, "--b-max", 2, "--slo", "2ms", "--count", 300, "--seeds", 2, "--policy", "fluid"]
    record = json.loads(asking(*asked, "--rate", "max", "--require", "p90 <= 2ms", "--json").stdout)
    assert record["front"][0]["rate_per_s"] > 1000
    assert record["front"][0]["kept"] == {"p90 <= 2ms": True}
    none = asking(*asked, "--rate", "max", "--require", "p90 <= 1us")
    assert (none.returncode, none.stdout) == (1, "")
    assert none.stderr.startswith('fluidb: no plan keeps "p90 <= 1us" at any rate; the nearest has ')


def test_a_requirement_that_holds_at_one_end_of_a_measured_error_is_undecided(asking: Run) -> None:
    """The times of a calibrated engine may all be as much longer as one of its measured times."""
    asked = ["plan", "resnet50", "dpu-b4096-zcu104", "--rate", 5, "--slo", "1s", "--count", 200, "--seeds", 2]
    asked += ["--policy", "serial"]
    record = json.loads(asking(*asked, "--require", "p50 <= 1s", "--json").stdout)
    (best,) = record["front"]
    ends = {step["change"]: step for step in record["steps"] if step["change"].startswith("times as measured")}
    (fast, slow) = sorted(ends, key=lambda change: ends[change]["figures"]["p50"]["mean"])
    there, here = ends[slow]["figures"]["p50"]["mean"], best["figures"]["p50"]["mean"]
    assert ends[fast]["figures"]["p50"]["mean"] < here < there
    done = asking(*asked, "--require", f"p50 <= {500 * (here + there):.5f}ms", "--json")
    assert done.returncode == 1
    assert list(json.loads(done.stdout)["searches"][0]["nearest"]["kept"].values()) == [None]


def test_a_scenario_states_what_options_state(asking: Run, tmp_path: Path) -> None:
    """Its paths start from its folder; whatever is asked stands in it."""
    (tmp_path / "asked").mkdir()
    network = os.path.relpath(TINY, tmp_path / "asked")
    text = f"""
        schema = "fluidb.plan-scenario/1"
        network = "{network}"
        platforms = ["../{BOARD}"]
        require = ["violation_rate <= 2 %", "accuracy >= 70 %"]
        rate = [1000, 2000]
        slo = "2ms"
        samples = "../s.npz"
        thresholds = [0.5, 0.9]
        policy = ["serial", "adaptb:timeout=S|M"]
        over_p99 = true
        count = 200
        seeds = 2
        space = {{ b_max = 2, batching = "row", max_dsp = "4DSPs" }}
    """
    (tmp_path / "asked" / "q.toml").write_text(text)
    options: list[Any] = ["plan", TINY, BOARD, *LIMITS, "--rate", "1000,2000", "--slo", "2ms", "--samples", "s.npz"]
    options += ["--thresholds", "0.5,0.9", "--policy", "serial", "--policy", "adaptb:timeout=S|M"]
    options += ["--over-p99", "--count", 200, "--seeds", 2]
    options += ["--b-max", 2, "--batching", "row", "--max-dsp", "4DSPs"]
    by_file, by_options = (
        json.loads(asking(*arguments, "--json", "-o", name, "--plot", f"{name}.svg").stdout)
        for name, arguments in (("f", ["plan", "asked/q.toml"]), ("o", options))
    )
    assert by_file["policies"] == ["serial", "adaptb:timeout=S", "adaptb:timeout=M"]
    assert len(by_file["searches"]) == 2
    assert by_file["front"]
    for found in (by_file, by_options):
        del found["samples"], found["output"]
    assert by_file == by_options
    assert (tmp_path / "f.svg").exists()
    answer = ask.plan(tmp_path / "asked" / "q.toml")
    records = [plan_record(plan.search.problem, plan.plan) for plan in answer.front]
    assert json.loads(json.dumps(records)) == by_file["front"]
    assert [step.change for step in answer.steps] == [step["change"] for step in by_file["steps"]]
    (fault,) = lines(asking("plan", "asked/q.toml", "--rate", 5))
    assert (
        fault
        == "fluidb: --rate: expected in asked/q.toml, which states the question, found as an option; move it there"
    )
    (tmp_path / "asked" / "q.toml").write_text(text.replace("slo =", "slow ="))
    (fault,) = lines(asking("plan", "asked/q.toml"))
    assert fault.startswith("fluidb: asked/q.toml: slow: unknown key")


def test_of_a_supernet_each_subnet_is_a_choice(fluidb: Run, tmp_path: Path) -> None:
    """Alone on an accelerator or a device, and all together for a policy that chooses."""
    asked = ["--rate", 60, "--slo", "20ms", "--count", 500, "--seeds", 2, "--require", "violation_rate <= 5 %"]
    record = json.loads(fluidb("plan", "ofa_mobilenet_v3", "sushi-zcu104,v100-tensorrt", *asked, "--json").stdout)
    names = [f"SubNet {letter}" for letter in "ABCDEFG"]
    assert record["platforms"] == [
        *(f"sushi-zcu104: {name}" for name in (*names,)),
        "sushi-zcu104: all SubNets",
        *(f"v100-tensorrt: {name}" for name in names),
    ]
    assert record["policies"][-1] == "sushi"
    (best,) = record["front"]
    assert best["platform"] == "v100-tensorrt: SubNet G"
    assert best["figures"]["served_accuracy"]["mean"] == pytest.approx(0.766)
    asked += ["--require", "served_accuracy >= 77 %"]
    none = json.loads(fluidb("plan", "ofa_mobilenet_v3", "sushi-zcu104", *asked, "--json").stdout)
    assert none["searches"][0]["counts"]["accuracy"] == none["searches"][0]["counts"]["all"]
    assert fluidb("dse", "ofa_mobilenet_v3", "sushi-zcu104", "-o", "mb").returncode == 0
    asked = [*asked[:-1], "served_accuracy >= 70 %", "--policy", "serial", "--policy", "sushi"]
    pair = [
        json.loads(fluidb("plan", "ofa_mobilenet_v3", name, *asked, "--json", "-o", output).stdout)["front"][0]
        for name, output in (("mb", "a"), ("sushi-zcu104", "b"))
    ]
    assert pair[0].pop("platform").startswith("mb: ")
    assert pair[1].pop("platform").startswith("sushi-zcu104: ")
    assert pair[0] == pair[1]
    trace = ["trace", "poisson", "--rate", 60, "--count", 500, "--seed", 1, "-o", "t.csv"]
    assert fluidb(*trace).returncode == 0
    served = ["serve-sim", "b", "--trace", "t.csv", "--slo", "20ms", "--policy", pair[1]["policy"], "--seed", 1]
    replayed = json.loads(fluidb(*served, "--json").stdout)
    low, high = (pair[1]["figures"]["mean"][end] for end in ("low", "high"))
    assert low <= replayed["mean_latency_s"] <= high
    assert replayed["subnets"]["served_accuracy"] > 0.7


def test_a_subnet_alone_has_in_the_buffer_what_makes_it_fastest() -> None:
    """No SubNet is fastest with an empty buffer; all together have every state."""
    chip = load_platform("sushi-zcu104", kind=Accelerator)
    table = latency_table(find_subgraphs(load_family("ofa_mobilenet_v3"), chip))
    *alone, every = subnet_sources("chip", table)
    assert table.stage_s is not None
    times_s = np.array(table.stage_s)[:, 0, 0].reshape(-1, len(alone))
    assert (times_s.argmin(axis=0) > 0).all()
    assert [float(item.table(0).stage_array()[0, 0, 1]) for item in alone] == times_s.min(axis=0).tolist()
    assert every.table(0) == table


def test_a_subnet_on_a_board_is_written_with_its_design(fluidb: Run, tmp_path: Path) -> None:
    small = ["--b-max", 1, "--count", 200, "--seeds", 2, "--policy", "serial"]
    asked = [
        "plan",
        "two.toml",
        "pynq-z1",
        "--rate",
        0.5,
        "--slo",
        "4s",
        "--require",
        "p90 <= 4s",
        *small,
        "--max-dsp",
        "24DSPs",
    ]
    (tmp_path / "two.toml").write_text(
        """
        schema = "fluidb.subnets/1"
        supernet = "ofa_mobilenet_v3"
        subnets = [
          { name = "small", d = [2], e = [3.0], k = [3], r = 128, accuracy = 0.6 },
          { name = "large", d = [4], e = [6.0], k = [5], r = 160, accuracy = 0.7 },
        ]
        [accuracies]
        source = "a test"
        illustrative = true
        [sources]
        subnets = "a test"
        """
    )
    record = json.loads(fluidb(*asked, "--json", "-o", "p").stdout)
    assert [plan["platform"] for plan in record["front"]] == ["pynq-z1: SubNet small", "pynq-z1: SubNet large"]
    assert all(step["figures"]["served_accuracy"]["mean"] == pytest.approx(0.6) for step in record["steps"])
    assert json.loads((tmp_path / "p" / "latency.json").read_text())["subnets"][0]["name"] == "small"
    assert fluidb("fbcb", "p").returncode == 0


def test_finished_simulations_are_kept_in_a_file(asking: Run, tmp_path: Path) -> None:
    """Ctrl-C says so; a file that is another is refused."""
    first = asking(*ANSWERED, "--runs", "kept", "--json").stdout
    made = (tmp_path / "kept").read_bytes()
    assert made.count(b"\n") > 1
    assert asking(*ANSWERED, "--runs", "kept", "--json").stdout == first
    assert (tmp_path / "kept").read_bytes() == made  # none is added, as none ran again
    (fault,) = lines(asking(*ANSWERED, "--runs", "s.npz"))
    assert fault.startswith("fluidb: s.npz: expected finished simulations of `fluidb plan`")


def test_a_requirement_that_no_plan_keeps(asking: Run, tmp_path: Path) -> None:
    """The line says which, and how far off the nearest plan is."""
    done = asking(*ASKED, "--require", "p99 <= 1us", "--samples", "s.npz", "-o", "p")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith('fluidb: no plan with the thresholds that were tried keeps "p99 <= 1us"; the nearest has ')
    assert "too slow for one sample" in line
    source = BoardSource(NETWORK, load_platform(str(tmp_path / BOARD)), SearchOptions(b_max=2), [NETWORK])
    parts_s = source.nearer(np.arange(len(source.dsps))).alone_s
    fastest_s = (parts_s[:, :, 0].cumsum(axis=1) + parts_s[:, :, 1]).min()  # to an exit that is the first
    assert f"no hardware answers a sample in less than {1e3 * fastest_s:.3g} ms" in line
    assert not (tmp_path / "p").exists()
    right = asking(*ASKED, "--require", "accuracy >= 99 %", "--samples", "s.npz", "--json")
    assert right.returncode == 1
    record = json.loads(right.stdout)
    assert (record["front"], record["searches"][0]["least_cost"], record["output"]) == ([], None, None)
    assert record["searches"][0]["counts"]["accuracy"] == record["searches"][0]["counts"]["all"]
    assert record["searches"][0]["nearest"]["kept"] == {"accuracy >= 99 %": False}


FAULTS: dict[str, tuple[list[Any], str]] = {
    "no traffic": (["--slo", "1ms", *LIMITS], "--rate: expected a rate, a trace or clients, found none of them"),
    "two": (
        ["--rate", 9, "--trace", "t.csv", "--slo", "1ms", *LIMITS],
        "--rate: expected a rate, a trace or clients, found rate and trace",
    ),
    "no objective": (["--rate", 9, *LIMITS, "--samples", "s.npz"], "--slo: expected a latency objective (SLO)"),
    "no samples": (
        ["--rate", 9, "--slo", "1ms", *LIMITS],
        '--require: "accuracy >= 70 %": expected a trace that knows',
    ),
    "thresholds": (
        ["--rate", 9, "--slo", "1ms", "--require", "p99 <= 1s", "--thresholds", "0.5"],
        "--thresholds: expected samples whose answers they judge, found none; add samples",
    ),
    "no threshold": (
        ["--rate", 9, "--slo", "1ms", *LIMITS, "--samples", "s.npz", "--thresholds", "2"],
        "--thresholds: expected confidences from 0 to 1, found 2",
    ),
    "drop": (
        ["--rate", "max", "--slo", "1ms", *LIMITS[2:], "--samples", "s.npz", "--policy", "fluid:on_deadline=drop"],
        "--rate: expected a requirement that limits how many requests stay without an answer, as max is asked for",
    ),
    "other samples": (
        ["--rate", 9, "--slo", "1ms", *LIMITS, "--samples", "two.npz"],
        "two.npz: expected answers at 3 exits, which the network has, found 2",
    ),
    "no board": (
        ["--rate", 9, "--slo", "1ms", *LIMITS, "--max-dsp", "0.1%"],
        "--max-dsp: expected room for at least 1",
    ),
    "no requirement": (["--rate", 9, "--slo", "1ms"], "--require: expected at least one, found none; state it"),
    "a rate twice": (["--rate", "9,9", *LIMITS], "--rate: expected each rate once, found"),
    "no rate": (["--rate", "0", *LIMITS], '--rate: expected requests a second, or max, found "0"'),
    "alternative": (
        ["--rate", 9, "--slo", "1ms", *LIMITS, "--policy", "adaptb:timeout=S|X"],
        "--policy: timeout: expected",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_bad_input_has_one_line(asking: Run, tmp_path: Path, case: str) -> None:
    write_samples(samples_of(9, 1).at_exits([1], [1]), tmp_path / "two.npz")
    assert asking("trace", "poisson", "--rate", 9, "--count", 9, "-o", "t.csv").returncode == 0
    arguments, expected = FAULTS[case]
    (line,) = lines(asking("plan", TINY, BOARD, *arguments))
    assert line.startswith(f"fluidb: {expected}")


def test_platforms_that_a_plan_cannot_take(asking: Run) -> None:
    more = ["--rate", 9, "--slo", "1ms", "--require", "p99 <= 1s"]
    (line,) = lines(asking("plan", TINY, f"{BOARD},{BOARD}", *more))
    assert line == "fluidb: platforms: expected each once, found pocket twice"
    (line,) = lines(asking("plan", TINY, "sushi-u50", *more))
    assert "expected a SuperNet, whose SubNets share weights, found a network; to keep weights of one" in line
    (line,) = lines(asking("plan", TINY, *more))
    assert line.startswith(
        "fluidb: platforms: expected at least one, found none; state it, e.g. zc706, or name a scenario"
    )


def test_every_setting_of_an_exit_lets_some_samples_leave() -> None:
    """An exit that nobody takes only costs time."""
    samples = samples_of(50, 3)
    samples = replace(samples, confidences=np.minimum(samples.confidences, 0.9))
    found = settings_of(NETWORK.exits, samples, [0.5, 1.0])
    assert {item.thresholds for item in found} == {(), (0.5,), (0.5, 0.5)}
    assert all(min(item.rates[:-1], default=1) > 0 for item in found)
    accuracy = np.array([item.accuracy for item in found], dtype=np.float64)
    assert (np.diff(accuracy) <= 0).all()
    assert () in [item.kept for item in found]


@pytest.mark.parametrize("cells", [0, 10**6])
def test_who_leaves_with_many_settings_at_once(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As each sample leaves at the first exit whose level it reaches."""
    monkeypatch.setattr(plan_exits, "MOST_CELLS", cells)
    rng = np.random.default_rng(4)
    confidences, correct = rng.integers(0, 5, (40, 3)) / 4, rng.random((40, 4)) < 0.5
    levels = rng.integers(0, 6, (30, 3)) / 4
    left, right = plan_exits.leavers(confidences, correct, levels)
    for row, level in enumerate(levels):
        exits = [next((at for at in range(3) if here[at] >= level[at]), 3) for here in confidences]
        assert left[row].tolist() == [exits.count(at) for at in range(4)]
        answers = list(zip(exits, correct, strict=True))
        assert right[row].tolist() == [sum(ok[at] for exit_, ok in answers if exit_ == at) for at in range(4)]


def test_the_settings_that_let_requests_leave_first() -> None:
    """No other one that keeps the same exits has a level as low at each exit; equal ones are taken once."""
    draw = Random(5)
    settings = [
        ExitSetting(kept, (), (), None, tuple(draw.randint(0, 3) / 3 for _ in kept))
        for kept in [(1,), (1, 2), (1, 2, 3)] * 12
    ]
    first = first_to_leave(settings, range(len(settings)))
    alike = [settings[number][0::4] for number in first]
    assert len(set(alike)) == len(alike)
    for kept, levels in {setting[0::4] for setting in settings}:
        rivals = [other.levels for other in settings if other.kept == kept and other.levels != levels]
        beaten = any(all(a <= b for a, b in zip(other, levels, strict=True)) for other in rivals)
        assert ((kept, levels) in alike) == (not beaten)


def test_a_table_knows_the_parts_of_its_time(tiny_design: Path) -> None:
    """Backbone and exits of a latency table are the stages of the same network with fewer exits."""
    from fluidb.studies.plan.sources import with_setting
    from fluidb.tables.latency import read_latency

    table = read_latency(tiny_design)
    (parts_s,) = TableSource("d", [table]).found_times(np.array([0]))
    samples = samples_of(200, 4)
    for setting in settings_of(NETWORK.exits, samples, [0.6]):
        kept = with_setting(table, setting, samples.measure).array()
        counts = np.array([float(place in (*setting.kept, 3)) for place in (1, 2, 3)])
        until = (parts_s[:, 0] + counts[:, None] * parts_s[:, 1]).cumsum(axis=0)
        places = [place - 1 for place in (*setting.kept, 3)]
        assert kept[0, 1:, 1:] == pytest.approx(until[places])


@pytest.mark.parametrize("overlap", list(Overlap))
def test_times_of_many_designs_are_those_of_their_tables(overlap: Overlap) -> None:
    """To the bit, with energies, and by part; a table is the same whether others were found with it."""
    source = random_problem(5).sources[0]
    assert isinstance(source, BoardSource)
    source = BoardSource(NETWORK, source.board, source.options.model_copy(update={"overlap": overlap}), [NETWORK])
    rows = np.arange(0, len(source.dsps), 5)
    alone = [source.table(row, causes=False) for row in rows[:2].tolist()]
    parts_s = source.found_times(rows, 2)
    assert alone == [source.table(row, causes=False) for row in rows[:2].tolist()]
    for nearer, further in pairwise([LeastTimes.of(parts_s), source.nearer(rows), source.least.at(rows)]):
        assert all((near >= far).all() for near, far in zip(nearer, further, strict=True))
    for row, here_s in zip(rows.tolist(), parts_s, strict=True):
        quick, whole = source.table(row, causes=False), source.table(row)
        layers = [layer.model_copy(update=dict.fromkeys(["macs", *USES])) for layer in whole.layers]
        assert quick.layers == layers
        wanted = whole.model_copy(update={"layers": layers, "peak_macs_per_s": None, "inputs": {}, "npus": None})
        assert dict(quick) == dict(wanted)
        assert here_s.sum(axis=(0, 1)) == pytest.approx(whole.array()[0, -1, 1:])


@pytest.mark.parametrize("seed", range(4))
def test_the_lowest_value_of_any_row_is_that_of_its_near_bound(seed: int) -> None:
    (source,) = random_problem(seed).sources
    near = source.nearer(np.arange(len(source.dsps)))
    for value in (lambda least: least.whole_s, lambda least: least.work_s[:, 0].sum(axis=1)):
        assert source.lowest(value) == (value(near).min(), value(near).argmin())


def test_rows_that_others_beat_are_those_of_brute_force() -> None:
    """In whatever parts they are judged; of equal rows one stays."""
    times_s = np.random.default_rng(1).integers(1, 5, (60, 3, 1)).astype(float)
    unbeaten, order = Unbeaten(), np.random.default_rng(2).permutation(60)
    unbeaten.judge(order, times_s[order])
    stays = [row for row in range(60) if row in unbeaten]
    assert 1 < len(stays) < 30
    for row in range(60):
        others = [(times_s[other] <= times_s[row]).all() for other in stays if other != row]
        assert any(others) == (row not in stays)
    parts = Unbeaten()
    for part in np.split(order, 6):
        parts.judge(part, times_s[part])
    assert parts.unknown(np.arange(62)).tolist() == [60, 61]
    assert {row for row in stays if row in parts} | {0} == {*stays, 0}


def test_a_search_leaves_out_beaten_rows_only_where_faster_is_better() -> None:
    for text, wanted in {
        "p99 <= 1s": True,
        "accuracy >= 50 %": True,
        "p99 >= 1s": False,
        "busy_share <= 50 %": False,
        "mac_share >= 50 %": False,
        "energy <= 1J": False,
    }.items():
        assert faster_is_better([parse_requirement("violation_rate <= 1 %"), parse_requirement(text)]) == wanted


def test_of_many_exits_pames_rule_chooses(fluidb: Run, tmp_path: Path) -> None:
    """Samples of all candidates of a network: at most one exit, or what `fluidb exits` chooses for some precision."""
    log = ["samples", "generate", "imagenet", "--network", "resnet50", "--count", 500, "-o", "log.npz"]
    assert fluidb(*log).returncode == 0
    asked = ["plan", "resnet50", "v100-tensorrt", "--rate", 20, "--slo", "1s", "--count", 200, "--seeds", 2]
    record = json.loads(
        fluidb(*asked, "--samples", "log.npz", "--policy", "fluid", "--require", "mean <= 1s", "--json").stdout
    )
    assert record["searches"][0]["counts"]["all"] > 15 * 3  # each alone with several thresholds
    accuracy = [plan["figures"]["accuracy"]["mean"] for plan in record["front"]]
    assert record["front"][-1]["exits"] == [] or accuracy == sorted(accuracy)
    chosen = json.loads(
        fluidb(
            "exits", "resnet50", "v100-tensorrt", "--samples", "log.npz", "--batch", 8, "--precision", "92%", "--guard",
            "none", "--json",
        ).stdout
    )  # fmt: skip
    network = build_network(with_exits(*read_network_file("resnet50")), Path("resnet50"))
    samples = read_samples(tmp_path / "log.npz")
    device = load_platform("v100-tensorrt", kind=Device)
    table = tabulate_file(with_exits(*read_network_file("resnet50")), Path("resnet50"), device)
    times_s = [stage_times(table, network)]
    first_half = chosen_settings(network.exits, samples[slice(0, 250)], samples.measure.searched, times_s)
    places = tuple(exit_["place"] for exit_ in chosen["exits"])
    assert (places, tuple(exit_["confidence"] for exit_ in chosen["exits"])) in [
        (item.kept, item.thresholds)
        for item in first_half  # `exits` chooses with one half
    ]
