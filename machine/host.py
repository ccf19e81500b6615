"""How long this machine takes to read a request of one sample, and to write its answer, as `fluidb serve` does."""

from __future__ import annotations

import json
import time
from typing import NamedTuple

import numpy as np

from ..formats import InputError
from ..formats.array_types import Floats
from .network import RealNetwork
from .server.messages import NAMES, Model, read_request, write_answer

MESSAGES = 20
"""Messages of a round."""


class HostRounds(NamedTuple):
    """Mean times of messages in each of R rounds."""

    read_s: Floats  # (R,)
    write_s: Floats


def measure_host(network: RealNetwork, rounds: int, random: np.random.Generator) -> HostRounds:
    """Read and write messages of single samples, whose tensors come and go as bytes."""
    model = _model(network)
    rows = random.integers(len(network), size=(rounds, MESSAGES))
    times_s = np.array([[_message_s(network, model, int(row)) for row in some] for some in rows])
    return HostRounds(*times_s.mean(axis=1).T)


def _model(network: RealNetwork) -> Model:
    """The network as clients see it."""
    inputs = {name: (values.dtype, values.shape[1:]) for name, values in network.inputs.items()}
    answers = network.answers[-1]
    unknown = [kind for kind in (answers.dtype, *(kind for kind, _ in inputs.values())) if kind not in NAMES]
    if unknown:
        known = ", ".join(NAMES.values())
        raise InputError(f"{network.path}: expected tensors of {known}, found {unknown[0]}; measure without --host")
    return Model(
        network.name, 0, inputs, network.exits[-1], answers.dtype, answers.shape[1], network.exits,
        network.measure, 1.0, network.runtime,
    )  # fmt: skip


def _message_s(network: RealNetwork, model: Model, row: int) -> tuple[float, float]:
    """Time to read the request of a sample, and to write the answer to it."""
    body, head_bytes = _request(network, row)
    begin_s = time.perf_counter()
    asked = read_request(body, head_bytes, model)
    read_s = time.perf_counter() - begin_s
    answer = {model.answer: network.answers[-1][row : row + 1]}
    begin_s = time.perf_counter()
    write_answer(asked, model, answer, {})
    return read_s, time.perf_counter() - begin_s


def _request(network: RealNetwork, row: int) -> tuple[bytes, str]:
    """The body of a request for a sample, and how long its JSON is."""
    inputs, raw = [], []
    for name, values in network.inputs.items():
        sample = np.ascontiguousarray(values[row : row + 1])
        raw.append(sample.astype(sample.dtype.newbyteorder("<"), copy=False).tobytes())
        size = {"binary_data_size": len(raw[-1])}
        inputs.append({"name": name, "shape": list(sample.shape), "datatype": NAMES[sample.dtype], "parameters": size})
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    return b"".join([head, *raw]), str(len(head))
