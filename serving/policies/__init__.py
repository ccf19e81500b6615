"""Scheduling policies: a new policy is a file beside the others and a line in ``POLICIES``."""

from . import adaptb, batchcond, fluid, fluid_slack, lazy, pame, serial, sushi
from .interface import DECIDE, Decide, Decision, LaneView, Policy, compile_policy, go_on, launch, sleep
from .parameters import Parameter, at_least, choice, duration

POLICIES: dict[str, Policy] = {
    "serial": serial.POLICY,
    "adaptb": adaptb.POLICY,
    "lazy": lazy.POLICY,
    "fluid": fluid.POLICY,
    "fluid-slack": fluid_slack.POLICY,
    "pame": pame.POLICY,
    "batchcond": batchcond.POLICY,
    "sushi": sushi.POLICY,
}

FOR_ONE_NETWORK = tuple(name for name, policy in POLICIES.items() if not policy.chooses_variants)
"""Those that differ from each other where a network has no variants."""

__all__ = [
    "DECIDE",
    "FOR_ONE_NETWORK",
    "POLICIES",
    "Decide",
    "Decision",
    "LaneView",
    "Parameter",
    "Policy",
    "at_least",
    "choice",
    "compile_policy",
    "duration",
    "go_on",
    "launch",
    "sleep",
]
