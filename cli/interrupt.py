"""Leaving on Ctrl-C, and on SIGTERM as on Ctrl-C."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread, Timer
from time import monotonic, sleep
from types import FrameType
from typing import Any, NoReturn

AGAIN_S = 0.05
"""Seconds until a Ctrl-C that Python ignored is repeated."""

SAME_S = 0.5
"""Seconds in which signals are the same one: `timeout`, for one, sends it to a process and to its group."""

_says = ["interrupted"]
"""Messages of the parts of a command that is interrupted now, the innermost part last."""

ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a command."""

_came: list[int] = [signal.SIGINT]
"""The signal that interrupts a command now."""

GRACE_S = 1.5
"""Seconds that the command may take to end by itself."""


def never_ignored() -> None:
    """Make Ctrl-C reach the command wherever it comes.

    Python ignores exceptions in destructors and in callbacks of compiled libraries, and so it can lose a Ctrl-C.
    """

    def repeat(ignored: Any) -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            _again(_came[0])
        else:
            sys.__unraisablehook__(ignored)

    sys.unraisablehook = repeat
    for number, usual in zip(ENDING, (signal.default_int_handler, signal.SIG_DFL), strict=True):
        if signal.getsignal(number) is usual:
            signal.signal(number, _interrupt)


def _again(number: int) -> None:
    """Repeat a signal a moment later."""
    Timer(AGAIN_S, os.kill, (os.getpid(), number)).start()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the command, but not where llvmlite has just given a module away: it would be freed twice, which crashes."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("llvmlite."):
            _again(number)
            return
        frame = frame.f_back
    _came[0] = number
    raise KeyboardInterrupt


def never_late() -> None:
    """Make Ctrl-C end the command soon, wherever it comes.

    Python raises its exception only after a compiled function has ended, which may take minutes. A thread beside it
    waits a moment and then ends the process.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    Thread(target=_end_late, args=(reader,), daemon=True).start()


def _end_late(reader: int) -> None:
    while (number := os.read(reader, 1)[0]) not in ENDING:
        pass
    sleep(GRACE_S)
    show_cursor = "\x1b[?25h\n" if os.isatty(sys.stderr.fileno()) else ""  # which a progress bar had hidden
    os.write(sys.stderr.fileno(), f"{show_cursor}fluidb: {_says[-1]}\n".encode())
    os._exit(128 + number)


@contextmanager
def resumable(output: Path | None, what: str) -> Iterator[None]:
    """Work that keeps its finished parts in a folder, if one is given: after Ctrl-C a line says so."""
    kept = f"interrupted; finished {what} are kept in {output}, and the same command continues from them"
    _says.append(_says[-1] if output is None else kept)
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_says[-1]) from None
    finally:
        _says.pop()


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let a handler take the signals that end a command, and nothing else: results may be written meanwhile."""
    watched = signal.set_wakeup_fd(-1)
    before = {number: signal.signal(number, handler) for number in ENDING}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)
        signal.set_wakeup_fd(watched)


@contextmanager
def stopping() -> Iterator[Event]:
    """Work that ends by itself after Ctrl-C, once it sees the event that this sets."""
    stop = Event()
    with _handling(lambda *_: stop.set()):
        yield stop


@contextmanager
def draining() -> Iterator[Callable[[Callable[[], None]], None]]:
    """A service that ends well after the first signal, and at once after the second.

    It calls what this gives with the function that begins its end.
    """
    drains: list[Callable[[], None]] = []
    first_s: list[float] = []

    def end(number: int, _: FrameType | None) -> None:
        _came[0] = number
        if drains:
            first_s.append(monotonic())
            drains.pop()()
        elif not first_s or monotonic() - first_s[0] > SAME_S:
            leave()

    with _handling(end):
        yield drains.append


def leave(what: str = "") -> NoReturn:
    """End the process at once, with a line that says what is kept: compiled kernels would delay an exit."""
    sys.stderr.write(f"fluidb: {what or 'interrupted'}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(128 + _came[0])
