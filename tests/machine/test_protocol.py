"""How a machine is measured: from a device whose times are known, the protocol reads exactly these."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import numpy as np
import pytest
from builders import COMPILED
from fluidb.machine import protocol as measuring_protocol
from fluidb.machine.clock import VirtualClock
from fluidb.machine.protocol import IN_A_ROW, run_protocol
from fluidb.machine.runner import TableRunner

pytestmark = pytest.mark.skipif(not COMPILED, reason="the loop is tested as plain Python elsewhere")

TIMES_S = np.array([[3.0, 4.0, 6.5], [1.0, 2.5, 3.0]]) / 1024
WAKE_UP_S = 0.25 / 1024


class Clock(VirtualClock):
    """A virtual clock in the place of the machine's."""

    made: ClassVar[list[VirtualClock]] = []

    def __init__(self, arrival_s, stop):
        super().__init__(arrival_s)
        self.made.append(self)

    def running(self):
        return contextlib.nullcontext()


class Known(TableRunner):
    """A device whose times are known."""

    def __init__(self, ran):
        super().__init__(Clock.made[-1], self.time_of)
        self.ran, self.gathers, self.busy_until_s = ran, [], -1.0

    def time_of(self, launch):
        idle = launch.now_s > self.busy_until_s
        took_s = TIMES_S[launch.segment, len(launch.members) - 1] + idle * WAKE_UP_S
        self.busy_until_s = launch.now_s + took_s
        self.ran.append((launch.segment, len(launch.members), bool(idle)))
        if launch.segment:
            self.gathers.append((launch.number, launch.places, 1.0))
        return took_s


class Network:
    """As much of a network as the protocol asks for."""

    name, exits, cores, path = "known", ["a", "b"], (), "known.onnx"

    def __init__(self):
        self.ran = []

    def __len__(self):
        return 7

    def runner(self, rows):
        assert ((rows >= 0) & (rows < 7)).all()
        return Known(self.ran)


@pytest.mark.parametrize("shares", [(0.75, 0.25), (1.0, 0.0), (0.0, 1.0)])
def test_the_protocol_reads_the_times_of_a_known_device(monkeypatch, shares):
    monkeypatch.setattr(measuring_protocol, "WallClock", Clock)
    network: Any = Network()
    seen = run_protocol(network, np.array(shares), 3, 4, np.random.default_rng(5))
    np.testing.assert_allclose(seen.stage_s[:, :, 1:], np.broadcast_to(TIMES_S, (4, 2, 3)), rtol=1e-9)
    np.testing.assert_allclose(seen.wake_up_s, WAKE_UP_S, rtol=1e-9)
    assert (seen.gathers[:, 2] == 1.0).all()
    rounds = seen.gathers[:, 0]
    assert (np.diff(rounds) >= 0).all()
    assert set(rounds) == {0, 1, 2, 3}
    first = [batch for segment, batch, idle in network.ran if segment == 0 and not idle]
    assert first.count(3) >= 4 * (1 + IN_A_ROW)
