"""Boards: their numbers, sources, and faults."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from builders import COMPILED, DATA, POCKET, TINY, edited, edits, lines
from fluidb.dse.npu.options import SearchOptions
from fluidb.dse.npu.resources import Limits
from fluidb.dse.npu.search import search
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import PLATFORMS, Platform, load_platform
from fluidb.platforms.fpgaconvnet import import_platform
from fluidb.platforms.writer import platform_text
from hypothesis import given
from hypothesis import strategies as st

BOARDS = [name for name in PLATFORMS.names() if load_platform(name, kind=Platform).kind == "board"]


AMD = sorted({*BOARDS} - {"nvdla", "ulx3s"})


@pytest.mark.parametrize("name", PLATFORMS.names())
def test_every_number_that_ships_has_a_source(name):
    board = load_platform(name, kind=Platform)
    assert board.name == name
    assert board.unsourced == []


@pytest.mark.parametrize("name", AMD)
def test_a_look_up_table_has_two_flip_flops(name):
    """As all AMD fabric since the 7 series (UG474, UG574): a slip in either figure shows."""
    board = load_platform(name)
    assert board.luts
    assert board.flip_flops == 2 * board.luts


@pytest.mark.parametrize("name", sorted({*BOARDS} - {"nvdla", "zcu104"}))
def test_the_memory_follows_from_its_blocks(name):
    """Data sheets print Mb to a tenth, block RAM and UltraRAM apart."""
    board = load_platform(name)
    blocks = re.findall(r"([\d,]+) (?:block RAMs|EBRs|UltraRAMs) of (\d+) Kb", board.sources["on_chip_mbit"])
    assert blocks
    kb = sum(int(count.replace(",", "")) * int(size) for count, size in blocks)
    assert board.on_chip_mbit == pytest.approx(kb / 1024, abs=0.1)


@pytest.mark.parametrize("name", AMD)
def test_the_memory_is_that_of_its_blocks(name):
    board = load_platform(name)
    assert board.block_rams is not None
    kb = 36 * board.block_rams + 288 * (board.ultra_rams or 0)
    assert board.on_chip_mbit == pytest.approx(kb / 1024, abs=0.1)
    for key, count in (("block_rams", board.block_rams), ("ultra_rams", board.ultra_rams)):
        assert count is None or f"{count:,} " in board.sources[key]


def test_two_blocks_of_an_ecp5_are_one():
    """Its blocks are half as large, and a look-up table of four inputs has one flip-flop."""
    board = load_platform("ulx3s")
    ((count, kb),) = re.findall(r"(\d+) EBRs of (\d+) Kb", board.sources["block_rams"])
    assert (board.block_rams, board.on_chip_mbit) == (
        int(count) / 2,
        pytest.approx(int(count) * int(kb) / 1024, abs=0.01),
    )
    assert board.flip_flops == board.luts
    assert f"{board.luts:,} look-up tables" in board.sources["luts"]


@pytest.mark.parametrize("name", BOARDS)
def test_the_bandwidth_follows_from_its_source(name):
    """Where a source multiplies, its product is the figure: transfers, bytes, channels; or bytes, a share, a clock."""
    board = load_platform(name)
    source = board.sources["bandwidth_gb_s"]
    if source.startswith("calibrated"):
        bytes_, share, mhz = map(float, re.findall(r"([\d.]+) (?:bytes|% of cycles|MHz)", source))
        assert (board.clock_mhz, board.usual_port_words) == (mhz, 8 * bytes_ / board.word_bits)
        assert board.bandwidth_gb_s == pytest.approx(bytes_ * share / 100 * mhz / 1000, rel=1e-3)
        return
    factors = re.search(r"(?:(\d+) [a-z ]*\* )?([\d.]+) (MT/s|GB/s)(?: \* (\d+) bytes)?", source)
    assert factors
    channels, rate, unit, width = factors.groups()
    product = float(rate) * int(channels or 1) * (int(width) / 1000 if unit == "MT/s" else 1)
    half = 0.5 if source.startswith("half of") else 1.0
    assert board.bandwidth_gb_s == pytest.approx(half * product, rel=1e-3)


@pytest.mark.skipif(not COMPILED, reason="searches large boards: minutes as plain Python")
@pytest.mark.parametrize("name", BOARDS)
def test_every_board_that_ships_can_be_searched(name):
    board = load_platform(name)
    most = min(board.dsps, 300)  # all DSPs of the largest board take half a minute
    tile = search(load_network(TINY), board, SearchOptions(b_max=2, limits=Limits(max_dsps=most))).best.tile
    assert 0.9 * most < tile.macs <= most
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
        "clock_mhz = nan\nbandwith_gb_s = 1.0\nword_bits = 16\nport_words = 12\n[sources]\ncolour = 'red'\n"
    )
    with pytest.raises(InputError) as caught:
        load_platform(str(path))
    text = "\n".join(caught.value.faults)
    for part in (
        "schema: expected 'fluidb.platform/1', found \"fluidb.platform/2\"",
        "dsps: expected at least 1, found -1",
        'on_chip_mbit: expected a number, found "fast"',
        "clock_mhz: expected a finite number",
        "bandwidth_gb_s: expected this key, found none",
        "port_words: expected a power of two, e.g. 16, found 12",
        "bandwith_gb_s: unknown key; did you mean bandwidth_gb_s?",
        "sources: expected keys of this file, e.g. bandwidth_gb_s, found colour",
    ):
        assert f"{path}: {part}" in text
    assert len(caught.value.faults) == 8


def test_a_board_without_flip_flops_shares_none(fluidb, tmp_path):
    """An ASIC has neither flip-flops nor look-up tables to share: commands print a dash, JSON null."""
    text = (DATA / "pocket.toml").read_text()
    (tmp_path / "chip.toml").write_text(text.replace("flip_flops = 100_000\nluts = 50_000\n", ""))
    assert re.search(r"^flip_flops +-$", fluidb("platforms", "show", "chip.toml").stdout, re.MULTILINE)
    assert "flip-flops (-)" in fluidb("dse", TINY, "chip.toml", "--b-max", 2, "-o", "tiny").stdout
    assert "flip-flops (- of pocket)" in fluidb("fbcb", "tiny").stdout
    assert json.loads(fluidb("fbcb", "tiny", "--json").stdout)["register_share"] is None


def test_near_misses_of_a_name():
    with pytest.raises(InputError, match=r'unknown platform "zc760"; did you mean zc706'):
        load_platform("zc760")


# --- fpgaConvNet's platform files ---

FOREIGN = DATA / "fpgaconvnet" / "zc706.toml"


def test_a_board_of_fpgaconvnet_is_ours(fluidb, tmp_path):
    """Its ZC706 with the paper's clock and bandwidth, beside ours."""
    done = fluidb("platforms", "import", FOREIGN, "-o", "board.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["board.toml"]
    ours, theirs = load_platform("zc706"), load_platform(str(tmp_path / "board.toml"))
    for key in ("name", "dsps", "flip_flops", "luts", "clock_mhz", "bandwidth_gb_s", "word_bits"):
        assert getattr(theirs, key) == getattr(ours, key)
    assert (theirs.block_rams, theirs.ultra_rams) == (ours.block_rams, None)
    assert theirs.on_chip_mbit == 1090 * 18 / 1024 == pytest.approx(ours.on_chip_mbit, abs=0.1)
    assert theirs.title == "zc706 (xc7z045ffg900-2)"
    assert theirs.unsourced == []
    assert theirs.sources["bandwidth_gb_s"] == "fpgaConvNet platform zc706.toml: memory_bandwidth 34.136 Gb/s / 8"
    assert "1090 blocks * 18 Kb" in fluidb("platforms", "show", "board.toml").stdout


def test_options_stand_in_for_what_the_file_does_not_say(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[device]\nname = "my board"\n[resources]\nDSP = 5\nBRAM = 64\nURAM = 2\n')
    board = import_platform(path, clock_mhz=150.0, bandwidth_gb_s=3.2)
    assert (board.name, board.title) == ("my_board", "my board")
    assert (board.clock_mhz, board.bandwidth_gb_s, board.word_bits) == (150.0, 3.2, 16)
    assert board.on_chip_mbit == (64 * 18 + 2 * 288) / 1024
    assert board.flip_flops is None
    given = {key for key, source in board.sources.items() if source == "given by the user"}
    assert given == {"clock_mhz", "bandwidth_gb_s"}


FOREIGN_FAULTS = {
    "no clock, no bandwidth": (
        "[system]\n",
        ["system.board_frequency: expected this key, found none; or state a clock", "or state a bandwidth"],
    ),
    "no system at all": ("", ["or state a clock", "or state a bandwidth"]),
    "text": ('[system]\nboard_frequency = "fast"\n', ["system.board_frequency: expected a number"]),
    "nothing": ("[system]\nboard_frequency = 0\n", ["system.board_frequency: expected more than 0"]),
    "not a number": ("[system]\nmemory_bandwidth = nan\n", ["system.memory_bandwidth: expected a finite number"]),
    "endless": (f"[system]\nboard_frequency = {10**400}\n", ["system.board_frequency: expected"]),
}


@pytest.mark.parametrize("case", FOREIGN_FAULTS)
def test_a_fault_of_a_foreign_file_names_its_key(tmp_path, case):
    text, parts = FOREIGN_FAULTS[case]
    path = tmp_path / "x.toml"
    path.write_text('[device]\nname = "a"\n[resources]\nDSP = 5\nBRAM = 64\n' + text)
    with pytest.raises(InputError) as caught:
        import_platform(path)
    assert len(caught.value.faults) == len(parts)
    for line, part in zip(caught.value.faults, parts, strict=True):
        assert line.startswith(f"{path}: ")
        assert part in line


def test_every_fault_of_a_foreign_file_at_once(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text('[device]\n[resources]\nDSP = -5\nBRAM = "many"\n')
    with pytest.raises(InputError) as caught:
        import_platform(path)
    assert [fault.split(": ")[1] for fault in caught.value.faults] == ["device.name", "resources.DSP", "resources.BRAM"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["."], ".: expected a file to import, found a folder"),
        (["nowhere.toml"], "nowhere.toml: expected a file to import, found none"),
        ([FOREIGN, "--clock", "150"], "--clock: expected a unit (MHz, GHz)"),
        ([FOREIGN, "--name", "a/b"], "--name: expected 1 to 80 letters"),
        ([FOREIGN, "-o", "there.toml"], "there.toml: output exists already"),
    ],
)
def test_a_refused_import_leaves_nothing(fluidb, tmp_path, arguments, expected):
    (tmp_path / "there.toml").write_text("mine")
    found = lines(fluidb("platforms", "import", *arguments, *([] if "-o" in arguments else ["-o", "out.toml"])))
    assert found[0].startswith(f"fluidb: {expected}")
    assert [path.name for path in tmp_path.iterdir()] == ["there.toml"]
    assert (tmp_path / "there.toml").read_text() == "mine"


@given(edits, st.booleans())
def test_no_bytes_break_the_readers(tmp_path_factory, changes, foreign):
    raw = edited((FOREIGN if foreign else Path(POCKET)).read_bytes(), changes)
    path = tmp_path_factory.getbasetemp() / "edited.toml"
    path.write_bytes(raw)
    try:
        assert (import_platform(path) if foreign else load_platform(str(path))).dsps >= 1
    except InputError as error:
        assert all(fault.startswith(f"{path}: ") for fault in error.faults)


@pytest.mark.parametrize("name", [*PLATFORMS.names(), POCKET])
def test_what_is_written_reads_back(tmp_path, name):
    path = tmp_path / "back.toml"
    (tmp_path / "numpy-x86.csv").write_bytes((PLATFORMS.folder / "numpy-x86.csv").read_bytes())
    path.write_text(platform_text(load_platform(name, kind=Platform)))
    assert load_platform(str(path), kind=Platform) == load_platform(name, kind=Platform)


def test_a_file_of_another_kind_is_one_fault(fluidb):
    """A network in place of a board, as when the two are exchanged: that its keys differ is no fault of the user."""
    (line,) = lines(fluidb("dse", POCKET, TINY))
    found = "schema: expected 'fluidb.network/1', found \"fluidb.platform/1\"; give a file of the expected kind"
    assert line == f"fluidb: {POCKET}: {found}"


def test_check(fluidb, tmp_path):
    assert fluidb("platforms", "check", "zc706").stdout == (
        "zc706: no faults; 900 DSPs, 19.2 Mb, 150 MHz, 4.267 GB/s; a source for every number; "
        "not judged: the clock (its file states no fit)\n"
    )
    assert "no source for dsps, on_chip_mbit, flip_flops" in fluidb("platforms", "check", POCKET).stdout
    content = json.loads(fluidb("platforms", "check", POCKET, "--json").stdout)
    assert (content["schema"], content["dsps"]) == ("fluidb.platform-check-output/1", 24)
    assert len(content["unsourced"]) == 13
    (tmp_path / "bad.toml").write_text("".join(f"key{i} = 1\n" for i in range(30)))
    assert sum("unknown key" in line for line in lines(fluidb("platforms", "check", "bad.toml"))) == 30
