"""Late requests are counted look by look, each once."""

import math
from types import SimpleNamespace

import numpy as np
from fluidb.serving.lateness import LateLimits, came, exceeds
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_lateness import surely_late


@settings(max_examples=100)
@given(st.integers(0, 10**6))
def test_a_limit_is_exceeded_as_soon_as_too_many_are_surely_late(seed):
    """Some requests return, some never do; they arrive in their order, or, of clients, in any."""
    draw = np.random.default_rng(seed)
    count, limits = int(draw.integers(1, 30)), int(draw.integers(1, 4))
    arrival_s = np.sort(draw.integers(0, 20, count)).astype(float)
    finish_s = np.where(draw.random(count) < 0.2, math.inf, arrival_s + draw.integers(1, 15, count))
    longer_than_s = draw.choice([2.0, 5.0, 8.0, math.inf], (limits, count))
    allowed, counts = draw.integers(0, count + 1, limits), np.zeros((limits, 2), np.int64)
    for now_s in np.sort(draw.integers(0, 40, 6)).astype(float):
        by_now_s = np.where(finish_s <= now_s, finish_s, math.inf)
        arrived = int((arrival_s <= now_s).sum()) if seed % 2 else count
        late = [surely_late(arrival_s, by_now_s, longer_s, now_s) for longer_s in longer_than_s]
        expected = any(few > most for few, most in zip(late, allowed, strict=True))
        assert exceeds(LateLimits(arrival_s, longer_than_s, allowed, counts), by_now_s, now_s, arrived) == expected
        if expected:
            break


def test_only_requests_that_may_have_come_are_looked_at():
    """Or each look at a run with terms would be at all of them."""
    clock, finish_s = SimpleNamespace(arrived=3), np.zeros(5)
    python = getattr(came, "py_func", came)
    for thinking, expected in ((None, 3), (0, 3), (2, 5)):
        terms = None if thinking is None else SimpleNamespace(think_s=np.zeros(thinking))
        assert python(terms, clock, finish_s) == expected
