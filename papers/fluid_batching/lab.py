"""Where the paper's experiments are run again: shipped scenarios, and single cells under changed assumptions."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dse.design import DesignTable, tabulate_design
from ...dse.search import SearchOptions, search
from ...experiments.comparison import Comparison, Standing, compare
from ...experiments.scenarios import Entrant, Point, Scenario, load_scenario
from ...experiments.store import Engine, Figures, Store, find_engine, run
from ...models import Network
from ...platforms import Platform
from ...serving.statistics import mean_interval
from .rows import Row


@cache
def published() -> dict[str, Any]:
    """What the paper prints (``published.toml``)."""
    return tomllib.loads((Path(__file__).parent / "published.toml").read_text(encoding="utf-8"))


def row(
    quantity: str,
    of: str,
    at: str,
    unit: str,
    values: NDArray[np.float64],
    paper: float | None = None,
    x: float | None = None,
) -> Row:
    """A figure from its values by seed: mean and interval."""
    low, high = mean_interval(values) or (None, None)
    return Row(quantity, of, at, unit, float(values.mean()), low, high, paper, x)


def by_seed(standing: Standing, metric: str, scale: float) -> NDArray[np.float64]:
    """A contender's figure at a point, by seed."""
    return scale * np.array(list(standing.metrics[metric].seeds.values()))


@dataclass(frozen=True, slots=True)
class Lab:
    """How the experiments are run.

    Attributes
    ----------
    folder : Path or None
        Keeps designs and finished runs, so that an interrupted reproduction goes on.
    requests : int or None
        Requests of a run, in place of the scenarios' own: a reduced form for a quick check.
    seeds : int or None
        At most so many seeds of each scenario.
    """

    folder: Path | None = None
    requests: int | None = None
    seeds: int | None = None

    @property
    def reduced(self) -> dict[str, str]:
        """How this lab differs from the scenarios as they ship, for the record; nothing if it does not."""
        limits = {"requests of a run": self.requests, "seeds at most": self.seeds}
        return {f"REDUCED, {name}": str(value) for name, value in limits.items() if value is not None}

    def scenario(self, name: str) -> Scenario:
        """A shipped scenario, reduced if this lab says so."""
        found = load_scenario(name)
        file = found.file
        requests = self.requests or file.requests
        file = file.model_copy(update={"requests": requests, "seeds": file.seeds[: self.seeds]})
        assert requests is not None  # the paper's scenarios all have Poisson arrivals
        return replace(found, file=file, points=tuple(point._replace(requests=requests) for point in found.points))

    def compare(self, name: str) -> Comparison:
        """A shipped scenario's comparison."""
        return compare(self.scenario(name), self.folder)[0]

    def engine(self, point: Point, options: SearchOptions) -> Engine:
        """The NPU for a point's network and board."""
        return find_engine(point.site, options, Store(self.folder))

    def figures(self, point: Point, entrant: Entrant, options: SearchOptions, seeds: list[int]) -> list[Figures]:
        """Figures of a contender at a point, by seed."""
        engine, store = self.engine(point, options), Store(self.folder)
        return [run(point, entrant, engine, seed, store)[0].figures for seed in seeds]


def design(network: Network, platform: Platform, options: SearchOptions) -> DesignTable:
    """The design that a search finds, with its throughput."""
    return tabulate_design(network, platform, options, search(network, platform, options, top=1))[0]
