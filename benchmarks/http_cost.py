"""What HTTP costs: `fluidb serve` beside `serve-real`, with the same network, policy and samples, in one run.

One at a time: the median from a client's request to its answer, beside that from arrival to answer of `serve-real`.
At saturation: samples a second, where requests have several samples each, beside those of `serve-real`, which has all
of them at the start.  The two take turns, so that drift favours neither.

    python benchmarks/http_cost.py digits here
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from fluidb.machine.network import RealNetwork
from fluidb.machine.serve import read_measured, serve_real
from fluidb.serving import Requests
from fluidb.tables.latency import LatencyTable
from fluidb.traffic import offline
from fluidb.traffic.clients import Clients
from numpy.typing import NDArray
from tabulate import tabulate

SLO = "60s"
"""No request is late: costs are compared, not policies."""


@contextmanager
def server(*words: str) -> Iterator[str]:
    """The address of a server, which it prints once it is ready."""
    with subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        if " at http://" not in line:
            raise SystemExit(line + process.stderr.read())
        try:
            yield urlsplit(line.partition(" at ")[2].split()[0]).netloc
        finally:
            process.terminate()


class Client:
    """A connection that is kept, on which samples are sent as bytes."""

    def __init__(self, address: str, model: str) -> None:
        self.connection, self.path = http.client.HTTPConnection(address), f"/v2/models/{model}/infer"

    def ask(self, name: str, rows: NDArray[np.float32]) -> int:
        """Send samples and read their answers; the status."""
        tensor = {
            "name": name,
            "shape": rows.shape,
            "datatype": "FP32",
            "parameters": {"binary_data_size": rows.nbytes},
        }
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        self.connection.request("POST", self.path, head + rows.tobytes(), headers)
        answer = self.connection.getresponse()
        answer.read()
        return answer.status


def one_by_one(client: Client, name: str, rows: NDArray[np.float32], count: int) -> list[float]:
    """The time of each of some requests, one after the other."""
    took_s = []
    for number in range(count):
        row = number % len(rows)
        begin_s = time.perf_counter()
        assert client.ask(name, rows[row : row + 1]) == 200
        took_s.append(time.perf_counter() - begin_s)
    return took_s


def saturated(clients: list[Client], name: str, rows: NDArray[np.float32], size: int, count: int) -> float:
    """Samples a second that several clients get, each with the same number of requests."""
    parts = np.resize(rows, (size, *rows.shape[1:]))
    each = max(1, count // size // len(clients))

    def work(client: Client) -> None:
        for _ in range(each):
            assert client.ask(name, parts) == 200

    begin_s = time.perf_counter()
    with ThreadPoolExecutor(len(clients)) as pool:
        list(pool.map(work, clients))
    return each * size * len(clients) / (time.perf_counter() - begin_s)


def real(
    network: RealNetwork, table: LatencyTable, policy: str, count: int, clients: int | None
) -> NDArray[np.float64]:
    """The times of `serve-real`: of each request from its arrival, or of all until their end."""
    sent = None if clients is None else Clients(clients)
    done = serve_real(network, table, Requests(trace=offline(count), slo_s=60.0, clients=sent), policy)
    return done.served.replay.latency_s if clients else done.served.replay.finish_s


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="fluidb serve beside serve-real: what HTTP costs.")
    parser.add_argument("model", help="an ONNX file, or digits, which ships")
    parser.add_argument("folder", type=Path, help="a folder that `fluidb measure` wrote")
    parser.add_argument("--policy", default="fluid")
    parser.add_argument("--count", type=int, default=200, help="samples of a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--clients", type=int, default=4, help="at saturation")
    parser.add_argument("--size", type=int, default=16, help="samples of a request at saturation")
    given = parser.parse_args()
    network, table = RealNetwork(given.model), read_measured(given.folder)
    assert isinstance(table, LatencyTable)
    ((name, rows),) = network.inputs.items()
    alone, alone_real, rate, rate_real = [], [], [], []
    words = ["serve", given.model, str(given.folder), "--slo", SLO, "--policy", given.policy, "--admit", "queue:4096"]
    with server("-m", "fluidb", *words, "--port", "0") as address:
        clients = [Client(address, network.name) for _ in range(given.clients)]
        for _ in range(given.turns):
            alone += one_by_one(clients[0], name, rows, given.count)
            alone_real += real(network, table, given.policy, given.count, 1).tolist()
            rate.append(saturated(clients, name, rows, given.size, given.count))
            rate_real.append(given.count / float(real(network, table, given.policy, given.count, None).max()))
    text = []
    for percentile in (10, 50):
        ours, http_too = (1e3 * float(np.percentile(times, percentile)) for times in (alone_real, alone))
        text.append([f"p{percentile}, one at a time (ms)", f"{ours:.2f}", f"{http_too:.2f}", f"{http_too - ours:+.2f}"])
    rates = [statistics.median(found) for found in (rate_real, rate)]
    text.append(["samples/s, saturated", *(f"{value:.0f}" for value in rates), f"{rates[1] / rates[0]:.0%}"])
    print(tabulate(text, ["", "serve-real", "serve", "difference"], disable_numparse=True))


if __name__ == "__main__":
    main()
