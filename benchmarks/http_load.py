"""How late answers come over load: `fluidb serve` under several policies, beside a plain server without exits.

The plain server is what one writes without fluidb: an ASGI handler around ONNX Runtime, which runs the whole network
for each request, one after the other.  All get the same samples at the same times from the same client, which sends on
without waiting for answers; a time counts from when a request was due to be sent.  Each takes several turns, and where
these differ by more than a limit the machine is too noisy for a verdict.

    python benchmarks/http_load.py digits here --loads 0.3,0.7,1.5
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import onnxruntime
import uvicorn
from fluidb.machine.network import RealNetwork
from fluidb.machine.serve import read_measured
from fluidb.tables.latency import LatencyTable
from fluidb.traffic import poisson
from http_cost import Client, server
from numpy.typing import NDArray
from tabulate import tabulate

PLAIN, POLICIES = "plain", ("serial", "adaptb:timeout=M", "fluid", "pame:timeout=M")
CLIENTS, NOISE = 64, 0.25


def serve_plain(path: str) -> None:
    """Answer each request with the whole network."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (given,), turn = session.get_inputs(), asyncio.Lock()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        size = int(dict(scope["headers"])[b"inference-header-content-length"])
        values = np.frombuffer(body[size:], np.float32).reshape(-1, *given.shape[1:])
        async with turn:
            answers = await asyncio.to_thread(session.run, None, {given.name: values})
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answers[-1].tobytes()})

    listening = socket.create_server(("127.0.0.1", 0))
    sys.stderr.write(f"serving at http://127.0.0.1:{listening.getsockname()[1]}/v2 plainly\n")
    config = uvicorn.Config(app, http="h11", ws="none", lifespan="off", log_level="error", log_config=None)
    uvicorn.Server(config).run([listening])


def turn(address: str, network: RealNetwork, due_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """The time of each request from when it was due to be sent to its answer; infinite without one."""
    ((name, rows),) = network.inputs.items()
    clients: SimpleQueue[Client] = SimpleQueue()
    for _ in range(CLIENTS):
        clients.put(Client(address, network.name))
    begin_s = time.perf_counter() + 0.1

    def ask(number: int) -> float:
        client = clients.get()
        row = number % len(rows)
        status = client.ask(name, rows[row : row + 1])
        clients.put(client)
        return time.perf_counter() - begin_s - float(due_s[number]) if status == 200 else np.inf

    with ThreadPoolExecutor(CLIENTS) as pool:
        asked = []
        for number, at_s in enumerate(due_s.tolist()):
            time.sleep(max(0.0, begin_s + at_s - time.perf_counter()))
            asked.append(pool.submit(ask, number))
        return np.array([each.result() for each in asked])


def figures(turns: list[NDArray[np.float64]], slo_s: float) -> list[str]:
    """The cells of a row: medians over the turns, or that these differ too much."""
    p99_s = [float(np.quantile(took_s, 0.99, method="inverted_cdf")) for took_s in turns]
    in_time = statistics.median(float((took_s <= slo_s).mean()) for took_s in turns)
    median_s = statistics.median(p99_s)
    noisy = np.isfinite(median_s) and max(p99_s) - min(p99_s) > NOISE * median_s
    says = "no answer" if median_s == np.inf else f"{1e3 * median_s:.1f}" + (" (too noisy)" if noisy else "")
    return [f"{1e3 * statistics.median(np.median(took_s) for took_s in turns):.1f}", says, f"{in_time:.1%}"]


def main() -> None:
    """Print the table."""
    if sys.argv[1:2] == [PLAIN]:
        serve_plain(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description="p99 over load: fluidb serve beside a plain ASGI handler.")
    parser.add_argument("model", help="an ONNX file, or digits, which ships")
    parser.add_argument("folder", type=Path, help="a folder that `fluidb measure` wrote")
    parser.add_argument("--loads", default="0.3,0.7,1.5", help="shares of what the whole network serves one by one")
    parser.add_argument("--policy", action="append", help="repeatable; serial, adaptb, fluid and pame if not given")
    parser.add_argument("--count", type=int, default=500, help="requests of a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--slo", default="20", help="deadline, in times of the whole network alone")
    given = parser.parse_args()
    network, table = RealNetwork(given.model), read_measured(given.folder)
    assert isinstance(table, LatencyTable)
    alone_s = float(table.array()[0, -1, 1])
    slo_s, rows = float(given.slo) * alone_s, []
    fluidb = ["-m", "fluidb", "serve", given.model, str(given.folder), "--slo", f"{slo_s}s", "--port", "0"]
    named = {PLAIN: [__file__, PLAIN, str(network.path)]}
    named |= {policy: [*fluidb, "--policy", policy] for policy in given.policy or POLICIES}
    for name, words in named.items():
        with server(*words) as address:
            for load in map(float, given.loads.split(",")):
                arrivals = [poisson(load / alone_s, given.count, seed).arrival_s for seed in range(given.turns)]
                rows.append([name, f"{load:g}", *figures([turn(address, network, due_s) for due_s in arrivals], slo_s)])
    heads = ["server", "load", "p50 (ms)", "p99 (ms)", f"within {1e3 * slo_s:.0f} ms"]
    print(tabulate(rows, heads, disable_numparse=True))


if __name__ == "__main__":
    main()
