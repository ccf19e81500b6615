"""MLPerf LoadGen against the runner, where it is installed: `.ci/run` installs it with the exporters."""

from __future__ import annotations

import numpy as np
import pytest
from builders import COMPILED
from fluidb.machine.network import RealNetwork
from fluidb.machine.protocol import blank_table

pytest.importorskip("mlperf_loadgen", reason="needs MLPerf LoadGen: pip install --group exporters")

import loadgen

pytestmark = pytest.mark.skipif(not COMPILED, reason="runs in real time")

COUNT = 40


@pytest.fixture(scope="module")
def network():
    return RealNetwork("digits")


@pytest.mark.parametrize("scenario", loadgen.SCENARIOS)
def test_both_clocks_agree_on_every_request(network, scenario, monkeypatch):
    """What is asserted of times is order, which no noise changes: LoadGen knows of a batch before the next one ends."""
    told, complete = np.full(COUNT, np.inf), loadgen.Client.complete

    def noted(client, request):
        complete(client, request)
        told[request] = client.clock.now_s()

    monkeypatch.setattr(loadgen.Client, "complete", noted)
    driven = loadgen.drive(network, blank_table(network, 4), "fluid", scenario, count=COUNT, rate_per_s=200.0)
    replay, theirs_s = driven.ours.served.replay, driven.latency_s
    arrival_s, finish_s, ours_s = replay.traffic.trace.arrival_s, replay.finish_s, replay.latency_s
    assert (len(theirs_s), len(ours_s), driven.ours.answers_wrong) == (COUNT, COUNT, 0)
    assert driven.ours.served.summary.unfinished == 0
    assert (ours_s <= theirs_s * 1.01 + 1e-3).all()  # its clock may be set while it runs; ours may not
    order = np.argsort(finish_s, kind="stable")
    told_s = driven.completed_s[order]
    batch = np.unique(np.sort(finish_s), return_inverse=True)[1]
    for earlier, later in zip(range(batch[-1]), range(1, batch[-1] + 1), strict=True):
        assert told_s[batch == earlier].max() <= told_s[batch == later].min()
        assert told[order][batch == earlier].max() <= finish_s[order][batch == later].min()
    if scenario == "Offline":
        assert len(set(arrival_s)) == 1
    elif scenario == "SingleStream":
        assert (arrival_s[1:] >= finish_s[:-1]).all()
    else:
        assert len(set(arrival_s)) > 1


def test_loadgen_ends_if_the_device_fails(network, monkeypatch):
    run_stage, calls = network.session.run_stage, iter(range(10**6))

    def fails(number, tensors):
        if next(calls) >= 4 * 4 + 10:  # the first sixteen warm up
            raise RuntimeError("stage 2 failed: out of memory")
        return run_stage(number, tensors)

    monkeypatch.setattr(network.session, "run_stage", fails)
    driven = loadgen.drive(network, blank_table(network, 4), "serial", "SingleStream", count=COUNT)
    assert driven.ours.outcome.failure == "stage 2 failed: out of memory"
    assert len(driven.latency_s) == COUNT
    assert 0 < np.isfinite(driven.ours.served.replay.finish_s).sum() < COUNT
