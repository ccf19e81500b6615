"""What a user asks of a replay, e.g. ``p99 <= 200ms``, and whether it holds."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..formats import InputError, parse_quantity
from ..tables.latency import LatencyTable
from ..traffic.trace import Trace
from .figures import FIGURES
from .metrics import QUANTILES, Summary
from .statistics import Interval

METRICS: dict[str, str] = {item.name: item.unit for item in FIGURES.values() if item.take}
"""What can be required, and its unit in the library and in JSON (``docs/model.md``, Metrics, defines each)."""

_UNITS: dict[str, tuple[dict[str, float], str]] = {
    "s": ({"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}, "200ms"),
    "share": ({"%": 1.0}, "5 %"),
    "/s": ({"/s": 1.0}, "15 /s"),
    "requests": ({"": 1.0}, "0"),
}

COMPARATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}

_REQUIREMENT = re.compile(r"\s*([A-Za-z_0-9.]+)\s*(<=|>=|<|>)(?!=)\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A bound on a figure.

    Attributes
    ----------
    text : str
        As the user wrote it.
    name : str
        A key of :data:`METRICS`.
    comparator : str
        A key of :data:`COMPARATORS`.
    bound : float
        In the metric's unit.
    """

    text: str
    name: str
    comparator: str
    bound: float

    @property
    def unit(self) -> str:
        """The metric's unit: ``"s"``, ``"share"``, ``"/s"`` or ``"requests"``."""
        return METRICS[self.name]

    def allows(self, value: float) -> bool:
        """Whether a value of the metric keeps the bound."""
        return COMPARATORS[self.comparator](value, self.bound)

    def side(self, interval: Interval) -> bool | None:
        """Whether all of an interval keeps the bound; ``None`` if it does in part."""
        low, high = self.allows(interval.low), self.allows(interval.high)
        return low if low == high else None

    def measure(self, summary: Summary) -> tuple[float, Interval | None, int]:
        """The metric of a replay.

        Parameters
        ----------
        summary : Summary
            The replay's figures.

        Returns
        -------
        value : float
            In the metric's unit; infinite for a latency that never ended.
        interval : Interval or None
            Its 95 % interval, where the summary has one.
        more_requests_needed : int
            Until there is one; 0 where there never is.

        Raises
        ------
        InputError
            If the requests do not say what the metric needs.
        """
        if self.name in QUANTILES:
            found = summary.percentile(self.name)
            return found.latency_s, found.interval_s, found.more_requests_needed
        take = FIGURES[self.name].take
        value = take(summary) if take else None
        if value is None:
            raise _no_causes(self.text) if self.name == "mac_share" else _no_answers(self.text)
        return value, summary.violation_interval if self.name == "violation_rate" else None, 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a requirement holds.

    Attributes
    ----------
    name, comparator : str
        See :class:`Requirement`.
    unit : str
        Of everything below: ``"s"``, ``"share"``, ``"/s"`` or ``"requests"``.
    bound, value : float
        What was required and what was found.
    holds : bool
        Whether the value keeps the bound.
    margin : float
        By how much it keeps it; negative if it does not.
    interval : Interval or None
        The value's 95 % interval, where there is one.
    certain : bool or None
        Whether all of the interval agrees with the value; ``None`` without an interval.
    more_requests_needed : int
        Until a percentile has an interval.
    """

    name: str
    comparator: str
    unit: str
    bound: float
    value: float
    holds: bool
    margin: float
    interval: Interval | None
    certain: bool | None
    more_requests_needed: int


def _no_answers(text: str) -> InputError:
    return InputError(f'requirement: "{text}": expected a trace that knows which answers are right, found none')


def _no_causes(text: str) -> InputError:
    return InputError(
        f'requirement: "{text}": expected a latency table that states where MACs go, found one that does not, as any '
        "device's; require another figure"
    )


def check_stated(requirements: Iterable[Requirement], table: LatencyTable) -> None:
    """Refuse, before the simulation, what a latency table cannot answer.

    Parameters
    ----------
    requirements : iterable of Requirement
        What is required.
    table : LatencyTable
        What the requests will be served with.

    Raises
    ------
    InputError
        If a share of MACs is required and the table states none.
    """
    for item in requirements:
        if item.name == "mac_share" and table.peak_macs_per_s is None:
            raise _no_causes(item.text)


def parse_requirement(text: str, what: str = "requirement") -> Requirement:
    """Read a requirement.

    Parameters
    ----------
    text : str
        Metric, comparator, bound with its unit, e.g. ``p99 <= 200ms``.
    what : str
        Name of the option or key, for the fault.

    Returns
    -------
    Requirement
        The bound.

    Raises
    ------
    InputError
        If metric, comparator, number or unit is missing or unknown.

    Examples
    --------
    >>> parse_requirement("violation_rate <= 5 %").bound
    0.05
    """
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        raise InputError(f'{what}: expected METRIC <=, <, >= or > BOUND, found "{text}"; write e.g. "p99 <= 200ms"')
    name, comparator, quantity = match[1], match[2], match[3]
    if name not in METRICS:
        raise InputError(f'{what}: unknown metric "{name}" in "{text}"; known: {", ".join(METRICS)}')
    units, example = _UNITS[METRICS[name]]
    bound = parse_quantity(quantity, units, f"{what}: {name}", example, zero=True)
    # divided, not multiplied by 0.01: 35 % is then the same float as 7 of 20
    return Requirement(text.strip(), name, comparator, bound / 100 if METRICS[name] == "share" else bound)


def check_answerable(requirements: Iterable[Requirement], trace: Trace) -> None:
    """Refuse, before the simulation, what a trace cannot answer.

    Parameters
    ----------
    requirements : iterable of Requirement
        What is required.
    trace : Trace
        What will be replayed.

    Raises
    ------
    InputError
        If accuracy is required and the trace does not know which answers are right.
    """
    for item in requirements:
        if item.name == "accuracy" and trace.correct is None:
            raise _no_answers(item.text)


def judge(requirement: Requirement, summary: Summary) -> Outcome:
    """Hold a replay against a requirement.

    Parameters
    ----------
    requirement : Requirement
        What is required.
    summary : Summary
        The replay's figures.

    Returns
    -------
    Outcome
        Whether it holds, by how much, how surely.

    Raises
    ------
    InputError
        If the requests do not say what the metric needs.
    """
    value, interval, needed = requirement.measure(summary)
    margin = requirement.bound - value
    if requirement.comparator in (">=", ">"):
        margin = -margin
    holds = requirement.allows(value)
    certain = None if interval is None else requirement.side(interval) is holds
    return Outcome(
        requirement.name, requirement.comparator, requirement.unit, requirement.bound, value, holds,
        margin + 0.0, interval, certain, needed,
    )  # fmt: skip
