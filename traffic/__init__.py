"""What arrives: requests with their arrivals, exits and objectives; made, read, drawn and changed."""

from typing import TYPE_CHECKING

from ..formats.lazy import on_demand

if TYPE_CHECKING:
    from .arrivals import cameras, daily, gamma, mmpp, poisson
    from .exits import parse_thresholds
    from .reading import read_trace
    from .samples import Samples, draw_samples, read_samples
    from .trace import Trace, write_trace
    from .traffic import Traffic, prepare
    from .transforms import rescale_burstiness, rescale_rate, superpose

__getattr__ = on_demand(
    __name__,
    {
        "arrivals": ("cameras", "daily", "gamma", "mmpp", "poisson"),
        "exits": ("parse_thresholds",),
        "reading": ("read_trace",),
        "samples": ("Samples", "draw_samples", "read_samples"),
        "trace": ("Trace", "write_trace"),
        "traffic": ("Traffic", "prepare"),
        "transforms": ("rescale_burstiness", "rescale_rate", "superpose"),
    },
)

__all__ = [
    "Samples",
    "Trace",
    "Traffic",
    "cameras",
    "daily",
    "draw_samples",
    "gamma",
    "mmpp",
    "parse_thresholds",
    "poisson",
    "prepare",
    "read_samples",
    "read_trace",
    "rescale_burstiness",
    "rescale_rate",
    "superpose",
    "write_trace",
]
