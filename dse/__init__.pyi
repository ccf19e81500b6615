from .choices import Batching as Batching, Objective as Objective
from .design import read_design as read_design, tabulate_design as tabulate_design, write_design as write_design
from .explanation import explain as explain
from .latency import tabulate_latency as tabulate_latency, write_latency as write_latency
from .objectives import OBJECTIVES as OBJECTIVES
from .pareto import Axis as Axis, find_front as find_front
from .search import (
    SearchOptions as SearchOptions,
    SearchResult as SearchResult,
    configure as configure,
    search as search,
)
from .space import Limits as Limits, Tile as Tile
