"""The server's life: a thread of its own beside the device's, from a socket to the last answer."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ... import __version__
from ...formats import InputError
from ...serving.admission import Admission
from ...serving.case import case_of
from ...serving.inputs import AnyPolicy, Requests
from ...serving.networks import ServedNetwork, scheduler_on
from ...serving.scheduler import Scheduler, with_parameter
from ...traffic.distributions import Objective
from ...traffic.trace import Trace
from ..cores import pinned
from ..live import LiveRunner, LiveService, OpenClock
from ..network import RealNetwork
from ..serve import ServedHere, check_models, prepare_here, warm_up
from .app import App
from .messages import MAX_ROWS, NAMES, Model
from .metrics import Metrics
from .record import Recorder, check_new
from .visits import Visits

QUEUE = 256
"""Samples of a network that may wait, unless the policy or the network states its own rule of admission."""

LEAST_ROOM, MOST_ROOM = 2**10, 2**14
"""Samples that may be here at once, whatever the rules of admission."""

HEAD_S, SEND_S, IDLE_S = 10.0, 10.0, 60.0
"""Longest time for the head of a request, for an answer to be taken, and between two requests of a connection."""

MAX_HEAD, MAX_CONNECTIONS, MAX_PIPELINED = 2**14, 512, 16

CUT_S = 1.0
"""From the end of the grace time until connections are cut."""

_FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class _Joining:
    """The connection of a request, to which the head of its answer goes with the body: a client wakes up once."""

    head: bytes | None = None

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self.cycle, self.to = cycle, cycle.transport
        self.is_closing, self.close = self.to.is_closing, self.to.close

    def write(self, data: bytes) -> None:
        """Write a head once the body is there, which an answer to HEAD does not have."""
        if self.head is None and self.cycle.response_started and self.cycle.scope["method"] != "HEAD":
            self.head = data
        elif self.head is None:
            self.to.write(data)
        else:
            self.to.write(self.head + data)
            self.head = b""


class _Connection(HttpToolsProtocol):
    """A connection that does not wait for a slow client for ever, nor keeps a long head; uvicorn sees to neither."""

    head: asyncio.TimerHandle | None = None
    taking: asyncio.TimerHandle | None = None
    unread = 0  # bytes since a request or a piece of its body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.write(_FULL)
            transport.close()
            return
        self.head = self.loop.call_later(HEAD_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        self.unread += len(data)
        super().data_received(data)
        if self.unread > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response(f"expected a head of at most {MAX_HEAD:,} bytes")
        if self.cycle is not None and not self.cycle.response_complete:
            self._no_more("head")
        elif self.head is None:
            self.head = self.loop.call_later(HEAD_S, self.transport.abort)

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests before an answer")  # httptools makes it a fault of the request
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD:
            raise ValueError("the head is too long")
        super().on_headers_complete()
        self.cycle.transport = _Joining(self.cycle)  # type: ignore[assignment]  # it has all that a cycle calls

    def on_body(self, body: bytes) -> None:
        self.unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.unread = 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._no_more("taking")
        self.taking = self.loop.call_later(SEND_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._no_more("taking")

    def connection_lost(self, exc: Exception | None) -> None:
        self._no_more("head")
        self._no_more("taking")
        super().connection_lost(exc)

    def _no_more(self, timer: str) -> None:
        """Cancel a timer."""
        if (handle := getattr(self, timer)) is not None:
            handle.cancel()
            setattr(self, timer, None)


def listen(host: str, port: int) -> socket.socket:
    """A socket at which clients will connect; nobody is heard before the server runs."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, number)
    except (OSError, UnicodeError) as error:
        raise _no_host(host, error) from None
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except (OSError, OverflowError) as error:
        listening.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
            raise _no_host(host, error) from None
        raise InputError(f"port: expected one that is free on {host}, found {port} ({error}); 0 is any") from None
    return listening


def _no_host(host: str, error: Exception) -> InputError:
    return InputError(f"host: expected a name or an address of this machine, found {host} ({error})")


def seen_by_clients(here: ServedHere, number: int, slo_s: float | None) -> Model:
    """A network as clients see it; refuse one that the protocol cannot serve."""
    model, faults = here.model, []
    inputs = {name: (values.dtype, values.shape[1:]) for name, values in model.inputs.items()}
    faults += [f'input "{name}": expected numbers of {", ".join(NAMES.values())}, found {kind}'
               for name, (kind, _) in inputs.items() if kind not in NAMES]  # fmt: skip
    kinds = {(answers.dtype, answers.shape[1]) for answers in model.answers}
    if len(kinds) > 1:
        faults.append("expected answers of one type and as many classes at all exits, found others; name exits (exits)")
    if faults:
        raise InputError([f"{model.path}: {fault}" for fault in faults])
    if slo_s is None:
        raise InputError(
            "slo: expected one objective for all requests of a network, found a distribution; state e.g. 50ms"
        )
    kind, classes = kinds.pop()
    return Model(
        here.network.name or model.name, number, inputs, model.exits[-1], kind, classes, model.exits,
        model.measure, slo_s, model.runtime,
    )  # fmt: skip


@dataclass(frozen=True)
class Server:
    """Networks that are ready to be served to clients."""

    served: Sequence[ServedHere]
    models: Sequence[Model]
    scheduler: Scheduler
    service: LiveService
    clock: OpenClock
    visits: Visits
    metrics: Metrics
    recorder: Recorder | None

    def run(self, listening: socket.socket, grace_s: float, begun: Callable[[Callable[[], None]], None]) -> int:
        """Serve until the function that ``begun`` gets is called, and then for a grace time at most.

        Returns how many samples were then not answered.
        """
        http = _Http(
            App(self.models, self.visits, __version__, {"/metrics": self.metrics.page}), self.visits, listening
        )
        with self.clock.running():
            http.start(lambda: self.clock.send(()))
            begun(lambda: http.drain(grace_s))
            try:
                with pinned(self.served[0].model.cores):
                    self.service.serve(http.ended.is_set)
            except (RuntimeError, InputError) as error:
                http.fail(" ".join(str(error).split()))
                where = ", ".join(str(here.model.path) for here in self.served)
                raise InputError(f"{where}: {error}; clients were told, and nothing more is served") from None
        return self.visits.cut


class _Http:
    """uvicorn in a thread of its own."""

    def __init__(self, app: App, visits: Visits, listening: socket.socket) -> None:
        config = uvicorn.Config(
            app, http=_Connection, ws="none", lifespan="off", interface="asgi3", log_config=None,
            log_level="error", access_log=False, proxy_headers=False, server_header=False,
            timeout_keep_alive=int(IDLE_S),
        )  # fmt: skip
        self.server, self.visits, self.listening = uvicorn.Server(config), visits, listening
        self.ended, self.begun = threading.Event(), threading.Event()

    def start(self, woken: Callable[[], None]) -> None:
        """Start the thread, and return once clients may connect; ``woken`` is called when it has ended."""

        async def main() -> None:
            self.visits.loop = asyncio.get_running_loop()
            self.visits.ready = True
            self.begun.set()
            await self.server.serve([self.listening])

        def run() -> None:
            try:
                asyncio.run(main())
            finally:
                self.begun.set()
                self.ended.set()
                woken()

        self.listening.listen(MAX_CONNECTIONS)
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        self.begun.wait()

    def drain(self, grace_s: float) -> None:
        """Take no more requests, and end once all are answered, or after a grace time; from a signal's handler."""

        def cut() -> None:
            self.visits.close(503, "the server is shutting down")
            loop.call_later(CUT_S, setattr, self.server, "force_exit", True)

        def begin() -> None:
            self.visits.ready = False
            loop.call_later(grace_s, cut)

        assert self.visits.loop is not None
        loop = self.visits.loop
        self.server.should_exit = True
        loop.call_soon_threadsafe(begin)

    def fail(self, fault: str) -> None:
        """Tell all clients that the device has failed, and end."""
        assert self.visits.loop is not None
        if not self.ended.is_set():
            self.visits.loop.call_soon_threadsafe(self.visits.close, 500, fault)
            self.drain(0.0)
            self.thread.join(HEAD_S)


def limited(scheduler: Scheduler, networks: Sequence[ServedNetwork]) -> Scheduler:
    """The policy with a limit of the queue, unless it or every network states a rule of admission."""
    if scheduler.admit is not None or all(network.limit for network in networks):
        return scheduler
    spec = with_parameter(scheduler.spec, "admit", f"queue:{QUEUE}")
    return replace(scheduler, spec=spec, admit=Admission(limit=QUEUE))


def room_for(scheduler: Scheduler, networks: Sequence[ServedNetwork]) -> int:
    """Samples that may be here at once: those that may wait, a batch, and a request that is refused."""
    limits = [(network.limit or scheduler.admit or Admission()).limit for network in networks]
    wanted = min(sum(limits), MOST_ROOM) + max(network.latency.b_max for network in networks) + MAX_ROWS
    return min(max(LEAST_ROOM, int(wanted)), MOST_ROOM)


def make_server(
    models: Sequence[RealNetwork],
    networks: Sequence[ServedNetwork],
    policy: AnyPolicy,
    slo_s: Objective | None,
    record: Path | None = None,
) -> Server:
    """Make networks ready to be served: every stage and the policy have run once."""
    check_models(models, networks)
    if slo_s is None and any(network.slo_s is None for network in networks):
        raise InputError("slo: expected an objective for requests that state no timeout, found none; state e.g. 50ms")
    scheduler = limited(scheduler_on(networks, policy), networks)
    most = room_for(scheduler, networks)
    trace = Trace(np.arange(2 * most), np.zeros(2 * most))
    traffic, served = prepare_here(models, networks, Requests(trace=trace, slo_s=slo_s))
    seen = [seen_by_clients(here, number, traffic.parts[number].objective_s) for number, here in enumerate(served)]
    if record is not None:
        check_new(record)
    warm_up(served, traffic, scheduler)
    clock = OpenClock(2 * most)
    visits = Visits(clock, most, max(float(network.latency.array()[0, -1, 1]) for network in networks))
    metrics = Metrics(seen, max(network.latency.b_max for network in networks), lambda: visits.here)
    visits.on_leaving.append(metrics.note)
    recorder = None
    if record is not None:
        recorder = Recorder(record, networks, [model.slo_s for model in seen], scheduler)
        visits.on_arrival.append(recorder.arrived)
        visits.on_leaving.append(recorder.note)
    case = case_of([here.network for here in served], traffic, scheduler)
    runner = LiveRunner(models, clock, metrics.ran)
    service = LiveService(case, clock, runner, [here.levels for here in served], visits.tell)
    return Server(served, seen, scheduler, service, clock, visits, metrics, recorder)
