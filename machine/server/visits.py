"""Requests of clients while they are here, between the server's thread and the device's."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from numpy.typing import ArrayLike

from ..live import OpenClock, Outcome, Sample
from .messages import CONFIDENCE, EXIT, Asked, Model, Refusal, write_answer


@dataclass(slots=True, eq=False)
class _Visit:
    """A request whose samples have not all left."""

    left: int
    done: asyncio.Future[None]


Listener = Callable[[Sequence[Sample]], None]


def _tell(listeners: Sequence[Listener], samples: Sequence[Sample]) -> None:
    for listener in listeners:
        listener(samples)


class Visits:
    """The requests that are here; used by the server's thread only, but for :meth:`tell`.

    ``most`` is the largest number of samples that may be here at once.
    """

    def __init__(self, clock: OpenClock, most: int, sample_s: float) -> None:
        self.clock, self.most, self.sample_s = clock, most, sample_s
        self.on_arrival: list[Listener] = []  # each hears once of each sample: when it arrives,
        self.on_leaving: list[Listener] = []  # and when it has left
        self.here, self.ready, self.fault, self.cut = 0, False, "", 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self.visits: dict[Sample, _Visit] = {}

    async def infer(self, asked: Asked, model: Model) -> tuple[bytes, dict[str, str]]:
        """Let the samples of a request be served, and write its answer."""
        limit_s = asked.timeout_s if asked.timeout_s < math.inf else model.slo_s
        samples = [
            Sample(
                model.number, {name: values[row : row + 1] for name, values in asked.tensors.items()}, limit_s, row=row
            )
            for row in range(asked.rows)
        ]
        await self._served(samples)
        outcomes = {sample.outcome for sample in samples}
        if Outcome.REFUSED in outcomes:
            raise self._busy("the queue is full, or the request cannot be in time")
        if Outcome.DROPPED in outcomes:
            raise Refusal(504, f"dropped: no answer within {limit_s:g} s, or newer requests took its place")
        return answer_of(samples, asked, model)

    async def _served(self, samples: Sequence[Sample]) -> None:
        if not self.ready:
            raise Refusal(503, self.fault or "the server is shutting down")
        if self.here + len(samples) > self.most:
            for sample in samples:
                sample.outcome, sample.arrival_s = Outcome.REFUSED, self.clock.now_s()
            _tell(self.on_arrival, samples)
            _tell(self.on_leaving, samples)
            return
        visit = _Visit(len(samples), asyncio.get_running_loop().create_future())
        self.here += len(samples)
        self.visits |= dict.fromkeys(samples, visit)
        self.clock.send(samples)
        _tell(self.on_arrival, samples)
        await visit.done

    def _busy(self, why: str) -> Refusal:
        """Too many requests; those that are here will be gone after the time that a client is told to wait."""
        wait_s = max(1, math.ceil(self.here * self.sample_s))
        return Refusal(429, f"refused: {why}; try again in {wait_s} s", **{"retry-after": str(wait_s)})

    def tell(self, samples: list[Sample]) -> None:
        """Tell of samples that have left; from any thread."""
        assert self.loop is not None
        with suppress(RuntimeError):  # the server has ended, and told all
            self.loop.call_soon_threadsafe(self._leave, samples)

    def _leave(self, samples: list[Sample]) -> None:
        assert self.loop is not None
        left = [sample for sample in samples if sample in self.visits]  # others were closed
        self.here -= len(left)
        for sample in left:
            visit = self.visits.pop(sample)
            visit.left -= 1
            if not visit.left and not visit.done.done():
                visit.done.set_result(None)
        self.loop.call_soon(_tell, self.on_leaving, left)  # behind their answers, which do not wait for it

    def close(self, status: int, fault: str) -> None:
        """Answer all that are here, and all that still come, with a fault."""
        self.ready, self.fault, self.cut = False, fault, self.cut + self.here
        for sample in self.visits:
            sample.outcome, sample.exit = Outcome.DROPPED, 0
        _tell(self.on_leaving, list(self.visits))
        for visit in set(self.visits.values()):
            if not visit.done.done():
                visit.done.set_exception(Refusal(status, fault))
        self.visits, self.here = {}, 0


def answer_of(samples: Sequence[Sample], asked: Asked, model: Model) -> tuple[bytes, dict[str, str]]:
    """The answer of a request; each parameter is the worst of its samples."""
    exits = [sample.exit for sample in samples]
    sure = [sample.sure[sample.exit - 1] for sample in samples]
    tensors: dict[str, ArrayLike] = {
        EXIT: exits, CONFIDENCE: sure, model.answer: [sample.answers[sample.exit - 1] for sample in samples],
    }  # fmt: skip
    parameters = {
        "exit": max(exits), "confidence": min(sure) if model.measure.surer == "larger" else max(sure),
        "queue_s": max(sample.queue_s for sample in samples), "device_s": max(sample.device_s for sample in samples),
        "in_time": all(sample.outcome is Outcome.IN_TIME for sample in samples),
    }  # fmt: skip
    return write_answer(asked, model, tensors, parameters)
