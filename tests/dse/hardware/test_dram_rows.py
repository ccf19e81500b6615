"""What a DRAM's controller adds to aligned beats: rows of the memory that are opened, and turns to writing and back."""

from __future__ import annotations

from math import ceil
from typing import Any

import board
import dram
import naive_bus
import numpy as np
import pytest
from board_system import BOARD, NETWORK, TILE
from builders import COMPILED, ROOT
from fluidb.dse import SearchOptions, search, tabulate_design
from fluidb.dse.hardware.program import jobs_of
from fluidb.dse.npu.latency import tabulate_latency
from fluidb.models.loader import build_network

pytestmark = pytest.mark.skipif(not COMPILED, reason="the search as plain Python takes minutes")

ROW, BANKS = 1024, 8
"""Words of a row of the Arty's MT41K128M16, and its banks; rows that follow one another lie in bank after bank."""


def moved(job: Any, words: int) -> tuple[int, int, int, int]:
    """Lines read, lines written, rows opened, and stores behind a load, of a layer whose maps follow one another."""
    alone = naive_bus.alone(job.window, job.C, job.groups, words)
    inputs, weights = (-(-size // 64) * 64 for size in (job.layout[0] * alone.x_sample, job.groups * alone.w_group))
    places = alone._replace(w=inputs, y=inputs + weights)
    tile = tuple(map(int, job.tile))
    every = list(naive_bus.passes(job.window, job.C, job.groups, job.layout, tile, job.rows, words, places))
    share = ceil(max(len(store) for _, store in every) / ceil(job.window.P / tile[1]))
    lines, opened, turns, open_rows, before = [0, 0], 0, 0, dict.fromkeys(range(BANKS)), []

    def access(beats: list[tuple[int, int]], kind: int) -> None:
        nonlocal opened
        newest = None
        for address, count in beats:
            for line in range(address // words, (address + count - 1) // words + 1):
                if line != newest:
                    row = line * words // ROW
                    lines[kind] += 1
                    opened += open_rows[row % BANKS] != row
                    open_rows[row % BANKS], newest = row, line

    for loads, store in every:
        for load in loads:
            access(load, 0)
            access(before[:share], 1)
            turns += bool(before)
            before = before[share:]
        before = store
    access(before, 1)
    return lines[0], lines[1], opened, turns


def error(causes: np.ndarray, cycles: np.ndarray) -> tuple[float, np.ndarray]:
    """Of the best sum of causes, root mean square of the relative differences; and the cycles of each."""
    each, *_ = np.linalg.lstsq(causes / cycles[:, None], np.ones(len(cycles)), rcond=None)
    return float(np.sqrt(np.mean((causes @ each / cycles - 1) ** 2))), each


def test_opened_rows_and_turns_are_why_layers_differ() -> None:
    """Of ``blocks`` on the Arty, whose layers of more than 2,000 cycles the port limits; as docs/hardware.md says."""
    run = dram.read_results()["arty-a7"]
    timed = jobs_of(dram.quantised("blocks").network, *dram.designed("arty-a7", dram.LARGE, "blocks"))
    every = [one for one in dram.layers_that_ran(run) if (one.tile, one.network) == (dram.LARGE, "blocks")]
    ran = [one for one in every if one.ran.cycles > 2000 and one.kind != "pool"]
    causes = np.array([moved(timed[one.layer][one.ran.b - 1].job, 8) for one in ran], float)
    cycles = np.array([one.ran.cycles for one in ran], float)
    lines, opened, turns = causes[:, :2].sum(axis=1), causes[:, 2], causes[:, 3]
    by_lines, _ = error(lines[:, None], cycles)
    apart, _ = error(causes[:, :2], cycles)
    by_three, each = error(np.stack([lines, opened, turns], axis=1), cycles)
    said = (
        f"the aligned beats alone leave {100 * by_lines:.0f} %, loads and stores apart {100 * apart:.0f} %, beats with "
        f"opened rows and turns {100 * by_three:.0f} %, at {each[0]:.1f}, {each[1]:.1f} and {each[2]:.0f} cycles"
    )
    assert len(ran) == 14
    assert said in " ".join((ROOT / "docs" / "hardware.md").read_text().split()), said


def test_a_pool_of_a_whole_map_opens_a_row_with_nearly_every_beat() -> None:
    """Where a channel has the words of a row."""
    job = jobs_of(dram.quantised("blocks").network, *dram.designed("arty-a7", dram.LARGE, "blocks"))["exit1.pool"][
        2
    ].job
    lines, _, opened, _ = moved(job, 8)
    assert job.window.P == ROW
    assert opened > 0.99 * lines


def test_turns_are_why_small_tiles_take_longer_on_the_ulx3s() -> None:
    """Single samples of both networks, on both designs; turns explain little on the Arty; as docs/hardware.md says."""
    said = []
    for name in ("ulx3s", "arty-a7"):
        every = [one for one in dram.layers_that_ran(dram.read_results()[name]) if one.ran.b == 1]
        ran = [one for one in every if one.ran.cycles > 2000 and one.kind != "pool"]
        causes = []
        for one in ran:
            design, fbcb = dram.designed(name, one.tile, one.network)
            job = jobs_of(dram.quantised(one.network).network, design, fbcb)[one.layer][0].job
            loads, stores, _, turns = moved(job, int(design.port.words))
            causes.append((loads + stores, turns))
        of, cycles = np.array(causes, float), np.array([one.ran.cycles for one in ran], float)
        by_lines, _ = error(of[:, :1], cycles)
        with_turns, _ = error(of, cycles)
        said.append(f"{100 * by_lines:.0f} to {100 * with_turns:.0f} %")
    text = f"from {said[0]} on the ULX3S and from {said[1]} on the Arty"
    assert text in " ".join((ROOT / "docs" / "hardware.md").read_text().split()), text


@pytest.mark.parametrize("name", dram.MEMORIES)
def test_the_cycles_beside_the_dram_are_those_of_the_latency_table(name: str) -> None:
    """As the model counts them today, which no digest of what ran covers."""
    first, *_ = dram.read_results()[name]["fits"]
    port = dram.Constants(*(first[key] for key in dram.Constants._fields))
    rows = dram.rows_of(dram.read_results()[name], first)
    tables = {of: dram.table_of(name, *of, port) for of in {(row.layer.tile, row.layer.network) for row in rows}}
    found = [tables[row.layer.tile, row.layer.network][row.layer.layer][row.layer.ran.b - 1] for row in rows]
    assert found == [row.table for row in rows]


def test_the_cycles_beside_the_board_are_those_of_the_latency_table() -> None:
    """Of the design that ``board_system.py`` writes."""
    layers = build_network(dram.quantised(NETWORK).file, NETWORK)
    options = SearchOptions(tile=TILE)
    times_s = tabulate_latency(*tabulate_design(layers, BOARD, options, search(layers, BOARD, options))).array()
    runs = [board.Ran(*run) for run in board.read_result()["runs"]]
    found = [ceil(times_s[run.after, run.after + 1, run.b] * BOARD.clock_hz) for run in runs]
    assert found == [run.table for run in runs]
