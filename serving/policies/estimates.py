"""Estimates of policies about samples: the width of a batch, the stage at which it ends, the time that it takes.

A batch is padded to its widest sample, and runs until its longest has left.  Policies do not ask where nothing is known
(``view.variants`` is 1, ``view.steps`` is 1): a call that passes ``data`` takes longer.
"""

import math

from ...jit import compiled


@compiled(inline="always")
def between_s(latency_s, variant, i, j, b):
    """T_{i:j}^b of a variant: seconds from stage ``i`` to stage ``j``, where each step of a last stage counts."""
    last = latency_s.shape[1] - 1
    if j <= last:
        return latency_s[variant, i, j, b]
    if i >= last:
        return (j - i) * latency_s[variant, last - 1, last, b]
    return latency_s[variant, i, last - 1, b] + (j - last + 1) * latency_s[variant, last - 1, last, b]


@compiled(inline="always")
def narrowest(variants, variant, width):
    """The narrowest variant that serves a width, from a variant on that serves it: widths come first in their order."""
    while variant + 1 < variants.size and width <= variants[variant + 1].width < variants[variant].width:
        variant += 1
    return variant


@compiled(inline="always")
def fitting(view, data, count):
    """The variant in which the first requests of the queue run as a batch."""
    widest = 0.0
    for m in range(view.first, view.first + count):
        widest = max(widest, data.requests.width[data.queue[m]])
    return narrowest(data.variants, 0, widest)


@compiled(inline="always")
def own_end(view, depth):
    """The stage by which a request of a predicted depth has left: the last one, or at the last step predicted."""
    return view.stages if depth <= 0.0 else view.stages - view.steps + min(view.steps, math.ceil(depth))


@compiled(inline="always")
def expected_end(view, data, samples, count):
    """The stage by which the topmost samples of a lane and the first requests of the queue have left."""
    end = min(view.stage + 1, view.stages)  # a sample that has outlived its prediction may leave at the next step
    top = view.offset + view.in_flight
    for m in range(top - samples, top):
        end = max(end, own_end(view, data.requests.predicted_depth[data.members[m]]))
    for m in range(view.first, view.first + count):
        end = max(end, own_end(view, data.requests.predicted_depth[data.queue[m]]))
    return end
