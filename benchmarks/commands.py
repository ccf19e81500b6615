"""Whole commands against their least cost: Python with numba, and a Typer hello-world."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rounds import BenchmarkTable, Entrant, Sample, process, take_turns

FLUIDB = str(Path(sys.executable).with_name("fluidb"))
NUMBA, HELLO = "python -c 'import numba'", "Typer hello-world --help"
HELP, SERVE = "fluidb --help", "fluidb serve-sim, 20,000 requests"
HELLO_WORLD = """
import typer
app = typer.Typer()
@app.command()
def main(name: str = "world") -> None:
    print("hello", name)
app()
"""
PREPARE = [
    ["dse", "resnet50", "zc706", "-o", "r50-zc706"],
    ["latency", "r50-zc706"],
    ["trace", "poisson", "--rate", "15", "--count", "20000", "--seed", "1", "-o", "t.csv"],
]


@contextmanager
def prepared() -> Iterator[dict[str, Entrant]]:
    """Whole processes by their names, while the folder with their inputs exists."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "hello.py").write_text(HELLO_WORLD)
        for arguments in PREPARE:  # compiles what is not compiled yet
            subprocess.run([FLUIDB, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        design, trace = str(folder / "r50-zc706"), str(folder / "t.csv")
        search = [FLUIDB, "dse", "resnet50", "zc706"]
        serve = [FLUIDB, "serve-sim", design, "--trace", trace, "--policy", "fluid", "--slo", "200ms"]

        def cold() -> Sample:
            with tempfile.TemporaryDirectory() as cache:
                return process(search, {"NUMBA_CACHE_DIR": cache})

        rows = [
            Entrant(NUMBA, lambda: process([sys.executable, "-c", "import numba"])),
            Entrant(HELLO, lambda: process([sys.executable, folder / "hello.py", "--help"])),
            Entrant(HELP, lambda: process([FLUIDB, "--help"]), HELLO, ours=True),
            Entrant("fluidb dse resnet50 zc706", lambda: process(search), NUMBA, ours=True),
            Entrant("the same, nothing compiled yet", cold, NUMBA, ours=True),
            Entrant("fluidb latency r50-zc706", lambda: process([FLUIDB, "latency", design]), NUMBA, ours=True),
            Entrant(SERVE, lambda: process(serve), NUMBA, ours=True),
        ]
        yield {row.name: row for row in rows}


def measure(rounds: int) -> BenchmarkTable:
    """Wall time and peak memory of whole processes."""
    about = "Whole processes, from start to exit, with their peak memory."
    with prepared() as entrants:
        return BenchmarkTable("commands", "Commands", about, take_turns(list(entrants.values()), rounds))
