"""Boards that state only some resources: what is stated is judged, and the rest is named."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from builders import TINY, network_of
from enumeration import ranked
from fluidb.dse import Overlap, SearchOptions, Tile, search
from fluidb.dse.npu.board_use import board_use
from fluidb.dse.npu.resources import LOGIC, LUT_SHARE, Limits, Supply
from fluidb.dse.npu.space import check_fit
from fluidb.formats import InputError, write_file
from fluidb.platforms import Board, load_platform
from fluidb.platforms.writer import platform_text
from test_whole_space import every_design

ZC706 = load_platform("zc706")
STATED = {"block_rams": 3, "ultra_rams": 8, "luts": 10_700, "flip_flops": 12_200, "port_words": 4}
SETS = [keys for number in (0, 1, 2, 4, 5) for keys in itertools.combinations(STATED, number)]
"""Each alone and in pairs, all, and all but one."""

NETWORK, OPTIONS = network_of([(300, 20, 30, 1), (100, 30, 12, 1)], 100), SearchOptions(b_max=2)


def board_with(*keys: str) -> Board:
    """A small board whose file states only some of its resources."""
    update = {key: number if key in keys else None for key, number in STATED.items()}
    return ZC706.model_copy(update={"dsps": 8, "on_chip_mbit": 50 / 1024, "bandwidth_gb_s": 0.6, **update})


def left_out(keys: tuple[str, ...]) -> list[str]:
    """What is not judged if a file states some keys: a board without UltraRAMs states none, and none states a cycle."""
    ultra_rams_alone = "ultra_rams" in keys and "block_rams" not in keys
    left = [key for key in STATED if (ultra_rams_alone if key == "ultra_rams" else key not in keys)]
    at = len(left) - ("port_words" in left)
    return [*left[:at], "cycle", *left[at:]]


@pytest.mark.parametrize("keys", SETS, ids=",".join)
def test_what_is_stated_is_judged(keys):
    """By brute force over every design."""
    board = board_with(*keys)
    supply = OPTIONS.supply(NETWORK, board)
    assert list(supply.unjudged) == left_out(keys)
    best = search(NETWORK, board, OPTIONS, top=1).best
    assert [best] == ranked(NETWORK, board, OPTIONS, every_design(supply), 1)
    taken = board_use(board, best.tile)
    if taken is None:
        assert not {"block_rams", "luts", "flip_flops"} & set(keys)
        return
    assert ("block_rams" in keys) == (taken.block_rams is not None) == (taken.largest_T_R is not None)
    assert ("luts" in keys) == (taken.luts is not None) == (taken.lut_share is not None)
    assert ("flip_flops" in keys) == (taken.flip_flops is not None) == (taken.flip_flop_share is not None)
    assert taken.total_block_rams <= STATED["block_rams"]
    assert taken.total_luts <= LUT_SHARE * STATED["luts"]
    assert taken.total_flip_flops <= STATED["flip_flops"]


def test_each_limit_binds():
    free = search(NETWORK, board_with(), OPTIONS, top=1).best.objective
    for key in ("block_rams", "luts", "flip_flops"):
        assert search(NETWORK, board_with(key), OPTIONS, top=1).best.objective < free


def test_a_fault_names_what_is_judged():
    for key, found in (("luts", "8,560 of 10,700 LUTs of zc706"), ("flip_flops", "12,200 flip-flops of zc706")):
        with pytest.raises(InputError, match=rf"<64,2,4>: expected at most {found}, found [\d,]+; "):
            check_fit(Supply.of(board_with(key)), Tile(64, 2, 4))


def test_commands_say_what_is_not_judged(fluidb, tmp_path):
    for keys in SETS:
        write_file(tmp_path / "board.toml", platform_text(board_with(*keys)), replace=True)
        text = fluidb("platforms", "check", "board.toml").stdout.strip()
        assert json.loads(fluidb("platforms", "check", "board.toml", "--json").stdout)["unjudged"] == left_out(keys)
        (line,) = re.findall(r"; (?:not judged: (.*)|every resource is judged)$", text)
        assert ("LUTs" in line, "flip-flops" in line) == ("luts" not in keys, "flip_flops" not in keys)
        if len(keys) in (0, 2, 5):
            printed = fluidb("dse", TINY, "board.toml", "--tile", "30,1,1", "--b-max", 1).stdout
            assert re.findall(r"^not judged +(.*)$", printed, re.MULTILINE) == [line]


def test_what_a_board_states_and_a_search_does_not_count_is_named():
    """With the paper's count; in words that the engine has not; or a port that is too narrow."""
    paper = Supply.of(ZC706, placed=False).unjudged
    assert list(paper) == ["block_rams", "luts", "flip_flops", "cycle", "port_words"]
    assert set(paper.values()) == {"the paper counts DSPs and bits of memory"}
    fitted = Supply.of(ZC706, Limits(max_luts=200_000), placed=False).unjudged
    assert "luts" not in fitted  # by the fit to the paper
    assert Supply.of(ZC706.in_int8()).unjudged == {
        "luts": "the engine that `fluidb hardware` writes has words of 16 bits",
        "flip_flops": "the engine that `fluidb hardware` writes has words of 16 bits",
        "cycle": "its file states no fit",
        "port_words": "16 words a beat carry less than 4.267 GB/s",
    }
    assert SearchOptions(overlap=Overlap.IDEAL).supply(NETWORK, ZC706).unjudged == {"cycle": "its file states no fit"}


def test_wider_words_take_more_dsps():
    """Issue 46, F9: 24 by 24 bits are two products of 27 by 18, and look-up tables bind as for 16 bits."""
    boards = {bits: ZC706.model_copy(update={"word_bits": bits}) for bits in (1, 8, 16, 18, 19, 24, 27, 28, 32, 35, 36)}
    assert [board.dsps_per_mac for board in boards.values()] == [1, 1, 1, 1, 2, 2, 2, 4, 4, 4, 6]
    assert boards[24].macs_per_cycle == ZC706.macs_per_cycle // 2
    assert boards[24].dsps_of(100) == 200
    narrow, wide = (Supply.of(boards[bits]) for bits in (16, 24))
    assert {key: wide.most[key] for key in LOGIC} == {key: narrow.most[key] for key in LOGIC}
    assert wide.unjudged["luts"] == "beyond what words of 16 bits take"
    assert boards[32].model_copy(update=dict.fromkeys(("luts", "flip_flops", "block_rams"))).dsps_per_mac == 1  # ASIC


def test_plan_says_what_is_not_judged_and_prints_what_is(fluidb, tmp_path):
    write_file(tmp_path / "board.toml", platform_text(board_with("luts", "port_words")), replace=True)
    asked = "--slo", "1s", "--rate", 1, "--max-dsp", "1DSPs", "--policy", "serial", "--count", 100
    text = fluidb("plan", TINY, "board.toml", *asked, "--require", "violation_rate <= 50 %").stdout
    left = r"block RAMs, flip-flops \(its file states none\); the clock \(its file states no fit\)"
    assert re.search(rf"^hardware +zc706; not judged: {left}$", text, re.MULTILINE)
    assert re.search(r"^its logic +[\d,]+ LUTs, [\d.]+ %$", text, re.MULTILINE)
