"""What a design is limited by: against a recount, searches on boards written by hand, and cases known by theory."""

from __future__ import annotations

import json
import re
from math import ceil

import numpy as np
import pytest
from builders import lines, network_of
from fluidb.dse import OBJECTIVES, Limits, SearchOptions, Tile, search
from fluidb.dse.npu.limited import KEYS, gains, limited_by
from fluidb.dse.npu.space import check_fit
from fluidb.formats import InputError, write_file
from fluidb.models import load_network
from fluidb.platforms import load_platform
from fluidb.platforms.writer import platform_text
from test_whole_space import CASES, random_case

ZC706, KV260 = load_platform("zc706"), load_platform("kv260")


def case_with_a_design(seed):
    """A network, a board, options, and the best design: of the first of some random cases that has one."""
    for other in range(seed, seed + 1_000_000, 10_000):
        network, board, options = random_case(other)
        try:
            return network, board, options, search(network, board, options, top=1).best
        except InputError:
            continue
    raise AssertionError


def refused(network, board, options, tile) -> set[str]:
    """Keys of the resources that refuse a design, by asking for one after the other."""
    supply, keys = options.supply(network, board), set()
    for resource, most in supply.most.items():
        try:
            check_fit(supply._replace(most={resource: most}), tile)
        except InputError:
            keys.add(KEYS[resource])
    return keys


@pytest.mark.parametrize("seed", range(CASES))
def test_limits_of_the_best_design_refuse_each_larger_size(seed):
    network, board, options, best = case_with_a_design(seed)
    limits = limited_by(network, board, options, best)
    for size, step in (("T_R", 2), ("T_P", 1), ("T_C", 1)):
        value = getattr(best, size) + step
        expected = refused(network, board, options, best.tile._replace(**{size: value}))
        assert {key for key, sizes in limits.refuses.items() if size in sizes} == expected
        assert all(sizes[size] == value for sizes in limits.refuses.values() if size in sizes)


@pytest.mark.parametrize("seed", range(CASES))
def test_more_of_a_resource_helps_by_designs_that_did_not_fit(seed):
    network, board, options, best = case_with_a_design(seed)
    found = gains(network, board, options, best, 0.25)
    assert len(found) == 6
    *alone, every = found
    supply, losses = options.supply(network, board), OBJECTIVES[options.objective].losses
    for gain in found:
        loss, before = losses(np.array([gain.best.objective, best.objective]))
        assert loss <= before
        assert gain.ratio == gain.best.objective / best.objective
        if gain in alone and gain.keys != ("bandwidth_gb_s",) and loss < before:
            with pytest.raises(InputError):
                check_fit(supply, gain.best.tile)
    assert losses(np.array(every.best.objective)) <= min(losses(np.array(gain.best.objective)) for gain in alone)


def test_gains_are_of_boards_and_limits_that_have_more():
    """Each row is a search on a board, and with limits, that are written by hand."""
    network, _, _ = random_case(4)
    board = ZC706.model_copy(update={"dsps": 15, "on_chip_mbit": 0.03, "luts": 14_001, "flip_flops": 20_000})
    limits = Limits(max_dsps=13, max_ram_mbit=0.02, max_luts=12_001)
    options = SearchOptions(b_max=2, limits=limits)
    best = search(network, board, options, top=1).best
    grown: dict[tuple[str, ...], tuple[dict[str, float], dict[str, float]]] = {
        ("dsps",): ({"dsps": 18}, {"max_dsps": 16}),
        ("on_chip_mbit", "block_rams"): ({"on_chip_mbit": 0.036, "block_rams": 654}, {"max_ram_mbit": 0.024}),
        ("luts",): ({"luts": ceil(16_801.2)}, {"max_luts": ceil(14_401.2)}),
        ("flip_flops",): ({"flip_flops": 24_000}, {}),
        ("bandwidth_gb_s",): ({"bandwidth_gb_s": 1.2 * 4.267}, {}),
    }
    *alone, every = gains(network, board, options, best, 0.2)
    assert every.keys == tuple(key for keys in grown for key in keys)
    assert [gain.keys for gain in alone] == list(grown)
    for gain, (of_board, of_limits) in zip(alone, grown.values(), strict=True):
        limited = options.model_copy(update={"limits": limits.model_copy(update=of_limits)})
        assert gain.best == search(network, board.model_copy(update=of_board), limited, top=1).best
    assert max(gain.ratio for gain in alone) > 1


def test_limits_that_are_known():
    """Of the paper's <T_P, T_C>: 8 * 128 and 7 * 129 are more than 900 DSPs; a bank of 513 rows takes a block more."""
    network, options = load_network("resnet50"), SearchOptions(tile=Tile(1024, 7, 128))
    best = search(network, ZC706, options).best
    limits = limited_by(network, ZC706, options, best)
    assert limits.refuses == {"block_rams": {"T_R": 1026}, "dsps": {"T_P": 8, "T_C": 129}}
    narrow = SearchOptions(tile=Tile(64, 4, 4, 1, 16))
    found = search(network, KV260, narrow).best
    limits = limited_by(network, KV260, narrow, found)
    assert limits == ({}, found.objective)  # a port of 32 words would fit, and one of 16 carries no more
    few = KV260.model_copy(update={"luts": 36_000})
    assert limited_by(network, few, narrow, found).refuses == {"luts": {"W": 32}}


@pytest.mark.parametrize(("luts", "gain"), [(100_000, 1.0859), (80_000, 1.0)])
def test_a_full_port_becomes_wider_with_the_bandwidth_if_that_fits(luts, gain):
    """A port of four words carries four words a cycle; one of eight takes more look-up tables."""
    network, options = network_of([(1, 64, 64, 1)]), SearchOptions(b_max=1, tile=Tile(512, 8, 64))
    board = ZC706.model_copy(update={"port_words": 4, "bandwidth_gb_s": 1.2, "luts": luts})
    design = search(network, board, options).best
    more = limited_by(network, board, options, design).with_bandwidth
    assert more / design.objective == pytest.approx(gain, abs=1e-4)


@pytest.mark.parametrize(
    ("tile", "rows", "least", "most"), [((512, 8, 64), 1, 0.04, 0.1), ((512, 2, 4), 2000, 0, 0.01)]
)
def test_bandwidth_is_what_a_layer_waits_for_or_not(tile, rows, least, most):
    """One row reads each weight once, so its time is of the memory; of many rows it is of the multipliers."""
    network, options = network_of([(rows, 64, 64, 1)]), SearchOptions(b_max=1, tile=Tile(*tile))
    design = search(network, ZC706, options).best
    more = limited_by(network, ZC706, options, design).with_bandwidth
    assert more == search(network, ZC706.model_copy(update={"bandwidth_gb_s": 1.1 * 4.267}), options).best.objective
    assert least <= more / design.objective - 1 < most


def test_dse_prints_what_limits_and_what_more_gives(fluidb, tmp_path):
    small = ZC706.model_copy(update={"dsps": 60, "luts": 40_000})
    write_file(tmp_path / "b.toml", platform_text(small), replace=True)
    asked = "dse", "alexnet", "b.toml", "--b-max", 2, "--more", "20%"
    text, found = fluidb(*asked).stdout, json.loads(fluidb(*asked, "--json").stdout)
    (line,) = re.findall(r"^limits +(.*)$", text, re.MULTILINE)
    sizes = {size: value for limit in found["limited_by"] for size, value in limit["refuses"].items()}
    assert sizes
    assert {(size, int(value)) for size, value in re.findall(r"(\w+) = (\d+)", line)} == set(sizes.items())
    faster = found["with_more_bandwidth"]["objective"] / found["objective"] - 1
    assert faster > 0.001
    assert line.endswith(f"; 10 % more bandwidth gives +{100 * faster:.1f} %")
    rates = [gop_s * 1e9 / (2 * load_network("alexnet").macs) for gop_s in found["gop_s"]]
    assert found["inferences_per_s"] == pytest.approx(rates)
    assert re.search(rf"^inferences +{rates[0]:.4g} /s at b = 1, {rates[1]:.4g} /s at b = 2$", text, re.MULTILINE)
    rows = re.findall(
        r"^([\w -]+?)  +(<[\d,]+>) +([\d.]+) GOP/s +([+-][\d.]+) %$", text.split("with 20 % more")[1], re.MULTILINE
    )
    names = ["DSPs", "on-chip memory", "LUTs", "flip-flops", "bandwidth", "all of these"]
    assert [name for name, *_ in rows] == names
    for (_, tile, objective, gained), row in zip(rows, found["more"], strict=True):
        assert tile.startswith(f"<{row['T_R']},{row['T_P']},{row['T_C']}")
        assert (objective, row["share"]) == (f"{row['objective']:.1f}", 0.2)
        assert float(gained) == pytest.approx(100 * (row["objective"] / found["objective"] - 1), abs=0.006)
    assert float(rows[-1][-1]) > 0


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (["zc706", "--more", "10"], '--more: expected a unit (%), found no unit in "10"'),
        (["zc706", "--more", "2000%"], '--more: expected at most 1000%, found "2000%"; write e.g. 10%'),
        (["zc706", "--more", "10%", "--tile", "64,4,4"], "--more: expected one network, one board and no tile"),
        (["zc706,kv260", "--more", "10%"], "--more: expected one network, one board and no tile"),
    ],
)
def test_more_that_cannot_be_searched_is_refused(fluidb, given, fault):
    (line,) = lines(fluidb("dse", "alexnet", *given))
    assert fault in line
