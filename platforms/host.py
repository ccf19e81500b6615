"""The host of a device: what a request needs before the device can take it, and after it has left."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from ..formats import Strict

MOST_S = 1e6


class Host(Strict):
    """Fixed times of the host for each request (``docs/metrics.md``, The host)."""

    # time to prepare the input of a request, and time to handle its output
    before_s: Annotated[float, Field(ge=0, le=MOST_S)] = 0.0
    after_s: Annotated[float, Field(ge=0, le=MOST_S)] = 0.0
    overlaps: bool = True  # whether the host does so beside the device's work; else the device waits for the host

    @model_validator(mode="after")
    def _takes_time(self) -> Host:
        if self.before_s == self.after_s == 0:
            raise ValueError("expected before_s or after_s above 0, found none; leave host out if it takes no time")
        return self

    def check_lanes(self, lanes: int) -> None:
        """Refuse, as a ``ValueError``, several lanes beside a host for which each of them would wait."""
        if lanes > 1 and not self.overlaps:
            raise ValueError(
                f"host: overlaps: expected true where {lanes} batches may run at the same time, as the host then works "
                "beside the others; found false"
            )
