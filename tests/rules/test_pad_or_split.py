"""Pad or split: Equation (1), Algorithm 1 and the partition of least time, against plain loops and by properties."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

import naive_batchcond
import numpy as np
from fluidb.rules.pad_or_split import (
    decision_map,
    fill_sub_batches,
    ideal_batch_sizes,
    partition,
    reorganise_widths,
    split_pays,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

bounded = settings(max_examples=40)


class Machine(NamedTuple):
    """Times of a device by width and batch size, and of gathers. Row 0 is the widest, of width W."""

    time_s: NDArray[np.float64]
    gather_s: NDArray[np.float64]

    @property
    def b_max(self) -> int:
        return self.gather_s.size - 1

    @property
    def widths(self) -> range:
        return range(len(self.time_s), 0, -1)

    @property
    def ideal(self) -> NDArray[np.int64]:
        found: NDArray[np.int64] = ideal_batch_sizes(self.time_s)
        return found

    def seconds(self, batch: int, width: int) -> float:
        return float(self.time_s[len(self.time_s) - width, batch])

    def gather(self, batch: int) -> float:
        return float(self.gather_s[batch])


def machine(floor: float, slopes: Sequence[float], gather: tuple[float, float], b_max: int = 12) -> Machine:
    """A GPU-like device: a width takes a floor, or its slope for each sample; the widest first."""
    batch = np.arange(b_max + 1.0)
    time_s = np.maximum(floor, np.outer(sorted(slopes, reverse=True), batch))
    gather_s = gather[0] + gather[1] * batch
    time_s[:, 0], gather_s[0] = 0.0, 0.0
    return Machine(time_s, gather_s)


eighths = st.integers(1, 64).map(lambda count: count / 8)  # sums of these are exact, so that ties are ties
gpus = st.builds(
    machine,
    eighths,
    st.lists(eighths, min_size=1, max_size=4),
    st.tuples(st.integers(0, 16).map(lambda n: n / 8), st.integers(0, 4).map(lambda n: n / 8)),
)


@st.composite
def batches(draw: st.DrawFn, largest: int = 12) -> tuple[Machine, list[int]]:
    """A device, and the widths of a batch on it."""
    drawn = draw(gpus)
    return drawn, draw(st.lists(st.sampled_from(drawn.widths), min_size=1, max_size=largest))


def sizes_of(on: Machine, widths: Sequence[int]) -> NDArray[np.int64]:
    return np.array([widths.count(width) for width in on.widths])


def cut(widths: Sequence[int], sizes: NDArray[np.int64]) -> list[list[int]]:
    """The runs of samples by decreasing width that the sizes stand for."""
    ends = np.cumsum(sizes).tolist()
    ordered = sorted(widths, reverse=True)
    return [ordered[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def seconds_of(on: Machine, parts: Sequence[Sequence[int]]) -> float:
    """Time of sub-batches; one alone is padded and not gathered."""
    if len(parts) == 1:
        return on.seconds(len(parts[0]), max(parts[0]))
    return naive_batchcond.split_s(parts, on.seconds, on.gather)


def reorganised(on: Machine, widths: Sequence[int], *, least: bool) -> list[list[int]]:
    """Sub-batches of the package."""
    into = np.zeros(len(widths), dtype=np.int64)
    sizes = sizes_of(on, widths)
    if least:
        count = partition(sizes, on.time_s, on.gather_s, into)
    else:
        count = reorganise_widths(sizes, on.time_s, on.gather_s, on.ideal, into)
    assert (sizes == sizes_of(on, widths)).all()  # the caller's array is left alone
    return cut(widths, into[:count])


@bounded
@given(gpus)
def test_a_decision_map_is_equation_1(on: Machine):
    split = decision_map(on.time_s, np.tile(on.gather_s, (len(on.time_s), 1)))
    for point, width in enumerate(on.widths):
        for places in range(1, on.b_max + 1):
            for terminated in range(places + 1):
                time_s = partial(on.seconds, width=width)
                decided = naive_batchcond.depth_decision(time_s, on.gather, places, terminated)
                assert split[point, places, terminated] == (decided in {"split", "stop"})
                staying = places - terminated
                pays = split_pays(on.time_s[point][places], on.time_s[point][staying], on.gather_s[staying])
                assert pays == split[point, places, terminated]


@bounded
@given(st.lists(eighths, min_size=9, max_size=9), st.lists(eighths, min_size=9, max_size=9))
def test_no_two_cells_of_a_map_contradict_each_other(time_s: list[float], gather_s: list[float]):
    """Exchange test, also where measured times do not grow with the batch."""
    split = decision_map(np.array([[0.0, *time_s]]), np.array([[0.0, *gather_s]]))[0]
    assert naive_batchcond.contradictions(lambda b, n: bool(split[b, b - n]), 9) == []


def test_the_exchange_test_finds_a_wrong_cell():
    """Times 1, 2, 3 and no gather: everything splits; one cell that pads fits no times, as T[3] > T[2] elsewhere."""
    wrong = {(4, 2): False, (3, 1): False}
    assert naive_batchcond.contradictions(lambda b, n: wrong.get((b, n), True), 4) == [(3, 4, 2, 1)]


@bounded
@given(gpus)
def test_ideal_batch_sizes(on: Machine):
    expected = [naive_batchcond.ideal_batch(on.seconds, width, on.b_max) for width in on.widths]
    assert on.ideal.tolist() == expected


@bounded
@given(batches())
def test_algorithm_1_as_in_plain_loops(drawn: tuple[Machine, list[int]]):
    on, widths = drawn
    ideal = dict(zip(on.widths, on.ideal.tolist(), strict=True))
    filled = sizes_of(on, widths)
    fill_sub_batches(filled, on.ideal)
    expected = naive_batchcond.algorithm_1(widths, ideal)
    assert [size for size in filled.tolist() if size] == [len(part) for part in expected]
    parts, seconds = naive_batchcond.width_decision(widths, on.seconds, on.gather, ideal)
    found = reorganised(on, widths, least=False)
    assert found == parts
    assert seconds_of(on, found) == seconds


@bounded
@given(batches())
def test_what_both_ways_to_cut_must_keep(drawn: tuple[Machine, list[int]]):
    """Nobody is lost or moved to a smaller width; padding is never slower; the partition is never the slower one."""
    on, widths = drawn
    pad_s = on.seconds(len(widths), max(widths))
    algorithm, least = (reorganised(on, widths, least=least) for least in (False, True))
    for parts in (algorithm, least):
        assert sorted(chain.from_iterable(parts)) == sorted(widths)
        assert all(parts)
        assert all(wider[-1] >= narrower[0] for wider, narrower in pairwise(parts))
        assert seconds_of(on, parts) <= pad_s
    assert seconds_of(on, least) <= seconds_of(on, algorithm)


@settings(max_examples=25)
@given(batches(largest=6))
def test_no_other_cut_takes_less_time_than_the_partition(drawn: tuple[Machine, list[int]]):
    on, widths = drawn
    expected = naive_batchcond.least_s(widths, on.seconds, on.gather)
    assert seconds_of(on, reorganised(on, widths, least=True)) == expected


def test_the_two_mends_of_algorithm_1():
    """As printed, 2 samples that want to be 5 would take 3 of themselves; 1 of the next could not give 3."""
    sizes = np.array([2, 1, 4])
    fill_sub_batches(sizes, np.array([5, 3, 3]))
    assert sizes.tolist() == [5, 0, 2]


def test_equation_2_as_printed_omits_the_gather():
    """Two samples of 4 s and two of 1 s: 10 s in two batches, 16 s padded, but two gathers of 3.5 s make it 17 s."""
    on = machine(0.0, [1.0, 4.0], (3.5, 0.0))
    sizes, ideal, into = np.array([2, 2]), np.array([1, 1]), np.zeros(4, dtype=np.int64)
    assert reorganise_widths(sizes, on.time_s, on.gather_s, ideal, into) == 1
    assert into[0] == 4
    assert reorganise_widths(sizes, on.time_s, np.zeros_like(on.gather_s), ideal, into) == 2
    assert into[:2].tolist() == [2, 2]


def test_a_tie_pads():
    """Half a second a sample: four take as long as three and a gather of half a second, but longer than two and it."""
    on = machine(0.0, [0.5], (0.5, 0.0))
    assert not split_pays(on.time_s[0][4], on.time_s[0][3], on.gather_s[3])
    assert split_pays(on.time_s[0][4], on.time_s[0][2], on.gather_s[2])
    into = np.zeros(4, dtype=np.int64)
    for gather_s, parts in ((1.0, 1), (0.875, 2)):  # 4 * 2 s padded; apart 2 * 2 s, 2 * 1 s and two gathers
        two = machine(0.0, [1.0, 2.0], (gather_s, 0.0))
        assert partition(np.array([2, 2]), two.time_s, two.gather_s, into) == parts
        assert reorganise_widths(np.array([2, 2]), two.time_s, two.gather_s, np.array([1, 1]), into) == parts
