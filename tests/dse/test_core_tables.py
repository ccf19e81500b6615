"""The latency table of cores: of designs and of engines, and what cannot share a memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from builders import POCKET, TINY, Run, call_fluidb, lines
from fluidb.dse.cores import design_cores, engine_cores, tabulate_cores
from fluidb.dse.device.engine import needs
from fluidb.dse.npu.costs import layer_costs
from fluidb.dse.npu.design import read_design
from fluidb.formats import InputError
from fluidb.models.loader import read_network_file
from fluidb.platforms import load_platform
from fluidb.platforms.engine import Engine
from fluidb.serving import ServedNetwork
from fluidb.serving.networks import as_served
from fluidb.tables import read_latency
from fluidb.tables.latency import LatencyTable

LIMITS = ("--max-dsp", "50%", "--max-ram", "50%")


@pytest.fixture(scope="module")
def designs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small designs that can stand beside each other, or cannot."""
    folder = tmp_path_factory.mktemp("cores")
    for name, more in {
        "half": ("--b-max", 2, *LIMITS),
        "third": ("--b-max", 2, "--max-dsp", "33%", "--max-ram", "33%"),
        "whole": ("--b-max", 2),
        "larger": ("--b-max", 3, *LIMITS),
    }.items():
        assert call_fluidb("dse", TINY, POCKET, "-o", name, *more, cwd=folder).returncode == 0
    other = folder / "other.toml"
    other.write_text(Path(POCKET).read_text().replace('"pocket"', '"other"'))
    assert call_fluidb("dse", TINY, other, "-o", "elsewhere", "--b-max", 2, *LIMITS, cwd=folder).returncode == 0
    return folder


def test_a_core_has_the_times_of_its_design_and_moves_its_words(designs: Path) -> None:
    """Words of each stage over the board's bandwidth, of its time, by plain loops."""
    kinds = [designs / "half", designs / "third"]
    table = tabulate_cores(design_cores(kinds, [1, 1]))
    assert table.cores is not None
    assert (table.lanes, table.cores.of, table.cores.contention, table.platform) == (2, [0, 1], 1.0, "pocket")
    for kind, folder in enumerate(kinds):
        design, fbcb = read_design(folder)
        costs, board = layer_costs(design, fbcb), design.platform
        for stage, b in np.ndindex(len(table.exits), table.b_max):
            here = [k for k, layer in enumerate(design.network.layers) if layer.stage == stage + 1]
            time_s = sum(costs.time_s[k, b] for k in here)
            moved_s = sum(costs.words[k, b] for k in here) * board.word_bits / 8 / (1e9 * board.bandwidth_gb_s)
            assert table.stage_array()[kind, stage, b + 1] == pytest.approx(time_s)
            assert table.cores.moving[kind][stage][b] == pytest.approx(min(1.0, moved_s / time_s))


def test_equal_cores_keep_the_causes_of_their_times_and_unequal_ones_have_none(designs: Path) -> None:
    equal = tabulate_cores(design_cores([designs / "half"], [2]))
    assert equal.cores is not None
    assert (equal.cores.of, len(equal.cores.names), equal.machine) == ([0, 0], 1, "NPU")
    unequal = tabulate_cores(design_cores([designs / "half", designs / "third"], [1, 1]))
    assert unequal.segments(by_layer=True).causes == []
    assert unequal.segments(by_layer=True).energy_j is not None


def test_an_engine_moves_its_bytes(fluidb: Run, tmp_path: Path) -> None:
    file, path = read_network_file("mobilenet_v1")
    engine = load_platform("dpu-b4096-zcu104", kind=Engine)
    table = tabulate_cores(engine_cores(file, path, [engine], [2]))
    need = needs(file, path, engine)
    assert table.cores is not None
    assert table.cores.moving[0][0][0] == pytest.approx(
        need.bytes.sum() / (1e9 * 6.794) / table.stage_array()[0, :, 1].sum()
    )
    assert table.cores.contention == 0.315
    assert engine.model_copy(update={"contention": None}).share_of_memory == pytest.approx(6.794 / 19.2)
    done = fluidb("latency", "mobilenet_v1", "dpu-b4096-zcu104", "--cores", 2, "-o", "two", "--json")
    assert json.loads(done.stdout)["cores"]["of"] == [0, 0]
    assert read_latency(tmp_path / "two") == table


@pytest.mark.parametrize(
    ("kinds", "cores", "said"),
    [
        ("half", "0", "--cores: expected at least one of each kind, and 2 to 64 in all, found 0"),
        ("half", "1", "--cores: expected at least one of each kind, and 2 to 64 in all, found 1"),
        ("half,third", "2", "--cores: expected a number for each of half, third, found 1 numbers; write e.g. 1,1"),
        ("half", "two", '--cores: expected whole numbers with commas between, found "two"; e.g. 2 or 1,2'),
        ("whole", "2", "--cores: expected designs that fit pocket together, found "),
        ("half,larger", "1,1", "--cores: <"),
        ("half,elsewhere", "1,1", "elsewhere: expected a design for pocket with the resources of half, found one"),
        ("nowhere", "2", "nowhere: "),
    ],
)
def test_what_cannot_stand_beside_each_other_is_refused(
    designs: Path, tmp_path: Path, kinds: str, cores: str, said: str
) -> None:
    done = call_fluidb("latency", kinds, "--cores", cores, "-o", tmp_path / "out", cwd=designs)
    (line,) = lines(done)
    assert said in line
    if kinds == "half,larger":
        assert "expected the b_max of <" in line
        assert "found 2 and 3; make both alike" in line
    assert not (tmp_path / "out").exists()


def test_networks_and_exits_must_be_the_same() -> None:
    engine = load_platform("dpu-b4096-zcu104", kind=Engine)
    (one,) = engine_cores(*read_network_file("mobilenet_v1"), [engine], [1])
    (two,) = engine_cores(*read_network_file("mobilenet_v2"), [engine], [1])
    with pytest.raises(InputError, match="expected the network of dpu-b4096-zcu104, found mobilenet_v1 and mobilenet"):
        tabulate_cores([one, two])
    exits = [row.model_copy(update={"name": "other"}) for row in one.table.exits]
    other = one._replace(table=one.table.model_copy(update={"exits": exits}))
    with pytest.raises(InputError, match="expected the exits of dpu-b4096-zcu104, found other ones; make both alike"):
        tabulate_cores([one, other])


def test_cores_need_a_folder(designs: Path) -> None:
    (line,) = lines(call_fluidb("latency", "half", "--cores", "2", cwd=designs))
    assert line == "fluidb: latency: --cores expects --output and no --plot; write e.g. --cores 2 -o DIR"


def test_networks_on_cores_have_the_design_of_each_core(designs: Path) -> None:
    """Of each kind of cores: the same two designs in the other order are other cores."""
    half, third = designs / "half", designs / "third"
    pair = tabulate_cores(design_cores([half, third], [1, 1]))
    assert pair.npus is not None
    tiles = [list(read_design(folder)[0].tile[:3]) for folder in (half, third)]
    assert [npu.tile for npu in pair.npus] == tiles

    def served(*tables: LatencyTable) -> int:
        return len(as_served([ServedNetwork(name=f"n{k}", table=table) for k, table in enumerate(tables)]))

    assert served(pair, pair.model_copy()) == 2
    with pytest.raises(InputError, match="networks: expected times of one NPU, found <.* in n0, and <.* in n1; search"):
        served(pair, tabulate_cores(design_cores([third, half], [1, 1])))
