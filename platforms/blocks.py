"""Tables of times of blocks, as searches for networks look them up: Once-for-all's, ProxylessNAS's, and HAT's.

Sources: ``latency_lookup_table.py`` of https://github.com/mit-han-lab/once-for-all, which reads the tables of both
tools; and ``latency_dataset.py`` of https://github.com/mit-han-lab/hardware-aware-transformers.  Times are in
milliseconds, of one sample.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..formats import InputError, read_number, read_text, shown
from ..formats.files import as_csv
from .device import MAX_CELL_S

ONCE_FOR_ALL, PROXYLESS, HAT = "Once-for-all", "ProxylessNAS", "HAT"

Sizes = tuple[int, ...]

_KEY = re.compile(r"(\w+)-input:(\d{1,9}x\d{1,9}x\d{1,9})-output:(\d{1,9}(?:x\d{1,9}x\d{1,9})?)((?:-\w+:\d{1,9})*)")
_LINE = re.compile(r"(\s*)(['\"]?)(.+?)\2:(?:\s+(.*?))?\s*")
_MEAN = re.compile(r"\bmean['\"]?:\s*([^\s,}]+)")
_ENCODER, _DECODER = "latency_mean_encoder", "latency_mean_decoder"


class BlockKey(NamedTuple):
    """What a row is the time of: an inverted residual, or, without channels between, a single layer."""

    source: Sizes
    output: Sizes
    middle: int = 0
    kernel: int = 0
    stride: int = 0
    skips: bool = False
    squeezes: bool = False

    def name(self, tool: str, layer: str) -> str:
        """The name of the row in a table of a tool; ``layer`` begins the name of a single layer's row."""
        ends = f"input:{'x'.join(map(str, self.source))}-output:{'x'.join(map(str, self.output))}"
        if not self.middle:
            return f"{layer}-{ends}"
        wide = self.middle if tool == ONCE_FOR_ALL else self.middle / self.source[2]
        name = f"expanded_conv-{ends}-expand:{wide:g}-kernel:{self.kernel}-stride:{self.stride}-idskip:{self.skips:d}"
        return name + (f"-se:{self.squeezes:d}" if tool == ONCE_FOR_ALL else "")


class BlockTable(NamedTuple):
    """A table with a row for each block."""

    tool: str
    rows: dict[BlockKey, dict[str, float]]  # seconds by the names of rows, which differ in what a network does not say


def block_tool(path: Path) -> str | None:
    """The tool whose table of blocks a file is; ``None`` if it is none."""
    text = read_text(path)
    if _ENCODER in text.partition("\n")[0]:
        return HAT
    if not _KEY.search(text):
        return None
    return ONCE_FOR_ALL if "-se:" in text else PROXYLESS


def read_blocks(path: Path) -> BlockTable:
    """The rows of a table of Once-for-all or ProxylessNAS, in YAML, JSON or CSV."""
    text, tool = read_text(path), block_tool(path)
    assert tool in {ONCE_FOR_ALL, PROXYLESS}  # the caller asked
    rows: dict[BlockKey, dict[str, float]] = {}
    faults: list[str] = []
    for where, name, time in _entries(text, path):
        key = _key(name, tool)
        if key is None:
            faults.append(
                f"{where}: expected the name of a block, such as Conv-input:160x160x3-output:80x80x24, "
                f"found {shown(name)}"
            )
            continue
        try:
            seconds = read_number(time) / 1e3
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= MAX_CELL_S:
            faults.append(f"{where}: mean: expected milliseconds above 0, found {shown(time)}")
        elif name in rows.setdefault(key, {}):
            faults.append(f"{where}: expected one row {name}, found a second")
        else:
            rows[key][name] = seconds
    if faults:
        raise InputError(faults)
    return BlockTable(tool, rows)


def _key(name: str, tool: str) -> BlockKey | None:
    match = _KEY.fullmatch(name)
    if not match:
        return None
    kind, source, output, rest = match.groups()
    before, after = (tuple(map(int, text.split("x"))) for text in (source, output))
    maps = before, (after if len(after) == 3 else (1, 1, *after))
    more = dict(part.split(":") for part in rest.split("-")[1:])
    if kind != "expanded_conv":
        return BlockKey(*maps)
    if not {"expand", "kernel", "stride", "idskip"} <= more.keys():
        return None
    number = {key: int(value) for key, value in more.items()}
    middle = number["expand"] * (1 if tool == ONCE_FOR_ALL else before[2])
    if not middle:
        return None
    return BlockKey(*maps, middle, number["kernel"], number["stride"], number["idskip"] > 0, number.get("se", 0) > 0)


def _entries(text: str, path: Path) -> Iterator[tuple[str, str, str]]:
    """Where each row stands, its name, and its mean time as it is written."""
    if text.lstrip().startswith("{"):
        yield from _json_entries(text, path)
    elif "," in text.partition("\n")[0] and "input:" not in text.partition("\n")[0]:
        yield from _csv_entries(text, path)
    else:
        yield from _yaml_entries(text, path)


def _json_entries(text: str, path: Path) -> Iterator[tuple[str, str, str]]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected JSON, found none ({str(error)[:80]})") from None
    for name, row in content.items():
        yield f"{path}: {name[:200]}", name, str(row.get("mean", "") if isinstance(row, dict) else row)


def _csv_entries(text: str, path: Path) -> Iterator[tuple[str, str, str]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    with as_csv(path, reader):
        header = [*(reader.fieldnames or [])]
        if "mean" not in header[1:]:
            raise InputError(f"{path}: line 1: expected the name of a block, then a column mean, found {shown(header)}")
        for row in reader:
            yield f"{path}: line {reader.line_num}", row[header[0]] or "", row["mean"] or ""


def _yaml_entries(text: str, path: Path) -> Iterator[tuple[str, str, str]]:
    """The rows of YAML as these tools write it: a name, and below it mean, count and std, each on a line."""
    name, where, time = "", "", ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#") or line.strip() == "---":
            continue
        match = _LINE.fullmatch(line)
        if not match or (match[1] and not name):
            raise InputError(
                f"{path}: line {number}: expected the name of a block and a colon, or mean: MILLISECONDS below it, "
                f"found {shown(line)}"
            )
        if match[1]:
            time = (match[4] or "") if match[3] == "mean" else time
            continue
        if name:
            yield where, name, time
        name, where, value = match[3], f"{path}: line {number}", match[4] or ""
        flow = _MEAN.search(value)
        time = flow[1] if flow else value
    if name:
        yield where, name, time


def hat_times(path: Path) -> list[float]:
    """Seconds of the encoder and the decoder, or of the encoder alone, of the one row of HAT's table."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    with as_csv(path, reader):
        header, rows = [*(reader.fieldnames or [])], [*reader]
    if len(rows) != 1:
        raise InputError(
            f"{path}: expected one row, found {len(rows)}, each of a transformer of its own; keep the header and the "
            "row of yours"
        )
    seconds, faults = [], []
    for column in [name for name in (_ENCODER, _DECODER) if name in header]:
        try:
            seconds.append(read_number(rows[0][column] or "") / 1e3)
        except ValueError:
            seconds.append(0.0)
        if not 0 < seconds[-1] <= MAX_CELL_S:
            faults.append(f"{path}: line 2: {column}: expected milliseconds above 0, found {shown(rows[0][column])}")
    if faults:
        raise InputError(faults)
    return seconds
