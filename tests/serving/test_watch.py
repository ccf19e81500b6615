"""A debug run: a policy as plain Python, with a test of what it reads, writes and leaves in the queue."""

from __future__ import annotations

from types import FunctionType

import pytest
from builders import COMPILED, lines
from fluidb.jit import as_python
from fluidb.serving import find_policy
from fluidb.serving.event_loop import run_events
from numba.extending import is_jitted

POLICIES = """
from fluidb.serving.policies import compile_policy, go_on, launch


@compile_policy
def alone(view, data):
    return go_on(view.segments) if view.depth > 0 else launch(1, view.segments)


def behind(view, data):
    data.queue[view.first + view.waiting] += 0  # line 11
    return alone(view, data)


@compile_policy
def before(view, data):
    if view.waiting > 0:
        data.queue[view.first - 1] += 0
    return alone(view, data)


def part(view, data):
    data.queue[view.first : view.first + view.waiting + 1].sum()
    return alone(view, data)


def far(view, data):
    return alone(view, data) if data.requests.due_s[10**6] > 0 else go_on(1)


def writes(view, data):
    data.lanes[0].depth = 1
    return alone(view, data)


def foresees(view, data):
    data.requests.arrival_s[0] = 0.0
    return alone(view, data)


@compile_policy
def twice(view, data):
    if view.depth == 0 and view.waiting > 1:
        data.queue[view.first] = data.queue[view.first + 1]
    return alone(view, data)


@compile_policy
def stranger(view, data):
    if view.depth == 0 and view.waiting > 0:
        data.queue[view.first] = 1_000
    return alone(view, data)


@compile_policy
def youngest_first(view, data):
    if view.depth > 0:
        return go_on(view.segments)
    own = data.queue[view.first : view.first + view.waiting]
    own[:] = own[::-1].copy()
    return launch(1, view.segments)
"""

ONCE = "expected every request that waits once in data.queue, found"


@pytest.fixture
def serve(tmp_path, fluidb, tiny_design):
    (tmp_path / "own.py").write_text(POLICIES)
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n" + "".join(f"{k},0.0\n" for k in range(40)))
    return lambda policy: fluidb("serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1s", "--policy", policy)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("behind", "raised IndexError: data.queue[view.first +40], where 40 wait (line 11)"),
        ("before", "raised IndexError: data.queue[view.first -1], where 40 wait (line 18)"),
        ("part", "raised IndexError: data.queue[view.first +41], where 40 wait (line 23)"),
        ("far", "raised IndexError: index 1000000 is out of bounds for axis 0 with size 40 (line 28)"),
        ("writes", "raised ValueError: assignment destination is read-only (line 32)"),
        ("foresees", "raised ValueError: assignment destination is read-only (line 37)"),
        ("twice", f"{ONCE} request 1 twice and request 0 lost"),
        ("stranger", f"{ONCE} 1000, which does not wait, and request 0 lost"),
    ],
)
def test_a_debug_run_says_what_a_policy_does_wrong(serve, name, told):
    found = lines(serve(f"own.py:{name}:debug=on"))
    assert found == [f"fluidb: policy own.py:{name}:debug=on: {told}; see `fluidb docs extend`"]


def test_a_request_twice_in_the_queue_is_a_fault_without_a_debug_run_too(serve):
    assert lines(serve("own.py:twice"))[-1].endswith(
        "policy own.py:twice: lost request 0, as data.queue had another one twice; `debug=on` finds the first time "
        "(`fluidb docs extend`)"
    )


@pytest.mark.parametrize("policy", ["own.py:youngest_first", "fluid:exits=aware", "lazy:on_deadline=drop"])
def test_a_debug_run_serves_as_any_other(serve, policy):
    first, *rest = serve(policy).stdout.splitlines()
    assert rest
    with_debug = serve(f"{policy}{',' if '=' in policy else ':'}debug=on").stdout.splitlines()
    assert with_debug[1:] == rest
    assert with_debug[0] != first  # which names the policy as it was written


@pytest.mark.skipif(not COMPILED, reason="functions are plain Python already")
def test_only_a_debug_run_leaves_a_policy_as_plain_python(tmp_path):
    (tmp_path / "own.py").write_text(POLICIES)
    decisions = [find_policy(f"{tmp_path}/own.py:alone{more}").policy.decide for more in (":debug=on", "")]
    assert [is_jitted(decide) for decide in decisions] == [False, True]


def test_nothing_that_the_event_loop_calls_in_a_debug_run_is_compiled():
    """Called from plain Python, each function would be compiled for itself."""
    seen, called = {}, [as_python(run_events)]
    while called:
        function = called.pop()
        seen[function.__qualname__] = function
        names = function.__code__.co_names
        values = [function.__globals__[name] for name in names if name in function.__globals__]
        assert not any(is_jitted(value) for value in values), function
        called += [value for value in values if isinstance(value, FunctionType) and value.__qualname__ not in seen]
    assert {"run_events", "leave", "sweep", "whose_turn", "narrowest"} < seen.keys()


def test_a_debug_run_keeps_the_defaults_of_a_policy():
    def decide(view, data, least=1, *, most=3):
        return least, most

    assert as_python(decide)(None, None) == (1, 3)
