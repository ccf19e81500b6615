"""Squeeze-and-excite over a cluster: every device sends the sums of its rows, and waits for what one makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import naive_partition as naive
import numpy as np
import pytest
from builders import Run
from fluidb.dse.partition.blocks import Blocks, Span
from fluidb.dse.partition.schedule import alone, busy_s
from fluidb.dse.partition.search import Partitioner
from fluidb.models.loader import layer_shapes, read_network_file
from fluidb.models.rows import cut_into_rows
from fluidb.platforms import Cluster, load_platform
from fluidb.tables.partition import FusionRule, PartitionOptions, PartitionTable


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_shares_with_gates_compute_the_numbers_and_cost_what_plain_loops_say(start: int):
    gates = 0
    for seed in range(start, start + 20):
        rng = np.random.default_rng(seed)
        file, cluster = naive.draw_network(rng, gates=True), naive.draw_cluster(rng)
        options = PartitionOptions(rule=FusionRule(str(rng.choice(list(FusionRule)))))
        search = Partitioner(cut_into_rows(file, naive.PATH), cluster, options)
        table = search.partition(search.names)
        table = PartitionTable.model_validate_json(table.model_dump_json(by_alias=True))  # what the file says
        shapes = layer_shapes(file)
        weights = naive.weights_of(file, {name: shape.channels for name, shape in shapes.items()}, rng)
        image = rng.normal(size=shapes["input"])
        whole = naive.run_whole(file, shapes, image, weights)
        for name, rows in naive.run_shares(file, table, shapes, image, weights).items():
            np.testing.assert_allclose(rows, whole[name], rtol=1e-9, atol=1e-12, err_msg=f"seed {seed}, {name}")
        trunk = [block for block in table.blocks if not block.in_branch]
        for block, (compute_s, sent, time_s) in zip(trunk, naive.cost_of(file, shapes, table), strict=True):
            assert block.compute_s == pytest.approx(compute_s)
            assert block.link_bytes == pytest.approx(sent)
            assert block.time_s == pytest.approx(time_s)
            gates += len(block.gates)
        if not cluster.uplink:
            assert alone(table).exit_s == pytest.approx(table.exit_s)
        hosts = {gate.device for block in table.blocks for gate in block.gates}
        assert all(busy_s(table)[f"{name} processor"] > 0 for name in hosts)
    assert gates > 10


@pytest.mark.parametrize("seed", range(20))
def test_maps_with_gates_take_the_memory_of_their_rows(seed: int):
    """Of each block and all shares: a map that is averaged has rows that nothing else needs."""
    file = naive.draw_network(np.random.default_rng(seed), gates=True, exits=False)
    blocks = Blocks(cut_into_rows(file, naive.PATH), 4)
    units = len(blocks.network.trunk.units)
    for span in (Span(0, first, end) for end in range(1, units + 1) for first in range(end)):
        needs, found, part = blocks.needs(span), blocks.fused(span), blocks.units(span)
        maps = {part[0].entry: part[0].source} | {layer.name: layer.shape for unit in part for layer in unit.layers}
        for bound, place in ((found.map_first, 0), (found.map_end, 1)):
            words = sum(maps[name].width * maps[name].channels * rows[place] for name, rows in needs.items())
            assert bound == pytest.approx(4 * words)


@pytest.mark.parametrize("network", ["ofa_mobilenet_v3:A", "mobilenet_v3_small", "efficientnet_b0"])
def test_networks_with_squeeze_and_excite_run_on_a_cluster(network: str):
    file, path = read_network_file(network)
    cut = cut_into_rows(file, path)
    scales = [op.name for op in file.layers if op.op == "memory"]
    assert sum(len(unit.gates) for unit in cut.trunk.units) == len(scales) > 0
    table = Partitioner(cut, load_platform("edgesp-a", kind=Cluster), PartitionOptions()).partition(["pi-1", "vm-1"])
    first = next(gate for block in table.blocks for gate in block.gates)
    words = next(gate for unit in cut.trunk.units for gate in unit.gates)
    assert first.sent_bytes == [4 * (words.read_words + words.made_words), 0]  # to vm-1, the strongest, and back
    assert first.gather_s == pytest.approx(8 * first.sent_bytes[0] / 1e8)
    made = [layer.name for block in table.blocks for layer in block.layers]
    assert set(scales) <= set(made)


def test_the_gates_of_a_partition_are_in_its_file_and_on_the_screen(fluidb: Run, tmp_path: Path):
    done = fluidb("dse", "mobilenet_v3_small", "edgesp-a", "--devices", 2, "-o", "part")
    assert "within: features.1.block.1.avgpool .. features.1.block.1.fc2" in done.stdout
    blocks = json.loads((tmp_path / "part" / "partition.json").read_text())["blocks"]
    assert [name for block in blocks for gate in block.get("gates", []) for name in gate["layers"][-1:]][:2] == [
        "features.1.block.1.fc2", "features.4.block.2.fc2",
    ]  # fmt: skip
    assert "computed twice" in fluidb("explain", "part").stdout
    assert "bound" in fluidb("pipeline", "part").stdout


def test_what_is_no_average_is_not_gathered_inside(tmp_path: Path):
    """A maximum, or any other layer of the whole map, would need all rows at one place."""
    (tmp_path / "n.toml").write_text(
        'schema = "fluidb.network/1"\nname = "n"\ntitle = "n"\ninput = { height = 6, width = 6, channels = 4 }\n'
        'layers = [{ name = "a", op = "conv", out = 4, kernel = 1 },\n'
        '{ name = "most", op = "memory", shape = [1, 1, 4] },\n'
        '{ name = "g", op = "linear", out = 4 }, { name = "s", op = "memory", from = ["a", "g"], rowwise = true }]\n'
    )
    cut = cut_into_rows(*read_network_file(str(tmp_path / "n.toml")))
    assert cut.uncut == ['most and all behind: rows of "most" (memory) may need its whole input']
    assert [unit.name for unit in cut.trunk.units] == ["a"]
    assert [layer.name for layer in cut.trunk.tail] == ["most", "g", "s"]
