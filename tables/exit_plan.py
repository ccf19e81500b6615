"""The exits that were chosen for a network: the plan, and the two matrices that it was made from (paper 001, Fig. 7).

The matrices are files of their own, because they change for different reasons: the inference times with the device, the
batching pattern with the load. The plan names both by digest, so that a plan whose matrix was replaced is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ..formats import Strict, Table, check_beside, check_folder, read_table
from ..platforms.device import MAX_BATCH
from ..traffic.measures import ENTROPY
from .latency import LATENCY_FILE, MAX_S

EXITS_FILE, TIMES_FILE, PATTERN_FILE = "exits.json", "inference_time.json", "batching_pattern.json"
NETWORK_FILE, SAMPLES_FILE = "network.toml", "samples.npz"
PLAN_FILES = {EXITS_FILE, TIMES_FILE, PATTERN_FILE, NETWORK_FILE, SAMPLES_FILE, LATENCY_FILE}
"""All files that the folder of a plan may hold."""

Outcome = Literal["taken", "imprecise", "slow", "no gain", "longer"]
"""What became of a candidate: taken; no thresholds keep the precision; too many batches would be slower than without
it; its stage would not pay (Equation 3); or it would have done, but another one is better."""

Share = Annotated[float, Field(ge=0, le=1)]
Level = Annotated[float, Field(ge=0, le=ENTROPY.values.high)]
"""A threshold in the plan's measure: a confidence or an entropy."""

Count = Annotated[int, Field(ge=0)]
Time = Annotated[float, Field(ge=0, le=MAX_S)]


class StageRow(Strict):
    """T(a, b, B) for B = 1..b_max: from place ``from_place`` (0: the input) to place ``to_place``."""

    from_place: Count
    to_place: Annotated[int, Field(ge=1)]
    time_s: list[Annotated[float, Field(gt=0, le=MAX_S)]]


class InferenceTime(Table):
    """Times of all stages that a network could be cut into, ``fluidb.inference-time/1``.

    From them comes the inference-time matrix of every step (Section 6.3.1): ``exit_choice.time_row``.

    Attributes
    ----------
    network, platform : str
        Names of the network, without exits, and of what runs it.
    candidates : list of str
        Places 1..K: the layers that candidates follow. Place K + 1 is the end of the network.
    b_max : int
        Batch sizes covered.
    rows : list of StageRow
        For every pair of places.
    """

    schema_name: ClassVar[str] = "fluidb.inference-time/1"
    made_by: ClassVar[str] = "fluidb exits"

    network: str
    platform: str
    candidates: Annotated[list[str], Field(min_length=1)]
    b_max: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    rows: list[StageRow]

    @model_validator(mode="after")
    def _every_pair(self) -> Self:
        places = range(len(self.candidates) + 2)
        expected = [(a, b) for a in places for b in places if a < b]
        if [(row.from_place, row.to_place) for row in self.rows] != expected:
            raise ValueError(f"rows: expected every pair of places from 0 to {places[-1]} in order")
        if any(len(row.time_s) != self.b_max for row in self.rows):
            raise ValueError(f"rows: expected {self.b_max} times each, one for each batch size")
        return self

    def array(self) -> NDArray[np.float64]:
        """Times in seconds, T(a, b, B).

        Shapes: returns (K + 2, K + 2, b_max + 1).
        """
        ends = len(self.candidates) + 2
        times = np.zeros((ends, ends, self.b_max + 1))
        for row in self.rows:
            times[row.from_place, row.to_place, 1:] = row.time_s
        return times


class PatternRow(Strict):
    """A row of the batching-pattern matrix.

    Attributes
    ----------
    candidate : str
        The layer that the candidate follows.
    confidence : float
        Its confidence threshold; where samples have entropies, the entropy up to which they leave.
    count : int
        Its count threshold: principal values that must reach the confidence threshold.
    batches : list of int
        C[i, j]: batches of which ceil(samples that move on / v) is j.
    """

    candidate: str
    confidence: Level
    count: Annotated[int, Field(ge=1)]
    batches: list[Count]


class PatternStep(Strict):
    """The batching-pattern matrix of a step: the candidates behind ``after`` whose thresholds keep the precision."""

    after: Count
    rows: list[PatternRow]


class BatchingPattern(Table):
    """How many samples of each batch of a log move on, ``fluidb.batching-pattern/1`` (Section 6.3.2).

    Attributes
    ----------
    network : str
        Name of the network, without exits.
    batch, width : int
        Samples of a batch, n, and of a bin, v.
    batches : int
        Whole batches of the log, k.
    steps : list of PatternStep
        One for each step of the choice.
    """

    schema_name: ClassVar[str] = "fluidb.batching-pattern/1"
    made_by: ClassVar[str] = "fluidb exits"

    network: str
    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    width: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    batches: Annotated[int, Field(ge=1)]
    steps: list[PatternStep]


class PlannedExit(Strict):
    """An exit that was chosen.

    Attributes
    ----------
    after : str
        The layer that it follows.
    place : int
        Its number among the candidates, counted from 1.
    confidence : float
        A sample leaves if enough of its principal values reach this confidence; or entropy, where samples have these.
    count : int
        How many are enough; 1 for a classification.
    rate : float
        Share of samples that leave here.
    """

    after: str
    place: Annotated[int, Field(ge=1)]
    confidence: Level
    count: Annotated[int, Field(ge=1)]
    rate: Share


class PlanFigures(Strict):
    """What a log gave in whole batches, one after the other (``exit_choice.replay_exits``)."""

    average_s: Time
    tail_s: Time
    original_s: Time
    slow_share: Share
    precision: Annotated[float, Field(ge=0)]


class CandidateRecord(Strict):
    """What became of a candidate, and why (``exit_choice.Verdict``)."""

    candidate: str
    outcome: Outcome
    confidence: Level
    count: Annotated[int, Field(ge=1)]
    exits: Count
    precision: Annotated[float, Field(ge=0)]
    slow_share: Share | None
    value_s: Time | None


class PlanStep(Strict):
    """One step of the choice (``exit_choice.Step``)."""

    after: Count
    batch: Annotated[int, Field(ge=1)]
    limit_s: Time
    candidates: list[CandidateRecord]


class ExitPlan(Table):
    """Exits with their thresholds, and what they are expected to do: ``exits.json``, ``fluidb.exits/1``.

    Attributes
    ----------
    network, platform : str
        Names of the network, without exits, and of what runs it.
    batch, width, precision, slow, gain, posterior, guard, confidences
        What was asked for (``exit_choice.Goal``).
    measure : str
        What the samples have, and all thresholds of the plan are: confidences or entropies.
    exits : list of PlannedExit
        In order of depth.
    samples_chosen, samples_checked : int
        Samples of the half of the log that chose, and of the half that checked.
    expected : PlanFigures
        On the half that chose.
    checked : PlanFigures
        On the other half.
    steps : list of PlanStep
        What became of every candidate in every step.
    ended : str
        Which of the two terminations of Section 6.4 ended the choice.
    """

    schema_name: ClassVar[str] = "fluidb.exits/1"
    made_by: ClassVar[str] = "fluidb exits"

    network: str
    platform: str
    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    width: Annotated[int, Field(ge=1, le=MAX_BATCH)]
    precision: Share
    slow: Share
    gain: Share
    posterior: Literal["observed", "literal"]
    guard: Share | Literal["bound"] | None
    measure: Literal["confidence", "entropy"] = "confidence"
    confidences: list[Level]
    exits: Annotated[list[PlannedExit], Field(min_length=1)]
    samples_chosen: Annotated[int, Field(ge=1)]
    samples_checked: Annotated[int, Field(ge=1)]
    expected: PlanFigures
    checked: PlanFigures
    steps: list[PlanStep]
    ended: Literal["none left", "all leave"]


def read_plan(folder: Path) -> ExitPlan:
    """Read the plan of a folder."""
    check_folder(folder, "a folder with a plan of exits", "make one with `fluidb exits`")
    path = folder / EXITS_FILE
    plan = read_table(ExitPlan, path)
    files = {
        InferenceTime.schema_name: (TIMES_FILE, InferenceTime.made_by),
        BatchingPattern.schema_name: (PATTERN_FILE, BatchingPattern.made_by),
    }
    check_beside(plan, path, files)
    return plan
