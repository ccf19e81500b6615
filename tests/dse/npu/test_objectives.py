"""Objectives, energy and limits against plain loops and the figures they come from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import naive
import numpy as np
import pytest
from builders import DATA, POCKET, TINY, any_gemm, lines, modes, network_of, paper_options, tiles
from fluidb.dse import OBJECTIVES, Batching, Limits, Objective, SearchOptions, Tile, search
from fluidb.dse.npu import persistent
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.resources import Supply, paper_luts
from fluidb.dse.npu.space import DesignSpace, designs
from fluidb.dse.npu.tiles import tiles_of
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import ENERGY_KEYS, Board, load_platform
from hypothesis import given, settings
from hypothesis import strategies as st

WEIGHED = [name for name in Objective if name is not Objective.TRAFFIC]
"""Those that need no simulation; tests/studies/test_traffic_weights.py has the other."""

MAC_PJ, ON_CHIP_PJ, OFF_CHIP_PJ = 1.5, 2.0, 300.0


def board_of(dsps: int, kibit: int = 40, gb_s: float = 0.8, static_w: float | None = None) -> Board:
    return Board(
        name="b", title="b", dsps=dsps, on_chip_mbit=kibit / 1024, luts=1000, clock_mhz=100.0, bandwidth_gb_s=gb_s,
        word_bits=16, mac_pj=MAC_PJ, on_chip_pj_per_word=ON_CHIP_PJ, off_chip_pj_per_word=OFF_CHIP_PJ,
        static_w=static_w, luts_fixed=100.0, luts_per_adder=7.0,
    )  # fmt: skip


def naive_energy(gemms, memory_words, board, tile, b, mode, *, stacking, least=False):
    return naive.energy(
        gemms, memory_words, tile, b, board.words_per_cycle, board.clock_hz, mode, stacking, MAC_PJ, ON_CHIP_PJ,
        OFF_CHIP_PJ, board.static_w or 0.0, least,
    )  # fmt: skip


loop_modes = modes.filter(lambda mode: mode not in {"eq1", "column"})
"""Those whose layouts the oracle's walk over tiles knows."""


@settings(max_examples=60)
@given(
    st.lists(any_gemm, min_size=1, max_size=3), st.integers(0, 300), tiles, st.integers(1, 5), loop_modes,
    st.booleans(), st.sampled_from([None, 0.5]), st.sampled_from([0.1, 0.8, 6.4]),
)  # fmt: skip
def test_energy_equals_plain_loops(gemms, memory_words, tile, b_max, mode, stacking, static_w, gb_s):
    board = board_of(4, gb_s=gb_s, static_w=static_w)
    options = paper_options(batching=Batching(mode), stacking=stacking, b_max=b_max)
    cost = Evaluator(network_of(gemms, memory_words), board, options).cost(Tile(*tile).array, traffic=True)
    expected = [naive_energy(gemms, memory_words, board, tile, b, mode, stacking=stacking) for b in range(1, b_max + 1)]
    assert cost.energy_j[0] == pytest.approx(expected, rel=1e-12)
    macs = sum(np.prod(gemm) for gemm in gemms)
    assert cost.gop_s_w[0] == pytest.approx([2e-9 * macs / joules for joules in expected], rel=1e-12)


@settings(max_examples=30)
@given(st.lists(any_gemm, min_size=1, max_size=3), tiles, st.integers(1, 4), modes)
def test_counting_traffic_does_not_change_the_time(gemms, tile, b_max, mode):
    options = paper_options(batching=Batching(mode), b_max=b_max)
    evaluator = Evaluator(network_of(gemms, 100), board_of(4), options)
    with_traffic, without = (evaluator.cost(Tile(*tile).array, traffic=traffic) for traffic in (True, False))
    assert with_traffic.words is not None
    assert with_traffic.accesses is not None
    assert with_traffic.cycles == pytest.approx(without.cycles, rel=1e-12)
    assert np.all(with_traffic.accesses >= 2 * with_traffic.words)


def naive_objective(name, gemms, board, tile, weights, mode):
    def seconds(b):
        return naive.network_cycles(gemms, 50, tile, b, board.words_per_cycle, mode, True) / board.clock_hz

    macs = sum(R * P * C * count for R, P, C, count in gemms)
    batches = range(1, len(weights) + 1)
    if name == "gop_s":
        return sum(w * 2e-9 * macs * b / seconds(b) for w, b in zip(weights, batches, strict=True)) / sum(weights)
    if name == "latency":
        return seconds(1)
    joules = [naive_energy(gemms, 50, board, tile, b, mode, stacking=True, least=True) for b in batches]
    if name == "energy":
        return sum(w * j for w, j in zip(weights, joules, strict=True)) / sum(weights)
    return sum(w * 2e-9 * macs / j for w, j in zip(weights, joules, strict=True)) / sum(weights)


@settings(max_examples=25)
@given(
    st.lists(any_gemm, min_size=1, max_size=2), st.integers(1, 9), st.integers(1, 30), st.sampled_from([0.1, 0.8]),
    st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=1, max_size=3), loop_modes, st.sampled_from(WEIGHED),
)  # fmt: skip
def test_each_objective_equals_brute_force(gemms, dsps, kibit, gb_s, weights, mode, name):
    """With an objective of energy, each layer has the layout that takes the least."""
    board = board_of(dsps, kibit, gb_s, static_w=0.05 if dsps % 2 else None)
    options = paper_options(batching=Batching(mode), b_max=len(weights), weights=weights, objective=name)
    tiles = naive.all_designs(dsps, board.on_chip_bits, 16)
    rated = [(naive_objective(name, gemms, board, tile, weights, mode), tile) for tile in tiles]
    best = (max if name in {"gop_s", "gop_s_w"} else min)(value for value, _ in rated)
    tied = [tile for value, tile in rated if value == pytest.approx(best, rel=1e-12)]
    found = search(network_of(gemms, 50), board, options).best
    assert found.objective == pytest.approx(best, rel=1e-12)
    assert found.tile == min(tied, key=lambda tile: (-tile[1] * tile[2], -tile[0], tile[1]))


@pytest.mark.parametrize("name", WEIGHED)
def test_a_ranking_goes_from_the_best_on(name):
    network, board = load_network(TINY), load_platform(POCKET)
    result = search(network, board, paper_options(b_max=2, objective=name), top=10)
    values = [ranked.objective for ranked in result.ranking]
    assert values == sorted(values, reverse=OBJECTIVES[name].higher_is_better)
    assert len(set(values)) > 1


def test_one_batch_size_makes_energy_and_efficiency_one_thing():
    network, board = load_network(TINY), load_platform(POCKET)
    energy, efficiency = (
        search(network, board, paper_options(b_max=1, objective=Objective(name))).best for name in ("energy", "gop_s_w")
    )
    assert energy.tile == efficiency.tile
    assert efficiency.objective == pytest.approx(2e-9 * network.macs / energy.objective, rel=1e-12)


def rates_in(found: Any, key: str = "") -> Iterator[float]:
    """Numbers in GOP/s: those whose key says it, and objectives that nothing else was asked of."""
    if isinstance(found, dict):
        for name, value in found.items():
            yield from rates_in(value, name)
    elif isinstance(found, list):
        for value in found:
            yield from rates_in(value, key)
    elif key.endswith("gop_s") or (key == "objective" and isinstance(found, float)):
        yield found


def test_json_python_and_screen_say_the_same_rate_and_none_exceeds_the_peak(fluidb, tmp_path, monkeypatch):
    """A DSP makes two operations a cycle, so that no design of this board makes more than 4.8 GOP/s."""
    monkeypatch.setattr(persistent, "STEPS", 3)
    weights = [0.5, 3, 1, 1, 1, 1, 1, 9]
    asked = [TINY, POCKET, "--weights", ",".join(map(str, weights))]
    for made in (["dse", *asked, "-o", "d"], ["latency", "d"], ["trace", "offline", "--count", 9, "-o", "t.csv"]):
        assert fluidb(*made).returncode == 0
    (tmp_path / "other.toml").write_text(Path(TINY).read_text().replace('name = "tiny"', 'name = "other"'))
    runs = [
        ["dse", *asked], ["dse", *asked, "--persistent", "search"], ["pareto", *asked], ["explain", "d"],
        ["dse", f"{TINY},other.toml", *asked[1:]], ["report", "d", "-o", "page.html", "--force"],
    ]  # fmt: skip
    for run in runs:
        shown = [float(rate) for rate in re.findall(r"([\d.]+) GOP/s", fluidb(*run).stdout)]
        printed = rates_in(json.loads(fluidb(*run, "--json").stdout))
        assert all(0 < rate <= 2 * 24 * 0.1 for rate in [*printed, *shown]), run
    record = json.loads(fluidb("dse", *asked, "--json").stdout)
    mean = float(np.average(record["gop_s"], weights=weights))
    best = search(load_network(TINY), load_platform(POCKET), SearchOptions(weights=weights)).best
    assert record["objective"] == best.objective == pytest.approx(mean)
    assert re.search(rf"^objective +{mean:.1f} GOP/s weighted mean", fluidb("dse", *asked).stdout, re.MULTILINE)
    assert json.loads(fluidb("explain", "d", "--json").stdout)["mean_gop_s"] == pytest.approx(mean)
    assert re.search(rf"^k and B_R as configured .* {mean:.1f}$", fluidb("explain", "d").stdout, re.MULTILINE)


limits = st.builds(
    Limits,
    max_dsps=st.none() | st.integers(1, 60),
    max_ram_mbit=st.none() | st.floats(0.001, 0.1),
    max_luts=st.none() | st.integers(50, 500),
)


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(1, 60), limits)
def test_limits_leave_the_designs_that_keep_them(dsps, kibit, limits):
    board = board_of(dsps, kibit)
    bits = min(board.on_chip_bits, int((limits.max_ram_mbit or 1.0) * 2**20))
    expected = [
        (T_R, T_P, T_C, V, W)
        for T_R, T_P, T_C, V, W in naive.all_designs(min(dsps, limits.max_dsps or dsps), bits, 16)
        if limits.max_luts is None or limits.max_luts >= 100 + 7 * (T_P - 1) * T_C
    ]
    if not expected:
        with pytest.raises(InputError, match="no design fits"):
            designs(Supply.of(board, limits, placed=False))
        return
    assert sorted(tiles_of(designs(Supply.of(board, limits, placed=False)))) == sorted(expected)
    space = DesignSpace(Supply.of(board, limits, placed=False))
    boxes = space.boxes()
    assert space.size == len(expected)
    assert sorted(tiles_of(space.within(boxes))) == sorted(expected)  # each of them in one box
    for box, largest in zip(boxes.T, space.corners(boxes).T, strict=True):
        part = space.within(box[:, None])
        assert part.max(axis=1).tolist() == largest.tolist()
        assert np.all(part[1:4].max(axis=1) < 1.2 * part[1:4].min(axis=1))


@pytest.mark.parametrize(
    ("limit", "fault"),
    [
        ({"max_dsps": 5}, "at most 5 DSPs of b, found 6"),
        ({"max_ram_mbit": 1e-4}, "at most 0.0001 Mb on chip of b"),
        ({"max_luts": 113}, "at most 113 LUTs of b, found 114"),
    ],
)
def test_a_given_design_must_keep_the_limits(limit, fault):
    network, tile = network_of([(7, 5, 9, 1)]), Tile(10, 2, 2 if "max_luts" in limit else 3)
    assert search(network, board_of(6), paper_options(tile=tile)).best.tile == tile
    with pytest.raises(InputError, match=fault):
        search(network, board_of(6), paper_options(tile=tile, limits=Limits(**limit)))


# Paper 000, Table I: T_P, T_C and LUT share; the last row's design is in docs/model.md, Resources
TABLE_I = [(7, 128, "zc706", 0.77), (10, 172, "zcu104", 0.78), (4, 225, "zc706", 0.75), (9, 192, "zcu104", 0.79)]


def fit_luts(rows):
    adders = np.array([T_C * (T_P - 1) for T_P, T_C, _, _ in rows])
    found = np.array([share * (load_platform(board).luts or 0) for _, _, board, share in rows])
    return np.linalg.lstsq(np.column_stack([np.ones(len(rows)), adders]), found, rcond=None)[0]


def test_the_fit_of_look_up_tables_is_that_of_table_i():
    fixed, per_adder = fit_luts(TABLE_I)
    for name in ("zc706", "zcu104"):
        board = load_platform(name)
        assert board.luts_fixed == pytest.approx(fixed, rel=1e-3)
        assert board.luts_per_adder == pytest.approx(per_adder, rel=1e-3)
    within, left_out = [], []
    for row in TABLE_I:
        T_P, T_C, name, share = row
        board = load_platform(name)
        assert board.luts
        within.append(paper_luts(board, Tile(2, T_P, T_C)) / (share * board.luts) - 1)
        rest = fit_luts([other for other in TABLE_I if other is not row])
        left_out.append((rest[0] + rest[1] * T_C * (T_P - 1)) / (share * board.luts) - 1)
    assert 0.008 < max(map(abs, within)) < 0.009  # docs/model.md, Resources
    assert 0.017 < max(map(abs, left_out)) < 0.018


@pytest.mark.parametrize(
    ("name", "nm", "volt", "dram_pj"), [("zc706", 28, 1.0, 2600 / 4), ("zcu104", 16, 0.85, 2600 / 4 * (1.2 / 1.5) ** 2)]
)
def test_energies_follow_from_their_sources(name, nm, volt, dram_pj):
    """docs/model.md, Energy: Horowitz's figures of 45 nm and 0.9 V, on an FPGA, scaled with size and voltage."""
    board = load_platform(name)
    scale = 7 * (nm / 45) * (volt / 0.9) ** 2
    assert board.mac_pj == pytest.approx(scale * (0.2 * (16 / 8) ** 2 + 0.1), abs=0.05)
    assert board.on_chip_pj_per_word == pytest.approx(scale * 10.0 * 16 / 64, abs=0.05)
    assert board.off_chip_pj_per_word == pytest.approx(dram_pj, abs=0.5)


def bare_board(folder):
    """A board that states neither energies nor the fit of look-up tables."""
    text = (DATA / "pocket.toml").read_text()
    path = folder / "bare.toml"
    path.write_text(text[: text.index("mac_pj")])
    return path


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--objective", "energy"], ENERGY_KEYS),
        (["--objective", "gop_s_w"], ENERGY_KEYS),
        (["--overlap", "paper", "--max-lut", "50%"], ("luts_fixed", "luts_per_adder")),
    ],
)
def test_a_board_that_does_not_state_what_is_asked(fluidb, tmp_path, arguments, named):
    (line,) = lines(fluidb("dse", TINY, bare_board(tmp_path), *arguments))
    assert line.startswith("fluidb: pocket: ")
    assert f"needs {', '.join(named)}, which the board's file does not state" in line


def test_a_bare_board_has_no_energy_and_no_luts(fluidb, tmp_path):
    asked = TINY, bare_board(tmp_path), "--overlap", "paper", "--b-max", 2
    record = json.loads(fluidb("dse", *asked, "--json").stdout)
    assert (record["energy_j"], record["lut_share"]) == (None, None)
    assert "\nLUTs" not in fluidb("dse", *asked).stdout


def test_objective_and_limits_reach_the_design(fluidb):
    asked = ["--objective", "energy", "--max-dsp", "75%", "--max-ram", "0.01Mb", "--max-lut", "48%", "--b-max", 2]
    record = json.loads(fluidb("dse", TINY, POCKET, *asked, "--json").stdout)
    assert record["options"]["objective"] == "energy"
    assert record["options"]["limits"] == {"max_dsps": 18, "max_ram_mbit": 0.01, "max_luts": 24_000}
    assert record["objective_unit"] == "J"
    assert record["objective"] == pytest.approx(sum(record["energy_j"]) / 2)
    assert record["dsp_share"] <= 0.75
    assert record["ram_share"] <= 0.5
    assert record["lut_share"] <= 0.48
    whole = json.loads(fluidb("dse", TINY, POCKET, "--max-dsp", "100%", "--max-ram", "100%", "--json").stdout)
    free = json.loads(fluidb("dse", TINY, POCKET, "--json").stdout)
    assert whole | {"options": free["options"]} == free


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (
            ["--overlap", "paper", "--max-lut", "2%"],
            "1,000 LUTs (20,000 of them taken by no adder) hold no double-buffered tile",
        ),
        (["--max-dsp", "0.5DSPs"], '--max-dsp: expected room for at least 1, found "0.5DSPs"'),
        (["--max-dsp", "80"], '--max-dsp: expected a unit (DSPs, %), found no unit in "80"'),
        (["--max-dsp", "3Mb"], '--max-dsp: expected a unit (DSPs, %), found unit "Mb"'),
        (["--max-ram", "3"], "--max-ram: expected a unit (Mb, %), found no unit"),
        (["--max-ram", "0.0001%"], "no design fits"),
        (["--tile", "10,5,5", "--max-dsp", "20DSPs"], "expected at most 20 DSPs of pocket, found 25"),
    ],
)
def test_limits_that_make_no_sense(fluidb, arguments, fault):
    (line,) = lines(fluidb("dse", TINY, POCKET, *arguments))
    assert fault in line


def test_a_value_of_four_digits_ends_without_a_point():
    energy = next(value for value in OBJECTIVES.values() if value.unit == "J")
    assert [energy.text(value) for value in (4.2421, 0.42421, 42.421e-3)] == ["4,242 mJ", "424.2 mJ", "42.42 mJ"]
