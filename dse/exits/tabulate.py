"""The records of a plan of exits, made from a choice on plain arrays."""

from __future__ import annotations

from dataclasses import fields

from ...models import Exit, Network
from ...rules.exit_choice import CandidateVerdict, ChoiceStep, ExitChoice
from ...rules.exit_log import Log
from ...rules.exit_thresholds import ExitGoal
from ...rules.exit_times import LogReplay
from ...tables.exit_plan import (
    BatchingPattern,
    CandidateRecord,
    ExitPlan,
    InferenceTime,
    PatternRow,
    PatternStep,
    PlanFigures,
    StageRow,
    StepRecord,
)
from ...tables.latency import LatencyTable
from ...traffic.measures import MEASURES, Measure
from .stage_times import stage_times

ASKED = tuple(field.name for field in fields(ExitGoal) if field.name != "thresholds")
"""What a plan states of its goal under the same names; thresholds it states as its measure has them."""


def tabulate_times(name: str, table: LatencyTable, network: Network) -> InferenceTime:
    """Stage times that a latency table states, of the network with an exit at each candidate."""
    times = stage_times(table, network)
    places = range(len(times))
    gather_s = [times[a, a, 1:].tolist() for a in places[1:-1]]
    return InferenceTime(
        network=name,
        platform=table.platform,
        candidates=[exit_.name for exit_ in table.exits[:-1]],
        b_max=table.b_max,
        rows=[
            StageRow(from_place=a, to_place=b, time_s=times[a, b, 1:].tolist()) for a in places for b in places if a < b
        ],
        gather_s=None if table.gather_s is None else gather_s,
    )


def table_of_times(times: InferenceTime, end: str) -> LatencyTable:
    """The latency table of the network with an exit at each candidate, of times of stages."""
    stage_s, places = times.array(), range(len(times.candidates) + 1)
    exits = [*(Exit(name=name, rate=0.0) for name in times.candidates), Exit(name=end, rate=1.0)]
    return LatencyTable(
        network=times.network,
        platform=times.platform,
        exits=exits,
        b_max=times.b_max,
        stage_s=[[stage_s[place, place + 1, 1:].tolist() for place in places]],
        gather_s=None if times.gather_s is None else [stage_s[place, place].tolist() for place in places],
    )


def tabulate_pattern(
    network: str, candidates: list[str], goal: ExitGoal, log: Log, choice: ExitChoice, measure: Measure
) -> BatchingPattern:
    """The rows that a choice was made from."""

    def row(verdict: CandidateVerdict) -> PatternRow:
        assert verdict.pattern is not None
        return PatternRow(
            candidate=candidates[verdict.candidate - 1],
            confidence=measure.to_file(verdict.setting.threshold),
            count=int(log.counts[verdict.setting.column]),
            batches=verdict.pattern.tolist(),
        )

    return BatchingPattern(
        network=network,
        batch=goal.batch,
        width=goal.width,
        batches=len(log.scores) // goal.batch,
        steps=[
            PatternStep(
                after=step.after, rows=[row(verdict) for verdict in step.verdicts if verdict.pattern is not None]
            )
            for step in choice.steps
        ],
    )


def tabulate_step(step: ChoiceStep, candidates: list[str], log: Log, measure: Measure) -> StepRecord:
    """A step of a choice."""
    return StepRecord(
        after=step.after,
        batch=step.batch,
        limit_s=step.limit_s,
        candidates=[
            CandidateRecord(
                candidate=candidates[verdict.candidate - 1],
                outcome=verdict.outcome,
                confidence=measure.to_file(verdict.setting.threshold),
                count=int(log.counts[verdict.setting.column]),
                exits=verdict.setting.exits,
                precision=verdict.setting.precision,
                slow_share=verdict.slow_share,
                value_s=verdict.value_s,
            )
            for verdict in step.verdicts
        ],
    )


def expected_of(replay: LogReplay) -> PlanFigures:
    """The figures of a replayed log that a plan states."""
    return PlanFigures(**{name: getattr(replay, name) for name in PlanFigures.model_fields})


def goal_of(plan: ExitPlan) -> ExitGoal:
    """The goal of a plan, as the choice takes it."""
    thresholds = tuple(map(MEASURES[plan.measure].to_array, plan.confidences))
    return ExitGoal(**{name: getattr(plan, name) for name in ASKED}, thresholds=thresholds)
