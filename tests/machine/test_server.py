"""`fluidb serve`, on loopback: plain HTTP, hostile clients, and its end.  What is asserted does not depend on times."""

from __future__ import annotations

import gc
import http.client
import json
import logging
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import numpy as np
import onnxruntime
import pytest
from builders import COMPILED, call_fluidb, lines, start_fluidb, wait_for
from fluidb.cli import interrupt
from fluidb.formats import InputError
from fluidb.machine.measurement import measure, write_measurement
from fluidb.machine.network import RealNetwork
from fluidb.machine.protocol import blank_table
from fluidb.machine.recorded import compare_recorded
from fluidb.machine.server import app, messages, run
from fluidb.serving import ServedNetwork
from fluidb.traffic import read_trace
from fluidb.traffic.request_columns import parse_slo
from test_real import network_file

pytestmark = pytest.mark.skipif(not COMPILED, reason="runs in real time")

CHUNKS = b"POST /v2/models/net/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"

LEAST = 0.8
"""Threshold of the network: some samples leave at each exit."""


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    return RealNetwork(str(network_file(folder)), folder / "in.npz")


class Running:
    """A server that runs in a thread of this process."""

    def __init__(self, networks, models, policy="fluid", slo_s=5.0, grace_s=5.0, record=None):
        self.left: Counter[str | None] = Counter()
        self.server = run.make_server(models, networks, policy, slo_s, record)
        self.server.visits.on_leaving.insert(0, lambda samples: self.left.update(sample.outcome for sample in samples))
        self.listening = run.listen("127.0.0.1", 0)
        self.port, self.cut, self.fault = self.listening.getsockname()[1], None, None
        begun = threading.Event()

        def take(drain):
            self.drain = drain
            begun.set()

        def serve():
            try:
                self.cut = self.server.run(self.listening, grace_s, take)
            except InputError as error:
                self.fault = error

        self.thread = threading.Thread(target=serve)
        self.thread.start()
        assert begun.wait(60)

    def connect(self):
        return closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30))

    def ask(self, method, path, body=None, headers=None):
        with self.connect() as client:
            client.request(method, path, body, headers or {})
            answer = client.getresponse()
            return answer.status, answer.read(), answer

    def infer(self, rows, name="net", parameters=None, **more):
        message = {"inputs": [{"name": "x", "shape": [len(rows), 6], "datatype": "FP32", "data": rows}],
                   "parameters": parameters or {}, **more}  # fmt: skip
        status, body, answer = self.ask("POST", f"/v2/models/{name}/infer", json.dumps(message))
        return status, json.loads(body), answer

    def sent(self, raw):
        """A connection on which these bytes were sent."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        client.sendall(raw)
        return client

    def end(self):
        if self.thread.is_alive():
            self.drain()
            self.thread.join(30)
        assert not self.thread.is_alive()


@contextmanager
def serving(*given, **more):
    running = Running(*given, **more)
    try:
        yield running
    finally:
        running.end()


def served(network, **more):
    return ServedNetwork(table=blank_table(network, 4), threshold=LEAST, **more)


@pytest.fixture(scope="module")
def running(network):
    with serving([served(network)], [network]) as made:
        yield made


def answers_alone(network):
    """What ONNX Runtime says to each sample, by the network as it is; and the exit that the threshold chooses."""
    session = onnxruntime.InferenceSession(str(network.path))
    scores = np.stack(session.run(["e1", "e2", "e3"], network.inputs), axis=1)
    shares = np.exp(scores[:, 1] - scores[:, 1].max(axis=1, keepdims=True))
    sure = np.column_stack(
        [scores[:, 0].max(axis=1), (shares / shares.sum(axis=1, keepdims=True)).max(axis=1), np.ones(len(scores))]
    )
    exits = (sure >= LEAST).argmax(axis=1)
    assert set(exits) == {0, 1, 2}
    return scores[np.arange(len(exits)), exits], exits + 1


@pytest.fixture(scope="module")
def alone(network):
    return answers_alone(network)


def test_the_server_says_what_it_is(running):
    for path, known in {
        "/v2/health/live": {"live": True},
        "/v2/health/ready": {"ready": True},
        "/v2/models/net/ready": {"name": "net", "ready": True},
        "/v2/models/net/versions/1/ready": {"name": "net", "ready": True},
    }.items():
        status, body, _ = running.ask("GET", path)
        assert (status, json.loads(body)) == (200, known)
    about = json.loads(running.ask("GET", "/v2")[1])
    assert (about["name"], about["extensions"]) == ("fluidb", ["binary_tensor_data"])
    model = json.loads(running.ask("GET", "/v2/models/net")[1])
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 6]}]
    assert model["outputs"][0] == {"name": "e3", "datatype": "FP32", "shape": [-1, 5]}
    for method, path, status in [
        ("GET", "/v2/models/other", 404), ("GET", "/v2/models/net/versions/2", 404), ("GET", "/", 404),
        ("GET", "/v2/models/net/infer", 405), ("POST", "/v2", 405), ("DELETE", "/v2/models/net", 405),
    ]:  # fmt: skip
        found, body, _ = running.ask(method, path)
        assert found == status
        assert json.loads(body)["error"]


def test_every_answer_is_that_of_onnx_runtime(running, network, alone):
    """As JSON and as bytes, a sample or several in a request, from several clients at a time."""
    expected, exits = alone
    rows, outputs = network.inputs["x"], [{"name": name} for name in ("e3", "exit", "confidence")]
    before, taken = running.left.total(), []

    def client(sizes):
        first = 0
        while first < len(rows):
            size = next(sizes)
            part = rows[first : first + size]
            status, answer, _ = running.infer(part.tolist(), outputs=outputs, id="mine")
            assert (status, answer["id"]) == (200, "mine")
            values = {output["name"]: np.array(output["data"]) for output in answer["outputs"]}
            np.testing.assert_allclose(
                values["e3"].reshape(-1, 5), expected[first : first + size], rtol=1e-4, atol=1e-6
            )
            assert values["exit"].tolist() == exits[first : first + size].tolist()
            told = answer["parameters"]
            assert (told["exit"], told["confidence"]) == (values["exit"].max(), values["confidence"].min())
            assert told["queue_s"] >= 0
            assert told["device_s"] > 0
            first += size
            taken.append(len(part))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(client, [iter([size] * 40) for size in (1, 3, 8)]))
    assert sum(taken) == 3 * len(rows)
    wait_for(lambda: running.left.total() == before + sum(taken))
    part = rows[:5]
    head = {"inputs": [{"name": "x", "shape": [5, 6], "datatype": "FP32", "parameters": {"binary_data_size": 120}}],
            "outputs": [{"name": "exit"}, {"name": "e3", "parameters": {"binary_data": True}}]}  # fmt: skip
    text = json.dumps(head).encode()
    status, body, answer = running.ask("POST", "/v2/models/net/infer", text + part.astype("<f4").tobytes(),
                                       {"Inference-Header-Content-Length": str(len(text))})  # fmt: skip
    size = int(answer.headers["Inference-Header-Content-Length"])
    assert (status, json.loads(body[:size])["outputs"][0]["data"]) == (200, exits[:5].tolist())
    np.testing.assert_allclose(np.frombuffer(body[size:], "<f4").reshape(5, 5), expected[:5], rtol=1e-4, atol=1e-6)


def test_hostile_bodies_are_refused(running, network):
    """5,000 that were damaged at random are read in this process, and some more are sent; the server still answers."""
    draws, model = random.Random(1), running.server.models[0]
    rows = network.inputs["x"][:2]
    good = {"id": "a", "parameters": {"timeout": 9_000_000}, "outputs": [{"name": "e3"}],
            "inputs": [{"name": "x", "shape": [2, 6], "datatype": "FP32", "data": rows.tolist()}]}  # fmt: skip
    odd: list[object] = [
           None, -1, 0, 1e400, 2**70, "", "x" * 99, [], {}, [[]], [1, [2]], True, {"name": "x"}, [None], "\ud800",
           {"binary_data_size": 48}, {"binary_data_size": -1}, [2**62, 6], "FP64", [10**30] * 12]  # fmt: skip
    statuses: Counter[int] = Counter()
    kept = []
    for number in range(5000):
        message = json.loads(json.dumps(good))
        place, key = draws.choice([(message, "inputs"), (message, "parameters"), (message, "outputs"),
                                   *[(message["inputs"][0], key) for key in message["inputs"][0]]])  # fmt: skip
        place[key] = draws.choice(odd)
        raw = bytearray(json.dumps(message).encode())
        for _ in range(draws.choice([0, 0, 1, 3])):
            raw[draws.randrange(len(raw))] = draws.randrange(256)
        length = draws.choice([None, None, str(draws.randrange(len(raw) + 9)), "-1", "²", "9" * 400])
        try:
            messages.read_request(bytes(raw), length, model)
            statuses[200] += 1
        except messages.Refusal as refusal:
            assert "\n" not in str(refusal)
            statuses[refusal.status] += 1
        if number % 50 == 0:
            kept.append((bytes(raw), {} if length in (None, "²") else {"Inference-Header-Content-Length": length}))
    assert statuses[400] > 4000
    assert set(statuses) == {200, 400}
    for sent, headers in kept:
        assert running.ask("POST", "/v2/models/net/infer", sent, headers)[0] in (200, 400)
    deep = b'{"inputs":' + b"[" * 100_000
    assert running.ask("POST", "/v2/models/net/infer", deep)[0] in (400, 413)
    assert running.infer(rows.tolist())[0] == 200


@pytest.mark.parametrize(("changed", "behind", "fault"), [
    ({}, b"1234", "inputs: expected no bytes behind them, found 4"),
    ({"name": "y"}, b"", "inputs: expected each once of x, found"),
    ({"datatype": "FP64"}, b"", 'input "x": datatype: expected FP32, found FP64'),
    ({"shape": [1, 7]}, b"", 'input "x": shape: expected [N, 6], N from 1 to 128, found [1, 7]'),
    ({"shape": [129, 6]}, b"", 'input "x": shape: expected [N, 6], N from 1 to 128, found [129, 6]'),
    ({"data": [1, 2]}, b"", 'input "x": data: expected 6 values of FP32, found 2'),
    ({"data": ["1"] * 6}, b"", 'input "x": data: expected 6 values of FP32, found values of another type'),
    ({"data": [[1, 2], [3]]}, b"", 'input "x": data: expected 6 values of FP32, found values of another type'),
    ({"data": [1e39] * 6}, b"", 'input "x": data: expected finite numbers, found another'),
    ({"parameters": {"binary_data_size": 24}}, b"", 'input "x": expected 24 bytes behind the JSON and no data'),
])  # fmt: skip
def test_a_fault_says_what_was_expected(running, changed, behind, fault):
    tensor = {"name": "x", "shape": [1, 6], "datatype": "FP32", "data": [0.5] * 6} | changed
    text = json.dumps({"inputs": [tensor]}).encode()
    with pytest.raises(messages.Refusal, match="^" + re.escape(fault)) as refused:
        messages.read_request(text + behind, str(len(text)), running.server.models[0])
    assert refused.value.status == 400


@pytest.mark.parametrize(("raw", "status"), [
    (b"NO\r\n\r\n", b"400"), (b"\x16\x03\x01" * 40 + b"\r\n\r\n", b"400"),
    (b"GET /v2 HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20_000, b"400"),
    (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"400"),
    (b"GET /v2 HTTP/1.1\r\n" + b"X: a\r\n" * 10_000, b"400"),
    (CHUNKS + b"\r\n0\r\nX: " + b"a" * 400_000, b"400"), (CHUNKS + b"Content-Length: 4\r\n\r\n", b"400"),
    (b"POST /v2/models/net/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n", b"413"),
    (b"POST /v2/models/net/infer HTTP/1.1\r\nHost: a\r\nContent-Length: -4\r\n\r\n", b"400"),
    (b"POST /v2/models/net/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Encoding: gzip\r\n\r\n{}", b"415"),
    (CHUNKS + b"\r\nffffff\r\n" + b" " * 2**18, b"413"),
])  # fmt: skip
def test_what_is_no_request_or_too_long_is_refused(running, raw, status, caplog):
    with running.sent(raw) as client:
        assert client.recv(99).split()[1] == status
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_requests_behind_one_another_are_answered_in_their_order(running, network):
    """Also if a body comes in pieces; a client that sends many more before it reads is refused."""
    rows, sent = network.inputs["x"][:2].tolist(), b""
    for number in range(3):
        message = {"id": str(number), "inputs": [{"name": "x", "shape": [2, 6], "datatype": "FP32", "data": rows}]}
        text = json.dumps(message).encode() + b" " * 40_000 * number
        sent += b"POST /v2/models/net/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    answers = b""
    sent += b"GET /v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    with running.sent(b"") as client:
        for begin in range(0, len(sent), 2**14 + 1):
            client.sendall(sent[begin : begin + 2**14 + 1])
            time.sleep(0.02)  # each comes by itself
        while piece := client.recv(4096):
            answers += piece
    assert re.findall(rb'"id":"(\d)"|"name":"(fluidb)"', answers) == [
        (b"0", b""),
        (b"1", b""),
        (b"2", b""),
        (b"", b"fluidb"),
    ]
    with running.sent(b"GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n" * 1000) as client:
        while piece := client.recv(2**20):
            answers = piece
    assert b"HTTP/1.1 400" in answers


def test_an_answer_comes_in_one_piece(running):
    """Its head does not wake a client before its body; what has no body, or comes before an answer, waits for none."""
    with running.sent(b"HEAD /v2 HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        assert client.recv(2**16).endswith(b"\r\n\r\n")
        client.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(2**16).endswith(b'{"live":true}')
        client.sendall(CHUNKS + b"Expect: 100-continue\r\n\r\n")
        assert client.recv(2**16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"2\r\n{}\r\n0\r\n\r\n")
        status, _, body = client.recv(2**16).partition(b"\r\n\r\n")
        assert status.startswith(b"HTTP/1.1 400 ")
        assert b"inputs" in body


def test_clients_that_wait_leave_or_are_killed_hold_nothing(running, monkeypatch, network):
    """A head and a body that never end, and answers that nobody takes; the others are answered meanwhile."""
    monkeypatch.setattr(app, "BODY_S", 0.2)
    monkeypatch.setattr(run, "HEAD_S", 0.2)
    post = b"POST /v2/models/net/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 4000\r\n\r\n{"
    before = running.left.total()
    with running.sent(b"GET /v2 HTTP/1.1\r\nHo") as head, running.sent(post) as body, running.sent(b"") as idle:
        running.sent(post).close()
        assert running.infer(network.inputs["x"][:1].tolist())[0] == 200
        assert body.recv(99).split()[1] == b"408"
        assert (head.recv(99), idle.recv(99)) == (b"", b"")
    text = json.dumps({"inputs": [{"name": "x", "shape": [1, 6], "datatype": "FP32", "data": [[0.5] * 6]}]}).encode()
    for _ in range(20):  # they ask, and are gone
        running.sent(
            b"POST /v2/models/net/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(text) + text
        ).close()
    wait_for(lambda: running.server.visits.here == 0 and running.left.total() >= before + 1)
    assert running.infer(network.inputs["x"][:1].tolist())[0] == 200
    assert not running.server.visits.visits


def test_long_requests_share_what_may_be_read_at_a_time(running, monkeypatch, network):
    monkeypatch.setattr(app, "MAX_BODIES", 2**14)
    post = b"POST /v2/models/net/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n" + b" " * 9000
    with running.sent(post):
        with running.sent(post) as other:
            assert other.recv(99).split()[1] == b"503"
        assert running.infer(network.inputs["x"][:1].tolist())[0] == 200


def slowly(network, monkeypatch, seconds=0.01):
    """Let every stage take longer, so that requests wait."""
    run_stage = network.session.run_stage

    def waits(number, tensors):
        time.sleep(seconds)
        return run_stage(number, tensors)

    monkeypatch.setattr(network.session, "run_stage", waits)


def counted(page):
    """Samples by outcome on the page of metrics."""
    found: Counter[str] = Counter()
    for outcome, value in re.findall(r'^fluidb_samples_total\{.*outcome="(\w+)".*\} (\S+)$', page, re.MULTILINE):
        found[outcome] += int(float(value))
    return found


def test_every_sample_has_one_outcome(network, monkeypatch, tmp_path):
    """More come than are served; clients, server, metrics and record count as many refused, dropped, late, in time.

    A request of two samples is refused as a whole.
    """
    stated = (("a", 0.03, 1.0), ("b", 5.0, 0.0))  # clients say which network a sample is for, so shares say nothing
    networks = [served(network, name=name, slo_s=slo_s, share=share) for name, slo_s, share in stated]
    row = network.inputs["x"][:1].tolist()
    with serving(networks, [network, network], "fluid:on_deadline=drop,admit=queue:3,between=edf", None,
                 record=tmp_path / "kept") as running:  # fmt: skip
        slowly(network, monkeypatch)

        def client(name):
            own: Counter[str] = Counter()
            for number in range(15):
                timeout, rows = ({"timeout": 1_000}, row) if number % 5 == 0 else ({}, row * (1 + (name == "b")))
                status, answer, whole = running.infer(rows, name, timeout)
                outcome = {429: "refused", 504: "dropped"}.get(status)
                if outcome is None:
                    assert status == 200
                    outcome = "in_time" if answer["parameters"]["in_time"] else "late"
                elif outcome == "refused":
                    assert int(whole.headers["Retry-After"]) >= 1
                own[outcome] += len(rows)
            return own

        with ThreadPoolExecutor(12) as pool:
            found = sum(pool.map(client, "ab" * 6), Counter())
        status, answer, _ = running.infer(row * 2, "b", {"priority": 1})
        assert (status, "priority" in answer["error"]) == (400, True)
        page = running.ask("GET", "/metrics")[1].decode()
        assert counted(page) == found
        assert "fluidb_samples_here 0.0" in page
        assert 'fluidb_busy_seconds_total{network="a"}' in page
    assert running.left == found
    trace = read_trace(tmp_path / "kept" / "trace.csv")
    rows = (tmp_path / "kept" / "outcomes.csv").read_text().splitlines()[1:]
    assert Counter(row.split(",")[1] for row in rows) == found
    assert sorted(int(row.split(",")[0]) for row in rows) == trace.request_id.tolist()
    assert Counter(np.array(trace.network).tolist()) == {"a": 90, "b": 162}
    compared = compare_recorded(tmp_path / "kept")
    assert (compared.samples, compared.open) == (252, 0)
    assert compared.real.in_time_rate == found["in_time"] / 252
    with pytest.raises(InputError, match="^record: .*kept: expected a new folder, found one that exists"):
        run.make_server([network, network], networks, "fluid", None, tmp_path / "kept")
    assert found["refused"] > 0
    assert found["dropped"] > 0
    assert found["in_time"] > 0
    assert found.total() == 90 + 162


@pytest.mark.parametrize(("grace_s", "expected"), [(20.0, 200), (0.0, 503)])
def test_the_end_waits_for_answers_within_the_grace_time(network, monkeypatch, grace_s, expected):
    found = []
    with serving([served(network)], [network], grace_s=grace_s) as running:
        slowly(network, monkeypatch, 0.2)
        thread = threading.Thread(target=lambda: found.append(running.infer(network.inputs["x"][:3].tolist())[0]))
        thread.start()
        wait_for(lambda: running.server.visits.here == 3)
        running.drain()
        wait_for(lambda: not running.server.visits.ready)
        thread.join(30)
        running.thread.join(30)
        assert (found, running.cut) == ([expected], 0 if expected == 200 else 3)
        with pytest.raises(OSError):
            running.ask("GET", "/v2")


def test_clients_are_told_if_the_device_fails(network, monkeypatch):
    with serving([served(network)], [network]) as running:

        def fails(number, tensors):
            raise RuntimeError("stage 1 failed: out of memory")

        monkeypatch.setattr(network.session, "run_stage", fails)
        status, answer, _ = running.infer(network.inputs["x"][:3].tolist())
        assert (status, answer["error"]) == (500, "stage 1 failed: out of memory")
        running.thread.join(30)
    assert "stage 1 failed: out of memory; clients were told" in str(running.fault)


def test_the_command_serves_curl_until_it_is_told_to_end(network, tmp_path):
    measured = measure(network, b_max=2, repeats=2, name="here")
    write_measurement(network, measured, tmp_path / "here")
    asked = ["serve", network.path, "here", "--inputs", network.path.parent / "in.npz", "--slo", "50ms", "--port", 0]
    with start_fluidb(*asked, "--policy", "adaptb:timeout=M", cwd=tmp_path) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "serving net (exits e1, e2, e3, SLO 50 ms) at http://127.0.0.1:" in line
        assert "/v2 under adaptb:timeout=M,admit=queue:256; onnxruntime" in line
        address = line.partition(" at ")[2].split()[0]
        if shutil.which("curl"):
            text = json.dumps({"inputs": [{"name": "x", "shape": [1, 6], "datatype": "FP32", "data": [0.5] * 6}]})
            asked = ["curl", "-sS", f"{address}/models/net/infer", "-d", text]
            answer = json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)
            assert answer["outputs"][0]["shape"] == [1, 5]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
        taken = socket.create_server(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with taken:
            (fault,) = lines(call_fluidb("serve", "digits", "here", "--slo", "50ms", "--port", port, cwd=tmp_path))
        assert fault.startswith(f"fluidb: --port: expected one that is free on 127.0.0.1, found {port} (")


def test_the_first_signal_drains_and_the_second_ends(monkeypatch):
    seen: list[object] = []
    monkeypatch.setattr(interrupt, "leave", lambda: seen.append("left"))
    with interrupt.draining() as begun:
        begun(lambda: seen.append("drains"))
        for number in (signal.SIGTERM, signal.SIGTERM):  # the same one, to the process and to its group
            os.kill(os.getpid(), number)
        assert seen == ["drains"]
        monkeypatch.setattr(interrupt, "SAME_S", 0.0)
        os.kill(os.getpid(), signal.SIGINT)
    assert seen == ["drains", "left"]


def test_faults(network):
    with run.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        taken.listen()
        with pytest.raises(InputError, match=f"^port: expected one that is free on 127.0.0.1, found {port}"):
            run.listen("127.0.0.1", port)
    with pytest.raises(InputError, match=r"^host: expected a name or an address of this machine, found no\.such"):
        run.listen("no.such.invalid", 0)
    with pytest.raises(InputError, match="^host: expected a name or an address of this machine, found 192.0.2.1 "):
        run.listen("192.0.2.1", 0)  # of nobody's machine
    other = served(network).latency.model_copy(update={"network": "another"})
    with pytest.raises(InputError, match="found the table of another with e1, e2, e3; measure this network"):
        run.make_server([network], [ServedNetwork(table=other)], "fluid", 0.05)
    with pytest.raises(InputError, match="^slo: expected one objective for all requests of a network"):
        run.make_server([network], [served(network)], "fluid", parse_slo("uniform:10ms,40ms"))
    with pytest.raises(InputError, match="^slo: expected an objective for requests that state no timeout, found none"):
        run.make_server([network], [served(network)], "fluid", None)
    assert gc.isenabled()
