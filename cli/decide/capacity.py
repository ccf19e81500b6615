"""``fluidb capacity``: the highest arrival rate, or the most clients that wait, that keeps requirements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...formats.display import counted
from ..columns import ColumnOptions
from ..declare import option
from ..options import (
    MUST_HOLD,
    SENT,
    AsJson,
    PictureOptions,
    Policy,
    Served,
    Think,
    Threads,
    objective,
    objective_record,
)
from ..render import drawn, facts, fail, percent, progress, quantity, show, table

if TYPE_CHECKING:
    from ...serving.requirements import Requirement
    from ...studies.capacity import Capacity
    from ...studies.capacity_options import CapacityOptions
    from ...studies.load_search import FigureEstimate, Probe
    from ...traffic.clients import Clients

_COUNT = f"Requests of each run at first, {SENT:,} if not given; up to 16 times as many if a rate stays undecided."


@dataclass(frozen=True, kw_only=True)
class SearchedOptions:
    """What is searched, and with how many requests."""

    seeds: Annotated[int, option("Independent runs at each rate.", min=2, max=1000)] = 5
    count: Annotated[int | None, option(_COUNT, min=1, max=10**7)] = None
    rate: Annotated[
        str | None, option("Rates to search, in requests a second; either end may be left out.", "LOW..HIGH")
    ] = None
    grow: Annotated[
        str | None, option("The only network whose rate grows, where networks have traffic of their own.", "NETWORK")
    ] = None
    clients: Annotated[
        str | None, option("Search the number of clients that wait for answers, not the rate.", "LOW..HIGH")
    ] = None
    think: Think = None
    threads: Threads = None

    def read(self, columns: ColumnOptions) -> CapacityOptions:
        """What is searched with the columns of requests, as the library takes it."""
        from ...studies.capacity_options import CapacityOptions

        low_per_s, high_per_s = _ends(self.rate, "rate", float, "5..50")
        clients, most_clients = _clients(self.clients, self.think)
        return CapacityOptions(
            slo_s=objective(columns.slo), columns=columns.columns("slo", "predict_depth"),
            predict_depth=columns.predict_depth, seeds=self.seeds, count=self.count or SENT, low_per_s=low_per_s,
            high_per_s=high_per_s, clients=clients, most_clients=most_clients, grow=self.grow,
        )  # fmt: skip


def command(
    directory: Served,
    require: Annotated[list[str], MUST_HOLD],
    policy: Policy = "fluid",
    *,
    columns: ColumnOptions,
    searched: SearchedOptions,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Find the highest rate or most clients that requirements allow.

    Arrivals are Poisson, unless clients wait for their answers; widths, steps, accuracies asked for and predictions
    can be drawn too. Networks with traffic of their own keep it, and their rates grow by a factor.
    Exit code 1 if the policy keeps the requirements at no rate.
    """
    from ...formats import InputError
    from ...plots.capacity import draw_capacity
    from ...serving import parse_requirement
    from ...serving.networks import as_served, files_of, named_in
    from ...studies.capacity import find_capacity

    picture.check(files_of(directory))
    options, think = searched.read(columns), searched.think
    required = [parse_requirement(text, networks=named_in(directory)) for text in require]
    served = as_served(directory)
    if searched.count is not None and served[0].traffic is not None:
        raise InputError(
            "count: expected none beside networks with traffic of their own, whose runs last the duration of the file, "
            f"found {searched.count:,}; leave it out"
        )
    with progress("rates") as report:
        capacity = find_capacity(served, policy, required, options, threads=searched.threads, progress=report)
    picture.write(lambda: draw_capacity(capacity, required))
    stated = vars(columns) | objective_record(columns.slo)
    record = {"design": directory, **stated}
    record |= {"requirements": [requirement.text for requirement in required], **_stated(capacity)}
    record["probes"] = [_stated(probe) | {"estimates": _estimates(required, probe)} for probe in capacity.probes]
    if capacity.clients is not None:
        record["think"] = think or "0"
    latency = served[0].latency
    if latency.measured is not None:
        at_ends = [{"factor": factor, "kept_per_s": end.kept_per_s} for factor, end in capacity.ends.items()]
        record |= {"ends": at_ends or None, "ends_confidence": latency.measured_confidence}
    if as_json or capacity.kept_per_s is not None:
        text = _text(capacity, stated, required, think, latency.unknown_error)
        show(as_json, "fluidb.capacity-output/1", record, text, picture.plot)
    if capacity.kept_per_s is None:
        lowest = capacity.probes[0]
        pairs = list(zip(required, lowest.estimates, strict=True))
        requirement, estimate = next((pair for pair in pairs if pair[0].text == lowest.broken), pairs[0])
        value, interval = _shown(requirement, estimate)
        what = f'"{requirement.text}" is {lowest.verdict}: {value}, {interval} at 95 %'
        tried = f"rate from {_rate(capacity.low_per_s)} to {_rate(capacity.high_per_s)}"
        if capacity.clients is not None:
            tried = f"number of clients from {capacity.clients.low:,} to {capacity.clients.high:,}"
        fail([f"no {tried} is kept; at the lowest {what}"])
        raise typer.Exit(1)


def _ends(text: str | None, name: str, kind: type[float], example: str) -> tuple[Any, Any]:
    """The lowest and the highest rate or number of clients to search, as far as they are given."""
    from ...formats import InputError, read_number

    low, dots, high = (text or "..").partition("..")
    try:
        if not dots:
            raise ValueError
        return read_number(low, kind) if low else None, read_number(high, kind) if high else None
    except ValueError:
        what = "rate" if kind is float else "number"
        raise InputError(
            f'{name}: expected the lowest {what}, .. and the highest, found "{text}"; e.g. {example}'
        ) from None


def _clients(text: str | None, think: str | None) -> tuple[Clients | None, int | None]:
    """The least number of clients to search, with their think time, and the largest number."""
    from ...formats import InputError
    from ...traffic.clients import Clients

    if text is None and think is not None:
        raise InputError("think: expected --clients beside it, found none; leave it out, or state e.g. --clients 1..64")
    if text is None:
        return None, None
    low, high = _ends(text, "clients", int, "1..64")
    return Clients.of(1 if low is None else low, think), high


def _stated(record: Capacity | Probe) -> dict[str, Any]:
    """A record as JSON has it: no ends, and no ``clients``, ``growth`` or ``factor`` where rates were searched."""
    stated, optional = asdict(record), ("clients", "growth", "factor")
    return {key: value for key, value in stated.items() if key != "ends" and (key not in optional or value is not None)}


def _rate(per_s: float) -> str:
    return f"{per_s:,.1f} /s" if per_s >= 1000 else f"{per_s:.4g} /s"


def _estimates(required: Sequence[Requirement], probe: Probe) -> list[dict[str, object]]:
    return [
        {"requirement": requirement.text, "unit": requirement.unit, "value": value.value, "interval": value.interval}
        for requirement, value in zip(required, probe.estimates, strict=True)
    ]


def _shown(requirement: Requirement, estimate: FigureEstimate) -> tuple[str, str]:
    low, high = (quantity(bound, requirement.unit) for bound in estimate.interval)
    within = f"{low} to {high}" if math.isfinite(estimate.interval.high) else f"at least {low}"
    return quantity(estimate.value, requirement.unit), within


def _text(
    capacity: Capacity,
    stated: Mapping[str, Any],
    required: Sequence[Requirement],
    think: str | None,
    unknown_error: str | None,
) -> Iterator[str]:
    from ...studies.growth import LONGEST

    assert capacity.kept_per_s is not None
    clients = capacity.clients
    band, undecided = None, "" if capacity.kept_per_s == capacity.high_per_s else "; undecided"
    highest = f"{_rate(capacity.high_per_s)}, the highest rate searched"
    if clients is not None:
        highest = f"{clients.high:,}, the largest number searched"
    not_kept = f"none{undecided} up to {highest}"
    if capacity.not_kept_per_s is not None:
        not_kept = f"{_load(capacity, kept=False)}: {capacity.limited_by}"
        band = f"{percent(capacity.not_kept_per_s / capacity.kept_per_s - 1)} of the rate"
    if clients is not None:
        between = range((clients.kept or 0) + 1, clients.not_kept or 0)
        band = f"{between[0]:,} to {counted(between[-1], 'client')}" if between else None
    what = "highest rate kept" if clients is None else "most clients kept"
    longest = f"at most {capacity.max_requests:,}, then a {'rate' if clients is None else 'number'} is left undecided"
    if capacity.growth is not None:
        longest = f"at most the requests of {LONGEST} durations of the file, then a rate is left undecided"
    about = {
        "policy": capacity.policy,
        **drawn(stated),
        "think time": None if clients is None else think or "0",
        what: _load(capacity),
        **{f"kept if times are x {factor:g}": _load(end) for factor, end in capacity.ends.items()},
        "error of times": unknown_error,
        "lowest not kept" if clients is None else "fewest not kept": not_kept,
        "undecided between": band,
        "what grows": None if capacity.growth is None else capacity.growth.network or "the rate of every network",
        "requests a run": longest,
        "saturation": f"{_rate(capacity.saturation_per_s)}, which no policy exceeds",
        "spent": f"{counted(capacity.requests_simulated, 'request')}: "
        f"{counted(len(capacity.probes), 'rate' if clients is None else 'number')}, {capacity.seeds} seeds each",
    }
    yield facts(about)
    rows = []
    for probe in capacity.probes:
        load = () if probe.clients is None else (f"{probe.clients:,}",)
        load = load if probe.factor is None else (f"{probe.factor:.4g}",)
        run = *load, _rate(probe.rate_per_s).removesuffix(" /s"), f"{probe.requests:,}", probe.verdict
        rows += [
            (*run, requirement.text, *_shown(requirement, it))
            for requirement, it in zip(required, probe.estimates, strict=True)
        ]
    headers = ["rate /s", "requests", "", "requirement", "found", "95 %"]
    first = ["clients"] if clients is not None else [] if capacity.growth is None else ["factor"]
    yield table([*first, *headers], rows)


def _load(capacity: Capacity, *, kept: bool = True) -> str:
    """The highest rate or number of clients that is kept, or the lowest that is not."""
    rate = capacity.kept_per_s if kept else capacity.not_kept_per_s
    if rate is None:
        return "none"
    if capacity.growth is not None:
        factor = capacity.growth.kept if kept else capacity.growth.not_kept
        return f"{factor:.4g} times the rates of the file, {_rate(rate)}"
    if capacity.clients is None:
        return _rate(rate)
    return f"{capacity.clients.kept if kept else capacity.clients.not_kept:,}, who are served at {_rate(rate)}"
