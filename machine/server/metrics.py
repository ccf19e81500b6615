"""What Prometheus reads of the server: its page, by Prometheus' own client library."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
        self.names, self.registry = [model.name for model in models], CollectorRegistry()
        labels, registry = ("network",), self.registry
        about = "Samples that have left, by the exit that they left by (0: without an answer) and what became of them"
        self.samples = Counter("fluidb_samples", about, (*labels, "exit", "outcome"), registry=registry)
        about = "Time from the arrival of a sample to its answer"
        self.latency = Histogram("fluidb_latency_seconds", about, labels, buckets=TIMES_S, registry=registry)
        about = "Time of a sample in the queue"
        self.queue = Histogram("fluidb_queue_seconds", about, labels, buckets=TIMES_S, registry=registry)
        sizes = range(1, b_max + 1)
        self.batch = Histogram(
            "fluidb_batch_size", "Samples of each run of a stage", labels, buckets=sizes, registry=registry
        )
        self.busy = Counter("fluidb_busy_seconds", "Time in which the device ran stages", labels, registry=registry)
        Gauge("fluidb_samples_here", "Samples in the queue and on the device", registry=registry).set_function(here)

    def note(self, samples: Sequence[Sample]) -> None:
        """Count samples that have left."""
        for sample in samples:
            name = self.names[sample.network]
            self.samples.labels(name, sample.exit, sample.outcome).inc()
            if sample.exit:
                self.latency.labels(name).observe(sample.queue_s + sample.device_s)
                self.queue.labels(name).observe(sample.queue_s)

    def ran(self, launch: Launch, took_s: float) -> None:
        """Count a run."""
        name = self.names[launch.network]
        self.batch.labels(name).observe(len(launch.members))
        self.busy.labels(name).inc(took_s)

    def page(self) -> tuple[bytes, str]:
        """The page, and its type."""
        return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4
