"""fluidb: design an edge NPU and its serving scheduler together.

The package is split in two halves that meet in tables on disk.  At design time
:mod:`fluidb.dse` searches the hardware and writes its tables; at run time
:mod:`fluidb.serving` replays traffic against them.  :mod:`fluidb.models` says
what runs, :mod:`fluidb.platforms` on what.
"""

__version__ = "0.1.0"
