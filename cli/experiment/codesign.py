"""``fluidb codesign``: search and simulation in turn, until the design fits its traffic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import options as shared
from ..design.problem import problem
from ..render import blank, emit_facts, emit_json, emit_table, ms, note, percent, progress

if TYPE_CHECKING:
    from ...experiments.codesign import Codesign, Round


def command(
    network: shared.NetworkName,
    platform: shared.PlatformName,
    trace: Annotated[Path, typer.Option(metavar="FILE", help="The requests (docs/file-formats.md, Traces).")],
    policy: Annotated[str, typer.Option(metavar="NAME[:KEY=VALUE,...]", help="As for serve-sim.")] = "fluid",
    slo: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Latency objective, e.g. 200ms, where the trace has none.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the exits, where the trace decides none.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write the design with its latency table into this folder."),
    ] = None,
    batching: shared.Batching = shared.Engine.fluid,
    stacking: shared.Stacking = True,
    b_max: shared.BMax = 8,
    bandwidth: shared.Bandwidth = None,
    memory_layers: shared.MemoryLayers = True,
    max_dsp: shared.MaxDsp = None,
    max_ram: shared.MaxRam = None,
    max_lut: shared.MaxLut = None,
    threads: shared.Threads = None,
    force: shared.Force = False,
    as_json: shared.AsJson = False,
) -> None:
    """Search, simulate, and search again for the batches that were seen, until the design no longer changes.

    Says what the traffic's own design gains over one searched with all weights 1,
    on the same requests.
    """
    from ...dse.design import check_output, write_design
    from ...experiments.codesign import codesign
    from ...formats import parse_duration
    from ...serving.scheduler import find_policy
    from ...traffic.reading import read_trace
    from ...traffic.traffic import prepare

    if output is not None:
        check_output(output, force=force)
    net, board, options = problem(
        network, platform, bandwidth=bandwidth, backbone=False, weights=None, max_dsp=max_dsp, max_ram=max_ram,
        max_lut=max_lut, batching=batching.value, stacking=stacking, b_max=b_max, memory_layers=memory_layers,
        objective="gop_s",
    )  # fmt: skip
    slo_s = parse_duration(slo, "--slo") if slo is not None else None
    contender, loaded = find_policy(policy), read_trace(trace)
    traffic = prepare(loaded, [item.rate for item in net.exits], slo_s=slo_s, seed=seed, source=trace)
    with progress("rounds") as report:
        found = codesign(net, board, options, traffic, contender, threads=threads, progress=report)
    if output is not None:
        write_design(output, found.chosen.design, found.chosen.fbcb, found.chosen.latency, replace=force)
    if as_json:
        content = {
            "network": net.name,
            "platform": board.name,
            "trace": str(trace),
            "policy": policy,
            "slo_s": slo_s,
            "rounds": [_figures(item) for item in found.rounds],
            "settled": found.settled,
            "chosen": found.rounds.index(found.chosen) + 1,
            "output": None if output is None else str(output),
        }
        emit_json("fluidb.codesign-output/1", content)
    else:
        _emit_text(found)
    if output is not None:
        note(f"wrote {output}")


def _figures(item: Round) -> dict[str, object]:
    summary = item.summary
    return {
        **item.tile._asdict(),
        "mean_latency_s": summary.mean_latency_s,
        "p99_latency_s": summary.percentile("p99").latency_s,
        "violation_rate": summary.violation_rate,
        "busy_s": item.busy_s,
    }


def _emit_text(found: Codesign) -> None:
    rows = [
        (
            number,
            item.tile,
            ms(item.summary.mean_latency_s),
            ms(item.summary.percentile("p99").latency_s),
            percent(item.summary.violation_rate),
            f"{item.busy_s:,.2f} s",
        )
        for number, item in enumerate(found.rounds, 1)
    ]
    emit_table(["round", "design", "mean latency", "p99", "violations", "NPU busy"], rows)
    blank()
    first, last = found.rounds[0], found.chosen
    end = "no longer changes" if found.settled else "comes back in turn with others; the least work wins"
    facts = [("design", f"<T_R,T_P,T_C> = {last.tile}, which {end}")]
    if last is first and found.settled:
        facts.append(("gain", "none: w_b = 1 had found the design for this traffic"))
    else:
        latency = last.summary.mean_latency_s - first.summary.mean_latency_s
        late = last.summary.violation_rate - first.summary.violation_rate
        facts += [
            ("to w_b = 1", f"{percent(last.busy_s / first.busy_s - 1)} of the NPU's time"),
            ("", f"{1e3 * latency:+.3f} ms of mean latency, {100 * late:+.2f} points of violations"),
        ]
    emit_facts(facts)
