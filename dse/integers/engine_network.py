"""The network file of what the engine runs of a network of 16-bit integers, for ``fluidb dse``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...formats import InputError, validate
from ...models.importers.names import LayerNames
from ...models.loader import build_network
from ...models.schema import NetworkFile
from .layer_jobs import on_engine
from .network import AddLayer, ConcatLayer, FlattenLayer, IntegerLayer, IntegerNetwork, ProductLayer


def _as_ops(network: IntegerNetwork, layer: IntegerLayer, names: LayerNames) -> list[dict[str, Any]]:
    """A layer in a network file, with the map of the constant that it reads beside its inputs."""
    base: dict[str, Any] = {"name": layer.name, "from": layer.inputs}
    if isinstance(layer, AddLayer | ConcatLayer | FlattenLayer):
        return [base | {"op": layer.op}]
    if not on_engine(layer, network):  # the host moves its map: of a `Clip`, or of a pool that the engine cannot do
        channels, height, width = layer.shape
        return [base | {"op": "memory", "shape": [height, width, channels]}]
    size = network.size(layer.inputs[0])
    reach = [(kernel - 1) * apart + 1 for kernel, apart in zip(layer.kernel, layer.dilation, strict=True)]
    spans = [(n - 1) * step + span for n, step, span in zip(layer.shape[1:], layer.stride, reach, strict=True)]
    after = [max(span - before - n, 0) for span, before, n in zip(spans, layer.pad, size[1:], strict=True)]
    window = {"kernel": reach, "stride": list(layer.stride), "pad": [*layer.pad, *after]}
    if not isinstance(layer, ProductLayer):
        return [base | window | {"op": layer.op}]
    conv = base | window | {"op": "conv", "kernel": list(layer.kernel), "dilation": list(layer.dilation)}
    conv |= {"out": layer.shape[0], "groups": layer.groups}
    if not layer.constant:
        return [conv]
    # it stays in memory between the maps of samples, so that writing it takes no time
    one, both = names.give(f"{layer.name}.one"), names.give(f"{layer.name}.in")
    return [
        {"name": one, "from": layer.inputs, "op": "view", "shape": [*size[1:], layer.groups]},
        {"name": both, "from": [*layer.inputs, one], "op": "concat"},
        conv | {"from": [both]},
    ]


def network_file(network: IntegerNetwork, path: Path) -> NetworkFile:
    """The network file of what the engine runs: a bias is a further channel of the map that its product reads.

    At each exit as many samples leave.  Layers that only an exit needs must hang on one layer, behind the exit before.
    """
    needed: dict[str, int] = {}  # the last stage that needs each layer

    def need(name: str, stage: int) -> None:
        if name != "input" and needed.get(name, 0) < stage:
            needed[name] = stage
            for source in network.layer(name).inputs:
                need(source, stage)

    last, names = len(network.exits), LayerNames()
    for layer in network.layers:
        names.give(layer.name)
    for number, exit_ in enumerate(network.exits, 1):
        need(exit_.layer, number)
    backbone = [
        op for layer in network.layers if needed.get(layer.name) == last for op in _as_ops(network, layer, names)
    ]
    exits = []
    for number, exit_ in enumerate(network.exits[:-1], 1):
        head = [layer for layer in network.layers if needed.get(layer.name) == number]
        feet = {name for layer in head for name in layer.inputs} - {layer.name for layer in head} or {exit_.layer}
        if len(feet) > 1 or any(needed.get(name) != last for name in feet):
            raise InputError(
                f'{path}: exit "{exit_.name}": expected layers of its own that read one of the layers that the '
                f"last exit needs, found {', '.join(sorted(feet))}"
            )
        (foot,) = feet
        ops = [op | {"from": ["input" if name == foot else name for name in op["from"]]}
               for layer in head for op in _as_ops(network, layer, names)]  # fmt: skip
        exits.append({"after": foot, "rate": 1 / last} | ({"layers": ops} if ops else {"head": "none"}))
    channels, height, width = network.shape
    content = {
        "schema": "fluidb.network/1",
        "name": network.name,
        "title": f"{network.name} in 16-bit integers, from {path.name}",
        "input": {"height": height, "width": width, "channels": channels},
        "layers": backbone,
        "exits": exits,
        "sources": {"layers": "made by fluidb quantise; a bias is a further channel of the map that its product reads"},
    }
    file = validate(NetworkFile, content, path)
    build_network(file, path)  # its faults, as of exits that do not follow one another
    return file
