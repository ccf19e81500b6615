"""Reads network files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..formats import Catalogue, InputError, read_toml, validate
from .heads import HEADS
from .lowering import lower
from .network import Exit, Layer, Network, Shape
from .schema import ExitFile, NetworkFile, Op

NETWORKS = Catalogue("network", Path(__file__).parent, "fluidb models")


class _Builder:
    """Goes through a chain of operators in execution order, and collects layers and faults."""

    def __init__(self, path: Path, source: Shape) -> None:
        self.path = path
        self.source = source
        self.layers: list[Layer] = []
        self.faults: list[str] = []

    def run(self, ops: Sequence[Op], stage_of: Sequence[int], where: str, prefix: str) -> dict[str, Shape]:
        """Lower a chain of operators and return the shapes by name. Faults are collected, not raised."""
        known = {"input": self.source}
        before: Shape | None = self.source
        for index, (op, stage) in enumerate(zip(ops, stage_of, strict=True)):
            label = f'{self.path}: {where}[{index}] ("{op.name}")'
            if op.name in known:
                self.faults.append(f'{label}: expected a new name, found "{op.name}" again')
                continue
            unknown = [name for name in op.inputs or () if name not in known]
            self.faults += [f'{label}.from: expected an earlier layer, found "{name}"' for name in unknown]
            if unknown or (op.inputs is None and before is None):
                before = None  # the following layers have no known shape; this one fault is enough
                continue
            sources = [known[name] for name in op.inputs] if op.inputs is not None else [before]
            try:
                before, layer = lower(op, [shape for shape in sources if shape], stage, prefix)
            except ValueError as error:
                self.faults.append(f"{label}: {error}")
                before = None
                continue
            known[op.name] = before
            if layer:
                self.layers.append(layer)
        return known


def _head(item: ExitFile, source: Shape) -> list[Op]:
    if item.layers is not None:
        return item.layers
    if item.head == "none":
        return []
    if item.head not in HEADS:
        raise ValueError(f'head: expected one of {", ".join([*HEADS, "none"])}, found "{item.head}"')
    if item.classes is None:
        raise ValueError(f'classes: expected how many classes the head "{item.head}" tells apart, found none')
    return HEADS[item.head](source, item.classes)


def _exit_positions(file: NetworkFile, path: Path) -> tuple[list[int], list[str]]:
    """Return the index of the layer that each exit follows, in the order of the file, and the faults of the exits."""
    order = {op.name: index for index, op in enumerate(file.layers)}
    faults: list[str] = []
    positions: list[int] = []
    for index, item in enumerate(file.exits):
        position, label = order.get(item.after, -1), f"{path}: exits[{index}].after"
        if position < 0:
            faults.append(f'{label}: expected the name of a layer, found "{item.after}"')
        elif position == len(order) - 1:
            faults.append(f'{label}: "{item.after}" is the end, which is an exit already')
        elif positions and position <= positions[-1]:
            faults.append(f'{label}: expected a layer deeper than the exit before, found "{item.after}"')
        positions.append(position)
    total = sum(item.rate for item in file.exits)
    if total > 1 + 1e-9:
        faults.append(f"{path}: exits: expected rates that sum to at most 1, found {total:g}")
    return positions, faults


def build_network(file: NetworkFile, path: Path) -> Network:
    """Lower a parsed network file.

    Parameters
    ----------
    file : NetworkFile
        The content.
    path : Path
        Where it came from, for the faults.

    Returns
    -------
    Network
        Layers in execution order with heads in place.

    Raises
    ------
    InputError
        With a line for every name, shape, exit or rate that does not fit.
    """
    positions, faults = _exit_positions(file, path)
    stage_of = [1 + sum(position < index for position in positions) for index in range(len(file.layers))]
    backbone = _Builder(path, Shape(file.input.height, file.input.width, file.input.channels))
    shapes = backbone.run(file.layers, stage_of, "layers", "")
    faults, heads = backbone.faults + faults, []
    for index, item in enumerate(file.exits):
        source = shapes.get(item.after)
        if source is None:
            continue  # the layer has a fault itself
        head = _Builder(path, source)
        try:
            ops = _head(item, source)
            head.run(ops, [index + 1] * len(ops), f"exits[{index}].layers", f"exit{index + 1}/")
        except ValueError as error:
            faults.append(f"{path}: exits[{index}].{error}")
        faults += head.faults
        heads += head.layers
    if faults:
        raise InputError(faults)
    layers = sorted([*backbone.layers, *heads], key=lambda layer: layer.stage)  # stable: a head ends its stage
    exits = [Exit(name=item.after, rate=item.rate) for item in file.exits]
    exits.append(Exit(name=file.layers[-1].name, rate=max(0.0, 1.0 - sum(item.rate for item in exits))))
    content = {"name": file.name, "title": file.title, "sources": file.sources, "exits": exits, "layers": layers}
    return validate(Network, content, path)


def load_network(name: str) -> Network:
    """Load a network that ships with fluidb, or one of your own.

    Parameters
    ----------
    name : str
        A shipped name (``fluidb models`` lists them) or the path of a TOML file.

    Returns
    -------
    Network
        The network, lowered.

    Raises
    ------
    InputError
        If it is unknown or its file has faults; every fault has a line.

    Examples
    --------
    >>> load_network("resnet50").backbone().macs
    4089184256
    """
    path = NETWORKS.find(name)
    return build_network(read_toml(NetworkFile, path), path)
