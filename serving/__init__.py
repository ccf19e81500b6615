"""Run time: traces, policies, the event loop that replays them, and what it all amounts to."""

from .arrivals import cameras, daily, gamma, mmpp, poisson
from .capacity import Capacity, find_capacity
from .clairvoyant import least_violations
from .compare import compare
from .contenders import Contender, find_policy
from .exits import parse_thresholds, resolve
from .metrics import Replay, Summary, summarise
from .policies import POLICIES
from .reading import read_trace
from .requirements import judge, parse_requirement
from .samples import Samples, draw_samples, read_samples
from .scenarios import load_scenario
from .simulate import simulate, write_requests
from .thresholds import ThresholdPoint, sweep_thresholds
from .timeline import write_timeline
from .traces import Trace, write_trace
from .transforms import rescale_burstiness, rescale_rate, superpose

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
