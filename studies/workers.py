"""A function over many tasks, on threads of this process or on a Dask cluster (``docs/compare.md``).

The only module that knows Dask. Tasks read and write no files: the caller sends all they need and keeps the results.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, as_completed
from contextlib import ExitStack, contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from ..dse.npu.evaluation import available_threads, on_threads
from ..formats import InputError, check_installed
from ..formats.sources import made_with

if TYPE_CHECKING:
    from distributed import Client

CONNECT_S = 5.0
"""Seconds that a scheduler may take to answer."""

WORKER_S = 15.0
"""Seconds that a cluster may have no worker at the start."""

RETRIES = 2
"""Retries of a task that failed for another reason than its input, such as a worker that lacks memory."""

Common = TypeVar("Common")
Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers:
    """Threads of this process, or a Dask cluster: both run tasks."""

    def __init__(self, threads: int | None, client: Client | None = None, name: str = "") -> None:
        self.threads, self.client, self.name = threads, client, name
        self._sent: tuple[object, object, Any] | None = None  # function and common of the last tasks, on the cluster

    def map(
        self, function: Callable[[Common, Task], Result], common: Common, tasks: Sequence[Task], *, wide: bool = False
    ) -> Iterator[tuple[int, Result | InputError]]:
        """Run a function over tasks."""
        made = made_with()
        if self.client is None:
            here, threads = (function, common), 1 if wide else self.threads
            yield from on_threads(lambda i: (i, _perform(here, tasks[i], made)), range(len(tasks)), threads)
            return
        import distributed

        shared = self._share(self.client, function, common)
        executor = self.client.get_executor(pure=False, retries=RETRIES)
        order = {executor.submit(_perform, shared, task, made): i for i, task in enumerate(tasks)}
        for future in as_completed(order):
            try:
                outcome = future.result()
            except distributed.KilledWorker as error:
                raise InputError(f"{self.name}: {error}") from None  # Dask says it well
            except CancelledError:
                lost = "lost the connection to the scheduler; start it again, then the same command"
                raise InputError(f"{self.name}: {lost}") from None
            yield order.pop(future), outcome  # popped: the cluster may forget it

    def _share(self, client: Client, function: object, common: object) -> Any:
        """The function and what its tasks have in common, on the cluster; further tasks of the same find it there.

        It is unpickled by a task of its own: on a worker and not in the scheduler, for it may hold a user's policy;
        passed on from worker to worker; and made again if those that hold it die.
        """
        if self._sent is None or self._sent[0] is not function or self._sent[1] is not common:
            shared = client.submit(pickle.loads, pickle.dumps((function, common)), pure=False, retries=RETRIES)
            self._sent = function, common, shared
        return self._sent[2]


def _perform(shared: tuple[Callable[[Common, Task], Result], Common], task: Task, made: dict[str, str]) -> Any:
    """Run a task; a worker may have joined after the others were checked."""
    _check_sources("a worker that joined later", made, made_with())
    function, common = shared
    try:
        return function(common, task)
    except InputError as fault:
        return fault  # a fault that is raised would be tried again


def _check_sources(where: str, expected: dict[str, str], answer: object) -> None:
    """Refuse a machine without fluidb, or with another one."""
    if answer != expected:
        other = _named(answer) if isinstance(answer, dict) else repr(answer)
        raise InputError(f"{where}: expected {_named(expected)}, found {other}; install the same there, start it again")


def _named(made: dict[str, str]) -> str:
    return f"fluidb {made['fluidb']} (sources {made['sources_sha256'][:8]}) with numpy {made['numpy']}"


@contextmanager
def workers(scheduler: str | None = None, threads: int | None = None) -> Iterator[Workers]:
    """Open the workers that are to run tasks."""
    if scheduler is None:
        yield Workers(threads)
        return
    if scheduler != "local" and not re.fullmatch(r"(tcp|tls)://[^/]+:\d{1,5}", scheduler):
        example = "e.g. tcp://10.0.0.1:8786"
        raise InputError(f'scheduler: expected tcp://host:port or local, found "{scheduler}"; {example}')
    check_installed("scheduler: a Dask cluster", "distributed", "cluster")
    import distributed

    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # a fault is one line of ours
    with ExitStack() as stack:
        try:
            address: Any = scheduler
            if scheduler == "local":
                # after Ctrl-C a process of multiprocessing would warn of semaphores that it removes
                os.environ.setdefault("PYTHONWARNINGS", "ignore::UserWarning:multiprocessing.resource_tracker")
                address = distributed.LocalCluster(
                    n_workers=threads or available_threads(),
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",  # the default port may be taken, and is open to all
                    memory_limit=0,  # what fits into memory without a cluster fits with one
                    silence_logs=logging.CRITICAL + 1,
                )
                stack.callback(address.close)
                threads = None
            client = _connected(address)
            stack.callback(client.close)
            try:
                client.wait_for_workers(1, timeout=WORKER_S)
            except distributed.TimeoutError:
                none = f"none came within {WORKER_S:g} s; start some with `dask worker {scheduler}`"
                raise InputError(f"{scheduler}: expected workers, {none}") from None
            for where, answer in client.run(made_with, on_error="return").items():
                if not isinstance(answer, OSError):  # this worker died meanwhile
                    _check_sources(f"worker {where}", made_with(), answer)
            yield Workers(threads or 1, client, scheduler)
        except KeyboardInterrupt:
            stack.pop_all()  # leave at once: workers drop tasks without a client, and local ones end with this process
            raise


def _connected(address: Any) -> Client:
    """A client of a scheduler, asked on another thread: if something else answers there, Dask waits without end."""
    import distributed

    answer: Future[Client] = Future()

    def connect() -> None:
        try:
            answer.set_result(distributed.Client(address, timeout=CONNECT_S, set_as_default=False))
        except OSError as error:
            answer.set_exception(error)

    Thread(target=connect, daemon=True).start()
    try:
        return answer.result(timeout=CONNECT_S + 1)
    except OSError:
        none = f"none answered within {CONNECT_S:g} s; check the address, or start one with `dask scheduler`"
        raise InputError(f"{address}: expected a Dask scheduler, {none}") from None


def in_order(outcomes: Iterator[tuple[int, Result | InputError]]) -> Iterator[tuple[int, Result]]:
    """Results as they come; of several faults, raise the one of the first task."""
    done: set[int] = set()
    faults: dict[int, InputError] = {}
    for index, outcome in outcomes:
        done.add(index)
        if isinstance(outcome, InputError):
            faults[index] = outcome
        else:
            yield index, outcome
        if faults and done.issuperset(range(min(faults))):
            raise faults[min(faults)]
