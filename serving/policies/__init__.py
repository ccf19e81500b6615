"""Scheduling policies, one file each.

``POLICIES`` is the list: a new policy is a file beside the others and a line here.
"""

from ...formats import InputError
from . import fluid, serial
from .interface import DECIDE, Decide, Decision, View, compile_policy

POLICIES: dict[str, Decide] = {
    "serial": serial.decide,
    "fluid": fluid.decide,
}


def find_policy(name: str) -> Decide:
    """The policy of a name.

    Raises
    ------
    InputError
        If there is none; the known names are given.
    """
    if name not in POLICIES:
        raise InputError(f'unknown policy "{name}"; known: {", ".join(POLICIES)}')
    return POLICIES[name]


__all__ = ["DECIDE", "POLICIES", "Decide", "Decision", "View", "compile_policy", "find_policy"]
