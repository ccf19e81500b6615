"""How functions are compiled and where their compiled form is kept: nothing else in fluidb decides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(signature: Any = None, **options: Any) -> Callable[[Any], Any]:
    """A decorator that compiles a function: it runs without the interpreter's lock, and is kept on disk.

    numba keeps the compiled form beside its source or, where that may not be written, in
    the user's cache folder (``NUMBA_CACHE_DIR`` names another).  Where no folder may be
    written, every process compiles for itself.

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
        try:
            return njit(signature, cache=True, nogil=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return njit(signature, nogil=True, **options)(function)

    return decorate
