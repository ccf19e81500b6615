"""The command line: one file a command, each of which parses, makes one library call and renders.

A command imports the library when it runs, so that ``--help`` stays quick.
"""

from .app import main

__all__ = ["main"]
