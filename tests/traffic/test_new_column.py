"""A new column of requests is an entry in the table of columns, a stream and an attribute; all else follows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import fluidb

SOURCE = Path(fluidb.__file__).parent
ADDED = {
    "traffic/request_columns.py": (
        ')  # fmt: skip\n"""In the order of a file."""',
        """    RequestColumn(
        name="priority",
        values=(PRIORITY := Number(np.int64, 0, 9, "a priority from 0 to 9")),
        key="priority",
        read=partial(parse_distribution, bounds=PRIORITY, example="shares:0=0.9,1=0.1"),
        stream=PRIORITIES,
        help="Priority of a request, 0 to 9.",
        heading="priorities",
        carried=True,
        reported=True,
    ),
""",
    ),
    "traffic/randomness.py": (") = range(17)", "    PRIORITIES,\n"),
    "traffic/trace.py": ("    measure: Measure = CONFIDENCE\n", "    priority: NDArray[np.int64] | None = None\n"),
}
"""The three files that a column ``priority`` touches: a line in each, and what stands before it."""

USE = '''
from dataclasses import replace
from pathlib import Path

import numpy as np
from fluidb.formats import InputError
from fluidb.serving import find_policy, simulate
from fluidb.studies.comparison import PointResult
from fluidb.studies.scenario_file import CaseKeys
from fluidb.traffic import prepare, read_trace

from builders import table_of

trace = read_trace(Path("t.csv"))
assert (trace.priority.dtype, set(trace.priority)) == (np.int64, {0, 1})
Path("first.py").write_text("""
from fluidb.serving.policies import Decision, go_on
import math

def decide(view, data):
    if view.depth > 0:
        return go_on(view.segments)
    waiting = data.queue[view.first : view.first + view.waiting]
    best = max(range(view.waiting), key=lambda m: data.requests.priority[waiting[m]])
    return Decision(1, best, view.segments, math.inf, True, 0, 0.0)
""")
replay = simulate(table_of([[1.0]]), prepare(trace, [1.0], slo_s=9.0), find_policy("first.py:decide"))
order = replay.columns()["priority"][replay.begun]
assert list(order) == sorted(order, reverse=True), order
try:
    more = prepare(replace(trace, priority=trace.priority + 9), [1.0], slo_s=9.0)
    simulate(table_of([[1.0]]), more, find_policy("serial"))
except InputError as fault:
    assert "priority: expected a priority from 0 to 9, found 10" in str(fault)
else:
    raise AssertionError
assert CaseKeys(table="t", slos=["1s"], offline=True, priority="3").columns.keys() == {"priority"}
assert "priority" in PointResult.model_fields
'''


def test_a_column_of_requests_is_added_in_three_files(tmp_path):
    copy = tmp_path / "fluidb"
    unused = shutil.ignore_patterns(".*", "__pycache__", "tests", "docs", "results", "website", "build", "benchmarks")
    shutil.copytree(SOURCE, copy, ignore=unused)
    for name, (before, line) in ADDED.items():
        text = (copy / name).read_text()
        assert text.count(before) == 1
        grown = text.replace(before, line + before).replace("SLOS, STEPS, WIDTHS", "PRIORITIES, SLOS, STEPS, WIDTHS")
        (copy / name).write_text(grown.replace("range(17)", "range(18)"))
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[1])])
    environment = os.environ | {"PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def python(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    python("-m", "fluidb", "trace", "offline", "--count", "40", "-o", "o.csv")
    python("-m", "fluidb", "trace", "add", "o.csv", "--priority", "shares:0=0.8,1=0.2", "-o", "t.csv")
    assert (tmp_path / "t.csv").read_text().startswith("request_id,arrival_s,priority\n")
    python("-c", USE)
