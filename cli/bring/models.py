"""``fluidb models``: the networks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...formats.display import as_word, printable
from ..declare import argument, flag, flat, followed, option, written
from ..names import NETWORK, named, offering
from ..options import AsJson, Force, names
from ..render import every_fault, facts, percent, show, table, warn
from ..values import Values, pair, values_of
from .subnets import subnets

if TYPE_CHECKING:
    from ...models import Network
    from ...models.supernets import Family

FORMATS = ("auto", "onnx", "scalesim")
FORMAT = "Format of FILE; auto decides by its ending (`fluidb docs import`)."
AT = "Candidates, as H13 or as layers, all if not given; or edgesp for exits at 1/2 and 3/4 of the work."
TREAT = "For onnx: the cost of an operator that is not understood. Repeatable."
ONE_FILTER = "For scalesim: what rows of one filter are, if the rows around them do not show it."
HEAD = "Head of these exits or candidates: msdnet, pool-linear, token-linear, linear, edgesp, none; else one that fits."
EXITS = "Exits to add: a number, at block boundaries near equal shares of MACs; or names of layers."

NetworkName = Annotated[str, argument("A network: a name, or a TOML file.", "NETWORK", **named(NETWORK))]

app = typer.Typer(invoke_without_command=True)


@app.callback()
def listing(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List, show, check and import networks.

    Without a command, it lists the networks that ship.
    """
    from ...models import NETWORKS, load_network
    from ...models.supernets import SUPERNETS, load_family

    if followed(ctx, as_json):
        return
    networks = [load_network(name) for name in NETWORKS.names()]
    families = [load_family(name) for name in SUPERNETS.names()]
    rows = [(n.name, len(n.gemms), f"{n.macs / 1e9:.3f}", len(n.exits), n.title) for n in networks]
    text = [
        table(["network", "GEMMs", "GMAC", "exits", ""], rows, text=True),
        table(["SuperNet", "SubNets with names", ""], [_family(family) for family in families], text=True),
    ]
    record = {
        "networks": [_record(network) for network in networks],
        "supernets": [{"name": family.file.name, "title": family.file.title} for family in families],
    }
    show(as_json, "fluidb.models-output/1", record, text)


def _family(family: Family) -> tuple[str, str, str]:
    names = [f"{family.file.name}:{subnet.name}" for subnet in family.subnets]
    return family.file.name, f"{names[0]} to {names[-1]}", family.file.title


app.command()(subnets)


@app.command("show")
def show_(network: NetworkName, as_json: AsJson = False) -> None:
    """Show one network: layers, stages, exits and sources."""
    from ...models import load_network

    net = load_network(network)
    layers = [
        {"name": layer.name, "stage": layer.stage}
        | {"gemm": layer.gemm and {**layer.gemm._asdict(), "per_sample": layer.per_sample}}
        | {"memory_words": layer.memory_words, "output": layer.shape._asdict()}
        for layer in net.layers
    ]
    record = {**_record(net), "layers": layers, "sources": net.sources}
    show(as_json, "fluidb.model-output/1", record, _text(net))


def _text(network: Network) -> Iterator[str]:
    from ...models.network import thresholds_of
    from ...traffic.measures import MEASURES

    yield facts(_about(network))
    stated = thresholds_of(network.exits)
    sure = []
    if stated is not None:
        sure = [*(f"{stated[0]} {MEASURES[stated[0]].reached} {threshold}" for threshold in stated[1]), ""]
    exits = [(i, exit_.name, percent(exit_.rate, 1), *sure[i - 1 : i]) for i, exit_ in enumerate(network.exits, 1)]
    yield table(["exit", "after", "share of samples", *(["leave with"] if sure else [])], exits, text=True)
    rows = []
    for layer in network.layers:
        size, macs = "memory only", ""
        if layer.gemm:
            groups = f" x{layer.gemm.groups}" if layer.gemm.groups > 1 else ""
            size, macs = "x".join(map(str, layer.gemm[:3])) + groups, f"{layer.gemm.macs:,}"
        rows.append((layer.name, layer.stage, size, macs, layer.shape))
    yield table(["layer", "stage", "R x P x C", "MACs", "output"], rows)


@dataclass(frozen=True, kw_only=True)
class AddedExits:
    """Exits or candidates that are added to the network."""

    exits: Annotated[str | None, option(EXITS, "N|NAME,NAME")] = None
    head: Annotated[str | None, option(HEAD)] = None
    classes: Annotated[int | None, option("Number of classes; the network's outputs if not given.", min=1)] = None
    rates: Annotated[
        str | None,
        option("Share of samples that leave at each exit but the last; equal shares if not given.", "R,R,..."),
    ] = None
    candidates: Annotated[
        bool, flag("Add exit candidates after every block (`fluidb docs exits`).", "--candidates")
    ] = False

    @property
    def given(self) -> dict[str, Any]:
        """What is added, as the library takes it."""
        from ...formats import parse_numbers
        from ...models.importers import CandidateHead, Placement

        if self.exits is None and not self.candidates and (self.head or self.classes):
            raise typer.BadParameter("--head and --classes describe what --exits or --candidates adds; add one of them")
        if self.candidates and self.classes and not self.head:
            raise typer.BadParameter(
                "--classes describes the --head of the candidates; without --head it is the network's own"
            )
        return {
            "exits": None if self.exits is None else Placement(_places(self.exits), self.head, self.classes),
            "rates": parse_numbers(self.rates, "rates", float, "0.3,0.3") or None,
            "candidates": CandidateHead(self.head, self.classes) if self.candidates else None,
        }


@dataclass(frozen=True, kw_only=True)
class LeftOpen:
    """What the file leaves open."""

    format_: Annotated[str, option(FORMAT, "|".join(FORMATS), "--format", **offering(FORMATS))] = "auto"
    dims: Annotated[
        list[str] | None, option("For onnx: the size of an open dimension. Repeatable.", "NAME=SIZE", "--dim")
    ] = None
    values: Values = None
    treat: Annotated[list[str] | None, option(TREAT, "DOMAIN.OP=free|memory", "--treat")] = None
    one_filter: Annotated[str | None, option(ONE_FILTER, "conv|depthwise")] = None

    def format_of(self, file: Path) -> str:
        """The format that is stated, or that the file's name says."""
        from ...models.importers import detect_format

        return detect_format(file) if self.format_ == "auto" else self.format_

    @property
    def given(self) -> dict[str, Any]:
        """What the user says, as the library takes it."""
        from ...models.importers import ReadAs

        treat = dict(pair(text, "treat", "com.example.Mish=free") for text in self.treat or [])
        read_as = ReadAs(values_of(self.values), treat, self.one_filter)
        return {"dims": dict(map(_dimension, self.dims or [])), "read_as": read_as}


@app.command("import")
@flat
def import_(
    file: Annotated[Path, argument("The network to import.", "FILE")],
    output: Annotated[Path, written("The network file to write.", "OUT.toml")],
    name: Annotated[str | None, option("Its name; the file's if not given.")] = None,
    *,
    reading: LeftOpen,
    added: AddedExits,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a network file of a network that another tool describes."""
    from ...formats import check_free, write_file
    from ...models.importers import import_network
    from ...models.loader import build_network
    from ...models.writer import network_text

    check_free(output, force, apart=[file])
    chosen, given = reading.format_of(file), reading.given | added.given
    with every_fault():
        made = import_network(file, chosen, name=name, **given)
        net = build_network(made, file)
    write_file(output, network_text(made), replace=force)
    if "outputs" in net.sources:
        warn(f"{file}: {net.sources['outputs']}")
    then = f"fluidb dse {as_word(output)} BOARD"
    record = {"output": output, "format": chosen, **_record(net), "sources": net.sources}
    show(as_json, "fluidb.model-import-output/1", record, [facts({"format": chosen} | _about(net))], output, then)


@app.command("exits")
def exits_(
    network: NetworkName,
    output: Annotated[Path, written("The network file to write.", "OUT.toml")],
    at: Annotated[str | None, option(AT, "H1,H4,...|edgesp")] = None,
    rates: Annotated[str | None, option("Share of samples that leave at each exit; 0 if not given.", "R,R,...")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a network with exits at some of its candidates.

    It is an ordinary network, which dse, latency and serve-sim take. `fluidb
    exits` chooses among the candidates (`fluidb docs exits`). --at edgesp needs
    no candidates; its rates are 0.4,0.4 if not given.
    """
    from ...formats import check_free, parse_numbers, write_file
    from ...models.branches import RATES, with_branches
    from ...models.candidates import with_exits
    from ...models.loader import build_network, read_network_file
    from ...models.writer import network_text

    file, path = read_network_file(network)
    check_free(output, force, apart=[path])
    shares = parse_numbers(rates, "rates", float, "0.3,0.3")
    if at == "edgesp":
        made = with_branches(file, path, shares or RATES)
    else:
        made = with_exits(file, path, names(at), shares or None)
    net = build_network(made, path)
    write_file(output, network_text(made), replace=force)
    record = {"output": output, **_record(net)}
    then = f"fluidb dse {as_word(output)} BOARD"
    show(as_json, "fluidb.model-exits-output/1", record, [facts(_about(net))], output, then)


@app.command()
def check(network: NetworkName, as_json: AsJson = False) -> None:
    """Check a network file and list every fault in it.

    The command prints each fault with its key, and the exit code is 2. Without faults it prints
    the file's facts.
    """
    from ...models import load_network
    from ...models.candidates import load_with_exits
    from ...models.loader import read_network_file

    with every_fault():
        net = load_network(network)
        if read_network_file(network)[0].candidates is not None:
            load_with_exits(network)  # their bridges and heads may have faults of their own
    ends = f"{len(net.exits)} exits" if len(net.exits) > 1 else "1 exit"
    ends += f", up to {net.steps} steps of the last stage" if net.steps > 1 else ""
    text = f"{printable(network)}: no faults; {len(net.gemms)} GEMMs, {net.macs:,} MACs, {ends}"
    show(as_json, "fluidb.model-check-output/1", {"file": network, **_record(net)}, [text])


def _dimension(text: str) -> tuple[str, int]:
    from ...formats import InputError

    name, _, size = text.rpartition("=")
    if not name or not re.fullmatch("[0-9]{1,9}", size):
        raise InputError(f'dims: expected NAME=SIZE, such as batch=1, found "{text}"')
    return name, int(size)


def _places(text: str) -> int | tuple[str, ...]:
    from ...formats import InputError

    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise InputError(f'exits: expected a number, or names with commas between, found "{text}"')
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else names


def _about(network: Network) -> dict[str, str]:
    record = _record(network)
    return {
        "network": f"{network.title} ({network.name})",
        "backbone": f"{record['backbone_gemms']} GEMMs, {record['backbone_macs']:,} MACs",
        "with heads": f"{record['gemms']} GEMMs, {record['macs']:,} MACs",
        **({"steps": f"the last stage runs up to {network.steps} times"} if network.steps > 1 else {}),
        **{f"source of {key}": text for key, text in network.sources.items()},
    }


def _record(network: Network) -> dict[str, object]:
    backbone = network.backbone()
    return {
        "name": network.name,
        "title": network.title,
        "backbone_gemms": len(backbone.gemms),
        "backbone_macs": backbone.macs,
        "gemms": len(network.gemms),
        "macs": network.macs,
        "exits": [{"after": exit_.name, **exit_.model_dump(exclude={"name", "steps"})} for exit_ in network.exits],
        **({"steps": network.steps} if network.steps > 1 else {}),
    }
