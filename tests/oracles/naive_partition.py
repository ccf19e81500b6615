"""Networks as rows in plain loops: random ones, their numbers, which rows depend on which, what a partition costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fluidb.dse.partition.blocks import Costs, Rows, Span
from fluidb.formats import InputError, validate
from fluidb.models.loader import build_network
from fluidb.models.rows import cut_into_rows
from fluidb.models.schema import Conv, GlobalPool, Join, Linear, MemoryPass, NetworkFile, Pool
from fluidb.platforms import Cluster
from fluidb.tables.partition import BlockRows, LayerRows, PartitionTable

PATH = Path("random.toml")


# random networks and clusters


def draw_network(
    rng: np.random.Generator, *, exits: bool = True, parts: int = 4, height: int = 14, gates: bool = False
) -> NetworkFile:
    """Convolutions, pools, residual blocks and parallel branches, with every stride, padding and dilation.

    With ``gates`` also squeeze-and-excite, alone or in a residual block, and normalisation over channels.
    """
    layers: list[dict[str, Any]] = []
    places: list[str] = []

    def add(op: str, **keys: Any) -> str:
        layers.append({"name": f"l{len(layers)}", "op": op, **keys})
        return str(layers[-1]["name"])

    def window(**keys: Any) -> dict[str, Any]:
        kernel = int(rng.integers(1, 5))
        dilation = int(rng.integers(1, 3)) if keys.pop("dilated", False) else 1
        most = min(3, dilation * (kernel - 1))
        found = {"kernel": [kernel, int(rng.integers(1, 3))], "stride": [int(rng.integers(1, 4)), 1], **keys}
        found["pad"] = [int(rng.integers(most + 1)), 0, int(rng.integers(most + 1)), 0]
        return found | ({"dilation": [dilation, 1]} if dilation > 1 else {})

    def file() -> NetworkFile:
        rate = round(float(rng.uniform(0.1, 0.6)), 3)
        ends = [{"after": name, "rate": rate, "head": "edgesp", "classes": 3} for name in places[:1]]
        tail = [{"name": "pool", "op": "globalavgpool"}, {"name": "fc", "op": "linear", "out": 3}]
        content = {
            "schema": "fluidb.network/1", "name": "random", "title": "random", "input": shape,
            "layers": [*layers, *tail], "exits": ends,
        }  # fmt: skip
        return validate(NetworkFile, content, PATH)

    shape = {"height": int(rng.integers(4, height)), "width": int(rng.integers(2, 5)), "channels": 2}
    before = "input"
    kinds = ["conv", "pool", "residual", "parallel", *(["excite", "excite", "normalise"] if gates else [])]
    for _ in range(int(rng.integers(2, parts + 1))):
        kept, kind, out = len(layers), rng.choice(kinds), int(rng.integers(1, 4))
        if kind == "conv":
            last = add("conv", out=out, **{"from": before}, **window(dilated=True))
        elif kind == "pool":
            keys = window(ceil=bool(rng.integers(2)))
            last = add(str(rng.choice(["maxpool", "avgpool"])), **{"from": before}, **keys)
        elif kind == "residual":
            stride = int(rng.integers(1, 3))
            early = bool(rng.integers(2))
            side = add("conv", out=out, kernel=1, stride=stride, **{"from": before}) if early else ""
            inner = add("conv", out=2, kernel=1, **{"from": before})
            inner = add("conv", out=out, kernel=3, pad=1, stride=stride, **{"from": inner})
            side = side or add("conv", out=out, kernel=1, stride=stride, **{"from": before})
            last = add("add", **{"from": [inner, side]})
        elif kind == "normalise":
            last = add("memory", rowwise=True, **{"from": before})
        elif kind == "excite":
            stride, kernel, beside = int(rng.integers(1, 4)), int(rng.choice([1, 3])), bool(rng.integers(2))
            inner = add("conv", out=2, kernel=3, pad=1, **{"from": before})
            pool = add("globalavgpool", **{"from": inner})
            side = add("conv", out=out, kernel=1, stride=stride, **{"from": before}) if beside else ""
            gate = add("linear", out=2, **{"from": add("linear", out=out, **{"from": pool})})
            last = add("memory", rowwise=True, **{"from": [inner, gate]})
            last = add("conv", out=out, kernel=kernel, pad=kernel // 2, stride=stride, **{"from": last})
            last = add("add", **{"from": [last, side]}) if beside else last
        else:
            wide = add("conv", out=out, kernel=[5, 1], pad=[2, 0], **{"from": before})
            last = add("concat", **{"from": [before, wide, add("conv", out=1, kernel=1, **{"from": before})]})
        try:
            build_network(file(), PATH)
            before = last
        except InputError:  # a window that does not fit into the map
            del layers[kept:]
    if not layers:
        before = add("conv", out=2, kernel=1)
    if exits and rng.integers(2):
        places.append(str(rng.choice([unit.name for unit in cut_into_rows(file(), PATH).trunk.units])))
    return file()


def draw_cluster(rng: np.random.Generator, most: int = 5, **changes: Any) -> Cluster:
    """Devices of unlike rates, one in five of rate zero, with links or an uplink."""
    count = int(rng.integers(1, most + 1))
    rates = [0.0 if rng.integers(5) == 0 and k else round(float(rng.uniform(1e-5, 1e-3)), 7) for k in range(count)]
    devices = [
        {"name": f"d{k}", "gflop_s": rate, "layer_s": float(rng.choice([0.0, 1e-4])), "memory_gb": 1.0}
        for k, rate in enumerate(rates)
    ]
    shared = bool(rng.integers(4) == 0)
    links = [
        {
            "device": f"d{k}",
            "mbit_s": round(float(rng.uniform(0.1, 20)), 3),
            "latency_s": float(rng.choice([0.0, 1e-3])),
        }
        for k in range(count)
    ]
    content = {
        "schema": "fluidb.cluster/1", "name": "drawn", "title": "drawn", "devices": devices,
        "owner": "d0", "owner_has_input": bool(rng.integers(2)),
        "communication": str(rng.choice(["eq3", "once", "halo"])),
        **({"uplink": {"mbit_s": 3.0, "latency_s": 1e-4}} if shared else {"links": links}),
    }  # fmt: skip
    return validate(Cluster, content | changes, PATH)


# what a network computes


def weights_of(file: NetworkFile, channels: dict[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """Random weights of every convolution and linear layer."""
    return {
        op.name: rng.normal(size=(op.out, channels[source], *getattr(op, "kernel", ())))
        for op, (source, *_) in zip(file.layers, sources_of(file), strict=True)
        if isinstance(op, Conv | Linear)
    }


def sources_of(file: NetworkFile) -> list[tuple[str, ...]]:
    before = ["input", *(op.name for op in file.layers)]
    return [tuple(op.inputs or [before[i]]) for i, op in enumerate(file.layers)]


def run_rows(op: Any, inputs: list[Any], weights: Any, first: int, end: int, width: int) -> Any:
    """Output rows from ``first`` to ``end`` of a layer, as (rows, width, channels); rows not to be read are NaN."""
    if isinstance(op, Join):
        parts = [source[first:end] for source in inputs]
        return sum(parts[1:], parts[0]) if op.op == "add" else np.concatenate(parts, axis=2)
    if isinstance(op, MemoryPass):
        part, *gate = inputs[0][first:end], *inputs[1:]
        return part * np.tanh(gate[0]) if gate else part / (1 + np.sum(part**2, axis=2, keepdims=True))
    (source,) = inputs
    fill = -np.inf if op.op == "maxpool" else 0.0
    below, right = (16, 16)  # more than any window reaches
    padded = np.pad(source, ((op.pad[0], below), (op.pad[1], right), (0, 0)), constant_values=fill)
    rows, dilation = end - first, getattr(op, "dilation", [1, 1])
    found = None
    for i, j in product(range(op.kernel[0]), range(op.kernel[1])):
        at, over = first * op.stride[0] + i * dilation[0], j * dilation[1]
        part = padded[at : at + rows * op.stride[0] : op.stride[0], over : over + width * op.stride[1] : op.stride[1]]
        if isinstance(op, Conv):
            part = part @ weights[:, :, i, j].T
        found = part if found is None else np.maximum(found, part) if op.op == "maxpool" else found + part
    return found


def run_gate(op: Any, source: Any, weights: Any) -> Any:
    """The average of a map, or a linear layer behind it."""
    return source.mean((0, 1), keepdims=True) if isinstance(op, GlobalPool) else source @ weights.T


def run_whole(file: NetworkFile, shapes: dict[str, Any], image: Any, weights: dict[str, Any]) -> dict[str, Any]:
    """The map of every layer."""
    maps = {"input": image}
    for op, sources in zip(file.layers, sources_of(file), strict=True):
        shape, inputs = shapes[op.name], [maps[name] for name in sources]
        if isinstance(op, GlobalPool | Linear):
            maps[op.name] = run_gate(op, inputs[0], weights.get(op.name))
        else:
            maps[op.name] = run_rows(op, inputs, weights.get(op.name), 0, shape.height, shape.width)
    return maps


def run_shares(
    file: NetworkFile, table: PartitionTable, shapes: dict[str, Any], image: Any, weights: dict[str, Any]
) -> dict[str, Any]:
    """The output of every block of the trunk, put together from the devices' shares.

    A device sees the rows of the block's input that the record says it needs, and no others; in the block, the rows
    that the record says it computes.
    """
    ops, sources = (
        {op.name: op for op in file.layers},
        dict(zip((o.name for o in file.layers), sources_of(file), strict=True)),
    )
    maps = {"input": image}
    for block in table.blocks:
        if block.in_branch:
            continue
        busy = [k for k, (first, end) in enumerate(block.shares) if end > first]
        local: dict[str, dict[int, Any]] = {block.source: {}}
        for k in busy:
            low, high = block.needed[k]
            local[block.source][k] = np.full_like(maps[block.source], np.nan)
            local[block.source][k][low:high] = maps[block.source][low:high]
        for name, layer in _steps(file, block):
            inputs = [local[source] for source in sources[name]]
            if layer is not None:
                shape, local[name] = shapes[name], {}
                for k in busy:
                    a, b = layer.rows[k]
                    rows = np.full(shape, np.nan)
                    seen = [source[k] for source in inputs]
                    rows[a:b] = run_rows(ops[name], seen, weights.get(name), a, b, shape.width)
                    local[name][k] = rows
                continue
            source = inputs[0][busy[0]]
            if isinstance(ops[name], GlobalPool):  # each row counts once; rows of the block's input have been computed
                (read,) = sources[name]
                source = maps[read] if read in maps else np.full(shapes[read], np.nan)
                for layer_ in block.layers:
                    done = 0
                    for k in busy if layer_.name == read else ():
                        source[done : layer_.rows[k].end] = inputs[0][k][done : layer_.rows[k].end]
                        done = max(done, layer_.rows[k].end)
            local[name] = dict.fromkeys(busy, run_gate(ops[name], source, weights.get(name)))
        maps[block.name] = np.full(shapes[block.name], np.nan)
        for k in busy:
            first, end = block.shares[k]
            maps[block.name][first:end] = local[block.name][k][first:end]
    return maps


def _steps(file: NetworkFile, block: BlockRows) -> list[tuple[str, LayerRows | None]]:
    """The layers of a block of the trunk in execution order; layers of gates have no rows."""
    found: dict[str, LayerRows | None] = {layer.name: layer for layer in block.layers}
    found |= {name: None for gate in block.gates for name in gate.layers}
    return [(op.name, found[op.name]) for op in file.layers if op.name in found]


def rows_behind(file: NetworkFile, shapes: dict[str, Any], output: str, row: int) -> dict[str, set[int]]:
    """Every row of every map on which a row of ``output`` depends, window by window."""
    behind: dict[str, set[int]] = {output: {row}}
    names = [op.name for op in file.layers]
    op: Any
    for op, sources in reversed(list(zip(file.layers, sources_of(file), strict=True))):
        if names.index(op.name) > names.index(output):
            continue
        for o in behind.get(op.name, ()):
            for name in sources:
                if isinstance(op, Join):
                    rows = [o]
                else:
                    assert isinstance(op, Conv | Pool)
                    gap = getattr(op, "dilation", [1, 1])[0]
                    rows = [o * op.stride[0] - op.pad[0] + i * gap for i in range(op.kernel[0])]
                behind.setdefault(name, set()).update(r for r in rows if 0 <= r < shapes[name].height)
    return behind


# what a partition costs


def flops_of(file: NetworkFile, shapes: dict[str, Any]) -> dict[str, tuple[float, bool]]:
    """Operations of a row of every layer (Equation 2), and whether it has weights."""
    found = {}
    for op, (source, *_) in zip(file.layers, sources_of(file), strict=True):
        shape = shapes[op.name]
        if isinstance(op, Conv):
            taps = shapes[source].channels // op.groups * op.kernel[0] * op.kernel[1]
            found[op.name] = 2.0 * shape.width * (taps + 1) * op.out, True
        elif isinstance(op, Pool):
            found[op.name] = float(shape.width * shape.channels * op.kernel[0] * op.kernel[1]), False
        elif isinstance(op, Linear):
            found[op.name] = 2.0 * (shapes[source].channels + 1) * op.out, True
        else:
            found[op.name] = 0.0, False
    return found


def cost_of(
    file: NetworkFile, shapes: dict[str, Any], table: PartitionTable
) -> list[tuple[list[float], list[float], float]]:
    """Computation and bytes by device, and the time, of every block of the trunk, from the rows of the record alone."""
    cluster, flops = table.cluster, flops_of(file, shapes)
    members = [device for device in cluster.devices if device.name in table.devices]
    alone = len(members) == 1
    wires = [cluster.uplink or next(link for link in cluster.links if link.device == member.name) for member in members]
    ops = {op.name: op for op in file.layers}
    file_reads = dict(zip(ops, (read[0] for read in sources_of(file)), strict=True))
    pools = {name: isinstance(op, GlobalPool) for name, op in ops.items()}
    for name in (name for block in table.blocks for gate in block.gates for name in gate.layers if pools[name]):
        source = file_reads[name]
        if source != "input":  # whoever computes a row sums it
            flops[source] = flops[source][0] + shapes[source].width * shapes[source].channels, flops[source][1]
    in_rows = {layer.name for block in table.blocks for layer in block.layers}
    read_by_rows = {name for op, read in zip(ops, sources_of(file), strict=True) if op in in_rows for name in read}

    def seconds(layer: LayerRows, k: int) -> float:
        (each, product), (first, end) = flops[layer.name], layer.rows[k]
        return each * (end - first) / (1e9 * members[k].gflop_s) + product * members[k].layer_s

    found = []
    holds = None
    for block in table.blocks:
        if block.in_branch:
            continue
        compute, sent = [], []
        row_bytes = 4 * shapes[block.source].width * shapes[block.source].channels
        for k, item in enumerate(members):
            first, end = block.shares[k]
            compute.append(sum(seconds(layer, k) for layer in block.layers) if end > first else 0.0)
            needs = set(range(*block.needed[k])) if end > first else set()
            if holds is None and item.name == cluster.owner and (cluster.owner_has_input or alone):
                needs = set()
            if alone and holds is not None:
                needs = set()
            if cluster.communication == "halo" and holds is not None:
                needs -= set(range(*holds[k]))
            out = shapes[block.name].width * shapes[block.name].channels * 4 * (end - first)
            sent.append(row_bytes * len(needs) + (out if cluster.communication == "eq3" and not alone else 0))
        holds = block.shares
        clock = []
        for k in range(len(members)):
            carried = sum(sent) if cluster.uplink else sent[k]
            clock.append(wires[k].latency_s + 8e-6 * carried / wires[k].mbit_s if sent[k] else 0.0)
        waited: list[str] = []
        for name, layer in _steps(file, block):
            for k, (first, end) in enumerate(block.shares):
                clock[k] += seconds(layer, k) if layer is not None and end > first else 0.0
            gate = next((gate for gate in block.gates if name in gate.layers), None)
            if gate is not None and name == gate.layers[0]:  # all wait until the gate is there
                waited += gate.layers
                host = table.devices.index(gate.device)
                others = sum(end > first for k, (first, end) in enumerate(block.shares) if k != host)
                read = sum(shapes[file_reads[layer]].channels for layer in gate.layers if pools[layer])
                made = sum(shapes[layer].words for layer in gate.layers if layer in read_by_rows)
                ways = [words for words in (read, made) if words and others]
                exchange = sum(wires[host].latency_s + 8e-6 * 4 * others * words / wires[host].mbit_s for words in ways)
                work = sum(0.0 if pools[layer] else flops[layer][0] for layer in gate.layers)
                products = sum(flops[layer][1] for layer in gate.layers)
                runs = work / (1e9 * members[host].gflop_s) + products * members[host].layer_s
                assert [gate.gather_s, gate.compute_s] == pytest.approx([exchange, runs])
                assert sum(gate.sent_bytes) == pytest.approx(4 * others * (read + made))
                clock = [max(clock) + exchange + runs] * len(members)
        found.append((compute, sent, max(clock)))
    return found


def divisions(height: int, count: int) -> list[tuple[int, ...]]:
    """Every way to give rows to devices."""
    if count == 1:
        return [(height,)]
    return [(n, *rest) for n in range(height + 1) for rest in divisions(height - n, count - 1)]


def cuttings(count: int) -> list[list[tuple[int, int]]]:
    """Every way to cut units into blocks."""
    found = []
    for marks in product([0, 1], repeat=count - 1):
        bounds = [0, *(i + 1 for i, mark in enumerate(marks) if mark), count]
        found.append(list(pairwise(bounds)))
    return found


def least_s(costs: Costs, shares: Callable[[Span], Iterable[Rows]]) -> float:
    """The least time to the end of a network without exits: all ways to cut it, all ``shares`` of every block."""
    found = np.inf
    for cuts in cuttings(len(costs.network.trunk.units)):
        spans = [Span(0, first, end) for first, end in cuts]
        for rows in product(*map(shares, spans)):
            held, total = costs.held_at_start(), 0.0
            for span, own in zip(spans, rows, strict=True):
                total += costs.time_s(span, own, held)
                held = own
            found = min(found, total + costs.wholes_s(0, held))
    return found


def all_shares(costs: Costs, span: Span) -> list[Rows]:
    """Every way to share the rows of a block."""
    ways = divisions(costs.blocks.units(span)[-1].shape.height, len(costs.names))
    return [np.concatenate([[0], np.cumsum(widths)]) for widths in ways]
