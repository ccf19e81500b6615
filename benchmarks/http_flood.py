"""Nothing is lost, whatever clients do: `fluidb serve` under loads below and above its capacity, and under abuse.

Requests are sent at their times, whether or not others have their answers, on as many connections as that takes.  Every
answer must belong to its request and be what ONNX Runtime says; what became of each sample must be counted once by the
client, on the page of metrics and in the record.  Then clients are killed in flight, leave bodies half sent, and send
damaged bodies, until the time is over; the memory of the server is read every second.

    python benchmarks/http_flood.py digits here --count 100000
"""

from __future__ import annotations

import argparse
import json
import random
import re
import selectors
import shutil
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from fluidb.machine.network import RealNetwork
from fluidb.traffic import poisson
from http_client import Alone, arguments, message, page_of, server, show, taken_by_others
from numpy.typing import NDArray

LOADS = (0.3, 0.7, 1.5)
CONNECTIONS = 480
STATUS = {429: "refused", 504: "dropped"}
HEAD = re.compile(rb"HTTP/1\.1 (\d+) .*?\r\n(?:.*\r\n)*?content-length: (\d+)\r\n", re.IGNORECASE)
GROWTH = 1.1
"""By how much the memory may grow from its first minute."""


class Flood:
    """Requests on their way, by the sockets on which they were sent."""

    def __init__(self, address: str, alone: Alone, model: str) -> None:
        host, port = address.split(":")
        self.address, self.alone, self.model = (host, int(port)), alone, model
        self.selector, self.free = selectors.DefaultSelector(), list[socket.socket]()
        self.sent: dict[socket.socket, tuple[int, bytearray]] = {}
        self.seen: Counter[str] = Counter()

    def send(self, number: int) -> None:
        """Send a request."""
        client = self.free.pop() if self.free else self._connect()
        row = self.alone.rows[number % len(self.alone.rows)][None]
        client.sendall(message(self.model, self.alone.name, row, ident=str(number)))
        self.sent[client] = number, bytearray()

    def _connect(self) -> socket.socket:
        client = socket.create_connection(self.address)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.selector.register(client, selectors.EVENT_READ)
        return client

    def read(self, until_s: float) -> None:
        """Read what comes until a time, or once."""
        for key, _ in self.selector.select(max(0.0, until_s - time.perf_counter())):
            client = key.fileobj
            assert isinstance(client, socket.socket)
            piece = client.recv(2**16)
            if client not in self.sent:
                self.seen["answered twice" if piece else "closed"] += 1
                self._forget(client)
                continue
            number, data = self.sent[client]
            data += piece
            head = HEAD.match(data)
            end = data.find(b"\r\n\r\n") + 4
            if not piece:
                self.seen["lost"] += 1
                self._forget(client)
            elif head and len(data) >= end + int(head[2]):
                del self.sent[client]
                self.free.append(client)
                self.seen[self._outcome(number, int(head[1]), bytes(data[end:]))] += 1

    def _forget(self, client: socket.socket) -> None:
        self.sent.pop(client, None)
        self.free = [other for other in self.free if other is not client]
        self.selector.unregister(client)
        client.close()

    def _outcome(self, number: int, status: int, body: bytes) -> str:
        """What became of a request, if its answer is right."""
        if status != 200:
            return STATUS.get(status, f"status {status}")
        size = body.index(b"}]}") + 3
        answer = json.loads(body[:size])
        scores, exit_ = np.frombuffer(body[size:], np.float32), answer["parameters"]["exit"]
        if answer["id"] != str(number) or not self.alone.is_right(number, scores, exit_):
            return "wrong"
        return "in_time" if answer["parameters"]["in_time"] else "late"

    def run(self, due_s: NDArray[np.float64], most: int = CONNECTIONS) -> float:
        """Send requests at their times, but no more than may be open, and wait for all answers; the time it took."""
        begin_s, number = time.perf_counter(), 0
        while number < len(due_s) or self.sent:
            now_s = time.perf_counter() - begin_s
            while number < len(due_s) and due_s[number] <= now_s and (self.free or len(self.sent) < most):
                self.send(number)
                number += 1
            self.read(begin_s + float(due_s[number]) if number < len(due_s) else time.perf_counter() + 1.0)
        took_s = time.perf_counter() - begin_s
        self.read(time.perf_counter() + 0.2)  # a second answer would come now
        return took_s


def on_page(address: str) -> Counter[str]:
    """Samples by outcome, as the page of metrics has them."""
    samples: Counter[str] = Counter()
    page = page_of(address, "/metrics")
    for outcome, value in re.findall(r'^fluidb_samples_total\{.*outcome="(\w+)".*\} (\S+)$', page, re.MULTILINE):
        samples[outcome] += int(float(value))
    return samples


def in_record(folder: Path) -> tuple[Counter[str], int]:
    """Samples by outcome, as the record has them; and how many have not exactly one."""
    with (folder / "trace.csv").open() as file:
        came = Counter(line.split(",", 1)[0] for line in file)
    with (folder / "outcomes.csv").open() as file:
        rows = [line.split(",", 2)[:2] for line in file]
    left = Counter(row[0] for row in rows)
    return Counter(row[1] for row in rows[1:]), sum(left[number] != 1 for number in came) + (came.keys() != left.keys())


def abuse(address: str, good: bytes, draws: random.Random, count: int) -> Counter[int]:
    """Send damaged bodies, with clients that leave; the statuses."""
    head, _, body = good.partition(b"\r\n\r\n")
    lines, statuses = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")], Counter[int]()
    host, port = address.split(":")
    for number in range(count):
        raw = bytearray(body[: draws.choice([len(body), len(body), draws.randrange(len(body))])])
        for _ in range(draws.choice([1, 3, 9])):
            raw[draws.randrange(len(raw)) if raw else 0 : 0] = bytes([draws.randrange(256)])
        sent = b"\r\n".join([*lines, b"Content-Length: %d" % len(raw), b"", b""]) + bytes(raw)
        with socket.create_connection((host, int(port)), timeout=60.0) as client:
            if number % 20 == 1:  # killed in flight
                client.sendall(good)
            elif number % 20 == 2:  # a body that is half sent
                client.sendall(good[: -len(body) // 2])
            else:
                client.sendall(sent)
                statuses[int(client.recv(2**16)[9:12])] += 1
    return statuses


class Memory:
    """The memory of a process, read every second."""

    def __init__(self, process: int) -> None:
        self.path, self.mb, self.stop = Path(f"/proc/{process}/status"), list[float](), threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        while not self.stop.wait(1.0):
            resident = re.search(r"VmRSS:\s+(\d+)", self.path.read_text())
            assert resident
            self.mb.append(int(resident[1]) / 1024)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = arguments("Nothing is lost, whatever clients of fluidb serve do.")
    parser.add_argument("--inputs", type=Path, help="samples, for a network that does not ship")
    parser.add_argument("--policy", default="fluid")
    parser.add_argument("--slo", default="50ms")
    parser.add_argument("--count", type=int, default=100_000, help="requests of each load")
    parser.add_argument("--trial", type=int, default=4000, help="requests by which the capacity is measured")
    parser.add_argument("--hostile", type=int, default=10_000, help="damaged bodies")
    parser.add_argument("--minutes", type=float, default=10.0, help="damage goes on until then")
    return parser.parse_args()


def loads(flood: Flood, address: str, folder: Path, per_s: float, count: int, tell: Callable[[str, str], None]) -> bool:
    """Send requests at each load, and compare who counted what; whether all agree."""
    holds, before = True, on_page(address)
    for load in LOADS:
        flood.seen.clear()
        flood.run(poisson(load * per_s, count, int(10 * load)).arrival_s)
        after, client = on_page(address), Counter(flood.seen)
        client.pop("closed", None)
        page, before = after - before, after
        (record, twice) = in_record(folder)
        good = client == page and record == after and not twice and client.total() == count
        holds = holds and good
        outcomes = ", ".join(f"{number:,} {name}" for name, number in sorted(client.items()))
        tell(f"{load:g} of capacity", f"{count:,} requests: {outcomes}: " + ("each counted once by client, metrics and "
             "record" if good else f"metrics {dict(page)}, record {dict(record)}, {twice} not once"))  # fmt: skip
    return holds


def main() -> None:
    """Print the verdict."""
    given, others = parsed(), taken_by_others()
    network, rows, begin_s = RealNetwork(given.model, given.inputs), [], time.perf_counter()
    alone = Alone.of(network)
    folder = Path(tempfile.mkdtemp()) / "kept"

    def tell(what: str, text: str) -> None:
        rows.append(f"- {what}: {text}")
        print(rows[-1], flush=True)

    words = ["serve", given.model, str(given.folder), "--slo", given.slo, "--policy", given.policy, "--record"]
    words += [str(folder), *(["--inputs", str(given.inputs)] if given.inputs else [])]
    with server("-m", "fluidb", *words, "--port", "0") as (address, process):
        memory = Memory(process.pid)
        flood = Flood(address, alone, network.name)
        per_s = given.trial / flood.run(np.zeros(given.trial), most=64)
        tell("capacity", f"{per_s:.0f} requests/s")
        holds = loads(flood, address, folder, per_s, given.count, tell)
        good = message(network.name, alone.name, alone.rows[:1])
        draws, statuses = random.Random(1), Counter[int]()
        while statuses.total() < given.hostile or time.perf_counter() - begin_s < 60 * given.minutes:
            statuses += abuse(address, good, draws, 1000)
        clean = {status // 100 for status in statuses} <= {2, 4}
        tell("damaged bodies", ", ".join(f"{number:,} with status {each}" for each, number in sorted(statuses.items())))
        lasting = time.perf_counter() - begin_s
        memory.stop.set()
        first, most = max(memory.mb[:60]), max(memory.mb)
        tell("memory", f"{first:.0f} MB at most in the first minute, {most:.0f} MB in {lasting / 60:.0f} minutes")
        process.terminate()
        said, code = process.communicate()[1], process.returncode
    record, twice = in_record(folder)
    tell("the end", f"exit code {code}, {len(said.splitlines())} lines of faults, {record.total():,} samples in "
         f"the record, {twice} of them not with one outcome")  # fmt: skip
    shutil.rmtree(folder.parent)
    holds = holds and clean and most <= GROWTH * first and code == 0 and not said and not twice
    tell("verdict", "holds" if holds else "does not hold")
    show("http_flood", others, "\n".join(rows), given.write)
    raise SystemExit(0 if holds else 1)


if __name__ == "__main__":
    main()
