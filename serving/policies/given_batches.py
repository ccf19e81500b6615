"""Batches of given sizes, one after the other: how a device is measured (``fluidb measure``)."""

from .interface import Policy, compile_policy, go_on, launch


@compile_policy
def decide(view, data):
    """Take the number of requests that the predicted depth of the first one states, and ask again after every stage."""
    if view.depth > 0:
        return go_on(1)
    return launch(min(int(data.requests.predicted_depth[data.queue[view.first]]), view.waiting), 1)


POLICY = Policy(decide)
