"""Leaving on Ctrl-C."""

import os
import sys
from typing import NoReturn


def leave(what: str = "") -> NoReturn:
    """Say so, and what stays, and leave at once: a thread may still be inside a kernel, and nothing waits for it."""
    sys.stderr.write(f"fluidb: {what or 'interrupted'}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130)
