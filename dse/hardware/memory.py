"""A quantised network in the NPU's memory: records of its layers, weights and maps (docs/hardware.md, The NPU)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...formats import InputError
from ..engine import BLOCKS_BITS, NUMBER_BITS, RECORD_WORDS, ROWS_BITS, WORD_BITS
from ..integers.layer_jobs import engine_layers, job_of
from ..integers.network import WORD_TYPE, IntegerNetwork, Integers, ProductLayer
from ..npu.fbcb import K_BITS, FbcbTable
from . import jobs
from .places import Location, Part, pitch_of_inputs, places_of
from .program import TimedJob

MAX_WORDS = 2**NUMBER_BITS
"""Words that an address reaches."""

PARTS = NUMBER_BITS // WORD_BITS
"""Words that hold a number, the lowest first."""

SCHEMA = "fluidb.memory/2"


class Image(NamedTuple):
    """The NPU's memory before the first batch: from address 0 on ``b_max`` records of each layer, weights, maps."""

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


def memory_of(network: IntegerNetwork, timed: Mapping[str, list[TimedJob]], fbcb: FbcbTable, words: int) -> Image:
    """The memory of a network on a design, given its jobs (:func:`.program.jobs_of`) and the words of a beat."""
    size = max(PARTS * RECORD_WORDS, words)
    first = len(timed) * fbcb.b_max * size
    places, end = places_of(network, list(timed), first, fbcb.b_max, words)
    if end > MAX_WORDS:
        raise InputError(
            f"{network.name}: expected at most {MAX_WORDS:,} words of records, weights and maps, found {end:,}"
        )
    memory = np.zeros(end, WORD_TYPE)
    records = memory[:first].reshape(len(timed), fbcb.b_max, size)
    products = {layer.name: layer for layer in engine_layers(network)}
    for layer, (name, row), entries in zip(records, timed.items(), fbcb.rows, strict=True):
        place, product = places[name], products[name]
        weights = job_of(network, product).weights.ravel()
        pitch = pitch_of_inputs(place, product)
        strides = {"x_channel": pitch} | {key: getattr(place, key) for key in ("x_sample", "y_sample", "y_channel")}
        for words_, one, entry in zip(layer, row, entries.entries, strict=True):
            job = one.job._replace(**strides)
            if job.addition and place.residual:
                job = job._replace(addition=job.addition._replace(distance=place.residual.at - place.y))
            numbers = record(job, words, place, entry, fbcb.block_bits)
            words_[: PARTS * RECORD_WORDS] = np.array(numbers, "<u4").view("<i2")
        memory[place.weights : place.weights + len(weights)] = weights
        if isinstance(product, ProductLayer) and product.constant:
            groups, channels = product.groups, product.channels
            for sample in range(fbcb.b_max):
                inputs = memory[place.x + sample * place.x_sample :][: groups * channels * pitch]
                inputs.reshape(groups, channels, pitch)[:, -1] = product.constant
    return Image(memory, places, fbcb.b_max)


def map_text(network: IntegerNetwork, memory: Image) -> str:
    """Where software finds what, ``fluidb.memory/2`` (docs/file-formats.md)."""

    def host(parts: tuple[Part, ...]) -> dict[str, Any]:
        return {"host": [part._asdict() for part in parts]}

    rows = [
        {
            "name": name,
            "stage": network.layer(name).stage,
            **place._asdict(),
            **host(place.host),
            "end": place.end.name.lower(),
            "residual": place.residual and place.residual._asdict() | host(place.residual.host),
        }
        for name, place in memory.places.items()
    ]
    products = ",\n  ".join(json.dumps(row) for row in rows)
    head = f'"schema": "{SCHEMA}",\n "network": {json.dumps(network.name)},\n "b_max": {memory.b_max}'
    return f'{{\n {head},\n "words": {len(memory.words)},\n "products": [\n  {products}\n ]\n}}\n'
