"""A quantised network in the NPU's memory: records of its layers, weights and maps (docs/hardware.md, The NPU)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...formats import InputError
from ..engine import BLOCKS_BITS, NUMBER_BITS, RECORD_WORDS, ROWS_BITS, WORD_BITS
from ..integers.network import WORD_TYPE, IntegerNetwork, Integers, ProductLayer
from ..npu.fbcb import K_BITS, FbcbTable
from . import jobs
from .program import TimedJob

MAX_WORDS = 2**NUMBER_BITS
"""Words that an address reaches."""

PARTS = NUMBER_BITS // WORD_BITS
"""Words that hold a number, the lowest first."""

SCHEMA = "fluidb.memory/1"


class End(IntEnum):
    """What follows a layer, in its record."""

    NEXT = 0  # the next layer
    HOST = 1  # the host, which makes the inputs of the next layer
    EXIT = 2  # the scheduler: the last layer of a stage


class Location(NamedTuple):
    """A product in the memory; addresses in words of 16 bits.

    Attributes
    ----------
    x, weights, y : int
        Of the first sample's inputs, of the weights, of the first sample's outputs.
    x_sample, y_sample : int
        Words from a sample to the next.
    joined : bool
        Whether its inputs lie where another product writes them.
    filling : int
        The constant behind the outputs of each sample, for the product that reads them there; 0 if there is none.
    end : End
        What follows it.
    """

    x: int
    weights: int
    y: int
    x_sample: int
    y_sample: int
    joined: bool
    filling: int
    end: End


class Image(NamedTuple):
    """The NPU's memory before the first batch: from address 0 on ``b_max`` records of each product, weights, maps."""

    words: Integers
    places: dict[str, Location]
    b_max: int

    def content(self) -> bytes:
        """The file, the lowest byte of each word first."""
        return self.words.astype("<i2").tobytes()


def record(job: jobs.Job, words: int, place: Location, entry: str, block_bits: int) -> list[int]:
    """A record: of a job what no layout decides alone, and the entry of the control block that it belongs to."""
    kept = jobs.descriptor(job, words, place.x, place.weights, place.y)
    fields = dict(zip(jobs.FIELDS, kept, strict=True))
    low = K_BITS + block_bits
    code, blocks, last = int(entry[:K_BITS], 2), int(entry[K_BITS:low] or "0", 2), int(entry[low:] or "0", 2)
    numbers = [*reversed(kept[len(jobs.LAYOUT_FIELDS) :]), fields["y_base"], fields["x_base"]]
    numbers += [(code << BLOCKS_BITS | blocks) << ROWS_BITS | last + 1, int(place.end)]
    return numbers + [0] * (RECORD_WORDS - len(numbers))


def places_of(network: IntegerNetwork, order: list[str], first: int, b_max: int) -> tuple[dict[str, Location], int]:
    """Where products, in the order in which they run, are from an address on; and the first address behind them."""
    products: list[Any] = [network.layer(name) for name in order]
    # a product reads what another wrote where it lies, if both agree on what is behind the channels of a sample
    readers = {layer.inputs[0]: layer.constant for layer in reversed(products) if layer.groups == 1}
    places: dict[str, Location] = {}
    at = first
    for layer in products:
        (source,), weights = layer.inputs, at
        at += network.weights[layer.name].size
        x_sample, before = layer.groups * network.window(layer).words, places.get(source)
        joined = before is not None and (before.y_sample, before.filling) == (x_sample, layer.constant)
        x = before.y if before and joined else at
        at += 0 if joined else b_max * x_sample
        filling = readers.get(layer.name, 0)
        y, y_sample = at, (layer.shape[0] + bool(filling)) * layer.shape[1] * layer.shape[2]
        at += b_max * y_sample
        places[layer.name] = Location(x, weights, y, x_sample, y_sample, joined, filling, End.EXIT)
    for layer, after in pairwise(products):
        if after.stage == layer.stage:
            end = End.HOST if written_by_host(network, after, places[after.name]) else End.NEXT
            places[layer.name] = places[layer.name]._replace(end=end)
    return places, at


def written_by_host(network: IntegerNetwork, layer: ProductLayer, place: Location) -> bool:
    """Whether the host writes a product's inputs within its stage: inputs from earlier stages are there already."""
    stages = {earlier.name: earlier.stage for earlier in network.layers}
    return not place.joined and stages.get(layer.inputs[0]) == layer.stage


def memory_of(network: IntegerNetwork, timed: Mapping[str, list[TimedJob]], fbcb: FbcbTable, words: int) -> Image:
    """The memory of a network on a design.

    Parameters
    ----------
    network : IntegerNetwork
        The network.
    timed : mapping of str to list of TimedJob
        Its jobs on the design, :func:`fluidb.dse.hardware.program.jobs_of`.
    fbcb : FbcbTable
        The design's control block.
    words : int
        Words of a beat of the port.

    Returns
    -------
    Image
        Records, weights and maps.
    """
    size = max(PARTS * RECORD_WORDS, words)
    first = len(timed) * fbcb.b_max * size
    places, end = places_of(network, list(timed), first, fbcb.b_max)
    if end > MAX_WORDS:
        raise InputError(
            f"{network.name}: expected at most {MAX_WORDS:,} words of records, weights and maps, found {end:,}"
        )
    memory = np.zeros(end, WORD_TYPE)
    records = memory[:first].reshape(len(timed), fbcb.b_max, size)
    for layer, (name, row), entries in zip(records, timed.items(), fbcb.rows, strict=True):
        place, shape, weights = places[name], network.layer(name).shape, network.weights[name].ravel()
        gap = place.y_sample - shape[0] * shape[1] * shape[2]
        for words_, one, entry in zip(layer, row, entries.entries, strict=True):
            numbers = record(one.job._replace(gap=gap), words, place, entry, fbcb.block_bits)
            words_[: PARTS * RECORD_WORDS] = np.array(numbers, "<u4").view("<i2")
        memory[place.weights : place.weights + len(weights)] = weights
        maps = memory[place.y : place.y + fbcb.b_max * place.y_sample].reshape(fbcb.b_max, -1)
        maps[:, place.y_sample - gap :] = place.filling
    return Image(memory, places, fbcb.b_max)


def map_text(network: IntegerNetwork, memory: Image) -> str:
    """Where software finds what, ``fluidb.memory/1`` (docs/file-formats.md)."""
    rows = [
        {"name": name, "stage": network.layer(name).stage, **place._asdict(), "end": place.end.name.lower()}
        for name, place in memory.places.items()
    ]
    products = ",\n  ".join(json.dumps(row) for row in rows)
    head = f'"schema": "{SCHEMA}",\n "network": {json.dumps(network.name)},\n "b_max": {memory.b_max}'
    return f'{{\n {head},\n "words": {len(memory.words)},\n "products": [\n  {products}\n ]\n}}\n'
