"""Run time: traces, policies, the event loop that replays them, and what it all amounts to."""

from .arrivals import poisson
from .capacity import Capacity, find_capacity
from .contenders import Contender, find_policy
from .exits import resolve
from .metrics import Replay, Summary, summarise
from .policies import POLICIES
from .requirements import judge, parse_requirement
from .simulate import simulate, write_requests
from .timeline import write_timeline
from .traces import Trace, read_trace, write_trace

__all__ = [
    "POLICIES",
    "Capacity",
    "Contender",
    "Replay",
    "Summary",
    "Trace",
    "find_capacity",
    "find_policy",
    "judge",
    "parse_requirement",
    "poisson",
    "read_trace",
    "resolve",
    "simulate",
    "summarise",
    "write_requests",
    "write_timeline",
    "write_trace",
]
