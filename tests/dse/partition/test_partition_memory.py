"""Memory of a cluster: a partition is found where one fits, and nowhere else.

CI draws a few cases; `FLUIDB_CLUSTERS=1000 pytest -n 0 tests/dse/partition/test_partition_memory.py` draws more.
"""

from __future__ import annotations

import json
import os
from itertools import combinations
from pathlib import Path
from typing import Any

import naive_cluster
import naive_partition as naive
import numpy as np
import pytest
from builders import Run, lines
from fluidb.dse.partition.search import Partitioner
from fluidb.formats import InputError, validate
from fluidb.formats.toml import toml_lines
from fluidb.models.rows import RowNetwork, cut_into_rows
from fluidb.models.schema import NetworkFile
from fluidb.platforms import Cluster
from fluidb.tables.partition import FusionRule, PartitionOptions, PartitionTable
from naive_cluster import Ways

CASES = int(os.environ.get("FLUIDB_CLUSTERS", "120"))
PARTS = 4


def drawn(seed: int) -> tuple[RowNetwork, Cluster, FusionRule]:
    rng = np.random.default_rng(seed)
    while len((network := cut_into_rows(naive.draw_network(rng, parts=3, height=8), naive.PATH)).trunk.units) > 4:
        pass
    exits = [*network.exits[:-1], network.exits[-1].model_copy(update={"steps": 1 + seed % 3})]
    network = network._replace(exits=tuple(exits))
    cluster = naive.draw_cluster(rng, most=3, word_bits=int(rng.choice([8, 12, 32])))
    rule = list(FusionRule)[int(rng.integers(len(FusionRule)))]
    return network, naive_cluster.with_tight_memory(rng, network, cluster), rule


def found(search: Partitioner, names: list[str]) -> PartitionTable | None:
    try:
        return search.partition(names)
    except InputError as fault:
        assert "expected a device with a rate above 0" in str(fault) or "expected room for the maps" in str(fault)
        return None


def replayed_s(table: PartitionTable, ways: Ways) -> float:
    """The average time of a partition by plain loops, which refuse shares that do not fit."""
    network, trunk = ways.network, len(ways.network.branches)
    held, total, average = tuple((0, 0) for _ in table.devices), 0.0, 0.0
    done = [0] * len(network.chains)  # units of each chain
    for number, item in enumerate(network.exits):
        inside, before = held, total
        for block in (block for block in table.blocks if block.stage == number + 1):
            chain, prefix = (number, f"exit{number + 1}/") if block.in_branch else (trunk, "")
            names, first = {layer.name for layer in block.layers}, done[chain]
            done[chain] += sum(prefix + unit.name in names for unit in network.chains[chain].units)
            shares = tuple((a, b) for a, b in block.shares)
            assert shares in ways.options(chain, first, done[chain])
            total += ways.time_s(chain, (first, done[chain]), shares, inside)
            inside = shares
            held = held if block.in_branch else shares
        total += ways.whole_s(number, inside)
        total = before + item.steps * (total - before)
        average += item.rate * total
    return average


@pytest.mark.parametrize("part", range(PARTS))
def test_a_partition_is_found_where_one_fits_and_nowhere_else(part: int):
    """All cuts, all shares of all blocks and all devices for whole maps, against the search by every rule."""
    longer, outcomes = [], set()
    for seed in range(part, CASES, PARTS):
        network, cluster, rule = drawn(seed)
        search, single = Partitioner(network, cluster, PartitionOptions(rule=rule)), rule is FusionRule.LAYERWISE
        fitting = [ways for ways in naive_cluster.ways(network, cluster, search.names) if ways.feasible(single=single)]
        table = found(search, search.names)
        assert (table is not None) == bool(fitting), f"case {seed}"
        outcomes.add(table is not None)
        if table is None:
            continue
        own = next(ways for ways in fitting if ways.members[ways.host].name == table.wholes[-1].device)
        assert table.average_s == pytest.approx(replayed_s(table, own)), f"case {seed}"
        least_s = own.least_s(single=single)
        assert table.average_s >= least_s * (1 - 1e-9), f"case {seed}"
        if rule in (FusionRule.OPTIMAL, FusionRule.LAYERWISE):
            longer.append(table.average_s / least_s - 1)
    assert outcomes == {True, False}
    assert np.mean(np.array(longer) < 1e-9) >= 0.6
    assert np.mean(longer) < 0.1


@pytest.mark.parametrize("part", range(PARTS))
def test_the_best_devices_are_those_of_all_subsets_that_fit(part: int):
    for seed in range(part, CASES, PARTS):
        network, cluster, rule = drawn(seed)
        search = Partitioner(network, cluster, PartitionOptions(rule=rule))
        subsets = [list(some) for n in range(len(search.names)) for some in combinations(search.names, n + 1)]
        times = [table.average_s for names in subsets if (table := found(search, names))]
        if times:
            assert search.best_subset(search.names).average_s == pytest.approx(min(times)), f"case {seed}"
        else:
            with pytest.raises(InputError):
                search.best_subset(search.names)


# by hand


def chain(height: int, **layers: dict[str, Any]) -> RowNetwork:
    """Layers one behind the other on maps of one channel and one column, and a linear layer behind them."""
    ops = [{"name": name, **keys} for name, keys in layers.items()]
    content = {
        "schema": "fluidb.network/1", "name": "chain", "title": "Chain",
        "input": {"height": height, "width": 1, "channels": 1},
        "layers": [*ops, {"name": "flat", "op": "flatten"}, {"name": "fc", "op": "linear", "out": 2}],
    }  # fmt: skip
    return cut_into_rows(validate(NetworkFile, content, naive.PATH), naive.PATH)


def devices(*memory: float, rates: tuple[float, ...] = (), **changes: Any) -> Cluster:
    """Devices with room for these numbers of words."""
    members = [
        {"name": f"d{k}", "gflop_s": rate, "memory_gb": 4e-9 * (words + 0.1)}
        for k, (words, rate) in enumerate(zip(memory, rates or [1.0] * len(memory), strict=True))
    ]
    content = {
        "schema": "fluidb.cluster/1", "name": "some", "title": "Some", "owner": "d0", "devices": members,
        "links": [{"device": member["name"], "mbit_s": 1000.0} for member in members],
    }  # fmt: skip
    return validate(Cluster, content | changes, naive.PATH)


def over(network: RowNetwork, cluster: Cluster, rule: str = "marginal") -> PartitionTable:
    search = Partitioner(network, cluster, PartitionOptions(rule=FusionRule(rule)))
    return search.partition(search.names)


POINT = {"op": "conv", "out": 1, "kernel": 1}  # two words of weights


@pytest.mark.parametrize("rule", FusionRule)
def test_a_device_with_room_for_all_rows_gets_them(rule: str):
    """The weak one has room for 2 words of weights, 12 of the other layer's, and both maps of 5 rows."""
    network = chain(5, a=POINT)
    assert over(network, devices(24, 3, rates=(1.0, 9.0)), rule).blocks[0].shares == [(0, 5), (5, 5)]
    assert over(network, devices(3, 24, 3, rates=(9.0, 1.0, 9.0)), rule).blocks[0].shares == [(0, 0), (0, 5), (5, 5)]
    with pytest.raises(InputError, match="found too little for a, 4e-05 MB; use more devices, or some with more"):
        over(network, devices(21, 3, rates=(1.0, 9.0)), rule)


def test_the_host_needs_room_for_the_whole_map_too():
    """The layer behind the rows has 12 words, its maps 5 and 2; the strongest has room for all but a word of these."""
    network = chain(5, a=POINT)
    assert over(network, devices(50, 2 + 12 + 7, rates=(1e-4, 9e-4))).wholes[0].device == "d1"
    assert over(network, devices(50, 2 + 12 + 6, rates=(1e-4, 9e-4))).wholes[0].device == "d0"


def test_a_host_without_room_for_the_weights_of_rows_computes_none():
    table = over(chain(5, a=POINT), devices(2 + 10, 12 + 7))
    assert (table.blocks[0].shares, table.wholes[0].device) == ([(0, 5), (5, 5)], "d1")


def test_blocks_that_do_not_fit_give_way_to_others_that_do():
    """Layer b fits only in a block with the pool, which leaves rows 8 to 13 out, and layer a only in one of its own.

    Alone b has maps of 112 + 112 words, with the pool 64 + 64 + 16, and with a and the pool 8 + 64 + 64 + 16; with b,
    the rule marginal would go on.
    """
    wide = {"op": "conv", "out": 8, "kernel": 1}
    network = chain(14, a=wide, b=wide, pool={"op": "maxpool", "kernel": 1, "stride": [7, 1]})
    cluster = devices(16 + 72 + 34 + 148)
    assert [block.title for block in over(network, cluster).blocks] == ["a", "b .. pool"]
    with pytest.raises(InputError, match="found too little for b, "):
        over(network, cluster, "layerwise")


# the command line


def test_numbers_of_devices_without_enough_memory_are_left_out_of_a_sweep(fluidb: Run, tmp_path: Path):
    """The maps of VGG-16's second layer need 26 MB beside its weights."""
    cluster = devices(0.57e9 / 4, 0.58e9 / 4, 0.58e9 / 4, rates=(4.0, 8.0, 6.0))
    (tmp_path / "tight.toml").write_text(
        "\n".join(toml_lines(cluster.model_dump(by_alias=True, mode="json", exclude_none=True)))
    )
    fault = "some: expected room for the maps of vgg16 in the memory of d0, found too little for features.2, 25.7 MB; "
    for rule in ("marginal", "layerwise"):
        (line,) = lines(fluidb("dse", "vgg16", "tight.toml", "--devices", 1, "--rule", rule))
        assert fault in line
    rows = json.loads(fluidb("dse", "vgg16", "tight.toml", "--devices", "1..3", "--json").stdout)["devices"]
    assert [(row["count"], "average_s" in row) for row in rows] == [(1, False), (2, True), (3, True)]
    assert fault in rows[0]["faults"][0]
    text = fluidb("dse", "vgg16", "tight.toml", "--devices", "1..3", "--plot", "p.svg").stdout
    assert f"not on 1  {fault}" in text
    assert json.loads(fluidb("dse", "vgg16", "tight.toml", "--devices", "best", "--json").stdout)["devices"]
    (line,) = lines(fluidb("dse", "vgg16", "tight.toml", "--devices", "1..1"))
    assert fault in line


def test_searches_that_would_take_very_long_are_refused():
    layers = {f"l{n}": POINT for n in range(400)}
    with pytest.raises(InputError, match="^rule: expected at most 5,000,000 times .* 21,333,332 .* use the rule"):
        over(chain(5, **layers), devices(1e6, 1e6), "optimal")
    many = devices(*[1e6] * 12, rates=tuple(range(1, 13)))
    search = Partitioner(chain(5, **{f"l{n}": POINT for n in range(40)}), many, PartitionOptions(rule="optimal"))
    fault = "found about 262,127,616 with optimal; use fewer devices or the rule marginal"
    with pytest.raises(InputError, match=fault):
        search.best_subset(search.names)
