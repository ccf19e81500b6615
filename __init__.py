"""fluidb: design an edge NPU and its serving scheduler together.

The package is split in two halves that meet in tables on disk.  At design time
:mod:`fluidb.dse` searches the hardware and writes its tables; at run time
:mod:`fluidb.serving` replays traffic against them.  :mod:`fluidb.models` says
what runs, :mod:`fluidb.platforms` on what.
"""

from importlib import import_module
from types import ModuleType

__version__ = "0.2.0"

_PACKAGES = (
    "dse",
    "formats",
    "machine",
    "models",
    "papers",
    "platforms",
    "plots",
    "rules",
    "serving",
    "studies",
    "tables",
    "traffic",
)


def __getattr__(name: str) -> ModuleType:
    if name not in _PACKAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return [*_PACKAGES, "__version__"]
