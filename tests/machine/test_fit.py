"""Speed of a device from a sweep of convolutions: exact lines, the boundary, faults by row, and a real sweep."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
from builders import Run, lines
from fluidb.machine.fit import Convolution, fit_device, fit_line
from fluidb.machine.sweep import SWEEP, measure_convolutions, write_sweep
from hypothesis import given, settings
from hypothesis import strategies as st

HEADER = "height,width,in_channels,out_channels,kernel,seconds\n"


def test_flops_by_hand():
    """Equation 2 for a 2 x 3 output of 4 channels, of 5 channels and a 3 x 3 kernel: 2 * 6 * (45 + 1) * 4."""
    assert Convolution(2, 3, 5, 4, 3).gflop == pytest.approx(2208e-9, rel=1e-15)


def test_a_line_comes_back_exactly(tmp_path):
    seconds = [item.gflop / 12.5 + 3e-4 for item in SWEEP]
    write_sweep(SWEEP, seconds, tmp_path / "s.csv", replace=False)
    found = fit_device(tmp_path / "s.csv")
    assert (found.gflop_s, found.layer_s, found.r2) == pytest.approx((12.5, 3e-4, 1.0))
    assert [point.convolution for point in found.points] == SWEEP
    assert [point.measured_s for point in found.points] == seconds
    assert max(abs(point.residual_s) for point in found.points) < 1e-15


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=8))
def test_no_other_line_with_a_fixed_part_of_at_least_0_fits_better(points):
    work, time_s = np.array(points, dtype=float).T
    if len(set(work)) < 2:
        return
    slope, fixed = fit_line(work, time_s)
    assert fixed >= 0

    def squares(a: float, b: float) -> float:
        return float(sum((y - a * x - b) ** 2 for x, y in zip(work, time_s, strict=True)))

    best = squares(slope, fixed)
    for a in np.linspace(-9, 10, 58):
        for b in np.linspace(0, 20, 61):
            assert best <= squares(a, b) + 1e-9


def test_a_negative_fixed_time_becomes_0(fluidb: Run, tmp_path):
    """Times that grow faster than the work: ordinary least squares would cross below 0."""
    (tmp_path / "s.csv").write_text(f"{HEADER}1,1,1,1,1,1\n2,1,1,1,1,4\n")  # 4 and 8 operations
    done = fluidb("platforms", "fit", "s.csv", "--plot", "s.svg", "--json")
    record = json.loads(done.stdout)
    assert record["layer_s"] == 0
    assert 1 / record["gflop_s"] == pytest.approx((4 * 1 + 8 * 4) / (16 + 64) * 1e9)
    assert "R2" in (tmp_path / "s.svg").read_text()
    assert "0 ms a layer, the least allowed" in fluidb("platforms", "fit", "s.csv").stdout


FAULTS = {
    "none": (None, "s.csv: expected a sweep of convolutions, found no such file; make one with `fluidb platforms"),
    "column": ("height,width\n1,1\n", "header: expected a column in_channels, found none"),
    "unknown": ("size," + HEADER + "1,1,1,1,1,1,1\n", 'header: unknown column "size"'),
    "no rows": (HEADER, "expected at least one convolution, found no rows"),
    "zero": (f"{HEADER}1,1,1,1,1,1\n1,1,1,0,1,1\n", "row 2 (line 3): out_channels: expected a whole number from 1 to"),
    "time": (f"{HEADER}1,1,1,1,1,1\n2,1,1,1,1,-1\n", "row 2 (line 3): seconds: expected seconds, from 1e-9 to 1e6"),
    "alone": (f"{HEADER}1,2,1,1,1,1\n2,1,1,1,1,1\n", "at least two different numbers of FLOPs, found one"),
    "falling": (f"{HEADER}1,1,1,1,1,2\n2,1,1,1,1,1\n", "expected times that grow with FLOPs, found -2.5e+11 ms for"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_of_a_sweep_is_one_clear_line(fluidb: Run, tmp_path, case):
    text, expected = FAULTS[case]
    if text is not None:
        (tmp_path / "s.csv").write_text(text)
    found = lines(fluidb("platforms", "fit", "s.csv"))
    assert expected in found[0]


def test_convolutions_run_in_onnx_runtime_and_are_what_they_are_called():
    """The output has the size that the FLOPs are counted for, also with an even kernel."""
    pytest.importorskip("onnxruntime")
    from fluidb.machine.sweep import _session

    convolutions = [Convolution(5, 4, 3, 2, kernel) for kernel in (1, 2, 3, 5)]
    for convolution in convolutions:
        (output,) = np.array(_session(convolution, 1)())
        assert output.shape == (1, 2, 5, 4)
    seen: list[tuple[int, int]] = []
    found = measure_convolutions(convolutions[:2], repeats=1, threads=1, progress=lambda *at: seen.append(at))
    assert len(found) == 2
    assert min(found) > 0
    assert seen == [(1, 2), (2, 2)]


def test_without_the_extra_the_command_says_which(fluidb: Run, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "fluidb.formats.extras.find_spec",
        lambda name: None if name == "onnxruntime" else find(name),
    )
    (line,) = lines(fluidb("platforms", "sweep", "-o", "s.csv"))
    assert line.endswith(
        "sweep: a real device needs onnxruntime, which is not installed; "
        "run pip install '.[onnx,runtime]' in the folder of fluidb's sources"
    )
    (tmp_path / "s.csv").write_text("")
    assert "exists" in lines(fluidb("platforms", "sweep", "-o", "s.csv"))[0]
