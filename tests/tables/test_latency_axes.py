"""The optional axes of a latency table: steps of the last stage, widths, SubNets and states; and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import FASTER, everybody, repeating, scheduler_of, trace_of, traffic_of, with_variants
from fluidb.formats import InputError, read_table, write_table
from fluidb.models import Exit
from fluidb.serving import POLICIES, find_policy, least_violations, simulate, summarise
from fluidb.serving.case import variants_of
from fluidb.serving.policies import Decision, go_on
from fluidb.serving.policies.estimates import between_s
from fluidb.tables.exit_plan import PlannedService
from fluidb.tables.latency import LatencyTable
from fluidb.tables.reuse import SubNetEntry
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.lists(st.integers(1, 50), min_size=3, max_size=3), min_size=1, max_size=3), st.integers(1, 5))
def test_every_step_is_a_place_between_which_times_add_up(stage_s, steps):
    table = repeating([[float(time) for time in row] for row in stage_s], steps)
    unrolled = [*stage_s[:-1], *[stage_s[-1]] * steps]
    assert table.places == len(unrolled)
    latency_s = np.stack([table.array()])
    assert latency_s.shape == (1, len(stage_s) + 1, len(stage_s) + 1, 4)
    assert table.pass_s().tolist() == [[0, *(sum(column) for column in zip(*unrolled, strict=True))]]
    for i in range(len(unrolled) + 1):
        for j in range(i, len(unrolled) + 1):
            expected = [0, *(sum(column) for column in zip(*unrolled[i:j], [0, 0, 0], strict=True))]
            assert [between_s(latency_s, 0, i, j, b) for b in range(4)] == expected


def test_a_table_with_axes_reads_back_and_numbers_its_variants(tmp_path):
    axes = {
        "widths": [8.0, 4.0],
        "subnets": [SubNetEntry(name="large", accuracy=0.75), SubNetEntry(name="small")],
        "states": ["empty", "full"],
        "gather_s": [[0.0, 0.25, 0.5]] * 2,
    }
    table = with_variants([[1.0, 2.0], [3.0, 4.0]], **axes)
    write_table(table, tmp_path / "t.json")
    assert read_table(LatencyTable, tmp_path / "t.json") == table
    known: Any = variants_of(table)
    assert known.width.tolist() == [8, 4] * 4
    assert known.subnet.tolist() == [0, 0, 1, 1] * 2
    assert known.state.tolist() == [0] * 4 + [1] * 4
    assert known.accuracy.tolist()[:2] == [0.75, 0.75]
    assert np.isnan(known.accuracy[2])
    for variant in range(8):
        record = known[variant]
        place = (8.0, 4.0).index(record.width)
        assert (record.state * 2 + record.subnet) * 2 + place == variant
        assert table.array(variant)[0, 2, 1] == 4.0 * FASTER**variant
        assert table.segments(by_layer=False).time_s[variant, 1, 2] == 4.0 * FASTER**variant
    assert table.gather_array().tolist() == [[0.0, 0.25, 0.5]] * 2 + [[0.0] * 3]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_runs_steps_to_each_request_s_own_number(policy):
    """One at a time: 1 s for the first stage, 2 s for each step; a policy that knows no steps serves them too."""
    table, steps = repeating([[1.0], [2.0]], 4), np.array([3, 1, 4])
    trace = replace(trace_of([0.0, 0.0, 0.0]), steps=steps)
    traffic = traffic_of(trace, np.array([2, 2, 2]), 100.0)
    replay = simulate(
        table, traffic, find_policy(policy if policy not in ("adaptb", "pame") else f"{policy}:timeout=0")
    )
    assert replay.finish_s.tolist() == [7.0, 10.0, 19.0]
    assert replay.traffic.exits.tolist() == [2, 2, 2]
    assert summarise(replay).stages[1].runs == (8 if policy != "lazy" else 16)
    assert least_violations(replay) == 0


def test_who_states_no_steps_runs_all_of_them():
    replay = simulate(repeating([[1.0], [2.0]], 4), everybody(1, 2), find_policy("serial"))
    assert replay.finish_s.tolist() == [9.0]


def by_width(view, data):
    """The narrowest variant that holds the first request, alone."""
    if view.depth > 0:
        return go_on(view.segments)
    variant = 0
    while variant + 1 < data.variants.size and (
        data.variants[variant + 1].width >= data.requests.width[data.queue[view.first]]
    ):
        variant += 1
    return Decision(1, 0, view.segments, np.inf, True, variant, data.gather_s[0, 1])


def test_a_policy_finds_the_variant_of_a_width_and_the_time_to_gather():
    table = with_variants([[4.0, 4.0]], widths=[8.0, 4.0, 2.0], gather_s=[[0.0, 0.25, 0.5]])
    trace = replace(trace_of([0.0] * 4), width=np.array([3.0, 2.0, 8.0, 1.0]))
    replay = simulate(table, traffic_of(trace, np.ones(4, int), 100.0), scheduler_of(by_width))
    assert replay.variant.tolist() == [1, 2, 0, 2]
    assert replay.finish_s.tolist() == [2.25, 3.5, 7.75, 9.0]
    assert replay.launches[:, 0, 1].tolist() == [1, 1, 2]
    assert summarise(replay).busy_share == 1.0
    widest = simulate(table, everybody(1, 1), scheduler_of(by_width))  # who states no width may have the widest
    assert widest.variant.tolist() == [0]


def test_columns_that_do_not_fit_the_table_are_refused_by_row():
    trace = replace(trace_of([0.0, 1.0]), steps=np.array([4, 5]), width=np.array([9.0, 9.5]))
    table = with_variants([[1.0]], widths=[8.0])
    with pytest.raises(InputError) as refused:
        simulate(table, traffic_of(trace, np.array([1, 1]), 1.0), find_policy("serial"))
    assert list(refused.value.faults) == [
        "trace: row 1: steps: expected at most 1, how often the last stage runs, found 4 (and 1 more row)",
        "trace: row 1: width: expected at most 8, the widest of the table, found 9 (and 1 more row)",
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"widths": [4.0, 8.0]}, "widths: expected every width once, the widest first"),
        (
            {"widths": [8.0, 4.0, 2.0]},
            "stage_s: expected 3 variants of 1 stages",
        ),
        ({"gather_s": [[0.0]]}, "gather_s: expected 1 rows, at the input and behind every exit but the last, of 2"),
        (
            {"exits": [Exit(name="a", rate=0.5, steps=2), Exit(name="b", rate=0.5)]},
            "stage_s: expected 2 variants of 2 stages",
        ),
        (
            {"planned": PlannedService(batch=2, thresholds=[])},
            "planned: expected a batch of at most 1 and 0 thresholds",
        ),
        ({"planned": PlannedService(batch=1, thresholds=[0.5])}, "planned: expected a batch of at most 1 and 0 thr"),
    ],
)
def test_axes_that_do_not_fit_are_refused(change, expected):
    table = with_variants([[1.0]], widths=[8.0, 4.0])
    with pytest.raises(InputError, match=expected):
        LatencyTable(**{**dict(table), **change})
