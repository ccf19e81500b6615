"""Reruns of the experiments of papers: scenarios, and single points under changed assumptions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from ..dse.npu.choices import Overlap
from ..dse.npu.design import DesignTable, tabulate_design
from ..dse.npu.fbcb import FbcbTable
from ..dse.npu.options import SearchOptions
from ..dse.npu.search import search
from ..formats.array_types import Floats
from ..models import Network
from ..platforms import Board
from ..serving.statistics import mean_interval
from ..studies.comparison import Comparison, Standing, compare
from ..studies.scenario import Contender, GridPoint, Scenario, load_scenario
from ..studies.store import GridRun, ServingTable, Store, find_engines, run_each
from ..studies.workers import Workers
from .rows import Row


def row(
    quantity: str,
    of: str,
    at: str,
    unit: str,
    values: Floats,
    paper: float | None = None,
    x: float | None = None,
    basis: str = "",
) -> Row:
    """A figure from its values by seed: mean and interval."""
    low, high = mean_interval(values) or (None, None)
    return Row(quantity, of, at, unit, float(values.mean()), low, high, paper, x, basis)


def by_seed(standing: Standing, metric: str, scale: float) -> Floats:
    """A contender's figure at a point, by seed."""
    return scale * standing.metrics[metric].values


@dataclass(frozen=True, slots=True)
class Lab:
    """Settings of the experiments."""

    folder: Path | None = None  # keeps designs and finished runs, so that an interrupted reproduction goes on
    requests: int | None = None  # requests of a run, fewer than the scenarios have, for a quick check
    seeds: int | None = None  # most seeds of each scenario

    @property
    def reduced(self) -> dict[str, str]:
        """Differences of this lab from the scenarios as they ship, for the record."""
        limits = {"requests of a run": self.requests, "seeds at most": self.seeds}
        return {f"REDUCED, {name}": str(value) for name, value in limits.items() if value is not None}

    def first(self, count: int) -> range:
        """The first seeds of an experiment, as many as this lab allows."""
        return range(count)[: self.seeds]

    def scenario(self, name: str) -> Scenario:
        """A scenario, by its name or its file, reduced if this lab says so."""
        scenario = load_scenario(name)
        file = scenario.file
        requests = self.requests or file.requests
        file = file.model_copy(update={"requests": requests, "seeds": file.seeds[: self.seeds]})
        assert requests is not None  # papers have drawn arrivals
        return replace(
            scenario, file=file, points=tuple(point._replace(requests=requests) for point in scenario.points)
        )

    def compare(self, name: str) -> Comparison:
        """The comparison of a scenario, by its name or its file."""
        return compare(self.scenario(name), self.folder)[0]

    def engine(self, point: GridPoint, contender: Contender) -> ServingTable:
        """The NPU that is searched for a contender at a point."""
        asked = (*point.site.npu, contender.options)
        ((_, engine),) = find_engines([asked], Store(self.folder), Workers(None))
        return engine

    def figures(self, point: GridPoint, contender: Contender, seeds: list[int]) -> dict[str, Floats]:
        """Figures of a contender at a point: an array over seeds for each, by key."""
        engine = self.engine(point, contender)
        runs = [GridRun(point, contender, engine, seed) for seed in seeds]
        runs_figures = {index: table.figures for index, table, _ in run_each(runs, Store(self.folder), Workers(None))}
        return {key: np.array([runs_figures[index][key] for index in range(len(runs))]) for key in runs_figures[0]}


paper_options = partial(SearchOptions, overlap=Overlap.PAPER)
"""A search by the words that reproduce the figures of Fluid Batching."""


def design(network: Network, platform: Board, options: SearchOptions) -> tuple[DesignTable, FbcbTable]:
    """The design that a search finds, and its FBCB."""
    return tabulate_design(network, platform, options, search(network, platform, options, top=1))
