"""What the benchmarks of `fluidb serve` share: a server in a process of its own, a client, and what they ran on.

The client is a bare socket: what a library of clients takes for a request is not the server's.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
import onnxruntime
from fluidb.machine.network import RealNetwork
from fluidb.traffic.exits import decide, levels
from numpy.typing import NDArray
from pages import write_part
from tabulate import tabulate

from tables import machine

PAGE = Path(__file__).parent.parent / "docs" / "serve.md"
NOISE = 0.25
"""Of a median: by how much turns may differ; beyond it the machine is too noisy for a verdict."""

BUSY = 0.1
"""Share of the processor that other programs may take before the first turn."""

LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


@contextmanager
def server(*words: str, python: str = sys.executable) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address and the process of a server, which prints a line once it is ready."""
    with subprocess.Popen([python, *words], stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        if " at http://" not in line:
            raise SystemExit(line + process.stderr.read())
        try:
            yield urlsplit(line.partition(" at ")[2].split()[0]).netloc, process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)  # with the workers that it has started


def message(model: str, name: str, rows: NDArray[np.float32], ident: str = "") -> bytes:
    """A request with samples as bytes; with a name of its own, for the exit of each sample beside its answer."""
    tensor = {"name": name, "shape": rows.shape, "datatype": "FP32", "parameters": {"binary_data_size": rows.nbytes}}
    asked = {"inputs": [tensor], "parameters": {"binary_data_output": True}} | ({"id": ident} if ident else {})
    head = json.dumps(asked).encode()
    lines = [f"POST /v2/models/{model}/infer HTTP/1.1", "Host: localhost", f"Content-Length: {len(head) + rows.nbytes}",
             f"Inference-Header-Content-Length: {len(head)}"]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode() + head + rows.tobytes()


class Alone(NamedTuple):
    """The samples of a network, and what ONNX Runtime says to each, by the whole network as it is."""

    name: str  # of the input
    rows: NDArray[np.float32]
    answers: NDArray[np.float32]  # (N, E, classes)
    exits: NDArray[np.int64]  # (N,): the exit that its thresholds choose, from 1

    @classmethod
    def of(cls, network: RealNetwork) -> Alone:
        """Ask for each sample by itself."""
        ((name, rows),) = network.inputs.items()
        session = onnxruntime.InferenceSession(str(network.path), providers=["CPUExecutionProvider"])
        each = [session.run(list(network.exits), {name: rows[row : row + 1]}) for row in range(len(rows))]
        drawn, last = network.samples(), len(network.exits)
        exits = decide(drawn.confidences, levels(network.thresholds, last, drawn.measure), last)
        return cls(name, rows, np.stack([np.concatenate(answers) for answers in each]), exits)

    def is_right(self, number: int, scores: NDArray[np.float32], exit_: int) -> bool:
        """Whether an answer to a sample is right; rounding may move one that is near a threshold to another exit."""
        expected = self.answers[number % len(self.rows), exit_ - 1]
        return bool(np.allclose(scores, expected, rtol=1e-4, atol=1e-5))


class Client:
    """A connection that is kept; a client that ``polls`` does not sleep until its answer is there."""

    def __init__(self, address: str, *, polls: bool = False) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60.0)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if polls:
            self.socket.setblocking(False)

    def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and read its answer: status and body."""
        self.socket.sendall(request)
        data = bytearray()
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._read()
        length = LENGTH.search(data, 0, end + 2)
        assert length, "an answer states its length"
        while len(data) < end + 4 + int(length[1]):
            data += self._read()
        assert len(data) == end + 4 + int(length[1]), "one answer for a request"
        return int(data[9:12]), bytes(data[end + 4 :])

    def _read(self) -> bytes:
        while True:
            try:
                piece = self.socket.recv(2**16)
            except BlockingIOError:
                continue
            if not piece:
                raise ConnectionError("the server has closed the connection")
            return piece

    def close(self) -> None:
        """Leave."""
        self.socket.close()


def page_of(address: str, path: str) -> str:
    """A page of a server."""
    client = Client(address)
    status, body = client.ask(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    client.close()
    assert status == 200, path
    return body.decode()


def taken_by_others() -> float:
    """The share of the processor that other programs take, over a second."""

    def ticks() -> tuple[int, int]:
        user, nice, system, idle, waits, *_ = map(int, Path("/proc/stat").read_text().split()[1:9])
        return user + nice + system, user + nice + system + idle + waits

    busy, whole = ticks()
    time.sleep(1.0)
    busy_now, whole_now = ticks()
    return (busy_now - busy) / max(1, whole_now - whole)


def ran_on(others: float) -> str:
    """The day, the machine, and whether it was quiet."""
    here = machine()
    rank = ", at real-time priority" if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR) else ""
    quiet = "" if others <= BUSY else " **Too busy for a verdict on times.**"
    return (
        f"{dt.datetime.now(dt.UTC):%d %B %Y}, {here['cores']} cores of {here['cpu']}{rank}.{quiet} Before, "
        f"other programs took {others:.0%} of the processor."
    )


def middle(values: Sequence[float], form: str) -> str:
    """The median over the turns, and a remark if these differ too much."""
    median = statistics.median(values)
    noisy = np.isfinite(median) and max(values) - min(values) > NOISE * median
    return form.format(median) + (
        f" ({form.format(min(values))} to {form.format(max(values))}: noisy)" if noisy else ""
    )


def arguments(description: str) -> argparse.ArgumentParser:
    """The command line of a benchmark, without what it has alone."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", help="an ONNX file, or digits, which ships")
    parser.add_argument("folder", type=Path, help="a folder that `fluidb measure` wrote")
    parser.add_argument("--write", action="store_true", help="put the result into docs/serve.md")
    return parser


def show(name: str, others: float, text: str, write: bool) -> None:
    """Print a text with what it ran on, and put both into the page of the server."""
    text = f"{ran_on(others)}\n\n{text}"
    print(text)
    if write:
        write_part(PAGE, name, f"{text}\n")


def show_table(name: str, others: float, heads: Sequence[str], rows: Sequence[Sequence[object]], write: bool) -> None:
    """The same with a table."""
    show(name, others, tabulate(rows, heads, tablefmt="pipe", disable_numparse=True), write)
