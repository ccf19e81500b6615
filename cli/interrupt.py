"""Leaving on Ctrl-C."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn


@contextmanager
def resumable(output: Path | None, what: str) -> Iterator[None]:
    """Around work that keeps its finished parts in a folder, if one is given: after Ctrl-C a line says so."""
    try:
        yield
    except KeyboardInterrupt:
        if output is None:
            raise
        kept = f"interrupted; finished {what} are kept in {output}, the same command goes on from there"
        raise KeyboardInterrupt(kept) from None


def leave(what: str = "") -> NoReturn:
    """Say that the command was interrupted and what is kept, then end the process at once.

    An ordinary exit would wait for the threads that are still inside a compiled kernel.
    """
    sys.stderr.write(f"fluidb: {what or 'interrupted'}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130)
