"""How functions are compiled and where their compiled form is kept: nothing else in fluidb decides it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import config, njit

SOURCES = ("jit.py", "dse/kernels.py", "serving/bound.py", "serving/event_loop.py", "serving/policies/*.py")
"""Every file with a compiled function."""


@cache
def cache_folder() -> str:
    """Where compiled functions are kept: a folder for each state of our sources.

    numba notices an edit of the file that a function stands in, and in no other.  A
    policy is compiled with functions of other files, so that the folder carries the
    digest of all of them.  ``NUMBA_CACHE_DIR`` or ``XDG_CACHE_HOME`` name another place.
    """
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for pattern in SOURCES:
        for path in sorted(root.glob(pattern)):
            digest.update(path.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return str(Path(config.CACHE_DIR or Path(home) / "fluidb") / digest.hexdigest()[:16])


def compiled(signature: Any = None, **options: Any) -> Callable[[Any], Any]:
    """A decorator that compiles a function: it runs without the interpreter's lock, and is kept on disk.

    Where :func:`cache_folder` may not be written, every process compiles for itself.

    Parameters
    ----------
    signature : numba signature, optional
        Types to compile for at once; else those of the first call, then.
    **options
        numba's own, e.g. ``error_model``.

    Returns
    -------
    callable
        The decorator.
    """

    def decorate(function: Any) -> Any:
        before, config.CACHE_DIR = config.CACHE_DIR, cache_folder()
        try:
            return njit(signature, cache=True, nogil=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return njit(signature, nogil=True, **options)(function)
        finally:
            config.CACHE_DIR = before

    return decorate
