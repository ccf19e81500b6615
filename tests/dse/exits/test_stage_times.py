"""Stage times, and the device by which the PAME paper's times come out."""

from __future__ import annotations

import numpy as np
import pytest
from builders import by_stage, layer_of
from fluidb.dse.device.tabulate import tabulate_device
from fluidb.dse.exits.stage_times import keep_exits, stage_times
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.models.candidates import load_with_exits
from fluidb.platforms import Device, load_platform
from fluidb.platforms.device import AnalyticDevice
from fluidb.tables.layer_use import layer_groups


def device(name: str) -> Device:
    return load_platform(name, kind=Device)


def test_bert_takes_what_the_paper_prints() -> None:
    """Section 3.2: 16.75 ms without exits and 20.03 ms with eleven, for 16 samples; 9 to 15 take as long as 16."""
    v100 = device("v100-tensorrt-bert")
    plain = tabulate_device(load_network("bert_base"), v100).array()[0, 1]
    with_exits = tabulate_device(load_with_exits("bert_base"), v100).array()[0, 12]
    assert 1e3 * plain[16] == pytest.approx(16.75, abs=0.005)
    assert 1e3 * with_exits[16] == pytest.approx(20.03, abs=0.005)
    assert np.unique(plain[9:17]).size == 1


def test_the_exit_part_of_resnet101_is_that_of_figure_17() -> None:
    times = stage_times(tabulate_device(load_with_exits("resnet101"), device("v100-tensorrt")))
    net = load_with_exits("resnet101", ["H13"])
    exit_macs = sum(
        (1.5 if layer.role == "bridge" else 1) * layer.gemm.macs for layer in net.layers if layer.in_head and layer.gemm
    )
    exit_s = 1.65e-13 * exit_macs * (16 + 4.5) + 30e-6
    assert exit_s / (times[0, 5, 16] + times[5, 12, 6]) == pytest.approx(0.089, abs=0.01)


def test_a_head_that_begins_without_a_product_is_a_row_of_its_own() -> None:
    """What moves data only goes to the product before it, but neither from a head to the backbone nor to a stage."""
    one = layer_of((1, 1, 1, 1))
    moves = one.model_copy(update={"gemm": None, "memory_words": 1})
    steps = [
        (one, "a", 1), (moves, "pool", 1), (moves, "exit1/pool", 1), (one, "exit1/fc", 1), (moves, "exit1/view", 1),
        (moves, "shuffle", 2), (one, "b", 2),
    ]  # fmt: skip
    layers = [
        layer.model_copy(update={"name": name, "stage": stage, "role": "head" if "/" in name else "backbone"})
        for layer, name, stage in steps
    ]
    assert list(layer_groups(layers)) == [[0, 1], [2], [3, 4], [5], [6]]


def test_a_stage_counts_the_exits_at_its_ends_only() -> None:
    """From a to b: the layers between, the head and check of b, and the start behind a; worked out layer by layer."""
    v100 = device("v100-tensorrt")
    net = load_with_exits("resnet101")
    times = stage_times(tabulate_device(net, v100))
    for a, b, batch in ((0, 1, 1), (0, 5, 32), (5, 12, 7), (2, 9, 16), (0, 12, 64)):
        layers = [
            layer for layer in net.layers
            if layer.gemm and a < layer.stage <= b and (not layer.in_head or layer.name.startswith(f"exit{b}/"))
        ]  # fmt: skip
        work = [(layer.gemm.macs, 1.5 if layer.role == "bridge" else 1.0) for layer in layers if layer.gemm]
        expected = sum(1.65e-13 * macs * (batch + 4.5) * factor for macs, factor in work)
        expected += (30e-6 if b < 12 else 0) + (100e-6 + 6e-6 * batch if a else 0)
        assert times[a, b, batch] == pytest.approx(expected)
    assert not times[:, :, 0].any()
    assert not np.tril(times.sum(axis=2)).any()  # without times of gathers


def test_a_place_has_the_gathers_of_its_exit() -> None:
    table = tabulate_device(load_with_exits("resnet50"), device("rtx-2080-ti"))
    times = stage_times(table)
    for place, batch in ((1, 1), (7, 128), (15, 16)):
        assert times[place, place, batch] == pytest.approx(50e-6 + 0.525e-6 * batch)
    assert not times[[0, -1], [0, -1]].any()
    assert not times[:, :, 0].any()


@pytest.mark.parametrize(
    ("network", "platform", "names"),
    [
        ("resnet101", "v100-tensorrt", ["H4", "H13"]),
        ("bert_base", "v100-tensorrt-bert", ["H6"]),
        ("resnet50", "rtx-2080-ti", ["H2", "H14"]),
    ],
)
def test_the_table_of_fewer_exits_is_that_of_the_network_with_fewer_exits(network, platform, names) -> None:
    every, some = load_with_exits(network), load_with_exits(network, names, [0.25] * len(names))
    places = [1 + [exit_.name for exit_ in every.exits].index(exit_.name) for exit_ in some.exits[:-1]]
    kept = keep_exits(tabulate_device(every, device(platform)), some.name, places, [exit_.rate for exit_ in some.exits])
    expected = tabulate_device(some, device(platform))
    np.testing.assert_allclose(kept.array(), expected.array(), rtol=1e-12)
    assert (kept.exits, kept.layers, kept.network) == (expected.exits, expected.layers, expected.network)
    assert (kept.gather_s, kept.load, kept.wake_up_s) == (expected.gather_s, expected.load, expected.wake_up_s)


def test_fewer_exits_keep_the_gathers_of_their_places() -> None:
    table = tabulate_device(load_with_exits("resnet101"), device("v100-tensorrt"))
    rows = [[0.0, *(place + batch / 100 for batch in range(1, table.b_max + 1))] for place in range(12)]
    kept = keep_exits(table.model_copy(update={"gather_s": rows}), "resnet101", [4, 9], [0.25, 0.25, 0.5])
    assert kept.gather_s == [rows[0], rows[4], rows[9]]


def test_times_of_whole_stages_need_a_network() -> None:
    table = by_stage([[1.0], [1.0]])
    for network in (None, load_network("resnet50")):
        with pytest.raises(InputError, match="expected times by layer, or times of the stages of a network with an"):
            stage_times(table, network)


def test_a_head_takes_its_share_of_a_measured_stage() -> None:
    """Where times are in proportion to MACs, whole stages tell all that layers do."""
    network = load_with_exits("resnet50", ["H2", "H7", "H11"])
    plain = AnalyticDevice(name="d", title="d", b_max=4, floor_s=0.0, slope_s_per_mac=1e-12)
    layered = tabulate_device(network, plain)
    whole = layered.model_copy(update={"layers": [], "stage_s": [layered.stage_array()[0, :, 1:].tolist()]})
    times = stage_times(whole, network)
    np.testing.assert_allclose(times, stage_times(layered), rtol=1e-12, atol=1e-18)
    rates = [0.5, 0.5]
    some = keep_exits(whole, "some", [2], rates, stage_s=times)
    assert not some.layers
    np.testing.assert_allclose(some.array(), keep_exits(layered, "some", [2], rates).array(), rtol=1e-12)


def test_roles_and_not_names_tell_heads_from_the_backbone() -> None:
    table = tabulate_device(load_with_exits("resnet101", ["H4", "H13"]), device("v100-tensorrt"))
    unnamed = [layer.model_copy(update={"name": f"exit9/{i}"}) for i, layer in enumerate(table.layers)]
    np.testing.assert_array_equal(stage_times(table.model_copy(update={"layers": unnamed})), stage_times(table))
    assert {layer.role for layer in table.layers} == {"backbone", "head", "check", "resume"}
