"""Libraries that only some commands need."""

from __future__ import annotations

from importlib.util import find_spec

from .errors import InputError


def is_installed(library: str) -> bool:
    """True if a library that only some commands need is there."""
    return find_spec(library) is not None


def check_installed(user: str, library: str, extras: str) -> None:
    """Refuse work whose library is not installed.

    ``user`` begins the fault, ``"p.svg: a picture"``; ``extras`` are those of fluidb that install it, with commas
    between.
    """
    if not is_installed(library):
        how = f"run pip install '.[{extras}]' in the folder of fluidb's sources"
        raise InputError(f"{user} needs {library}, which is not installed; {how}")
