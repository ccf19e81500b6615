"""The decision table of a device: Equation (1) cell by cell, what sums it up, and the command that writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import naive_batchcond
import numpy as np
import pytest
from builders import POCKET, TINY, Run, table_of
from fluidb.dse.device.decisions import (
    ALWAYS_SPLIT,
    SplitRule,
    judge,
    least_rule,
    nearest_rule,
    sum_up,
    tabulate_decisions,
)
from fluidb.dse.device.tabulate import tabulate_device
from fluidb.formats import InputError, read_table, table_text
from fluidb.models import load_network
from fluidb.platforms import Device, load_platform
from fluidb.platforms.by_stage import StagedDevice
from fluidb.rules.pad_or_split import partition, reorganise_widths
from fluidb.tables import LatencyTable
from fluidb.tables.decisions import DecisionTable
from hypothesis import given, settings
from hypothesis import strategies as st

PRESETS = {
    "rtx-2080-ti-ee-resnet34": "ee_resnet34",
    "rtx-2080-ti-ds-mobilenet": "ds_mobilenet",
    "rtx-2080-ti-bert": "bert_base",
    "rtx-2080-ti-seq2seq": "transformer_seq2seq",
}
"""Devices of BatchCond and their networks, without early-exit BERT: its 32 widths and 11 exits take long."""


@cache
def preset(device: str) -> LatencyTable:
    return tabulate_device(load_network(PRESETS[device]), load_platform(device, kind=Device))


class Cell(NamedTuple):
    places: int
    terminated: int


def cells(b_max: int) -> Iterator[Cell]:
    """Where there is a choice."""
    return (Cell(b, e) for b in range(2, b_max + 1) for e in range(1, b))


times = st.lists(st.integers(1, 64).map(lambda n: n / 8), min_size=5, max_size=5)


@settings(max_examples=30)
@given(
    st.lists(times, min_size=2, max_size=4), st.lists(st.integers(0, 16).map(lambda n: n / 8), min_size=5, max_size=5)
)
def test_a_table_is_equation_1_at_every_exit_and_reads_back(tmp_path_factory, stage_s, gather):
    gathers = [[0.0, *gather]] * len(stage_s)
    table = table_of(stage_s).model_copy(update={"gather_s": gathers})
    decisions = tabulate_decisions(table)
    exits = [number for row in decisions.points for number in row.after_exits]
    assert exits == list(range(1, len(stage_s)))
    for row in decisions.points:
        split = row.map()
        for number in row.after_exits:
            stage, moved = [0.0, *stage_s[number]], gathers[number]
            for b, e in cells(5):
                decided = naive_batchcond.depth_decision(stage.__getitem__, moved.__getitem__, b, e)
                assert split[b, e] == (decided == "split")
        assert all(1 <= first <= last < b for b, ranges in enumerate(row.split, 1) for first, last in ranges)
    path = tmp_path_factory.mktemp("tables") / "decisions.json"
    path.write_text(table_text(decisions))
    assert read_table(DecisionTable, path) == decisions


@settings(max_examples=30)
@given(times, st.lists(st.integers(0, 16).map(lambda n: n / 8), min_size=5, max_size=5))
def test_rules_are_judged_as_in_plain_loops(stage_s, gather):
    time_s, gather_s = np.array([0.0, *stage_s]), np.array([0.0, *gather])
    split = np.zeros((6, 6), dtype=bool)
    for b, e in cells(5):
        split[b, e] = time_s[b] > time_s[b - e] + gather_s[b - e]
    pays, pads = ([cell for cell in cells(5) if bool(split[cell]) == kind] for kind in (True, False))

    def balanced(rule: SplitRule) -> float:
        hits = sum(e >= rule.terminated and b >= rule.places for b, e in pays)
        misses = sum(e >= rule.terminated and b >= rule.places for b, e in pads)
        return (hits / len(pays) + 1 - misses / len(pads)) / 2

    least, nearest = least_rule(split), nearest_rule(split)
    if not pays:
        assert (least, nearest) == (None, None)
        return
    assert least == (min(e for _, e in pays), min(b for b, _ in pays))
    assert nearest is not None
    assert nearest.terminated >= 1, "where nobody has terminated there is no choice"
    verdict = judge(nearest.map(6), split, time_s, gather_s)
    if not pads:
        assert (nearest, verdict) == (ALWAYS_SPLIT, (1.0, None, 0.0))
        return
    best = max(balanced(SplitRule(e, b)) for b in range(2, 6) for e in range(1, 5))
    assert verdict.balanced == pytest.approx(balanced(nearest)) == pytest.approx(best)
    ours_s = best_s = 0.0
    for b, e in cells(5):
        both = time_s[b], time_s[b - e] + gather_s[b - e]
        best_s += min(both)
        ours_s += both[e >= nearest.terminated and b >= nearest.places]
    assert verdict.lost == pytest.approx(ours_s / best_s - 1)
    right = sum((e >= nearest.terminated and b >= nearest.places) == split[b, e] for b, e in cells(5))
    assert verdict.right == pytest.approx(right / len([*cells(5)]))


def test_a_map_that_splits_everywhere_has_no_balanced_accuracy():
    time_s, gather_s = np.arange(4.0), np.zeros(4)
    split = np.ones((4, 4), dtype=bool)
    assert judge(ALWAYS_SPLIT.map(4), split, time_s, gather_s) == (1.0, None, 0.0)
    assert judge(~split, split, time_s, gather_s).balanced is None


def test_a_step_that_repeats_has_one_point_whatever_its_number():
    """The gather behind the encoder is that behind every step; the widths of an input change no step."""
    table = preset("rtx-2080-ti-seq2seq")
    (row,) = tabulate_decisions(table).points
    assert (row.after_exits, row.variants) == ([1, 2], list(range(13)))
    split = row.map()
    step_s = table.array(0)[1, 2]
    for b, e in cells(64):
        assert split[b, e] == (step_s[b] > step_s[b - e] + 0.3e-3 + 0.02e-3 * (b - e))


@pytest.mark.parametrize("device", PRESETS)
def test_no_two_cells_of_a_preset_contradict_each_other(device):
    for row in tabulate_decisions(preset(device)).points[::3]:
        split = row.map()[:25, :25]
        splits = partial(lambda split, b, n: bool(split[b, b - n]), split)
        assert naive_batchcond.contradictions(splits, 24) == []


def test_the_early_exit_cnn_pads_where_the_paper_does():
    """Where one or two of a batch terminated, or the batch is below 8 to 13 (Section III-B1, Fig. 5a)."""
    points = sum_up(preset("rtx-2080-ti-ee-resnet34"), tabulate_decisions(preset("rtx-2080-ti-ee-resnet34")))
    blocks, end = points[:-1], points[-1]
    assert {point.least.terminated for point in blocks if point.least} == {3}
    assert [point.least.places for point in blocks if point.least] == [9, 12, 12, 13, 13, 8, 8]
    assert [point.rule for point in blocks] == [(8, 9), (8, 12), (6, 12), (6, 13), (5, 13), (5, 8), (4, 8)]
    assert all(0.9 < point.always_split.right < 0.97 for point in blocks)
    assert all(point.always_split.balanced == 0.5 and (point.by_rule.balanced or 0.0) > 0.97 for point in blocks)
    assert (end.row.after_exits, end.least, end.by_rule.lost) == ([16], None, 0.0)


@pytest.mark.parametrize("device", ["rtx-2080-ti-ds-mobilenet", "rtx-2080-ti-bert"])
def test_ideal_batches_as_in_plain_loops(device):
    table = preset(device)
    pass_s = [table.array(variant)[0, 1] for variant in range(table.variants)]
    found = [row.ideal_batch for row in tabulate_decisions(table).variants]
    time_s = partial(lambda batch, variant: pass_s[variant][batch])
    assert found == [naive_batchcond.ideal_batch(time_s, variant, table.b_max) for variant in range(table.variants)]
    assert found == sorted(found)


def lengths(rng: np.random.Generator, count: int) -> np.ndarray:
    """Sentences of MNLI as BatchCond's device is calibrated with: log-normal, mean 39, deviation 19, 6 to 256."""
    spread = np.log(1 + (19 / 39) ** 2)
    return np.clip(np.round(rng.lognormal(np.log(39) - spread / 2, np.sqrt(spread), count)), 6, 256)


def gates(rng: np.random.Generator, count: int) -> np.ndarray:
    """Widths that the gate of DS-MobileNet chooses."""
    return rng.choice([153.0, 255.0, 355.0, 475.0, 565.0], count, p=[0.07, 0.53, 0.16, 0.04, 0.20])


@pytest.mark.parametrize(
    ("device", "draw", "batch"),
    [("rtx-2080-ti-bert", lengths, 256), ("rtx-2080-ti-ds-mobilenet", gates, 256)],
)
def test_sorted_samples_are_cut_almost_as_well_as_they_can_be(device, draw, batch):
    """Algorithm 1 is never slower than padding, and within 3 % of the least time of all cuts."""
    table = preset(device)
    widths, time_s, gather_s = np.array(table.widths), table.pass_s(), np.array(table.gather_s)[0]
    ideal = np.array([row.ideal_batch for row in tabulate_decisions(table).variants])
    samples = np.sort(draw(np.random.default_rng(1), 20 * batch))[::-1]
    algorithm_s = least_s = 0.0
    for alike in np.split(samples, 20):
        variants = np.array([np.flatnonzero(widths >= width)[-1] for width in alike])
        sizes, into = np.bincount(variants, minlength=len(widths)), np.zeros(batch, dtype=np.int64)

        def spent_s(count: int, into=into, variants=variants) -> float:
            parts = into[:count]
            begins = np.cumsum(parts) - parts
            assert parts.sum() == batch
            return float(time_s[variants[begins], parts].sum() + (gather_s[parts].sum() if count > 1 else 0.0))

        one_s = spent_s(reorganise_widths(sizes, time_s, gather_s, ideal, into))
        assert one_s <= time_s[variants[0], batch]
        algorithm_s += one_s
        least_s += spent_s(partition(sizes, time_s, gather_s, into))
    assert least_s <= algorithm_s <= 1.03 * least_s


def test_the_command_writes_both_tables_and_says_where_splitting_pays(fluidb: Run, tmp_path: Path):
    asked = ["latency", "transformer_seq2seq", "rtx-2080-ti-seq2seq", "-o", "d"]
    done = fluidb(*asked, "--plot", "d.svg")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert (
        "time in ms from exit to exit, one of up to 103 steps of the last stage b=1 b=2 b=4 b=8 b=16 b=32 b=64" in lines
    )
    assert "0 input -> 2 words, width 104 10.00 10.00 10.00 11.99 17.98 32.53 65.07" in lines
    assert "1 to 2 104 to 8 E >= 3, b >= 24 E >= 6, b >= 25 98.2 %, 0.08 % 50.0 %, 1.18 % 50.0 %, 43.66 %" in lines
    assert any(line.startswith("104 22 ") for line in lines)
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["decisions.json", "latency.json"]
    drawn = (tmp_path / "d.svg").read_text()
    assert "behind exits 1 to 2, width 104 to 8" in drawn
    assert "ideal batch" in drawn
    kept = (tmp_path / "d" / "decisions.json").read_bytes()
    content = json.loads(fluidb(*asked, "--force", "--json").stdout)
    assert (tmp_path / "d" / "decisions.json").read_bytes() == kept
    (point,) = content["decisions"]["points"]
    assert (point["after_exits"], point["variants"]) == ([1, 2], list(range(13)))
    assert (point["least"], point["rule"]) == ({"terminated": 3, "places": 24}, {"terminated": 6, "places": 25})
    assert point["always_split"]["balanced"] == 0.5
    assert content["decisions"]["variants"][0]["ideal_batch"] == 22
    assert read_table(DecisionTable, tmp_path / "d" / "decisions.json").inputs.keys() == {"fluidb.latency/2"}


def test_a_network_without_a_choice_has_a_throughput_only(fluidb: Run, tmp_path: Path):
    done = fluidb("latency", "resnet18", "rtx-2080-ti", "-o", "d", "--plot", "d.svg")
    assert (done.returncode, done.stderr) == (0, "")
    assert "splitting" not in done.stdout
    assert "from input to end" in (tmp_path / "d.svg").read_text()
    assert json.loads((tmp_path / "d" / "decisions.json").read_text())["points"] == []


def test_a_decoder_is_searched_for_an_npu_and_its_table_repeats(fluidb: Run, tmp_path: Path):
    (tmp_path / "seq.toml").write_text(Path(TINY).read_text().replace("\nlayers", "\nsteps = 5\nlayers", 1))
    assert fluidb("dse", "seq.toml", POCKET, "-o", "d", "--b-max", 2).returncode == 0
    done = fluidb("latency", "d")
    assert (done.returncode, done.stderr) == (0, "")
    assert "one of up to 5 steps of the last stage" in done.stdout
    assert [exit_.get("steps") for exit_ in json.loads((tmp_path / "d" / "latency.json").read_text())["exits"]] == [
        None, None, 5
    ]  # fmt: skip
    (tmp_path / "t.csv").write_text("request_id,arrival_s,exit,steps\n1,0.0,3,2\n2,0.001,3,5\n3,0.5,1,1\n")
    for policy in ("serial", "adaptb", "lazy", "fluid"):
        done = fluidb("serve-sim", "d", "--trace", "t.csv", "--slo", "9s", "--policy", policy, "--json")
        assert (done.returncode, json.loads(done.stdout)["requests"]) == (0, 3)


def test_a_pass_with_all_its_steps_takes_no_centuries():
    """A step of a million seconds may run once, but 4096 steps would take 130 years."""
    network, device = load_network("transformer_seq2seq"), load_platform("rtx-2080-ti-seq2seq", kind=StagedDevice)
    slow = device.model_copy(update={"groups": [group.model_copy(update={"floor_s": 1e6}) for group in device.groups]})
    for steps, faulty in ((1, False), (4096, True)):
        exits = [network.exits[0], network.exits[1].model_copy(update={"steps": steps})]
        with pytest.raises(InputError, match="a pass at most 1e") if faulty else nullcontext():
            tabulate_device(network.model_copy(update={"exits": exits}), slow)
