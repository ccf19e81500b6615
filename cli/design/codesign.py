"""``fluidb codesign``: search and simulation in turn, until the design fits its traffic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..options import AsJson, Force, SimulationOptions, Threads, objective_record, written
from ..render import facts, ms, percent, progress, show, table
from .problem import NetworkName, PlatformName, Space

if TYPE_CHECKING:
    from ...studies.codesign import Codesign, Round


def command(
    network: NetworkName,
    platform: PlatformName,
    simulated: SimulationOptions,
    asked: Space,
    output: Annotated[Path | None, written("Write the design with its latency table into this folder.")] = None,
    threads: Threads = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Search and simulate in turn until the design fits its traffic.

    Each search weights batch sizes by the simulation before it; the last one finds
    the design that was simulated. Prints the gain of this design over one searched
    with all weights 1, on the same requests.
    """
    from ...dse.npu.design import check_output, write_design
    from ...studies.codesign import codesign

    if output is not None:
        check_output(output, force=force)
    problem, requests = asked.read(network, platform), simulated.requests
    with progress("rounds") as report:
        found = codesign(*problem, requests, simulated.policy, threads=threads, progress=report)
    if output is not None:
        write_design(output, found.chosen.design, found.chosen.fbcb, found.chosen.latency, replace=force)
    record = {
        "network": problem.network.name,
        "platform": problem.platform.name,
        "trace": requests.trace,
        "policy": simulated.policy,
        **objective_record(simulated.slo),
        "rounds": [item.tile._asdict() | _figures(item) for item in found.rounds],
        "settled": found.settled,
        "chosen": found.rounds.index(found.chosen) + 1,
        "output": output,
    }
    show(as_json, "fluidb.codesign-output/1", record, _text(found), output)


def _figures(item: Round) -> dict[str, float]:
    return {
        "mean_latency_s": item.summary.mean_latency_s,
        "p99_latency_s": item.summary.percentile("p99").latency_s,
        "violation_rate": item.summary.violation_rate,
        "busy_s": item.busy_s,
    }


def _text(found: Codesign) -> Iterator[str]:
    rows = []
    for number, item in enumerate(found.rounds, 1):
        mean_s, p99_s, violations, busy_s = _figures(item).values()
        rows.append((number, item.tile, ms(mean_s), ms(p99_s), percent(violations), f"{busy_s:,.2f} s"))
    yield table(["round", "design", "mean latency", "p99", "violations", "NPU busy"], rows)
    first, last = found.rounds[0], found.chosen
    end = "no longer changes" if found.settled else "comes back in turn with others; the least work wins"
    design = f"<T_R,T_P,T_C> = {last.tile}, which {end}"
    if last is first and found.settled:
        yield facts({"design": design, "gain": "none: w_b = 1 had found the design for this traffic"})
        return
    latency = last.summary.mean_latency_s - first.summary.mean_latency_s
    violations = last.summary.violation_rate - first.summary.violation_rate
    busy = f"{percent(last.busy_s / first.busy_s - 1)} of the NPU's time"
    gain = f"{1e3 * latency:+.3f} ms of mean latency, {100 * violations:+.2f} points of violations"
    yield facts({"design": design, "to w_b = 1": busy, "": gain})
