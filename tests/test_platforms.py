"""Boards: their numbers, sources, and faults."""

from __future__ import annotations

import json
import re

import pytest
from conftest import COMPILED, DATA, POCKET, TINY
from fluidb.dse.search import SearchOptions, search
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import PLATFORMS, load_platform

NUMBERS = ("dsps", "on_chip_mbit", "flip_flops", "luts", "clock_mhz", "bandwidth_gb_s", "word_bits")


@pytest.mark.parametrize("name", PLATFORMS.names())
def test_every_number_that_ships_has_a_source(name):
    board = load_platform(name)
    assert board.name == name
    assert set(board.sources) == {key for key in NUMBERS if getattr(board, key) is not None}


@pytest.mark.parametrize("name", sorted({*PLATFORMS.names()} - {"nvdla"}))
def test_a_look_up_table_has_two_flip_flops(name):
    """As all AMD fabric since the 7 series (UG474, UG574): a slip in either figure shows."""
    board = load_platform(name)
    assert board.luts
    assert board.flip_flops == 2 * board.luts


@pytest.mark.parametrize("name", sorted({*PLATFORMS.names()} - {"nvdla", "zcu104"}))
def test_the_memory_follows_from_its_blocks(name):
    """Data sheets print Mb to a tenth, block RAM and UltraRAM apart."""
    board = load_platform(name)
    blocks = re.findall(r"([\d,]+) (?:block RAMs|UltraRAMs) of (\d+) Kb", board.sources["on_chip_mbit"])
    assert blocks
    kb = sum(int(count.replace(",", "")) * int(size) for count, size in blocks)
    assert board.on_chip_mbit == pytest.approx(kb / 1024, abs=0.1)


@pytest.mark.parametrize("name", PLATFORMS.names())
def test_the_bandwidth_follows_from_its_source(name):
    """Where a source multiplies, its product is the figure: transfers a second, bytes a transfer, channels."""
    board = load_platform(name)
    source = board.sources["bandwidth_gb_s"]
    factors = re.search(r"(?:(\d+) [a-z ]*\* )?([\d.]+) (MT/s|GB/s)(?: \* (\d+) bytes)?", source)
    assert factors
    channels, rate, unit, width = factors.groups()
    product = float(rate) * int(channels or 1) * (int(width) / 1000 if unit == "MT/s" else 1)
    half = 0.5 if source.startswith("half of") else 1.0
    assert board.bandwidth_gb_s == pytest.approx(half * product, rel=1e-3)


@pytest.mark.skipif(not COMPILED, reason="searches large boards: minutes as plain Python")
@pytest.mark.parametrize("name", PLATFORMS.names())
def test_every_board_that_ships_can_be_searched(name):
    board = load_platform(name)
    tile = search(load_network(TINY), board, SearchOptions(b_max=2)).best.tile
    assert tile.dsps <= board.dsps
    assert tile.buffer_bits(board.word_bits) <= board.on_chip_bits


def test_the_paper_s_boards():
    zc706, zcu104 = load_platform("zc706"), load_platform("zcu104")
    assert (zc706.dsps, zc706.on_chip_bits, zc706.flip_flops) == (900, int(19.2 * 2**20), 437_200)
    assert (zcu104.dsps, zcu104.on_chip_bits, zcu104.flip_flops) == (1728, 38 * 2**20, 460_800)


def test_bandwidth_in_words_and_given_by_the_user():
    board = load_platform(POCKET)
    assert board.words_per_cycle == 2.0  # 0.4 GB/s at 100 MHz: four bytes a cycle
    faster = load_platform(POCKET, 0.8)
    assert faster.words_per_cycle == 4.0
    assert faster.sources["bandwidth_gb_s"] == "given by the user"


def test_every_fault_at_once_with_its_key(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(
        'schema = "fluidb.platform/2"\nname = "x"\ntitle = "x"\ndsps = -1\non_chip_mbit = "fast"\nluts = 5\n'
        "clock_mhz = nan\nbandwith_gb_s = 1.0\nword_bits = 16\n[sources]\ncolour = 'red'\n"
    )
    with pytest.raises(InputError) as caught:
        load_platform(str(path))
    text = "\n".join(caught.value.faults)
    for part in (
        "schema: expected 'fluidb.platform/1', found \"fluidb.platform/2\"",
        "dsps: expected greater than or equal to 1, found -1",
        'on_chip_mbit: expected a valid number, found "fast"',
        "clock_mhz: expected a finite number",
        "bandwidth_gb_s: expected this key, found none",
        "bandwith_gb_s: unknown key; did you mean bandwidth_gb_s?",
        "sources: expected the keys of this file, found colour",
    ):
        assert f"{path}: {part}" in text
    assert len(caught.value.faults) == 7


def test_a_board_without_flip_flops_shares_none(fluidb, tmp_path):
    """An ASIC has neither flip-flops nor look-up tables to share: commands print a dash, JSON null."""
    text = (DATA / "pocket.toml").read_text()
    (tmp_path / "chip.toml").write_text(text.replace("flip_flops = 10_000\nluts = 5_000\n", ""))
    assert "flip_flops      -" in fluidb("platforms", "show", "chip.toml").stdout
    assert "flip-flops (-)" in fluidb("dse", TINY, "chip.toml", "--b-max", 2, "-o", "tiny").stdout
    assert "flip-flops (- of pocket)" in fluidb("fbcb", "tiny").stdout
    assert json.loads(fluidb("fbcb", "tiny", "--json").stdout)["register_share"] is None


def test_near_misses_of_a_name():
    with pytest.raises(InputError, match=r'unknown platform "zc760"; did you mean zc706'):
        load_platform("zc760")
