"""Whole commands against what nobody can do without: Python, numba, a Typer hello-world.

Every command is a fresh process; commands take turns, so that a machine that
slows down slows all of them; figures are medians.  Writes ``results.json`` and
the table in the README.  ``--smoke`` runs everything once and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- benchmarks: begin -->\n", "<!-- benchmarks: end -->\n"
FLUIDB = str(Path(sys.executable).with_name("fluidb"))
HELLO = """
import typer
app = typer.Typer()
@app.command()
def main(name: str = "world") -> None:
    print("hello", name)
app()
"""


@dataclass(frozen=True)
class Command:
    """A command, and the one its time is divided by."""

    name: str
    arguments: list[str]
    against: str | None = None
    cold: bool = False


def commands(folder: Path) -> list[Command]:
    """What is timed; ``folder`` holds a design and a trace."""
    design, trace = str(folder / "design"), str(folder / "t.csv")
    search = [FLUIDB, "dse", "resnet50", "zc706"]
    return [
        Command("python -c 'import numba'", [sys.executable, "-c", "import numba"]),
        Command("Typer hello-world --help", [sys.executable, str(folder / "hello.py"), "--help"]),
        Command("fluidb --help", [FLUIDB, "--help"], "Typer hello-world --help"),
        Command("fluidb dse resnet50 zc706", search, "python -c 'import numba'"),
        Command("the same, nothing compiled yet", search, "python -c 'import numba'", cold=True),
        Command("fluidb latency", [FLUIDB, "latency", design], "python -c 'import numba'"),
        Command(
            "fluidb serve-sim, 20,000 requests",
            [FLUIDB, "serve-sim", design, "--trace", trace, "--policy", "fluid", "--slo", "200ms"],
            "python -c 'import numba'",
        ),
    ]


def prepare(folder: Path) -> None:
    """A design and a trace to work on; compiles what is not compiled yet."""
    (folder / "hello.py").write_text(HELLO)
    for arguments in (
        ["dse", "resnet50", "zc706", "-o", "design"],
        ["latency", "design"],
        ["trace", "poisson", "--rate", "15", "--count", "20000", "--seed", "1", "-o", "t.csv"],
    ):
        subprocess.run([FLUIDB, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def seconds(command: Command) -> float:
    """Wall time of one run."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if command.cold else {})
        begin = time.perf_counter()
        subprocess.run(command.arguments, check=True, stdout=subprocess.DEVNULL, env=environment)
        return time.perf_counter() - begin


def measure(rounds: int) -> list[dict[str, object]]:
    """Median wall time of every command, and its ratio to what it is held against."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        runs = [{command.name: seconds(command) for command in commands(folder)} for _ in range(rounds)]
        rows: list[dict[str, object]] = []
        for command in commands(folder):
            row: dict[str, object] = {
                "command": command.name,
                "median_s": statistics.median(run[command.name] for run in runs),
                "against": command.against,
            }
            if command.against is not None:
                row["ratio"] = statistics.median(run[command.name] / run[command.against] for run in runs)
            rows.append(row)
        return rows


def markdown(rows: list[dict[str, object]], rounds: int) -> str:
    """The README's table."""
    lines = ["| command | seconds | ratio |", "|---|---:|---:|"]
    for row in rows:
        ratio = f"{row['ratio']:.2f} x {row['against']}" if row["against"] else ""
        lines.append(f"| {row['command']} | {row['median_s']:.3f} | {ratio} |")
    where = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}"
    lines += ["", f"Medians of {rounds} rounds, whole processes, on {where}; written by `make bench`.", ""]
    return "\n".join(lines)


def main() -> None:
    """Measure and write, or only run once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="run everything once, write nothing")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    rounds = 1 if options.smoke else options.rounds
    rows = measure(rounds)
    table = markdown(rows, rounds)
    print(table)
    if options.smoke:
        return
    (HERE / "results.json").write_text(json.dumps({"rounds": rounds, "rows": rows}, indent=1) + "\n")
    before, rest = README.read_text().split(BEGIN)
    README.write_text(before + BEGIN + table + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
