"""A plain search over T_R, T_C and W, one design after the other, never beats the search of the whole space."""

from __future__ import annotations

import os
from itertools import product

import pytest
from builders import POCKET, TINY
from fluidb.dse import SearchOptions, Tile, search
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import load_platform

BOARDS = ["zc706", "pynq-z1", "kv260", "ultra96", "zcu102", "zcu104"]
NETWORKS = ["resnet50", "mobilenet_v2", "inception_v3", "vgg16", "efficientnet_b0", "mobilenet_v3_large"]
EVERY_PAIR = os.environ.get("FLUIDB_EVERY_PAIR") == "1"
"""All 36 pairs take about a quarter of an hour of processor time; else a small network on a small board."""


def fitting(network, board, T_R, T_C, W):
    """The objective with the largest T_P that fits, as ``fluidb dse --tile`` finds it; none if nothing fits."""
    value, low, high = None, 0, board.dsps // T_C + 1
    while high - low > 1:
        T_P = (low + high) // 2
        try:
            value, low = search(network, board, SearchOptions(tile=Tile(T_R, T_P, T_C, 1, W))).best.objective, T_P
        except InputError:
            high = T_P
    return value


@pytest.mark.parametrize(("name", "of"), list(product(NETWORKS, BOARDS)) if EVERY_PAIR else [(TINY, POCKET)])
def test_a_plain_search_finds_nothing_better(name, of):
    network, board = load_network(name), load_platform(of)
    best = search(network, board, top=1).best
    step, most, columns = (256, 2048, range(16, 257, 16)) if EVERY_PAIR else (16, 64, range(2, 25, 2))
    own = []
    for T_R, T_C, W in product(range(step, most + 1, step), columns, (0, *board.other_ports)):
        value = fitting(network, board, T_R, T_C, W)
        if value is not None:
            own.append((value, Tile(T_R, 1, T_C, 1, W)))
    assert own
    assert max(own)[0] <= best.objective
