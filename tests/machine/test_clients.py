"""Triton's client against `fluidb serve`, where it is installed: `.ci/run` installs it with the exporters."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from builders import COMPILED, library
from fluidb.machine.network import RealNetwork
from test_real import network_file
from test_server import answers_alone, served, serving

pytestmark = pytest.mark.skipif(not COMPILED, reason="runs in real time")


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    library("tritonclient.http")
    folder = tmp_path_factory.mktemp("served")
    return RealNetwork(str(network_file(folder)), folder / "in.npz")


@pytest.fixture(scope="module")
def alone(network):
    return answers_alone(network)


@pytest.fixture(scope="module")
def address(network):
    with serving([served(network)], [network]) as running:
        yield f"127.0.0.1:{running.port}"


@pytest.fixture(params=[True, False], ids=["binary", "json"])
def asked(request):
    """What asks for samples, and what reads an answer."""
    http = library("tritonclient.http")

    def inputs(rows):
        given = http.InferInput("x", rows.shape, "FP32")
        given.set_data_from_numpy(rows, binary_data=request.param)
        outputs = [http.InferRequestedOutput(name, binary_data=request.param) for name in ("e3", "exit")]
        return {"model_name": "net", "inputs": [given], "outputs": outputs, "request_id": "7", "timeout": 5_000_000}

    return inputs


def check(answer, expected, exits):
    assert answer.get_response()["id"] == "7"
    np.testing.assert_allclose(answer.as_numpy("e3"), expected, rtol=1e-4, atol=1e-6)
    assert answer.as_numpy("exit").tolist() == exits.tolist()
    assert answer.get_response()["parameters"]["exit"] == exits.max()


def test_triton_s_client_reads_what_the_server_is(address):
    http = library("tritonclient.http")
    client = http.InferenceServerClient(address)
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("net")
    assert not client.is_model_ready("other")
    assert client.get_server_metadata()["name"] == "fluidb"
    assert client.get_model_metadata("net")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 6]}]
    rows = np.zeros((2, 5), np.float32)
    given = http.InferInput("x", rows.shape, "FP32").set_data_from_numpy(rows)
    with pytest.raises(library("tritonclient.utils").InferenceServerException, match=r"\[400\] .* expected \[N, 6\]"):
        client.infer("net", [given])


def test_triton_s_client_gets_the_answers_of_onnx_runtime(address, network, alone, asked):
    http, (expected, exits) = library("tritonclient.http"), alone
    rows = network.inputs["x"]

    def ask(first):
        part = slice(first, first + 3)
        check(http.InferenceServerClient(address).infer(**asked(rows[part])), expected[part], exits[part])
        return len(expected[part])

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(ask, range(0, len(rows), 3))) == len(rows)


def test_triton_s_client_of_asyncio_gets_the_same(address, network, alone, asked):
    aio, (expected, exits) = library("tritonclient.http.aio"), alone
    rows = network.inputs["x"]

    async def ask():
        async with aio.InferenceServerClient(address) as client:
            each = [client.infer(**asked(rows[row : row + 1])) for row in range(len(rows))]
            return await asyncio.gather(*each)

    for row, answer in enumerate(asyncio.run(ask())):
        check(answer, expected[row : row + 1], exits[row : row + 1])
