"""Requirements on a replay, e.g. ``p99 <= 200ms``, and their verdicts."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..formats import InputError, did_you_mean, parse_quantity
from ..formats.tables import read_json
from .figures import FIGURES, UNAVOIDABLE
from .statistics import Interval
from .summary import QUANTILES, Figures, Summary

METRICS: dict[str, str] = {figure.name: figure.unit for figure in FIGURES.values() if figure is not UNAVOIDABLE}
"""The figures that can be required, with their units in the library and in JSON (``docs/metrics.md``, Metrics)."""

_UNITS: dict[str, tuple[dict[str, float], str]] = {
    "s": ({"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}, "200ms"),
    "share": ({"%": 1.0}, "5 %"),
    "/s": ({"/s": 1.0}, "15 /s"),
    "requests": ({"": 1.0}, "0"),
    "bytes": ({"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}, "4MB"),
    "J": ({"nJ": 1e-9, "uJ": 1e-6, "mJ": 1e-3, "J": 1.0}, "2mJ"),
    "squared": ({"": 1.0}, "2.5"),
}

_UNKNOWN = {
    "accuracy": "expected a trace that knows which answers are right, and an answer before the simulation was stopped, "
    "found none",
    "width_variance": "expected a trace with a column width, found none; require another figure",
    "mac_share": "expected a latency table that states where MACs go, found one that does not, as with every device; "
    "require another figure",
    "energy": "expected an answer, and the latency table of a design on a board whose file states energies, found one "
    "of them missing; require another figure",
    "served_accuracy": "expected a latency table with the accuracy of every SubNet, found one without",
    "accuracy_misses": "expected a trace with the column min_accuracy, and a latency table with the accuracy of every "
    "SubNet, found one of them without",
    "dropped": "expected a policy that drops or answers at the deadline, or has admit=newest:N, found another; state "
    "e.g. on_deadline=drop",
    "early": "expected a policy that answers at the deadline, found one that does not; state on_deadline=answer",
    "refused": "expected a policy that refuses requests, found one that admits all; state e.g. admit=queue:8",
    "accuracy_of_all": "expected a policy with admit, or on_deadline=drop or answer, and a trace that knows which "
    "answers are right, found one of them without",
    **dict.fromkeys(
        ("load", "backlog_growth"),
        "expected at least 400 requests that do not all arrive at once, found fewer, or all at once; require "
        "another figure",
    ),
    "host_share": "expected a latency table of a device whose file states its host, found one that does not; state "
    "`host` there, or require another figure",
    "fairness": "expected several networks, found one; require another figure",
    "hit_ratio": "expected a latency table that states the hit ratio of SubNets and states, found none",
    "off_chip": "expected a latency table that states off-chip bytes, found none",
    "off_chip_energy": "expected a latency table that states the energy of an off-chip byte, found none",
}
"""The figures that not every input states, and the message if it does not."""

COMPARATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}

ROUNDING = 1e-9
"""Times that differ by a smaller share are equal: a latency is a difference of clocks that are sums of many times."""

_REQUIREMENT = re.compile(r"\s*([A-Za-z_0-9.]+)(?:\[([^\]]*)\])?\s*(<=|>=|<|>)(?!=)\s*(.*)", re.DOTALL)

_RELATIVE = re.compile(r"(.*%)\s*of\s+(\S.*)", re.DOTALL)

_STORED = ("fluidb.serve-sim-output/1", "fluidb.serve-real-output/1")
"""What a file may hold whose figures a requirement refers to."""


def figure_text(name: str, network: str | None) -> str:
    """The figure of a network that has a name, or of all requests, as requirements name it."""
    return f"{name}[{network}]" if network else name


@dataclass(frozen=True, slots=True)
class Requirement:
    """A bound on a figure."""

    text: str  # as the user wrote it
    name: str  # a key of METRICS
    comparator: str  # a key of COMPARATORS
    bound: float  # in the metric's unit
    network: str | None = None  # of several, the one whose figure it is; else all requests have it

    @property
    def figure(self) -> str:
        """The figure, as the user wrote it."""
        return figure_text(self.name, self.network)

    @property
    def unit(self) -> str:
        """The metric's unit, as in :attr:`.figures.Figure.unit`."""
        return METRICS[self.name]

    def allows(self, value: float) -> bool:
        """True if a value satisfies the requirement."""
        return COMPARATORS[self.comparator](self.nearest(value), self.bound)

    def nearest(self, value: float) -> float:
        """A value; the bound for a time that only the rounding of its sums and differences keeps from it."""
        equal = self.unit == "s" and math.isclose(value, self.bound, rel_tol=ROUNDING)
        return self.bound if equal else value

    def side(self, interval: Interval) -> bool | None:
        """True if every value of an interval satisfies the requirement, ``None`` if only some of them do."""
        low, high = self.allows(interval.low), self.allows(interval.high)
        return low if low == high else None


@dataclass(frozen=True, slots=True)
class RequirementVerdict:
    """Outcome of a requirement."""

    name: str  # ``FIGURE`` or ``FIGURE[NETWORK]``
    comparator: str
    unit: str  # of everything below
    bound: float  # the requirement, and the figure found
    value: float
    holds: bool  # whether the value satisfies the requirement
    margin: float  # distance from the value to the bound; negative if the requirement does not hold
    interval: Interval | None  # the value's 95 % interval, where there is one
    certain: bool | None  # whether every value of the interval gives the same answer; ``None`` without an interval
    more_requests_needed: int  # about how many more requests there must be for an interval, where there can be one


def parse_requirement(text: str, networks: Sequence[str] = ()) -> Requirement:
    """Read a requirement.

    Parameters
    ----------
    text : str
        Metric, comparator, bound with its unit, e.g. ``p99 <= 200ms``; of one of several networks
        ``p99[NETWORK] <= 200ms``; relative to what ``--json`` printed, ``p99 <= 105 % of base.json``.
    networks : sequence of str
        The networks that are served, if there are several.

    Returns
    -------
    Requirement
        The bound.

    Raises
    ------
    InputError
        If metric, network, comparator, number or unit is missing or unknown, or a file does not state the figure.

    Examples
    --------
    >>> parse_requirement("violation_rate <= 5 %").bound
    0.05
    """
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        raise InputError(f'require: expected FIGURE <=, <, >= or > BOUND, found "{text}"; write e.g. "p99 <= 200ms"')
    name, network, comparator, quantity = match.groups()
    if name not in METRICS:
        hint = did_you_mean(name, METRICS, f"known: {', '.join(METRICS)}")
        raise InputError(f'require: unknown figure "{name}" in "{text}"; {hint}')
    if network is not None and network not in networks:
        known = " or ".join(figure_text(name, served) for served in (None, *networks))
        raise InputError(f'require: unknown network "{network}" in "{text}"; write {known}')
    relative = _RELATIVE.fullmatch(quantity)
    if relative is not None:
        factor = parse_quantity(relative[1], {"%": 1.0}, f"require: {name}", "105 % of base.json")
        stored = _stored(name, network, relative[2].strip())
        return Requirement(text.strip(), name, comparator, factor / 100 * stored, network)
    units, example = _UNITS[METRICS[name]]
    bound = parse_quantity(quantity, units, f"require: {name}", example, zero=True)
    if METRICS[name] == "share" and bound > 100:
        raise InputError(
            f'require: {name}: expected a share of at most 100 %, found "{quantity}"; write e.g. {example}'
        )
    # divided, not multiplied by 0.01: 35 % is then the same float as 7 of 20
    return Requirement(text.strip(), name, comparator, bound / 100 if METRICS[name] == "share" else bound, network)


def _stored(name: str, network: str | None, path: str) -> float:
    """The figure of a file that ``--json`` printed."""
    make = "make it with `fluidb serve-sim ... --json > FILE`"
    missing = f"expected the output of serve-sim or serve-real with --json, found no such file; {make}"
    value: object = read_json(path, _STORED, missing, "no JSON", make)
    figure = FIGURES[name]
    here = ["percentiles", name, "latency_s"] if name in QUANTILES else [*filter(None, [figure.part]), figure.key]
    for key in [*(["networks", network] if network else []), *here]:
        if isinstance(value, list):  # of records that have names
            value = {str(part.get("name")): part for part in value if isinstance(part, dict)}
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        of = f" of network {network}" if network else ""
        raise InputError(f"{path}: expected a number for {name}{of} ({'.'.join(here)}), found none; {make}")
    return float(value)


def check_stated(requirements: Iterable[Requirement], **stated: object) -> None:
    """Refuse a requirement on a figure that the inputs do not state, before anything is simulated."""
    for requirement in requirements:
        if requirement.name in stated and stated[requirement.name] is None:
            raise InputError(f'require: "{requirement.text}": {_UNKNOWN[requirement.name]}')


def judge_all(requirements: Iterable[Requirement], figures: Figures) -> list[RequirementVerdict]:
    """Check requirements on the figures of all requests, or of the network that a requirement names."""
    return [judge(requirement, figures.of(requirement.network)) for requirement in requirements]


def judge(requirement: Requirement, summary: Summary) -> RequirementVerdict:
    """Check a requirement on the figures of a replay.

    Parameters
    ----------
    requirement : Requirement
        The requirement.
    summary : Summary
        The replay's figures.

    Returns
    -------
    RequirementVerdict
        Whether the requirement holds, by what margin, and whether the confidence interval agrees.

    Raises
    ------
    InputError
        If neither the trace nor the latency table states the figure.
    """
    name = requirement.name
    interval, needed = FIGURES[name].interval_of(summary)
    value = FIGURES[name].of(summary)
    check_stated([requirement], **{name: value})
    assert value is not None
    margin = requirement.bound - requirement.nearest(value)
    if requirement.comparator in (">=", ">"):
        margin = -margin
    holds = requirement.allows(value)
    certain = None if interval is None else requirement.side(interval) is holds
    return RequirementVerdict(
        requirement.figure, requirement.comparator, requirement.unit, requirement.bound, value, holds,
        margin + 0.0, interval, certain, needed,
    )  # fmt: skip
