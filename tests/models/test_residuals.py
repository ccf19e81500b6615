"""Residual additions that the store of a product does, in tables and in the hardware."""

from __future__ import annotations

from typing import Any

import pytest
from fluidb.dse.hardware.program import additions_of
from fluidb.dse.integers.network import AddLayer, FlattenLayer, IntegerExit, IntegerNetwork, Map, ProductLayer
from fluidb.models import load_network
from fluidb.models.loader import read_network_file
from fluidb.models.residuals import Operation, fused_additions
from fluidb.models.schema import Conv, Join, Linear


def chain(*rows: tuple[str, ...], stages: dict[str, int] | None = None) -> list[Operation]:
    """Layers by name and inputs; a product's name begins with p, an addition's with a."""
    return [
        Operation(name, inputs, (stages or {}).get(name, 1), name[0] == "p", name[0] == "a") for name, *inputs in rows
    ]


BLOCK = ("p", "input"), ("q", "p"), ("p1", "q"), ("p2", "p"), ("a", "p1", "p2")


@pytest.mark.parametrize(
    ("layers", "outputs", "fused"),
    [
        (chain(*BLOCK), [], {"p2": "a"}),  # the one that runs last
        (chain(*BLOCK, ("p3", "p2")), [], {}),  # which is read elsewhere, too
        (chain(*BLOCK), ["p2"], {}),  # or by an exit
        (chain(*BLOCK, stages={"a": 2}), [], {}),  # the addition is of the next stage
        (chain(*BLOCK, stages={"p2": 2, "a": 2}), [], {"p2": "a"}),  # the other operand is of an earlier one
        (chain(("p", "input"), ("a", "p", "input")), [], {"p": "a"}),
        (chain(("p", "input"), ("m", "input"), ("a", "p", "m")), [], {}),  # the other is made too late
        (chain(("p", "input"), ("a", "p", "p")), [], {}),
        (chain(("p", "input"), ("p1", "p"), ("p2", "p"), ("a", "p", "p1", "p2")), [], {}),  # three maps
        (
            chain(("p", "input"), ("p1", "p"), ("a", "p", "p1"), ("p2", "a"), ("a2", "a", "p2")),
            [],
            {"p1": "a", "p2": "a2"},
        ),
    ],
)
def test_the_store_of_a_product_adds_what_is_there(layers: list[Operation], outputs: list[str], fused: Any) -> None:
    assert fused_additions(layers, outputs) == fused


@pytest.mark.parametrize(("name", "number"), [("resnet50", 16), ("mobilenet_v2", 10), ("resnet34", 16)])
def test_tables_and_hardware_fuse_the_same_additions(name: str, number: int) -> None:
    """The hardware reads integers, whose heads stand among the other layers."""
    file, network = read_network_file(name)[0], load_network(name)
    after, stage, before = [exit_.after for exit_ in file.exits], 1, "input"
    layers: list[Any] = []
    for op in file.layers:
        kind = ProductLayer if isinstance(op, Conv | Linear) else FlattenLayer
        kind = AddLayer if isinstance(op, Join) and op.op == "add" else kind
        inputs = [before] if op.inputs is None else op.inputs
        layers.append(kind.model_construct(name=op.name, inputs=inputs, stage=stage))
        before = op.name
        if op.name in after:
            layers.append(ProductLayer.model_construct(name=f"head{stage}", inputs=[op.name], stage=stage))
            stage += 1
    exits = [IntegerExit(name=f"e{n}", layer=f"head{n}", softmax=False) for n in range(1, stage)]
    exits.append(IntegerExit(name="end", layer=before, softmax=False))
    fused = additions_of(IntegerNetwork(name, Map(1, 1, 1), 0, layers, exits, {}))
    assert set(fused) == {layer.name for layer in network.layers if layer.residual}
    assert len(fused) == number
