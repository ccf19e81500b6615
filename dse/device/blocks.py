"""The times of a network's stages from a table of times of blocks."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ...formats import AnyPath, InputError
from ...models.blocks import TimedBlock, blocks_of
from ...models.loader import build_network, read_network_file
from ...models.network import Network
from ...platforms.blocks import HAT, BlockKey, BlockTable, block_tool, hat_times, read_blocks
from ...platforms.measured import MeasuredDevice
from ...platforms.platform import NAME


class SummedTimes(NamedTuple):
    """A device whose times are sums of other times, and the text of its CSV."""

    device: MeasuredDevice
    table: str


def import_blocks(path: Path, device_file: Path, network: AnyPath, name: str | None = None) -> SummedTimes:
    """Make a device from a table of blocks of another tool, whose CSV is to stand beside the device's file."""
    file, where = read_network_file(network)
    net, tool = build_network(file, where), block_tool(path)
    if tool == HAT:
        stage_s, how = _halves(path, net), "the encoder and the decoder"
    else:
        blocks, table = blocks_of(file, where), read_blocks(path)
        stage_s, how = _summed(blocks, table, path, net), f"{len(blocks)} blocks"
    content = {
        "name": name or NAME.plain(path.stem),
        "title": f"Times of {net.name}, measured",
        "network": net.name,
        "stages": len(net.exits),
        "table": f"{device_file.stem}.csv",
        "sources": {"table": f"{tool}'s table {path.name}: times of {how}, summed by stage, one sample at a time"},
    }
    rows = [f"{stage},1,{seconds!r}\n" for stage, seconds in enumerate(stage_s, 1)]
    device = MeasuredDevice.of(content, [[seconds] for seconds in stage_s])
    return SummedTimes(device, "".join(["stage,batch,seconds\n", *rows]))


def _halves(path: Path, network: Network) -> list[float]:
    """The encoder and the decoder as two stages, or both as one; a stage that repeats is a step of the decoder."""
    seconds, stages = hat_times(path), len(network.exits)
    if stages == 1:
        return [sum(seconds)]
    if stages == len(seconds) and network.steps == 1:
        return seconds
    wanted = "one stage" if len(seconds) == 1 else "one stage, or of two, which run the encoder and the whole decoder"
    steps = f", the last of up to {network.steps} steps" if network.steps > 1 else ""
    raise InputError(f"{path}: expected a network of {wanted}; found {stages} stages{steps}")


def _summed(blocks: list[TimedBlock], table: BlockTable, path: Path, network: Network) -> list[float]:
    """Seconds of each stage; a pool without a row is part of the layer behind it, as ProxylessNAS counts it."""
    stage_s, faults = [0.0] * len(network.exits), []
    missing: dict[BlockKey, list[TimedBlock]] = {}
    pooled: tuple[BlockKey, TimedBlock] | None = None
    for block in blocks:
        key = _key(block)
        whole = key if pooled is None else key._replace(source=pooled[0].source)
        rows = table.rows.get(whole) or table.rows.get(key)
        if pooled is not None and whole not in table.rows:
            missing.setdefault(pooled[0], []).append(pooled[1])
        pooled = (key, block) if rows is None and block.pools and block.output.positions == 1 else None
        if rows is None and pooled is None:
            missing.setdefault(key, []).append(block)
        elif rows is not None and len(rows) > 1:
            faults.append(f"{path}: expected one row for {_layers(block)}, found {' and '.join(rows)}; keep one")
        elif rows is not None:
            stage_s[block.stage - 1] += sum(rows.values())
    if pooled is not None:
        missing.setdefault(pooled[0], []).append(pooled[1])
    lacking = sum(map(len, missing.values()))
    if 2 * lacking > len(blocks):
        key, group = next(iter(missing.items()))
        raise InputError(
            f"{path}: expected rows of the {len(blocks)} blocks of {network.name}, found {len(blocks) - lacking}; "
            f"the first without a row is {_name(key, group[0], table)}; take the table of its network and input size"
        )
    faults += [
        f"{path}: expected a row {_name(key, group[0], table)}, for {_layers(group[0])}"
        f"{f' and {len(group) - 1} more' if group[1:] else ''}; found none"
        for key, group in missing.items()
    ]
    if faults:
        raise InputError(faults)
    return stage_s


def _key(block: TimedBlock) -> BlockKey:
    sizes = (block.source.height, block.source.width, block.source.channels)
    made = (block.output.height, block.output.width, block.output.channels)
    return BlockKey(sizes, made, *(block.residual or ()))


def _name(key: BlockKey, block: TimedBlock, table: BlockTable) -> str:
    return key.name(table.tool, "AvgPool2D" if block.pools else "Conv")


def _layers(block: TimedBlock) -> str:
    return block.layers[0] if len(block.layers) == 1 else f"{block.layers[0]} to {block.layers[-1]}"
