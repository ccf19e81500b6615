"""``fluidb capacity``: how much traffic a design bears."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AsJson, TableFolder
from ..render import blank, emit_facts, emit_json, emit_table, fail, percent, progress, quantity

if TYPE_CHECKING:
    from ...experiments.capacity import Capacity, Probe
    from ...experiments.estimates import Estimate
    from ...serving.requirements import Requirement


def command(
    directory: TableFolder,
    slo: Annotated[str, typer.Option(metavar="DURATION", help="Latency objective, e.g. 200ms.")],
    require: Annotated[
        list[str],
        typer.Option(metavar="REQUIREMENT", help="What must hold, e.g. 'violation_rate <= 1 %'. Repeatable."),
    ],
    policy: Annotated[
        str, typer.Option(metavar="NAME[:KEY=VALUE,...]", help="The policy, as in `fluidb serve-sim`.")
    ] = "fluid",
    seeds: Annotated[int, typer.Option(min=2, max=1000, help="Independent runs at each rate.")] = 5,
    requests: Annotated[int, typer.Option(min=1, max=10**7, help="Requests of each run, to begin with.")] = 20_000,
    max_requests: Annotated[
        int | None,
        typer.Option(min=1, max=10**8, help="Requests of a run at which a rate is left undecided.  [default: 16-fold]"),
    ] = None,
    low: Annotated[float | None, typer.Option(metavar="REQUESTS/S", help="Lowest rate to search.")] = None,
    high: Annotated[float | None, typer.Option(metavar="REQUESTS/S", help="Highest rate to search.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="Threads; all cores if not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the highest Poisson arrival rate at which a policy keeps requirements.

    Exit code 1 if it keeps them at none.
    """
    from ...experiments.capacity import find_capacity
    from ...formats import parse_duration
    from ...serving.requirements import parse_requirement
    from ...serving.scheduler import find_policy
    from ...tables import read_latency

    required = [parse_requirement(text, "--require") for text in require]
    slo_s = parse_duration(slo, "--slo")
    contender = find_policy(policy)
    table = read_latency(directory)
    with progress("rates") as report:
        found = find_capacity(
            table,
            contender,
            required,
            slo_s=slo_s,
            seeds=seeds,
            requests=requests,
            max_requests=max_requests,
            low_per_s=low,
            high_per_s=high,
            threads=threads,
            progress=report,
        )
    if as_json:
        run = {"design": str(directory), "policy": policy, "slo_s": slo_s, "requirements": [r.text for r in required]}
        probes = [asdict(probe) | {"estimates": _content(required, probe)} for probe in found.probes]
        emit_json("fluidb.capacity-output/1", {**run, **asdict(found), "probes": probes})
    elif found.kept_per_s is not None:
        _emit_text(found, policy, required)
    if found.kept_per_s is None:
        fail([_none_kept(found, required)])
        raise typer.Exit(1)


def _rate(per_s: float) -> str:
    return f"{per_s:,.1f} /s" if per_s >= 1000 else f"{per_s:.4g} /s"


def _content(required: Sequence[Requirement], probe: Probe) -> list[dict[str, object]]:
    return [
        {"requirement": item.text, "unit": item.unit, "value": value.mean, "interval": (value.low, value.high)}
        for item, value in zip(required, probe.estimates, strict=True)
    ]


def _shown(item: Requirement, value: Estimate) -> tuple[str, str]:
    """A figure and its interval."""
    return quantity(value.mean, item.unit), " to ".join(quantity(x or 0.0, item.unit) for x in (value.low, value.high))


def _none_kept(found: Capacity, required: Sequence[Requirement]) -> str:
    """What was found at the lowest rate, for the requirement that fails, else for the first one."""
    lowest = found.probes[0]
    pairs = list(zip(required, lowest.estimates, strict=True))
    item, value = next((pair for pair in pairs if pair[0].text == lowest.broken), pairs[0])
    mean, interval = _shown(item, value)
    rates = f"no rate from {_rate(found.low_per_s)} to {_rate(found.high_per_s)} is kept"
    return f'{rates}; at the lowest "{item.text}" is {lowest.verdict}: {mean}, {interval} at 95 %'


def _emit_text(found: Capacity, policy: str, required: Sequence[Requirement]) -> None:
    assert found.kept_per_s is not None
    if found.not_kept_per_s is not None:
        band = percent(found.not_kept_per_s / found.kept_per_s - 1)
        above = [
            ("lowest not kept", f"{_rate(found.not_kept_per_s)}: {found.limited_by}"),
            ("undecided between", f"{band} of the rate"),
        ]
    elif found.kept_per_s == found.high_per_s:
        above = [("lowest not kept", f"none up to {_rate(found.high_per_s)}, the highest rate searched")]
    else:
        above = [("lowest not kept", f"none; undecided up to {_rate(found.high_per_s)}, the highest rate searched")]
    emit_facts(
        [
            ("policy", policy),
            ("highest rate kept", f"{_rate(found.kept_per_s)}"),
            *above,
            ("requests a run", f"at most {found.max_requests:,}, then a rate is left undecided"),
            ("saturation", f"{_rate(found.saturation_per_s)}, which no policy exceeds"),
            (
                "spent",
                f"{found.requests_simulated:,} requests: {len(found.probes)} rates, {found.seeds} seeds each",
            ),
        ]
    )
    blank()
    rows = [
        (
            _rate(probe.rate_per_s).removesuffix(" /s"),
            f"{probe.requests:,}",
            probe.verdict,
            item.text,
            *_shown(item, value),
        )
        for probe in found.probes
        for item, value in zip(required, probe.estimates, strict=True)
    ]
    emit_table(["rate /s", "requests", "", "requirement", "mean", "95 %"], rows)
