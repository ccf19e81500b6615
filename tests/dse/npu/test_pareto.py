"""The front of a board against brute force, and the command that prints and draws it."""

from __future__ import annotations

import json

import naive
import numpy as np
import pytest
from builders import COMPILED, POCKET, TINY, any_gemm, lines, modes, network_of, paper_options
from enumeration import every_row, ranked
from fluidb.dse import OBJECTIVES, Batching, Limits, Objective, Overlap, SearchOptions, Tile, search
from fluidb.dse.npu.dominance import mark_beaten
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.pareto import Axis, check_axes, find_front, undominated
from fluidb.dse.npu.space import designs
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import Board, load_platform
from fluidb.plots import save
from fluidb.plots.pareto import draw_front
from hypothesis import given, settings
from hypothesis import strategies as st


def board_of(dsps: int, kibit: int, gb_s: float) -> Board:
    return Board(
        name="b", title="b", dsps=dsps, on_chip_mbit=kibit / 1024, luts=1000, clock_mhz=100.0, bandwidth_gb_s=gb_s,
        word_bits=16, mac_pj=1.0, on_chip_pj_per_word=2.0, off_chip_pj_per_word=300.0, luts_fixed=100.0,
        luts_per_adder=7.0,
    )  # fmt: skip


rows = st.lists(st.tuples(*[st.integers(0, 6).map(float)] * 3), min_size=1, max_size=60)


@given(rows)
def test_the_sweep_equals_comparing_all_with_all(points):
    found = undominated(np.array(points))
    assert {points[i] for i in found} == naive.front(points)
    assert len(found) == len(naive.front(points))
    assert all(points.index(points[i]) == i for i in found)  # of equals the first


@given(rows, rows)
def test_rows_that_a_front_beats_equal_comparing_all_with_all(front, points):
    """A row that is equal, or better in the first column only, beats none: ranks say which of two stays."""
    front, points = sorted(front), sorted(points)
    beaten = [any(np.less_equal(row, at).all() and row[1:] != at[1:] for row in front) for at in points]
    assert mark_beaten(np.array(front), np.array(points)).tolist() == beaten


def brute_force(network, board, options, over):
    """Every design, with every even T_R, compared with every other: the front and its tiles."""
    tiles = every_row(designs(options.supply(network, board)))
    evaluator = Evaluator(network, board, options)
    sign = -1 if OBJECTIVES[options.objective].higher_is_better else 1
    points: dict[tuple[float, ...], list[Tile]] = {}
    for item in ranked(network, board, options, tiles, tiles.shape[1]):
        tile, objective = item.tile, item.objective
        cost = evaluator.cost(tile.array, traffic=Axis.ENERGY in over)
        takes = {
            Axis.DSP: -(-tile.T_P * tile.T_C // board.macs_per_dsp),
            Axis.RAM: 2 * board.word_bits * (tile.T_R * tile.T_P + tile.T_P * tile.T_C + tile.T_R * tile.T_C),
            Axis.LUT: 100 + 7 * tile.T_C * (tile.T_P - 1),
            Axis.LATENCY: cost.time_s[0, 0],
        }
        if Axis.ENERGY in over:
            takes[Axis.ENERGY] = cost.energy_j[0].sum() / options.b_max
        points.setdefault((*(float(takes[axis]) for axis in over), sign * objective), []).append(tile)
    return {(*key[:-1], sign * key[-1]): points[key] for key in naive.front(list(points))}


asked = st.sampled_from(
    [("gop_s", over) for over in ("ram", "dsp ram", "ram dsp", "lut ram", "latency ram", "dsp", "lut", "dsp energy")]
    + [("gop_s", "ram energy"), ("latency", "dsp ram"), ("energy", "dsp")]
    + [("gop_s_w", "dsp lut"), ("energy", "dsp latency")]
)


@settings(max_examples=100 if COMPILED else 8)
@given(
    st.lists(any_gemm, min_size=1, max_size=2), st.integers(1, 8), st.integers(1, 12),
    st.sampled_from([0.05, 0.2, 1.6]), st.integers(1, 3), modes, asked, st.none() | st.integers(1, 6),
    st.booleans(),
)  # fmt: skip
def test_the_front_equals_brute_force(gemms, dsps, kibit, gb_s, b_max, mode, asked, max_dsps, int8):
    network, board, over = network_of(gemms, 30), board_of(dsps, kibit, gb_s), [Axis(name) for name in asked[1].split()]
    if int8 and not {"lut", "energy", "gop_s_w"} & {asked[0], *over}:  # of these int8 boards state nothing
        board = board.in_int8()
    limits = Limits(max_dsps=max_dsps)
    options = paper_options(batching=Batching(mode), b_max=b_max, limits=limits, objective=asked[0])
    expected = brute_force(network, board, options, over)
    front = find_front(network, board, options, over)
    assert {(*point.takes, point.objective) for point in front.points} == set(expected)
    assert len(front.points) == len(expected)
    for point in front.points:  # of equal designs the one that a search would rank first
        equals = expected[*point.takes, point.objective]
        assert point.tile == min(equals, key=lambda tile: (-tile.macs, -tile.T_R, tile.T_P))


def test_the_front_holds_what_the_search_finds_and_its_shares_fit():
    network, board = load_network(TINY), load_platform(POCKET)
    front = find_front(network, board, paper_options(b_max=2), [Axis.DSP, Axis.RAM])
    best = search(network, board, paper_options(b_max=2)).best
    assert len(front.points) > 90
    assert max(point.objective for point in front.points) == best.objective
    assert front.points == sorted(front.points, key=lambda point: point.takes)
    for point in front.points:
        assert point.of_best == pytest.approx(point.objective / best.objective, rel=1e-12)
    most = [max(point.takes[axis] for point in front.points) for axis in (0, 1)]

    def distance(point):
        return (1 - point.of_best) ** 2 + sum((takes / top) ** 2 for takes, top in zip(point.takes, most, strict=True))

    assert distance(front.points[front.knee]) == pytest.approx(min(map(distance, front.points)))
    for axis in (0, 1):
        for share in (1.0, 0.9, 0.5):
            enough = [point for point in front.points if point.of_best >= share]
            assert front.least(axis, share).takes[axis] == min(point.takes[axis] for point in enough)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_front_does_not_depend_on_threads(threads):
    network, board = load_network(TINY), load_platform(POCKET)
    options = paper_options(b_max=2)
    assert find_front(network, board, options, threads=threads) == find_front(network, board, options)


def test_progress_never_goes_back():
    seen = []
    front = find_front(
        load_network(TINY), load_platform(POCKET), paper_options(b_max=2), progress=lambda *at: seen.append(at)
    )
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert all(done <= total for done, total in seen)
    assert seen[-1] == (front.designs_evaluated, front.designs_evaluated)


@pytest.mark.parametrize(
    ("objective", "over", "fault"),
    [
        ("gop_s", ["dsp", "ram", "lut"], "expected one or two of dsp, ram, lut, energy, latency, found dsp,ram,lut"),
        ("gop_s", ["dsp", "dsp"], "found dsp,dsp"),
        ("gop_s", [], "found none"),
        ("latency", ["latency"], "beside the objective, found latency in both"),
    ],
)
def test_axes_that_make_no_front(objective, over, fault):
    with pytest.raises(InputError, match=fault):
        check_axes(load_platform(POCKET), Objective(objective), [Axis(name) for name in over])


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--over", "dsps"], 'found "dsps"; write e.g. dsp,ram'),
        (["--over", "dsp,dsp"], "found dsp,dsp"),
        (["--plot", "front.pdf"], "ends in .svg or .png"),
        (["--plot", "mine.svg"], "mine.svg: output exists already"),
    ],
)
def test_faults(fluidb, tmp_path, arguments, fault):
    (tmp_path / "mine.svg").write_text("mine")
    (line,) = lines(fluidb("pareto", TINY, POCKET, *arguments))
    assert fault in line
    assert [path.name for path in tmp_path.iterdir()] == ["mine.svg"]


def test_axes_need_what_boards_state():
    board = load_platform(POCKET).model_copy(update={"luts_fixed": None, "mac_pj": None})
    for axis, key in ((Axis.LUT, "luts_fixed"), (Axis.ENERGY, "mac_pj")):
        with pytest.raises(InputError, match=f"needs {key}, which"):
            find_front(load_network(TINY), board, SearchOptions(overlap=Overlap.PAPER), over=[axis])


@pytest.mark.parametrize("arguments", [[], ["--objective", "energy"]])
def test_the_picture_and_the_numbers_come_from_one_front(fluidb, tmp_path, arguments):
    done = fluidb("pareto", TINY, POCKET, "--b-max", 2, *arguments, "--plot", "front.svg", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    record = json.loads(done.stdout)
    picture = (tmp_path / "front.svg").read_text()
    knee = record["points"][record["knee"]]
    assert f"knee &lt;{knee['T_R']},{knee['T_P']},{knee['T_C']}&gt;" in picture
    assert "tiny on pocket" in picture
    assert ("energy, J an inference" if arguments else "throughput, GOP/s weighted mean over b") in picture
    assert record["plot"] == "front.svg"


def test_the_same_front_gives_the_same_picture(tmp_path):
    network, board, options = load_network(TINY), load_platform(POCKET), paper_options(b_max=2)
    front = find_front(network, board, options)
    for name in "ab":
        save(draw_front(front, network, board, options), tmp_path / f"{name}.svg", replace=False)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
