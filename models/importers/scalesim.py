"""Importer of SCALE-Sim's topology files: each row is a convolution or a matrix product (``docs/import.md``).

Source: https://github.com/scalesim-project/SCALE-Sim, ``scalesim/topology_utils.py`` and ``topologies/``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...formats import InputError, read_text
from ..schema import MAX_SIZE
from .imported import ImportedNetwork, checked
from .names import LayerNames
from .read_as import ONE_FILTER, ReadAs

CONV = ("IFMAP Height", "IFMAP Width", "Filter Height", "Filter Width", "Channels", "Num Filter", "Strides")
GEMM = ("M", "N", "K")
_SPARSE = re.compile("[0-9]+ *: *[0-9]+")
_DEPTHWISE = re.compile(r"dw(?![a-z])|dw_?conv|depthwise", re.IGNORECASE)
_ORDINARY = "#conv"
"""Comment behind a row that looks depthwise and is not."""


class _LayerRow(NamedTuple):
    """A layer as its row describes it."""

    label: str  # file, line and name, for faults
    name: str
    values: tuple[int, ...]  # in the order of CONV or GEMM
    rest: list[str]  # further cells
    named: dict[str, int]  # numbers in further cells, by the letters of their heading; 0 where a cell holds none


def _number(cell: str) -> int:
    """The whole number from 1 to ``MAX_SIZE`` that a cell holds, or 0."""
    value = int(cell) if re.fullmatch("[0-9]{1,9}", cell) else 0
    return value if value <= MAX_SIZE else 0


def _cells(path: Path) -> list[tuple[int, list[str]]]:
    """Rows that are not empty, each with its line number."""
    text = read_text(path)
    lines = re.split("\r\n|\r|\n", text)
    rows = [(number, [cell.strip() for cell in line.split(",")]) for number, line in enumerate(lines, 1)]
    return [(number, cells) for number, cells in rows if any(cells)]


def _headings(cells: list[str]) -> list[str]:
    """The letters of each heading, in lower case: tools differ in spaces and signs."""
    return [re.sub("[^a-z]", "", cell.lower()) for cell in cells]


def _columns(path: Path, first: list[str]) -> tuple[tuple[str, ...], bool]:
    """Return the columns of a file, and whether its first row is a header."""
    words = _headings(first)
    if words[1:4] == ["m", "n", "k"]:
        return GEMM, True
    if "ifmap" in "".join(words[1:2]):
        return CONV, True
    if len(first) > len(GEMM) and all(map(_number, first[1:4])):
        filled = sum(map(bool, first[len(GEMM) + 1 : len(CONV) + 1]))
        return (CONV if filled > 2 else GEMM), False  # a product has at most two further cells: sparsity and batch
    header = ",".join(first)[:100]
    raise InputError(
        f'{path}: header: expected "Layer name, {", ".join(CONV)}" or "Layer, {", ".join(GEMM)}", found "{header}"'
    )


def _rows(
    path: Path, lines: list[tuple[int, list[str]]], columns: tuple[str, ...], further: list[str]
) -> list[_LayerRow]:
    """Read the layers' rows and report every fault at once; ``further`` are the headings behind ``columns``."""
    rows, faults = [], []
    for number, cells in lines:
        label = f'{path}: line {number} ("{cells[0][:40]}")'
        texts = [*cells[1:], *[""] * len(columns)][: len(columns)]
        values, rest = tuple(map(_number, texts)), cells[len(columns) + 1 :]
        faults += [
            f'{label}: {key}: expected a whole number from 1 to {MAX_SIZE}, found "{text[:40]}"'
            for key, text, value in zip(columns, texts, values, strict=True)
            if not value
        ]
        rows.append(_LayerRow(label, cells[0], values, rest, dict(zip(further, map(_number, rest), strict=False))))
    if faults:
        raise InputError(faults)
    return rows


def _gemm(row: _LayerRow) -> dict[str, Any]:
    """M x K by K x N. A whole number in the fifth or sixth column is a batch: heads of activations, not samples."""
    M, N, K = row.values
    batch = next(filter(None, map(_number, row.rest[:2])), 1)
    return {"op": "gemm", "rows": M, "inner": K, "columns": N, "groups": batch, "per_sample": batch > 1}


def _depthwise_channels(rows: list[_LayerRow], index: int, one_filter: str | None) -> tuple[int, int]:
    """Return the groups of a depthwise row, and the filters of each group; 0 groups for an ordinary row."""
    row = rows[index]
    channels, filters = row.values[4:6]
    if "DP" in row.name:  # SCALE-Sim's own mark: the row states the filters of each channel
        return channels, filters
    around = {rows[index - 1].values[5]} if index else set()
    around |= {rows[index + 1].values[4]} if index + 1 < len(rows) else set()
    if not _DEPTHWISE.search(" ".join((row.name, *row.rest))):
        return _unmarked(rows, index, around, one_filter), filters
    if channels == filters == 1:  # one channel stands for all of them
        if len(around) != 1:
            raise ValueError(
                "a depthwise row of one channel stands for all channels, and the rows around it state different "
                f"numbers ({', '.join(map(str, sorted(around))) or 'none'}); write the Channels of this row"
            )
        return around.pop(), 1
    if filters > 1 and filters % channels:
        raise ValueError(f"expected a depthwise row of 1 filter, or of a multiple of its {channels} channels")
    return channels, max(1, filters // channels)


def _unmarked(rows: list[_LayerRow], index: int, around: set[int], one_filter: str | None) -> int:
    """Return the groups of a row that nothing marks as depthwise: 0 unless the rows around it show that it must be.

    ``one_filter`` decides where they do not.
    """
    row = rows[index]
    channels, filters = row.values[4:6]
    if filters > 1 or index + 1 == len(rows) or _ORDINARY in row.rest:
        return 0
    wanted, positions = rows[index + 1].values[4], math.prod(_positions(row))
    if channels == 1:  # of one channel that stands for all of them, or of a map that has only one
        return wanted if index and around == {wanted} and wanted > 1 else 0
    if wanted in {1, positions}:  # the one map that it makes, or that map as a vector
        return 0
    if wanted in {channels, channels * positions}:
        return channels
    if one_filter is not None:
        return channels if one_filter == "depthwise" else 0
    raise ValueError(
        f"expected a next row of 1 channel, or of {channels} if this one is depthwise, found one of {wanted}; "
        f"write #dw behind a depthwise row, {_ORDINARY} behind another, or decide for all such rows with "
        f"--one-filter {'|'.join(ONE_FILTER)}"
    )


def _positions(row: _LayerRow) -> list[int]:
    """Rows and columns of the output. The last window may stick out."""
    height, width, filter_height, filter_width, _, _, stride = row.values
    stride_width = row.named.get("stridewidth") or stride  # SCALE-Sim itself writes both
    return [
        math.ceil((height - filter_height + stride) / stride),
        math.ceil((width - filter_width + stride_width) / stride_width),
    ]


def _conv(rows: list[_LayerRow], index: int, one_filter: str | None) -> dict[str, Any]:
    """A convolution as SCALE-Sim computes it. Its input is padded already."""
    row = rows[index]
    height, width, filter_height, filter_width, channels, filters, _ = row.values
    if filter_height > height or filter_width > width:
        raise ValueError(f"filter {filter_height}x{filter_width} does not fit into IFMAP {height}x{width}")
    out = _positions(row)
    if "pool" in row.name.lower() and filters == 1:
        return {"op": "memory", "reads": height * width * channels, "shape": [*out, channels]}
    if max(row.named.get("batch", 0), row.named.get("batchsize", 0)) > 1:
        raise ValueError("expected a batch of 1, found more; fluidb batches samples by itself")
    groups, filters = _depthwise_channels(rows, index, one_filter)
    inner = filter_height * filter_width * (1 if groups else channels)
    groups = groups or 1
    content = {"op": "gemm", "rows": out[0] * out[1], "inner": inner, "columns": filters, "groups": groups}
    return content | {"shape": [*out, groups * filters]}


def read(path: Path, name: str, dims: Mapping[str, int], read_as: ReadAs) -> ImportedNetwork:
    """Read a topology file as a network: its rows in sequence, each as one product."""
    if dims:
        raise InputError(f"dims: {path} is a SCALE-Sim topology, which leaves no dimension open; leave it out")
    if read_as.values or read_as.treat:
        raise InputError(f"values, treat: {path} is a SCALE-Sim topology, which has neither; leave it out")
    lines = _cells(path)
    if not lines:
        raise InputError(f"{path}: expected a SCALE-Sim topology, found an empty file")
    columns, has_header = _columns(path, lines[0][1])
    further = _headings(lines[0][1][len(columns) + 1 :]) if has_header else []
    rows = _rows(path, lines[has_header:], columns, further)
    if not rows:
        raise InputError(f"{path}: expected a layer below the header, found none")
    names, layers, faults = LayerNames(), [], []
    for index, row in enumerate(rows):
        try:
            content = _gemm(row) if columns is GEMM else _conv(rows, index, read_as.one_filter)
        except ValueError as error:
            faults.append(f"{row.label}: {error}")
            continue
        layers.append({"name": names.give(row.name), **content})
    if faults:
        raise InputError(faults)
    first = rows[0].values
    height, width, channels = (first[0], 1, first[2]) if columns is GEMM else (first[0], first[1], first[4])
    content = {
        "schema": "fluidb.network/1",
        "name": name,
        "title": f"{name}, from a SCALE-Sim topology",
        "input": {"height": height, "width": width, "channels": channels},
        "layers": layers,
        "sources": _sources(path, rows, columns, layers),
    }
    names_of = [layer["name"] for layer in layers]
    labels = {made: row.label.removeprefix(f"{path}: ") for made, row in zip(names_of, rows, strict=True)}
    file, _ = checked(content, path, labels)
    return ImportedNetwork(file, names_of[-1])


def _sources(
    path: Path, rows: list[_LayerRow], columns: tuple[str, ...], layers: list[dict[str, Any]]
) -> dict[str, str]:
    """Origin of the figures, and how rows were read."""
    form = "GEMM" if columns is GEMM else "convolution"
    sources = {"layers": f"SCALE-Sim topology {path.name}, {form} form; it has no graph: layers follow one another"}
    if columns is CONV:
        sources["sizes"] = "output is ceil((IFMAP - filter + stride) / stride): padding counts where IFMAP includes it"
    products = "batched products, of activations" if columns is GEMM else "depthwise rows, a product for each channel"
    counted = {
        "groups": (products, sum(layer.get("groups", 1) > 1 for layer in layers)),
        "pooling": ("rows that move data and multiply nothing", sum(layer["op"] == "memory" for layer in layers)),
        "sparsity": (
            "products are dense; rows with N:M left out",
            sum(any(map(_SPARSE.fullmatch, row.rest)) for row in rows),
        ),
    }
    return sources | {key: f"{what}: {count}" for key, (what, count) in counted.items() if count}
