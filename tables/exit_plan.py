"""The exits that were chosen for a network: the plan, and the two matrices that it was made from (PAME, Fig. 7).

The inference times change with the device, the batching pattern with the load; the plan names both files by digest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ..formats import AnyPath, SparseRecord, Strict, Table, check_beside, check_folder, read_table
from ..formats.array_types import Floats
from ..platforms.device import MAX_BATCH
from ..traffic.measures import HIGHEST, MeasureName
from .files import EXITS_FILE, LATENCY_FILE
from .layer_use import MAX_S, Share

TIMES_FILE, PATTERN_FILE = "inference_time.json", "batching_pattern.json"
NETWORK_FILE, SAMPLES_FILE = "network.toml", "samples.npz"
PLAN_FILES = {EXITS_FILE, TIMES_FILE, PATTERN_FILE, NETWORK_FILE, SAMPLES_FILE, LATENCY_FILE}
"""All files that the folder of a plan may hold."""

Outcome = Literal["taken", "imprecise", "slow", "no gain", "longer"]
"""Outcome of a candidate: taken; no thresholds keep the precision; too many batches would be slower than without it; it
saves too little time (Equation 3); or it meets all requirements, but another one is faster."""

Count = Annotated[int, Field(ge=0)]
Time = Annotated[float, Field(ge=0, le=MAX_S)]

Level = Annotated[float, Field(ge=0, le=HIGHEST)]
"""A threshold of an exit, of any measure."""


class PlannedService(SparseRecord):
    """The batch size and the thresholds that the exits of a network were chosen for; a table is served with them."""

    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    measure: MeasureName = "confidence"
    thresholds: list[Level]  # of each exit but the last

    def check(self, exits: int, b_max: int) -> None:
        """Refuse, as a ``ValueError``, a batch or thresholds that do not fit the table."""
        if self.batch > b_max or len(self.thresholds) != exits - 1:
            raise ValueError(
                f"planned: expected a batch of at most {b_max} and {exits - 1} thresholds, one for each exit but the "
                "last"
            )


class StageRow(Strict):
    """T(a, b, B) for B = 1..b_max: from place ``from_place`` (0: the input) to place ``to_place``."""

    from_place: Count
    to_place: Annotated[int, Field(ge=1)]
    time_s: list[Annotated[float, Field(gt=0, le=MAX_S)]]


class InferenceTime(Table, SparseRecord):
    """Times of all stages that a network could be cut into, ``fluidb.inference-time/1`` (Section 6.3.1)."""

    schema_name: ClassVar[str] = "fluidb.inference-time/1"
    made_by: ClassVar[str] = "fluidb exits"

    network: str  # without exits
    platform: str
    candidates: Annotated[list[str], Field(min_length=1)]  # places 1..K: layers before them; place K + 1 is the end
    b_max: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    rows: list[StageRow]  # for every pair of places
    # for every candidate, of B = 1..b_max samples that stay where others leave; no time if it is not stated
    gather_s: list[list[Time]] | None = None

    @model_validator(mode="after")
    def _every_pair(self) -> Self:
        places = range(len(self.candidates) + 2)
        expected = [(a, b) for a in places for b in places if a < b]
        if [(row.from_place, row.to_place) for row in self.rows] != expected:
            raise ValueError(f"rows: expected every pair of places from 0 to {places[-1]} in order")
        if any(len(row.time_s) != self.b_max for row in self.rows):
            raise ValueError(f"rows: expected {self.b_max} times each, one for each batch size")
        if self.gather_s is not None and [len(row) for row in self.gather_s] != [self.b_max] * len(self.candidates):
            raise ValueError(
                f"gather_s: expected {len(self.candidates)} rows, one for each candidate, of {self.b_max} times, one "
                "for each batch size"
            )
        return self

    def array(self) -> Floats:
        """Times in seconds, T(a, b, B); gathers take T(a, a, B). Shapes: returns (K + 2, K + 2, b_max + 1)."""
        ends = len(self.candidates) + 2
        times = np.zeros((ends, ends, self.b_max + 1))
        for row in self.rows:
            times[row.from_place, row.to_place, 1:] = row.time_s
        for place, gather_s in enumerate(self.gather_s or [], 1):
            times[place, place, 1:] = gather_s
        return times


class PatternRow(Strict):
    """A row of the batching-pattern matrix."""

    candidate: str  # the layer that it follows
    confidence: Level  # its threshold, of the plan's measure
    count: Annotated[int, Field(ge=1)]  # principal values that must reach the threshold
    batches: list[Count]  # C[i, j]: batches whose ceil(samples that move on / v) is j


class PatternStep(Strict):
    """The batching-pattern matrix of a step: the candidates behind ``after`` whose thresholds keep the precision."""

    after: Count
    rows: list[PatternRow]


class BatchingPattern(Table):
    """Batches of a log by the number of samples that move on, ``fluidb.batching-pattern/1`` (Section 6.3.2)."""

    schema_name: ClassVar[str] = "fluidb.batching-pattern/1"
    made_by: ClassVar[str] = "fluidb exits"

    network: str  # without exits
    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]  # samples, n
    width: Annotated[int, Field(ge=1, le=MAX_BATCH)]  # samples of a bin, v
    batches: Annotated[int, Field(ge=1)]  # whole batches of the log, k
    steps: list[PatternStep]


class PlannedExit(Strict):
    """An exit that was chosen."""

    after: str  # the layer that it follows
    place: Annotated[int, Field(ge=1)]  # among the candidates, counted from 1
    confidence: Level  # its threshold, of the plan's measure
    count: Annotated[int, Field(ge=1)]  # principal values that must reach the threshold; 1 for a classification
    rate: Share  # of samples that leave here


class PlanFigures(Strict):
    """Figures of a log that ran in whole batches, one after the other (``exit_choice.replay_exits``)."""

    average_s: Time
    tail_s: Time
    original_s: Time
    slow_share: Share
    precision: Annotated[float, Field(ge=0)]


class CandidateRecord(Strict):
    """Outcome of a candidate (``exit_choice.CandidateVerdict``)."""

    candidate: str
    outcome: Outcome
    confidence: Level
    count: Annotated[int, Field(ge=1)]
    exits: Count
    precision: Annotated[float, Field(ge=0)]
    slow_share: Share | None
    value_s: Time | None


class StepRecord(Strict):
    """One step of the choice (``exit_choice.ChoiceStep``)."""

    after: Count
    batch: Annotated[int, Field(ge=1)]
    limit_s: Time
    candidates: list[CandidateRecord]


class ExitPlan(Table):
    """Exits with their thresholds and expected figures: ``exits.json``, ``fluidb.exits/1``."""

    schema_name: ClassVar[str] = "fluidb.exits/1"
    made_by: ClassVar[str] = "fluidb exits"

    network: str  # without exits
    platform: str
    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]  # this and the next six: exit_thresholds.ExitGoal
    width: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    precision: Share
    slow: Share
    gain: Share
    posterior: Literal["observed", "literal"]
    guard: Share | Literal["bound"] | None
    measure: MeasureName = "confidence"  # of the samples, and of all thresholds of the plan
    confidences: list[Level]  # thresholds that were tried
    exits: Annotated[list[PlannedExit], Field(min_length=1)]  # in order of depth
    samples_chosen: Annotated[int, Field(ge=1)]  # of the half of the log that chose
    samples_checked: Annotated[int, Field(ge=1)]  # of the half that checked
    expected: PlanFigures  # on the half that chose
    checked: PlanFigures  # on the other half
    steps: list[StepRecord]
    ended: Literal["none left", "all leave"]  # the two terminations of Section 6.4

    @property
    def service(self) -> PlannedService:
        """How the plan is served."""
        levels = [exit_.confidence for exit_ in self.exits]
        return PlannedService(batch=self.batch, measure=self.measure, thresholds=levels)


def read_plan(folder: AnyPath) -> ExitPlan:
    """Read the plan of a folder."""
    check_folder(folder, "a folder with a plan of exits", "make one with `fluidb exits`")
    path = Path(folder, EXITS_FILE)
    plan = read_table(ExitPlan, path)
    files = {
        InferenceTime.schema_name: (TIMES_FILE, InferenceTime.made_by),
        BatchingPattern.schema_name: (PATTERN_FILE, BatchingPattern.made_by),
    }
    check_beside(plan, path, files)
    return plan
