"""What a server recorded, beside the simulator on the same traffic (``fluidb validate --recorded``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ..formats import AnyPath, InputError, Strict
from ..formats.array_types import Floats
from ..formats.tables import read_json
from ..formats.toml import toml_lines, validate
from ..serving.device_traffic import DeviceTraffic, network_of, prepare_requests
from ..serving.inputs import Requests
from ..serving.networks import ServedNetwork, as_served
from ..serving.replay import simulate
from ..traffic.columns import Name, Number
from ..traffic.reading import EXIT, REQUEST_ID, read_columns, read_trace
from ..traffic.rows import tally_of

TRACE_FILE, OUTCOMES_FILE, SERVED_FILE, NETWORKS_FILE = "trace.csv", "outcomes.csv", "served.json", "networks.toml"

SERVED = "fluidb.served/1"

_SECONDS = Number(np.float64, 0, 1e12, "seconds >= 0")
_COLUMNS: dict[str, Number | Name] = {
    "request_id": REQUEST_ID,
    "outcome": Name(),
    "exit": replace(EXIT, low=0, expected="an exit, or 0"),
    "answer_confidence": Number(np.float64, -1e300, 1e300, "a number"),
    "queue_s": _SECONDS,
    "device_s": _SECONDS,
    "network": Name(),
}


class ServedRecord(Strict):
    """How the samples of a record were served, ``fluidb.served/1``."""

    schema_: Annotated[Literal["fluidb.served/1"], Field(alias="schema")]
    policy: str
    slo_s: list[float]


def networks_text(networks: Sequence[ServedNetwork]) -> str:
    """The file of several networks, whose tables stand in folders of their names."""
    lines = toml_lines({"schema": "fluidb.networks/1"})
    for network in networks:
        keys: dict[str, object] = {"name": network.name, "table": network.name, "weight": network.weight}
        keys |= {"switch": f"{network.switch_s!r}s"} if network.switch_s else {}
        keys |= {} if network.priority is None else {"priority": network.priority}
        keys |= {"admit": network.admit} if isinstance(network.admit, str) else {}
        lines += toml_lines(keys, "[[networks]]")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Side:
    """Samples of a record, as they were served or as the simulator serves them."""

    # of those with an answer; None if there is none
    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    answered_rate: float
    in_time_rate: float

    @classmethod
    def of(cls, latency_s: Floats, slo_s: Floats) -> Side:
        """Of latencies, infinite without an answer."""
        answered = np.isfinite(latency_s)
        known = latency_s[answered]
        rates = float(answered.mean()), float((latency_s <= slo_s).mean())
        if not len(known):
            return cls(None, None, None, None, *rates)
        p50_s, p95_s, p99_s = np.quantile(known, [0.5, 0.95, 0.99], method="inverted_cdf").tolist()
        return cls(float(known.mean()), p50_s, p95_s, p99_s, *rates)


@dataclass(frozen=True, slots=True)
class RecordedError:
    """How far the simulator is off for the traffic of a record."""

    policy: str
    samples: int  # that are compared
    open: int  # that had not left when the record ended
    real: Side
    simulated: Side

    @property
    def error(self) -> float | None:
        """Error of the mean latency, as a share of the real one."""
        if self.real.mean_s is None or self.simulated.mean_s is None:
            return None
        return self.simulated.mean_s / self.real.mean_s - 1


def compare_recorded(folder: AnyPath) -> RecordedError:
    """Serve the samples of a record in the simulator: at their arrivals, with their exits, under the same policy."""
    folder = Path(folder)
    make = "make it with `fluidb serve --record`"
    content = read_json(folder / SERVED_FILE, SERVED, f"expected a record, found no such file; {make}", "no JSON", make)
    served = validate(ServedRecord, content, folder / SERVED_FILE)
    several = folder / NETWORKS_FILE
    networks = as_served(several if several.exists() else folder)
    trace = read_trace(folder / TRACE_FILE)
    with tally_of(
        folder / OUTCOMES_FILE, skip_blank=False, missing=f"expected outcomes, found no such file; {make}"
    ) as tally:
        known = read_columns(tally, _COLUMNS, tuple(_COLUMNS)[:-1])
        tally.refuse()
    if not len(trace) or not len(known["request_id"]):
        raise InputError(f"{folder}: expected a sample that has left, found none; let clients send some")
    place = np.searchsorted(trace.request_id, known["request_id"])
    last = np.array([len(network.latency.exits) for network in networks])
    of = network_of(trace, networks, np.random.default_rng(0))  # stated, or the only one
    exits, latency_s, left = last[of], np.full(len(trace), np.inf), np.zeros(len(trace), dtype=np.bool_)
    answered = known["exit"] > 0
    exits[place[answered]] = known["exit"][answered]
    latency_s[place[answered]] = (known["queue_s"] + known["device_s"])[answered]
    left[place] = True
    assert trace.slo_s is not None
    traffic = prepare_requests(networks, Requests(), replace(trace, exits=exits))
    replay = simulate(networks, _with_objectives(traffic, served.slo_s), served.policy)
    simulated_s = np.where(np.isfinite(replay.finish_s), replay.finish_s - trace.arrival_s, np.inf)
    return RecordedError(
        served.policy, int(left.sum()), int((~left).sum()), Side.of(latency_s[left], trace.slo_s[left]),
        Side.of(simulated_s[left], trace.slo_s[left]),
    )  # fmt: skip


def _with_objectives(traffic: DeviceTraffic, slo_s: Sequence[float]) -> DeviceTraffic:
    """The traffic of each network, whose policy knows the objective that it was served with."""
    parts = tuple(replace(part, objective_s=slo) for part, slo in zip(traffic.parts, slo_s, strict=True))
    return replace(traffic, parts=parts)
