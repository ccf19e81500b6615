"""What binds a plan, and what one step of each resource, of the traffic and of the objective would change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...dse.npu.latency import tabulate_latency
from ...formats import InputError
from ...platforms import Board
from ...tables.latency import LatencyTable
from .problem import PlanProblem
from .runs import FreshFigures, fresh_runs
from .search import Plan
from .sources import BoardSource, cut_apart, design_of

STEP = 0.1
"""Share by which the bandwidth, the rate and the objective change."""


@dataclass(frozen=True)
class PlanStep:
    """A plan with one thing less, or with more traffic, on the fresh seeds."""

    change: str
    fresh: FreshFigures


def steps_of(problem: PlanProblem, plan: Plan) -> list[PlanStep]:
    """Figures of a plan after each step."""
    numbers = plan.numbers
    source, policy = problem.sources[numbers.source], problem.policies[numbers.policy]
    setting, asked = problem.settings[numbers.setting], problem.traffic
    whole = source.tables(numbers.row)

    def at(change: str, tables: Sequence[LatencyTable], faster: float = 1.0, slo_s: float | None = None) -> PlanStep:
        wanted = asked if slo_s is None else replace(asked, slo_s=slo_s)
        traffics = {seed: wanted.draw(setting, seed, faster) for seed in asked.fresh}
        return PlanStep(change, fresh_runs(problem, problem.served(tables, numbers.setting), policy, traffics))

    steps = [
        at(f"times as measured: x {factor:g}", [table.slower(factor) for table in whole]) for factor in whole[0].ends
    ]
    steps += [at(change, tables) for change, tables in _smaller(source, numbers.row)]
    if asked.grows:
        steps.append(at(f"{STEP:.0%} more requests a second", whole, 1 + STEP))
    if isinstance(asked.slo_s, float):
        steps.append(at(f"an SLO {STEP:.0%} shorter", whole, slo_s=(1 - STEP) * asked.slo_s))
    return steps


def _smaller(source: object, row: int) -> Iterator[tuple[str, list[LatencyTable]]]:
    """The latency tables of a design with less of a resource."""
    if not isinstance(source, BoardSource):
        return
    tile, board = source.tile(row), source.board
    narrow: Board = board.model_copy(update={"bandwidth_gb_s": (1 - STEP) * board.bandwidth_gb_s})
    rows = tile.T_R // 4 * 2
    for change, on, smaller in (
        (f"a processing element less: T_C = {tile.T_C - 1}", board, tile._replace(T_C=tile.T_C - 1)),
        (f"half the rows: T_R = {rows}", board, tile._replace(T_R=rows)),
        (f"{STEP:.0%} less bandwidth: {narrow.bandwidth_gb_s:.4g} GB/s", narrow, tile),
    ):
        if min(smaller[:4]) < 1:
            continue
        try:
            whole = source.labelled(tabulate_latency(*design_of(source.network, on, source.options, smaller)))
            yield change, cut_apart(whole, source.networks)
        except InputError:  # so few rows hold no tile
            continue
