"""SubGraphs on an accelerator: kernels and cuts against plain loops, the paper's bands, trends, the command, faults."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import naive_sushi as naive
import numpy as np
import pytest
from builders import COMPILED, Run, lines
from fluidb.dse.subgraphs.costs import SubNetArrays, capacity, tabulate
from fluidb.dse.subgraphs.explanation import explain_pair
from fluidb.dse.subgraphs.recipes import Recipes, cut_to, make_recipes, uniform_cut
from fluidb.dse.subgraphs.search import (
    arrays_within,
    find_subgraphs,
    latency_table,
    members_of,
    resize,
    split,
    write_subgraphs,
)
from fluidb.formats import InputError, write_table
from fluidb.models.supernets import Family, load_family
from fluidb.models.supernets.sharing import shared, weights_in
from fluidb.models.supernets.space import draw
from fluidb.platforms import Accelerator, Depthwise, load_platform
from fluidb.plots.subgraphs import draw_roofline
from fluidb.tables import read_latency, read_subgraphs
from fluidb.tables.subgraphs import Layers, Maps, StageB, SubGraphCut, SubGraphGoal, SubGraphOptions, SubGraphTable
from hypothesis import given, settings
from hypothesis import strategies as st

SHARED_MB = {"ofa_resnet50": 7.55, "ofa_mobilenet_v3": 2.90}
"""Section 5.1: what all SubNets share."""

full_size = pytest.mark.skipif(not COMPILED, reason="full-size SuperNets take long as plain Python; run compiled")


@cache
def family(name: str, smallest_side: int | None = None) -> Family:
    found = load_family(name)
    if smallest_side is None:
        return found
    first, *others = found.subnets
    return found._replace(subnets=[first.model_copy(update={"r": smallest_side}), *others])


def accelerator(name: str = "sushi-fig10", megabytes: float | None = None, **changed: Any) -> Accelerator:
    chip = load_platform(name, kind=Accelerator)
    sizes = {} if megabytes is None else {"persistent_kib": megabytes * 1e6 / 1024}
    return resize(chip, **sizes, **changed) if sizes or changed else chip


def tabulated(name: str, chip: Accelerator, *, side: int | None = None, **options: Any) -> SubGraphTable:
    """With one candidate: the common part of all SubNets, cut to the buffer."""
    return find_subgraphs(family(name, side), chip, SubGraphOptions(columns=1, **options))


def saved(table: SubGraphTable) -> list[float]:
    return [100 * (1 - row[1] / row[0]) for row in table.time_s]


def saved_off_chip(table: SubGraphTable) -> list[float]:
    return [100 * (1 - row[1] / row[0]) for row in table.off_chip_bytes]


# the paper's bands


@full_size
@pytest.mark.parametrize(("K_P", "C_P"), [(20, 36), (24, 30)])
def test_fig10_resnet50(K_P, C_P):
    found = saved(tabulated("ofa_resnet50", accelerator(megabytes=7.55, K_P=K_P, C_P=C_P)))
    assert 4.5 <= min(found) <= 6.5
    assert 6.5 <= max(found) <= 10.5
    assert (round(min(found), 1), round(max(found), 1)) == {20: (5.2, 8.0), 24: (5.7, 9.3)}[K_P]


@full_size
@pytest.mark.parametrize("layers", [Layers.ALL, Layers.PAPER])
def test_fig10_mobilenet(layers):
    chip = accelerator(megabytes=2.90, K_P=80, C_P=9)
    found = saved(tabulated("ofa_mobilenet_v3", chip, side=160, layers=layers))
    assert 4 <= min(found) <= 7
    assert 18 <= max(found) <= 26
    assert (round(min(found), 1), round(max(found), 1)) == ((5.9, 24.1) if layers is Layers.ALL else (6.2, 25.0))


@full_size
@pytest.mark.parametrize("chip", ["sushi-zcu104", "sushi-u50"])
def test_off_chip_energy_of_resnet50(chip):
    found = saved_off_chip(tabulated("ofa_resnet50", accelerator(chip), layers=Layers.WINDOWS, maps=Maps.ONCE))
    assert (round(min(found), 1), round(max(found), 1)) == (12.5, 50.6)  # the paper's 14 to 52.6 %
    assert 11 <= min(found) <= 15
    assert 48 <= max(found) <= 56


@full_size
def test_off_chip_energy_of_mobilenet():
    found = saved_off_chip(
        tabulated("ofa_mobilenet_v3", accelerator(megabytes=2.90), layers=Layers.PAPER, maps=Maps.ONCE)
    )
    assert (round(min(found), 1), round(max(found), 1)) == (47.6, 78.0)  # the paper's 43.6 to 78.7 %
    assert 43 <= min(found) <= 52
    assert 74 <= max(found) <= 81


@full_size
@pytest.mark.parametrize(("name", "low", "high"), [("ofa_resnet50", 0.60, 0.72), ("ofa_mobilenet_v3", 0.75, 0.86)])
def test_mean_hit_ratio_of_all_pairs(name, low, high):
    chip = accelerator(megabytes=SHARED_MB[name])
    table = find_subgraphs(family(name), chip, SubGraphOptions(layers=Layers.PAPER))
    assert low <= np.mean([row[1:] for row in table.hit_ratio]) <= high


def test_peaks_are_exact():
    peaks = {name: accelerator(name) for name in ("sushi-zcu104", "sushi-u50", "sushi-fig10")}
    assert [chip.peak_gop_s for chip in peaks.values()] == pytest.approx([259.2, 921.6, 1296.0], rel=1e-15)
    assert [2 * chip.macs_per_cycle for chip in peaks.values()] == [2592, 9216, 12960]
    zcu104 = peaks["sushi-zcu104"]
    assert zcu104.shared_kib == 3456
    assert zcu104.output_kib + zcu104.other_kib == 397
    without = split(zcu104, 0.0)
    assert (without.distinct_kib, without.streaming_kib) == (1152, 1152)  # Table 3, without persistent buffer


# against plain loops


def random_work(source: np.random.Generator) -> tuple[SubNetArrays, list[list[dict[str, Any] | None]]]:
    """Three SubNets of nine layers; all have the first layer; some maps just fit the streaming buffer of `small`."""
    depthwise = source.random(9) < 0.3
    members = []
    for _ in range(3):
        layers: list[dict[str, Any] | None] = []
        for number in range(9):
            C = 1 if depthwise[number] else int(source.integers(1, 40))
            layer = {"K": int(source.integers(1, 40)), "C": C, "R": int(source.choice([1, 3, 5, 7]))}
            layer |= {key: int(source.integers(1, 3000)) for key in ("Q", "inputs", "outputs")}
            layer |= {key: 1536 for key in ("inputs", "outputs") if source.random() < 0.25}
            layer["depthwise"] = bool(depthwise[number])
            layers.append(layer if number == 0 or source.random() < 0.8 else None)
        members.append(layers)
    rows = np.array(
        [
            [[one[key] if one else 0 for one in layers] for key in ("K", "C", "R", "Q", "inputs", "outputs")]
            for layers in members
        ]
    )
    return SubNetArrays(np.ascontiguousarray(rows[:, :4]), rows[:, 4], rows[:, 5], depthwise), members


def small(source: np.random.Generator, **changed: Any) -> Accelerator:
    content = {
        "schema": "fluidb.accelerator/1", "name": "small", "title": "Small", "K_P": int(source.integers(1, 6)),
        "C_P": int(source.integers(1, 6)), "clock_mhz": 100.0, "bandwidth_gb_s": 0.25, "distinct_kib": 4.0,
        "streaming_kib": 1.5, "persistent_kib": float(source.choice([0.5, 4.0, 64.0])),
        "depthwise": str(source.choice(["row", "full"])),
    }  # fmt: skip
    return Accelerator.read(content | changed, Path("small.toml"))


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), maps=st.sampled_from(Maps), stage_b=st.sampled_from(StageB))
def test_pairs_are_those_of_plain_loops(seed, maps, stage_b):
    source = np.random.default_rng(seed)
    work, members = random_work(source)
    chip = small(source)
    graphs = cut_to(make_recipes(work.boxes, "ABC", list(SubGraphCut), 12, seed), capacity(chip))
    pairs = tabulate(work, chip, graphs, maps, stage_b)
    common = naive.cut_uniformly(naive.shared_box(members), capacity(chip))
    asked = (chip.K_P, chip.C_P, chip.depthwise is Depthwise.FULL, 100_000_000, 250_000_000, 1536, str(maps))
    nothing = [(0, 0, 0)] * 9
    for n, layers in enumerate(members):
        total = sum(map(naive.weights, layers)) + sum(naive.map_bytes(layers, 1536, str(maps)))
        expected = naive.time_s(layers, nothing, *asked)
        if stage_b is StageB.EXPOSED:
            expected = naive.time_s(layers, common, *asked) + Fraction(naive.used(layers, common), 250_000_000)
        assert pairs.time_s[0, n, 0] == pytest.approx(float(expected), rel=1e-12)
        assert (pairs.off_chip_bytes[n, 0], pairs.resident_bytes[n, 0], pairs.hit_ratio[n, 0]) == (total, 0, 0)
        for m, graph in enumerate(graphs.transpose(0, 2, 1).tolist(), 1):
            assert pairs.time_s[0, n, m] == pytest.approx(float(naive.time_s(layers, graph, *asked)), rel=1e-12)
            assert pairs.resident_bytes[n, m] == naive.used(layers, graph)
            assert pairs.off_chip_bytes[n, m] == total - naive.used(layers, graph)
            assert pairs.hit_ratio[n, m] == pytest.approx(naive.hit_ratio(layers, graph), rel=1e-12)
        # a cache never makes a SubNet slower
        assert (pairs.time_s[0, n] <= pairs.time_s[0, n, 0] * (1 + 1e-12)).all()


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), budget=st.integers(0, 60_000), more=st.integers(0, 20_000))
def test_cuts_are_those_of_plain_loops_and_grow_with_the_budget(seed, budget, more):
    work, _ = random_work(np.random.default_rng(seed))
    recipes = make_recipes(work.boxes, "ABC", list(SubGraphCut), 14, seed)
    found, larger = cut_to(recipes, budget), cut_to(recipes, budget + more)
    for box, order, cut, got in zip(recipes.boxes, recipes.orders, recipes.cuts, found, strict=True):
        whole = box.T.tolist()
        expected = (
            naive.cut_uniformly(whole, budget)
            if cut is SubGraphCut.UNIFORM
            else naive.cut_in_order(whole, order.tolist(), budget)
        )
        assert got.T.tolist() == [list(item) for item in expected]
        assert weights_in(got) <= budget
        assert sorted(order) == list(range(9))
    assert (found <= larger).all()


def test_a_run_is_contiguous():
    recipes = make_recipes(np.ones((1, 3, 12), np.int64), "A", [SubGraphCut.RUN], 30, 1)
    for budget in range(1, 13):
        for taken in cut_to(recipes, budget)[:, 0]:
            places = np.flatnonzero(taken)
            assert len(places) == budget == places[-1] - places[0] + 1


def test_candidates_start_with_what_all_share_and_do_not_depend_on_their_number():
    work, members = random_work(np.random.default_rng(4))
    few, many = (make_recipes(work.boxes, "ABC", list(SubGraphCut), count, 9) for count in (8, 60))
    assert few.of == many.of[:8]
    assert np.array_equal(few.orders, many.orders[:8])
    assert few.of[0] == ["A", "B", "C"]
    assert few.boxes[0].T.tolist() == [list(box) for box in naive.shared_box(members)]
    assert len(many.cuts) == 60
    uniform = make_recipes(work.boxes, "ABC", [SubGraphCut.UNIFORM], 60, 9)
    assert len(uniform.cuts) == len({box.tobytes() for box in uniform.boxes}) <= 7


def test_nothing_to_share_leaves_the_state_empty():
    nothing = Recipes(np.zeros((0, 3, 2), np.int64), np.zeros((0, 2), np.int64), [], [])
    recipes = make_recipes(np.zeros((1, 3, 2), np.int64), "A", list(SubGraphCut), 5, 0)
    assert [len(item) for item in recipes] == [len(item) for item in nothing]
    assert cut_to(recipes, 10).shape == (0, 3, 2)


# trends


@cache
def drawn(count: int, seed: int) -> Family:
    family = load_family("ofa_mobilenet_v3")
    return family._replace(subnets=draw(family.file, count, seed))


@full_size
@settings(max_examples=15)
@given(seed=st.integers(0, 1000), stage_b=st.sampled_from(StageB))
def test_more_bandwidth_saves_less_and_a_larger_buffer_never_costs(seed, stage_b):
    some = drawn(3, seed)
    work = members_of(some).work
    recipes = make_recipes(work.boxes, "ABC", list(SubGraphCut), 20, seed)

    def pairs(bandwidth: float, persistent_kib: float) -> Any:
        chip = accelerator(bandwidth_gb_s=bandwidth, persistent_kib=persistent_kib)
        return tabulate(work, chip, cut_to(recipes, capacity(chip)), Maps.SPILLED, stage_b)

    slow, fast, large = pairs(4.8, 1000.0), pairs(19.2, 1000.0), pairs(4.8, 2500.0)
    assert (large.time_s[..., 1:] <= slow.time_s[..., 1:] * (1 + 1e-12)).all()
    assert (large.off_chip_bytes[:, 1:] <= slow.off_chip_bytes[:, 1:]).all()
    if stage_b is StageB.EXPOSED:  # of the common part, the first candidate
        share_slow, share_fast = (1 - item.time_s[0, :, 1] / item.time_s[0, :, 0] for item in (slow, fast))
        assert (share_fast <= share_slow + 1e-12).all()


@full_size
@pytest.mark.parametrize("name", ["ofa_resnet50", "ofa_mobilenet_v3"])
def test_a_smaller_net_saves_relatively_more(name):
    """Uniform SubNets, each of which lies in the next."""
    family = load_family(name)
    lines_ = ["d=0,e=0.2,w=0.65", "d=1,e=0.25,w=0.8", "d=2,e=0.35,w=1"]
    if name == "ofa_mobilenet_v3":
        lines_ = ["d=2,e=3,k=3", "d=3,e=4,k=5", "d=4,e=6,k=7"]
    nested = family._replace(subnets=[family.subnet(line) for line in lines_])
    table = find_subgraphs(nested, accelerator(megabytes=SHARED_MB[name]), SubGraphOptions(columns=1))
    by_time, by_bytes = saved(table), saved_off_chip(table)
    assert by_time == sorted(by_time, reverse=True)
    assert by_bytes == sorted(by_bytes, reverse=True)


@full_size
def test_mobilenet_saves_more_than_resnet():
    small_, large = (
        np.mean(saved_off_chip(tabulated(name, accelerator(megabytes=SHARED_MB[name]), layers=Layers.PAPER)))
        for name in ("ofa_mobilenet_v3", "ofa_resnet50")
    )
    assert small_ > large


# the search


def test_arrays_that_are_left_out_are_contained_in_one_that_is_not():
    chip = accelerator("sushi-zcu104", dsps=1728)
    kept = arrays_within(chip)
    every = [(K_P, C_P) for K_P in range(1, 193) for C_P in range(1, 192 // K_P + 1)]
    assert all(any(k >= K_P and c >= C_P for k, c in kept) for K_P, C_P in every)
    assert all(sum(k >= K_P and c >= C_P for k, c in kept) == 1 for K_P, C_P in kept)
    assert set(kept) <= set(every)


@full_size
@pytest.mark.parametrize("goal", SubGraphGoal)
def test_the_search_of_sizes_and_arrays_is_that_of_every_combination(goal):
    chip = accelerator("sushi-zcu104")
    options = SubGraphOptions(columns=30, goal=goal)
    arrays = arrays_within(chip)[::5]
    subgraphs = find_subgraphs(family("ofa_mobilenet_v3"), chip, options, arrays=arrays, step_kib=432)
    work = members_of(family("ofa_mobilenet_v3")).work
    names = [subnet.name for subnet in family("ofa_mobilenet_v3").subnets]
    recipes = make_recipes(work.boxes, names, options.cuts, 30, 0)
    best = []
    for size in range(0, 3456, 432):
        for K_P, C_P in arrays:
            one = split(chip, float(size)).model_copy(update={"K_P": K_P, "C_P": C_P})
            pairs = tabulate(work, one, cut_to(recipes, capacity(one)), options.maps, options.stage_b)
            time_s, moved, hits = pairs.time_s[0].mean(axis=0), pairs.off_chip_bytes.mean(axis=0), pairs.hit_ratio
            loss = {
                SubGraphGoal.LATENCY: time_s,
                SubGraphGoal.ENERGY: moved,
                SubGraphGoal.HIT_RATIO: -hits.mean(axis=0),
            }[goal]
            best += [(loss[j], time_s[j], size, (K_P, C_P)) for j in range(1, len(time_s))]
    least = min(best, key=lambda item: item[:2])
    table = subgraphs.accelerator
    assert (table.persistent_kib, (table.K_P, table.C_P)) == least[2:]
    assert [item.persistent_kib for item in subgraphs.sizes] == list(range(0, 3456, 432))
    means = np.mean(subgraphs.time_s, axis=0)
    assert means[subgraphs.best] == pytest.approx(least[1], rel=1e-12)
    assert table.shared_kib == pytest.approx(3456)


def test_the_latency_table_has_a_variant_for_each_pair_and_goes_stale_with_its_subgraphs(tmp_path: Path):
    table = tabulated("ofa_mobilenet_v3", accelerator("sushi-zcu104"))
    write_subgraphs(table, tmp_path / "out")
    latency = read_latency(tmp_path / "out")
    assert latency.states == ["EMPTY", "G1"]
    assert [subnet.name for subnet in latency.subnets or []] == list("ABCDEFG")
    assert [subnet.accuracy for subnet in latency.subnets or []] == [subnet.accuracy for subnet in table.subnets]
    for subnet, state in ((0, 0), (6, 0), (3, 1)):
        array = latency.array(7 * state + subnet)
        assert array[0, 1, 1] == table.time_s[subnet][state]
    assert read_subgraphs(tmp_path / "out") == table
    other = tabulated("ofa_mobilenet_v3", accelerator("sushi-u50"))
    write_table(other, tmp_path / "out" / "subgraphs.json")
    with pytest.raises(InputError, match="stale"):
        read_latency(tmp_path / "out")


def test_vectors_have_kernels_and_channels_layer_by_layer():
    table = tabulated("ofa_mobilenet_v3", accelerator("sushi-zcu104"))
    subnets, subgraphs = table.vectors()
    first = table.subnets[0]
    assert subnets.shape == (7, 2 * len(table.layers))
    assert subnets[0, :4].tolist() == [first.K[0], first.C[0], first.K[1], first.C[1]]
    assert not subgraphs[0].any()
    both = np.minimum(subnets[2], subgraphs[1])
    assert np.linalg.norm(both) / np.linalg.norm(subnets[2]) == pytest.approx(table.hit_ratio[2][1])


def test_an_explanation_sums_to_the_table():
    for stage_b in StageB:
        table = tabulated("ofa_mobilenet_v3", accelerator("sushi-zcu104"), stage_b=stage_b)
        for i, subnet in enumerate(table.subnets):
            explanation = explain_pair(table, subnet.name, "G1")
            assert explanation.empty_s.sum() + explanation.exposed_s == pytest.approx(table.time_s[i][0])
            assert explanation.resident_s.sum() == pytest.approx(table.time_s[i][1])
            assert explanation.bytes_empty.sum() == pytest.approx(table.off_chip_bytes[i][0])
            assert explanation.bytes_resident.sum() == pytest.approx(table.off_chip_bytes[i][1])
            assert explanation.macs.sum() == subnet.macs
            assert (
                explanation.memory_bound(explanation.bytes_resident).sum()
                <= explanation.memory_bound(explanation.bytes_empty).sum()
            )


# the command


@full_size
def test_the_command_writes_explains_and_draws(fluidb: Run, tmp_path: Path):
    asked = ["dse", "ofa_mobilenet_v3", "sushi-zcu104", "--persistent", "search", "--objective", "energy"]
    done = fluidb(*asked, "-o", "out", "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["schema"] == "fluidb.dse-subgraphs-output/1"
    assert [item["persistent_kib"] for item in printed["sizes"]] == list(range(0, 3456, 36))
    assert printed["options"]["goal"] == "energy"
    table = read_subgraphs(tmp_path / "out")
    assert printed["best"]["name"] == table.subgraphs[table.best].name
    assert printed["subnets"][1]["time_s"] == table.time_s[1][table.best]
    text = fluidb(*asked)
    assert "illustrative" in text.stdout
    assert "(best)" in text.stdout
    again = fluidb(*asked, "-o", "out", "--force")
    assert again.stdout == text.stdout
    explained = fluidb("explain", "out", "--subnet", "C", "--plot", "p.svg")
    assert "memory-bound" in explained.stdout
    assert "Roofline of SubNet C" in (tmp_path / "p.svg").read_text()
    record = json.loads(fluidb("explain", "out", "--subnet", "C", "--state", "G2", "--json").stdout)
    assert (record["subnet"], record["state"]) == ("C", "G2")
    assert len(record["layers"]) == sum(map(bool, table.subnets[2].K))


def test_a_picture_of_arrays(tmp_path: Path):
    chip = accelerator("sushi-zcu104")
    table = find_subgraphs(
        family("ofa_mobilenet_v3"), chip, SubGraphOptions(columns=1), arrays=arrays_within(chip)[::8]
    )
    assert len(table.sizes) == len(arrays_within(chip)[::8])
    figure = draw_roofline(explain_pair(table))
    assert figure.axes[2].get_title() == "arrays within the DSPs"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["ofa_resnet50", "sushi-zcu104", "--persistent", "9MiB"], "expected at most the 4864 KiB of the chip, found"),
        (["ofa_resnet50", "sushi-zcu104", "--array", "40,40"], "expected at most the 1728 DSPs of the chip, found 9"),
        (["ofa_resnet50", "sushi-zcu104", "--array", "4"], "expected K_P,C_P or search"),
        (["ofa_resnet50", "sushi-fig10", "--array", "search"], "needs dsps, which its file does not state"),
        (
            ["ofa_resnet50", "sushi-zcu104", "--objective", "gop_s"],
            '--objective: expected one of latency, energy, hit_ratio, found "gop_s"',
        ),
        (
            ["resnet50", "zc706", "--objective", "hit_ratio"],
            '--objective: expected one of gop_s, latency, energy, gop_s_w, found "hit_ratio"',
        ),
        (
            ["ofa_resnet50", "sushi-zcu104", "--b-max", "2"],
            "an option with a board, but sushi-zcu104 is an accelerator",
        ),
        (["ofa_resnet50", "zc706", "--seed", "2"], "an option with an accelerator, but zc706 is a board"),
        (["ofa_resnet50", "zc706"], "expected a network, found a SuperNet"),
        (["ofa_resnet51", "sushi-zcu104"], 'unknown SuperNet "ofa_resnet51"; did you mean ofa_resnet50'),
        (
            ["resnet50", "sushi-zcu104"],
            "network on the chip, search a board: `fluidb dse resnet50 zcu104 --persistent search`",
        ),
        (["ofa_mobilenet_v3", "sushi-zcu104", "--persistent", "3"], "--persistent: expected a unit"),
        (["ofa_resnet50", "sushi-zcu104,sushi-u50"], "expected one SuperNet and one accelerator, found several"),
    ],
)
def test_bad_input_is_one_line(fluidb: Run, arguments, fault):
    (line,) = lines(fluidb("dse", *arguments))
    assert fault in line


def test_a_missing_accuracy_is_missing_in_the_latency_table_too():
    some = drawn(2, 0)
    table = find_subgraphs(some, accelerator("sushi-zcu104"), SubGraphOptions(columns=1))
    assert [subnet.accuracy for subnet in latency_table(table).subnets or []] == [None, None]


def test_a_buffer_too_small_for_a_tile_and_a_family_without_subnets():
    chip = accelerator("sushi-zcu104", distinct_kib=1.0)
    with pytest.raises(InputError, match=r"expected room for a tile of 12 x 12 DPEs, 1.27 KiB, found 1 KiB"):
        find_subgraphs(family("ofa_resnet50"), chip, SubGraphOptions(columns=1))
    with pytest.raises(InputError, match="expected SubNets, found none"):
        members_of(family("ofa_resnet50")._replace(subnets=[]))
    with pytest.raises(InputError, match="expected layers of ofa_mobilenet_v3 that count, found none"):
        find_subgraphs(
            family("ofa_mobilenet_v3")._replace(
                file=family("ofa_mobilenet_v3").file.model_copy(update={"uncounted": ["*"]})
            ),
            chip,
            SubGraphOptions(layers=Layers.PAPER),
        )


def test_a_search_needs_other_buffers_to_divide_the_memory_with():
    chip = accelerator("sushi-zcu104", distinct_kib=0.0, streaming_kib=0.0)
    with pytest.raises(InputError, match="step_kib: expected at least 0.346 KiB, for 10,000 sizes, found 0 KiB"):
        find_subgraphs(family("ofa_mobilenet_v3"), accelerator("sushi-zcu104"), SubGraphOptions(columns=1), step_kib=0)
    with pytest.raises(InputError, match="needs distinct_kib and streaming_kib"):
        find_subgraphs(family("ofa_mobilenet_v3"), chip, SubGraphOptions(columns=1), step_kib=36.0)


def test_uniform_cut_of_nothing_and_of_single_kernels():
    box = np.ones((3, 4), np.int64)
    assert not uniform_cut(box, 3).any()
    assert np.array_equal(uniform_cut(box, 4), box)
    assert weights_in(shared([box, box])) == 4
