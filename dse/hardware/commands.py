"""Commands for the NPU's testbench: batches that shrink at exits, are preempted and merge, and what must come."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np

from ...formats.array_types import Ints
from ..engine import LAYER_START, PREPARE, RECORD_WORDS, Port
from ..integers import reference
from ..integers.layer_jobs import EngineLayer
from ..integers.network import WORD_TYPE, IntegerNetwork, Integers, ProductLayer
from .memory import PARTS, Image
from .places import End, Part, parts_of, pitch_of_inputs, stages_of
from .program import TimedJob

Rows = Ints


class Command(IntEnum):
    """What the testbench does."""

    WRITE = 0
    EXPECT = 1
    GIVE = 2
    RUN = 3
    ENTRY = 4
    LATER = 5
    RESET = 6
    FAULT = 7


class Strobe(IntFlag):
    """What the testbench gives the NPU for one cycle."""

    UPDATE = 1
    RESTART = 2
    ADVANCE = 4
    START = 8


class NpuFault(IntEnum):
    """What the NPU says about its first fault since reset; docs/hardware.md says what follows."""

    NONE = 0
    UPDATE = 1  # more exits than samples, or more samples than B_max
    STALE = 2  # a record of another layout
    EMPTY = 3  # a start without samples
    PLACES = 4  # the place of the first sample leaves too few behind it
    BUSY = 5  # strobes while a layer runs
    UNASKED = 6  # words that no beat asked for


def cycles_between(port: Port, b_max: int) -> int:
    """Cycles from ``start``, or from the end of a layer, to the first load of the next: its entry, record and job."""
    beats = max(1, PARTS * RECORD_WORDS // int(port.words))
    waiting: int = math.ceil(beats * port.cycles / port.ready) + int(port.latency)
    return LAYER_START + waiting + 2 * b_max.bit_length() + max(PREPARE, int(port.words))


class Script:
    """The commands for a network on a design; ``npu_tb.cpp`` says how they are written.

    Every map is the reference's: the host writes what the NPU does not compute, and expects what it does.
    """

    def __init__(
        self, network: IntegerNetwork, timed: Mapping[str, list[TimedJob]], memory: Image, port: Port, samples: Integers
    ) -> None:
        self.network, self.timed, self.places = network, timed, memory.places
        self.maps, self.samples = reference.run(network, samples), len(samples)
        self.layers: list[Any] = [network.layer(name) for name in timed]
        self.stages = stages_of(network)
        self.numbers = {name: number for number, name in enumerate(timed)}
        head = [port.ready, port.cycles, port.latency, port.turn, 0, cycles_between(port, memory.b_max)]
        self.parts = [np.array(head, "<u4")]

    def add(self, *words: int) -> None:
        """A command by its number and what follows it."""
        self.parts.append(np.array(words, "<u4"))

    def _words(self, command: int, address: int, stride: int, values: Integers) -> None:
        """A map of each sample, ``stride`` words from one to the next."""
        samples = values.astype("<i2").reshape(len(values), -1)
        if stride == samples.shape[1]:
            samples = samples.reshape(1, -1)
        for sample, words in enumerate(samples):
            self.add(command, address + sample * stride, len(words))
            self.parts.append(np.append(words, np.zeros(len(words) % 2, "<i2")).view("<u4"))

    def inputs(self, layer: EngineLayer, rows: Rows) -> Integers:
        """The inputs of a layer by channel, with the constants of a product."""
        maps = self.maps[layer.inputs[0]][rows]
        both = reference.with_constant(layer, maps) if isinstance(layer, ProductLayer) else maps
        return both.reshape(len(rows), -1, *maps.shape[2:])

    def _channels(self, command: int, address: int, strides: tuple[int, int], values: Integers) -> None:
        """Channels of a map of each sample; ``strides``: words from a sample, and from a channel, to the next."""
        sample, pitch = strides
        if pitch == values[0, 0].size:
            self._words(command, address, sample, values)
            return
        for channel in range(values.shape[1]):
            self._words(command, address + channel * pitch, sample, values[:, channel])

    def supply(self, layer: EngineLayer, part: Part, rows: Rows, slot: int) -> None:
        """Write a part of the inputs of a layer for samples; `slot` is the place of the first in the maps."""
        place, values = self.places[layer.name], self.maps[layer.inputs[0]][rows]
        at, strides = place.x + slot * place.x_sample, (place.x_sample, place.x_channel)
        if part.channels == values.shape[1]:
            values, strides = self.inputs(layer, rows), (place.x_sample, pitch_of_inputs(place, layer))
        else:
            values = values[:, part.first : part.first + part.channels]
        self._channels(Command.WRITE, at + part.first * place.x_channel, strides, values)

    def _residual(self, command: int, layer: EngineLayer, part: Part, rows: Rows, slot: int) -> None:
        """A part of the map that the store of a product adds."""
        place = self.places[layer.name]
        assert place.residual is not None
        values = self.maps[place.residual.name][rows][:, part.first : part.first + part.channels]
        at = place.residual.at + slot * place.y_sample + part.first * place.y_channel
        self._channels(command, at, (place.y_sample, place.y_channel), values)

    def hand_over(self, stage: int, rows: Rows, slot: int) -> None:
        """Write what layers after a stage read of it and before it, 0 being the input, where they expect it."""
        for layer in self.layers:
            place, (source,) = self.places[layer.name], layer.inputs
            for part in parts_of(self.network, source) if place.joined else place.host:
                if layer.stage > stage >= self.stages[part.name]:
                    self.supply(layer, part, rows, slot)
            for part in parts_of(self.network, place.residual.name) if place.residual else ():
                if layer.stage > stage >= self.stages[part.name]:
                    self._residual(Command.WRITE, layer, part, rows, slot)

    def stage(self, stage: int, rows: Rows, slot: int, strobes: int, b_exit: int, b_incr: int) -> None:
        """Run a stage for samples, the first at place `slot` of the maps; the host does its part."""
        give, running = (strobes | Strobe.START, b_exit, b_incr, slot), []
        for layer in self.layers:
            if layer.stage != stage:
                continue
            place = self.places[layer.name]
            for part in place.host:
                if self.stages[part.name] == stage:
                    self.supply(layer, part, rows, slot)
            for part in place.residual.host if place.residual else ():
                if self.stages[part.name] == stage:
                    self._residual(Command.WRITE, layer, part, rows, slot)
            running.append(layer)
            if place.end is End.NEXT:
                continue
            self.add(Command.GIVE, *give)
            self.add(Command.RUN, len(running), place.end is End.EXIT)
            for ran in running:
                self.add(self.numbers[ran.name], len(rows), self.timed[ran.name][len(rows) - 1].cycles)
            for ran in running:
                self.expect(ran, rows, slot)
            give, running = (Strobe.ADVANCE | Strobe.START, 0, 0, slot), []

    def expect(self, layer: EngineLayer, rows: Rows, slot: int) -> None:
        """Expect the outputs of a layer, the constants behind them, and all that it reads as it was."""
        place = self.places[layer.name]
        maps = self.maps[place.map][rows]
        values = maps.reshape(*maps.shape[:2], -1)
        channels, R = values.shape[1:]
        behind_sample = place.y_sample - channels * place.y_channel
        between = np.zeros((len(rows), channels, place.y_channel - R), WORD_TYPE)
        if place.filling and not behind_sample:
            between[..., place.y_channel // 2 - R :] = place.filling
        values = np.concatenate([values, between], axis=2).reshape(len(rows), -1)
        if place.filling:
            behind = np.full((len(rows), behind_sample), place.filling, WORD_TYPE)
            values = np.concatenate([values, behind], axis=1)
        self._words(Command.EXPECT, place.y + slot * place.y_sample, place.y_sample, values)
        strides = place.x_sample, pitch_of_inputs(place, layer)
        self._channels(Command.EXPECT, place.x + slot * place.x_sample, strides, self.inputs(layer, rows))
        if place.residual:
            whole = Part(place.residual.name, 0, self.network.size(place.residual.name).channels)
            self._residual(Command.EXPECT, layer, whole, rows, slot)

    def leave(self, stage: int, rows: Rows, slot: int) -> Rows:
        """The less sure half stays; the host moves what later stages read of them together."""
        scores = reference.scores(self.network, self.network.exits[stage - 1], self.maps)[rows]
        stay = np.sort(rows[np.argsort(scores.max(axis=1), kind="stable")[: -(-len(rows) // 2)]])
        self.hand_over(stage, stay, slot)
        return stay

    def content(self) -> bytes:
        """The file."""
        return b"".join(part.tobytes() for part in self.parts)


def preemption(script: Script, late: int) -> list[tuple[int, int]]:
    """A first batch; at its first exit ``late`` more samples overtake those that stay, and join them at that exit.

    The script gets the commands; each stage that runs is returned with its samples.
    """
    exits, runs = len(script.network.exits), []

    def run(stage: int, rows: Rows, slot: int, strobes: int, b_exit: int, b_incr: int) -> Rows:
        runs.append((stage, len(rows)))
        script.stage(stage, rows, slot, strobes | Strobe.UPDATE, b_exit, b_incr)
        return script.leave(stage, rows, slot) if stage < exits else rows[:0]

    rows, new = np.split(np.arange(script.samples), [script.samples - late])
    script.hand_over(0, rows, 0)
    waiting = run(1, rows, 0, Strobe.RESTART, 0, len(rows))
    before = len(rows)
    if late:
        script.hand_over(0, new, len(waiting))
        merged = run(1, new, len(waiting), Strobe.RESTART, len(rows), late)
        gone, joins, rows = late - len(merged), len(waiting), np.concatenate([waiting, merged])
    else:
        gone, joins, rows = before - len(waiting), 0, waiting
    for stage in range(2, exits + 1):
        after = run(stage, rows, 0, Strobe.ADVANCE, gone, joins)
        gone, joins, rows = len(rows) - len(after), 0, after
    return runs
