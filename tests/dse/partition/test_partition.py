"""The partition of a network over a cluster: the same numbers, the costs of plain loops, the best of its kind."""

from __future__ import annotations

import json
from functools import cache, partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import naive_partition as naive
import numpy as np
import pytest
from builders import COMPILED, Run, lines
from fluidb.dse.partition.blocks import Costs, Span
from fluidb.dse.partition.search import Partitioner
from fluidb.dse.partition.study import study, with_fewer
from fluidb.dse.partition.tabulate import tabulate_latency, write_partition
from fluidb.formats import InputError, validate
from fluidb.models.branches import with_branches
from fluidb.models.loader import layer_shapes, read_network_file
from fluidb.models.rows import RowNetwork, cut_into_rows
from fluidb.platforms import Cluster, load_platform
from fluidb.tables import read_latency
from fluidb.tables.partition import FusionRule, PartitionOptions, PartitionTable, RowRange, read_partition

full_size = pytest.mark.skipif(not COMPILED, reason="searches hundreds of partitions; run compiled")
FAST = PartitionOptions()


@cache
def network(name: str, *, exits: bool = True) -> RowNetwork:
    file, path = read_network_file(name)
    return cut_into_rows(with_branches(file, path) if exits else file.model_copy(update={"exits": []}), path)


@cache
def preset(name: str) -> Cluster:
    return load_platform(name, kind=Cluster)


def searched(file: Any, cluster: Cluster, rule: str = "marginal", names: list[str] | None = None) -> PartitionTable:
    found = Partitioner(cut_into_rows(file, naive.PATH), cluster, PartitionOptions(rule=FusionRule(rule)))
    return found.partition(found.names if names is None else names)


# the same numbers


@pytest.mark.parametrize("start", range(0, 300, 25))
def test_shares_compute_the_numbers_of_the_whole_network(start: int):
    """Rows that the record does not grant to a device are NaN, so that one row too few would show."""
    for seed in range(start, start + 25):
        rng = np.random.default_rng(seed)
        file = naive.draw_network(rng)
        table = searched(file, naive.draw_cluster(rng), str(rng.choice(list(FusionRule))))
        table = PartitionTable.model_validate_json(table.model_dump_json(by_alias=True))  # what the file says
        shapes = layer_shapes(file)
        weights = naive.weights_of(file, {name: shape.channels for name, shape in shapes.items()}, rng)
        image = rng.normal(size=shapes["input"])
        whole = naive.run_whole(file, shapes, image, weights)
        shares = naive.run_shares(file, table, shapes, image, weights)
        for name, rows in shares.items():
            np.testing.assert_allclose(rows, whole[name], rtol=1e-12, atol=1e-12, err_msg=f"seed {seed}, {name}")


def test_a_row_less_than_the_halo_shows():
    rng = np.random.default_rng(0)
    file = naive.draw_network(rng)
    cluster = naive.draw_cluster(rng, devices=[{"name": f"d{k}", "gflop_s": 1e-4, "memory_gb": 1.0} for k in range(2)],
                                 links=[{"device": f"d{k}", "mbit_s": 1.0} for k in range(2)], uplink=None)  # fmt: skip
    table, shapes = searched(file, cluster), layer_shapes(file)
    weights = naive.weights_of(file, {name: shape.channels for name, shape in shapes.items()}, rng)
    block = next(block for block in table.blocks if block.needed[0][1] - block.needed[0][0] > 1)
    first, end = block.needed[0]
    block.needed[0] = RowRange(first, end - 1)
    rows = naive.run_shares(file, table, shapes, rng.normal(size=shapes["input"]), weights)
    assert np.isnan(rows[block.name]).any()


# the costs


@pytest.mark.parametrize("start", range(0, 120, 40))
def test_costs_are_those_of_plain_loops(start: int):
    for seed in range(start, start + 40):
        rng = np.random.default_rng(seed)
        file = naive.draw_network(rng)
        table = searched(file, naive.draw_cluster(rng), str(rng.choice(list(FusionRule))))
        trunk = [block for block in table.blocks if not block.in_branch]
        costs = naive.cost_of(file, layer_shapes(file), table)
        for block, (compute_s, sent, time_s) in zip(trunk, costs, strict=True):
            assert block.compute_s == pytest.approx(compute_s)
            assert block.link_bytes == pytest.approx(sent)
            assert block.time_s == pytest.approx(time_s)
            spare = [max(0, b - a - len(set(range(a, b)) & set(range(*held)))) for (a, b), held in
                     zip(block.needed, block.held, strict=True)]  # fmt: skip
            assert block.missing_rows == spare


@pytest.mark.parametrize("seed", range(12))
def test_blocks_tile_the_network_and_none_crosses_an_exit(seed: int):
    rng = np.random.default_rng(seed)
    file = naive.draw_network(rng)
    cut = cut_into_rows(file, naive.PATH)
    table = searched(file, naive.draw_cluster(rng), str(rng.choice(list(FusionRule))))
    order = [op.name for op in file.layers]
    for stage, item in enumerate(table.exits, 1):
        end = item.name if stage < len(table.exits) else cut.trunk.units[-1].name
        assert [block.name for block in table.blocks if block.stage <= stage and not block.in_branch][-1] == end
    trunk = [block for block in table.blocks if not block.in_branch]
    assert [block.source for block in trunk] == ["input", *(block.name for block in trunk[:-1])]
    names = [layer.name for block in trunk for layer in block.layers]
    assert sorted(names, key=order.index) == names


def test_one_device_is_no_cluster():
    """Nothing is communicated, and the time is for its operations alone."""
    cut, cluster = network("alexnet_cifar10"), preset("edgesp-a")
    for communication, rule in product(["eq3", "once", "halo"], FusionRule):
        counted = cluster.model_copy(update={"communication": communication})
        table = Partitioner(cut, counted, PartitionOptions(rule=rule)).partition(["pi-1"])
        assert table.communication_bytes == table.communication_s == 0
        flops = [sum(layer.row_flops * layer.shape.height for unit in units for layer in unit.layers) for units in
                 (cut.trunk.units, *(branch.units for branch in cut.branches))]  # fmt: skip
        tails = sum(layer.flops for chain in cut.chains for layer in chain.tail)
        assert table.exit_s[-1] == pytest.approx((sum(flops) + tails) / 4.2e9)


def test_a_device_that_holds_no_input_receives_it():
    """Alone it does all the work, and only the input is communicated."""
    table = Partitioner(network("alexnet_cifar10"), preset("edgesp-a"), FAST).partition(["vm-1"])
    assert table.communication_bytes == 4 * 32 * 32 * 3
    assert table.blocks[0].transfer_s == [pytest.approx(4 * 32 * 32 * 3 * 8 / 1e8)]


@pytest.mark.parametrize("seed", range(10))
def test_a_device_of_rate_zero_gets_no_rows(seed: int):
    rng = np.random.default_rng(seed)
    file, cluster = naive.draw_network(rng), naive.draw_cluster(rng)
    still = validate(type(cluster.devices[0]), {"name": "still", "gflop_s": 0.0, "memory_gb": 1.0}, naive.PATH)
    more = cluster.model_copy(update={"devices": [*cluster.devices, still]})
    if not more.uplink:
        more = more.model_copy(update={"links": [*more.links, more.links[0].model_copy(update={"device": "still"})]})
    table = searched(file, more)
    assert "still" in table.idle
    if len(cluster.devices) > 1:  # one device alone communicates nothing, and beside a still one it does
        assert table.exit_s == pytest.approx(searched(file, cluster).exit_s)


def test_the_gather_before_a_whole_map_is_what_the_strongest_does_not_hold():
    table = Partitioner(network("resnet50"), preset("edgesp-a"), FAST).partition(["pi-1", "vm-1", "vm-2"])
    last, whole = table.blocks[-1], table.wholes[-1]
    assert (whole.device, whole.layers) == ("vm-1", ["avgpool", "fc"])
    sent = [4 * 7 * 2048 * (end - first) for first, end in last.shares]
    assert whole.sent_bytes == [sent[0], 0, sent[2]]
    assert whole.gather_s == pytest.approx(8 * (sent[0] + sent[2]) / 1e8)
    assert whole.compute_s == pytest.approx((7 * 7 * 2048 + 2 * 2049 * 1000) / 8.4e9)
    literal = preset("edgesp-a").model_copy(update={"communication": "eq3"})
    table = Partitioner(network("resnet50"), literal, FAST).partition(["pi-1", "vm-1", "vm-2"])
    assert (table.wholes[-1].gather_s, sum(table.wholes[-1].sent_bytes)) == (0, 0)  # counted with the last block


def test_zeta_matters_only_when_it_is_large():
    """edgesp.md: from .02 to .2 it makes no difference; .4 costs up to 9 %."""
    cut, cluster = network("resnet50"), preset("edgesp-a")
    times = {}
    for zeta in (0.02, 0.1, 0.2, 0.4):
        search = Partitioner(cut, cluster, PartitionOptions(rule=FusionRule.OPTIMAL, zeta=zeta))
        times[zeta] = search.partition(search.names[:6]).average_s
    assert max(times[z] for z in (0.02, 0.1, 0.2)) <= 1.005 * times[0.02]
    assert 1.02 < times[0.4] / times[0.02] < 1.1


def test_more_devices_than_rows_leave_some_idle(fluidb: Run, tmp_path: Path):
    (tmp_path / "n.toml").write_text(
        'schema = "fluidb.network/1"\nname = "low"\ntitle = "Low"\ninput = { height = 3, width = 9, channels = 8 }\n'
        'layers = [{ name = "a", op = "conv", out = 64, kernel = 3, pad = 1 }]\n'
    )
    done = fluidb("dse", "n.toml", "edgesp-a", "--bandwidth", "100Gb/s")
    assert done.returncode == 0
    (idle,) = [line for line in done.stdout.splitlines() if line.startswith("idle")]
    assert idle.count(",") == 6  # ten devices, three rows
    assert idle.endswith(": no row of any block")


# rules


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_no_rule_beats_the_optimal_one(start: int):
    for seed in range(start, start + 20):
        rng = np.random.default_rng(seed)
        file, cluster = naive.draw_network(rng, parts=3, height=8), naive.draw_cluster(rng, most=3)
        optimal = searched(file, cluster, "optimal").average_s
        for rule in FusionRule:
            assert optimal <= searched(file, cluster, str(rule)).average_s * (1 + 1e-9)


def drawn_search(seed: int) -> tuple[Partitioner, Costs]:
    rng, rule = np.random.default_rng(seed), FusionRule.OPTIMAL
    file = naive.draw_network(rng, exits=False, parts=2, height=6)
    search = Partitioner(cut_into_rows(file, naive.PATH), naive.draw_cluster(rng, most=2), PartitionOptions(rule=rule))
    return search, search.planned(search.names)[0]


@pytest.mark.parametrize("seed", range(40))
def test_the_optimal_blocks_are_those_of_trying_them_all(seed: int):
    """With ``halo`` the blocks depend on each other."""
    search, costs = drawn_search(seed)
    least_s = naive.least_s(costs, lambda span: [costs.shares(span)])
    assert search.partition(search.names).average_s == pytest.approx(least_s)


def test_our_shares_are_nearly_the_best_of_all():
    longer = []
    for seed in range(60):
        search, costs = drawn_search(seed)
        least_s = naive.least_s(costs, partial(naive.all_shares, costs))
        longer.append(search.partition(search.names).average_s / least_s - 1)
    assert min(longer) > -1e-9
    assert sum(share < 1e-9 for share in longer) >= 0.9 * len(longer)
    assert np.mean(longer) < 0.03


def test_marginal_and_paper_close_a_block_before_the_unit_that_does_not_pay():
    """By hand, on AlexNet over two devices: its first two convolutions are fused, the third is not."""
    cut, cluster = network("alexnet_cifar10"), preset("edgesp-a")
    search = Partitioner(cut, cluster, FAST)
    (costs, _), table = search.planned(["pi-1", "pi-2"]), search.partition(["pi-1", "pi-2"])
    ends = [block.name for block in table.blocks if block.stage == 1 and not block.in_branch]
    units = [unit.name for unit in cut.trunk.units]
    first, end = 0, units.index(ends[0]) + 1

    def time_s(first: int, end: int) -> float:
        span = Span(2, first, end)
        return costs.time_s(span, costs.shares(span), costs.shares(span))

    for at in range(first + 1, end):
        assert time_s(first, at + 1) <= time_s(first, at) + time_s(at, at + 1)
    if end < 5:
        assert time_s(first, end + 1) > time_s(first, end) + time_s(end, end + 1)


# edgesp.md, Sections 3, 4 and 6

SPEEDUPS = {
    "alexnet_cifar10": (2.12, 3.23, 3.28, 3.28),
    "resnet50_cifar10": (1.98, 2.67, 2.81, 2.87),
    "resnet50": (2.20, 3.20, 3.64, 3.71),
    "resnet101": (2.49, 1.70, 3.40, 3.43),
}
"""Speed-ups of six devices as an independent program has them, by rule: layerwise, paper, marginal, optimal."""
BANDS = {
    "alexnet_cifar10": (3.0, 3.5), "resnet50_cifar10": (2.6, 3.1), "resnet50": (3.4, 3.9), "resnet101": (3.2, 3.6),
}  # fmt: skip


def speedup(name: str, cluster: str, rule: FusionRule = FusionRule.MARGINAL, count: int = 6) -> float:
    (found,) = study(network(name), preset(cluster), PartitionOptions(rule=rule), [count])
    assert found.speedup is not None
    return found.speedup


@pytest.mark.parametrize("name", SPEEDUPS)
def test_speedups_of_preset_a(name: str):
    rules = (FusionRule.LAYERWISE, FusionRule.PAPER, FusionRule.MARGINAL, FusionRule.OPTIMAL)
    found = [speedup(name, "edgesp-a", rule) for rule in rules]
    assert found == pytest.approx(SPEEDUPS[name], rel=0.06)
    assert BANDS[name][0] <= found[2] <= BANDS[name][1]


@pytest.mark.parametrize("name", SPEEDUPS)
def test_speedups_of_preset_b(name: str):
    assert 2.4 <= speedup(name, "edgesp-b") <= 3.2


def test_milliseconds_of_alexnet():
    found = [item.every.exit_s for item in study(network("alexnet_cifar10"), preset("edgesp-a"), FAST, [1, 2, 6])]
    alone, two, six = (np.array(times) * 1e3 for times in found)
    assert 33 <= alone[0] <= 39
    assert 23 <= two[0] <= 26
    assert 56 <= two[2] <= 62
    assert 24 <= six[2] <= 27


@full_size
def test_a_device_beyond_six_gains_little():
    gains = []
    for name in SPEEDUPS:
        times = [item.every.average_s for item in study(network(name), preset("edgesp-a"), FAST, range(6, 11))]
        gains += [1 - after / before for before, after in pairwise(times)]
    assert 0 < np.mean(gains) < 0.1


@full_size
@pytest.mark.parametrize("cluster", ["edgesp-a", "edgesp-b"])
@pytest.mark.parametrize("name", ["alexnet_cifar10", "resnet50_cifar10"])
def test_more_devices_never_slow_the_best_subset(name: str, cluster: str):
    studied = study(network(name), preset(cluster), FAST, range(1, 11), subsets=True)
    times = [study.chosen.average_s for study in studied]
    assert times == sorted(times, reverse=True)
    assert all(study.chosen.average_s <= study.every.average_s for study in studied)
    if (name, cluster) == ("alexnet_cifar10", "edgesp-b"):
        assert any(after.every.average_s > before.every.average_s for before, after in pairwise(studied))


# memory


def with_memory(gigabytes: list[float]) -> Cluster:
    cluster = preset("edgesp-a")
    devices = [item.model_copy(update={"memory_gb": gb}) for item, gb in zip(cluster.devices, gigabytes, strict=False)]
    return cluster.model_copy(update={"devices": devices, "links": cluster.links[: len(devices)]})


def test_a_device_without_room_for_the_weights_gets_no_rows():
    cut = network("resnet50")
    table = Partitioner(cut, with_memory([4, 4, 0.05, 4]), FAST).partition(["pi-1", "pi-2", "vm-1", "vm-2"])
    assert table.idle == ["vm-1"]
    assert table.wholes[-1].device == "vm-2"


def test_maps_that_do_not_fit_on_one_device_are_shared_so_that_they_do():
    """VGG-16 at full size: its weights take 0.55 GB, the maps of its blocks up to 0.1 GB."""
    cut = network("vgg16", exits=False)
    roomy, tight = ([4.0] * 6, [0.576] * 6)
    free = Partitioner(cut, with_memory(roomy), PartitionOptions(rule=FusionRule.LAYERWISE))
    names = free.names[:6]
    wide = free.partition(names)
    alone = Partitioner(cut, with_memory(tight), PartitionOptions(rule=FusionRule.LAYERWISE))
    with pytest.raises(InputError, match="expected room for the maps of vgg16 .* found too little"):
        alone.partition(["pi-1"])
    shared = alone.partition(names)
    assert shared.average_s >= wide.average_s
    (found,) = study(cut, with_memory(tight), PartitionOptions(rule=FusionRule.LAYERWISE), [6])
    assert (found.alone, found.speedup) == (None, None)


def test_a_cluster_too_small_for_the_weights_is_refused():
    with pytest.raises(InputError, match="expected a device with a rate above 0 and room for the weights of resnet50"):
        Partitioner(network("resnet50"), with_memory([0.01] * 3), FAST).partition(["pi-1", "pi-2", "vm-1"])


# tables and the command line


def test_the_latency_table_has_the_blocks_as_layers(tmp_path: Path):
    table = Partitioner(network("alexnet_cifar10"), preset("edgesp-a"), FAST).partition(["pi-1", "pi-2"])
    write_partition(tmp_path / "d", table)
    latency = read_latency(tmp_path / "d")
    assert latency == tabulate_latency(table)
    assert read_partition(tmp_path / "d") == table
    assert [float(latency.array()[0, j, 1]) for j in (1, 2, 3)] == pytest.approx(table.exit_s)
    assert (latency.b_max, latency.lanes) == (1, 1)
    assert sum(layer.time_s[0] for layer in latency.layers) == pytest.approx(table.exit_s[-1])
    other = Partitioner(network("alexnet_cifar10"), preset("edgesp-a"), FAST).partition(["pi-1"])
    write_partition(tmp_path / "e", other)
    (tmp_path / "d" / "partition.json").write_text((tmp_path / "e" / "partition.json").read_text())
    with pytest.raises(InputError, match="stale"):
        read_latency(tmp_path / "d")


def test_from_search_to_serving(fluidb: Run, tmp_path: Path):
    assert fluidb("models", "exits", "alexnet_cifar10", "--at", "edgesp", "-o", "n.toml").returncode == 0
    done = fluidb("dse", "n.toml", "edgesp-a", "--devices", 6, "-o", "d", "--json")
    record = json.loads(done.stdout)
    assert record["schema"] == "fluidb.dse-cluster-output/1"
    assert record["speedup"] == pytest.approx(record["alone_s"] / record["average_s"])
    assert [exit_["name"] for exit_ in record["exits"]] == ["conv3", "conv4", "fc"]
    files = {path.name: path.read_bytes() for path in (tmp_path / "d").iterdir()}
    assert sorted(files) == ["latency.json", "partition.json"]
    (line,) = lines(fluidb("dse", "n.toml", "edgesp-a", "-o", "d"))
    assert "exists already" in line
    assert fluidb("dse", "n.toml", "edgesp-a", "--devices", 6, "-o", "d", "--force").returncode == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "d").iterdir()} == files
    fluidb("trace", "poisson", "--rate", 20, "--count", 50, "-o", "t.csv")
    served = json.loads(fluidb("serve-sim", "d", "--trace", "t.csv", "--slo", "1s", "--json").stdout)
    assert served["requests"] == 50


@full_size
def test_a_sweep_prints_a_line_for_each_number_and_draws_it(fluidb: Run, tmp_path: Path):
    done = fluidb("dse", "alexnet_cifar10", "edgesp-b", "--devices", "1..4", "--plot", "p.svg", "--json")
    rows = json.loads(done.stdout)["devices"]
    assert [row["count"] for row in rows] == [1, 2, 3, 4]
    assert rows[0]["speedup"] == pytest.approx(1)
    assert "Average time and data sent over the number of devices" in (tmp_path / "p.svg").read_text()


@full_size
def test_the_best_devices_are_the_fastest_subset(fluidb: Run):
    record = json.loads(fluidb("dse", "alexnet_cifar10", "edgesp-b", "--devices", "best", "--json").stdout)
    cut, cluster = network("alexnet_cifar10", exits=False), preset("edgesp-b")
    search = Partitioner(cut, cluster, FAST)
    assert record["devices"] == search.best_subset(search.names).devices
    assert record["average_s"] <= record["all_devices_s"] == search.partition(search.names).average_s
    assert len(record["devices"]) < len(search.names)  # two of them have no row


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["edgesp-a", "--max-dsp", "80%"],
            "--max-dsp: an option with a board, but edgesp-a is a cluster; leave it out",
        ),
        (["zc706", "--rule", "optimal"], "--rule: an option with a cluster, but zc706 is a board; leave it out"),
        (
            ["zc706,edgesp-a"],
            "PLATFORM: expected platforms of one kind, found the board zc706 and the cluster edgesp-a",
        ),
        (
            ["edgesp-a", "--rule", "best"],
            '--rule: expected one of marginal, optimal, layerwise, found "best"',
        ),
        (["edgesp-a,edgesp-b"], 'PLATFORM: expected one, as the search is on a cluster, found "edgesp-a,edgesp-b"'),
        (
            ["edgesp-a", "--devices", "0"],
            "--devices: expected numbers from 1 to 10, the devices of edgesp-a, the smaller one first, found 0",
        ),
        (["edgesp-a", "--rule", "paper"], '--rule: expected one of marginal, optimal, layerwise, found "paper"'),
        (
            ["edgesp-a", "--devices", "2..x"],
            '--devices: expected a number, two with .. between, or best, found "2..x"',
        ),
        (["edgesp-a", "--devices", "1..3", "-o", "d"], "--output: expected one number of devices, found a sweep"),
        (["edgesp-a", "--plot", "p.svg"], "--plot: draws a sweep, found one number of devices; write e.g. --devices"),
        (["edgesp-a", "--bandwidth", "9MB"], 'expected a unit (kb/s, Mb/s, Gb/s), found unit "MB" in "9MB"'),
        (["edgesp-a", "--bandwidth", "1e-9kb/s"], "edgesp-a: expected alexnet_cifar10 to take at most 1e+09 s"),
    ],
)
def test_faults_of_the_command_line(fluidb: Run, arguments: list[str], said: str):
    (line,) = lines(fluidb("dse", "alexnet_cifar10", *arguments))
    assert said in line


CLUSTERS: dict[
    str, Any
] = {  # issue 46, F11: network, devices' GFLOP/s, links' Mb/s; time, devices and those that are idle
    "a slow link": ("alexnet_cifar10", (8.0, 16.0), 3.0, 41.80, ["edge"], []),
    "a server that is worth a part": ("mobilenet_v1", (40.0, 1000.0), 100.0, 26.76, ["edge", "server"], []),
}


@pytest.mark.parametrize("case", CLUSTERS)
def test_where_one_device_is_faster_the_fastest_subset_is_found(tmp_path, case):
    """All devices by the rule marginal are slower than one alone; a device that runs the last layers is not idle."""
    name, rates, mbit_s, time_ms, devices, idle = CLUSTERS[case]
    named = [
        {"name": device, "gflop_s": rate, "memory_gb": 8.0}
        for device, rate in zip(["edge", "server"], rates, strict=True)
    ]
    content = {
        "schema": "fluidb.cluster/1", "name": "two", "title": "two", "owner": "edge", "communication": "once",
        "word_bits": 32, "devices": named, "links": [{"device": each["name"], "mbit_s": mbit_s} for each in named],
    }  # fmt: skip
    cluster = Cluster.model_validate(content)
    cut = cut_into_rows(*read_network_file(name))
    (plain,) = study(cut, cluster, PartitionOptions(), [2])
    assert plain.speedup is not None
    assert plain.speedup < 1
    assert plain.every.wholes[-1].device not in plain.every.idle
    mended = with_fewer(plain, cut, cluster, [FusionRule.OPTIMAL, FusionRule.MARGINAL])
    assert mended.chosen.average_s * 1e3 == pytest.approx(time_ms, abs=0.005)
    assert (mended.chosen.devices, mended.chosen.idle) == (devices, idle)
    assert with_fewer(mended, cut, cluster, [FusionRule.MARGINAL]) is mended
