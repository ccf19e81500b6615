"""The policies that a plan may take: with alternatives of their parameters, ``adaptb:timeout=S|M|L``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ...serving.networks import NetworkKeys
from ...serving.scheduler import Scheduler, find_policy
from ...serving.state import BETWEEN
from .sources import Source

DEFAULT_POLICIES = ("serial", "adaptb", "fluid", "fluid-slack")
"""Policies that need nothing beside the table and the traffic."""

FOR_SUBNETS = "sushi"
"""The policy that chooses a SubNet for each request, tried where hardware has several."""


def find_policies(
    texts: Sequence[str] | None, networks: Sequence[NetworkKeys], sources: Sequence[Source]
) -> list[Scheduler]:
    """The policies of a plan, one for each combination of alternatives; by default those that suit the question."""
    return [find_policy(spec) for text in texts or _usual(networks, sources) for spec in alternatives(text)]


def _usual(networks: Sequence[NetworkKeys], sources: Sequence[Source]) -> list[str]:
    """The usual policies, of several networks with every rule between them that they have what it needs for."""
    if len(networks) == 1:
        chooses = any(source.several_subnets for source in sources)
        return [*DEFAULT_POLICIES, *([FOR_SUBNETS] if chooses else [])]
    rules = [rule for rule in BETWEEN if rule != "priority" or all(own.priority is not None for own in networks)]
    return [f"{policy}:between={rule}" for policy in DEFAULT_POLICIES for rule in rules]


def alternatives(text: str) -> list[str]:
    """The texts of a policy with each combination of the values that ``|`` separates.

    >>> alternatives("fluid:b_max=4|8")
    ['fluid:b_max=4', 'fluid:b_max=8']
    """
    named, equals, _ = text.partition("=")
    if not equals:
        return [text]
    head = named[: max(named.rfind(":"), named.rfind(",")) + 1]
    parameters = [parameter.partition("=") for parameter in text[len(head) :].split(",")]
    each = [[f"{key}{sign}{value}" for value in values.split("|")] for key, sign, values in parameters]
    return [head + ",".join(chosen) for chosen in product(*each)]
