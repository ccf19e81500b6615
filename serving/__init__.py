"""Run time: traces, policies, the event loop that replays them, and what it all amounts to."""

from .arrivals import cameras, daily, gamma, mmpp, poisson
from .exits import resolve
from .metrics import Replay, Summary, summarise
from .policies import POLICIES, find_policy
from .simulate import simulate, write_requests
from .traces import Trace, read_trace, write_trace
from .transforms import rescale_burstiness, rescale_rate, superpose

__all__ = [
    "POLICIES",
    "Replay",
    "Summary",
    "Trace",
    "cameras",
    "daily",
    "find_policy",
    "gamma",
    "mmpp",
    "poisson",
    "read_trace",
    "rescale_burstiness",
    "rescale_rate",
    "resolve",
    "simulate",
    "summarise",
    "superpose",
    "write_requests",
    "write_trace",
]
