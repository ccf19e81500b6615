"""The command line: a file for each command, which imports the library only when it runs."""

import atexit
import gc
import io
import os
import sys
import warnings
from typing import Any

from .interrupt import leave, never_ignored, never_late


def _warn(message: Any, *_: Any, **__: Any) -> None:
    """A warning as one line, without the place in the source that raised it."""
    sys.stderr.write(f"fluidb: {message}\n")


def _tell() -> None:
    """Show on a terminal what the library notes, e.g. that it compiles."""
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("fluidb: %(message)s"))
    noted = logging.getLogger("fluidb")
    noted.addHandler(handler)
    noted.setLevel(logging.INFO)
    noted.propagate = False


def _opened() -> None:
    """Open the standard streams that the caller closed, as a daemon does, or an output would get their numbers.

    Standard input is empty then, standard output fails when it is written to, and what stderr would say is lost.
    """
    modes = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
    for number, (name, mode) in enumerate(modes.items()):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, mode), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def main() -> None:
    """Entry point of the ``fluidb`` command."""
    _opened()
    try:
        from ..formats import posix  # noqa: F401
    except ImportError as error:
        sys.stderr.write(f"fluidb: {error}\n")
        sys.exit(2)
    # start-up creates thousands of classes and functions that all stay in use: a search for garbage among them would
    # take a tenth of the time
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)  # and so would the search with which Python ends
    # no plugin changes our schemas; without this, pydantic reads the metadata of all installed packages to find plugins
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a title may have letters that the terminal's encoding lacks
    warnings.showwarning = _warn
    if sys.stderr.isatty():
        _tell()
    never_ignored()
    never_late()
    try:
        from .app import run

        run()
    except KeyboardInterrupt:
        leave()


__all__ = ["main"]
