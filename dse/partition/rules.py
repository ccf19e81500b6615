"""The rules by which units are fused into blocks (EdgeSP, Algorithm 2, and others)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...tables.partition import FusionRule
from .blocks import Costs, Rows, Span


class BlockStep(NamedTuple):
    """A block and the bounds of the shares of its rows."""

    span: Span
    rows: Rows


class BlockPlan(NamedTuple):
    """The blocks of a network, by stage; a stage may have none."""

    trunk: tuple[tuple[BlockStep, ...], ...]
    branches: tuple[tuple[BlockStep, ...], ...]

    def stages(self, held: Rows) -> Iterator[tuple[list[tuple[BlockStep, Rows]], Rows]]:
        """Steps by stage, each with the rows of its input that devices hold; and the rows held of its last map."""
        for trunk, branch in zip(self.trunk, self.branches, strict=True):
            steps = (*trunk, *branch)
            holds = [held, *(step.rows for step in steps)]
            held = holds[len(trunk)]
            yield list(zip(steps, holds, strict=False)), holds[-1]


def choose(costs: Costs, rule: FusionRule) -> BlockPlan | None:
    """The blocks by a rule; none crosses an exit. If they do not fit into memory, the optimal ones; else ``None``."""
    if rule is not FusionRule.OPTIMAL:
        plan = _by_rule(costs, _EXTENDS[rule])
        if all(costs.fits(step.span) for steps in (*plan.trunk, *plan.branches) for step in steps):
            return plan
    return _optimal(costs) if rule is not FusionRule.LAYERWISE and _some_fit(costs) else None


def _some_fit(costs: Costs) -> bool:
    """True if the network can be cut into blocks that fit."""
    network = costs.network
    parts = [Span(len(network.branches), first, end) for first, end in pairwise((0, *network.ends))]
    parts += [Span(number, 0, len(chain.units)) for number, chain in enumerate(network.branches)]
    for part in parts:
        reached = [part.first]  # places up to which blocks fit
        for end in range(part.first + 1, part.end + 1):
            if any(costs.fits(Span(part.chain, first, end)) for first in reversed(reached)):
                reached.append(end)
        if reached[-1] < part.end:
            return False
    return True


def _by_rule(costs: Costs, extends: Extends) -> BlockPlan:
    network = costs.network
    trunk, branches = [], []
    first, held = 0, costs.held_at_start()
    for number, end in enumerate(network.ends):
        trunk.append(_greedy(costs, Span(len(network.branches), first, end), held, extends))
        first, held = end, trunk[-1][-1].rows if trunk[-1] else held
        units = network.branch_units(number)
        branches.append(_greedy(costs, Span(number, 0, len(units)), held, extends))
    return BlockPlan(tuple(trunk), tuple(branches))


Extends = Callable[[Costs, Span, Rows], bool]


def _greedy(costs: Costs, whole: Span, held: Rows, extends: Extends) -> tuple[BlockStep, ...]:
    """Extend a block unit by unit until the rule closes it before the next one."""
    steps, first = [], whole.first
    while first < whole.end:
        span = Span(whole.chain, first, first + 1)
        while span.end < whole.end and extends(costs, span, held):
            span = span._replace(end=span.end + 1)
        steps.append(BlockStep(span, costs.shares(span)))
        first, held = span.end, steps[-1].rows
    return tuple(steps)


def _marginal(costs: Costs, span: Span, held: Rows) -> bool:
    """True if the block with the next unit takes no longer than the two one after the other."""
    chain, first, end = span
    following, both = Span(chain, end, end + 1), Span(chain, first, end + 1)
    apart_s = costs.time_s(span, costs.shares(span), held)
    apart_s += costs.time_s(following, costs.shares(following), costs.shares(span))
    return costs.time_s(both, costs.shares(both), held) <= apart_s


def _paper(costs: Costs, span: Span, held: Rows) -> bool:  # noqa: ARG001  (one signature for all rules)
    """True if computing the overlap takes no longer than exchanging the maps between the units (Algorithm 2, line 6).

    Mended: the sum begins with the first unit, since it would be empty for two units; and the unit that violates the
    condition stays outside the block.
    """
    span = span._replace(end=span.end + 1)
    if not costs.fits(span):
        return False
    blocks, rows = costs.blocks, costs.shares(span)
    units, needs = blocks.units(span), blocks.needs(span)
    height = units[-1].shape.height
    overlap, saved = np.zeros(len(costs.names)), np.zeros(len(costs.names))
    for number, unit in enumerate(units):
        for layer in unit.layers:
            if layer.name in needs:
                own = np.diff(rows) * layer.shape.height / height
                overlap += layer.row_flops * (_computed(needs[layer.name], rows) - own)
        if number < len(units) - 1:
            row_bytes = blocks.word_bytes * unit.shape.width * unit.shape.channels
            saved += row_bytes * _computed(needs[unit.name], rows)
    busy = np.diff(rows) > 0
    devices = costs.devices
    return bool((overlap[busy] / devices.flop_s[busy]).max() <= (saved[busy] / devices.bytes_s[busy]).max())


def _computed(need: tuple[Rows, Rows], rows: Rows) -> Rows:
    """Rows of a map that each device computes; none without a share."""
    first, end = need
    return np.where(np.diff(rows) > 0, end[rows[1:]] - first[rows[:-1]], 0)


_EXTENDS: dict[FusionRule, Extends] = {
    FusionRule.MARGINAL: _marginal,
    FusionRule.PAPER: _paper,
    FusionRule.LAYERWISE: lambda costs, span, held: False,  # noqa: ARG005  (one signature for all rules)
}


class _State(NamedTuple):
    """The best way to the end of a block: the time so far, the rows of its map by device, and the steps to it."""

    cost_s: float
    rows: Rows
    step: BlockStep | None = None
    before: _State | None = None
    branches: tuple[tuple[BlockStep, ...], ...] = ()

    @property
    def steps(self) -> list[BlockStep]:
        """The steps, first to last."""
        steps = []
        here: _State | None = self
        while here is not None:
            steps += [here.step] if here.step is not None else []
            here = here.before
        return steps[::-1]


def _optimal(costs: Costs) -> BlockPlan:
    """The blocks with the least average time over the exits, by dynamic programming over the last block.

    The last block and its shares are the whole state: the time of a block depends on those before it only by the
    devices that hold its input.
    """
    network = costs.network
    states, first, reach = [_State(0.0, costs.held_at_start())], 0, 1.0
    for number, (end, exit_) in enumerate(zip(network.ends, network.exits, strict=True)):
        # of the samples that run the stage; where none does, the faster is still the better
        weight = max(reach, 1e-9) * exit_.steps
        states = _shortest(costs, Span(len(network.branches), first, end), states, weight)
        states = [_with_branch(costs, number, state, weight) for state in states]
        first, reach = end, reach - exit_.rate
    best = min(states, key=_cost)
    bounds = zip((0, *network.ends), network.ends, strict=False)
    trunk = [tuple(step for step in best.steps if first < step.span.end <= end) for first, end in bounds]
    return BlockPlan(tuple(trunk), best.branches)


def _shortest(costs: Costs, whole: Span, starts: list[_State], weight: float) -> list[_State]:
    """The best state for every last block that ends where ``whole`` does."""
    at = {whole.first: starts}
    for end in range(whole.first + 1, whole.end + 1):
        at[end] = []
        for first in range(whole.first, end):
            span = Span(whole.chain, first, end)
            befores = at[first] if costs.by_halo else [min(at[first], key=_cost)]
            rows = costs.shares(span)
            ways = [(state.cost_s + weight * costs.time_s(span, rows, state.rows), state) for state in befores]
            cost_s, before = min(ways, key=lambda way: way[0])
            at[end].append(_State(cost_s, rows, BlockStep(span, rows), before, before.branches))
    return at[whole.end]


def _with_branch(costs: Costs, number: int, state: _State, weight: float) -> _State:
    """The state with the cost and the steps of the branch of an exit, and of the layers that need a whole map."""
    part = Span(number, 0, len(costs.network.branch_units(number)))
    states = [
        branch._replace(cost_s=branch.cost_s + weight * costs.wholes_s(number, branch.rows))
        for branch in _shortest(costs, part, [_State(state.cost_s, state.rows)], weight)
    ]
    best = min(states, key=_cost)
    return state._replace(cost_s=best.cost_s, branches=(*state.branches, tuple(best.steps)))


def _cost(state: _State) -> float:
    return state.cost_s
