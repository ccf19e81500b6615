"""``fluidb serve-sim``: replay a trace on a design."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...formats.display import counted
from ..declare import option
from ..options import (
    AsJson,
    PictureOptions,
    ReplayFiles,
    Served,
    ServiceOptions,
    Threshold,
    clients_record,
    duration,
    objective_record,
)
from ..render import bounds, facts, folded_table, megabytes, ms, outcomes, percent, progress, quantity, show, table

if TYPE_CHECKING:
    from ...serving.saturation import Saturation
    from ...serving.serve import NetworkFigures, ServeResult
    from ...serving.subnets import SubNetSummary
    from ...serving.summary import HostSummary, Summary
    from ...tables.latency import LatencyTable


def command(
    directory: Served,
    simulated: ServiceOptions,
    threshold: Threshold = None,
    until: Annotated[str | None, option("Stop at this time; unfinished requests are violations.", "DURATION")] = None,
    *,
    files: ReplayFiles,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Replay a trace on a design: latency, violations, utilisation."""
    from ...serving import parse_requirement
    from ...serving.networks import files_of, named_in
    from ...serving.serve import serve
    from ...traffic import parse_thresholds

    served, until_s = simulated.requests, duration(until, "until")
    read = [given for given in (served.trace, served.samples) if isinstance(given, Path)]
    files.check(picture, [*read, *files_of(directory)])
    levels = None if threshold is None else parse_thresholds(threshold, "threshold")
    required = [parse_requirement(text, networks=named_in(directory)) for text in files.required]
    with progress("reading and replaying") as report:
        result = serve(
            directory, served, simulated.scheduler, threshold=levels, until_s=until_s or math.inf,
            requirements=required, record=files.timeline is not None, progress=report,
        )  # fmt: skip
    written, judged = files.write(result.replay, result.policy, picture), result.requirements
    told, text = record_of(result, simulated.slo), list(text_of(result))
    record = {
        "design": directory, "trace": simulated.trace, **clients_record(simulated.clients, simulated.think), **told,
        **({"requirements": judged} if judged else {}),
    }  # fmt: skip
    if judged:
        text.append(outcomes([requirement.text for requirement in required], judged))
    if any(result.undecided):
        unclear = [requirement.text for requirement, open_ in zip(required, result.undecided, strict=True) if open_]
        text.append(facts({"undecided": f"{'; '.join(unclear)}: fails at one end of the engine's error"}))
    show(as_json, "fluidb.serve-sim-output/1", record, text, others=written)
    if any(result.undecided) or not all(verdict.holds for verdict in judged):
        raise typer.Exit(1)


def record_of(served: ServeResult, slo: str | None) -> dict[str, object]:
    """The JSON of requests that were served."""
    from ...serving.networks import stated_for

    replay, figures = served.replay, {own.name: own for own in served.networks}
    networks = [
        {"name": name, "network": use.table.network, **_network_record(figures.get(name))}
        for name, use in zip(replay.names, replay.uses, strict=True)
    ]
    record = {
        "policy": served.policy,
        "between": replay.between,
        "exits_from": replay.traffic.origin,
        "network": replay.uses[0].table.network,
        "platform": replay.uses[0].table.platform,
        **objective_record(slo),
        **served.summary.record(),
        "unavoidable_violations": served.unavoidable_violations,
        **_ends_record(served),
        "networks": networks,
    }
    return stated_for(replay.names, record)


def _network_record(own: NetworkFigures | None) -> dict[str, object]:
    """The JSON of the figures of a network; one without a request has none."""
    if own is None:
        return {"requests": 0}
    return {**own.summary.record(), "unavoidable_violations": own.unavoidable_violations}


def _ends_record(served: ServeResult) -> dict[str, object]:
    """The JSON of the ends of an engine's error, if it was calibrated."""
    latency = served.replay.uses[0].table
    keys = ("mean_latency_s", "violation_rate", "busy_share", "percentiles")
    ends = [
        {"factor": end.factor, **{key: getattr(end.summary, key) for key in keys}, "requirements": end.requirements}
        for end in served.ends
    ]
    if latency.measured is None:
        return {}
    return {"ends": ends or None, "ends_confidence": latency.measured_confidence}


def _text_of_all(served: ServeResult, latency: LatencyTable) -> Iterator[str]:
    """The text about all requests that were served, by the device of a latency table."""
    summary, unavoidable = served.summary, served.unavoidable_violations
    worth, clients = int(summary.independent_requests), served.replay.traffic.clients
    unfinished = f"{counted(summary.unfinished, 'request')}, counted as violations"
    waiting = served.replay.traffic.trace.at_once  # then there is no rate, and what counts is when all have returned
    variances = {"depth": summary.depth_variance, "width": summary.width_variance}
    spread = ", ".join(f"{value:,.4g} of {name}" for name, value in variances.items() if value is not None)
    sure = bounds(summary.violation_interval, summary.more_requests_needed, "share")
    informs = "all waiting from the beginning" if waiting else f"as informative as {counted(worth, 'independent one')}"
    about = {
        "policy": f"{served.policy}, exits from {served.replay.traffic.origin}",
        "requests": f"{summary.requests:,} over {summary.span_s:,.1f} s, {informs}",
        "warm-up": None if waiting else f"{counted(summary.warm_up_requests, 'request')}, counted in all figures",
        "unfinished": unfinished if summary.unfinished else None,
        "arrival rate": f"{summary.arrival_rate_per_s:.3f} /s" if summary.arrival_rate_per_s else None,
        "clients": f"{clients:,}, each waits for its answer" if clients else None,
        "makespan": ms(summary.makespan_s) if waiting else None,
        **({} if summary.saturation is None else _saturation(summary.saturation)),
        "processing rate": f"{summary.processing_rate_per_s:.3f} /s, {summary.goodput_per_s:.3f} /s in time",
        "average latency": f"{ms(summary.mean_latency_s)}, with {ms(summary.mean_wait_s)} in the queue",
        "host": None if summary.host is None else _host(summary.host),
        "violations": f"{percent(summary.violation_rate)} ({counted(summary.violations, 'request')})",
        "95 % interval": "none, as this is one observation; `fluidb compare` repeats it" if waiting else sure,
        "unavoidable": None
        if unavoidable is None
        else f"at least {percent(unavoidable / summary.requests)} ({counted(unavoidable, 'request')})",
        **_answers(served),
        f"{latency.machine} busy": f"{percent(summary.busy_share, 1)}, {summary.mean_batch:.2f} samples on average",
        "energy": None if summary.energy_j is None else f"{quantity(summary.energy_j, 'J')} a request",
        "variance in a batch": spread if waiting else None,
        "preemptions": f"{summary.preemptions:,}, {ms(summary.stalled_s)} stood still on average",
        "scheduler calls": f"{summary.scheduler_calls:,}",
        "error of times": latency.unknown_error,
    }
    yield facts(about)
    yield from _latencies(served)


def _host(host: HostSummary) -> str:
    """The host's part of the latency."""
    beside = "beside the device's work" if host.overlaps else "while the device waits"
    return f"{ms(host.time_s)} of each answer, {percent(host.latency_share, 1)} of its latency, {beside}"


def _answers(served: ServeResult) -> dict[str, str | None]:
    """Lines about requests without an answer, and about how right the answers are."""
    summary = served.summary
    lost, refused = summary.deadlines, summary.admission
    late = lost if served.replay.drops else None
    return {
        "refused": None
        if refused is None
        else f"{percent(refused.refused_rate)} ({counted(refused.refused, 'request')}), of infinite latency",
        "dropped": None
        if late is None
        else f"{percent(late.dropped_rate)} ({counted(late.dropped, 'request')}), of infinite latency",
        "answered early": None
        if late is None or not late.early
        else f"{percent(late.early_rate)} ({counted(late.early, 'request')})",
        "latency of answers": None if lost is None or lost.answered_latency_s is None else ms(lost.answered_latency_s),
        "accuracy": None if summary.accuracy is None else percent(summary.accuracy),
        "accuracy of all": None
        if lost is None or lost.accuracy_of_all is None
        else f"{percent(lost.accuracy_of_all)}, where {'a drop' if refused is None else 'a drop or refusal'} "
        "counts as wrong",
    }


def _latencies(served: ServeResult) -> Iterator[str]:
    """Tables of latencies with their intervals, and at both ends of the error of a calibrated engine."""
    summary = served.summary
    average = bounds(summary.mean_interval_s, summary.more_requests_needed, "s")
    rows = [
        ("average", ms(summary.mean_latency_s), average),
        *(
            (
                percentile.name,
                ms(percentile.latency_s),
                bounds(percentile.interval_s, percentile.more_requests_needed, "s"),
            )
            for percentile in summary.percentiles
        ),
        ("worst", ms(summary.max_latency_s), ""),
    ]
    yield table(["latency", "", "95 %"], rows)
    if served.ends:
        cases = [(1.0, summary), *((end.factor, end.summary) for end in served.ends)]
        ends = [
            (f"{factor:g} of predicted", ms(case.mean_latency_s), ms(case.max_latency_s), percent(case.violation_rate))
            for factor, case in sorted(cases, key=lambda pair: pair[0])
        ]
        sure = served.replay.uses[0].table.measured_confidence
        of = "as measured" if sure is None else f"{percent(sure, 0)} of networks"
        yield table([f"times, {of}", "average", "worst", "violations"], ends)


def _networks_text(served: ServeResult) -> Iterator[str]:
    """The text about requests of several networks."""
    summary = served.summary
    assert summary.fairness is not None
    told = "of the networks' shares of requests in time, by Jain's index"
    yield facts({"between networks": served.replay.between, "fairness": f"{percent(summary.fairness)}, {told}"})
    columns: dict[str, Callable[[Summary], str | None]] = {
        "requests": lambda own: f"{own.requests:,}",
        "answers": lambda own: f"{own.processing_rate_per_s:.3f} /s" if served.replay.offered.clients else None,
        "share": lambda own: percent(own.requests / summary.requests, 1),
        "average": lambda own: ms(own.mean_latency_s),
        "p99": lambda own: ms(own.percentile("p99").latency_s),
        "violations": lambda own: percent(own.violation_rate),
        "refused": lambda own: None if own.admission is None else percent(own.admission.refused_rate),
        "dropped": lambda own: (
            percent(own.deadlines.dropped_rate) if served.replay.drops and own.deadlines is not None else None
        ),
        "accuracy": lambda own: None if own.accuracy is None else percent(own.accuracy),
        "samples": lambda own: f"{own.mean_batch:.2f}",
        served.replay.uses[0].table.machine: lambda own: percent(own.busy_share, 1),
    }
    nothing = ["0", *[None] * (len(columns) - 1)]
    cells = {name: [cell(own) for cell in columns.values()] for name, own, _ in served.networks}
    rows = [[name, *cells.get(name, nothing)] for name in served.replay.names]
    known = [k for k, column in enumerate(zip(*rows, strict=True)) if any(cell is not None for cell in column)]
    yield table([["network", *columns][k] for k in known], [[row[k] or "" for k in known] for row in rows])


def text_of(served: ServeResult) -> Iterator[str]:
    """The text about requests that were served."""
    from ...serving.networks import stated_for

    whole = _text_of_all(served, served.replay.uses[0].table)
    parts = {"all": whole, "networks": _networks_text(served), "network": _exits_text(served)}
    return chain.from_iterable(stated_for(served.replay.names, parts).values())


def _exits_text(served: ServeResult) -> Iterator[str]:
    """The text about SubNets, MACs and exits of the only network."""
    summary, latency = served.summary, served.replay.table
    use = summary.utilisation
    accuracy = [] if summary.accuracy is None else ["accuracy"]
    if summary.subnets is not None:
        yield from _subnets(summary.subnets)
    if use is None:
        yield facts({"where the MACs went": f"not known: the latency table of {latency.platform} states no causes"})
    else:
        shares = {
            "MACs made": use.mac_share,
            "no batch": use.idle_share,
            "scheduler": use.scheduler_share,
            "off-chip memory": use.memory_bound_share,
            "tiles not filled": use.tile_padding_share,
            "batch grid not filled": use.batch_padding_share,
        }
        yield table(["where the MACs went", "share"], ((name, percent(share, 1)) for name, share in shares.items()))
    cells = [
        (
            f"{there.exit} {row.name}",
            f"{there.requests:,}",
            percent(there.requests / summary.requests, 1),
            "" if there.mean_latency_s is None else ms(there.mean_latency_s),
            *("" if there.accuracy is None else percent(there.accuracy) for _ in accuracy),
            f"{stage.runs:,}",
            f"{stage.mean_batch:.2f}",
            percent(stage.busy_share, 1),
        )
        for row, there, stage in zip(latency.exits, summary.exits, summary.stages, strict=True)
    ]
    headers = ["exit", "requests", "share", "latency", *accuracy, "runs", "samples", latency.machine]
    yield folded_table(headers, cells, "--json")


def _saturation(saturation: Saturation) -> dict[str, str]:
    """Lines about saturation: the verdict, and the figures that it follows from."""
    low, high = (percent(end) for end in saturation.backlog_growth_interval)
    grows = f"{percent(saturation.backlog_growth)} of arrivals ({low} to {high})"
    return {
        "saturation": f"{saturation.verdict}, load at least {percent(saturation.load, 1)}",
        "backlog growth": f"{grows}; drained in {saturation.drained_parts} of 10 parts",
    }


def _subnets(subnets: SubNetSummary) -> Iterator[str]:
    """Figures of SubNets; those that are not known have no line."""
    moved, energy_j = subnets.off_chip_bytes, subnets.off_chip_energy_j
    returned = sum(subnet.requests for subnet in subnets.shares)
    known = {
        "accuracy of the SubNets": subnets.served_accuracy,
        "less accurate than asked": subnets.accuracy_miss_rate,
        "hit ratio": subnets.hit_ratio,
    }
    yield facts(
        {name: None if share is None else percent(share) for name, share in known.items()}
        | {
            "changes of the buffer": f"{subnets.swaps:,}",
            "off chip, each request": None if moved is None else megabytes(moved),
            "its energy": None if energy_j is None else quantity(energy_j, "J"),
        }
    )
    cells = [
        (
            subnet.name,
            f"{subnet.requests:,}",
            percent(subnet.requests / returned if returned else None, 1),
            "" if subnet.mean_latency_s is None else ms(subnet.mean_latency_s),
        )
        for subnet in subnets.shares
    ]
    yield table(["SubNet", "requests", "share", "latency"], cells)
