"""Leaving on Ctrl-C."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn


@contextmanager
def resumable(output: Path | None, what: str) -> Iterator[None]:
    """Work whose finished parts are kept in a folder, if there is one: Ctrl-C then says so."""
    try:
        yield
    except KeyboardInterrupt:
        if output is None:
            raise
        kept = f"interrupted; finished {what} are kept in {output}, the same command goes on from there"
        raise KeyboardInterrupt(kept) from None


def leave(what: str = "") -> NoReturn:
    """Say so, and what stays, and leave at once: a thread may still be inside a kernel, and nothing waits for it."""
    sys.stderr.write(f"fluidb: {what or 'interrupted'}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130)
