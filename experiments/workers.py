"""A function over many tasks: in this process, or on a Dask cluster (``docs/cluster.md``).

The only module that knows Dask.  Whatever runs the tasks, they read no files and
write none: all they need is sent along, and the caller keeps what comes back.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit

from ..dse.search import available_threads, on_threads
from ..formats import InputError
from .sources import made_with

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_S = 5.0
"""How long a scheduler may take to answer, seconds."""

WORKER_S = 15.0
"""How long a cluster may have no worker at the start, seconds."""

RETRIES = 2
"""How often a task is tried again that failed for another reason than its input: its worker may have no memory left."""

Common = TypeVar("Common")
Task = TypeVar("Task")
Result = TypeVar("Result")


class ClusterError(InputError):
    """A fault of the cluster, and of no task."""


class Workers(Protocol):
    """What runs tasks.

    Attributes
    ----------
    threads : int or None
        Threads for a task that is parallel in itself, ``None`` for all cores.
    """

    threads: int | None

    def map(
        self, function: Callable[[Common, Task], Result], common: Common, tasks: Sequence[Task], *, wide: bool = False
    ) -> Iterator[tuple[int, Result | InputError]]:
        """Run a function over tasks.

        Parameters
        ----------
        function : callable
            A function of a module, called with ``common`` and a task.
        common : object
            What all tasks need: it travels once.
        tasks : sequence
            One call each.
        wide : bool
            Whether a task is parallel in itself; here such tasks run one after another.

        Yields
        ------
        index : int
            Of the task, in the order in which they end.
        outcome : object or InputError
            What the function returned, or the fault it raised.
        """
        ...


def _outcome(function: Callable[[Common, Task], Result], common: Common, task: Task) -> Result | InputError:
    try:
        return function(common, task)
    except InputError as fault:
        return fault


class Here:
    """Threads of this process."""

    def __init__(self, threads: int | None) -> None:
        self.threads = threads

    def map(
        self, function: Callable[[Common, Task], Result], common: Common, tasks: Sequence[Task], *, wide: bool = False
    ) -> Iterator[tuple[int, Result | InputError]]:
        """See :meth:`Workers.map`."""
        if wide:
            yield from ((index, _outcome(function, common, task)) for index, task in enumerate(tasks))
            return
        yield from on_threads(
            lambda index: (index, _outcome(function, common, tasks[index])), range(len(tasks)), self.threads
        )


class _Cluster:
    """A Dask cluster."""

    def __init__(self, client: Client, name: str, threads: int | None) -> None:
        self.threads: int | None = threads or 1  # a worker runs as many tasks at a time as it has threads
        self._client, self._name = client, name

    def map(
        self, function: Callable[[Common, Task], Result], common: Common, tasks: Sequence[Task], *, wide: bool = False
    ) -> Iterator[tuple[int, Result | InputError]]:
        """See :meth:`Workers.map`."""
        import dask
        import distributed

        del wide
        if not tasks:
            return
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TiB"}):  # traces are what they are
            # a task of its own: sent once, passed on from worker to worker, and made again if those that hold it die
            shared = self._client.submit(bytes, pickle.dumps((function, common)), pure=False, retries=RETRIES)
            futures = self._client.map(
                _perform,
                [pickle.dumps(task) for task in tasks],
                shared=shared,
                expected=made_with(),
                pure=False,
                retries=RETRIES,
            )
        order = {future.key: index for index, future in enumerate(futures)}
        for future in distributed.as_completed(futures, loop=self._client.loop):
            yield order[future.key], self._read(future)
            future.release()

    def _read(self, future: Future[bytes]) -> Any:
        """What a task returned."""
        import distributed

        try:
            outcome = pickle.loads(future.result())  # noqa: S301  (our own workers)
        except distributed.KilledWorker as error:
            raise ClusterError(
                f"{self._name}: {error.allowed_failures + 1} workers died one after another at the same task, as they "
                "do when memory runs out; see their logs"
            ) from None
        except distributed.CancelledError:
            raise ClusterError(
                f"{self._name}: lost the connection to the scheduler; start it again, then the same command"
            ) from None
        except Exception as error:
            _check_installed(self._name, error)
            raise
        if isinstance(outcome, ClusterError):
            raise outcome
        return outcome


def _check_installed(where: str, error: BaseException | None) -> None:
    """Say so if it was for want of fluidb that something failed on the other side."""
    while error is not None:
        text = repr(error)  # Dask may wrap it as text
        if "fluidb" in text and any(kind in text for kind in ("ImportError", "ModuleNotFoundError", "AttributeError")):
            raise ClusterError(
                f"{where}: expected the scheduler and every worker to have fluidb {made_with()['fluidb']}, "
                f"found {text}; install the same there and start it again"
            ) from None
        error = error.__cause__


_ONE_AT_A_TIME = Lock()
"""Held while what tasks share is unpickled, which may run a user's policy file."""


def _perform(task: bytes, *, shared: bytes, expected: dict[str, str]) -> bytes:
    """A task on a worker: nothing of it is unpickled before the sources are known to be the same."""
    outcome: Any
    try:
        _check_sources(f"a worker on {socket.gethostname()}", expected, made_with())
        with _ONE_AT_A_TIME:
            function, common = _opened(shared)
        outcome = function(common, pickle.loads(task))  # noqa: S301  (of a client that has the scheduler's trust)
    except InputError as fault:
        outcome = fault
    return pickle.dumps(outcome)


@lru_cache(maxsize=2)
def _opened(shared: bytes) -> Any:
    """Function and common part of the tasks that are run here."""
    return pickle.loads(shared)  # noqa: S301  (as above)


def _check_sources(worker: str, expected: dict[str, str], found: dict[str, str]) -> None:
    if found != expected:
        raise ClusterError(
            f"{worker}: expected {_named(expected)}, found {_named(found)}; install the same there and start it again"
        )


def _named(made: dict[str, str]) -> str:
    return f"fluidb {made['fluidb']} (sources {made['sources_sha256'][:8]}) with numpy {made['numpy']}"


@contextmanager
def workers(scheduler: str | None = None, threads: int | None = None) -> Iterator[Workers]:
    """What is to run tasks.

    Parameters
    ----------
    scheduler : str, optional
        Address of a running Dask scheduler, ``tcp://host:port``, or ``local`` for a
        cluster of processes on this machine; by default threads of this process.
    threads : int, optional
        Here: threads, by default all cores.  Local: processes, by default one a core.
        Elsewhere: threads of a task that is parallel in itself, by default one.

    Yields
    ------
    Workers
        Gone when the block is left.

    Raises
    ------
    InputError
        If Dask is not installed, the scheduler does not answer or has no workers, or
        they run other sources than this process.
    """
    if scheduler is None:
        yield Here(threads)
        return
    if scheduler != "local":
        _check_address(scheduler)
    try:
        import distributed
    except ImportError:
        raise InputError(
            "--scheduler needs the extra `cluster`, which is not installed: pip install 'fluidb[cluster]'"
        ) from None
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what goes wrong is said once, by us
    with ExitStack() as stack:
        try:
            address: Any = scheduler
            if scheduler == "local":
                threads, processes = None, threads or available_threads()
                # a process that leaves on Ctrl-C leaves semaphores behind, and who removes them talks about it
                os.environ.setdefault("PYTHONWARNINGS", "ignore::UserWarning:multiprocessing.resource_tracker")
                address = distributed.LocalCluster(
                    n_workers=processes,
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",  # the default's port may be taken, and is open to all
                    memory_limit=0,  # what fits into memory without a cluster fits with one
                    silence_logs=logging.CRITICAL + 1,
                )
                stack.callback(address.close)
            client = _connected(address)
            if client is None:
                raise InputError(
                    f"{scheduler}: expected a Dask scheduler, none answered within {CONNECT_S:g} s; "
                    "check the address, or start one with `dask scheduler`"
                )
            stack.callback(client.close)
            try:
                client.wait_for_workers(1, timeout=WORKER_S)
            except distributed.TimeoutError:
                raise InputError(
                    f"{scheduler}: expected workers, none came within {WORKER_S:g} s; "
                    f"start some with `dask worker {scheduler}`"
                ) from None
            for where, found in client.run(made_with, on_error="return").items():
                _check_installed(f"worker {where}", found if isinstance(found, Exception) else None)
                if isinstance(found, dict):  # else it died meanwhile
                    _check_sources(f"worker {where}", made_with(), found)
            yield _Cluster(client, scheduler, threads)
        except KeyboardInterrupt:
            stack.pop_all()  # leave at once: workers drop what nobody waits for, and local ones end with this process
            raise


def _connected(address: Any) -> Client | None:
    """A client of a scheduler; ``None`` if none answers: for something else there Dask would wait without end."""
    import distributed

    answer: SimpleQueue[Client | None] = SimpleQueue()

    def connect() -> None:
        try:
            answer.put(distributed.Client(address, timeout=CONNECT_S, set_as_default=False))
        except OSError:
            answer.put(None)

    Thread(target=connect, daemon=True).start()
    try:
        return answer.get(timeout=CONNECT_S + 1)
    except Empty:
        return None


def _check_address(text: str) -> None:
    try:
        address = urlsplit(text)
        good = address.scheme in ("tcp", "tls") and address.hostname and address.port and not address.path
    except ValueError:  # a port out of range
        good = False
    if not good:
        raise InputError(f'--scheduler: expected tcp://host:port or local, found "{text}"; e.g. tcp://10.0.0.1:8786')


def in_order(outcomes: Iterator[tuple[int, Result | InputError]]) -> Iterator[tuple[int, Result]]:
    """Results as they come; of the faults, raise the one that comes first in the order of the tasks.

    Parameters
    ----------
    outcomes : iterator of (int, object or InputError)
        Of :meth:`Workers.map`.

    Yields
    ------
    int, object
        Index of a task and its result.

    Raises
    ------
    InputError
        Once no task before it is left: whichever ended first, the fault is the same.
    """
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
