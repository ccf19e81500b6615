"""The compiled part of the partition: Equation 3 and Algorithm 1; also run as plain Python."""

from __future__ import annotations

from typing import Any

import naive_partition as naive
import numpy as np
import pytest
from fluidb.dse.partition import kernels
from fluidb.dse.partition.blocks import Costs, Span
from fluidb.dse.partition.search import Partitioner
from fluidb.models.rows import cut_into_rows
from fluidb.tables.partition import PartitionOptions


def two_devices(**changes: Any) -> kernels.Devices:
    ones = np.ones(2)
    found: dict[str, Any] = {
        "flop_s": 10 * ones, "layer_s": 0.5 * ones, "bytes_s": 4 * ones, "latency_s": 0.25 * ones,
        "memory": 1e9 * ones, "owner": 0, "reading": kernels.ONCE, "shared_bytes_s": 0.0, "owner_has_input": True,
    }  # fmt: skip
    return kernels.Devices(**found | changes)


def block_of_four_rows(**changes: Any) -> kernels.Block:
    """A 3x3 convolution on four rows: 10 operations, 8 bytes of input, 16 of output and 24 of maps a row."""
    rows = np.arange(5)
    found: dict[str, Any] = {
        "need_first": np.array([0, 0, 1, 2, 3]), "need_end": np.array([0, 2, 3, 4, 4]),
        "flops_first": 10.0 * rows, "flops_end": 10.0 * rows, "map_first": 24.0 * rows, "map_end": 24.0 * rows,
        "layers": 1, "source_height": 4, "source_bytes": 8.0, "row_bytes": 16.0, "is_first": False,
    }  # fmt: skip
    return kernels.Block(**found | changes)


def spend(block: kernels.Block, devices: kernels.Devices, rows: list[int]) -> list[list[float]]:
    found = np.zeros((3, 2))
    kernels.spend(block, devices, np.array(rows), np.array([0, 2, 4]), *found)
    return found.tolist()


@pytest.mark.parametrize(("reading", "sent"), [(kernels.EQ3, 3 * 8 + 2 * 16), (kernels.ONCE, 3 * 8), (kernels.HALO, 8)])
def test_the_sums_are_those_of_equation_3(reading: int, sent: float):
    compute_s, link_bytes, time_s = spend(block_of_four_rows(), two_devices(reading=reading), [0, 2, 4])
    assert (compute_s, link_bytes) == ([2.5, 2.5], [sent, sent])
    assert time_s == [2.5 + 0.25 + sent / 4] * 2
    shared = spend(block_of_four_rows(), two_devices(reading=reading, shared_bytes_s=8.0), [0, 2, 4])
    assert shared[2] == [2.5 + 0.25 + 2 * sent / 8] * 2


def test_the_owner_receives_no_input_if_the_cluster_says_so():
    first = block_of_four_rows(is_first=True)
    assert spend(first, two_devices(), [0, 2, 4])[1] == [0, 24]
    assert spend(first, two_devices(owner_has_input=False), [0, 2, 4])[1] == [24, 24]
    assert spend(first, two_devices(reading=kernels.HALO, owner=-1), [0, 2, 4])[1] == [24, 24]
    assert spend(first, two_devices(), [0, 0, 4]) == [[0, 4.5], [0, 32], [0, 4.5 + 0.25 + 32 / 4]]


def test_rows_go_where_there_is_room():
    """Three of four rows do not fit on the second device, though it is three times as fast."""
    rows = np.zeros(3, np.int64)
    devices = two_devices(flop_s=np.array([10.0, 30.0]), memory=np.array([1e9, 50.0]))
    assert kernels.share(block_of_four_rows(), devices, 0.01, rows) < np.inf
    assert rows.tolist() == [0, 2, 4]
    tight = devices._replace(memory=np.array([30.0, 50.0]))
    assert kernels.share(block_of_four_rows(), tight, 0.01, rows) == np.inf


def proportional(costs: Costs, height: int) -> np.ndarray:
    exact = height * costs.devices.flop_s / costs.devices.flop_s.sum()
    width = np.floor(exact).astype(int)
    for k in np.argsort(width - exact, kind="stable")[: height - width.sum()]:
        width[k] += 1
    return np.concatenate([[0], np.cumsum(width)])


@pytest.mark.parametrize("seed", range(25))
def test_algorithm_1_is_never_worse_than_proportional_shares(seed: int):
    rng = np.random.default_rng(seed)
    file, cluster = naive.draw_network(rng), naive.draw_cluster(rng, communication="once")
    search = Partitioner(cut_into_rows(file, naive.PATH), cluster, PartitionOptions())
    blocks, costs = search.blocks, search.planned(search.names)[0]
    trunk = len(blocks.network.branches)
    for first, end in [(0, 1), (0, len(blocks.network.trunk.units))]:
        span = Span(trunk, first, end)
        height = blocks.units(span)[-1].shape.height
        even = proportional(costs, height)
        shares = costs.shares(span)
        assert shares[-1] == height
        assert costs.time_s(span, shares, shares) <= costs.time_s(span, even, even) * (1 + 1e-12)


def drawn_block(rng: np.random.Generator, height: int) -> kernels.Block:
    """A block of four maps whose shares need one row more on either side."""
    rows, flops, maps = np.arange(height + 1), rng.integers(5, 30), rng.integers(5, 30)
    return kernels.Block(
        need_first=np.maximum(0, rows - 1), need_end=np.where(rows > 0, np.minimum(height, rows + 1), 0),
        flops_first=1.0 * flops * rows, flops_end=1.0 * flops * rows, map_first=1.0 * maps * np.maximum(0, rows - 1),
        map_end=1.0 * maps * np.where(rows > 0, np.minimum(height, rows + 1), 0), layers=1, source_height=height,
        source_bytes=8.0, row_bytes=16.0, is_first=bool(rng.integers(2)),
    )  # fmt: skip


def drawn_devices(rng: np.random.Generator, count: int, height: int, row: float, reading: int) -> kernels.Devices:
    """Unequal devices, each with room for some rows only, with the two beside them."""
    room = row * (rng.integers(1, height, count) + 2)
    return kernels.Devices(
        flop_s=rng.integers(0, 40, count) + 1.0, layer_s=rng.random(count), bytes_s=rng.integers(1, 20, count) + 0.0,
        latency_s=rng.random(count), memory=room, owner=int(rng.integers(-1, count)), reading=reading,
        shared_bytes_s=0.0, owner_has_input=True,
    )  # fmt: skip


def slowest_s(block: kernels.Block, devices: kernels.Devices, bounds: np.ndarray) -> float:
    time_s, height = np.zeros(len(devices.flop_s)), len(block.need_first) - 1
    kernels.spend(block, devices, bounds, bounds * block.source_height // height, *np.zeros((2, len(time_s))), time_s)
    return float(time_s.max())


def test_rows_do_not_pile_up_on_a_full_device_while_another_has_room():
    """Moved one at a time, rows stopped at 0, 5 and 5: the fast device is full, and the first one has room for 8."""
    height, rows = 10, np.arange(11)
    before, behind = np.maximum(0, rows - 1), np.where(rows > 0, np.minimum(height, rows + 1), 0)
    block = kernels.Block(
        need_first=before, need_end=behind, flops_first=14.0 * rows, flops_end=14.0 * rows, map_first=10.0 * before,
        map_end=10.0 * behind, layers=1, source_height=height, source_bytes=8.0, row_bytes=16.0, is_first=True,
    )  # fmt: skip
    devices = kernels.Devices(
        flop_s=np.array([1.0, 40.0, 1.0]), layer_s=np.zeros(3), bytes_s=np.array([20.0, 10.0, 2.0]),
        latency_s=np.zeros(3), memory=np.array([100.0, 60.0, 90.0]), owner=-1, reading=kernels.EQ3,
        shared_bytes_s=0.0, owner_has_input=True,
    )  # fmt: skip
    times = {
        widths: slowest_s(block, devices, np.array([0, *np.cumsum(widths)]))
        for widths in map(tuple, naive.divisions(height, 3))
    }
    assert times[0, 5, 5] == 134.0
    chosen = np.zeros(4, np.int64)
    assert kernels.share(block, devices, 0.01, chosen) == min(times.values()) == 61.2
    assert tuple(np.diff(chosen)) == min(times, key=times.__getitem__) == (4, 4, 2)


@pytest.mark.parametrize("reading", [kernels.EQ3, kernels.ONCE, kernels.HALO])
def test_where_memory_is_tight_no_division_is_better(reading: int):
    """Brute force: the time of every division of the rows over three devices that have too little room for all."""
    rng, tight = np.random.default_rng(reading), 0
    for _ in range(60):
        height = int(rng.integers(4, 10))
        block = drawn_block(rng, height)
        devices = drawn_devices(rng, 3, height, float(block.map_end[1] - block.map_first[0]) / 2, reading)
        times = [slowest_s(block, devices, np.array([0, *np.cumsum(widths)])) for widths in naive.divisions(height, 3)]
        rows = np.zeros(4, np.int64)
        chosen_s = kernels.share(block, devices, 0.01, rows)
        assert chosen_s >= min(times)
        if np.isfinite(min(times)):
            assert chosen_s == slowest_s(block, devices, rows)
        if np.isinf(min(times)) or kernels.is_tight(block, devices, rows):
            tight += np.isfinite(min(times))
            assert chosen_s == min(times)
    assert tight > 20
