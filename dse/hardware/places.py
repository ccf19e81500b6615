"""Where a network's weights and maps lie in the NPU's memory (docs/hardware.md, The NPU)."""

from __future__ import annotations

from enum import IntEnum
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from ..integers.layer_jobs import EngineLayer, job_of
from ..integers.network import ConcatLayer, IntegerNetwork, ProductLayer
from ..npu.beats import pitch_of
from .program import additions_of


class End(IntEnum):
    """What follows a layer, in its record."""

    NEXT = 0  # the next layer
    HOST = 1  # the host, which makes the inputs of the next layer
    EXIT = 2  # the scheduler: the last layer of a stage


class Part(NamedTuple):
    """Channels of a layer's inputs that the host writes: a map, or the whole map that the layer reads."""

    name: str
    first: int
    channels: int


class Addend(NamedTuple):
    """A map that the store adds to the outputs of a product; it lies as these do, from an address on."""

    name: str
    at: int  # address of its first sample
    host: tuple[Part, ...]  # what the host writes of it


class Location(NamedTuple):
    """A product or a pool in the memory; addresses in words of 16 bits."""

    map: str  # what it writes: its own map, or the addition that its store does
    # of the first sample's inputs, of the weights, of the first sample's outputs
    x: int
    weights: int
    y: int
    # words from a sample to the next
    x_sample: int
    y_sample: int
    # words from a channel to the next: of its map, and what is behind it so that the next begins a line of the bus
    x_channel: int
    y_channel: int
    joined: bool  # whether its inputs lie where the NPU writes them, or where the host does for all that read them
    host: tuple[Part, ...]  # what the host writes of its inputs, if it did not for a layer before it
    # the constant behind the outputs of each sample, or, if channels reach up to the next sample, in the second half of
    # each channel's words; for the products that read it there, 0 if there is none
    filling: int
    end: End  # what follows it
    residual: Addend | None = None  # what its store adds to its outputs

    @property
    def all_host(self) -> tuple[Part, ...]:
        """What the host writes of all that it reads."""
        return self.host + (self.residual.host if self.residual else ())


def stages_of(network: IntegerNetwork) -> dict[str, int]:
    """The stage that makes each map; 0 if it is there before the first."""
    return {"input": 0} | {layer.name: layer.stage for layer in network.layers}


def begins(network: IntegerNetwork, layer: ConcatLayer) -> list[int]:
    """The first channel of each input of a concatenation."""
    counts = [network.size(name).channels for name in layer.inputs]
    return list(accumulate(counts[:-1], initial=0))


def parts_of(network: IntegerNetwork, name: str, first: int = 0) -> list[Part]:
    """The maps that a map has, in the order of its channels, in concatenations of concatenations too."""
    layer = None if name == "input" else network.layer(name)
    if not isinstance(layer, ConcatLayer):
        return [Part(name, first, network.size(name).channels)]
    inputs = zip(layer.inputs, begins(network, layer), strict=True)
    return [part for source, begin in inputs for part in parts_of(network, source, first + begin)]


class _Home(NamedTuple):
    """Where a map lies, that may be a part of another."""

    name: str  # of the largest map that has it
    first: int  # its first channel there


class _Store(NamedTuple):
    """A map that is part of no other: its address, words to the next sample and channel, and the constant behind.

    ``pitch``: words to the constant behind a channel, if it lies there; else to the next channel.
    """

    at: int
    sample: int
    channel: int
    pitch: int
    filling: int


class _Places:
    """Places of maps, from an address on, as the layers of the engine need them."""

    def __init__(self, network: IntegerNetwork, layers: list[EngineLayer], first: int, b_max: int, beat: int) -> None:
        self.network, self.at, self.b_max, self.beat = network, first, b_max, beat
        self.products = [layer for layer in layers if isinstance(layer, ProductLayer)]
        self.additions = additions_of(network)
        self.results = {self.result(layer.name): layer for layer in layers}
        self.parents: dict[str, _Home] = {}  # the concatenation that has a map, the first of several
        for layer in network.layers:
            if isinstance(layer, ConcatLayer):
                for name, begin, shift in zip(layer.inputs, begins(network, layer), layer.shifts, strict=True):
                    if shift == 0:
                        self.parents.setdefault(name, _Home(layer.name, begin))
        self.alike = self.families()
        self.in_one_row = {self.home(layer.inputs[0]).name for layer in self.products if self.reads_one_row(layer)}
        self.stored: dict[str, _Store] = {}
        self.written: set[_Home] = set()  # by the host

    def result(self, product: str) -> str:
        """The map that a product writes."""
        return self.additions[product].name if product in self.additions else product

    def families(self) -> dict[str, set[str]]:
        """Maps that are part of no other and lie alike, as one is added to the other or to what is added to it."""
        alike: dict[str, set[str]] = {}
        for addition in self.additions.values():
            homes = {self.home(name).name for name in (addition.name, *addition.inputs) if name not in self.additions}
            every = set().union(*(alike.get(name, {name}) for name in homes))
            alike |= dict.fromkeys(every, every)
        return alike

    def take(self, words: int) -> int:
        """The address of this number of words, which are taken; it is a multiple of the words of a beat."""
        begin = self.at
        self.at += -(-words // self.beat) * self.beat
        return begin

    def home(self, name: str) -> _Home:
        """Where a map lies."""
        first = 0
        while name in self.parents:
            name, begin = self.parents[name]
            first += begin
        return _Home(name, first)

    def store(self, name: str) -> _Store:
        """The store of a map that is part of no other; the constants behind it are of the products that read it."""
        if name not in self.stored:
            family = self.alike.get(name, {name})
            by_channel, one_row = all(map(self.by_channel, family)), not family.isdisjoint(self.in_one_row)
            sample = max(self.wanted(one, by_channel, one_row).sample for one in family)
            wanted = self.wanted(name, by_channel, one_row)
            self.stored[name] = wanted._replace(at=self.take(self.b_max * sample), sample=sample)
        return self.stored[name]

    def reads_one_row(self, layer: EngineLayer) -> bool:
        """Whether a product reads all its channels as one row, so that nothing may lie between them."""
        return isinstance(layer, ProductLayer) and self.network.window(layer).along_P

    def pitch(self, name: str, one_row: bool) -> int:
        """Words of a channel of a map, with what is behind it so that the next begins a line of the bus."""
        _, height, width = self.network.size(name)
        return height * width if one_row else int(pitch_of(height * width, self.beat))

    def readers(self, name: str) -> list[ProductLayer]:
        """The products that read a map."""
        return [layer for layer in self.products if layer.inputs[0] == name]

    def by_channel(self, name: str) -> bool:
        """Whether all that read a map want one constant behind each of its channels."""
        _, height, width = self.network.size(name)
        whole, readers = height * width > 1 and len(parts_of(self.network, name)) == 1, self.readers(name)
        return whole and len({layer.constant for layer in readers}) == 1 and all(map(_by_channel, readers))

    def wanted(self, name: str, by_channel: bool, one_row: bool) -> _Store:
        """A store for a map alone, at no address yet."""
        channels, pitch = self.network.size(name).channels, self.pitch(name, one_row)
        filling = max([0, *(layer.constant for layer in self.readers(name) if by_channel or layer.groups == 1)])
        if by_channel:
            return _Store(0, 2 * channels * pitch, 2 * pitch, pitch, filling)
        return _Store(0, channels * pitch + (pitch if filling else 0), pitch, pitch, filling)

    def fits(self, layer: EngineLayer) -> bool:
        """Whether a layer can read its inputs where they are written, without a copy of its own."""
        (source,) = layer.inputs
        home = self.home(source)
        if home.name == source and len(parts_of(self.network, source)) == 1:
            self.store(source)
        if home.name not in self.stored:
            return False
        if not isinstance(layer, ProductLayer):
            return True  # the channels of a pool may lie apart
        store = self.stored[home.name]
        if not layer.constant:
            return store.channel == store.pitch or not self.reads_one_row(layer)
        if store.filling != layer.constant:
            return False
        if store.channel > store.pitch:
            return _by_channel(layer)
        last = home.first + self.network.size(source).channels
        return layer.groups == 1 and last == self.network.size(home.name).channels

    def by_host(self, source: str) -> tuple[Part, ...]:
        """What the host writes of a map in its place: what neither the NPU nor it wrote there before."""
        home, parts = self.home(source), []
        for part in parts_of(self.network, source):
            place = _Home(home.name, home.first + part.first)
            if place not in self.written and (part.name not in self.results or self.home(part.name) != place):
                self.written.add(place)
                parts.append(part)
        return tuple(parts)

    def place(self, layer: EngineLayer) -> Location:
        """The place of the next layer."""
        weights, joined = self.take(job_of(self.network, layer).weights.size), self.fits(layer)
        (source,) = layer.inputs
        if joined:
            home = self.home(source)
            before = self.stored[home.name]
            x, x_sample, x_channel = before.at + home.first * before.channel, before.sample, before.channel
        else:
            pitch = self.pitch(source, self.reads_one_row(layer))
            planes = layer.groups * layer.channels if isinstance(layer, ProductLayer) else layer.shape[0]
            x_sample, x_channel = planes * pitch, 2 * pitch if _by_channel(layer) else pitch
            x = self.take(self.b_max * x_sample)
        result = self.result(layer.name)
        home = self.home(result)
        store = self.store(home.name)
        filling, y = store.filling if home.name == result else 0, store.at + home.first * store.channel
        host = self.by_host(source) if joined else (Part(source, 0, self.network.size(source).channels),)
        residual = self.residual(layer)
        strides = x_sample, store.sample, x_channel, store.channel
        return Location(result, x, weights, y, *strides, joined, host, filling, End.EXIT, residual)

    def residual(self, layer: EngineLayer) -> Addend | None:
        """What the store of a layer adds."""
        if layer.name not in self.additions:
            return None
        (name,) = (name for name in self.additions[layer.name].inputs if name != layer.name)
        home = self.home(name)
        store = self.store(home.name)
        return Addend(name, store.at + home.first * store.channel, self.by_host(name))


def _by_channel(layer: EngineLayer) -> bool:
    """Whether a layer is a product, each channel of its inputs is a group, and a constant is behind it."""
    return isinstance(layer, ProductLayer) and layer.groups > 1 and layer.channels == 1 + bool(layer.constant) > 1


def pitch_of_inputs(place: Location, layer: EngineLayer) -> int:
    """Words from a channel of what a layer reads to the next, channels of constants among them."""
    return place.x_channel // 2 if _by_channel(layer) else place.x_channel


def places_of(
    network: IntegerNetwork, order: list[str], first: int, b_max: int, beat: int
) -> tuple[dict[str, Location], int]:
    """Where layers, in the order in which they run, are from an address on; and the first address behind them.

    ``first`` is a multiple of the words of a ``beat``.
    """
    layers: list[Any] = [network.layer(name) for name in order]
    stages = stages_of(network)
    maps = _Places(network, layers, first, b_max, beat)
    places = {layer.name: maps.place(layer) for layer in layers}
    for layer, after in pairwise(layers):
        if after.stage == layer.stage:
            by_host = any(stages[part.name] == layer.stage for part in places[after.name].all_host)
            places[layer.name] = places[layer.name]._replace(end=End.HOST if by_host else End.NEXT)
    return places, maps.at
