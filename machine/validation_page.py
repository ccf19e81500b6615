"""The page of ``fluidb validate -o``: facts, verdicts, a picture, and every run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import fields

from ..formats import AnyPath, OwnFolder
from ..formats.sources import made_with
from .validation import Trial, TrialFigures, Validation

PAGE, PICTURE, RUNS = "README.md", "validation.svg", "runs.csv"

KINDS = ("real", "simulated", "replayed")


VALIDATION_FOLDER = OwnFolder("a page of `fluidb validate`", RUNS, (PAGE, PICTURE, RUNS))


def write_validation(
    validation: Validation,
    network: str,
    about: Mapping[str, str],
    tables: Iterable[str],
    command: str,
    picture: bytes,
    folder: AnyPath,
    *,
    replace: bool = False,
) -> None:
    """Write the page, its picture and all runs, whole or not at all."""
    facts = {**about, **made_with()}
    lines = [
        f"# The simulator against a machine: {network}", "",
        f"Written by `{command}`.",
        f"`fluidb docs real-device` explains the columns and the verdicts; [{RUNS}]({RUNS}) has every run.", "",
        *(f"- {name}: {value}" for name, value in facts.items()), "",
    ]  # fmt: skip
    for table in tables:
        lines += [table, ""]
    lines += [f"![Latencies of the simulator over those of the machine]({PICTURE})", ""]
    VALIDATION_FOLDER.write(
        folder, {PAGE: "\n".join(lines), PICTURE: picture, RUNS: runs_text(validation.trials)}, replace=replace
    )


def runs_text(trials: Iterable[Trial]) -> str:
    """Every run as CSV: the figures of :class:`TrialFigures` on the machine, simulated, and with measured runs."""
    figures = [field.name for field in fields(TrialFigures)]
    rest = ("drift", "half_width", "sensitivity", "answers_wrong")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["load", "policy", "repeat", *(f"{kind}_{name}" for kind in KINDS for name in figures), *rest])
    for trial in trials:
        values = [getattr(getattr(trial, kind), name) for kind in KINDS for name in figures]
        writer.writerow([trial.load, trial.policy, trial.repeat, *values, *(getattr(trial, name) for name in rest)])
    return text.getvalue()
