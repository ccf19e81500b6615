"""What the service of a network depends on: a run that is kept is found again by it, and only by it."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from fluidb.serving.networks import ServedNetwork
from fluidb.traffic.measures import ENTROPY
from fluidb.traffic.own import OwnTraffic
from fluidb.traffic.samples import Samples

SAMPLES = Samples(np.array([[0.9], [0.4]]), np.array([[True, True], [False, True]]))


def test_every_field_but_the_table_is_part_of_the_key(tmp_path: Path) -> None:
    """Of files their content counts, under one name."""
    trace = tmp_path / "t.csv"
    trace.write_text("request_id,arrival_s\n1,0.5\n")
    whole = {"name": "a", "slo_s": 0.1, "samples": SAMPLES, "traffic": OwnTraffic(trace=trace)}
    first = ServedNetwork(table="d", **whole)
    others: dict[str, list[Any]] = {
        "name": ["b"],
        "slo_s": [0.2, None],
        "samples": [
            None,
            SAMPLES[::-1],
            replace(SAMPLES, correct=~SAMPLES.correct),
            replace(SAMPLES, measure=ENTROPY),
            replace(SAMPLES, width=np.ones(2)),
        ],
        "threshold": [0.5, (0.5, 0.6)],
        "share": [2.0],
        "weight": [2.0],
        "switch_s": [0.1],
        "admit": ["queue:3"],
        "cores": [(1,)],
        "priority": [1],
        "traffic": [None, OwnTraffic(rate_per_s=3.0, lasts_s=1.0)],
    }
    assert others.keys() == {field.name for field in fields(ServedNetwork)} - {"table"}
    keys = [replace(first, **{name: value}).key for name, values in others.items() for value in values]
    before = first.key
    for more, value in (("", ""), (",width", ",2"), (",slo_s", ",2")):
        trace.write_text(f"request_id,arrival_s{more}\n1,0.6{value}\n")
        keys.append(first.key)
    keys.append(before)
    assert len({str(key) for key in keys}) == len(keys)
