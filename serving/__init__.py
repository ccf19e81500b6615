"""Run time: traces, policies, the event loop that replays them, and what it all amounts to."""

from .arrivals import poisson
from .compare import compare
from .contenders import Contender, find_policy
from .exits import resolve
from .metrics import Replay, Summary, summarise
from .policies import POLICIES
from .scenarios import load_scenario
from .simulate import simulate, write_requests
from .traces import Trace, read_trace, write_trace

__all__ = [
    "POLICIES",
    "Contender",
    "Replay",
    "Summary",
    "Trace",
    "compare",
    "find_policy",
    "load_scenario",
    "poisson",
    "read_trace",
    "resolve",
    "simulate",
    "summarise",
    "write_requests",
    "write_trace",
]
