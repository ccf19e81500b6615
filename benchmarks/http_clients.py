"""Clients that nobody here wrote ask `fluidb serve`: every answer must be what ONNX Runtime says.

curl, MLPerf LoadGen (mlcommons-loadgen), KServe's client (``--kserve`` names a Python that has kserve) and Locust
(``--locust``).  Triton's client is in the tests.  Times are by the clients' own clocks.

    python benchmarks/http_clients.py digits here --kserve python --locust python
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import local
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
SLO = "60s"


class Seen(NamedTuple):
    """What a client got."""

    client: str
    requests: int
    wrong: int
    p50_ms: float
    p99_ms: float


def seen(client: str, wrong: int, took_s: list[float]) -> Seen:
    """What a client got, whose requests took these times."""
    p50_ms, p99_ms = 1e3 * np.quantile(took_s, [0.5, 0.99], method="inverted_cdf")
    return Seen(client, len(took_s), wrong, float(p50_ms), float(p99_ms))


def kserve(address: str, file: str) -> None:
    """Ask by KServe's client, as JSON and with samples as bytes, and print what it got; by a Python that has it."""
    from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig

    known = np.load(file)
    name, model = str(known["name"]), str(known["model"])

    async def ask(binary: bool) -> Seen:
        client, wrong, took_s = InferenceRESTClient(RESTConfig(protocol="v2")), 0, []
        assert await client.is_server_live(f"http://{address}")
        assert await client.is_model_ready(f"http://{address}", model)
        for row in range(len(known["rows"])):
            given = InferInput(name, list(known["rows"][row : row + 1].shape), "FP32")
            given.set_data_from_numpy(known["rows"][row : row + 1], binary_data=binary)
            begin_s = time.perf_counter()
            answer = await client.infer(f"http://{address}", InferRequest(model, [given]), model_name=model)
            took_s.append(time.perf_counter() - begin_s)
            exit_ = answer.parameters["exit"]
            exit_ = getattr(exit_, "int64_param", exit_)
            expected = known["answers"][row, exit_ - 1]
            wrong += not np.allclose(answer.outputs[0].as_numpy().ravel(), expected, rtol=1e-4, atol=1e-5)
        await client.close()
        return seen(f"KServe's client, {'samples as bytes' if binary else 'JSON'}", wrong, took_s)

    print(json.dumps([asyncio.run(ask(binary)) for binary in (False, True)]))


def curl(address: str, model: str, alone: Any, count: int) -> Seen:
    """A process for each request."""
    wrong, took_s = 0, []
    for row in range(count):
        tensor = {"name": alone.name, "shape": alone.rows[:1].shape, "datatype": "FP32",
                  "data": alone.rows[row : row + 1].tolist()}  # fmt: skip
        command = ["curl", "-sS", "-w", "\n%{time_total}", f"http://{address}/v2/models/{model}/infer", "-d", "@-"]
        text = json.dumps({"inputs": [tensor]})
        ran = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        body, _, time_s = ran.stdout.rpartition("\n")
        answer = json.loads(body)
        wrong += not alone.is_right(row, answer["outputs"][0]["data"], answer["parameters"]["exit"])
        took_s.append(float(time_s))
    return seen("curl", wrong, took_s)


def load_generated(address: str, model: str, alone: Any, count: int, rate_per_s: float) -> Seen:
    """LoadGen's scenario Server: Poisson arrivals."""
    from http_client import Client, message
    from loadgen import complete, events_in, run_test

    requests = [message(model, alone.name, row[None], ident="0") for row in alone.rows]
    each, wrong = local(), []

    def ask(index: int) -> None:
        if not hasattr(each, "client"):
            each.client = Client(address)
        status, body = each.client.ask(requests[index])
        size = body.find(b"}]}") + 3
        exit_ = json.loads(body[:size])["parameters"]["exit"] if status == 200 else 0
        if not exit_ or not alone.is_right(index, np.frombuffer(body[size:], np.float32), exit_):
            wrong.append(index)

    def answer(index: int, query: int) -> None:
        ask(index)
        complete(query)

    def issue(queries: list[Any]) -> None:
        for query in queries:
            pool.submit(answer, query.index, query.id)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(64) as pool:
        run_test(issue, "Server", len(alone.rows), count, rate_per_s, Path(folder))
        took_s = [event["args"]["complete_ns"] / 1e9 for event in events_in(Path(folder))]
    return seen("MLPerf LoadGen, Server", len(wrong), took_s)


def locust(address: str, file: str, python: str, seconds: int) -> Seen:
    """Eight clients of Locust."""
    command = [python, "-m", "locust", "-f", str(HERE / "http_locust.py"), "--host", f"http://{address}"]
    command += ["--headless", "--json", "--exit-code-on-error", "0"]
    command += ["-u", "8", "-r", "8", "-t", f"{seconds}s"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"FLUIDB_ALONE": file})
    (stats,) = json.loads(ran.stdout)
    times = [float(ms) / 1e3 for ms, number in stats["response_times"].items() for _ in range(number)]
    return seen("Locust, 8 clients", stats["num_failures"], times)


def kserve_by(python: str, address: str, file: str) -> list[Seen]:
    """KServe's client, by a Python that has it."""
    ran = subprocess.run([python, __file__, "kserve", address, file], capture_output=True, check=True)
    return [Seen(*row) for row in json.loads(ran.stdout)]


@contextmanager
def known_to_others(model: str, alone: Any) -> Iterator[str]:
    """The samples and their answers in a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/alone.npz"
        np.savez(file, rows=alone.rows, answers=alone.answers, name=alone.name, model=model)
        yield file


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == ["kserve"]:
        kserve(*sys.argv[2:])
        return
    from fluidb.machine.network import RealNetwork
    from http_client import Alone, arguments, server, show_table, taken_by_others

    parser = arguments("Clients that nobody here wrote ask fluidb serve.")
    parser.add_argument("--kserve", metavar="PYTHON", help="a Python that has kserve")
    parser.add_argument("--locust", metavar="PYTHON", help="a Python that has Locust")
    parser.add_argument("--count", type=int, default=500, help="requests of LoadGen; a tenth as many of curl")
    parser.add_argument("--rate", type=float, default=60.0, help="requests/s of LoadGen")
    parser.add_argument("--seconds", type=int, default=15, help="of Locust")
    given, others = parser.parse_args(), taken_by_others()
    network = RealNetwork(given.model)
    alone, name = Alone.of(network), network.name
    words = ["serve", given.model, str(given.folder), "--slo", SLO, "--port", "0"]
    with server("-m", "fluidb", *words) as (address, _), known_to_others(name, alone) as file:
        asks: list[Callable[[], list[Seen]]] = [
            lambda: [curl(address, name, alone, given.count // 10)],
            lambda: [load_generated(address, name, alone, given.count, given.rate)],
        ]
        if given.kserve:
            asks.append(lambda: kserve_by(given.kserve, address, file))
        if given.locust:
            asks.append(lambda: [locust(address, file, given.locust, given.seconds)])
        rows = [row for ask in asks for row in ask()]
    cells = [[row.client, f"{row.requests:,}", row.wrong, f"{row.p50_ms:.1f}", f"{row.p99_ms:.1f}"] for row in rows]
    heads = ["client", "requests", "wrong answers", "p50 (ms)", "p99 (ms)"]
    show_table("http_clients", others, heads, cells, given.write)
    raise SystemExit(1 if any(row.wrong for row in rows) else 0)


if __name__ == "__main__":
    main()
