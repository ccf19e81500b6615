"""A partition, explained: rows computed twice against sets of rows, waiting, bytes, the timeline, and the picture."""

from __future__ import annotations

import copy
import json
import math
import re
import shutil
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Run, lines
from fluidb.dse.partition.explanation import explain_partition
from fluidb.dse.partition.schedule import alone, pipelining
from fluidb.dse.partition.tabulate import tabulate_latency
from fluidb.formats import InputError, tables, validate
from fluidb.tables.partition import PartitionTable, read_partition


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from builders import call_fluidb

    where = tmp_path_factory.mktemp("partition")
    made = call_fluidb("models", "exits", "alexnet_cifar10", "--at", "edgesp", "-o", "net.toml", cwd=where)
    assert made.returncode == 0, made.stderr
    done = call_fluidb("dse", "net.toml", "edgesp-a", "--devices", 4, "-o", "p", cwd=where)
    assert done.returncode == 0, done.stderr
    return where / "p"


def test_rows_waits_and_bytes_add_up(folder):
    table = read_partition(folder)
    explanation = explain_partition(table)
    computed = twice = 0
    for item, block in zip(explanation.blocks, table.blocks, strict=True):
        spent = [a + b for a, b in zip(block.compute_s, block.transfer_s, strict=True)]
        assert item.waits_for == table.devices[spent.index(max(spent))]
        assert block.wait_s == pytest.approx([block.time_s - own for own in spent])
        assert min(block.wait_s) == pytest.approx(0, abs=1e-12)
        waits = sorted(wait for wait, (first, end) in zip(block.wait_s, block.shares, strict=True) if end > first)
        assert block.mean_wait_s == pytest.approx(np.mean(waits[1:]) if waits[1:] else 0, abs=1e-12)
        assert item.layers[-1].twice == 0  # shares tile the block's output
        for layer, rows in zip(item.layers, block.layers, strict=True):
            every = [row for first, end in rows.rows for row in range(first, end)]
            assert (layer.computed, layer.distinct) == (len(every), len(set(every)))
            computed, twice = computed + len(every), twice + len(every) - len(set(every))
    assert explanation.twice_share == twice / computed > 0
    assert sum(device.link_bytes + device.sent_bytes for device in explanation.devices) == pytest.approx(
        table.communication_bytes
    )
    for k, device in enumerate(explanation.devices):
        blocks_s = sum(block.compute_s[k] for block in table.blocks)
        wholes_s = sum(step.compute_s for step in table.wholes if step.device == device.name)
        assert device.compute_s == pytest.approx(blocks_s + wholes_s)
        assert device.compute_s + device.transfer_s + device.idle_s == pytest.approx(table.exit_s[-1])
    assert alone(table).exit_s == pytest.approx(table.exit_s)


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key at any depth; of a list the first item stands for all."""
    keys = content if isinstance(content, dict) else range(1) if content and isinstance(content, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(content[key], (*path, key))


def others(value: Any) -> list[Any]:
    """Other values of the same type."""
    if isinstance(value, list):
        return [value[1:], [*value, *value[:1]], value[::-1], []]
    if isinstance(value, float | int) and not isinstance(value, bool):
        return [0, value / 2, value + 1, 10**9 * value]
    return ["x", ""] if isinstance(value, str) else []


def test_a_file_that_is_changed_and_sealed_anew_is_refused_or_read(fluidb: Run, tmp_path, folder):
    """One value or list is another: what reads the table gives a fault or an answer, in reasonable time."""
    content = json.loads((folder / "partition.json").read_text())
    schema, refused = content.pop("schema"), 0
    del content["sha256"]
    for *path, key in places(content):
        changed = copy.deepcopy(content)
        inside = reduce(getitem, path, changed)
        for other in others(inside[key]):
            inside[key] = other
            try:
                table = validate(PartitionTable, changed, Path("partition.json"))
                pipeline = pipelining(table)
                explain_partition(table)
                tabulate_latency(table)
                assert all(map(math.isfinite, (pipeline.most_gain, pipeline.alone_s)))
            except InputError as fault:
                refused += 1
                assert all("\n" not in line for line in fault.faults)
    assert refused > 100
    content["wholes"][0]["sent_bytes"].append(0.0)
    content["schema"] = schema
    shutil.copytree(folder, tmp_path / "p")
    (tmp_path / "p" / "partition.json").write_text(json.dumps(content | {"sha256": tables._digest(content)}))
    for command in ("pipeline", "explain"):
        (line,) = lines(fluidb(command, "p"))
        assert "partition.json: wholes: stage 1: expected 4 entries by device" in line


def test_what_is_printed_drawn_and_written(fluidb: Run, tmp_path, folder):
    shutil.copytree(folder, tmp_path / "p")
    done = fluidb("explain", "p", "--plot", "p.svg", "--timeline", "t.json")
    assert (done.returncode, done.stderr) == (0, "")
    table = read_partition(folder)
    assert done.stdout.count("all wait") == 1
    assert all(name in (tmp_path / "p.svg").read_text() for name in table.devices)
    content = json.loads((tmp_path / "t.json").read_text())
    assert content["otherData"]["schema"] == "fluidb.partition-timeline/1"
    names = {event["tid"]: event["args"]["name"] for event in content["traceEvents"] if event["name"] == "thread_name"}
    slices = [event for event in content["traceEvents"] if event["ph"] == "X"]
    assert set(names.values()) == {f"{name} {part}" for name in table.devices for part in ("link", "processor")}
    first = {names[event["tid"]]: event for event in reversed(slices) if event["name"] == f"{table.blocks[0].name} 1"}
    for k, name in enumerate(table.devices):
        own = table.blocks[0]
        assert first[f"{name} processor"]["ts"] == pytest.approx(1e6 * own.transfer_s[k], abs=1e-3)
        assert first[f"{name} processor"]["dur"] == pytest.approx(1e6 * own.compute_s[k], abs=1e-3)
    assert max(event["ts"] + event["dur"] for event in slices) == pytest.approx(1e6 * table.exit_s[-1], abs=1e-2)
    again = fluidb("explain", "p", "--json")
    record = json.loads(again.stdout)
    assert record["schema"] == "fluidb.explain-partition-output/1"
    assert [block["layers"][-1]["name"] for block in record["blocks"]] == [block.name for block in table.blocks]
    one = fluidb("explain", "p", "--layer", "conv2", "--json")
    assert [block["layers"][0]["name"] for block in json.loads(one.stdout)["blocks"]] == ["conv1"]
    assert "input: needed" in fluidb("explain", "p", "--layer", "conv2").stdout


def test_a_picture_of_many_devices_names_those_with_rows(fluidb: Run, tmp_path):
    """Bars and names of 60 devices left no place for the picture; those without rows had a wrong colour."""
    names = ["pi", *(f"vm-{k}-" for k in range(59)), "zero-1-", "zero-2-"]
    devices = ", ".join(f'{{ name = "{n}", gflop_s = {0 if "zero" in n else 1e-4}, memory_gb = 1 }}' for n in names)
    head = 'schema = "fluidb.cluster/1"\nname = "many"\ntitle = "many"\nowner = "pi"\nuplink = { mbit_s = 1e6 }\n'
    (tmp_path / "many.toml").write_text(f"{head}devices = [{devices}]\n")
    net = 'schema = "fluidb.network/1"\nname = "n"\ntitle = "n"\ninput = { height = 64, width = 2, channels = 1 }\n'
    conv = '{ name = "conv", op = "conv", out = 2, kernel = 3, pad = 1 }'
    (tmp_path / "n.toml").write_text(f"{net}layers = [{conv}]\n")
    made = fluidb("dse", "n.toml", "many.toml", "-o", "m")
    assert made.returncode == 0, made.stderr
    done = fluidb("explain", "m", "--plot", "m.svg")
    assert (done.returncode, done.stderr) == (0, "")
    idle = read_partition(tmp_path / "m").idle
    assert idle == names[-2:]
    drawn = re.findall(r">([^<>]+)</text>", (tmp_path / "m.svg").read_text())
    assert set(drawn) & set(names) == set(names) - set(idle)


def test_faults_of_an_explanation(fluidb: Run, tmp_path, folder, tiny_design):
    shutil.copytree(folder, tmp_path / "p")
    (tmp_path / "t.json").write_text("")
    for arguments, expected in (
        (["p", "--layer", "fc"], "layer: expected one that runs in a block, e.g. conv3, exit1/conv"),
        (["p", "--batch", 1], "--batch: an option with a design, but p is a partition; leave it out"),
        ([tiny_design, "--timeline", "u.json"], "--timeline: an option with a partition, but"),
        (["p", "--timeline", "t.json"], "t.json: output exists already"),
    ):  # fmt: skip
        assert expected in lines(fluidb("explain", *arguments))[0]
