"""How late answers come over load: `fluidb serve` under several policies, beside plain servers without exits.

Plain servers run the whole network in ONNX Runtime for each request, one after the other: an ASGI handler, and
LitServe if ``--litserve`` names a Python that has it.  All get the same samples at the same times from the same client,
which sends on without waiting for answers; a time counts from when a request was due to be sent.  Beside each stands
what `serve-sim` says of these requests from the measured table, which knows nothing of HTTP.  Every server takes
several turns; where these differ too much, or other programs run, the machine is too noisy for a verdict.

    python benchmarks/http_load.py digits here --loads 0.3,0.7,1.5 --litserve python
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fluidb.machine.network import RealNetwork
from fluidb.serving import Requests, ServedNetwork, simulate
from fluidb.serving.device_traffic import prepare_requests
from fluidb.tables.latency import LatencyTable, read_latency
from fluidb.traffic import Trace, poisson
from http_client import Client, arguments, message, middle, server, show_table, taken_by_others
from numpy.typing import NDArray

POLICIES = ("serial", "adaptb:timeout=M", "fluid", "pame:timeout=M")
CLIENTS = 64
PLAIN, LITSERVE = (Path(__file__).parent / f"http_{name}.py" for name in ("plain", "litserve"))


class Contender(NamedTuple):
    """A server, what it is asked, and the policy by which the simulator serves."""

    name: str
    words: Sequence[str]
    asked: Callable[[NDArray[np.float32]], bytes]
    policy: str
    exits: bool  # whether samples leave at them
    python: str = sys.executable


class Clients:
    """Connections that are free, and new ones for who finds none."""

    def __init__(self, address: str) -> None:
        self.address, self.free = address, list[Client]()

    def ask(self, request: bytes) -> int:
        """Ask on one of them."""
        try:
            client = self.free.pop()
        except IndexError:
            client = Client(self.address)
        status, _ = client.ask(request)
        self.free.append(client)
        return status


def turn(address: str, requests: Sequence[bytes], due_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """The time of each request from when it was due to be sent to its answer; infinite without one."""
    clients, begin_s = Clients(address), time.perf_counter() + 0.1

    def ask(number: int) -> float:
        status = clients.ask(requests[number % len(requests)])
        return time.perf_counter() - begin_s - float(due_s[number]) if status == 200 else np.inf

    with ThreadPoolExecutor(CLIENTS) as pool:
        asked = []
        for number, at_s in enumerate(due_s.tolist()):
            time.sleep(max(0.0, begin_s + at_s - time.perf_counter()))
            asked.append(pool.submit(ask, number))
        took_s = np.array([each.result() for each in asked])
    for client in clients.free:
        client.close()
    return took_s


def simulated_s(
    contender: Contender, network: RealNetwork, table: LatencyTable, slo_s: float, due_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The times of these requests in the simulator; infinite without an answer."""
    drawn, rows = network.samples(), np.arange(len(due_s)) % len(network)
    last = np.full(len(due_s), len(table.exits))
    trace = Trace(
        np.arange(len(due_s)), due_s, None if contender.exits else last, drawn.confidences[rows], measure=drawn.measure
    )
    served = [ServedNetwork(table=table)]
    replay = simulate(served, prepare_requests(served, Requests(trace=trace, slo_s=slo_s), trace), contender.policy)
    return np.where(np.isfinite(replay.finish_s), replay.finish_s - due_s, np.inf)


def p99_ms(took_s: NDArray[np.float64]) -> float:
    """The 99th percentile of all requests, those without an answer too."""
    return 1e3 * float(np.quantile(took_s, 0.99, method="inverted_cdf"))


def row_of(turns: list[NDArray[np.float64]], expected: list[NDArray[np.float64]], slo_s: float) -> list[str]:
    """Medians over the turns: p50, p99 and what the simulator said of it, and the share in time."""
    p50 = middle([1e3 * float(np.median(took_s)) for took_s in turns], "{:.1f}")
    p99 = middle([p99_ms(took_s) for took_s in turns], "{:.1f}")
    said = statistics.median(p99_ms(took_s) for took_s in expected)
    in_time = statistics.median(float((took_s <= slo_s).mean()) for took_s in turns)
    return [p50, p99.replace("inf", "no answer"), f"{said:.1f}".replace("inf", "no answer"), f"{in_time:.1%}"]


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = arguments("p99 over load: fluidb serve beside plain servers.")
    parser.add_argument("--loads", default="0.3,0.7,1.5", help="shares of what the whole network serves one by one")
    parser.add_argument("--policy", action="append", help="repeatable; serial, adaptb, fluid and pame if not given")
    parser.add_argument("--litserve", metavar="PYTHON", help="a Python that has LitServe and ONNX Runtime")
    parser.add_argument("--count", type=int, default=500, help="requests of a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--slo", default="20", help="deadline, in times of the whole network alone")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    given, others = parsed(), taken_by_others()
    network, table = RealNetwork(given.model), read_latency(given.folder)
    assert isinstance(table, LatencyTable)
    alone_s, rows = float(table.array()[0, -1, 1]), []
    slo_s, ((name, samples),) = float(given.slo) * alone_s, network.inputs.items()
    fluidb = ["-m", "fluidb", "serve", given.model, str(given.folder), "--slo", f"{slo_s}s", "--port", "0"]

    def as_bytes(sample: NDArray[np.float32]) -> bytes:
        return message(network.name, name, sample)

    def as_json(sample: NDArray[np.float32]) -> bytes:
        body = json.dumps({"data": sample.tolist()}).encode()
        lines = ["POST /predict HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
        return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body

    contenders = [Contender("ASGI handler", [str(PLAIN), str(network.path)], as_bytes, "serial", False)]
    if given.litserve:
        words = [str(LITSERVE), str(network.path)]
        contenders.append(Contender("LitServe", words, as_json, "serial", False, given.litserve))
    contenders += [
        Contender(f"fluidb, {policy}", [*fluidb, "--policy", policy], as_bytes, policy, True)
        for policy in given.policy or POLICIES
    ]
    for contender in contenders:
        requests = [contender.asked(samples[row : row + 1]) for row in range(len(samples))]
        with server(*contender.words, python=contender.python) as (address, _):
            turn(address, requests, np.linspace(0.0, 40 * alone_s, 20))  # the first requests are slow everywhere
            for load in map(float, given.loads.split(",")):
                arrivals = [poisson(load / alone_s, given.count, seed).arrival_s for seed in range(given.turns)]
                expected = [simulated_s(contender, network, table, slo_s, due_s) for due_s in arrivals]
                took_s = [turn(address, requests, due_s) for due_s in arrivals]
                rows.append([contender.name, f"{load:g}", *row_of(took_s, expected, slo_s)])
    heads = ["server", "load", "p50 (ms)", "p99 (ms)", "serve-sim said (ms)", f"within {1e3 * slo_s:.0f} ms"]
    show_table("http_load", others, heads, rows, given.write)


if __name__ == "__main__":
    main()
