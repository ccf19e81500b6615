"""The exit-level latency table."""

from __future__ import annotations

import re
from pathlib import Path

import naive
import numpy as np
import pytest
from builders import POCKET, TINY, lines, paper_options
from fluidb.dse import Batching, Tile, search, tabulate_design, tabulate_latency
from fluidb.dse.npu.choices import Overlap
from fluidb.dse.npu.costs import layer_costs
from fluidb.dse.npu.options import SearchOptions
from fluidb.dse.npu.search import RankedDesign, SearchResult
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import load_platform


@pytest.mark.parametrize("mode", list(Batching))
@pytest.mark.parametrize("memory_layers", [True, False])
def test_table_equals_plain_loops(mode, memory_layers):
    """Stage by stage, heads and pools where they run, from the configuration that the FBCB holds."""
    network, board = load_network(TINY), load_platform(POCKET)
    options = paper_options(batching=mode, b_max=4, memory_layers=memory_layers)
    design, fbcb = tabulate_design(network, board, options, search(network, board, options))
    times = tabulate_latency(design, fbcb).array()
    for b in range(1, 5):
        stage_s = []
        for stage in (1, 2, 3):
            layers = [layer for layer in network.layers if layer.stage == stage]
            words = sum(layer.memory_words for layer in layers) if memory_layers else 0
            cycles = naive.network_cycles(
                [layer.gemm[:4] for layer in layers if layer.gemm], words, design.tile, b,
                board.words_per_cycle, mode.value, True,
            )  # fmt: skip
            stage_s.append(cycles / board.clock_hz)
        for i in range(4):
            for j in range(4):
                expected = sum(stage_s[i:j]) if i < j else 0.0
                assert times[i, j, b] == pytest.approx(expected, rel=1e-12)


def test_throughput_of_the_search_and_the_table_agree():
    network, board, options = load_network(TINY), load_platform(POCKET), paper_options(b_max=3)
    design, fbcb = tabulate_design(network, board, options, search(network, board, options))
    total_s = tabulate_latency(design, fbcb).array()[0, -1, 1:]
    assert design.gop_s == pytest.approx((2e-9 * network.macs * np.arange(1, 4) / total_s).tolist(), rel=1e-12)


def test_larger_batches_take_longer_in_all_but_less_for_each_sample():
    network, board, options = load_network("resnet50"), load_platform("zc706"), paper_options()
    result = SearchResult([RankedDesign.of(Tile(4652, 7, 128), 1.0)], 1)
    design, fbcb = tabulate_design(network, board, options, result)
    full_s = tabulate_latency(design, fbcb).array()[0, -1, 1:]
    assert np.all(np.diff(full_s) > 0)
    assert np.all(np.diff(full_s / np.arange(1, 9)) < 0)
    assert layer_costs(design, fbcb).time_s.sum(axis=0) == pytest.approx(full_s, rel=1e-12)


@pytest.mark.parametrize("overlap", list(Overlap))
@pytest.mark.parametrize("resident", [0.0, 0.5])
def test_energies_of_the_layers_sum_to_that_of_the_search(overlap, resident):
    network, board = load_network("alexnet_cifar10"), load_platform("pynq-z1").model_copy(update={"static_w": 0.75})
    options = SearchOptions(overlap=overlap, b_max=4, persistent_mbit=resident)
    design, fbcb = tabulate_design(network, board, options, search(network, board, options))
    table, batch = tabulate_latency(design, fbcb), np.arange(1, 5)
    energy_j = np.array([layer.energy_j for layer in table.layers]).sum(axis=0) + 0.75 * table.array()[0, -1, 1:]
    assert table.static_w == 0.75
    assert energy_j / batch == pytest.approx(np.array(design.energy_j), rel=1e-12)
    stages_j = table.segments(by_layer=False).energy_j
    assert stages_j is not None
    assert stages_j.sum() == pytest.approx((energy_j - 0.75 * table.array()[0, -1, 1:]).sum())


@pytest.mark.parametrize("overlap", list(Overlap))
@pytest.mark.parametrize("by_layer", [True, False])
def test_causes_sum_to_the_time_of_each_segment(overlap, by_layer):
    """Pools count, too: as built their products take the array's time, else they only move data."""
    network, board = load_network("alexnet_cifar10"), load_platform("pynq-z1")
    options = SearchOptions(overlap=overlap, b_max=4)
    segments = tabulate_latency(*tabulate_design(network, board, options, search(network, board, options))).segments(
        by_layer=by_layer
    )
    assert sum(segments.causes) == pytest.approx(segments.time_s, rel=1e-9)


def test_a_control_block_that_does_not_fit_its_design_is_refused():
    """k = 1/2 halves T_P: a design with T_P = 1 has nothing to halve."""
    network, board, options = load_network(TINY), load_platform(POCKET), paper_options(b_max=1)
    result = SearchResult([RankedDesign.of(Tile(40, 1, 8), 1.0)], 1)
    design, fbcb = tabulate_design(network, board, options, result)
    rows = [row.model_copy(update={"entries": ["10"]}) for row in fbcb.rows]
    with pytest.raises(InputError, match="k does not fit <40,1,8>"):
        tabulate_latency(design, fbcb.model_copy(update={"rows": rows}))


def test_a_pass_of_centuries_is_a_fault_of_one_line(fluidb, tmp_path):
    (tmp_path / "vast.toml").write_text(
        'schema = "fluidb.network/1"\nname = "vast"\ntitle = "vast"\n'
        "input = { height = 1, width = 1, channels = 65536 }\n"
        'layers = [{ name = "fc", op = "linear", out = 262144 }]\n'
    )
    board = Path(POCKET).read_text()
    (tmp_path / "slow.toml").write_text(re.sub(r"(?m)^clock_mhz = .*$", "clock_mhz = 0.000001", board))
    assert fluidb("dse", "vast.toml", "slow.toml", "-o", "vast", "--b-max", 1).returncode == 0
    (line,) = lines(fluidb("latency", "vast"))
    assert line.startswith("fluidb: design.json: expected a pass of at most 1e+09 s, found")
