"""SERIAL: one request at a time."""

from .interface import Policy, compile_lean_policy, go_on, launch


@compile_lean_policy
def decide(view, data):
    """Take the oldest request when idle and run it until it exits.

    Source: paper 000, Section IV, baseline (i).  No parameters.  Work-conserving.
    """
    return launch(1, view.segments) if view.depth == 0 else go_on(view.segments)


POLICY = Policy(decide)
