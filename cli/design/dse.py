"""``fluidb dse``: search the NPU for a network on a board."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import options as shared
from ..render import blank, emit_facts, emit_json, emit_table, note, percent, progress
from . import many
from .problem import numbers, problem

if TYPE_CHECKING:
    from ...dse.design import DesignTable
    from ...dse.fbcb import FbcbTable


def command(
    network: Annotated[
        str, typer.Argument(help="A network: a name from `fluidb models`, or a TOML file; several with commas between.")
    ],
    platform: Annotated[
        str,
        typer.Argument(help="A board: a name from `fluidb platforms`, or a TOML file; several with commas between."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write the design and its FBCB into this folder; of several, into a folder in it.",
        ),
    ] = None,
    batching: shared.Batching = shared.Engine.fluid,
    stacking: shared.Stacking = True,
    b_max: shared.BMax = 8,
    weights: shared.Weights = None,
    bandwidth: shared.Bandwidth = None,
    memory_layers: shared.MemoryLayers = True,
    backbone: shared.Backbone = False,
    objective: shared.Objective = shared.Goal.gop_s,
    max_dsp: shared.MaxDsp = None,
    max_ram: shared.MaxRam = None,
    max_lut: shared.MaxLut = None,
    tile: Annotated[
        str | None, typer.Option(metavar="T_R,T_P,T_C", help="Evaluate this design instead of searching for one.")
    ] = None,
    all_rows: Annotated[
        bool, typer.Option("--all-rows", help="Enumerate T_R too: slow, same answer but for energy.")
    ] = False,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Evaluate also what a bound rules out: same answer.")
    ] = False,
    top: Annotated[int, typer.Option(min=1, max=1000, help="Designs to keep in the ranking.")] = 5,
    scheduler: shared.Scheduler = None,
    threads: shared.Threads = None,
    force: shared.Force = False,
    as_json: shared.AsJson = False,
) -> None:
    """Search every NPU <T_R,T_P,T_C> that fits a board for the one that runs a network best.

    Prints the design with its shares of the board and its throughput; with -o,
    writes design.json and fbcb.json, which the other commands read. Several
    networks or boards are all combined, and searched for on a cluster if asked to.
    """
    from ...dse.design import check_output, tabulate_design, write_design
    from ...dse.search import search
    from ...dse.space import Tile
    from ...formats import InputError

    given = numbers(tile, "--tile", int, "100,2,4")
    if tile is not None and len(given) != len(Tile._fields):
        raise InputError(f'--tile: expected T_R,T_P,T_C, found "{tile}"; e.g. 100,2,4')
    if given and (all_rows or exhaustive):
        raise InputError(
            "--tile: gives the design, so that there is nothing for --all-rows or --exhaustive; leave them out"
        )
    stated = partial(
        problem, bandwidth=bandwidth, backbone=backbone, weights=weights, max_dsp=max_dsp, max_ram=max_ram,
        max_lut=max_lut, batching=batching.value, stacking=stacking, b_max=b_max, memory_layers=memory_layers,
        objective=objective.value, tile=given or None,
    )  # fmt: skip
    networks, platforms = many.names(network, "NETWORK"), many.names(platform, "PLATFORM")
    if len(networks) * len(platforms) > 1:
        settings = {"top": top, "all_rows": all_rows, "exhaustive": exhaustive}
        many.run(stated, networks, platforms, output, settings, scheduler, threads, force=force, as_json=as_json)
        return
    if scheduler is not None:
        raise InputError("--scheduler: expected several networks or boards, found one of each: its search is one task")
    if output is not None:
        check_output(output, force=force)
    net, board, options = stated(network, platform)
    with progress("designs") as report:
        found = search(
            net, board, options, top=top, all_rows=all_rows, exhaustive=exhaustive, threads=threads, progress=report
        )
    design, fbcb = tabulate_design(net, board, options, found)
    if output is not None:
        write_design(output, design, fbcb, replace=force)
    if as_json:
        emit_json("fluidb.dse-output/1", content(design, fbcb) | {"output": None if output is None else str(output)})
    else:
        _emit_text(design, fbcb)
    if output is not None:
        note(f"wrote {output}; next: fluidb latency {output}")


def content(design: DesignTable, fbcb: FbcbTable) -> dict[str, object]:
    """What ``--json`` prints of a design."""
    from ...dse.objectives import OBJECTIVES

    best, *others = (row.model_dump() for row in design.ranking)
    return {
        "network": design.network.name,
        "platform": design.platform.name,
        "bandwidth_gb_s": design.platform.bandwidth_gb_s,
        "options": design.options.model_dump(mode="json"),
        **best,
        "objective_unit": OBJECTIVES[design.options.objective].unit,
        "gop_s": design.gop_s,
        "energy_j": design.energy_j,
        "dsp_share": design.dsp_share,
        "ram_share": design.ram_share,
        "lut_share": design.lut_share,
        "fbcb_register_bits": fbcb.register_bits,
        "fbcb_register_share": design.register_share(fbcb),
        "designs_evaluated": design.designs_evaluated,
        "designs_ruled_out": design.designs_ruled_out,
        "runners_up": others,
    }


def _emit_text(design: DesignTable, fbcb: FbcbTable) -> None:
    from ...dse.objectives import OBJECTIVES, Objective

    board, best, goal = design.platform, design.ranking[0], OBJECTIVES[design.options.objective]
    peak = 2e-9 * design.peak_macs_per_s
    facts = [
        ("network", f"{design.network.title} ({design.network.name}), {len(fbcb.rows)} GEMMs"),
        ("board", f"{board.title} ({board.name}), {board.clock_mhz:g} MHz, {board.bandwidth_gb_s:g} GB/s"),
        ("design", f"<T_R,T_P,T_C> = {design.tile}, {design.origin}"),
        ("evaluated", _evaluated(design)),
        ("objective", f"{goal.text(best.objective)} {goal.summary.format(design.options.b_max)}"),
        ("peak", f"{peak:,.1f} GOP/s"),
        ("DSPs", f"{best.tile.dsps:,} of {board.dsps:,} ({percent(design.dsp_share)})"),
        ("on-chip RAM", percent(design.ram_share)),
        ("LUTs", f"{percent(design.lut_share, 1)} (a fit: docs/model.md, Resources)"),
        ("FBCB", f"{fbcb.register_bits:,} flip-flops ({percent(design.register_share(fbcb), 3)})"),
    ]
    left_out = {"LUTs"} if design.lut_share is None else set()
    if design.options.tile:
        left_out.add("evaluated")
    emit_facts([fact for fact in facts if fact[0] not in left_out])
    blank()
    headers = ["batch", "GOP/s", "of peak"]
    rows = [[b, f"{value:,.1f}", percent(value / peak, 1)] for b, value in enumerate(design.gop_s, 1)]
    if design.energy_j is not None:
        headers.append("energy an inference")
        for row, value in zip(rows, design.energy_j, strict=True):
            row.append(OBJECTIVES[Objective.ENERGY].text(value))
    emit_table(headers, rows)
    emit_ranking(design)


def _evaluated(design: DesignTable) -> str:
    if not design.designs_ruled_out:
        return f"all {design.designs_evaluated:,}"
    return f"{design.designs_evaluated:,}; a bound rules the other {design.designs_ruled_out:,} out"


def emit_ranking(design: DesignTable) -> None:
    """The designs that came next, if the search kept any."""
    from ...dse.objectives import OBJECTIVES

    if len(design.ranking) > 1:
        blank()
        best, goal = design.ranking[0].objective, OBJECTIVES[design.options.objective]
        ranking = [
            (item.tile, goal.text(item.objective), percent(item.objective / best - 1)) for item in design.ranking
        ]
        emit_table(["ranking", "objective", "to the best"], ranking)
