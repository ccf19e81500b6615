"""Picture of ``fluidb validate``: simulated over real latency, run by run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..machine.validation import Validation
from .canvas import COLOURS, canvas, describe, durations, round_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_validation(validation: Validation) -> Figure:
    """Draw simulated over measured latency, for the mean and the p99."""
    policies = list(dict.fromkeys(trial.policy for trial in validation.trials))
    largest_s = max(max(trial.real.p99_s, trial.simulated.p99_s) for trial in validation.trials)
    unit, per_s = durations(largest_s)
    with canvas(8.0, 4.2) as figure:
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        for axes, (figure_name, label) in zip(panels, (("mean_s", "mean"), ("p99_s", "p99")), strict=True):
            ends = []
            for colour, policy in zip(COLOURS, policies, strict=False):
                here = [trial for trial in validation.trials if trial.policy == policy]
                real, table, runs = (
                    per_s * np.array([getattr(getattr(trial, kind), figure_name) for trial in here])
                    for kind in ("real", "simulated", "replayed")
                )
                axes.plot(real, table, "o", color=colour, fillstyle="none", label=policy)
                axes.plot(real, runs, ".", color=colour, label=f"{policy}, measured runs")
                ends += [*real, *table, *runs]
            axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color=COLOURS[-1], linewidth=0.8)
            axes.set_xscale("log")
            axes.set_yscale("log")
            round_ticks(axes.xaxis, axes.yaxis)
            axes.set_xlabel(f"{label} latency on the machine, {unit}")
            axes.set_ylabel(f"in the simulator, {unit}")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(3, len(policies)))
        errors = {
            name: np.median([abs(getattr(it.simulated, name) / getattr(it.real, name) - 1) for it in validation.trials])
            for name in ("mean_s", "p99_s")
        }
        said = (
            f"In the median of {len(validation.trials)} runs, the simulated mean latency is "
            f"{100 * errors['mean_s']:.1f} % off the machine's, and the p99 {100 * errors['p99_s']:.1f} %."
        )
        return describe(figure, "Simulated over real latency, mean and p99; on the line both agree", said)
