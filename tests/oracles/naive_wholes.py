"""Networks with a part that cannot be cut into rows, in plain loops: random ones, their operations and times."""

from __future__ import annotations

from typing import Any

import numpy as np
from fluidb.formats import validate
from fluidb.models.network import Shape
from fluidb.models.schema import NetworkFile
from fluidb.platforms import Cluster
from fluidb.tables.partition import PartitionTable
from naive_partition import PATH, sources_of


def draw_mixed(rng: np.random.Generator) -> NetworkFile:
    """Up to two convolutions, then layers that need whole maps and some that would not; exits anywhere in the tail."""
    layers: list[dict[str, Any]] = []

    def add(op: str, **keys: Any) -> str:
        layers.append({"name": f"l{len(layers)}", "op": op, **keys})
        return str(layers[-1]["name"])

    for _ in range(int(rng.integers(3))):
        add("conv", out=4, kernel=[3, 1], pad=[1, 0, 1, 0])
    places = [layer["name"] for layer in layers[-1:]]
    for _ in range(int(rng.integers(1, 5))):
        kind = str(rng.choice(["recurrent", "up", "attention", "turned", "wide", "gemm"]))
        if kind == "recurrent":
            directions = int(rng.integers(1, 3))
            add(kind, hidden=4 // directions, gates=int(rng.choice([1, 3, 4])), directions=directions)
        elif kind == "up":
            add("convtranspose", out=4, kernel=2, groups=int(rng.choice([1, 2])))
        elif kind == "attention":
            query, key = add("linear", out=4), add("linear", out=4)
            scores = add("matmul", heads=2, transposed=True, **{"from": [query, key]})
            add("matmul", heads=2, **{"from": [add("memory", **{"from": [scores]}), query]})
        elif kind == "turned":
            add("view", shape=[1, 1, 4])
        elif kind == "wide":
            add("concat", **{"from": [add("linear", out=2), add("maxpool", kernel=1, stride=1)]})
            add("conv", out=4, kernel=1)
        else:
            add("gemm", rows=2, inner=3, columns=2, groups=2, per_sample=bool(rng.integers(2)))
        places.append(layers[-1]["name"])
    last = add("linear", out=int(rng.integers(1, 9)))
    exits = sorted({str(name) for name in rng.choice(places, 2)}, key=lambda name: int(name[1:]))
    head: list[dict[str, Any]] = [{"name": "cell", "op": "recurrent", "hidden": 2, "gates": 3}]
    head.append({"name": "fc", "op": "linear", "out": 2})
    rates = [round(float(rng.uniform(0.1, 0.45)), 3) for _ in exits]
    content = {
        "schema": "fluidb.network/1", "name": "mixed", "title": "mixed",
        "input": {"height": int(rng.integers(3, 9)), "width": int(rng.integers(1, 3)), "channels": 4},
        "layers": layers, "steps": int(rng.choice([1, 1, 3])),
        "exits": [
            {"after": name, "rate": rate, "layers": head[int(rng.integers(2)):]}
            for name, rate in zip(exits, rates, strict=True) if name != last
        ],
    }  # fmt: skip
    return validate(NetworkFile, content, PATH)


def work_of(op: Any, sources: list[Shape], shape: Shape) -> tuple[int, bool]:
    """Operations of a layer, product by product, with a bias for each sum; and whether it has weights."""
    source, count = sources[0], 0
    match op.op:
        case "recurrent":
            for _ in range(source.positions * op.directions):
                for _ in range(op.gates * op.hidden):
                    count += 2 * (source.channels + op.hidden + 1)
        case "convtranspose":
            for _ in range(source.positions * source.channels):
                count += 2 * op.kernel[0] * op.kernel[1] * op.out // op.groups
            count += 2 * shape.words
        case "conv":
            for _ in range(shape.words):
                count += 2 * (op.kernel[0] * op.kernel[1] * source.channels // op.groups + 1)
        case "linear":
            for _ in range(shape.words):
                count += 2 * (source.channels + 1)
        case "matmul":
            for _ in range(shape.words):
                count += 2 * (source.channels // op.heads if op.transposed else sources[1].positions)
        case "gemm":
            for _ in range(op.groups * op.rows * op.columns):
                count += 2 * (op.inner + (not op.per_sample))
        case "maxpool":
            count = shape.words * op.kernel[0] * op.kernel[1]
    return count, op.op in ("recurrent", "convtranspose", "conv", "linear") or (op.op == "gemm" and not op.per_sample)


def weights_of(op: Any, source: Shape) -> int:
    """Weights of a layer, with a bias for each output channel, or for each gate."""
    match op.op:
        case "recurrent":
            return int(op.directions * sum(source.channels + op.hidden + 1 for _ in range(op.gates * op.hidden)))
        case "convtranspose" | "conv":
            taps = op.kernel[0] * op.kernel[1] * source.channels // op.groups
            return int(sum(taps + 1 for _ in range(op.out)))
        case "linear":
            return int(sum(source.channels + 1 for _ in range(op.out)))
        case "gemm":
            return 0 if op.per_sample else int(op.groups * op.columns * (op.inner + 1))
    return 0


def works_of(file: NetworkFile, shapes: dict[str, Shape]) -> list[dict[str, tuple[int, bool]]]:
    """Operations of the layers of each stage by name, with the layers of its exit."""
    stages: list[dict[str, tuple[int, bool]]] = [{}]
    ends = {exit_.after: exit_ for exit_ in file.exits}
    for op, read in zip(file.layers, sources_of(file), strict=True):
        stages[-1][op.name] = work_of(op, [shapes[name] for name in read], shapes[op.name])
        if op.name in ends:
            source = shapes[op.name]
            for inner in ends[op.name].layers or []:
                shape = Shape(source.height, source.width, 2)
                stages[-1][f"exit{len(stages)}/{inner.name}"] = work_of(inner, [source], shape)
                source = shape
            stages.append({})
    return stages


def alone_s(file: NetworkFile, shapes: dict[str, Shape], cluster: Cluster, name: str) -> float:
    """The average time over the exits if one of the devices runs all layers, and the owner sends the input."""
    device = next(each for each in cluster.devices if each.name == name)
    wire = cluster.uplink or next(link for link in cluster.links if link.device == name)
    if not device.gflop_s:
        return float("inf")
    has_input = name == cluster.owner and (cluster.owner_has_input or len(cluster.devices) == 1)
    total = 0.0 if has_input else wire.latency_s + 8e-6 * 4 * shapes["input"].words / wire.mbit_s
    received_s, average, rest = total, 0.0, 1.0
    rates = [exit_.rate for exit_ in file.exits]
    for number, stage in enumerate(works_of(file, shapes)):
        runs = 1 if number < len(rates) else file.steps
        stage_s = sum(flops / (1e9 * device.gflop_s) + fixed * device.layer_s for flops, fixed in stage.values())
        total += runs * stage_s + (runs - 1) * received_s * (number == 0)  # a first stage that repeats reads it again
        rate = rates[number] if number < len(rates) else rest
        average, rest = average + rate * total, rest - rate
    return average


def placed(table: PartitionTable) -> list[list[str]]:
    """The layers that a partition runs, by stage."""
    stages: list[list[str]] = [[] for _ in table.exits]
    for block in table.blocks:
        stages[block.stage - 1] += [layer.name for layer in block.layers]
    for step in table.steps:
        stages[step.stage - 1] += step.layers
    return stages
