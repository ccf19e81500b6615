"""Quantities and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from fluidb.formats import (
    Form,
    InputError,
    Strict,
    Table,
    is_folder,
    is_input,
    parse_bandwidth,
    parse_duration,
    parse_toml,
    read_table,
    read_text,
    read_toml,
    tables,
    write_table,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200ms", 0.2), ("0.2 s", 0.2), (" 1min ", 60.0), ("5us", 5e-6), ("1e3ns", 1e-6), (".5s", 0.5)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize("text", ["0", " 0 ", "0s", "0.0 ms"])
def test_no_time_needs_no_unit_where_it_is_allowed(text):
    assert parse_duration(text, zero=True) == 0
    with pytest.raises(InputError, match="duration: expected a positive number and a unit"):
        parse_duration(text)


@pytest.mark.parametrize("zero", ["0", "0us"])
def test_no_time_is_written_the_same_way_everywhere(fluidb, tmp_path, tiny_design, zero):
    think = ["--clients", 1, "--count", 3, "--slo", "1s", "--think", zero]
    for policy in (f"fluid:call={zero}", f"adaptb:timeout={zero}", f"batchcond:predictor={zero},similar=depth"):
        done = fluidb("serve-sim", tiny_design, *think, "--policy", policy, "--predict-depth", 1)
        assert (done.returncode, done.stderr) == (0, ""), policy
    (tmp_path / "n.toml").write_text(
        f'schema = "fluidb.networks/1"\nduration = "2s"\nnetworks = [{{ name = "a", table = "{tiny_design}", '
        f'slo = "1s", fps = 5, jitter = "{zero}", switch = "{zero}" }}]\n'
    )
    cameras = ["cameras", "--cameras", 1, "--fps", 30, "--jitter", zero, "--count", 5, "-o", "-"]
    for command in (["serve-sim", "n.toml"], ["trace", *cameras]):
        assert fluidb(*command).returncode == 0, command


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("200", "no unit"),
        ("200 parsecs", 'unit "parsecs"'),
        ("ms", "number and a unit"),
        ("-5ms", "positive number"),
        ("0s", "positive number"),
        ("1e999s", "positive number"),
        ("1e300min", "check the unit"),
        ("1e-320ns", "check the unit"),
        ("nan", "positive number"),
        ("1.2.3s", "positive number"),
        ("", "positive number"),
    ],
)
def test_a_duration_that_is_none(text, found):
    with pytest.raises(InputError, match=found):
        parse_duration(text, "--slo")


def test_bandwidths():
    assert parse_bandwidth("4.267GB/s") == 4.267
    assert parse_bandwidth("3200 MB/s") == pytest.approx(3.2)
    with pytest.raises(InputError, match="no unit"):
        parse_bandwidth("3.2")


class Upstream(Table):
    schema_name: ClassVar[str] = "test.upstream/1"
    made_by: ClassVar[str] = "fluidb up"
    value: int


class Numbers(Table):
    schema_name: ClassVar[str] = "test.numbers/1"
    made_by: ClassVar[str] = "fluidb make"
    rows: list[float]
    pairs: list[list[float]] = []


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_a_table_reads_back_bit_for_bit(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "t.json"
    table = Numbers(rows=rows, pairs=[rows, rows])
    write_table(table, path)
    assert read_table(Numbers, path) == table
    assert json.loads(path.read_text())["schema"] == "test.numbers/1"


def test_a_table_that_was_touched_is_damaged(tmp_path):
    path = tmp_path / "t.json"
    write_table(Numbers(rows=[1.5, 2.5]), path)
    good = path.read_text()
    for bad in (
        good.replace("1.5", "1.6"),
        good[:-20],
        good[: len(good) // 2],
        "",
        "[]",
        "{}",
        '{"schema": NaN}',
        good.replace("[]", "[" * 977 + "]" * 977),
        good.replace("[]", "[" * 100_000 + "]" * 100_000),
        "\0",
    ):
        path.write_text(bad)
        with pytest.raises(InputError, match="damaged|expected schema") as caught:
            read_table(Numbers, path)
        assert "make it again with `fluidb make`" in str(caught.value)
        assert len(caught.value.faults) == 1


@given(st.data())
def test_no_flipped_byte_goes_unnoticed(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "t.json"
    table = Numbers(rows=[1.5, 2.5])
    write_table(table, path)
    raw = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, len(raw) - 1))
    raw[where] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    try:
        assert read_table(Numbers, path) == table  # white space, or the same number in other words
    except InputError as error:
        assert len(error.faults) == 1


def test_another_version_is_refused(tmp_path):
    path = tmp_path / "t.json"
    write_table(Upstream(value=1), path)
    with pytest.raises(InputError, match='expected schema "test.numbers/1", found "test.upstream/1"'):
        read_table(Numbers, path)


def test_a_missing_table_says_what_makes_it(tmp_path):
    with pytest.raises(InputError, match="not there; make it with `fluidb make`"):
        read_table(Numbers, tmp_path / "t.json")


def test_a_table_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(tables, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match="/dev/zero: expected at most 0 MiB, found more"):
        read_table(Numbers, Path("/dev/zero"))


def test_a_stale_table_is_refused(tmp_path):
    path = tmp_path / "t.json"
    write_table(Numbers(rows=[]).derived_from(Upstream(value=1)), path)
    assert read_table(Numbers, path, Upstream(value=1)).rows == []
    with pytest.raises(InputError, match="stale"):
        read_table(Numbers, path, Upstream(value=2))


class Item(Strict):
    name: str
    size: int


class Shelf(Strict):
    items: list[Item]


def test_faults_of_a_list_name_the_item(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text('items = [{ name = "a", size = 1 }, { name = "b", size = "2" }, { name = "c" }]')
    with pytest.raises(InputError) as caught:
        read_toml(Shelf, path)
    assert caught.value.faults == (
        f'{path}: items[1] ("b").size: expected a whole number, found "2"',
        f'{path}: items[2] ("c").size: expected this key, found none',
    )


class A(Strict):
    op: Literal["a"] = "a"


class B(Strict):
    op: Literal["b"]


class Short(Strict):
    pair: Annotated[list[int], Field(min_length=2, max_length=2)] = [1, 2]
    text: Annotated[str, Field(min_length=2, max_length=3)] = "ab"
    code: Annotated[str, Form.name("_.", 2).validator] = "a"
    item: Item | None = None
    any: Annotated[A | B, Field(discriminator="op")] = A()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pair": [1, 2, 3]}, "pair: expected at most 2 entries, found 3"),
        ({"pair": []}, "pair: expected at least 2 entries, found 0"),
        ({"text": "abcd"}, 'text: expected at most 3 characters, found "abcd"'),
        ({"text": ""}, 'text: expected at least 2 characters, found ""'),
        (
            {"code": "a b"},
            'code: expected 1 to 2 letters of a to z or A to Z, digits and any of _ ., found "a b"',
        ),
        ({"item": 3}, "item: expected a table of keys, found 3"),
        ({"any": {}}, "any: expected the key op, found none"),
        ({"any": {"op": "c"}}, 'any.op: expected one of a, b, found "c"'),
    ],
)
def test_faults_say_what_was_expected_in_our_words(given: dict[str, Any], said: str):
    with pytest.raises(InputError) as caught:
        Short(**given)
    assert caught.value.faults == (f"Short: {said}",)


def test_a_flood_of_faults_is_counted(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("items = [" + "{ name = 1, size = 1 }," * 50 + "]")
    with pytest.raises(InputError) as caught:
        read_toml(Shelf, path)
    assert len(caught.value.faults) == 50
    assert len(caught.value.first_faults) == 21
    assert str(caught.value).endswith("\nand 30 more faults")


@pytest.mark.parametrize(
    "raw",
    [
        b"items = [",
        b"\xff\xfe",
        b"items = 1\nitems = 2",
        b"a = " + b"[" * 100_000,
        b"\0" * 50,
        b"= 3",
        b"x = 1979-13-45",
        b"x = " + b"9" * 5000,
        b"x." * 2000 + b"x = 1",
    ],
)
def test_what_is_no_toml_is_one_line(tmp_path, raw):
    path = tmp_path / "s.toml"
    path.write_bytes(raw)
    with pytest.raises(InputError) as caught:
        read_toml(Shelf, path)
    assert len(caught.value.faults) <= 2  # what parses misses a key and has a strange one
    assert all(fault.startswith(f"{path}: ") and len(fault) < 300 for fault in caught.value.faults)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xef\xbb\xbfitems = 1\n")
    assert parse_toml(path) == {"items": 1}


def test_a_huge_file_is_refused_unread(tmp_path):
    path = tmp_path / "s.toml"
    with path.open("wb") as stream:
        stream.truncate(17 * 2**20)
    with pytest.raises(InputError, match="at most 16 MiB"):
        read_toml(Shelf, path)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(tmp_path_factory, raw):
    path = tmp_path_factory.getbasetemp() / "s.toml"
    path.write_bytes(raw)
    with pytest.raises(InputError):
        read_toml(Shelf, path)


def test_a_record_called_with_bad_values_raises_what_a_bad_file_raises():
    values: dict[str, Any] = {"items": [{"name": "a", "size": "2"}, {"name": "b"}], "item": []}
    with pytest.raises(InputError) as caught:
        Shelf(**values)
    assert caught.value.faults == (
        'Shelf: items[0] ("a").size: expected a whole number, found "2"',
        'Shelf: items[1] ("b").size: expected this key, found none',
        "Shelf: item: unknown key; did you mean items?",
    )


def test_a_key_of_another_table_is_not_suggested_in_its_own_place():
    values: dict[str, Any] = {"items": [], "size": 2}
    with pytest.raises(InputError) as caught:
        Shelf(**values)
    assert caught.value.faults == (
        "Shelf: size: unknown key in this place; move it to the table that it belongs to, or remove it",
    )


@pytest.mark.parametrize("name", ["9" * 5000, "a\0b"])
def test_a_name_that_no_file_can_have_is_a_fault_of_the_input(name):
    assert not is_input(name)
    assert not is_folder(name)
    with pytest.raises(InputError, match=r"could not be read \((File name too long|embedded null byte)\)"):
        read_text(name)


@given(st.text(max_size=12))
def test_every_text_has_a_plain_name(text: str) -> None:
    form = Form.name("_.", 8)
    name = form.plain(text)
    assert form.check(name) == name
    assert form.plain(name) == name
    assert len(name) == min(max(len(text), 1), 8)
