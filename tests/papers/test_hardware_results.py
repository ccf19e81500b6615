"""Measured hardware: the constants that ship come from the extract, errors are as aimed, cycles are equal."""

from __future__ import annotations

import csv
import json
import math
from itertools import groupby

import numpy as np
import pytest
from builders import ROOT, Run
from fluidb.dse.device.engine import batch_times, needs
from fluidb.models import load_network
from fluidb.models.loader import read_network_file
from fluidb.models.works import layer_works
from fluidb.papers.hardware import MEASUREMENTS
from fluidb.papers.hardware.boards import CAFFE, FITTED, UNCALIBRATED, as_engine, hardware_dpu, rank_correlation
from fluidb.papers.hardware.mlperf import (
    RIGHT,
    TOGETHER,
    SubmittedRun,
    apart,
    hardware_mlperf,
    inside,
    read_submissions,
)
from fluidb.papers.hardware.sheet import hardware_nvdla, seconds, sheet_layers
from fluidb.papers.lab import Lab
from fluidb.papers.rows import PREDICTED
from fluidb.platforms import load_platform
from fluidb.platforms.engine import Engine
from fluidb.serving.statistics import Interval

BOARDS = ["dpu-b4096-zcu102", "dpu-b4096-zcu104", "dpu-b4096-kv260", "dpu-b1600-ultra96"]
ITEM, SHEET = hardware_dpu(Lab()), hardware_nvdla(Lab())
NVDLA = load_platform("nvdla-2048", kind=Engine)


@pytest.mark.parametrize("name", BOARDS)
def test_the_constants_that_ship_are_those_of_the_extract(fluidb: Run, name: str) -> None:
    """The time of a layer is fitted on the first board and kept on the others."""
    networks = {row.of.partition(":")[0] for row in ITEM.rows if row.at == name}
    keep = "not_hidden,inference_s" + (",layer_s" if name != BOARDS[0] else "")
    done = fluidb(
        "calibrate",
        name,
        MEASUREMENTS,
        "--hold-out",
        ",".join(sorted(networks - set(FITTED))),
        "--keep",
        keep,
        "--json",
    )
    assert done.returncode == 0, done.stderr
    printed, engine = json.loads(done.stdout), load_platform(name, kind=Engine)
    for key in ("effective_gb_s", "layer_s", "not_hidden", "inference_s", "measured_low", "measured_high"):
        assert printed["platform"][key] == pytest.approx(getattr(engine, key)), key
    assert printed["platform"]["sources"]["effective_gb_s"] == engine.sources["effective_gb_s"]
    assert printed["alike"] == []


def test_networks_held_out_are_within_the_aim() -> None:
    """Mean at most 8 %, worst at most 15 %, with one set of constants; without constants all are too fast."""
    for name in BOARDS:
        errors = [
            abs(row.difference or 0.0)
            for row in ITEM.rows
            if (row.at, row.basis, row.quantity) == (name, PREDICTED, "latency")
        ]
        assert np.mean(errors) <= 8
        assert max(errors) <= 15
    assert {load_platform(name, kind=Engine).layer_s for name in BOARDS} == {1.753e-5}
    assert max(row.difference or 0.0 for row in ITEM.rows if row.quantity == UNCALIBRATED) < 0
    assert [claim.holds for claim in ITEM.claims] == [True, True, True, True]


def test_the_readme_says_how_far_measured_engines_are_off() -> None:
    page = " ".join((ROOT / "README.md").read_text().split())
    ideal = [-(row.difference or 0.0) for row in ITEM.rows if row.quantity == UNCALIBRATED]
    latencies = [row for row in ITEM.rows if (row.basis, row.quantity) == (PREDICTED, "latency")]
    worst = max(abs(row.difference or 0.0) for row in latencies)
    assert f"ideal times were {min(ideal):.0f} to {max(ideal):.0f} % too short" in page
    assert f"times of networks that were not fitted are at most {math.ceil(worst)} % off" in page


def test_rows_state_the_operations_of_the_network_that_predicts_them() -> None:
    """Two a MAC; rows of torch state MACs. Of Caffe's ResNet-50 the newer boards run fewer, as TF-Slim's has."""
    with MEASUREMENTS.open(newline="") as file:
        for cells in csv.DictReader(file):
            label, _, stated = cells["row"].partition("_imagenet_")
            network = cells["network"]
            if label in CAFFE and cells["platform"] != "dpu-b1600-ultra96":
                assert network == "resnet50_tfslim"
                network = "resnet50_caffe"
            macs = float(stated.split("_")[-1].removesuffix("G")) * 1e9 / (1 if label.startswith("pt_") else 2)
            assert load_network(network).backbone().macs == pytest.approx(macs, rel=0.02), cells


def test_the_resnet_of_caffe_has_the_layers_of_nvidia_s_sheet() -> None:
    """Products, window and stride of each; the sheet begins a stage with the shortcut.

    It has 256 inputs for the first 1x1 of all blocks of the first stage; in the first block it reads the pool's 64.
    """
    products = [work for work in layer_works(*read_network_file("resnet50_caffe")) if work.gemm]
    blocks = groupby(products, key=lambda work: work.name.rpartition(".")[0])
    ordered = [work for _, block in blocks for work in sorted(block, key=lambda work: "downsample" not in work.name)]
    theirs = [layer.work for layer in sheet_layers(NVDLA) if layer.network == "resnet50"]
    assert [(work.window, work.stride) for work in ordered] == [(work.window, work.stride) for work in theirs]
    pairs = zip(ordered, theirs, strict=True)
    (other,) = [(our.name, our.gemm, their.gemm) for our, their in pairs if our.gemm != their.gemm]
    assert other == ("layer1.0.conv1", (56 * 56, 64, 64, 1), (56 * 56, 256, 64, 1))


def test_cycles_of_the_sheet_are_equal_but_in_first_layers() -> None:
    layers = sheet_layers(NVDLA)
    other = [(layer.network, layer.work.name) for layer in layers if not layer.equal]
    assert other == [("alexnet", "1"), ("googlenet", "conv1"), ("resnet50", "Conv1")]
    assert sum(layer.winograd for layer in layers) == 31
    sums = [row for row in SHEET.rows if (row.quantity, row.of) == ("MAC cycles", "all layers")]
    assert [row.at for row in sums] == ["alexnet", "googlenet", "resnet50"]
    assert all(abs(row.difference or 0.0) < 10 for row in sums)


def test_times_of_the_sheet_are_near_where_it_counts_our_weights() -> None:
    """Its total times are equal to its summary's; where they are far, only layers with other weights are."""
    found = {(row.of, row.at): row for row in SHEET.rows if row.quantity == "time"}
    printed = {"alexnet": 0.8954435625, "googlenet": 1.222071, "resnet50": 7.113691}
    for name, time_ms in printed.items():
        assert found["all layers", name].paper == pytest.approx(time_ms, rel=1e-5)
        assert 0 < (found["layers with our weights", name].difference or 0.0) < 5
        assert abs(found["all layers, the sheet's weights", name].difference or 0.0) < 5
    assert [claim.holds for claim in SHEET.claims if claim.statement.endswith("time is near")] == [True, False, True]
    assert abs(found["the network that ships", "resnet50"].difference or 0.0) < 1
    others = [layer for layer in sheet_layers(NVDLA) if abs(layer.weight_ratio - 1) > 1e-9]
    few = [layer for layer in others if layer.weight_ratio == pytest.approx(9 / 16)]
    assert (len(few), {layer.network for layer in few if layer.winograd}) == (8, {"googlenet"})
    rest = [layer for layer in others if layer not in few]  # 3 channels as 4, and 24 as 32
    assert [layer.work.name for layer in rest] == ["conv1", "inception 4b 5x5", "inception 4c 5x5", "Conv1"]
    assert [layer.weight_ratio for layer in rest] == pytest.approx([4 / 3] * 4)


def test_a_layer_of_the_sheet_by_hand() -> None:
    """A residual reads and writes 14 x 14 x 1,024 bytes; 16 samples share the weights of a fully connected layer."""
    (layer,) = [layer for layer in sheet_layers(NVDLA) if layer.work.name == "Res4a_branch2c"]
    moved = 14 * 14 * 256 + 2 * 14 * 14 * 1024 + 256 * 1024
    assert seconds([layer], NVDLA) == pytest.approx(moved / 10e9)
    fc = [layer for layer in sheet_layers(NVDLA) if layer.work.name == "fc2"]
    assert seconds(fc, NVDLA) == pytest.approx((2 * 4096 + 4096 * 4096 / 16) / 10e9)


def test_an_engine_of_a_board_has_its_multipliers_and_words() -> None:
    """At one pixel it makes the products of <1, macs> tiles; its bandwidth is the board's."""
    engine = as_engine(load_platform("zcu104"))
    assert (engine.macs_per_cycle, engine.dsps, engine.word_bits, engine.shape) == (1728, 1728, 16, "1 x 1 x 1728")
    file, path = read_network_file("alexnet")
    need = needs(file, path, engine)
    for work, cycles in zip(need.works, need.cycles, strict=True):
        R, P, C, groups = work.gemm or (0, 0, 0, 0)
        assert cycles == R * P * -(-C // 1728) * groups
    assert batch_times(need, engine).sum() >= need.bytes.sum() / 9.6e9


def test_rank_correlation_by_hand() -> None:
    """1 - 6 * sum of squared differences / (n * (n^2 - 1)); equal values share a rank."""
    one = np.array([10.0, 20.0, 30.0, 40.0])
    assert rank_correlation(one, np.array([1.0, 2.0, 4.0, 3.0])) == pytest.approx(1 - 6 * 2 / 60)
    assert rank_correlation(one, -one) == pytest.approx(-1)
    assert rank_correlation(one, np.array([1.0, 1.0, 2.0, 3.0])) == pytest.approx(0.9486832980505138)


def test_intervals_of_summaries_hold_as_many_as_theory_says() -> None:
    """Of independent latencies whose tail is a power, which is what is read between percentiles."""
    draw, shares, requests = np.random.default_rng(1), [], 5_000
    for _ in range(200):
        latency_s = np.sort(draw.pareto(2.0, (TOGETHER, requests)) + 1)
        ends = latency_s[:, [int(share * requests) for share in (0.97, 0.99, 0.999)]]
        runs = [SubmittedRun(requests, tuple(each)) for each in ends.tolist()]
        shares.append(inside([run.p99 for run in runs], [run.interval() for run in runs]))
    assert np.mean(shares) == pytest.approx(RIGHT, abs=4 * np.std(shares) / 200**0.5)
    exact = tuple(share**-0.5 for share in (0.03, 0.01, 0.001))
    half = 1.96 * (0.99 * 0.01 / (0.25 * requests)) ** 0.5
    assert SubmittedRun(requests, exact).interval(0.25) == pytest.approx([(0.01 + half) ** -0.5, (0.01 - half) ** -0.5])


def test_runs_inside_and_apart_by_hand() -> None:
    figures = [10.0, 11.0, 12.0]
    assert inside(figures, [Interval(9, 11), Interval(11, 12), None]) == pytest.approx(100 * 2 / 6)
    assert apart(figures) == pytest.approx(20)


def test_one_run_of_mlperf_does_not_hold_the_others() -> None:
    """And reduced runs of ours, too short for an interval, hold nothing."""
    submissions, left_out = read_submissions()
    assert (sum(map(len, submissions.values())), left_out) == (195, 4)
    item = hardware_mlperf(Lab(requests=300, seeds=1))
    assert [claim.holds for claim in item.claims] == [False, False, False]
    assert [row.ours for row in item.rows if "fluidb" in row.at] == [0.0] * 4
    held = [row for row in item.rows if row.at == "MLPerf, independent latencies"]
    counts = np.array([len(runs) for runs in submissions.values()])
    by_benchmark = np.array([row.ours for row in held[:-1]])
    assert held[-1].ours == pytest.approx(float(by_benchmark @ counts) / 195)
    assert 15 < held[-1].ours < 25


def test_the_extract_says_where_it_is_from() -> None:
    text = (ROOT / "papers" / "hardware" / "__init__.py").read_text()
    assert "Apache-2.0" in text
    assert "Open NVDLA licence" in text
