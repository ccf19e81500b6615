"""``fluidb dse``: search the NPU for a network on a board."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import AsJson, Force
from .render import blank, emit_facts, emit_json, emit_table, note, percent, progress

if TYPE_CHECKING:
    from ..dse.design import DesignTable
    from ..dse.fbcb import FbcbTable


class Engine(StrEnum):
    """The values of ``--batching``; ``dse.space.Batching`` says what they mean."""

    fluid = "fluid"
    row = "row"
    column = "column"
    fc = "fc"
    none = "none"
    eq1 = "eq1"


def command(
    network: Annotated[str, typer.Argument(help="A network: a name from `fluidb models`, or a TOML file.")],
    platform: Annotated[str, typer.Argument(help="A board: a name from `fluidb platforms`, or a TOML file.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write the design and its FBCB into this folder."),
    ] = None,
    batching: Annotated[Engine, typer.Option(help="How the engine lays out a batch.")] = Engine.fluid,
    stacking: Annotated[bool, typer.Option(help="Stackable PEs: k in {1/2, 1, 2}, or k = 1 only.")] = True,
    b_max: Annotated[int, typer.Option(min=1, max=256, help="Largest batch size B_max.")] = 8,
    weights: Annotated[
        str | None, typer.Option(metavar="W1,W2,...", help="w_b for b = 1..B_max; all 1 if not given.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(metavar="QUANTITY", help="Off-chip bandwidth instead of the board's, e.g. 3.2GB/s.")
    ] = None,
    memory_layers: Annotated[bool, typer.Option(help="Count the traffic of pooling layers.")] = True,
    backbone: Annotated[bool, typer.Option("--backbone", help="Leave out exits and heads.")] = False,
    tile: Annotated[
        str | None, typer.Option(metavar="T_R,T_P,T_C", help="Evaluate this design instead of searching for one.")
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all-rows", help="Enumerate T_R too: slow, same answer.")] = False,
    top: Annotated[int, typer.Option(min=1, max=1000, help="Designs to keep in the ranking.")] = 5,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="Threads; all cores if not given.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Search every NPU <T_R,T_P,T_C> that fits a board for the one that runs a network fastest.

    Prints the design with its shares of the board and its throughput; with -o,
    writes design.json and fbcb.json, which the other commands read.
    """
    from ..dse.design import check_output, tabulate_design, write_design
    from ..dse.search import SearchOptions, search
    from ..formats import parse_bandwidth, validate
    from ..models import load_network
    from ..platforms import load_platform

    if output is not None:
        check_output(output, force=force)
    wanted: dict[str, object] = {
        "batching": batching.value,
        "stacking": stacking,
        "b_max": b_max,
        "memory_layers": memory_layers,
    }
    wanted |= {"weights": _numbers(weights, "--weights", float), "tile": _numbers(tile, "--tile", int) or None}
    options = validate(SearchOptions, wanted, Path("options"))
    board = load_platform(platform, parse_bandwidth(bandwidth, "--bandwidth") if bandwidth else None)
    net = load_network(network)
    net = net.backbone() if backbone else net
    with progress("designs") as report:
        found = search(net, board, options, top=top, all_rows=all_rows, threads=threads, progress=report)
    design, fbcb = tabulate_design(net, board, options, found)
    if output is not None:
        write_design(output, design, fbcb, replace=force)
    if as_json:
        _emit_json(design, fbcb, output)
    else:
        _emit_text(design, fbcb)
    if output is not None:
        note(f"wrote {output}; next: fluidb latency {output}")


def _numbers(text: str | None, option: str, kind: type[float]) -> list[float]:
    from ..formats import InputError

    try:
        return [kind(item) for item in text.split(",")] if text else []
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise InputError(f'{option}: expected {what} with commas between, found "{text}"; e.g. 100,2,4') from None


def _emit_json(design: DesignTable, fbcb: FbcbTable, output: Path | None) -> None:
    best, *others = (row.model_dump() for row in design.ranking)
    content = {
        "network": design.network.name,
        "platform": design.platform.name,
        "bandwidth_gb_s": design.platform.bandwidth_gb_s,
        "options": design.options.model_dump(mode="json"),
        **best,
        "gop_s": design.gop_s,
        "dsp_share": design.dsp_share,
        "ram_share": design.ram_share,
        "fbcb_register_bits": fbcb.register_bits,
        "fbcb_register_share": design.register_share(fbcb),
        "designs_evaluated": design.designs_evaluated,
        "runners_up": others,
        "output": None if output is None else str(output),
    }
    emit_json("fluidb.dse-output/1", content)


def _emit_text(design: DesignTable, fbcb: FbcbTable) -> None:
    board, best = design.platform, design.ranking[0]
    peak = 2e-9 * design.peak_macs_per_s
    emit_facts(
        [
            ("network", f"{design.network.title} ({design.network.name}), {len(fbcb.rows)} GEMMs"),
            ("board", f"{board.title} ({board.name}), {board.clock_mhz:g} MHz, {board.bandwidth_gb_s:g} GB/s"),
            ("design", f"<T_R,T_P,T_C> = {design.tile}, {design.origin}"),
            ("objective", f"{best.objective_gop_s:,.1f} GOP/s summed over w_b, b = 1..{design.options.b_max}"),
            ("peak", f"{peak:,.1f} GOP/s"),
            ("DSPs", f"{best.tile.dsps:,} of {board.dsps:,} ({percent(design.dsp_share)})"),
            ("on-chip RAM", percent(design.ram_share)),
            ("FBCB", f"{fbcb.register_bits:,} flip-flops ({percent(design.register_share(fbcb), 3)})"),
        ]
    )
    blank()
    rows = [(b, f"{value:,.1f}", percent(value / peak, 1)) for b, value in enumerate(design.gop_s, 1)]
    emit_table(["batch", "GOP/s", "of peak"], rows)
    emit_ranking(design)


def emit_ranking(design: DesignTable) -> None:
    """The designs that came next, if the search kept any."""
    if len(design.ranking) > 1:
        blank()
        best = design.ranking[0].objective_gop_s
        ranking = [
            (item.tile, f"{item.objective_gop_s:,.1f}", percent(item.objective_gop_s / best - 1))
            for item in design.ranking
        ]
        emit_table(["ranking", "GOP/s", "to the best"], ranking)
