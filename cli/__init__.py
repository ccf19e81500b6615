"""The command line: one file a command, each of which parses, makes one library call and renders.

A command imports the library when it runs, so that ``--help`` stays quick.
"""

import gc
import os

from .interrupt import leave


def main() -> None:
    """Entry point of the ``fluidb`` command."""
    # start-up makes thousands of classes and functions, none of them garbage: to look for it takes a tenth of the time
    gc.set_threshold(100_000)
    # nothing plugs into our schemas, and to look for what might, pydantic reads every installed package's metadata
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        from .app import run

        run()
    except KeyboardInterrupt:
        leave()


__all__ = ["main"]
