"""Options of how this machine runs networks under a policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..options import Ends, Inputs, PolicyOptions, Slo, StageThreads, Threshold, names
from ..render import progress
from ..values import Values, values_of

if TYPE_CHECKING:
    from ...machine.network import RealNetwork
    from ...serving.networks import ServedNetwork


@dataclass(frozen=True, kw_only=True)
class RunningOptions(PolicyOptions):
    """The policy, and how the networks are run."""

    inputs: Inputs = None
    exits: Ends = None
    values: Values = None
    slo: Slo = None
    threshold: Threshold = None
    threads: StageThreads = 1

    def served(self, directory: Path) -> tuple[ServedNetwork, ...]:
        """The networks with their measured tables, and with the thresholds that are stated."""
        from ...machine.serve import read_measured
        from ...serving.networks import as_served
        from ...traffic import parse_thresholds

        levels = None if self.threshold is None else parse_thresholds(self.threshold, "threshold")
        return as_served(read_measured(directory), levels)

    def run(self, models: Sequence[str]) -> list[RealNetwork]:
        """The networks, ready to run; each sample was answered alone."""
        from ...formats import InputError
        from ...machine.network import RealNetwork

        if len(models) > 1:  # each has its own
            for name in ("inputs", "exits", "values"):
                if getattr(self, name) is not None:
                    raise InputError(f"{name}: expected one network, found a file of several; leave it out")
        with progress("samples answered alone") as report:
            return [
                RealNetwork(model, self.inputs, names(self.exits), self.threads, report, values_of(self.values))
                for model in models
            ]
