"""The FBCB: the paper's encoding bit for bit, and a reader that gives back what was written."""

from __future__ import annotations

import numpy as np
import pytest
from fluidb.dse.npu.fbcb import FbcbRow, FbcbTable, batch_bits, blocks_of, decode, encode, entry_bits
from fluidb.formats import InputError, read_table, write_table
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays


@pytest.mark.parametrize(
    ("b_max", "bits"), [(1, 2), (2, 3), (3, 4), (4, 4), (5, 5), (8, 5), (9, 6), (64, 8), (256, 10)]
)
def test_entry_has_the_bits_of_the_paper(b_max, bits):
    assert entry_bits(b_max) == bits
    assert 2 ** batch_bits(b_max) >= b_max


def test_an_entry_by_hand():
    """k = 2 is code 01, k = 1/2 is code 10, B_R = 6 is 101 of three bits; 6 blocks are code 4, 100."""
    codes, B_R = np.array([[0] * 7 + [1]]), np.array([[1] * 7 + [6]])
    table = encode(["conv"], codes, None, B_R)
    assert table.rows[0].entries == ["00000"] * 7 + ["01101"]
    table = encode(["conv"], codes, np.array([[1] * 6 + [3, 6]]), B_R)
    assert table.rows[0].entries == ["00000000"] * 6 + ["00010000", "01100101"]
    assert decode("10111") == (2, 1, 8)
    assert decode("01100101", 3) == (1, 6, 6)
    assert decode("01") == (1, 1, 1)


@given(st.data())
def test_what_was_written_is_read_back(tmp_path_factory, data):
    b_max, layers = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 5))
    batch = np.arange(1, b_max + 1)
    codes = data.draw(arrays(np.int64, (layers, b_max), elements=st.integers(0, 2)))
    series = st.integers(0, 20).map(blocks_of)
    blocks = data.draw(st.one_of(st.none(), arrays(np.int64, (layers, b_max), elements=series)))
    rows = 1 + np.array([[data.draw(st.integers(0, int(b) - 1)) for b in batch] for _ in range(layers)])
    table = encode([f"layer{i}" for i in range(layers)], codes, blocks, rows)
    path = tmp_path_factory.getbasetemp() / "fbcb.json"
    write_table(table, path)
    back = read_table(FbcbTable, path)
    assert back == table
    for expected, found in zip(
        (codes, np.ones_like(rows) if blocks is None else blocks, rows), back.unpack(), strict=True
    ):
        assert np.array_equal(expected, found)
    assert back.register_bits == layers * b_max * entry_bits(b_max, back.block_bits)


@pytest.mark.parametrize(
    ("entries", "bits"),
    [
        (["00", "000"], 3),  # too short
        (["000", "001", "000"], 3),  # too many
        (["000", "110"], 3),  # no such k
        (["001", "000"], 3),  # B_R = 2 for one sample
        (["0000", "0000"], 4),  # wider than the encoding
        (["00a", "000"], 3),
    ],
)
def test_an_impossible_table_is_refused(tmp_path, entries, bits):
    path = tmp_path / "fbcb.json"
    row = FbcbRow.model_construct(layer="conv", entries=entries)
    table = FbcbTable.model_construct(inputs={}, b_max=2, bits=bits, rows=[row])
    write_table(table, path)
    with pytest.raises(InputError, match="expected|match"):
        read_table(FbcbTable, path)
