"""One NPU for several networks: the search against brute force over every design, and one network as K = 1."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from builders import board_of, network_of
from fluidb.dse import OBJECTIVES, Limits, SearchOptions, Tile, explain, search, tabulate_design
from fluidb.dse.hardware.write import engine_package_text
from fluidb.dse.npu.costs import board_use_of, samples_side_by_side
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.space import DesignSpace
from fluidb.dse.npu.together import tabulate_each
from fluidb.dse.npu.workload import Workload
from fluidb.formats import InputError
from fluidb.platforms import load_platform
from random_boards import CASES, random_case
from test_whole_space import every_design

search_module = sys.modules["fluidb.dse.npu.search"]  # the package has a function of that name

NAMES = "abc"


def named(network, name):
    return network.model_copy(update={"name": name})


def several(seed):
    """Two or three networks, shares that need not sum to 1, a board and options."""
    _, board, options = random_case(2_000_000 + seed)
    draw = np.random.default_rng(seed)
    networks = [named(random_case(3_000_000 + 10 * seed + at)[0], NAMES[at]) for at in range(2 + seed % 2)]
    shares = draw.choice([0.0, 0.2, 1.0, 7.0], len(networks))
    shares[draw.integers(len(networks))] = 1.5
    return networks, shares, board, options


def by_hand(networks, shares, board, options, tiles):
    """The objective of designs, from what each network takes alone on an NPU with room for as many samples."""
    most = options.samples_side_by_side(Workload.of(networks, shares), board, tiles)
    macs, cycles, words, accesses = 0.0, 0.0, 0.0, 0.0
    for network, share in zip(networks, shares / shares.sum(), strict=True):
        cost = Evaluator(network, board, options).cost(tiles, traffic=True, samples=most)
        macs += share * sum(R * P * C * groups for R, P, C, groups in network.gemms)
        cycles += share * cost.cycles
        words += share * cost.words
        accesses += share * cost.accesses
    time_s, b = cycles / board.clock_hz, np.arange(1, options.b_max + 1)
    picojoules = b * macs * board.mac_pj + accesses * board.on_chip_pj_per_word + words * board.off_chip_pj_per_word
    energy_j = (1e-12 * picojoules + (board.static_w or 0.0) * time_s) / b
    return {
        "gop_s": np.mean(2e-9 * macs * b / time_s, axis=1),
        "latency": time_s[:, 0],
        "energy": np.mean(energy_j, axis=1),
        "gop_s_w": np.mean(2e-9 * macs / energy_j, axis=1),
    }[options.objective]


@pytest.mark.parametrize("seed", range(CASES))
def test_no_design_is_better_for_all_networks_together(seed, monkeypatch):
    monkeypatch.setattr(search_module, "FEW", 0)
    monkeypatch.setattr(search_module, "ROUND", 1)
    networks, shares, board, options = several(seed)
    workload = Workload.of(networks, shares)
    tiles = every_design(options.supply(workload, board))
    if not tiles.size:
        with pytest.raises(InputError, match="no design fits"):
            search(workload, board, options)
        return
    values, best = by_hand(networks, shares, board, options, tiles), search(workload, board, options).best
    losses = OBJECTIVES[options.objective].losses
    at = np.flatnonzero((np.array(best.tile) == tiles.T).all(axis=1))
    assert best.objective == pytest.approx(values[at[0]], rel=1e-12)
    assert losses(values[at[0]]) <= losses(values).min() + 1e-12 * abs(best.objective)


@pytest.mark.parametrize("seed", range(1 + CASES // 4))
def test_one_network_alone_is_a_workload_of_one(seed):
    network, board, options = random_case(4_000_000 + seed)
    try:
        alone = search(network, board, options)
    except InputError:
        return
    assert search(Workload.of([network], [0.3]), board, options) == alone
    assert tabulate_each(network, board, options, alone) == [tabulate_design(network, board, options, alone)]


def test_shares_weigh_the_networks():
    """On a board without logic a network that no request is for changes nothing; two that are equal are as one."""
    network, other = named(network_of([(60, 30, 20, 1)]), "a"), named(network_of([(100, 17, 3, 1)]), "b")
    board, options = board_of(20, 60), SearchOptions(b_max=2)
    alone, none = search(network, board, options), search(other, board, options)
    assert alone.best.tile[1:3] != none.best.tile[1:3]
    assert search(Workload.of([network, other], [2, 0]), board, options).ranking == alone.ranking
    assert search(Workload.of([other, network], [1, 0]), board, options).ranking == none.ranking
    twice = search(Workload.of([network, named(network, "c")]), board, options)
    assert [(d.tile, d.objective) for d in twice.ranking] == [(d.tile, d.objective) for d in alone.ranking]


def _flip_flops(design, fbcb):
    """Flip-flops of the Fluid Batching Engine, with its control blocks."""
    used = board_use_of(design, fbcb)
    assert used is not None
    assert used.flip_flops is not None
    return used.flip_flops["fbe"]


def test_each_network_has_its_tables_of_one_npu():
    """Each as if it were alone on the NPU; the board has the control blocks of all."""
    board, options = load_platform("zc706"), SearchOptions(b_max=4)
    networks = [named(network_of([(49, 64, 96, 1), (1, 128, 10, 1)]), "a"), named(network_of([(9, 300, 7, 1)]), "b")]
    workload = Workload.of(networks, [3, 1])
    tables = tabulate_each(workload, board, options, search(workload, board, options))
    assert [design.network for design, _ in tables] == networks
    used = [board_use_of(*each) for each in tables]
    assert used[0] == used[1]
    blocks = _flip_flops(*tables[0])
    bits = sum(fbcb.register_bits for _, fbcb in tables)
    engine_of_first = engine_package_text(*tables[0]).splitlines()[2:]  # the first lines name the design
    for (design, fbcb), network in zip(tables, networks, strict=True):
        assert design.shares == {"a": 0.75, "b": 0.25}
        assert fbcb.inputs == {"fluidb.design/4": design.digest()}
        assert design.tile == tables[0][0].tile
        given = SearchOptions(b_max=4, tile=design.tile)
        alone, own = tabulate_design(network, board, given, search(network, board, given))
        assert fbcb.rows == own.rows
        assert design.gop_s == alone.gop_s
        assert blocks - _flip_flops(alone, own) == bits - own.register_bits
        assert engine_package_text(design, fbcb).splitlines()[2:] == engine_of_first
        chosen = explain(design, fbcb).chosen
        assert chosen == explain(alone, own).chosen


def test_control_blocks_of_all_networks_take_room():
    """A board that has room for the control block of either network, and not for both."""
    networks = [named(network_of([(9, n, 7 + n, 1) for n in range(1, 80)]), name) for name in "ab"]
    board, options = load_platform("zc706"), SearchOptions(b_max=8)
    supplies = [options.supply(given, board) for given in (networks[0], Workload.of(networks))]
    least = [
        min(float(supply.demand(Tile(2, 1, 1, 1, W)).logic.total_flip_flops) for W in (0, *supply.ports))
        for supply in supplies
    ]
    tight = board.model_copy(update={"flip_flops": int(np.mean(least))})
    for network in networks:
        DesignSpace(options.supply(network, tight))
    with pytest.raises(InputError, match="no design fits"):
        DesignSpace(options.supply(Workload.of(networks), tight))


def test_layouts_leave_room_for_the_control_blocks_of_all():
    """A board on which a batch of either network may lie side by side, and not beside the FBCB of the other."""
    networks = [named(network_of([(49, n, 10, 1) for n in range(60, 120)]), name) for name in "ab"]
    board, workload, tile = load_platform("zc706"), Workload.of(networks, [1, 3]), Tile(64, 4, 40)
    options = SearchOptions(b_max=4, tile=tile, limits=Limits(max_luts=board.luts))
    luts = [options.supply(each, board).demand(tile, 4).logic.total_luts for each in (networks[0], workload)]
    tight = board.model_copy(update={"luts": int(np.mean(luts))})
    result = search(workload, tight, options)
    tables = tabulate_each(workload, tight, options, result)
    alone, _ = tabulate_design(networks[0], tight, options, search(networks[0], tight, options))
    times_s = sum(
        share * 2e-9 * design.network.macs / np.array(design.gop_s)
        for share, (design, _) in zip(workload.shares, tables, strict=True)
    )
    assert result.best.objective == pytest.approx(np.mean(2e-9 * workload.macs / times_s))
    for design, fbcb in tables:
        assert samples_side_by_side(design, fbcb) <= design.most_samples < alone.most_samples
        assert design.gop_s[-1] < alone.gop_s[-1]
        assert explain(design, fbcb).time_s.sum(axis=0) == pytest.approx(
            2e-9 * design.network.macs * np.arange(1, 5) / np.array(design.gop_s)
        )


def test_what_several_networks_cannot_share_is_refused():
    networks = [named(network_of([(9, 20, 7, 1)]), name) for name in "ab"]
    for shares in ((1,), (1, -1), (0, 0), (1, float("inf")), (1, float("nan"))):
        with pytest.raises(InputError, match="shares: expected as many numbers >= 0 as networks, 2, and one above 0"):
            Workload.of(networks, shares)
    with pytest.raises(InputError, match="networks: expected each once, by its name, found a, a"):
        Workload.of([networks[0], networks[0]])
    workload, board = Workload.of(networks), board_of(20, 60)
    with pytest.raises(InputError, match="persistent: weights that stay are for one network"):
        search(workload, board, SearchOptions(persistent_mbit=0.01))
