"""fluidb: design an edge NPU and its serving scheduler together.

The package is split in two halves that meet in tables on disk.  At design time
:mod:`fluidb.dse` searches the hardware and writes its tables; at run time
:mod:`fluidb.serving` replays traffic against them.  :mod:`fluidb.models` says
what runs, :mod:`fluidb.platforms` on what.
"""

__version__ = "0.1.0"


def _find_numba_a_cache() -> None:
    """Give numba a folder for compiled kernels where it has none: a read-only install of a user without a home."""
    import os
    import tempfile
    from pathlib import Path

    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    there = next((folder for folder in (home, *home.parents) if folder.is_dir()), home)
    if "NUMBA_CACHE_DIR" not in os.environ and not any(os.access(f, os.W_OK) for f in (Path(__file__).parent, there)):
        os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="fluidb-numba-")


_find_numba_a_cache()
