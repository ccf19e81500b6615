"""What studies take: objects, or the files that hold them; and one simulation of either."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from builders import table_of
from fluidb.formats import InputError
from fluidb.serving import Requests, find_policy, parse_requirement, serve, simulate, summarise
from fluidb.studies import CapacityOptions, find_capacity, sweep_thresholds
from fluidb.tables import read_latency
from fluidb.traffic import Trace, draw_samples, poisson, prepare, read_samples, read_trace, write_trace

SLO_S = 1e-3


@pytest.fixture
def named(tmp_path: Path) -> Requests:
    """Requests by their files."""
    rng = np.random.default_rng(1)
    write_trace(poisson(9000, 200, 1), tmp_path / "t.csv")
    np.savez(tmp_path / "s.npz", confidence=rng.random((50, 3)), correct=rng.random((50, 3)) < 0.7)
    return Requests(trace=tmp_path / "t.csv", samples=tmp_path / "s.npz", slo_s=SLO_S, seed=5)


def in_memory(named: Requests) -> Requests:
    """The same requests as objects, read by hand."""
    assert isinstance(named.trace, Path)
    assert named.samples is not None
    return Requests(trace=draw_samples(read_trace(named.trace), read_samples(named.samples), 5), slo_s=SLO_S, seed=5)


def test_files_and_objects_are_the_same_to_every_study(named: Requests, tiny_design: Path):
    table, policy, held = read_latency(tiny_design), find_policy("fluid:call=1us"), in_memory(named)
    by_name, by_object = (
        serve(tiny_design, named, policy.spec, threshold=0.6),
        serve(table, held, policy, threshold=0.6),
    )
    assert by_name.summary == by_object.summary
    assert by_name.unavoidable_violations == by_object.unavoidable_violations
    assert by_name.replay.traffic.origin == f"{by_object.replay.traffic.origin} of {named.samples}, seed 5"
    assert sweep_thresholds(tiny_design, named, policy.spec, [0.3, 0.6]) == sweep_thresholds(
        table, held, policy, [0.3, 0.6]
    )
    required, size = [parse_requirement("mean <= 300us")], 80
    capacities = [
        find_capacity(design, decides, required, CapacityOptions(slo_s=SLO_S, count=size, max_requests=size))
        for design, decides in ((tiny_design, policy.spec), (table, policy))
    ]
    assert capacities[0] == capacities[1]


def test_serve_is_simulate_and_its_figures(named: Requests, tiny_design: Path):
    table, held = read_latency(tiny_design), in_memory(named)
    required = [parse_requirement("accuracy >= 99 %"), parse_requirement("p99 <= 1s")]
    served = serve(tiny_design, named, "lazy", threshold=[0.5, 0.7], requirements=required, until_s=0.01, record=True)
    assert isinstance(held.trace, Trace)
    traffic = prepare(held.trace, [row.rate for row in table.exits], slo_s=SLO_S, threshold=[0.5, 0.7])
    replay = simulate(table, traffic, find_policy("lazy"), until_s=0.01, record=True)
    assert served.summary == summarise(replay)
    assert [requirement.holds for requirement in served.requirements] == [False, True]
    assert served.replay.runs is not None
    assert replay.runs is not None
    for name, column in asdict(replay.runs).items():
        assert getattr(served.replay.runs, name).tolist() == column.tolist()


def test_a_fault_names_the_file_it_comes_from(named: Requests, tiny_design: Path):
    one_more = table_of([[1.0]] * (len(read_latency(tiny_design).exits) + 1), [0.25] * 4)
    with pytest.raises(InputError, match=r"s\.npz: answers: expected correct_1 to correct_4"):
        serve(one_more, named, "fluid")
    own = replace(named, trace=replace(in_memory(named).read(), source=Path("own.csv")))
    with pytest.raises(InputError, match=r"own\.csv: expected a trace without confidence_1"):
        serve(tiny_design, own, "fluid")
