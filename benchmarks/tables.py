"""Results as JSON and as markdown."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
import subprocess
from pathlib import Path
from typing import Any

import numba
import numpy as np
from fluidb import __version__
from rounds import BenchmarkRow, BenchmarkTable
from sources import digest, measured

SCHEMA = "fluidb.bench/1"


def machine() -> dict[str, Any]:
    """The machine that runs the benchmarks."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        compiler = ""
    return {
        "cpu": _cpu(),
        "cores": cores,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numba": numba.__version__,
        "numpy": np.__version__,
        "gcc": compiler.partition("\n")[0].rpartition(" ")[2] or None,
        "fluidb": __version__,
    }


def _cpu() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def write_results(path: Path, tables: list[BenchmarkTable], command: str) -> None:
    """Write a run."""
    run = {
        "schema": SCHEMA,
        "command": command,
        "machine": machine(),
        "sources_sha256": digest(measured()),
        "tables": [dataclasses.asdict(table) for table in tables],
    }
    path.write_text(json.dumps(run, indent=1) + "\n")


def read_results(path: Path) -> tuple[dict[str, Any], list[BenchmarkTable]]:
    """Read the machine and the tables of a run."""
    try:
        run = json.loads(path.read_text())
        assert run["schema"] == SCHEMA
        tables = [
            BenchmarkTable(**table | {"rows": [BenchmarkRow(**row) for row in table["rows"]]})
            for table in run["tables"]
        ]
        return run["machine"], tables
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; make one with `make bench OUT=run.json`") from None
    except (ValueError, KeyError, TypeError, AssertionError):
        raise ValueError(f"{path}: expected a run, {SCHEMA}; make one with `make bench OUT=run.json`") from None


def machine_text(machine: dict[str, Any]) -> str:
    """The machine and its tools, in a line."""
    tools = ", ".join(f"{name} {machine[name]}" for name in ("python", "numba", "numpy", "gcc") if machine[name])
    return f"Written by `make bench` on {machine['cores']} cores of {machine['cpu']}, {machine['system']}; {tools}.\n"


def quantity(value: float, unit: str) -> str:
    """Write a value with three digits and a prefix: 0.00123 s is 1.23 ms."""
    prefixes = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")]
    if unit == "s":
        prefixes = prefixes[3:]
    scale, prefix = next((pair for pair in prefixes if value >= 0.9995 * pair[0]), prefixes[-1])
    return f"{np.format_float_positional(value / scale, 3, fractional=False, trim='-')} {prefix}{unit}".rstrip()


def ratio_text(table: BenchmarkTable, row: BenchmarkRow) -> str:
    """Time of a row over the time of its reference: median and range over rounds."""
    ratios = table.ratios(row)
    if not ratios:
        return ""
    middle = statistics.median(ratios)
    form = "{:.2f}" if middle < 10 else "{:,.0f}" if middle < 1e6 else "{:.1e}"
    span = f" ({form} to {form})".format(min(ratios), max(ratios)) if len(ratios) > 1 else ""
    return f"{form.format(middle)}{span} x {row.against}"


def markdown(table: BenchmarkTable) -> str:
    """A table with its heading, its sentences, its remarks."""
    columns = {
        "": [row.name for row in table.rows],
        "time": [quantity(row.median_s, "s") for row in table.rows],
        f"{table.unit}/s": [quantity(row.rate, "") if row.work else "" for row in table.rows],
        "ratio of times": [ratio_text(table, row) for row in table.rows],
        "peak memory": [f"{max(row.peak_mb):,.0f} MB" if row.peak_mb else "" for row in table.rows],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    shown = [row.shown for row in table.rows]
    count = len(table.rows[0].seconds)
    lines = [f"## {table.title}", "", f"{table.about} {count} round{'s' * (count > 1)}.", ""]
    lines += ["| " + " | ".join(columns) + " |", "|---|" + "---:|" * (len(columns) - 1)]
    cells = zip(shown, zip(*columns.values(), strict=True), strict=True)
    lines += ["| " + " | ".join(row) + " |" for visible, row in cells if visible]
    lines.append("")
    for remark in table.remarks:
        lines += [remark, ""]
    return "\n".join(lines)
