"""Look-up tables and flip-flops: the model against syntheses, and searches against brute force within them."""

from __future__ import annotations

import math
import re

import lut4
import naive_engine
import numpy as np
import pytest
import synthesis
from builders import lines, network_of, port_for, tool
from fluidb.dse import Limits, SearchOptions, Tile, search
from fluidb.dse.hardware.templates import ENGINE
from fluidb.dse.npu import logic
from fluidb.dse.npu.banks import choosers, halves
from fluidb.dse.npu.board_use import board_use
from fluidb.dse.npu.choices import Batching, Objective, Overlap
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.fbcb import entry_bits
from fluidb.dse.npu.layouts import LayerKind, arrange
from fluidb.dse.npu.logic import NO_ENTRIES, Entries
from fluidb.dse.npu.objectives import OBJECTIVES
from fluidb.dse.npu.resources import Demand, logic_of
from fluidb.dse.npu.search import rank
from fluidb.dse.npu.side_by_side import NONE_NEEDED, Needed
from fluidb.dse.npu.space import DesignSpace, designs
from fluidb.dse.npu.tiles import stacked, tiles_of
from fluidb.models import load_network
from fluidb.platforms import load_platform
from synthesis import Row, Size, read_table
from test_built import samples_of_a_tile

ZC706, ZCU104 = load_platform("zc706"), load_platform("zcu104")
PARTS = [row for row in read_table() if row.part != "engine"]
FITTED = [row for row in PARTS if row.size in synthesis.SIZES[row.part]]
CHECKED = [row for row in PARTS if row not in FITTED]
ENGINES = [row for row in read_table() if row.part == "engine"]


def entries_of(size: Size) -> logic.Entries:
    return (
        logic.Entries(size.layers * size.b_max, entry_bits(size.b_max, size.block_bits)) if size.b_max else NO_ENTRIES
    )


def own_luts(row: Row) -> int:
    """Look-up tables of a part but those that choose a row of its small banks."""
    if row.part in synthesis.BEYOND:
        return row.luts
    T_R, T_P, T_C, W, _ = row.size[:5]
    half = -(-T_R // 2)
    banks = {
        "sums": (2, 48, half), "inputs": (2 * T_P * W, 16, 2 * (-(-half // W) + 1)),
        "outputs": (2 * W * -(-T_C // W), 16, 2 * half),
    }  # fmt: skip
    number, width, rows = banks.get(row.part, (0, 1, 1))
    return row.luts - int(number * (halves(width, rows) == 0) * choosers(width, rows))


def features_of(row: Row) -> list[float]:
    *sizes, W, S = row.size[:5]
    beyond = row.part in synthesis.BEYOND
    grown = logic.features_beyond(entries_of(row.size)) if beyond else logic.features(W, Tile(*sizes), S)
    return [float(value) for value in grown[row.part]]


def fits_of(part: str) -> tuple[list[float], list[float]]:
    rows = [row for row in FITTED if row.part == part]
    of, luts = np.array([features_of(row) for row in rows]), np.array([own_luts(row) for row in rows], float)
    unpaired = np.array([row.unpaired for row in rows])
    assert len(rows) > of.shape[1]
    one, other = (np.linalg.lstsq(of / luts[:, None], count / luts, rcond=None)[0] for count in (luts, unpaired))
    return one.tolist(), other.tolist()


@pytest.mark.parametrize("part", list(logic.LUTS))
def test_the_numbers_are_the_fit_to_the_syntheses(part):
    """Least squares of errors that are relative to the tables of a part."""
    luts, unpaired = fits_of(part)
    assert logic.LUTS[part] == pytest.approx(luts, abs=0.006)
    assert logic.UNPAIRED[part] == pytest.approx(unpaired, abs=0.006)
    assert min(luts) > 0  # so more of T_C, which the search builds on, never takes less


def test_parts_that_were_not_fitted():
    """Errors in tables of three inputs or more; and in all, of which two small ones share one."""
    errors: dict[str, list[tuple[float, float]]] = {}
    for row in CHECKED:
        of, luts = np.array(features_of(row)), own_luts(row)
        found, unpaired = of @ logic.LUTS[row.part], of @ logic.UNPAIRED[row.part]
        both = found / luts - 1, (found + unpaired / 2) / (luts + row.unpaired / 2) - 1
        errors.setdefault(row.part, []).append(both)
    most = {part: (100 * np.abs(of).max(axis=0)).round().astype(int).tolist() for part, of in errors.items()}
    assert most == {
        "inputs": [28, 8], "weights": [20, 18], "maxima": [25, 2], "elements": [7, 0], "outputs": [3, 17],
        "sums": [1, 0],
    }  # fmt: skip


def test_whole_engines_are_as_their_parts():
    """Engines were not fitted; one has more samples side by side than its port has words."""
    assert {(row.size.W, row.size.S) for row in ENGINES} == {(4, 2), (4, 8)}
    for row in ENGINES:
        luts, flip_flops = synthesis.counted(row.size)
        assert luts == pytest.approx(row.luts + row.memory_luts, rel=0.05)
        assert flip_flops == pytest.approx(row.flip_flops, rel=0.02)


def test_flip_flops_of_parts_are_counted_from_their_registers():
    for row in PARTS:
        if row.part in synthesis.BEYOND:
            found = float(logic.beyond(entries_of(row.size)).flip_flops[row.part])
            assert 0 <= found - row.flip_flops <= 22, row
            continue
        T_R, T_P, T_C, W, S = row.size[:5]
        found = float(logic.flip_flops(W, Tile(T_R, T_P, T_C), S)[row.part])
        small = {"sums": 2 * 48, "residual": 16 * W, "inputs": 32 * T_P * W, "outputs": 32 * W * -(-T_C // W)}.get(
            row.part, 0
        )
        found += small * (row.memory_luts > 0)
        assert abs(found - row.flip_flops) <= max(0.02 * row.flip_flops, 1), row


def test_a_synthesis_can_be_repeated():
    tool("yosys")
    for part, size in (("elements", Size(64, 4, 4, 4, 2)), ("fbe", Size(0, 0, 0, 0, 0, 8, 4, 0))):
        row = synthesis.synthesise(part, size)
        assert row.sources == synthesis.digest(part, size)
        assert row in PARTS


def test_the_page_shows_whole_engines_and_which_rows_are_of_older_sources():
    page, rows = (synthesis.HERE.parent / "docs" / "model.md").read_text(), read_table()
    assert f"synthesis.py table\n{synthesis.table_text(rows)}\n```" in page
    two = [row._replace(sources=synthesis.digest(row.part, row.size)) for row in PARTS[:2]]
    assert synthesis.table_text(two).endswith("older sources: none")
    assert synthesis.table_text([two[0], two[1]._replace(sources="")]).endswith("older sources: elements 1 of 2")


def test_a_part_is_synthesised_of_its_own_modules_alone():
    """What others have would change the numbers that Yosys gives, and with them a result."""
    texts = [synthesis.WRAPPERS, *(path.read_text(encoding="utf-8") for path in ENGINE.glob("*.sv"))]
    found = synthesis.MODULE.findall("\n".join(texts))
    assert len(found) == sum(len(re.findall(r"^(?:\(\*.*\*\) )?module ", text, re.MULTILINE)) for text in texts)
    size = PARTS[0].size
    assert list(synthesis.sources("weights", size)) == ["engine_pkg.sv", "part_weights.sv", "weights.sv"]
    assert list(synthesis.sources("sums", size)) == ["engine_pkg.sv", "ram.sv", "scale.sv", "sums.sv"]
    small, large = (synthesis.digest("sums", Size(T_R, 4, 8, 8, 2)) for T_R in (64, 1024))
    assert small != large


def ports_of(text):
    """Ports of each module."""
    heads = re.findall(r"\bmodule (\w+) (.*?)\);", re.sub("//.*", "", text), re.DOTALL)
    return {name: set(re.findall(r"(?:input|output)\s[^,;]*?(\w+)\s*(?:,|$)", head)) for name, head in heads}


def test_what_stands_in_place_of_a_part_has_its_ports():
    """Otherwise ``control`` cannot be synthesised, which takes minutes."""
    stubs = ports_of(synthesis.STUBS)
    del stubs["taps"]
    for name, ports in stubs.items():
        source = (ENGINE / f"{name}.sv").read_text(encoding="utf-8")
        assert ports == ports_of(source)[name], name
        assert "clk" in ports


def test_more_of_anything_takes_no_less():
    """But look-up tables of a T_P that W divides, whose inner rows choose no words by k."""
    draw = np.random.default_rng(3)
    for _ in range(300):
        T_R, T_P, T_C = (int(draw.integers(1, most)) for most in (5000, 40, 300))
        W, S = 2 ** int(draw.integers(0, 7)), 2 ** int(draw.integers(0, 4))
        least = logic.engine(W, Tile(T_R, T_P, T_C), S)
        for *more, most in (
            (T_R, T_P + 1, T_C, S),
            (T_R, T_P, T_C + 1, S),
            (T_R, T_P, T_C, 2 * S),
            (2 * T_R, T_P, T_C, S),
        ):
            counts = logic.engine(W, Tile(*more), most)
            assert counts.total_luts >= least.total_luts or (T_P % W != 0 and more[1] == T_P + 1 and more[1] % W == 0)
            assert counts.total_flip_flops >= least.total_flip_flops


@pytest.mark.parametrize("batching", [Batching.FLUID, Batching.ROW, Batching.COLUMN])
@pytest.mark.parametrize("key", ["luts", "flip_flops"])
def test_a_search_equals_brute_force_within_look_up_tables_and_flip_flops(batching, key):
    draw = np.random.default_rng(4)
    for _ in range(3):
        sizes = [(int(draw.integers(1, 60)), int(draw.integers(1, 80)), int(draw.integers(1, 40)), 1) for _ in "ab"]
        network, b_max = network_of(sizes), int(draw.integers(1, 5))
        most = int(draw.integers(16_000, 32_000) / (1 if key == "luts" else 1.5))
        board = ZC706.model_copy(
            update={key: most, "dsps": 24, "bandwidth_gb_s": 0.6, "port_words": 4, "block_rams": 60}
        )
        options = SearchOptions(batching=batching, b_max=b_max)
        supply = options.supply(network, board)
        tiles, space = designs(supply), DesignSpace(supply)
        assert sorted(tiles_of(space.within(space.boxes()))) == sorted(tiles_of(tiles))
        values = Evaluator(network, board, options).rate(tiles, [Objective.GOP_S])[:, 0]
        best = rank(tiles, OBJECTIVES[Objective.GOP_S].losses(values))[:5]
        assert [design.tile for design in search(network, board, options).ranking] == tiles_of(tiles[:, best])


def test_layouts_have_as_many_samples_side_by_side_as_fit(monkeypatch):
    draw = np.random.default_rng(7)
    seen = set()
    for _ in range(40):
        gemm = (*tuple(int(draw.integers(1, most)) for most in (20, 30, 12)), 1)
        tile, b = tuple(int(draw.integers(2, most)) for most in (60, 6, 14)), int(draw.integers(2, 7))
        most = int(draw.choice([1, 2, 4]))
        monkeypatch.setattr(
            SearchOptions, "samples_side_by_side", lambda self, network, board, of, most=most: np.full(len(of[0]), most)
        )
        board = ZC706.model_copy(update={"bandwidth_gb_s": 0.6, "port_words": 4}).without_bus()
        choice = Evaluator(network_of([gemm]), board, SearchOptions(b_max=b)).choose(Tile(*tile))
        tiles = [tuple(row) for row in stacked(Tile(*tile).array)[..., 0].T.astype(int).tolist()]
        rows = [
            (b, B_R, *arrange(Batching.FLUID, b, B_R, LayerKind.SINGLE_ROW if gemm[0] == 1 else LayerKind.SHARED))
            for B_R in range(1, b + 1)
        ]
        ways = []
        for code, stacked_tile in enumerate(tiles):
            for row in rows:
                if min(stacked_tile) < 1 or samples_of_a_tile(gemm, stacked_tile, row) > most:
                    continue
                drain = naive_engine.drain_of(tile[1])
                cycles, words, _, B_R, minus = naive_engine.best(
                    gemm, [stacked_tile], [row], port_for(board), drain, (0, 1)
                )
                ways.append((cycles, words, code, B_R, minus))
        assert [getattr(choice, name)[0, -1] for name in ("cycles", "words", "codes", "B_R")] == list(min(ways)[:4])
        seen.add(samples_of_a_tile(gemm, tiles[min(ways)[2]], rows[min(ways)[3] - 1]))
    assert {1, 2} <= seen


def test_the_only_layout_touches_no_more_samples_than_it_is_said_to():
    for C in range(1, 20):
        for T_C in range(1, 40):
            for b in (1, 3, 8):
                touched = samples_of_a_tile((1, 1, C), (1, 1, T_C), (b, 1, b, 1))
                found = int(Needed(b, C).by(Tile(2, 1, T_C)))
                assert touched <= found <= 1 << (b - 1).bit_length()
    assert NONE_NEEDED.by(Tile(2, 1, 9)) == 1


def test_what_takes_too_many_look_up_tables_is_refused(fluidb):
    (line,) = lines(fluidb("dse", "resnet50", "zc706", "--max-lut", "60000LUTs", "--tile", "1024,7,128"))
    assert re.search(
        r"expected at most 60,000 of 218,600 LUTs and 437,200 flip-flops of zc706, found [\d,]+ and [\d,]+; allow more",
        line,
    )
    (line,) = lines(fluidb("dse", "resnet50", "zc706", "--max-lut", "5000LUTs"))
    assert "zc706: no design fits:" in line
    assert "5,000 of 218,600 LUTs" in line
    assert fluidb("dse", "resnet50", "zc706", "--max-lut", "170000LUTs", "--overlap", "paper").returncode == 0


def test_a_limit_is_of_the_engine_and_with_the_paper_of_its_fit():
    network, limits = load_network("alexnet"), Limits(max_luts=80_000)
    found = search(network, ZC706, SearchOptions(b_max=2, limits=limits)).best.tile
    taken = board_use(ZC706, found)
    assert taken is not None
    assert taken.luts is not None
    assert taken.total_luts <= 80_000
    paper = SearchOptions(b_max=2, overlap=Overlap.PAPER)
    limited = paper.model_copy(update={"limits": Limits(max_luts=160_000)})
    luts = []
    for options in (paper, limited):
        _, T_P, T_C, _, _ = search(network, ZC706, options).best.tile
        luts.append(153_000 + 18.1 * T_C * (T_P - 1))
    assert luts[1] <= 160_000 < luts[0]


def test_boards_whose_words_the_engine_has_not_are_counted_without_it():
    for board in (ZC706.in_int8(), load_platform("nvdla")):
        assert not logic_of(board)
    use = board_use(ZC706.in_int8(), Tile(1024, 7, 128))
    assert use is not None
    assert (use.luts, use.flip_flops, use.lut_share, use.flip_flop_share) == (None, None, None, None)
    counted = board_use(ZC706, Tile(1024, 7, 64))
    assert counted is not None
    assert counted.lut_share is not None
    assert math.isclose(counted.lut_share, counted.total_luts / 218_600)


def test_an_ecp5_has_the_cells_that_are_counted():
    """Multipliers and blocks as they are; look-up tables of four inputs within 3 %, by the mean of whole NPUs."""
    rows, board = lut4.read_rows(), load_platform("ulx3s")
    demands = [lut4.counted(row.size) for row in rows]
    assert [(row.multipliers, row.blocks) for row in rows] == [
        (int(one.dsps), 2 * float(one.placed.block_rams)) for one in demands
    ]
    ratios = np.array([row.luts / float(one.logic.total_luts) for row, one in zip(rows, demands, strict=True)])
    assert board.luts_per_lut6 == pytest.approx(ratios.mean(), abs=0.005)
    assert abs(board.luts_per_lut6 / ratios - 1).max() < 0.03


def test_a_board_counts_its_own_look_up_tables():
    """Every part, and so what fits."""
    board, tile = load_platform("zc706"), Tile(64, 4, 4)
    other = board.model_copy(update={"luts_per_lut6": 2.5})
    once, more = (Demand(of, tile, 2, Entries(80, 6)).logic for of in (board, other))
    assert more.total_luts == pytest.approx(2.5 * once.total_luts)
    assert {part: 2.5 * luts for part, luts in once.luts.items()} == pytest.approx(more.luts)
    assert more.total_flip_flops == once.total_flip_flops
    taken = board_use(other, tile, 2, Entries(80, 6))
    assert taken
    assert taken.lutram_luts == 2.5 * board_use(board, tile, 2, Entries(80, 6)).lutram_luts
    assert "luts_per_lut6" in other.model_dump()
    assert "luts_per_lut6" not in board.model_dump()
