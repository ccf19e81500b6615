"""``fluidb capacity``: the highest arrival rate that keeps requirements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..columns import ColumnOptions
from ..options import (
    AsJson,
    PictureOptions,
    Policy,
    TableFolder,
    Threads,
    objective,
    objective_record,
    option,
)
from ..render import drawn, facts, fail, percent, progress, quantity, show, table

if TYPE_CHECKING:
    from ...serving.requirements import Requirement
    from ...studies.capacity import Capacity, FigureEstimate, Probe

_COUNT = "Requests of each run at first; up to 16 times as many where it stays undecided."


def command(
    directory: TableFolder,
    require: Annotated[list[str], option("What must hold, e.g. 'violation_rate <= 1 %'. Repeatable.", "REQUIREMENT")],
    policy: Policy = "fluid",
    *,
    columns: ColumnOptions,
    seeds: Annotated[int, option("Independent runs at each rate.", min=2, max=1000)] = 5,
    count: Annotated[int, option(_COUNT, min=1, max=10**7)] = 20_000,
    rate: Annotated[
        str | None, option("Rates to search, in requests a second; either end may be left out.", "LOW..HIGH")
    ] = None,
    threads: Threads = None,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Find the highest arrival rate that keeps requirements.

    Arrivals are Poisson; widths, steps, accuracies asked for and predictions can be drawn
    too. Exit code 1 if the policy keeps the requirements at no rate.
    """
    from ...plots.capacity import draw_capacity
    from ...serving import parse_requirement
    from ...serving.inputs import as_table
    from ...studies.capacity import find_capacity

    picture.check()
    required = [parse_requirement(text) for text in require]
    low_per_s, high_per_s = _rates(rate)
    latency = as_table(directory)
    with progress("rates") as report:
        found, *ends = (
            find_capacity(
                table, policy, required, slo_s=objective(columns.slo),
                columns=columns.columns("slo", "predict_depth"), predict_depth=columns.predict_depth, seeds=seeds,
                count=count, low_per_s=low_per_s, high_per_s=high_per_s, threads=threads, progress=report,
            )
            for table in (latency, *map(latency.slower, latency.measured or ()))
        )  # fmt: skip
    reached = dict(zip(latency.measured or (), ends, strict=True))
    picture.write(lambda: draw_capacity(found, required))
    stated = vars(columns) | objective_record(columns.slo)
    record = {"design": directory, **stated}
    record |= {"requirements": [item.text for item in required], **asdict(found)}
    record["probes"] = [asdict(probe) | {"estimates": _estimates(required, probe)} for probe in found.probes]
    if reached:
        record["ends"] = [{"factor": factor, "kept_per_s": end.kept_per_s} for factor, end in reached.items()]
    if as_json or found.kept_per_s is not None:
        show(as_json, "fluidb.capacity-output/1", record, _text(found, stated, required, reached), picture.plot)
    if found.kept_per_s is None:
        lowest = found.probes[0]
        pairs = list(zip(required, lowest.estimates, strict=True))
        item, estimate = next((pair for pair in pairs if pair[0].text == lowest.broken), pairs[0])
        value, interval = _shown(item, estimate)
        what = f'"{item.text}" is {lowest.verdict}: {value}, {interval} at 95 %'
        rates = f"{_rate(found.low_per_s)} to {_rate(found.high_per_s)}"
        fail([f"no rate from {rates} is kept; at the lowest {what}"])
        raise typer.Exit(1)


def _rates(text: str | None) -> tuple[float | None, float | None]:
    """The lowest and the highest rate to search, as far as they are given."""
    from ...formats import InputError, read_number

    low, dots, high = (text or "..").partition("..")
    try:
        if not dots:
            raise ValueError
        return read_number(low) if low else None, read_number(high) if high else None
    except ValueError:
        raise InputError(f'rate: expected the lowest rate, .. and the highest, found "{text}"; e.g. 5..50') from None


def _rate(per_s: float) -> str:
    return f"{per_s:,.1f} /s" if per_s >= 1000 else f"{per_s:.4g} /s"


def _estimates(required: Sequence[Requirement], probe: Probe) -> list[dict[str, object]]:
    return [
        {"requirement": item.text, "unit": item.unit, "value": value.value, "interval": value.interval}
        for item, value in zip(required, probe.estimates, strict=True)
    ]


def _shown(item: Requirement, found: FigureEstimate) -> tuple[str, str]:
    low, high = (quantity(bound, item.unit) for bound in found.interval)
    within = f"{low} to {high}" if math.isfinite(found.interval.high) else f"at least {low}"
    return quantity(found.value, item.unit), within


def _text(
    found: Capacity, stated: Mapping[str, Any], required: Sequence[Requirement], ends: Mapping[float, Capacity]
) -> Iterator[str]:
    assert found.kept_per_s is not None
    undecided = "" if found.kept_per_s == found.high_per_s else "; undecided"
    not_kept, band = f"none{undecided} up to {_rate(found.high_per_s)}, the highest rate searched", None
    if found.not_kept_per_s is not None:
        not_kept = f"{_rate(found.not_kept_per_s)}: {found.limited_by}"
        band = f"{percent(found.not_kept_per_s / found.kept_per_s - 1)} of the rate"
    about = {
        "policy": found.policy,
        **drawn(stated),
        "highest rate kept": _rate(found.kept_per_s),
        **{
            f"kept if times x {factor:g}": "none" if end.kept_per_s is None else _rate(end.kept_per_s)
            for factor, end in ends.items()
        },
        "lowest not kept": not_kept,
        "undecided between": band,
        "requests a run": f"at most {found.max_requests:,}, then a rate is left undecided",
        "saturation": f"{_rate(found.saturation_per_s)}, which no policy exceeds",
        "spent": f"{found.requests_simulated:,} requests: {len(found.probes)} rates, {found.seeds} seeds each",
    }
    yield facts(about)
    rows = []
    for probe in found.probes:
        run = _rate(probe.rate_per_s).removesuffix(" /s"), f"{probe.requests:,}", probe.verdict
        rows += [(*run, item.text, *_shown(item, it)) for item, it in zip(required, probe.estimates, strict=True)]
    yield table(["rate /s", "requests", "", "requirement", "found", "95 %"], rows)
