"""The file of a network of integers."""

from __future__ import annotations

import io
import json
import math
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ...formats import AnyPath, InputError, Strict, open_arrays, validate
from ..engine import SUM_BITS, WORD_BITS
from .network import (
    WORD_TYPE,
    AddLayer,
    BoundedLayer,
    ConcatLayer,
    Exponent,
    IntegerExit,
    IntegerLayer,
    IntegerNetwork,
    Map,
    ProductLayer,
    WindowedLayer,
)
from .reference import largest_sum

INTEGER_FILE = "integer.npz"
SCHEMA: Literal["fluidb.integer/2"] = "fluidb.integer/2"
HEADER = "network"
"""The array that holds the layers, as bytes of JSON."""

MAX_BYTES = 2**30
"""Most bytes of an array that is read."""


class _Header(Strict):
    """The layers, as they are in the file."""

    schema_: Literal["fluidb.integer/2"] = Field(SCHEMA, alias="schema")
    name: str
    shape: Map  # of a sample
    exponent: Exponent  # of samples
    layers: Annotated[list[IntegerLayer], Field(min_length=1)]
    exits: Annotated[list[IntegerExit], Field(min_length=1)]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        shapes, stage = {"input": self.shape}, 1
        for layer in self.layers:
            for name in layer.inputs:
                if name not in shapes:
                    raise ValueError(f'layers ("{layer.name}"): expected earlier layers as inputs, found "{name}"')
            many = len(layer.shifts) if isinstance(layer, ConcatLayer) else 1 + isinstance(layer, AddLayer)
            if len(layer.inputs) != many:
                raise ValueError(f'layers ("{layer.name}"): expected {many} inputs')
            if layer.name in shapes:
                raise ValueError(f'layers ("{layer.name}"): expected a new name')
            if not stage <= layer.stage <= len(self.exits):
                raise ValueError(f'layers ("{layer.name}"): expected stages 1 to {len(self.exits)} in order')
            if isinstance(layer, BoundedLayer) and layer.low > layer.high:
                raise ValueError(
                    f'layers ("{layer.name}"): expected low up to high, found {layer.low} and {layer.high}'
                )
            fault = _misfit(layer, [shapes[name] for name in layer.inputs])
            if fault:
                raise ValueError(f'layers ("{layer.name}"): {fault}')
            shapes[layer.name], stage = layer.shape, layer.stage
        for exit_ in self.exits:
            if shapes.get(exit_.layer, (0, 0))[1:] != (1, 1):
                raise ValueError(f'exits ("{exit_.name}"): expected a layer with a row of scores')
        return self


def _misfit(layer: IntegerLayer, sources: list[Map]) -> str:
    """What is wrong with the sizes of a layer; "" if nothing is."""
    channels, shape = sources[0][0], layer.shape
    if isinstance(layer, ProductLayer):
        wanted = (layer.channels - bool(layer.constant)) * layer.groups
        fits = channels == wanted and shape[0] % layer.groups == 0
    elif isinstance(layer, WindowedLayer):
        fits = channels == shape[0]
    elif isinstance(layer, ConcatLayer):
        fits = all(source == (source[0], *shape[1:]) for source in sources)
        fits = fits and shape[0] == sum(source[0] for source in sources)
    elif layer.op == "flatten":
        fits = tuple(shape) == (math.prod(sources[0]), 1, 1)
    else:
        fits = all(source == shape for source in sources)
    return "" if fits else f"an output of {'x'.join(map(str, shape))} does not fit its inputs"


def content(network: IntegerNetwork) -> bytes:
    """The file of a network: ``network``, its layers as JSON, and the weights of each product by its name."""
    header = _Header(**{name: getattr(network, name) for name in ("name", "shape", "exponent", "layers", "exits")})
    text = json.dumps(header.model_dump(by_alias=True, mode="json"), separators=(",", ":"))
    arrays: dict[str, Any] = {HEADER: np.frombuffer(text.encode(), np.uint8)}
    arrays |= {f"weights:{name}": values for name, values in network.weights.items()}
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def read_integer(path: AnyPath) -> IntegerNetwork:
    """Read the network that ``fluidb quantise`` wrote."""
    with open_arrays(
        path, "expected a quantised network, found no such file; make it with `fluidb quantise`"
    ) as arrays:
        sizes = {name: arrays.header(name) for name in arrays.names}
        if HEADER not in sizes:
            raise InputError(f"{path}: expected a quantised network, found no array {HEADER}")
        for name, (shape, kind) in sizes.items():
            if math.prod(shape) * kind.itemsize > MAX_BYTES:
                raise InputError(f"{path}: {name}: expected at most {MAX_BYTES:,} bytes, found more")
        held = {name: arrays.read(name) for name in arrays.names}
    try:
        raw = json.loads(held.pop(HEADER).astype(np.uint8).tobytes())
    except ValueError:
        raise InputError(f"{path}: {HEADER}: expected JSON, found other bytes") from None
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        schema = raw.get("schema") if isinstance(raw, dict) else None
        raise InputError(f'{path}: schema: expected {SCHEMA}, found "{schema}"; make it again with `fluidb quantise`')
    header = validate(_Header, raw, path)
    weights, faults = {}, []
    for layer in header.layers:
        if not isinstance(layer, ProductLayer):
            continue
        wanted = layer.groups, layer.channels * math.prod(layer.kernel), layer.shape[0] // layer.groups
        values = held.pop(f"weights:{layer.name}", None)
        if values is None or values.shape != wanted or values.dtype != WORD_TYPE:
            sizes_ = " x ".join(map(str, wanted))
            faults.append(f"{path}: weights:{layer.name}: expected {sizes_} integers of {WORD_BITS} bits, found others")
        elif largest_sum(values) >= 2 ** (SUM_BITS - 1):
            faults.append(f"{path}: weights:{layer.name}: expected sums of at most {SUM_BITS} bits, found larger ones")
        else:
            weights[layer.name] = values
    faults += [f"{path}: {name}: expected the weights of a product, found an unknown array" for name in held]
    if faults:
        raise InputError(faults)
    return IntegerNetwork(header.name, header.shape, header.exponent, header.layers, header.exits, weights)
