"""Layers that cannot be cut into rows: one device of the cluster runs them, the one with which all is fastest."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import naive_partition as naive
import numpy as np
import pytest
from builders import Run, lines
from fluidb.dse.partition.baselines import StageHost, run_in_turn
from fluidb.dse.partition.explanation import explain_partition
from fluidb.dse.partition.schedule import alone, pipelined_table, pipelining
from fluidb.dse.partition.search import Partitioner
from fluidb.dse.partition.tabulate import tabulate_latency
from fluidb.formats import InputError
from fluidb.models.loader import layer_shapes, read_network_file
from fluidb.models.rows import cut_into_rows
from fluidb.models.schema import NetworkFile
from fluidb.platforms import Cluster, load_platform
from fluidb.tables.partition import FusionRule, PartitionOptions, PartitionTable
from naive_wholes import alone_s, draw_mixed, placed, weights_of, works_of

LSTM = """schema = "fluidb.network/1"
name = "words"
title = "A keyword network"
input = { height = 100, width = 1, channels = 64 }
layers = [{ name = "lstm", op = "recurrent", hidden = 48, gates = 4 },
          { name = "more", op = "recurrent", hidden = 128, gates = 4 },
          { name = "last", op = "view", shape = [1, 1, 128] }, { name = "fc", op = "linear", out = 12 }]
exits = [{ after = "lstm", rate = 0.5, layers = [{ name = "fc", op = "linear", out = 12 }] }]
"""


def drawn(seed: int) -> tuple[NetworkFile, Cluster, Partitioner, PartitionTable]:
    rng = np.random.default_rng(seed)
    file, cluster = draw_mixed(rng), naive.draw_cluster(rng)
    options = PartitionOptions(rule=FusionRule(str(rng.choice(list(FusionRule)))))
    search = Partitioner(cut_into_rows(file, naive.PATH), cluster, options)
    return file, cluster, search, search.partition(search.names)


def test_every_layer_runs_once_in_its_stage_on_maps_that_are_there():
    kinds = set()
    for seed in range(150):
        file, _, search, table = drawn(seed)
        works = works_of(file, layer_shapes(file))
        assert [sorted(names) for names in placed(table)] == [sorted(stage) for stage in works], seed
        tail = [layer.name for layer in search.network.trunk.tail]
        reads = dict(zip((op.name for op in file.layers), naive.sources_of(file), strict=True))
        entry = search.network.trunk.units[-1].name if search.network.trunk.units else "input"
        for place, name in enumerate(tail):
            assert set(reads[name]) <= {entry, *tail[:place]}, seed
        kinds |= {op.op for op in file.layers if op.name in tail}
        table = PartitionTable.model_validate_json(table.model_dump_json(by_alias=True))  # what the file says
        latency = tabulate_latency(table)
        assert latency.pass_s()[0, 1] == pytest.approx(table.exit_s[-1])
        assert alone(table).exit_s == pytest.approx(table.exit_s) or table.cluster.uplink
        assert explain_partition(table).devices
    assert kinds >= {"recurrent", "convtranspose", "matmul", "gemm", "view", "concat", "linear", "conv", "maxpool"}


def test_layers_on_whole_maps_take_the_time_of_their_products():
    gathers = 0
    for seed in range(150):
        file, cluster, search, table = drawn(seed)
        shapes = layer_shapes(file)
        works = works_of(file, shapes)
        members = {device.name: device for device in cluster.devices}
        begun = False
        for op, layer in zip(
            file.layers[len(file.layers) - len(tail := search.network.trunk.tail) :], tail, strict=True
        ):
            source = shapes[naive.sources_of(file)[file.layers.index(op)][0]]
            assert layer.weights == weights_of(op, source), seed
        for step in table.wholes:
            device = members[step.device]
            wire = cluster.uplink or next(link for link in cluster.links if link.device == step.device)
            work = [works[step.stage - 1][name] for name in step.layers]
            run_s = sum(flops / (1e9 * device.gflop_s) + fixed * device.layer_s for flops, fixed in work)
            assert step.compute_s == pytest.approx(run_s), seed
            words = 0
            blocks = [block for block in table.blocks if block.stage <= step.stage]
            if search.network.trunk.units and not begun and cluster.communication != "eq3":
                last = [block for block in blocks if not block.in_branch or block.stage == step.stage][-1]
                row = last.layers[-1].name.partition("/")[2] or last.layers[-1].name
                row_words = shapes[row].words // shapes[row].height
                rows = {name: end - first for name, (first, end) in zip(table.devices, last.shares, strict=True)}
                words = row_words * sum(count for name, count in rows.items() if name != step.device)
            elif not search.network.trunk.units and not begun:
                has_input = step.device == cluster.owner and (cluster.owner_has_input or len(table.devices) == 1)
                words = 0 if has_input else shapes["input"].words
            begun = begun or not step.in_branch
            sent_s = wire.latency_s + 8e-6 * 4 * words / wire.mbit_s if words else 0.0
            assert (sum(step.sent_bytes), step.gather_s) == pytest.approx((4 * words, sent_s)), seed
            gathers += words > 0
    assert gathers > 30


def test_a_network_that_cannot_be_cut_runs_on_the_device_that_is_fastest():
    """Against all of them, one by one; the owner sends the input."""
    hosts = set()
    for seed in range(200):
        file, cluster, search, table = drawn(seed)
        if search.network.trunk.units:
            continue
        times_s = {name: alone_s(file, layer_shapes(file), cluster, name) for name in search.names}
        assert table.average_s == pytest.approx(min(times_s.values())), seed
        best = search.best_subset(search.names)
        assert best.average_s <= table.average_s * (1 + 1e-9)
        strongest = max(cluster.devices, key=lambda device: device.gflop_s).name
        hosts.add((table.wholes[0].device == cluster.owner, table.wholes[0].device == strongest))
    assert len(hosts) == 4  # the owner or not, the strongest or not


def test_behind_rows_no_other_device_is_faster(monkeypatch: pytest.MonkeyPatch):
    """A device that is better in nothing may be, as it may have more rows of the last map."""
    compared = weaker = 0
    for seed in range(150):
        _, cluster, search, table = drawn(seed)
        if not search.network.trunk.units or not all(device.gflop_s for device in cluster.devices):
            continue
        for host in range(len(search.names)):
            monkeypatch.setattr(search, "_hosts", lambda names, host=host: [host])
            with suppress(InputError):  # too little memory
                assert table.average_s <= search.partition(search.names).average_s * (1 + 1e-9), seed
                compared += 1
        if table.wholes:
            devices = {device.name: (device.gflop_s, -device.layer_s) for device in cluster.devices}
            weaker += any(all(np.greater(other, devices[table.wholes[0].device])) for other in devices.values())
    assert compared > 100
    assert weaker


def test_stages_in_turn_send_the_map_at_an_exit_behind_the_rows(tmp_path: Path):
    (tmp_path / "n.toml").write_text(LSTM)
    cut = cut_into_rows(*read_network_file(str(tmp_path / "n.toml")))
    places = [StageHost("near", 1.0, 8.0), StageHost("far", 2.0, 16.0)]
    first, end = run_in_turn(cut, places, "near")
    flops = [100 * 2 * 4 * 48 * 113 + 100 * 2 * 49 * 12, 100 * 2 * 4 * 128 * 177 + 2 * 129 * 12]
    assert first == pytest.approx(flops[0] / 1e9)
    assert end - first == pytest.approx(32 * 100 * 48 / 16e6 + flops[1] / 2e9)


@pytest.mark.parametrize(
    ("near", "far", "steps", "host"),
    [
        ({"gflop_s": 1.0}, {"gflop_s": 9.0}, 1, "near"),  # 1 s to send the input
        ({"gflop_s": 1.0}, {"gflop_s": 9.0}, 1000, "far"),
        ({"gflop_s": 1.0}, {"gflop_s": 9.0, "layer_s": 0.5}, 1000, "mid"),
        ({"gflop_s": 1.0, "memory_gb": 1e-6}, {"gflop_s": 9.0}, 1, "far"),
    ],
)
def test_the_device_is_chosen_by_rate_fixed_time_link_and_memory(
    tmp_path: Path, near: dict[str, float], far: dict[str, float], steps: int, host: str
):
    (tmp_path / "n.toml").write_text(LSTM.replace("exits =", f"steps = {steps}\nexits ="))
    devices = [{"name": "near", "memory_gb": 1.0, **near}, {"name": "far", "memory_gb": 1.0, **far}]
    devices.append({"name": "mid", "memory_gb": 1.0, "gflop_s": 8.0})
    links = [{"device": device["name"], "mbit_s": 0.2048} for device in devices]
    rng = np.random.default_rng(0)
    cluster = naive.draw_cluster(rng, devices=devices, links=links, uplink=None, owner="near", owner_has_input=True)
    search = Partitioner(cut_into_rows(*read_network_file(str(tmp_path / "n.toml"))), cluster, PartitionOptions())
    assert {step.device for step in search.partition(search.names).wholes} == {host}


def test_steps_of_a_decoder_count(tmp_path: Path):
    """Its stage runs once for every word, on the cluster and in the schedule of images that follow each other."""
    cluster = load_platform("edgesp-a", kind=Cluster)
    search = Partitioner(cut_into_rows(*read_network_file("transformer_seq2seq")), cluster, PartitionOptions())
    table = search.partition(["pi-1", "vm-1"])
    encoder_s, word_s = table.stage_s
    steps = table.exits[-1].steps
    assert steps > 1
    assert table.exit_s == pytest.approx([encoder_s, encoder_s + steps * word_s])
    (device,) = [each for each in explain_partition(table).devices if each.name == "vm-1"]
    assert device.compute_s + device.transfer_s == pytest.approx(table.exit_s[-1])
    schedules = pipelining(table)
    assert schedules.alone_s == pytest.approx(table.exit_s[-1])
    chosen = schedules.choices[0]
    if chosen.mean_interval_s < schedules.average_s / 2:
        assert pipelined_table(table, chosen).pass_s()[0, 1] == pytest.approx(chosen.latency_s)


def test_a_recurrent_network_from_search_to_serving(fluidb: Run, tmp_path: Path):
    (tmp_path / "n.toml").write_text(LSTM)
    text = fluidb("dse", "n.toml", "edgesp-b", "-o", "d").stdout
    assert 'lstm and all behind: the first layer, "lstm" (recurrent), needs a whole map' in text
    assert re.search("^blocks +none$", text, re.MULTILINE)
    record = json.loads(fluidb("dse", "n.toml", "edgesp-b", "--json").stdout)
    assert record["uncut"] == ['lstm and all behind: the first layer, "lstm" (recurrent), needs a whole map']
    assert [(step["stage"], step["layers"]) for step in record["wholes"]] == [
        (1, ["lstm"]), (1, ["exit1/fc"]), (2, ["more", "last", "fc"]),
    ]  # fmt: skip
    assert record["exits"][-1]["time_s"] == pytest.approx(
        (100 * 2 * 4 * (48 * 113 + 128 * 177) + 100 * 2 * 49 * 12 + 2 * 129 * 12) / 3.6e9, rel=1e-9
    )
    text = fluidb("explain", "d").stdout
    assert "more .. fc" in text
    assert [step["layers"][0] for step in json.loads(fluidb("explain", "d", "--json").stdout)["wholes"]][-1] == "more"
    (line,) = lines(fluidb("explain", "d", "--plot", "p.svg"))
    assert "--plot: draws rows by device, found none, as one device runs all of words" in line
    (line,) = lines(fluidb("explain", "d", "--layer", "fc"))
    assert "expected one that runs in a block, and words has no block" in line
    assert "one at a time" in fluidb("pipeline", "d").stdout
    fluidb("trace", "poisson", "--rate", 20, "--count", 50, "-o", "t.csv")
    served = json.loads(fluidb("serve-sim", "d", "--trace", "t.csv", "--slo", "1s", "--json").stdout)
    assert served["requests"] == 50


def test_exits_stand_at_cuts_or_behind_the_rows(fluidb: Run, tmp_path: Path):
    (tmp_path / "n.toml").write_text(
        LSTM.replace('layers = [{ name = "lstm"', 'layers = [{ name = "a", op = "conv", out = 64, kernel = 1 },\n'
                     '{ name = "b", op = "conv", out = 64, kernel = 1 }, '
                     '{ name = "c", op = "add", from = ["a", "b"] },\n'
                     '{ name = "lstm"', 1).replace('after = "lstm"', 'after = "b"')
    )  # fmt: skip
    (line,) = lines(fluidb("dse", "n.toml", "edgesp-b"))
    assert 'expected a place where the network can be cut, found "b"; these are a, c and all behind' in line
