"""Run time: traces, policies, the event loop that replays them, and what it all amounts to."""

from typing import TYPE_CHECKING

from ..formats.lazy import on_demand

if TYPE_CHECKING:
    from .arrivals.cameras import cameras
    from .arrivals.daily import daily
    from .arrivals.mmpp import mmpp
    from .arrivals.renewal import gamma, poisson
    from .capacity import Capacity, find_capacity
    from .clairvoyant import least_violations
    from .comparison import compare
    from .contenders import Contender, find_policy
    from .exits import parse_thresholds, resolve
    from .metrics import Replay, Summary, summarise
    from .policies import POLICIES
    from .reading import read_trace
    from .requirements import judge, parse_requirement
    from .samples import Samples, draw_samples, read_samples
    from .scenarios import load_scenario
    from .simulation import simulate, write_requests
    from .thresholds import ThresholdPoint, sweep_thresholds
    from .timeline import write_timeline
    from .traces import Trace, write_trace
    from .transforms import rescale_burstiness, rescale_rate, superpose

__getattr__ = on_demand(
    __name__,
    {
        "arrivals": ("cameras", "daily", "gamma", "mmpp", "poisson"),
        "capacity": ("Capacity", "find_capacity"),
        "clairvoyant": ("least_violations",),
        "comparison": ("compare",),
        "contenders": ("Contender", "find_policy"),
        "exits": ("parse_thresholds", "resolve"),
        "metrics": ("Replay", "Summary", "summarise"),
        "policies": ("POLICIES",),
        "reading": ("read_trace",),
        "requirements": ("judge", "parse_requirement"),
        "samples": ("Samples", "draw_samples", "read_samples"),
        "scenarios": ("load_scenario",),
        "simulation": ("simulate", "write_requests"),
        "thresholds": ("ThresholdPoint", "sweep_thresholds"),
        "timeline": ("write_timeline",),
        "traces": ("Trace", "write_trace"),
        "transforms": ("rescale_burstiness", "rescale_rate", "superpose"),
    },
)

__all__ = [
    "POLICIES",
    "Capacity",
    "Contender",
    "Replay",
    "Samples",
    "Summary",
    "ThresholdPoint",
    "Trace",
    "cameras",
    "compare",
    "daily",
    "draw_samples",
    "find_capacity",
    "find_policy",
    "gamma",
    "judge",
    "least_violations",
    "load_scenario",
    "mmpp",
    "parse_requirement",
    "parse_thresholds",
    "poisson",
    "read_samples",
    "read_trace",
    "rescale_burstiness",
    "rescale_rate",
    "resolve",
    "simulate",
    "summarise",
    "superpose",
    "sweep_thresholds",
    "write_requests",
    "write_timeline",
    "write_trace",
]
