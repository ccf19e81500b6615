"""What a design's time goes into, against counting by hand; other choices, against brute force."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from fractions import Fraction
from pathlib import Path

import naive
import numpy as np
import pytest
from builders import POCKET, TINY, any_gemm, batches, layer_of, lines, modes, network_of, paper_options, tiles
from fluidb.cli.render import percents
from fluidb.dse import Batching, Tile, configure, read_design, search, tabulate_design, tabulate_latency
from fluidb.dse.npu.costs import Cause, layer_costs
from fluidb.dse.npu.design import write_design
from fluidb.dse.npu.explanation import explain
from fluidb.dse.npu.fbcb import K_NAMES, encode
from fluidb.dse.npu.search import RankedDesign, SearchResult
from fluidb.formats import InputError
from fluidb.models import Exit, Layer, Network, Shape, load_network
from fluidb.platforms import load_platform
from fluidb.plots import save
from fluidb.plots.explain import draw_explanation
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import QuadMesh

ENGINES = [(mode, stacking) for mode in Batching for stacking in (True, False)]


@given(any_gemm, tiles, st.integers(0, 2), batches, st.sampled_from([0.05, 0.4, 12.8]), modes, st.data())
def test_parts_of_a_layer_equal_counting_by_hand(gemm, tile, code, b, gb_s, mode, data):
    B_R = data.draw(st.sampled_from(naive.choices(mode, b, gemm[0])))
    expected = naive.layer_parts(gemm, tile, K_NAMES[code], b, B_R, load_platform(POCKET, gb_s).words_per_cycle, mode)
    if expected is None:
        with pytest.raises(InputError, match="k does not fit"):
            parts_of(gemm, tile, code, b, B_R, gb_s, mode)
        return
    found, cycles = parts_of(gemm, tile, code, b, B_R, gb_s, mode)
    nothing = Fraction(0)
    expected = [*expected[:5], nothing, *expected[5:], *[nothing] * 5]  # none of an engine as built
    assert found == pytest.approx([float(part) for part in expected], rel=1e-9, abs=1e-9 * cycles)
    assert min(found) >= 0
    assert sum(found) == pytest.approx(cycles, rel=1e-12)


def parts_of(gemm, tile, code, b, B_R, gb_s, mode):
    """Cycles by cause of one layer with b samples, and in all; the control block has k = 1 and B_R = 1 for fewer."""
    options, result = paper_options(batching=mode, b_max=b), SearchResult([RankedDesign.of(Tile(*tile), 1.0)], 1)
    design, fbcb = tabulate_design(network_of([gemm]), load_platform(POCKET, gb_s), options, result)
    codes, rows = np.zeros((1, b), int), np.ones((1, b), int)
    codes[0, -1], rows[0, -1] = code, B_R
    costs = layer_costs(design, encode([row.layer for row in fbcb.rows], codes, None, rows).derived_from(design))
    clock_hz = design.platform.clock_hz
    return [part[0, -1] * clock_hz for part in costs.parts_s.values()], costs.time_s[0, -1] * clock_hz


def test_beats_that_an_aligned_bus_loses(fluidb, tmp_path):
    """By layer, in sum and in the table; as a cause they are the time beyond that of the same beats anywhere."""
    text = Path(POCKET).read_text().replace("word_bits = 16", "word_bits = 16\nport_words = 4", 1)
    (tmp_path / "board.toml").write_text(text)
    found = {}
    for name, more in (("aligned", ()), ("ideal", ("--overlap", "ideal"))):
        fluidb("dse", TINY, "board.toml", "-o", name, "--b-max", "2", *more)
        found[name] = json.loads(fluidb("explain", name, "--json").stdout)
    assert [" lost" in fluidb("explain", name).stdout for name in found] == [True, False]
    explanation = explain(*read_design(tmp_path / "aligned"))
    asked, moved = explanation.beats
    for at, (layer, other) in enumerate(zip(found["aligned"]["layers"], found["ideal"]["layers"], strict=True)):
        share = np.where(moved[at] > 0, 1 - asked[at] / np.maximum(moved[at], 1), 0)
        assert layer["lost_beat_share"] == pytest.approx(share)
        assert other["lost_beat_share"] == other["unaligned_beats_s"] == [0, 0]
    assert found["aligned"]["lost_beat_share"] == pytest.approx(1 - asked.sum(axis=0) / moved.sum(axis=0))
    assert min(found["aligned"]["lost_beat_share"]) > 0.01
    assert max(layer["unaligned_beats_s"][0] for layer in found["aligned"]["layers"]) > 0
    assert sum(explanation.parts_s.values()) == pytest.approx(explanation.time_s, rel=1e-12)


@given(any_gemm, tiles, batches, st.sampled_from([0.05, 0.4, 12.8]))
def test_products_of_two_activations_cost_b_times_one(gemm, tile, b, gb_s):
    one, _ = parts_of((*gemm, True), tile, 0, 1, 1, gb_s, "fluid")
    found, _ = parts_of((*gemm, True), tile, 0, b, 1, gb_s, "fluid")
    assert found == pytest.approx([b * part for part in one])


def tiny(mode=Batching.FLUID, *, stacking=True, memory_layers=True, b_max=4, network=None):
    """Tables of the tiny network, on a tile whose odd sides leave something to every cause."""
    network, board = network or load_network(TINY), load_platform(POCKET)
    options = paper_options(batching=mode, stacking=stacking, memory_layers=memory_layers, b_max=b_max)
    return tabulate_design(network, board, options, SearchResult([RankedDesign.of(Tile(44, 3, 7), 1.0)], 1))


@pytest.mark.parametrize(("mode", "stacking"), ENGINES)
@pytest.mark.parametrize("memory_layers", [True, False])
def test_layers_sum_to_the_latency_table(mode, stacking, memory_layers):
    design, fbcb = tiny(mode, stacking=stacking, memory_layers=memory_layers)
    found = explain(design, fbcb)
    assert sum(found.parts_s.values()) == pytest.approx(found.time_s, rel=1e-12)
    assert all((part >= 0).all() for part in found.parts_s.values())
    assert (found.time_s > 0).all()
    assert all(layer.gemm for layer in found.layers) != memory_layers
    table = tabulate_latency(design, fbcb).array()
    for stage in (1, 2, 3):
        rows = [index for index, layer in enumerate(found.layers) if layer.stage == stage]
        assert found.time_s[rows].sum(axis=0) == pytest.approx(table[stage - 1, stage, 1:], rel=1e-12)


@pytest.mark.parametrize(("mode", "stacking"), ENGINES)
def test_the_choice_is_that_of_search_and_control_block(mode, stacking):
    network, board = load_network(TINY), load_platform(POCKET)
    options = paper_options(batching=mode, stacking=stacking, b_max=4)
    result = search(network, board, options)
    design, fbcb = tabulate_design(network, board, options, result)
    found, choice = explain(design, fbcb), configure(network, board, result.best.tile, options)
    products = [index for index, layer in enumerate(found.layers) if layer.gemm]
    chosen = [found.chosen[index] for index in products]
    codes, _, B_R = fbcb.unpack()
    assert chosen == [
        [(K_NAMES[code], rows) for code, rows in zip(*row, strict=True)] for row in zip(codes, B_R, strict=True)
    ]
    assert found.time_s[products] == pytest.approx(choice.cycles / board.clock_hz, rel=1e-12)
    assert found.dram_bytes[products] == pytest.approx(2 * choice.words, rel=1e-12)
    assert found.mean_gop_s == pytest.approx(result.best.objective, rel=1e-12)
    for index in products:
        for b, column in enumerate(found.candidates[index], 1):
            best = column[0]
            assert (best.k, best.B_R) == found.chosen[index][b - 1]
            assert (best.time_s, best.dram_bytes) == (found.time_s[index, b - 1], found.dram_bytes[index, b - 1])


def weighed_by_hand(layer, tile, b, rate, mode, *, stacking):
    """What the search weighs, best first: of the B_R with the same B_P only the smallest."""
    found = []
    for k in naive.STACKS if stacking else ("1",):
        for B_R in [1] if layer.per_sample else naive.choices(mode, b, layer.gemm.R):
            if mode == "fluid" and any(naive.ceil_div(b, fewer) == naive.ceil_div(b, B_R) for fewer in range(1, B_R)):
                continue
            passes, samples = (b, 1) if layer.per_sample else (1, b)
            cost = naive.layer_cost(layer.gemm, tile, k, samples, B_R, rate, mode)
            if cost is not None:
                moved = cost[1] if mode == "eq1" else naive.words_by_tiles(layer.gemm, tile, k, samples, B_R, mode)
                found.append((passes * cost[0], passes * moved, naive.STACKS.index(k), B_R, passes * cost[1]))
    return sorted(found)


PRODUCTS = [(36, 27, 8, 1), (1, 96, 10, 1), (9, 13, 5, 2), (5, 8, 9, 1, True)]


@pytest.mark.parametrize(("mode", "stacking"), ENGINES)
def test_runner_up_and_fixed_configurations_equal_brute_force(mode, stacking):
    network = network_of(PRODUCTS, 300)
    design, fbcb = tiny(mode, stacking=stacking, network=network)
    found, board = explain(design, fbcb), design.platform
    free = mode in (Batching.FLUID, Batching.EQ1)
    fixed = {(item.k, item.B_R): item for item in found.fixed}
    assert set(fixed) == {
        (k, B_R) for k in (None, *(naive.STACKS if stacking else ())) for B_R in ((None, "b", "1") if free else (None,))
    } - {(None, None)}
    totals_s = {pair: np.full(4, 300 * np.arange(1, 5) / board.words_per_cycle) / board.clock_hz for pair in fixed}
    for index, layer in enumerate(layer for layer in network.layers if layer.gemm):
        for b in range(1, 5):
            pairs = weighed_by_hand(layer, design.tile, b, board.words_per_cycle, mode.value, stacking=stacking)
            following = found.runner_up(index)[b - 1]
            if len(pairs) == 1:
                assert following is None
            else:
                assert following
                assert (naive.STACKS.index(following.k), following.B_R) == pairs[1][2:4]
                assert following.time_s == pytest.approx(pairs[1][0] / board.clock_hz, rel=1e-12)
            for (k, rule), total_s in totals_s.items():
                rows = {None: None, "b": 1 if layer.per_sample else b, "1": 1}[rule]
                allowed = [pair[0] for pair in pairs if k in (None, naive.STACKS[pair[2]]) and rows in (None, pair[3])]
                total_s[b - 1] += min(allowed) / board.clock_hz
    for pair, item in fixed.items():
        assert item.time_s == pytest.approx(totals_s[pair], rel=1e-12)
        rate = sum(2e-9 * network.macs * b / item.time_s[b - 1] for b in range(1, 5)) / 4
        assert item.mean_gop_s == pytest.approx(rate, rel=1e-12)
    whole = [item.mean_gop_s for (k, B_R), item in fixed.items() if (k or not stacking) and (B_R or not free)]
    best = found.best_fixed
    assert (best.mean_gop_s if best else None) == max(whole, default=None)


@given(any_gemm, tiles, batches, st.sampled_from([0.05, 0.4, 12.8]), modes)
@settings(max_examples=40)
def test_candidates_stand_in_the_order_of_the_search(gemm, tile, b_max, gb_s, mode):
    """Fewer cycles, fewer words tile by tile, k = 1 before 2 before 1/2, the smaller B_R."""
    board, network = load_platform(POCKET, gb_s), network_of([gemm])
    options = paper_options(batching=Batching(mode), b_max=b_max)
    found = explain(*tabulate_design(network, board, options, SearchResult([RankedDesign.of(Tile(*tile), 1.0)], 1)))
    for b, column in enumerate(found.candidates[0], 1):
        expected = weighed_by_hand(layer_of(gemm), tile, b, board.words_per_cycle, mode, stacking=True)
        assert [(item.k, item.B_R) for item in column] == [(naive.STACKS[k], B_R) for _, _, k, B_R, _ in expected]
        assert [item.dram_bytes for item in column] == [2 * words for *_, words in expected]


def test_a_control_block_changed_by_hand_is_explained_as_it_stands():
    """What the search would have chosen is then the next best, and may be faster."""
    design, fbcb = tiny()
    codes, _, B_R = fbcb.unpack()
    B_R[0, 3], codes[0, 3] = 3, 2
    names = [row.layer for row in fbcb.rows]
    found = explain(design, encode(names, codes, None, B_R).derived_from(design))
    assert found.chosen[0][3] == ("1/2", 3)
    assert found.runner_up(0)[3] == found.candidates[0][3][0]
    assert found.candidates[0][3][0].time_s < found.time_s[0, 3]


def test_a_layer_is_bound_by_its_largest_part():
    design, fbcb = tiny(network=network_of([(36, 3, 7, 1), (36, 4, 7, 1), (400, 3, 8, 1), (1, 3000, 7, 1)]))
    found = explain(design.model_copy(update={"platform": load_platform(POCKET, 2.0)}), fbcb)
    for index in range(4):
        for b in range(4):
            parts = {cause: part[index, b] for cause, part in found.parts_s.items()}
            assert parts[found.bound[index, b]] == max(parts.values())
    assert found.bound[3, 0] is Cause.FEW_ROWS
    assert {Cause.FEW_ROWS} < set(found.bound.ravel())


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=30).filter(lambda parts: sum(parts) > 1e-3))
def test_printed_shares_sum_to_100(parts):
    texts = percents(parts)
    assert sum(round(10 * float(text)) for text in texts) == 1000
    for part, text in zip(parts, texts, strict=True):
        assert abs(float(text) - 100 * part / sum(parts)) < 0.1 + 1e-9


def test_every_printed_line_sums_to_100(fluidb, tiny_design):
    network, layer = (
        fluidb("explain", tiny_design, "--batch", 1, *more).stdout.split("\n\n")
        for more in (["--top", 3], ["--layer", "expand"])
    )
    for block in (network[1], network[2], layer[1]):
        _, headers, rules, *lines = block.splitlines()
        stops = [match.span() for match in re.finditer(r"-+", rules)]
        first = next(i for i, (start, stop) in enumerate(stops) if "compute" in headers[start:stop])
        last = next(i for i, (start, stop) in enumerate(stops) if "lost" in headers[start:stop])
        for line in lines:
            cells = [line[start:stop].strip() for start, stop in stops[first:last]]
            assert sum(round(10 * float(cell or 0)) for cell in cells) == 1000, line
    assert len(network[1].splitlines()) == 3 + 4
    shares = [float(re.split(r"  +", line)[2]) for line in network[2].splitlines()[3:]]
    assert (len(shares), shares[-1]) == (5, 100.0)
    assert sum(shares[:-1]) == pytest.approx(100.0)


def test_json_holds_every_layer_and_batch(fluidb, tiny_design):
    content = json.loads(fluidb("explain", tiny_design, "--json").stdout)
    for row in [content, *content["layers"]]:
        for b in range(4):
            assert sum(row[f"{cause}_s"][b] for cause in Cause) == pytest.approx(row["time_s"][b], rel=1e-12)
    assert np.sum([row["time_s"] for row in content["layers"]], axis=0) == pytest.approx(content["time_s"], rel=1e-12)
    pool = next(row for row in content["layers"] if row["layer"] == "pool")
    assert (pool["gemm"], pool["pool"]["C"], pool["B_R"]) == (None, 1, [1, 2, 3, 4])
    (row,) = json.loads(fluidb("explain", tiny_design, "--json", "--layer", "fc").stdout)["layers"]
    best = {b: next(item for item in row["candidates"] if item["b"] == b) for b in range(1, 5)}
    assert [best[b]["time_s"] for b in best] == row["time_s"]
    assert [(best[b]["k"], best[b]["B_R"]) for b in best] == list(zip(row["k"], row["B_R"], strict=True))


def test_the_picture_is_the_same_every_time(tmp_path):
    found = explain(*tiny())
    for name in "ab":
        save(draw_explanation(found, 2), tmp_path / f"{name}.svg", replace=False)
    first, second = ((tmp_path / f"{name}.svg").read_bytes() for name in "ab")
    assert first == second
    text = "".join(ET.fromstring(first).itertext())
    for word in ("layers at batch 2", "depthwise", "exit1/conv1", "few rows", "0.4 GB/s", "4.2 GOP/s"):
        assert word in text


@pytest.mark.parametrize(("mode", "b_max", "count"), [(Batching.FLUID, 1, 1), (Batching.NONE, 2, 400)])
def test_pictures_of_one_layer_and_of_many(tmp_path, mode, b_max, count):
    network = network_of([(3, 5, 7, 1)] * count)
    figure = draw_explanation(explain(*tiny(mode, b_max=b_max, network=network)), b_max)
    (heat,) = [axes for axes in figure.axes if axes.get_title().startswith("utilisation")]
    places, names = np.sort(heat.get_xticks()), [text.get_text() for text in heat.get_xticklabels()]
    assert len(set(names)) == len(places) > min(count, 80) - 1
    assert (np.diff(places) > 0.4).all()  # per cent of the time: names do not cover each other


def test_a_column_is_as_wide_as_its_layers_time_and_the_roofline_reads_round():
    found = explain(*tiny())
    figure = draw_explanation(found, 2)
    heat = next(axes for axes in figure.axes if axes.get_title().startswith("utilisation"))
    (mesh,) = [drawn for drawn in heat.collections if isinstance(drawn, QuadMesh)]
    edges = np.asarray(mesh.get_coordinates())[0, :, 0]
    assert np.diff(edges) == pytest.approx(100 * found.time_s[:, 1] / found.time_s[:, 1].sum())
    roofline = figure.axes[0]
    low, high = roofline.get_ylim()
    shown = [value for value in roofline.get_yticks() if low <= value <= high]
    assert len(shown) >= 3
    assert {f"{value:e}"[:3] for value in shown} <= {"1.0", "2.0", "5.0"}
    assert "of the time makes MACs" in str(figure.get_label())


def test_hostile_names_reach_neither_screen_nor_picture(fluidb, tmp_path):
    name = "\x1b[2J\x00$\\frac{1}$<script>&\n\u202e" + "\u5c42" * 300
    pool = Layer(name="pool", stage=1, gemm=None, memory_words=40, shape=Shape(1, 1, 1))
    exits = [Exit(name=name, rate=1.0)]
    layers = [layer_of((9, 9, 9), name), pool]
    network = Network(name="\x1b]0;x\x07", title="t\x1b", exits=exits, layers=layers)
    write_design(tmp_path / "d", *tiny(network=network))
    done = fluidb("explain", "d", "--plot", "p.svg")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(c.isprintable() or c == "\n" for c in done.stdout)
    ET.parse(tmp_path / "p.svg")
    (line,) = fluidb("explain", "d", "--layer", "nothing").stderr.splitlines()
    assert line.isprintable()


def test_faults_of_the_command_are_one_line(fluidb, tmp_path, tiny_design):
    (tmp_path / "mine.svg").write_text("mine")
    cases = {
        ("--layer", "exit1/conv3"): 'unknown layer "exit1/conv3" of tiny; did you mean exit1/conv2, exit1/conv1 or ',
        ("--layer", "?"): 'unknown layer "?" of tiny; the first are conv1, expand, depthwise, project, exit1/conv1',
        ("--batch", "5"): "--batch: expected 1 to 4, the design's largest batch size, found 5",
        ("--batch", "0"): "expected at least 1",
        ("--plot", "mine.svg"): "mine.svg: output exists already",
        ("--plot", "p.pdf"): "p.pdf: expected a picture that ends in .svg or .png",
    }
    for arguments, expected in cases.items():
        (line,) = lines(fluidb("explain", tiny_design, *arguments))
        assert expected in line
    assert [path.name for path in Path(tmp_path).iterdir()] == ["mine.svg"]
    assert (tmp_path / "mine.svg").read_text() == "mine"


def test_stacking_that_does_not_fit_is_refused():
    design, fbcb = tiny(b_max=1)
    codes, _, B_R = fbcb.unpack()
    narrow = design.model_copy(update={"ranking": [design.ranking[0].model_copy(update={"T_P": 1})]})
    names = [row.layer for row in fbcb.rows]
    with pytest.raises(InputError, match="k does not fit <44,1,7>"):
        explain(narrow, encode(names, np.full_like(codes, 2), None, B_R))
