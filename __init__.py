"""fluidb: design an edge NPU and its serving scheduler together.

The package is split in two halves that meet in tables on disk.  At design time
:mod:`fluidb.dse` searches the hardware and writes its tables; at run time
:mod:`fluidb.serving` replays traffic against them.  :mod:`fluidb.models` says
what runs, :mod:`fluidb.platforms` on what.  What a user of Python needs first is
in :mod:`fluidb` itself.
"""

import lazy_loader

__version__ = "0.3.0"

__getattr__, _names, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return [*_names(), "__version__"]
