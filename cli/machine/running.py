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
class ModelOptions:
    """What the networks are given, and where they end."""

    inputs: Inputs = None
    exits: Ends = None
    values: Values = None

    def run(self, models: Sequence[str], threads: int) -> list[RealNetwork]:
        """The networks, ready to run; each sample was answered alone."""
        from ...machine.network import RealNetwork

        with progress("samples answered alone") as report:
            return [
                RealNetwork(model, self.inputs, names(self.exits), threads, report, values_of(self.values))
                for model in models
            ]


@dataclass(frozen=True, kw_only=True)
class RunningOptions(ModelOptions, PolicyOptions):
    """The policy, and how the networks are run."""

    slo: Slo = None
    threshold: Threshold = None
    threads: StageThreads = 1

    def served(self, directory: Path) -> tuple[ServedNetwork, ...]:
        """The networks with their measured tables, and with the thresholds that are stated."""
        from ...serving.networks import as_served
        from ...traffic import parse_thresholds

        levels = None if self.threshold is None else parse_thresholds(self.threshold, "threshold")
        return as_served(directory, levels)

    def models(self, models: Sequence[str]) -> list[RealNetwork]:
        """The networks of models that a command names."""
        refuse_shared(models, "a file of several", inputs=self.inputs, exits=self.exits, values=self.values)
        return self.run(models, self.threads)


def refuse_shared(models: Sequence[str], several: str, **given: object) -> None:
    """Refuse options that each of several models would have for itself, by their names."""
    from ...formats import InputError

    for name, value in given.items():
        if value is not None and len(models) > 1:
            raise InputError(f"{name}: expected one network, found {several}; leave it out")
