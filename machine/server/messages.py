"""Messages of the Open Inference Protocol: requests and answers as JSON, with tensors behind it as bytes if asked for.

The binary tensor extension: a header says how long the JSON is; the bytes of the tensors follow in its order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import to_json

from ...traffic.measures import Measure

MAX_ROWS = 128
"""Samples that one request may have."""

MAX_BODY = 2**26
"""Bytes that it may have at most, however large a sample is."""

MAX_TIMEOUT_S = 1e6
"""Longest deadline; the time of the loop keeps its digits."""

NAMES = {
    np.dtype(np.uint8): "UINT8", np.dtype(np.int32): "INT32", np.dtype(np.int64): "INT64",
    np.dtype(np.float16): "FP16", np.dtype(np.float32): "FP32", np.dtype(np.float64): "FP64",
}  # fmt: skip
"""The protocol's names of the types that are served."""

EXIT, CONFIDENCE = "exit", "confidence"
"""Outputs beside the answer: of each sample, the exit that it left by, from 1, and how sure its answer is."""


class Refusal(Exception):
    """A message that is answered with a fault: an HTTP status, and what is wrong."""

    def __init__(self, status: int, fault: str, **headers: str) -> None:
        super().__init__(fault)
        self.status, self.headers = status, headers


Parameters = dict[str, bool | int | float | str]

_FEW: Any = Field(default_factory=dict)


class _Input(BaseModel):
    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters = _FEW
    data: list[Any] | None = None


class _Output(BaseModel):
    name: str
    parameters: Parameters = _FEW


class _Infer(BaseModel):
    id: str = ""
    parameters: Parameters = _FEW
    inputs: list[_Input] = Field(min_length=1)
    outputs: list[_Output] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Model:
    """A network as clients see it: its samples, and its answer, which has the name of the answer at its last exit."""

    name: str
    number: int  # among those that are served
    inputs: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]  # type and shape of a sample
    answer: str
    kind: np.dtype[Any]
    classes: int
    exits: Sequence[str]
    measure: Measure  # of how sure an answer is
    slo_s: float  # of requests that state no timeout
    runtime: str

    @property
    def outputs(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """Type and shape of what it may answer with, for a sample."""
        beside = {EXIT: (np.dtype(np.int64), ()), CONFIDENCE: (np.dtype(np.float64), ())}
        return beside | {self.answer: (self.kind, (self.classes,))}

    @property
    def metadata(self) -> dict[str, object]:
        """What the protocol says of a model."""

        def listed(tensors: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]) -> list[dict[str, object]]:
            return [
                {"name": name, "datatype": NAMES[kind], "shape": [-1, *shape]}
                for name, (kind, shape) in tensors.items()
            ]

        outputs = {self.answer: self.outputs[self.answer]} | self.outputs
        return {
            "name": self.name, "versions": ["1"], "platform": "onnx_exits", "inputs": listed(self.inputs),
            "outputs": listed(outputs), "parameters": {"exits": ",".join(self.exits), "runtime": self.runtime},
        }  # fmt: skip

    @property
    def longest(self) -> int:
        """Bytes that the longest request may have: a number takes at most 32 as text."""
        values = sum(math.prod(shape) for _, shape in self.inputs.values())
        return min(MAX_BODY, 2**16 + 32 * MAX_ROWS * values)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client asks of a model."""

    id: str
    tensors: dict[str, NDArray[Any]]
    rows: int
    timeout_s: float  # infinite if it states none
    outputs: dict[str, bool]  # which, and whether as bytes


def read_request(body: bytes, json_bytes: str | None, model: Model) -> Asked:
    """Read a request for inference; ``json_bytes`` is what the header of the extension says, if it is there."""
    size = len(body)
    if json_bytes is not None:
        if not (json_bytes.isascii() and json_bytes.isdigit() and int(json_bytes[:12]) <= size):
            raise Refusal(400, f"Inference-Header-Content-Length: expected 0 to {size}, found {json_bytes[:20]}")
        size = int(json_bytes[:12])
    try:
        message = _Infer.model_validate_json(body[:size])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Refusal(400, f"request: {f'{where}: ' if where else ''}{first['msg']}") from None
    given = {tensor.name: tensor for tensor in message.inputs}
    if len(given) != len(message.inputs) or given.keys() != model.inputs.keys():
        raise Refusal(400, f"inputs: expected each once of {', '.join(model.inputs)}, found {_brief(list(given))}")
    rest, tensors = memoryview(body)[size:], {}
    for tensor in message.inputs:
        tensors[tensor.name], taken = _values(tensor, rest, *model.inputs[tensor.name])
        rest = rest[taken:]
    if len(rest):
        raise Refusal(400, f"inputs: expected no bytes behind them, found {len(rest)}")
    rows = {len(values) for values in tensors.values()}
    if len(rows) > 1:
        raise Refusal(400, f"inputs: expected as many samples in each, found {sorted(rows)}")
    return Asked(message.id, tensors, rows.pop(), _timeout_s(message.parameters), _outputs(message, model))


def _brief(value: object) -> str:
    return str(value)[:80]


def _values(tensor: _Input, rest: memoryview, kind: np.dtype[Any], shape: tuple[int, ...]) -> tuple[NDArray[Any], int]:
    """The values of an input, and how many of the bytes behind the JSON they take."""
    at = f'input "{tensor.name}": '
    if tensor.datatype != NAMES[kind]:
        raise Refusal(400, f"{at}datatype: expected {NAMES[kind]}, found {_brief(tensor.datatype)}")
    if tensor.shape[1:] != list(shape) or not 1 <= tensor.shape[0] <= MAX_ROWS:
        known = ", ".join(["N", *map(str, shape)])
        raise Refusal(400, f"{at}shape: expected [{known}], N from 1 to {MAX_ROWS}, found {_brief(tensor.shape)}")
    size = tensor.parameters.get("binary_data_size")
    if size is not None:
        whole = math.prod(tensor.shape) * kind.itemsize
        if tensor.data is not None or size != whole or len(rest) < whole:
            raise Refusal(400, f"{at}expected {whole} bytes behind the JSON and no data, found {_brief(size)}")
        values = np.frombuffer(rest[:whole], kind.newbyteorder("<")).astype(kind, copy=False)
    else:
        whole, values = 0, _numbers(tensor, kind, at)
    if not np.isfinite(values).all():
        raise Refusal(400, f"{at}data: expected finite numbers, found another")
    return values.reshape(tensor.shape), whole


def _numbers(tensor: _Input, kind: np.dtype[Any], at: str) -> NDArray[Any]:
    """The values of an input that stand in the JSON, flat or in lists of lists."""
    try:
        values = np.array(tensor.data)
    except ValueError:
        values = np.array(None)
    kinds = "fiu" if kind.kind == "f" else "iu"
    expected = f"{at}data: expected {math.prod(tensor.shape)} values of {tensor.datatype}"
    if values.dtype.kind not in kinds:
        raise Refusal(400, f"{expected}, found values of another type, or lists of different lengths")
    if values.size != math.prod(tensor.shape):
        raise Refusal(400, f"{expected}, found {values.size}")
    with np.errstate(all="ignore"):
        cast = values.astype(kind)
    if kind.kind != "f" and (cast != values).any():
        raise Refusal(400, f"{at}data: expected values of {tensor.datatype}, found one out of its range")
    return cast


def _timeout_s(parameters: Parameters) -> float:
    """The deadline of a request, which the protocol states in microseconds; 0 is none."""
    priority, timeout = parameters.get("priority", 0), parameters.get("timeout", 0)
    if priority != 0:
        raise Refusal(
            400,
            "priority: expected 0 or none, as here networks have priorities, and requests timeouts; state a timeout",
        )
    if isinstance(timeout, str) or not 0 <= timeout <= MAX_TIMEOUT_S * 1e6:
        raise Refusal(400, f"timeout: expected microseconds, 0 to {MAX_TIMEOUT_S * 1e6:g}, found {_brief(timeout)}")
    return timeout / 1e6 if timeout else math.inf


def _outputs(message: _Infer, model: Model) -> dict[str, bool]:
    """The outputs that a request wants, and which of them as bytes; by default the answer."""
    usual = message.parameters.get("binary_data_output", False)
    asked = {output.name: bool(output.parameters.get("binary_data", usual)) for output in message.outputs}
    for output in message.outputs:
        if output.name not in model.outputs or "classification" in output.parameters:
            known = f"expected some of {', '.join(model.outputs)}, as they are"
            raise Refusal(400, f"outputs: {known}, found {_brief(output.model_dump())}")
    return asked or {model.answer: bool(usual)}


def write_answer(
    asked: Asked, model: Model, tensors: Mapping[str, ArrayLike], parameters: Mapping[str, object]
) -> tuple[bytes, dict[str, str]]:
    """The body of an answer, and its headers."""
    outputs: list[dict[str, object]] = []
    raw = []
    for name, as_bytes in asked.outputs.items():
        values = np.ascontiguousarray(tensors[name], model.outputs[name][0])
        output: dict[str, object] = {"name": name, "datatype": NAMES[values.dtype], "shape": list(values.shape)}
        if as_bytes:
            raw.append(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
            output["parameters"] = {"binary_data_size": len(raw[-1])}
        else:
            output["data"] = values.ravel().tolist()
        outputs.append(output)
    known: dict[str, object] = {"id": asked.id} if asked.id else {}
    known |= {"model_name": model.name, "model_version": "1", "parameters": parameters, "outputs": outputs}
    head = to_json(known)
    if not raw:
        return head, {"content-type": "application/json"}
    headers = {"content-type": "application/octet-stream", "inference-header-content-length": str(len(head))}
    return b"".join([head, *raw]), headers
