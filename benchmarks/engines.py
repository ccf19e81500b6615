"""Measure how often the error of a calibrated engine holds a further network: ``make coverage``.

For every machine of ``machines/`` and every DPU board, networks are drawn again and again.  An engine is calibrated
with some, each left out in turn for the error, and predicts the others.  Writes ``engines.json``, and the tables of
``README.md`` from it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fluidb import __version__
from fluidb.dse.device.calibration import calibrate
from fluidb.dse.device.errors import FEWEST, log_ratios
from fluidb.dse.device.fit import CONSTANTS
from fluidb.dse.device.measurements import Measurement, read_measurements
from fluidb.papers.hardware import MEASUREMENTS
from fluidb.platforms import load_platform
from fluidb.platforms.engine import Engine
from pages import write_part

HERE = Path(__file__).parent
RESULTS = HERE / "engines.json"
PAGE = HERE / "README.md"
SCHEMA = "fluidb.engine-coverage/1"

DPUS = ("dpu-b4096-zcu102", "dpu-b4096-zcu104", "dpu-b4096-kv260", "dpu-b1600-ultra96")
MORE = DPUS[:3]
"""DPUs whose times are in ``dpu-more.csv``."""
MACHINES = (
    ("gemmini", "gemmini.csv"),
    *((f"chaidnn-{dsps}", "chaidnn.csv") for dsps in (128, 256, 512, 1024)),
    ("h200-fp16", "h200-fp16.csv"),
    ("h200-fp16", "h200-fp16-layers.csv"),
    ("h200-fp32", "h200-fp32.csv"),
)
"""Engines of ``machines/``, and the files with their times."""
FITS = 0.5
"""Share of the error without constants that is left where the form fits."""


class Machine(NamedTuple):
    """An engine and its measured times."""

    engine: Engine
    rows: list[Measurement]

    @property
    def name(self) -> str:
        """Its engine, and whether layers were measured."""
        return f"{self.engine.name}{', layers' if any(row.layer for row in self.rows) else ''}"

    @property
    def networks(self) -> list[str]:
        """The networks that were measured."""
        return sorted({row.network for row in self.rows})


def machines() -> list[Machine]:
    """Every machine."""
    folder = HERE / "machines"
    engines = [(load_platform(name, kind=Engine), MEASUREMENTS) for name in DPUS]
    engines += [(load_platform(folder / f"{name}.toml", kind=Engine), folder / file) for name, file in MACHINES]
    return [Machine(engine, read_measurements(file, engine)) for engine, file in engines]


def measure(machine: Machine, splits: int) -> dict[str, Any]:
    """Errors of networks left out, and how many of the networks of random splits lie within the interval."""
    whole = calibrate(machine.engine, machine.rows)
    draw, names = np.random.default_rng(1), machine.networks
    within = judged = 0
    for _ in range(splits if len(names) > FEWEST else 0):
        seen = set(draw.permutation(names)[: draw.integers(FEWEST, len(names))].tolist())
        calibration = calibrate(machine.engine, [row for row in machine.rows if row.network in seen])
        if calibration.error is None:
            continue
        away = [row for row in machine.rows if row.network not in seen]
        logs = log_ratios(calibrate(calibration.engine, away, keep=CONSTANTS).rows).values()
        within += sum(math.log(calibration.error.low) <= log <= math.log(calibration.error.high) for log in logs)
        judged += len(logs)
    return {
        "machine": machine.name, "networks": len(names), "rows": len(machine.rows),
        "none": round(whole.without.mean, 4), "kept": round(whole.earned.mean, 4), "constants": whole.earned.constants,
        "judged": judged, "within": within,
    }  # fmt: skip


def check_more() -> list[dict[str, Any]]:
    """Errors of the DPUs that ship on rows that nothing of them was fitted to or judged by."""
    file, errors = HERE / "machines" / "dpu-more.csv", []
    for name in MORE:
        engine = load_platform(name, kind=Engine)
        low, high = engine.measured_low or 0.0, engine.measured_high or 0.0
        for row in calibrate(engine, read_measurements(file, engine), keep=CONSTANTS).rows:
            inside = low <= row.measured_s / row.predicted_s <= high
            network = row.network.removesuffix(".toml")
            errors.append({"machine": name, "network": network, "error": round(row.error, 4), "inside": inside})
    return errors


def tables(run: dict[str, Any]) -> str:
    """What the page shows of a run."""
    header = ["machine", "networks", "rows", "without constants", "constants kept", "", "further networks inside"]
    rows = []
    for machine in run["machines"]:
        ratio = machine["kept"] / machine["none"]
        said = f"the form fits: {ratio:.2f} of it" if ratio <= FITS else f"the form does not fit: {ratio:.2f} of it"
        inside = (
            f"{machine['within'] / machine['judged']:.0%} of {machine['judged']}" if machine["judged"] else "too few"
        )
        errors = f"{machine['none']:.1%}", f"{machine['kept']:.1%} ({', '.join(machine['constants']) or 'none'})"
        rows.append([machine["machine"], f"{machine['networks']}", f"{machine['rows']}", *errors, said, inside])
    within, judged = (sum(machine[key] for machine in run["machines"]) for key in ("within", "judged"))
    more: dict[str, dict[str, list[str]]] = {}
    for row in run["more"]:
        cell = f"{row['error']:+.1%}{'' if row['inside'] else ', outside'}"
        more.setdefault(row["network"], {}).setdefault(row["machine"], []).append(cell)
    others = [[network, *(" and ".join(of[name]) for name in MORE)] for network, of in more.items()]
    return (
        f"Measured with {run['splits']} splits of each machine by\n`{run['command']}`, {run['version']}.\n"
        f"Of {judged:,} networks that were not fitted {within / judged:.1%} lie within the 90 % interval.\n\n"
        f"{_lines(header, rows)}\n"
        "Networks of the DPUs' vendor that [our results](../results/hardware/README.md) leave out, predicted\n"
        "by the engines that ship: predicted over measured time, less 1, and whether it is outside of the\n"
        "interval.\n\n"
        f"{_lines(['network', *MORE], others)}"
    )


def _lines(header: list[str], rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, ["---"] * len(header), *rows])


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="make coverage", description=__doc__)
    parser.add_argument("--splits", type=int, default=15, help="random splits of each machine")
    parser.add_argument("--render", action="store_true", help="measure nothing; write the page from engines.json")
    options = parser.parse_args()
    if not options.render:
        measured = []
        for machine in machines():
            measured.append(measure(machine, options.splits))
            print(measured[-1], file=sys.stderr)
        run = {
            "schema": SCHEMA, "command": f"python benchmarks/engines.py --splits {options.splits}",
            "version": f"fluidb {__version__}", "splits": options.splits, "machines": measured, "more": check_more(),
        }  # fmt: skip
        RESULTS.write_text(json.dumps(run, indent=1) + "\n")
    write_part(PAGE, "engines", tables(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
