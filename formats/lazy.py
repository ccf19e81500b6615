"""Names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def on_demand(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """A package's ``__getattr__``, so that importing one of its modules does not import all.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping
        Names by the module that holds them; none may be the name of a module.

    Returns
    -------
    callable
        From a name to what it stands for; raises ``AttributeError`` for any other.
    """
    module_of = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f".{module_of[name]}", package), name)

    return find
