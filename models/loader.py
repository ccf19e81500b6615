"""Reads network files."""

from __future__ import annotations

import os
from itertools import repeat
from pathlib import Path

from ..formats import AnyPath, Catalogue, InputError, as_loaded, parse_toml, validate
from .foreign import network_of
from .heads import HEADS
from .lowering import lower_all
from .network import Exit, Network, Shape, stated
from .residuals import with_residuals
from .schema import Candidates, ExitFile, NetworkFile, Op

NETWORKS = Catalogue("network", Path(__file__).parent, "fluidb models", (".onnx", ".csv"), network_of)


def head_of(exit_: ExitFile | Candidates, source: Shape) -> list[Op]:
    """The layers of an exit's head, which reads a map of this shape."""
    if exit_.layers is not None:
        return exit_.layers
    if exit_.head == "none":
        return []
    if exit_.head is None or exit_.head not in HEADS:
        raise ValueError(f'head: expected one of {", ".join([*HEADS, "none"])}, found "{exit_.head}"')
    if exit_.classes is None:
        raise ValueError(f'classes: expected the number of classes of the head "{exit_.head}", found none')
    return HEADS[exit_.head](source, exit_.classes)


def _exit_positions(file: NetworkFile, path: AnyPath) -> tuple[list[int], list[str]]:
    """Return the index of the layer that each exit follows, in the order of the file, and the faults of the exits."""
    order = {op.name: index for index, op in enumerate(file.layers)}
    faults: list[str] = []
    positions: list[int] = []
    for index, exit_ in enumerate(file.exits):
        position, label = order.get(exit_.after, -1), f"{path}: exits[{index}].after"
        if position < 0:
            faults.append(f'{label}: expected the name of a layer, found "{exit_.after}"')
        elif position == len(order) - 1:
            faults.append(f'{label}: "{exit_.after}" is the end, which is an exit already')
        elif positions and position <= positions[-1]:
            faults.append(f'{label}: expected a layer deeper than the exit before, found "{exit_.after}"')
        positions.append(position)
    total = sum(exit_.rate for exit_ in file.exits)
    if total > 1 + 1e-9:
        faults.append(f"{path}: exits: expected rates that sum to at most 1, found {total:g}")
    return positions, faults


def layer_shapes(file: NetworkFile) -> dict[str, Shape]:
    """Return the output of every layer of a file without faults, and of ``input``, by name."""
    return lower_all(file.layers, file.input.shape, "")[0]


def build_network(file: NetworkFile, path: AnyPath) -> Network:
    """Lower a parsed network file."""
    positions, wrong = _exit_positions(file, path)
    stages = [1 + sum(position < index for position in positions) for index in range(len(file.layers))]
    shapes, layers, faults = lower_all(file.layers, file.input.shape, f"{path}: layers", stages)
    faults += wrong
    layers = with_residuals(layers, file.layers, stages, [exit_.after for exit_ in file.exits])
    for index, exit_ in enumerate(file.exits):
        if exit_.after not in shapes:
            continue  # the layer has a fault itself
        try:
            ops = head_of(exit_, shapes[exit_.after])
        except ValueError as error:
            faults.append(f"{path}: exits[{index}].{error}")
            continue
        where = f"{path}: exits[{index}].layers"
        _, added, wrong = lower_all(ops, shapes[exit_.after], where, repeat(index + 1), in_head=True)
        layers += with_residuals(added, ops, repeat(index + 1), [])
        faults += wrong
    if faults:
        raise InputError(faults)
    layers = sorted(layers, key=lambda layer: layer.stage)  # the sort is stable: a head comes last in its stage
    exits = [Exit(name=exit_.after, rate=exit_.rate, **stated(exit_)) for exit_ in file.exits]
    rest = max(0.0, 1.0 - sum(exit_.rate for exit_ in exits))
    exits.append(Exit(name=file.layers[-1].name, rate=rest, steps=file.steps))
    content = {"name": file.name, "title": file.title, "sources": file.sources, "exits": exits, "layers": layers}
    return validate(Network, content, path)


def read_network_file(name: AnyPath) -> tuple[NetworkFile, Path]:
    """The content of a network's file, and the file; of a SubNet, its SuperNet's file makes the content."""
    from .supernets.catalogue import FAMILIES, find_subnet, not_a_network  # here, because most networks are no SubNets

    name = os.fspath(name)
    subnet = find_subnet(name)
    if subnet is not None:
        return subnet
    path = NETWORKS.find(name)
    data = parse_toml(path)
    if data.get("schema") in FAMILIES:
        raise not_a_network(name)
    return validate(NetworkFile, data, path), path


def read_backbone_file(name: AnyPath) -> tuple[NetworkFile, Path]:
    """The same without the exits."""
    file, path = read_network_file(name)
    return file.model_copy(update={"exits": []}), path


def load_network(name: AnyPath) -> Network:
    """Load a network that ships with fluidb, or one of your own.

    Parameters
    ----------
    name : str or Path
        A shipped name (``fluidb models`` lists them), the path of a TOML file, or a SubNet as ``SUPERNET:SUBNET``.

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
    return build_network(*read_network_file(name))


def as_network(given: Network | AnyPath) -> Network:
    """The network, loaded if it was given by its name or file."""
    return as_loaded(given, Network, load_network, "network: expected a network")
