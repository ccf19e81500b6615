"""The clock that a design reaches by the fit of its board, and what the fit refuses."""

from __future__ import annotations

import json
import re

import clock
import numpy as np
import pytest
from builders import TINY, WITHOUT_LOGIC, lines, network_of
from enumeration import ranked
from fluidb.dse import Batching, SearchOptions, Tile, search
from fluidb.dse.npu.board_use import board_use
from fluidb.dse.npu.limited import limited_by
from fluidb.dse.npu.resources import Demand, Resource, Supply
from fluidb.dse.npu.space import DesignSpace, check_fit
from fluidb.formats import InputError, write_file
from fluidb.platforms import load_platform
from fluidb.platforms.cycle import Cycle
from fluidb.platforms.writer import platform_text
from test_whole_space import every_design

ULX3S, ZC706 = load_platform("ulx3s"), load_platform("zc706")
CYCLE = Cycle(ns=5.0, W_ns=0.1, S_ns=0.4, T_P_ns=0.4, T_C_ns=0.5)
SMALL = ZC706.model_copy(
    update={
        **WITHOUT_LOGIC, "dsps": 14, "on_chip_mbit": 20 / 1024, "block_rams": None, "bandwidth_gb_s": 0.6,
        "port_words": 4, "cycle": CYCLE,
    }
)  # fmt: skip
"""A board of which nothing but DSPs, bits and the cycle of 6.7 ns is judged."""
NETWORK = network_of([(60, 20, 30, 1), (40, 30, 12, 1)], 100)


def test_a_fit_finds_the_numbers_that_made_its_rows():
    """And 0 for a size with which the cycle becomes shorter."""
    draw, rows = np.random.default_rng(1), clock.read_rows()[:1]
    sizes = [clock.Size(*(2 ** draw.integers(0, 4, 5)).tolist()) for _ in range(12)]
    made = [rows[0]._replace(size=of, mhz=1e3 / CYCLE.of(of.W, of.S, of.T_P, of.T_C)) for of in sizes]
    assert list(clock.fitted(made).model_dump().values()) == pytest.approx(list(CYCLE.model_dump().values()))
    assert clock.left_out(made) == pytest.approx([0] * 12)
    shorter = [row._replace(mhz=1e3 / (1e3 / row.mhz - 0.8 * np.log2(row.size.T_C))) for row in made]
    assert clock.fitted(shorter).T_C_ns == 0


def test_the_page_has_the_fit_and_its_errors():
    page = (clock.TABLE.parents[1] / "docs" / "npu.md").read_text(encoding="utf-8")
    assert f"clock.py --fit\n{clock.fit_text(clock.read_rows())}\n```" in page


def test_the_cycle_of_a_design():
    board = ULX3S.model_copy(update={"cycle": CYCLE})
    demand = Demand(board, Tile(64, 4, 16, 2, 8), 4)
    assert float(demand.cycle_ns) == pytest.approx(5 + 3 * 0.1 + 2 * 0.4 + 2 * 0.4 + 5 * 0.5)  # 2 pixels of 16 columns
    taken = board_use(board, Tile(64, 4, 16), 3)
    assert taken is not None
    assert taken.fitted_mhz == pytest.approx(1e3 / (5 + 0.1 + 2 * 0.4 + 2 * 0.4 + 4 * 0.5))  # 4 samples, 2 words
    assert board_use(ZC706, Tile(64, 4, 16)).fitted_mhz is None
    draw = np.random.default_rng(2)
    for _ in range(50):
        T_P, T_C, W, S = (int(draw.integers(1, 60)) for _ in range(4))
        least = float(Demand(board, Tile(2, T_P, T_C, 1, W), S).cycle_ns)
        for more in ((T_P + 1, T_C, W, S), (T_P, T_C + 1, W, S), (T_P, T_C, W + 1, S), (T_P, T_C, W, S + 1)):
            assert float(Demand(board, Tile(2, *more[:2], 1, more[2]), more[3]).cycle_ns) > least


@pytest.mark.parametrize("batching", [Batching.FLUID, Batching.COLUMN])
def test_a_search_equals_brute_force_within_the_cycle(batching):
    options = SearchOptions(batching=batching, b_max=4)
    supply = options.supply(NETWORK, SMALL)
    assert set(supply.most) == {Resource.DSPS, Resource.BUFFER_BITS, Resource.CYCLE}
    best = search(NETWORK, SMALL, options, top=1).best
    assert [best] == ranked(NETWORK, SMALL, options, every_design(supply), 1)
    free = search(NETWORK, SMALL.model_copy(update={"cycle": None}), options, top=1).best
    assert best.objective < free.objective
    with pytest.raises(InputError, match="expected the clock of zc706, 150 MHz, found"):
        check_fit(supply, free.tile)
    refused = limited_by(NETWORK, SMALL, options, best).refuses["cycle"]
    assert {"T_P", "T_C"} & set(refused)
    for size, value in refused.items():
        demand = supply.demand(best.tile._replace(**{size: value}))
        assert float(demand.cycle_ns) > 1e3 / 150


def test_samples_side_by_side_are_within_the_cycle():
    supply = SearchOptions(b_max=8).supply(NETWORK, SMALL)
    tiles = np.array([(8, T_P, T_C, 1, W) for T_P in (1, 2, 3) for T_C in (1, 2, 3, 4) for W in (1, 4)]).T
    most = supply.most_samples(tiles)
    for tile, samples in zip(tiles.T.tolist(), most.tolist(), strict=True):
        reach = [S for S in (1, 2, 4, 8) if CYCLE.of(tile[4], S, tile[1], tile[2]) <= 1e3 / 150]
        assert samples == max(reach, default=1)
    assert len(set(most.tolist())) > 2
    ranges = DesignSpace(supply).every_row(fewer_samples=True)
    assert supply.demand(ranges.tiles, ranges.samples).within(supply.most).all()
    assert len(set(ranges.samples.tolist())) > 2


def test_other_words_and_the_papers_count_are_not_judged():
    assert Resource.CYCLE not in Supply.of(SMALL, placed=False).most
    assert Supply.of(SMALL, placed=False).unjudged["cycle"] == "the paper counts DSPs and bits of memory"
    assert Supply.of(ZC706).unjudged == {"cycle": "its file states no fit"}
    assert "words of 16 bits" in Supply.of(SMALL.in_int8()).unjudged["cycle"]


def test_commands_say_what_the_clock_refuses(fluidb, tmp_path):
    write_file(tmp_path / "board.toml", platform_text(SMALL), replace=True)
    text = fluidb("dse", TINY, "board.toml", "--b-max", 2, "--more", "10%").stdout
    record = json.loads(fluidb("dse", TINY, "board.toml", "--b-max", 2, "--json").stdout)
    assert re.search(r"^limits .*\bthe clock refuses T_P = \d+", text, re.MULTILINE)
    assert f"{record['blocks']['fitted_mhz']:.1f} MHz (`fluidb docs npu`" in text
    assert record["blocks"]["fitted_mhz"] >= 150
    assert "the clock" not in text.split("with 10 % more")[1]  # a slower one is no more of anything
    assert fluidb("dse", TINY, "board.toml,pynq-z1", "--b-max", 2, "-o", "both", "--json").returncode == 0
    folders = [f"both/{folder.name}" for folder in sorted((tmp_path / "both").iterdir()) if folder.is_dir()]
    assert json.loads(fluidb("explain", folders[-1], "--json").stdout)["blocks"]["fitted_mhz"] is not None
    assert fluidb("compare", *folders, "--json").returncode == 0
    for command in ("check", "show"):
        shown = json.loads(fluidb("platforms", command, "board.toml", "--json").stdout)
        assert shown["cycle"] == CYCLE.model_dump()
    (line,) = lines(fluidb("dse", TINY, "board.toml", "--tile", "8,3,4"))
    assert re.search(r"<8,3,4>: expected the clock of zc706, 150 MHz, found \d+\.\d MHz by the fit of its file; ", line)
    write_file(tmp_path / "slow.toml", platform_text(SMALL.model_copy(update={"cycle": Cycle(ns=7.0)})), replace=True)
    (line,) = lines(fluidb("dse", TINY, "slow.toml"))
    assert re.search(r"zc706: no design fits: .* at 150 MHz hold no ", line)
    assert "the clock" in fluidb("dse", TINY, "zc706", "--tile", "8,1,2").stdout


@pytest.mark.parametrize(
    ("stated", "fault"),
    [
        ("{ ns = 0 }", "cycle.ns"),
        ("{ ns = 9, W_ns = -0.1 }", "cycle.W_ns"),
        ("{ W_ns = 0.1 }", "cycle.ns"),
        ("{ ns = 9, T_R_ns = 0.1 }", "cycle.T_R_ns"),
    ],
)
def test_a_fit_that_is_none_is_refused(fluidb, tmp_path, stated, fault):
    text = re.sub(r"(?m)^cycle = .*$", f"cycle = {stated}", platform_text(SMALL))
    (tmp_path / "board.toml").write_text(text)
    (line,) = lines(fluidb("platforms", "check", "board.toml"))
    assert fault in line
