"""``fluidb models``: the networks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import AsJson, Force
from ..render import blank, emit_facts, emit_json, emit_list, emit_table, every_fault, note, percent, printable

if TYPE_CHECKING:
    from ...models import Network

FORMATS = "auto (by how FILE ends), onnx or scalesim (docs/import-networks.md, docs/import-onnx.md)."

app = typer.Typer(invoke_without_command=True, help="List, show, check and import networks.")


@app.callback()
def listing(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List, show, check and import networks."""
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise typer.BadParameter("--json stands behind the command after it, e.g. show", ctx)
        return
    from ...models import NETWORKS, load_network

    networks = [load_network(name) for name in NETWORKS.names()]
    if as_json:
        emit_json("fluidb.models-output/1", {"networks": [_facts(network) for network in networks]})
        return
    rows = [(n.name, len(n.gemms), f"{n.macs / 1e9:.3f}", len(n.exits), n.title) for n in networks]
    emit_list(["network", "GEMMs", "GMAC", "exits", ""], rows)


@app.command()
def show(
    network: Annotated[str, typer.Argument(help="A network: a name, or a TOML file.")], as_json: AsJson = False
) -> None:
    """Show one network: layers, stages, exits and where its figures come from."""
    from ...models import load_network

    net = load_network(network)
    if as_json:
        layers = [
            {"name": layer.name, "stage": layer.stage}
            | {"gemm": layer.gemm and {**layer.gemm._asdict(), "per_sample": layer.per_sample}}
            | {"memory_words": layer.memory_words, "output": layer.shape._asdict()}
            for layer in net.layers
        ]
        emit_json("fluidb.model-output/1", {**_facts(net), "layers": layers, "sources": net.sources})
        return
    emit_facts(_lines(net))
    blank()
    emit_list(
        ["exit", "after", "share of samples"], [(i, e.name, percent(e.rate, 1)) for i, e in enumerate(net.exits, 1)]
    )
    blank()
    rows = [
        (
            layer.name,
            layer.stage,
            "x".join(map(str, layer.gemm[:3])) + (f" x{layer.gemm.groups}" if layer.gemm.groups > 1 else "")
            if layer.gemm
            else "memory only",
            f"{layer.gemm.macs:,}" if layer.gemm else "",
            layer.shape,
        )
        for layer in net.layers
    ]
    emit_table(["layer", "stage", "R x P x C", "MACs", "output"], rows)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The network to import.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT.toml", help="The network file to write.")],
    format_: Annotated[str, typer.Option("--format", help=FORMATS)] = "auto",
    name: Annotated[str | None, typer.Option(help="Its name; the file's if not given.")] = None,
    title: Annotated[str | None, typer.Option(help="A line for people.")] = None,
    dim: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SIZE", help="onnx: size of a dimension that the file leaves open; repeat for more."),
    ] = None,
    exits: Annotated[
        str | None,
        typer.Option(
            metavar="N|NAMES", help="Exits to add: how many, at block boundaries near equal shares of MACs; or layers."
        ),
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="Head of these exits: msdnet (if not given), pool-linear or none.")
    ] = None,
    classes: Annotated[
        int | None, typer.Option(min=1, help="Classes it tells apart; the network's own outputs if not given.")
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(metavar="R1,R2,..", help="Share of samples that leave at each exit but the last; else equal."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a network file of a network that another tool describes."""
    from ...formats import check_free, check_other, write_file
    from ...models.importers import Placement, detect_format, import_network
    from ...models.loader import build_network
    from ...models.writer import network_text

    check_free(output, force)
    check_other(output, file)
    chosen = detect_format(file) if format_ == "auto" else format_
    if exits is None and (head or classes):
        raise typer.BadParameter("--head and --classes describe what --exits places; add it, or leave them out")
    with every_fault():
        made = import_network(
            file,
            chosen,
            name=name,
            title=title,
            dims=dict(map(_dimension, dim or [])),
            exits=None if exits is None else Placement(_places(exits), head or "msdnet", classes),
            rates=None if rates is None else _rates(rates),
        )
        net = build_network(made, file)
    write_file(output, network_text(made))
    facts = _facts(net)
    if as_json:
        run = {"output": str(output), "format": chosen}
        emit_json("fluidb.model-import-output/1", run | facts | {"sources": net.sources})
        return
    emit_facts([("format", chosen), *_lines(net)])
    note(f"wrote {output}; next: fluidb dse {output} BOARD")


@app.command()
def check(
    network: Annotated[str, typer.Argument(help="A network: a name, or a TOML file.")], as_json: AsJson = False
) -> None:
    """Check a network file: every fault at once, each with its key, and exit code 2; or its facts."""
    from ...models import load_network

    with every_fault():
        net = load_network(network)
    if as_json:
        emit_json("fluidb.model-check-output/1", {"file": network, **_facts(net)})
        return
    ends = f"{len(net.exits)} exits" if len(net.exits) > 1 else "1 exit"
    typer.echo(f"{printable(network)}: no faults; {len(net.gemms)} GEMMs, {net.macs:,} MACs, {ends}")


def _dimension(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not re.fullmatch("[0-9]{1,9}", size) or int(size) < 1:
        raise typer.BadParameter(f'--dim: expected NAME=SIZE, such as batch=1, found "{text}"')
    return name, int(size)


def _places(text: str) -> int | tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise typer.BadParameter(f'--exits: expected a number, or names with commas between, found "{text}"')
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else names


def _rates(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f'--rates: expected numbers with commas between, found "{text}"') from None


def _lines(network: Network) -> list[tuple[str, str]]:
    facts = _facts(network)
    return [
        ("network", f"{network.title} ({network.name})"),
        ("backbone", f"{facts['backbone_gemms']} GEMMs, {facts['backbone_macs']:,} MACs"),
        ("with heads", f"{facts['gemms']} GEMMs, {facts['macs']:,} MACs"),
        *((f"source of {key}", text) for key, text in network.sources.items()),
    ]


def _facts(network: Network) -> dict[str, object]:
    backbone = network.backbone()
    return {
        "name": network.name,
        "title": network.title,
        "backbone_gemms": len(backbone.gemms),
        "backbone_macs": backbone.macs,
        "gemms": len(network.gemms),
        "macs": network.macs,
        "exits": [{"after": item.name, "rate": item.rate} for item in network.exits],
    }
