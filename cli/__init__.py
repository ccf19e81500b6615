"""The command line: one file a command, each of which parses, makes one library call and renders.

A command imports the library when it runs, so that ``--help`` stays quick.
"""

import gc
import os

from .interrupt import leave, never_ignored


def main() -> None:
    """Entry point of the ``fluidb`` command."""
    # start-up creates thousands of classes and functions that all stay in use: a search for garbage among them would
    # take a tenth of the time
    gc.set_threshold(100_000)
    # no plugin changes our schemas; without this, pydantic reads the metadata of all installed packages to find plugins
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    never_ignored()
    try:
        from .app import run

        run()
    except KeyboardInterrupt:
        leave()


__all__ = ["main"]
