"""Batches of given sizes, one after the other: how a device is measured (``fluidb measure``)."""

from .interface import Policy, compile_lean_policy, go_on, launch


@compile_lean_policy
def decide(view, data):
    """Take as many requests as the first of them says by its predicted depth, and ask again after every stage."""
    if view.depth > 0:
        return go_on(1)
    return launch(min(int(data.requests[data.queue[view.first]].predicted_depth), view.waiting), 1)


POLICY = Policy(decide)
