"""Runs of each batch size in a simulation: the weights of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol

from pydantic import Field

from ..formats import AnyPath, InputError, JsonRecord, read_printed

Launches = list[list[float]]
"""Runs of each stage with b = 1..b_max samples."""


class StageLaunches(Protocol):
    """The number of segments of a stage, and their runs with each batch size."""

    @property
    def segments(self) -> int: ...  # noqa: D102

    @property
    def runs_by_batch(self) -> Sequence[int]: ...  # noqa: D102


def launches_of(stages: Sequence[StageLaunches]) -> Launches:
    """Runs of each whole stage with each batch size."""
    return [[count / stage.segments for count in stage.runs_by_batch] for stage in stages]


class _Stage(JsonRecord):
    segments: Annotated[int, Field(ge=1, le=10**6)]
    runs_by_batch: Annotated[list[Annotated[int, Field(ge=0, le=10**15)]], Field(min_length=1)]


class _OfNetwork(JsonRecord):
    network: str
    stages: list[_Stage] = []  # none of a network without a request


class _Results(JsonRecord):
    network: str | None = None
    stages: list[_Stage]
    networks: list[_OfNetwork] = []  # if there are several


def read_launches(path: AnyPath, b_max: int, network: str) -> Launches:
    """Read the runs of the stages of a network, one of several perhaps, from the output of ``serve-sim --json``."""
    what, command = "the results of a simulation", "fluidb serve-sim ... --json"
    results = read_printed(_Results, path, "fluidb.serve-sim-output/1", what, command)
    parts = results.networks or [_OfNetwork(network=results.network or network, stages=results.stages)]
    own = [launches_of(part.stages) for part in parts if part.network == network and part.stages]
    if not own:
        known = ", ".join(dict.fromkeys(part.network for part in parts if part.stages)) or "no network"
        raise InputError(
            f"{path}: expected the results of a simulation of {network}, found results of {known}; "
            "simulate this network"
        )
    rows = [row for launches in own for row in launches]
    for row in rows:
        if any(row[b_max:]):
            raise InputError(f"{path}: saw batches of more than {b_max}; set b_max to {len(row)} or more")
    whole = [[row[:b_max] + [0.0] * (b_max - len(row)) for row in launches] for launches in own]
    return [[sum(runs) for runs in zip(*of_stage, strict=True)] for of_stage in zip(*whole, strict=False)]
