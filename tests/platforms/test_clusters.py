"""Clusters: the shipped ones and the faults of a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import Run, lines
from fluidb.formats import read_toml
from fluidb.platforms import Cluster, load_platform
from fluidb.platforms.writer import platform_text

SMALL = """schema = "fluidb.cluster/1"
name = "small"
title = "Two devices"
owner = "a"
devices = [
  { name = "a", gflop_s = 1.0, memory_gb = 1.0 },
  { name = "b", gflop_s = 2.0, layer_s = 1e-3, memory_gb = 1.0 },
]
links = [{ device = "a", mbit_s = 10.0 }, { device = "b", mbit_s = 20.0, latency_s = 1e-3 }]
"""


@pytest.mark.parametrize(("name", "per_ghz", "virtual"), [("edgesp-a", 2.8, 3), ("edgesp-b", 2.4, 1)])
def test_the_presets_are_table_1_of_the_paper(name: str, per_ghz: float, virtual: int):
    cluster = load_platform(name, kind=Cluster)
    clocks = [1.5, 1.5, 1.0, 1.0, 0.8, 0.8, 1.0, 1.0, 0.8, 0.8]
    rates = [per_ghz * clock * (1 if clock == 1.5 else virtual) for clock in clocks]
    assert [device.gflop_s for device in cluster.devices] == pytest.approx(rates)
    assert {device.memory_gb for device in cluster.devices} == {4.0}
    assert {link.mbit_s for link in cluster.links} == {100.0}
    assert (cluster.unsourced, cluster.owner) == ([], "pi-1")


@pytest.mark.parametrize("shared", [False, True])
def test_a_file_is_written_as_it_is_read(tmp_path: Path, shared: bool):
    text = SMALL
    if shared:
        text = (
            "\n".join(line for line in SMALL.splitlines() if not line.startswith("links"))
            + "\nuplink = { mbit_s = 5.0 }\n"
        )
    (tmp_path / "c.toml").write_text(text)
    cluster = load_platform(str(tmp_path / "c.toml"), kind=Cluster)
    (tmp_path / "d.toml").write_text(platform_text(cluster))
    assert read_toml(Cluster, tmp_path / "d.toml") == cluster
    assert cluster.row[3] == ("5 shared" if shared else "10 to 20")
    assert {"gflop_s", "memory_gb", "layer_s", "mbit_s"} <= set(cluster.unsourced)


def test_another_bandwidth_says_who_gave_it():
    cluster = load_platform("edgesp-a", kind=Cluster).with_bandwidth(50)
    assert {link.mbit_s for link in cluster.links} == {50}
    assert cluster.sources["mbit_s"] == "given by the user"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('{ device = "a", mbit_s = 10.0 }, ', "", 'links: expected one for "a", found none'),
        ('device = "b"', 'device = "c"', 'expected one for "b", found none; links: expected devices, found "c"'),
        ('device = "b"', 'device = "a"', 'expected one for "b", found none; links: expected one for "a", found two'),
        ('name = "b"', 'name = "a"', 'expected a new name, found "a" twice'),
        ('owner = "a"', 'owner = "z"', 'owner: expected a device, found "z"; these are a, b'),
        ('owner = "a"', 'owner = "a"\nuplink = { mbit_s = 1.0 }', "links, uplink: expected one of the two, found both"),
        ('owner = "a"', 'owner = "a"\ncommunication = "all"', "expected one of eq3, once, halo, found all"),
        ("gflop_s = 1.0", "gflop_s = -1.0", 'devices[0] ("a").gflop_s: expected at least 0, found -1.0'),
        ("mbit_s = 10.0", "mbit = 10.0", "links[0].mbit: unknown key; did you mean mbit_s?"),
        ("gflop_s = 2.0", "rate = 2.0", 'devices[1] ("b").gflop_s: expected this key, found none'),
    ],
)  # fmt: skip
def test_faults_of_a_file(fluidb: Run, tmp_path: Path, before: str, after: str, said: str):
    assert before in SMALL
    (tmp_path / "c.toml").write_text(SMALL.replace(before, after, 1))
    assert any(said in line for line in lines(fluidb("platforms", "check", "c.toml")))


def test_a_cluster_without_a_rate_is_refused(fluidb: Run, tmp_path: Path):
    (tmp_path / "c.toml").write_text(SMALL.replace("1.0, mem", "0.0, mem").replace("2.0, layer", "0.0, layer"))
    (line,) = lines(fluidb("dse", "alexnet_cifar10", "c.toml"))
    assert line.endswith("devices: expected one with gflop_s above 0, found none")


def test_other_commands_say_how_a_cluster_gets_its_table(fluidb: Run):
    for command in (["pareto", "alexnet_cifar10", "edgesp-a"], ["latency", "alexnet_cifar10", "edgesp-a", "-o", "d"]):
        (line,) = lines(fluidb(*command))
        assert "found a cluster; make its table with `fluidb dse NETWORK edgesp-a -o DIR`" in line


@pytest.mark.parametrize("command", ["fbcb", "latency"])
def test_commands_on_designs_say_that_a_folder_holds_a_partition(fluidb: Run, command: str):
    assert fluidb("dse", "alexnet_cifar10", "edgesp-a", "--devices", 1, "-o", "p").returncode == 0
    (line,) = lines(fluidb(command, "p"))
    assert line.startswith("fluidb: p: expected the folder of a design for a board, found a partition; search a design")
