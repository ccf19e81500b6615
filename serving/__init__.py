"""Run time: policies, the event loop that runs them, and what it all amounts to."""

from typing import TYPE_CHECKING

from ..formats.lazy import on_demand

if TYPE_CHECKING:
    from .bound import least_violations
    from .metrics import Replay, Summary, summarise
    from .policies import POLICIES
    from .replay import simulate, write_requests
    from .requirements import judge, parse_requirement
    from .scheduler import Scheduler, find_policy
    from .timeline import write_timeline

__getattr__ = on_demand(
    __name__,
    {
        "bound": ("least_violations",),
        "scheduler": ("Scheduler", "find_policy"),
        "metrics": ("Replay", "Summary", "summarise"),
        "policies": ("POLICIES",),
        "replay": ("simulate", "write_requests"),
        "requirements": ("judge", "parse_requirement"),
        "timeline": ("write_timeline",),
    },
)

__all__ = [
    "POLICIES",
    "Replay",
    "Scheduler",
    "Summary",
    "find_policy",
    "judge",
    "least_violations",
    "parse_requirement",
    "simulate",
    "summarise",
    "write_requests",
    "write_timeline",
]
