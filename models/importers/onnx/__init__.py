"""Importer of ONNX models (``docs/import.md``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....formats import InputError
from ..imported import ImportedNetwork, checked
from ..read_as import ReadAs
from .graph import Graph, read_graph
from .outputs import own_exits
from .tensors import MULTIPLYING
from .walk import KINDS, Walk, walk


def read(path: Path, name: str, dims: Mapping[str, int], read_as: ReadAs) -> ImportedNetwork:
    """Read a model as a network: the layers that multiply, and the layers that only move data."""
    graph = read_graph(path, dims, read_as)
    made = walk(graph, path)
    if not any(layer["op"] in MULTIPLYING for layer in made.layers.values()):
        raise InputError(f"{path}: expected at least one node that multiplies, found none")
    content: dict[str, Any] = {
        "schema": "fluidb.network/1",
        "name": name,
        "title": f"{name}, from an ONNX model",
        "input": made.source._asdict(),
        "layers": list(made.layers.values()),
        "sources": _sources(path, graph, made),
    }
    file, network = checked(content, path, made.node_of)
    macs = {layer.name: layer.gemm.macs for layer in network.layers if layer.gemm}
    decided = graph.decided
    own = own_exits(file.layers, made.outputs, macs, made.aside, decided.answers if decided else ())
    if decided:
        content["sources"]["exits"] = decided.text
    if own.remarks:
        content["sources"]["outputs"] = "; ".join(own.remarks)
    content["layers"] = own.backbone
    rate = 1 / (len(own.heads) + 1)
    asked = decided.decisions if decided else ()
    leaves = {
        own.feet[condition.answer]: {condition.measure.name: condition.threshold}
        for condition in asked
        if condition.answer in own.feet
    }
    content["exits"] = [
        {"after": foot, "rate": rate} | leaves.get(foot, {}) | ({"layers": ops} if ops else {"head": "none"})
        for foot, ops in own.heads.items()
    ]
    file, _ = checked(content, path, made.node_of)
    return ImportedNetwork(file, own.answer, made.layer_of, frozenset(made.aside))


def _sources(path: Path, graph: Graph, made: Walk) -> dict[str, str]:
    """Origin of the figures, and the fate of every node."""
    shapes = ", ".join(f"{name} {'x'.join(map(str, graph.sizes[name])) or 'scalar'}" for name in graph.inputs)
    nodes = f"{len(graph.nodes)} nodes"
    nodes += f", {graph.folded} more that give constants" if graph.folded else ""
    nodes += f", {graph.unused} more that no output needs" if graph.unused else ""
    sources = {"layers": f"ONNX model {path.name}, written by {graph.producer or 'an unnamed tool'}; {nodes}"}
    sources["sample"] = f"one run of the model, with {shapes}"
    for kind, meaning in KINDS.items():
        if counts := made.kinds[kind]:
            ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
            listed = ", ".join(f"{count} {op}" for op, count in ordered)
            sources[kind] = f"{counts.total()} nodes {meaning}: {listed}"
    return sources | graph.remarks
