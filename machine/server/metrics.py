"""What Prometheus reads of the server: its page, by Prometheus' own client library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from ..live import Sample
from ..runner import Launch
from .messages import Model

TIMES_S = tuple(step * 10.0**power for power in range(-4, 2) for step in (1, 2, 5))
"""Bounds of the buckets of times: 0.1 ms to 50 s."""


class Metrics:
    """Counts of samples by network, exit and outcome, their times, and what the device does."""

    def __init__(self, models: Sequence[Model], b_max: int, here: Callable[[], float]) -> None:
        names, registry = [model.name for model in models], CollectorRegistry()
        self.names, self.registry = names, registry

        def counted(kind: type[Any], name: str, about: str, **more: Any) -> list[Any]:
            """A metric of each network; it is slower to look labels up than to count."""
            whole = kind(name, about, ("network",), registry=registry, **more)
            return [whole.labels(of) for of in names]

        about = "Samples that have left, by the exit that they left by (0: without an answer) and what became of them"
        self.samples = cache(Counter("fluidb_samples", about, ("network", "exit", "outcome"), registry=registry).labels)
        about = "Time from the arrival of a sample to its answer"
        self.latency = counted(Histogram, "fluidb_latency_seconds", about, buckets=TIMES_S)
        self.queue = counted(Histogram, "fluidb_queue_seconds", "Time of a sample in the queue", buckets=TIMES_S)
        about = "Samples of each run of a stage"
        self.batch = counted(Histogram, "fluidb_batch_size", about, buckets=range(1, b_max + 1))
        self.busy = counted(Counter, "fluidb_busy_seconds", "Time in which the device ran stages")
        Gauge("fluidb_samples_here", "Samples in the queue and on the device", registry=registry).set_function(here)

    def note(self, samples: Sequence[Sample]) -> None:
        """Count samples that have left."""
        for sample in samples:
            self.samples(self.names[sample.network], sample.exit, sample.outcome).inc()
            if sample.exit:
                self.latency[sample.network].observe(sample.queue_s + sample.device_s)
                self.queue[sample.network].observe(sample.queue_s)

    def ran(self, launch: Launch, took_s: float) -> None:
        """Count a run."""
        self.batch[launch.network].observe(len(launch.members))
        self.busy[launch.network].inc(took_s)

    def page(self) -> tuple[bytes, str]:
        """The page, and its type."""
        return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4
