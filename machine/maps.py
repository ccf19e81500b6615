"""Feature maps of the requests that a device holds: batches are assembled from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..formats.array_types import Floats, Ints
from .runner import Launch

Tensors = Mapping[str, NDArray[Any]]
RunStage = Callable[[int, Tensors], tuple[NDArray[Any], Tensors]]
"""Runs a stage, counted from 0: from the tensors that it takes to the answers and the tensors that later stages take.

Every tensor has a row for each sample.
"""


Held = tuple[Tensors, int]
"""The maps of a batch, and the row of a sample in them."""


def assemble(held: Sequence[Held | None], size: int) -> tuple[Tensors, Sequence[int], float | None]:
    """The maps of a batch of this size, the row of each sample, and the time to gather them, if that was needed.

    Other rows are padding.
    """
    sources: dict[int, Tensors] = {}
    taken: dict[int, list[int]] = {}
    for kept in held:
        assert kept is not None, "a batch has run all stages before this one"
        sources[id(kept[0])] = kept[0]
        taken.setdefault(id(kept[0]), []).append(kept[1])
    first = next(iter(sources.values()))
    if len(sources) == 1 and len(next(iter(first.values()))) == size:
        return first, [kept[1] for kept in held if kept is not None], None
    begin_s = time.perf_counter()
    padding = [taken[id(first)][0]] * (size - len(held))  # any row will do
    taken[id(first)] = padding + taken[id(first)]
    tensors = {name: np.empty((size, *values.shape[1:]), values.dtype) for name, values in first.items()}
    filled = 0
    for key, source in sources.items():
        end = filled + len(taken[key])
        for name, whole in tensors.items():
            source[name].take(taken[key], axis=0, out=whole[filled:end], mode="clip")
        filled = end
    return tensors, range(len(padding), size), time.perf_counter() - begin_s


class BatchRun(NamedTuple):
    """What a stage made of a batch: answers and maps, and the rows of its samples in both; other rows are padding."""

    answers: NDArray[Any]
    keeps: Tensors
    rows: Sequence[int]
    gather_s: float | None

    @property
    def own(self) -> NDArray[Any]:
        """The answers to its samples."""
        return self.answers if len(self.answers) == len(self.rows) else self.answers[self.rows]


def run_batch(
    run_stage: RunStage, launch: Launch, held: Sequence[Held | None], inputs: Callable[[], Tensors]
) -> BatchRun:
    """Run a stage for a batch: the first on its inputs, any other on the maps that its samples hold."""
    tensors: Tensors
    rows: Sequence[int]
    if launch.segment == 0:
        tensors, rows, gather_s = inputs(), range(len(held)), None
    else:
        tensors, rows, gather_s = assemble(held, launch.places)
    return BatchRun(*run_stage(launch.segment, tensors), rows, gather_s)


class MapRunner:
    """Runs real stages on real feature maps.

    ``rows`` says which row of the inputs each request is, ``confidence`` how sure each answer is of a stage counted
    from 0, and ``returned`` is called with each request that has returned.
    """

    def __init__(
        self,
        run_stage: RunStage,
        inputs: Tensors,
        rows: Ints,
        confidence: Callable[[int, NDArray[Any]], Floats],
        returned: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.run_stage, self.inputs, self.rows, self.confidence = run_stage, inputs, rows, confidence
        self.returned = returned
        self.held: list[Held | None] = [None] * len(rows)
        self.answers: list[list[NDArray[Any]]] = [[] for _ in rows]  # of each stage that a request has passed
        self.answered = np.zeros(len(rows), dtype=np.int64)
        self.gathers: list[tuple[int, int, float]] = []

    def run(self, launch: Launch) -> Floats:
        """Run a stage for a batch; the confidences of its samples."""
        members = launch.members.tolist()
        batch = run_batch(
            self.run_stage, launch, [self.held[request] for request in members], lambda: self._inputs(launch)
        )
        if batch.gather_s is not None:
            self.gathers.append((launch.number, launch.places, batch.gather_s))
        for request, row in zip(members, batch.rows, strict=True):
            self.held[request] = batch.keeps, row
            self.answers[request].append(batch.answers[row])
        return self.confidence(launch.segment, batch.own)

    def release(self, request: int) -> None:
        """Forget the maps of a request, which has returned."""
        self.held[request] = None
        self.answered[request] += 1
        self.returned(request)

    def _inputs(self, launch: Launch) -> Tensors:
        """The inputs of a batch."""
        rows = self.rows[launch.members]
        return {name: values[rows] for name, values in self.inputs.items()}


class DeviceRunner:
    """The runners of the networks of a device, given which network each request is for."""

    def __init__(self, runners: Sequence[MapRunner], network: Ints) -> None:
        self.runners, self.network = runners, network

    def run(self, launch: Launch) -> Floats:
        """Run a stage of the network of a batch."""
        return self.runners[launch.network].run(launch)

    def release(self, request: int) -> None:
        """Forget a request, which has returned."""
        self.runners[self.network[request]].release(request)
