"""The benchmarks run; how fast, no test says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import COMPILED

ROOT = Path(__file__).parent.parent


def test_commands_run_and_make_the_table_of_the_readme():
    script = ROOT / "benchmarks" / "commands.py"
    done = subprocess.run([sys.executable, script, "--smoke"], capture_output=True, text=True, check=True)
    header = done.stdout.splitlines()[0]
    assert header == "| command | seconds | ratio |"
    assert header in (ROOT / "README.md").read_text()


@pytest.mark.skipif(not COMPILED, reason="searches a board of the paper: minutes as plain Python")
def test_simulator_agrees_with_simpy():
    script = ROOT / "benchmarks" / "simulator.py"
    done = subprocess.run([sys.executable, script, "--smoke"], capture_output=True, text=True, check=True)
    assert "simpy_requests_per_s" in done.stdout
