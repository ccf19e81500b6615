"""Logs as others write them: one clock for several files, counts, networks, deadlines, packed files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fluidb.formats import InputError
from fluidb.traffic import read_trace, superpose, write_trace
from fluidb.traffic.importers import ImportedTrace, ImportOptions, import_trace
from fluidb.traffic.transforms import for_network, named_files

CAMERAS = {"a": "t_ms\n500\n600\n", "b": "t_ms\n200\n250\n"}
"""Two files of one clock, in milliseconds (issue 46, F10)."""


def made_of(folder: Path, text: str, kind: str = "csv", **options: Any) -> ImportedTrace:
    path = folder / "log.csv"
    path.write_text(text)
    return import_trace(kind, path, ImportOptions(**options))


def test_files_of_one_clock_stay_aligned(tmp_path):
    options: dict[str, Any] = {"columns": {"arrival": "t_ms"}, "unit": "ms", "zero": "200"}
    traces = {name: made_of(tmp_path, text, **options) for name, text in CAMERAS.items()}
    assert traces["a"].time_zero == "0.2 s in the file"
    merged = superpose([for_network(made.trace, name) for name, made in traces.items()])
    assert merged.arrival_s.tolist() == pytest.approx([0, 0.05, 0.3, 0.4])
    assert merged.network is not None
    assert merged.network.tolist() == ["b", "b", "a", "a"]
    with pytest.raises(InputError, match="zero: expected a time up to the first arrival, found one 0.05 s after it"):
        made_of(tmp_path, CAMERAS["b"], **options | {"zero": "250"})
    with pytest.raises(InputError, match='zero: expected a time in milliseconds, .*found "noon"'):
        made_of(tmp_path, CAMERAS["b"], **options | {"zero": "noon"})


def test_a_calendar_has_a_zero_too(tmp_path):
    made = made_of(tmp_path, "at\n2024-05-10 08:00:01.5\n", columns={"arrival": "at"}, unit="iso",
                   zero="2024-05-10T10:00:00+02:00")  # fmt: skip
    assert made.trace.arrival_s.tolist() == [1.5]
    assert made.time_zero == "2024-05-10T08:00:00.000000000Z"


def test_networks_widths_steps_and_deadlines(tmp_path):
    text = "at,net,w,n,due\n2,cam,64,3,2.5\n1,mic,8,1,4\n"
    columns = {"arrival": "at", "network": "net", "width": "w", "steps": "n", "deadline": "due"}
    trace = made_of(tmp_path, text, columns=columns, unit="s").trace
    write_trace(trace, tmp_path / "t.csv")
    back = read_trace(tmp_path / "t.csv")
    assert {name: values.tolist() for name, values in back.columns().items()} == {
        "request_id": [0, 1], "arrival_s": [0.0, 1.0], "slo_s": [3.0, 0.5], "steps": [1, 3], "width": [8.0, 64.0],
        "network": ["mic", "cam"],
    }  # fmt: skip
    with pytest.raises(InputError, match=r"line 2: expected a deadline after the arrival, found one 1 s before it"):
        made_of(tmp_path, text.replace("2.5", "1"), columns=columns, unit="s")


def test_counts_become_arrivals(tmp_path):
    """Each within its interval, as many as counted; half of them in each half."""
    text = "t,n\n60,4000\n0,1000\n180,2000\n"
    options: dict[str, Any] = {"columns": {"arrival": "t", "count": "n"}, "unit": "s", "zero": "0"}
    arrival = made_of(tmp_path, text, "counts", **options).trace.arrival_s
    assert np.histogram(arrival, [0, 60, 120, 180, 240])[0].tolist() == [1000, 4000, 0, 2000]
    assert np.histogram(arrival[1000:5000], [60, 90, 120])[0] == pytest.approx([2000, 2000], abs=5 * np.sqrt(1000))
    again = made_of(tmp_path, text, "counts", **options).trace.arrival_s
    assert np.array_equal(again, arrival)
    with pytest.raises(InputError, match="expected intervals that begin at two different times"):
        made_of(tmp_path, "t,n\n0,5\n", "counts", **options)


def test_a_packed_file_is_read_and_a_damaged_one_refused(tmp_path):
    packed = gzip.compress(CAMERAS["a"].encode())
    options = ImportOptions({"arrival": "t_ms"}, "ms")
    path = tmp_path / "log.csv.gz"
    path.write_bytes(packed)
    assert import_trace("csv", path, options).trace.arrival_s.tolist() == [0.0, 0.1]
    rng = np.random.default_rng(0)
    for raw in (b"", b"t_ms\n1\n", packed[:-9], packed[:12] + b"\xff" + packed[13:], *(
        bytes(rng.permutation(list(packed))) for _ in range(20)
    )):  # fmt: skip
        path.write_bytes(raw)
        with pytest.raises(InputError, match=r"log\.csv\.gz: expected") as caught:
            import_trace("csv", path, options)
        assert len(caught.value.faults) == 1


def test_files_with_their_networks(tmp_path):
    assert named_files(["cam=a.csv", "mic=b.csv"]) == [("cam", Path("a.csv")), ("mic", Path("b.csv"))]
    assert named_files(["a.csv", "b.csv"]) == [(None, Path("a.csv")), (None, Path("b.csv"))]
    with pytest.raises(InputError, match='for all or for none, found "b.csv" without a network'):
        named_files(["cam=a.csv", "b.csv"])
