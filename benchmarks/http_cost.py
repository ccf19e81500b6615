"""What HTTP costs: `fluidb serve` beside `serve-real`, with the same network, policy and samples, in one run.

One at a time: the time from a client's request to its answer, beside the time from arrival to answer in `serve-real`.
Between two requests the client pauses, in both: after a pause a processor is slower.  The client does not sleep, as
`serve-real` does not: what it takes to wake up is not the server's.  At saturation: samples a second,
where requests have several samples each, beside `serve-real`, which has all samples at the start.  The two take turns,
so that drift favours neither.  Each figure is the median over the turns.

    python benchmarks/http_cost.py digits here
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from fluidb.machine.network import RealNetwork
from fluidb.machine.serve import serve_real
from fluidb.serving import Requests
from fluidb.tables.latency import LatencyTable, read_latency
from fluidb.traffic import offline
from fluidb.traffic.clients import Clients
from http_client import Client, arguments, message, middle, server, show_table, taken_by_others
from numpy.typing import NDArray

SLO = "60s"
"""No request is late: costs are compared, not policies."""


def one_by_one(client: Client, requests: list[bytes], count: int, pause_s: float) -> NDArray[np.float64]:
    """The time of each of some requests, one after the other."""
    took_s = []
    for number in range(count):
        until_s = time.perf_counter() + pause_s
        while (begin_s := time.perf_counter()) < until_s:
            pass
        status, _ = client.ask(requests[number % len(requests)])
        took_s.append(time.perf_counter() - begin_s)
        assert status == 200
    return np.array(took_s)


def saturated(address: str, clients: int, request: bytes, size: int, count: int) -> float:
    """Samples a second that several clients get, each with the same number of requests."""
    each = max(1, count // size // clients)

    def work(client: Client) -> None:
        for _ in range(each):
            assert client.ask(request)[0] == 200

    connected = [Client(address) for _ in range(clients)]
    begin_s = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(work, connected))
    took_s = time.perf_counter() - begin_s
    for client in connected:
        client.close()
    return each * size * clients / took_s


def real(
    network: RealNetwork, table: LatencyTable, policy: str, count: int, clients: Clients | None
) -> NDArray[np.float64]:
    """The times of `serve-real`: of each request from its arrival, or of all until their end."""
    done = serve_real(network, table, Requests(trace=offline(count), slo_s=60.0, clients=clients), policy)
    return done.served.replay.latency_s if clients else done.served.replay.finish_s


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = arguments("fluidb serve beside serve-real: what HTTP costs.")
    parser.add_argument("--policy", default="fluid")
    parser.add_argument("--count", type=int, default=200, help="samples of a turn")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--pauses", default="0,5,20", help="ms between an answer and the next request")
    parser.add_argument("--clients", type=int, default=4, help="at saturation")
    parser.add_argument("--size", type=int, default=16, help="samples of a request at saturation")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    given, others = parsed(), taken_by_others()
    network, table = RealNetwork(given.model), read_latency(given.folder)
    assert isinstance(table, LatencyTable)
    ((name, rows),) = network.inputs.items()
    each = [message(network.name, name, rows[row : row + 1]) for row in range(len(rows))]
    many = message(network.name, name, np.resize(rows, (given.size, *rows.shape[1:])))
    pauses_ms = [float(pause) for pause in given.pauses.split(",")]
    alone: list[list[tuple[float, float]]] = [[] for _ in pauses_ms]
    rates = []
    words = ["serve", given.model, str(given.folder), "--slo", SLO, "--policy", given.policy, "--admit", "queue:4096"]
    with server("-m", "fluidb", *words, "--port", "0") as (address, _):
        client = Client(address, polls=True)
        for _ in range(given.turns):
            for pause_ms, medians in zip(pauses_ms, alone, strict=True):
                served_s = one_by_one(client, each, given.count, pause_ms / 1e3)
                real_s = real(network, table, given.policy, given.count, Clients(1, pause_ms / 1e3))
                medians.append((float(np.median(real_s)), float(np.median(served_s))))
            rate = saturated(address, given.clients, many, given.size, given.count)
            rates.append((given.count / float(real(network, table, given.policy, given.count, None).max()), rate))
    text = []
    for pause_ms, medians in zip(pauses_ms, alone, strict=True):
        after = f"after a pause of {pause_ms:g} ms" if pause_ms else "without a pause"
        cells = [middle([1e3 * pair[side] for pair in medians], "{:.2f}") for side in (0, 1)]
        more_ms = statistics.median(1e3 * (served - bare) for bare, served in medians)
        text.append([f"p50 one at a time, {after} (ms)", *cells, f"{more_ms:+.2f}"])
    share = statistics.median(served / bare for bare, served in rates)
    text.append(["samples/s, saturated", *(middle([pair[side] for pair in rates], "{:.0f}") for side in (0, 1)),
                 f"{share:.0%}"])  # fmt: skip
    heads = ["", "serve-real", "serve", "difference"]
    show_table("http_cost", others, heads, text, given.write)


if __name__ == "__main__":
    main()
