"""``fluidb thresholds``: figures by threshold, or the thresholds that meet a latency target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from ..declare import KindOptions, option, refuse_others
from ..options import (
    AsJson,
    PictureOptions,
    Required,
    Samples,
    Served,
    ServiceOptions,
    ThresholdsTried,
    clients_record,
    duration,
    objective_record,
    tried_thresholds,
)
from ..render import facts, folded_table, ms, percent, plain, progress, show, spread, table

if TYPE_CHECKING:
    from pathlib import Path

    from ...studies.latency_target import TargetThresholds
    from ...studies.thresholds import Sweep, ThresholdPoint

_OBJECTIVE = "Best shares: the most samples at the latest exit, or the highest accuracy."
_EACH_EXIT = "Try every combination of thresholds at the exits; combinations with a star are printed."
_TARGET = "Find thresholds with this mean latency of a sample alone, in place of a sweep."


@dataclass(frozen=True, kw_only=True)
class SweepOptions(PictureOptions, ServiceOptions, KindOptions):
    """The sweep: requests, policy, and thresholds that are tried."""

    with_: ClassVar[str] = "a trace or clients"

    thresholds: ThresholdsTried = None
    each_exit: Annotated[bool, option(_EACH_EXIT)] = False
    require: Required = None


@dataclass(frozen=True, kw_only=True)
class TargetOptions(KindOptions):
    """The target: thresholds from the shares of the exits."""

    with_: ClassVar[str] = "a target"

    samples: Samples = None
    target: Annotated[str | None, option(_TARGET, "DURATION")] = None
    objective: Annotated[Literal["latest", "accuracy"], option(_OBJECTIVE)] = "latest"


def command(
    ctx: typer.Context, directory: Served, swept: SweepOptions, aimed: TargetOptions, as_json: AsJson = False
) -> None:
    """Sweep the exit threshold, or find thresholds for a latency.

    With a trace or clients, each threshold, the same for all exits, replays the same requests
    with the same samples. A star marks thresholds that keep --require and that no other
    beats in accuracy, mean latency and violations at once. With several networks every
    combination of their thresholds is tried, and combinations with a star are printed.

    With --target, shares of the exits come from the mean latency, and thresholds from
    the shares (EdgeSP, Section 3.4, `fluidb docs edgesp`). One half of the samples
    chooses, the other half checks.
    """
    kinds = (swept, aimed)
    if aimed.target is None:
        refuse_others(ctx, swept, kinds, "a sweep")
        _sweep(directory, swept, as_json)
    else:
        refuse_others(ctx, aimed, kinds, "this")
        _meet(directory, aimed, aimed.target, as_json)


def _sweep(directory: Path, asked: SweepOptions, as_json: bool) -> None:
    from ...formats import InputError
    from ...plots.thresholds import draw_thresholds
    from ...serving import parse_requirement
    from ...serving.networks import files_of, named_in, stated_for
    from ...studies.thresholds import sweep_thresholds

    if asked.trace is None and asked.clients is None:
        raise InputError("trace: expected a trace to sweep thresholds with, or --target, found neither; state one")
    asked.check(files_of(directory))
    requests, tried = asked.requests, tried_thresholds(asked.thresholds)
    names, texts = named_in(directory), asked.require or []
    required = [parse_requirement(text, networks=names) for text in texts]
    with progress("thresholds") as report:
        sweep = sweep_thresholds(
            directory,
            requests,
            asked.scheduler,
            tried,
            each_exit=asked.each_exit,
            requirements=required,
            progress=report,
        )
    asked.write(lambda: draw_thresholds(sweep))
    origin = asked.trace if requests.samples is None else f"{requests.samples}, seed {requests.seed}"
    points = [stated_for(names, _record_of(point)) for point in sweep.points]
    points = [{key: value for key, value in point.items() if key != "kept" or required} for point in points]
    record = {
        "design": directory,
        "trace": asked.trace,
        **clients_record(asked.clients, asked.think),
        "samples": requests.samples,
        "policy": sweep.policy,
        **objective_record(asked.slo),
        "seed": requests.seed,
        "requests": sweep.requests,
        **stated_for(names, {"measure": sweep.networks[0].measure, "networks": sweep.networks}),
        **({"requirements": texts} if texts else {}),
        "points": points,
    }
    text = {"measure": _swept(sweep, str(origin), only_best=asked.each_exit), "networks": _swept_networks(sweep)}
    shown = chain.from_iterable(stated_for(names, text).values())
    show(as_json, "fluidb.thresholds-output/1", record, shown, asked.plot)
    if not any(point.kept is not False for point in sweep.points):
        raise typer.Exit(1)


def _record_of(point: ThresholdPoint) -> dict[str, Any]:
    """The JSON of a point, with what a network without a name has among the figures of all requests."""
    first = point.networks[0]
    return {"threshold": first.threshold, "exit_shares": first.exit_shares, **plain(point)}


def _kept(kept: Sequence[bool | None], what: str) -> str | None:
    """How many points keep the requirements, if there are any."""
    return None if None in kept else f"by {sum(map(bool, kept)):,} of {len(kept):,} {what}"


def _swept(sweep: Sweep, origin: str, *, only_best: bool) -> Iterator[str]:
    from ...studies.thresholds import show_level

    network, shown = sweep.networks[0], [point for point in sweep.points if point.pareto or not only_best]
    exits = spread([(index, f"{index + 1} {name}") for index, name in enumerate(network.exits)])
    rows = [
        (
            show_level(point.threshold),
            *(percent(point.exit_shares[index], 1) for index, _ in exits),
            percent(point.accuracy),
            ms(point.mean_latency_s),
            ms(point.p99_latency_s),
            percent(point.violation_rate),
            *([] if point.kept is None else ["yes" if point.kept else "no"]),
            "*" if point.pareto else "",
        )
        for point in shown
    ]
    kept = _kept([point.kept for point in sweep.points], "thresholds")
    measure = str(network.measure)
    yield facts(
        {
            "policy": sweep.policy,
            "requests": f"{sweep.requests:,}",
            measure: origin,
            "requirements kept": kept,
            "best": f"{len(shown):,} of {len(sweep.points):,} combinations; --json has all" if only_best else None,
        }
    )
    last = ["violations", *([] if kept is None else ["kept"]), "best"]
    yield table(["threshold", *(name for _, name in exits), "accuracy", "mean latency", "p99", *last], rows)
    if len(exits) < len(network.exits):
        yield f"{len(exits)} of {len(network.exits)} exits; --json has all"


def _swept_networks(sweep: Sweep) -> Iterator[str]:
    about = {
        network.name: "no request"
        if served.violation_rate is None
        else "exits as they are stated"
        if network.measure is None
        else f"each {network.measure} that was tried"
        for network, served in zip(sweep.networks, sweep.points[0].networks, strict=True)
    }
    kept = _kept([point.kept for point in sweep.points], "combinations")
    rows = [_row(point) for point in sweep.points if point.pareto]
    best = f"{len(rows):,} of {len(sweep.points):,} combinations; --json has all"
    yield facts(
        {"policy": sweep.policy, "requests": f"{sweep.requests:,}", **about, "requirements kept": kept, "best": best}
    )
    if rows:
        yield folded_table(list(rows[0]), [list(row.values()) for row in rows], "--json")


def _row(point: ThresholdPoint) -> dict[str, str]:
    """Cells by their headings: of each network, then of all requests."""
    from ...studies.thresholds import show_level

    row = {}
    for network in point.networks:
        if network.threshold is not None:
            row[network.name] = show_level(network.threshold)
        if network.accuracy is not None:
            row[f"{network.name} accuracy"] = percent(network.accuracy)
        if network.violation_rate is not None:
            row[f"{network.name} violations"] = percent(network.violation_rate)
    return row | {
        "accuracy": percent(point.accuracy),
        "mean latency": ms(point.mean_latency_s),
        "p99": ms(point.p99_latency_s),
        "violations": percent(point.violation_rate),
    }


def _meet(directory: Path, asked: TargetOptions, target: str, as_json: bool) -> None:
    from ...formats import InputError
    from ...studies.latency_target import meet_target

    target_s = duration(target, "target")
    assert target_s is not None
    if asked.samples is None:
        raise InputError("samples: expected answers at every exit beside a target, found none; add --samples")
    met = meet_target(directory, asked.samples, target_s, objective=asked.objective)
    record: dict[str, Any] = {"design": directory, "samples": asked.samples, "objective": asked.objective}
    show(as_json, "fluidb.target-output/1", record | plain(met), _met(met, asked.objective))


def _met(solved: TargetThresholds, objective: str) -> Iterator[str]:
    from ...traffic.measures import show_threshold

    thresholds = [row.threshold for row in solved.exits[:-1] if row.threshold is not None]
    first = solved.exits[0]
    target = ms(solved.target_s)
    late = (
        None
        if solved.feasible
        else f"{target} is less than the time of exit 1, {ms(first.time_s)}; all samples leave there"
    )
    yield facts(
        {
            "network": f"{solved.network} on {solved.platform}",
            "target": f"{target} on average, by {objective}",
            "not feasible": late,
            "thresholds": f"--threshold {','.join(map(str, thresholds))} ({solved.measure})" if thresholds else "none",
        }
    )
    exits = [
        (
            f"{number} {row.name}",
            ms(row.time_s),
            percent(row.accuracy),
            percent(row.wanted_share),
            "" if row.threshold is None else show_threshold(row.threshold),
            percent(row.chosen_share),
            percent(row.checked_share),
        )
        for number, row in enumerate(solved.exits, 1)
    ]
    yield table(["exit", "time", "accuracy", "wanted", solved.measure, "leave", "leave (checked)"], exits)
    halves = [
        (name, f"{met.samples:,}", ms(met.mean_s), percent(met.accuracy))
        for name, met in (("to choose", solved.chosen), ("to check", solved.checked))
    ]
    yield table(["samples", "", "mean latency", "accuracy"], halves)
