"""Plans for the networks of a file: which of some designs serves them, and under which policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...formats import AnyPath, InputError, is_folder, is_input, parse_toml
from ...serving.figures import FIGURES
from ...serving.inputs import Requests
from ...serving.metrics import figures_of
from ...serving.networks import ServedNetwork, as_served, prepare_requests, scheduler_on
from ...serving.replay import simulate
from ...serving.requirements import Requirement, check_stated
from ...serving.scheduler import losses_of
from ...serving.state import BETWEEN
from ...tables.latency import LATENCY_FILE, LatencyTable, read_latency
from ...traffic.arrivals import poisson
from ...traffic.distributions import Objective
from ..estimates import Estimate
from ..workers import Workers, in_order
from .policies import DEFAULT_POLICIES, alternatives


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTraffic:
    """The requests of all networks together: a trace, or Poisson arrivals; neither where they have their own."""

    trace: AnyPath | None = None
    rate_per_s: float | None = None
    count: int = 20_000  # of arrivals at a rate
    slo_s: Objective | None = None
    seed: int = 0
    seeds: int = 5

    def requests(self, seed: int, *, own: bool) -> Requests:
        """The requests of a run."""
        given = [key for key, value in (("trace", self.trace), ("rate", self.rate_per_s)) if value is not None]
        if len(given) != (0 if own else 1):
            what = "neither trace nor rate beside traffic of their own" if own else "a trace or a rate"
            raise InputError(f"networks: expected {what}, found {' and '.join(given) or 'none'}")
        trace = self.trace if self.rate_per_s is None else poisson(self.rate_per_s, self.count, seed)
        return Requests(trace=trace, slo_s=self.slo_s, seed=seed)


@dataclass(frozen=True, slots=True)
class ServedPlan:
    """Hardware and a policy, with each required figure over seeds, and whether each requirement surely holds."""

    hardware: str
    policy: str
    multipliers: int | None  # of its NPU or cores; None of a device
    figures: list[Estimate | None]  # None where a run has no finite one, as of requests that were dropped
    verdicts: list[bool | None]

    @property
    def kept(self) -> bool | None:
        """Whether all requirements surely hold; ``None`` if that is undecided, as none of them surely fails."""
        return False if False in self.verdicts else None if None in self.verdicts else True


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """The cheapest plan that surely keeps the requirements, and all that were simulated, in the order of their cost."""

    best: ServedPlan | None
    plans: list[ServedPlan]
    left: int  # plans on dearer hardware, which were not simulated


def is_networks_file(name: AnyPath) -> bool:
    """Whether a name is a file of networks."""
    return Path(name).suffix == ".toml" and is_input(Path(name)) and "networks" in parse_toml(Path(name))


def multipliers_of(table: LatencyTable) -> int | None:
    """Multipliers of the NPU or the cores of a table: T_P x T_C, times the pixels side by side."""
    if not table.npus:
        return None
    numbers = [1] if table.cores is None else [table.cores.of.count(kind) for kind in range(len(table.npus))]
    tiles = [npu.tile for npu in table.npus]
    return sum(number * math.prod(tile[1:4]) for number, tile in zip(numbers, tiles, strict=True))


def networks_on(networks: Sequence[ServedNetwork], folder: AnyPath) -> tuple[ServedNetwork, ...]:
    """The networks of a file with their tables in a folder of another design: one for each, by its network's name."""
    root = Path(folder)
    if not is_folder(root):
        raise InputError(
            f"{folder}: expected a folder with a latency table of each network, found none; make one with `fluidb dse "
            "A,B BOARD --together -o DIR` and `fluidb latency`"
        )
    places = [root, *sorted(path for path in root.iterdir() if path.is_dir())]
    tables = [read_latency(place) for place in places if (place / LATENCY_FILE).is_file()]
    there = []
    for network in networks:
        name = network.latency.network
        own = [table for table in tables if table.network == name]
        if len(own) != 1:
            raise InputError(f"{folder}: expected one latency table of {name}, found {len(own)}")
        there.append(replace(network, table=own[0]))
    return as_served(there)


def usual_policies(networks: Sequence[ServedNetwork]) -> list[str]:
    """The usual policies; of several networks with every rule between them that they have what it needs for."""
    if len(networks) == 1:
        return list(DEFAULT_POLICIES)
    rules = [rule for rule in BETWEEN if rule != "priority" or all(own.priority is not None for own in networks)]
    return [f"{policy}:between={rule}" for policy in DEFAULT_POLICIES for rule in rules]


def plan_served(
    file: AnyPath,
    folders: Sequence[AnyPath],
    requirements: Sequence[Requirement],
    policies: Sequence[str] = (),
    traffic: ServedTraffic | None = None,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ServedAnswer:
    """Find the cheapest of some hardware, with a policy, that serves networks within requirements.

    Every policy is simulated on every hardware that is not dearer than one on which a plan is surely kept.
    """
    traffic, networks = traffic or ServedTraffic(), as_served(file)
    texts = [spec for text in policies or usual_policies(networks) for spec in alternatives(text)]
    hardware = [(str(folder), networks_on(networks, folder)) for folder in folders]
    costs = [multipliers_of(own[0].latency) for _, own in hardware]
    if None in costs and any(cost is not None for cost in costs):
        raise InputError(
            f"hardware: expected NPUs only or devices only, whose costs are alike, found both, e.g. "
            f"{hardware[costs.index(None)][0]}"
        )
    order = sorted(range(len(hardware)), key=lambda k: costs[k] or 0)
    plans: list[ServedPlan] = []
    best: ServedPlan | None = None
    for k in order:
        if best is not None and (costs[k] or 0) > (best.multipliers or 0):
            break
        for text in texts:
            run = partial(_run, hardware[k][1], text, requirements, traffic)
            seeds = range(traffic.seed, traffic.seed + traffic.seeds)
            values = {seeds[place]: own for place, own in in_order(Workers(threads).map(run, None, seeds))}
            plans.append(_judged(hardware[k][0], text, costs[k], requirements, values))
            if best is None and plans[-1].kept:
                best = plans[-1]  # of equal costs the first
            if progress is not None:
                progress(len(plans), len(hardware) * len(texts))
    return ServedAnswer(best, plans, len(hardware) * len(texts) - len(plans))


def _run(
    networks: Sequence[ServedNetwork], policy: str, requirements: Sequence[Requirement], traffic: ServedTraffic,
    _: None, seed: int,
) -> list[float]:  # fmt: skip
    """The required figures of a run."""
    scheduler = scheduler_on(networks, policy)
    limits = [network.limit for network in networks if network.limit]
    check_stated(requirements, **losses_of(scheduler, *limits))
    requests = traffic.requests(seed, own=networks[0].traffic is not None)
    trace = None if requests.trace is None else requests.read()
    figures = figures_of(simulate(networks, prepare_requests(networks, requests, trace), scheduler))
    values = []
    for requirement in requirements:
        value = FIGURES[requirement.name].of(figures.of(requirement.network))
        check_stated([requirement], **{requirement.name: value})
        assert value is not None
        values.append(value)
    return values


def _judged(
    hardware: str, policy: str, cost: int | None, requirements: Sequence[Requirement], values: dict[int, list[float]]
) -> ServedPlan:
    """A plan by its figures of each seed."""
    seeds, figures = sorted(values), []
    for k, requirement in enumerate(requirements):
        own = [values[seed][k] for seed in seeds]
        finite = all(map(math.isfinite, own))
        figures.append(Estimate.of(FIGURES[requirement.name], own, seeds, [None] * len(own)) if finite else None)
    verdicts = [figure is not None and figure.side(requirement)
                for figure, requirement in zip(figures, requirements, strict=True)]  # fmt: skip
    return ServedPlan(hardware, policy, cost, figures, verdicts)
