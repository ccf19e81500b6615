"""The command line: one file a command, each of which parses, makes one library call and renders.

A command imports the library when it runs, so that ``--help`` stays quick.
"""

from .interrupt import leave


def main() -> None:
    """Entry point of the ``fluidb`` command."""
    try:
        from .app import run

        run()
    except KeyboardInterrupt:
        leave()


__all__ = ["main"]
