"""Long runs: nothing depends on the blocks in which requests are looked at, nor on where their values lie."""

import mmap

import numpy as np
import pytest
from fluidb.formats import InputError
from fluidb.serving import statistics
from fluidb.serving.statistics import Union, sort_groups, warm_up
from fluidb.traffic import storage
from fluidb.traffic.storage import total
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

LATENCIES = hnp.arrays(
    np.float64, st.integers(1, 99), elements=st.one_of(st.floats(0, 9), st.sampled_from([0.5, np.inf]))
)


@pytest.fixture(params=[1, 2, 7, 64, 2**18], autouse=True)
def block(request, monkeypatch):
    """Blocks and parts of a size; small ones put every array into a file."""
    monkeypatch.setattr(storage, "BLOCK", request.param)
    if request.param < 2**18:
        monkeypatch.setattr(storage, "IN_MEMORY_BYTES", 0)
        monkeypatch.setattr(statistics, "SORTED", 5 * request.param)


def test_sums_are_those_of_numpy_to_the_last_bit():
    rng = np.random.default_rng(0)
    for count in (1, 7, 8, 128, 129, 1000, 4097):
        values = rng.random(count) * 10.0 ** rng.integers(-9, 9, count)
        assert total(values) == values.sum()


@settings(max_examples=30)
@given(LATENCIES, st.integers(1, 3))
def test_sorted_groups_are_the_values_sorted(values, number):
    groups = np.arange(len(values)) % number + 1
    found = sort_groups(values, groups, number)
    assert [part.tolist() for part in found] == [sorted(values[groups == k + 1]) for k in range(number)]
    union = Union(found)
    for rank in (0, len(values) // 3, -1):
        assert union[rank] == sorted(values)[rank]


def whole_warm_up(values):
    """MSER-5 over the array at once."""
    means = values[: len(values) // 5 * 5].reshape(-1, 5).mean(axis=1)
    count = len(means)
    if count < 4 or not np.all(np.isfinite(means)):
        return 0
    rest = count - np.arange(count)
    sums, squares = np.cumsum(means[::-1])[::-1], np.cumsum(means[::-1] ** 2)[::-1]
    return 5 * int(np.argmin(((squares - sums**2 / rest) / rest.astype(float) ** 2)[: count // 2]))


@settings(max_examples=30)
@given(LATENCIES)
def test_the_warm_up_is_that_of_the_whole(values):
    assert warm_up(values) == whole_warm_up(values)
    rising = np.minimum(np.arange(len(values)), 30) + values
    assert warm_up(rising) == whole_warm_up(rising)


def test_long_arrays_lie_in_files_and_keep_their_values():
    values = storage.allocate((50, 2), np.float64, 3.0)
    values[:, 1] = np.arange(50)
    storage.release(values, values[3:].reshape(-1), None)
    assert values[:, 0].tolist() == [3.0] * 50
    assert values[:, 1].tolist() == list(range(50))
    owner: object = values
    while isinstance(owner, np.ndarray):
        owner = owner.base
    in_file = isinstance(getattr(owner, "obj", None), mmap.mmap)
    assert in_file == (storage.IN_MEMORY_BYTES == 0)


def test_a_full_disk_is_one_line(monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr("os.posix_fallocate", refuse)
    with pytest.raises(InputError, match="expected room for 8 MiB .* set TMPDIR"):
        storage.allocate(2**20, np.float64)
