"""Design time: the cost model, the search, and the tables it leaves for the hardware and the scheduler."""

if __name__ != "fluidb.dse":
    # numba's disk cache remembers a module's name: imported under two, it breaks later
    raise ImportError(f"import this package as fluidb.dse, not as {__name__}")

from typing import TYPE_CHECKING

from ..formats.lazy import on_demand
from .objectives import OBJECTIVES, Objective
from .search import SearchOptions, SearchResult, configure, search
from .space import Batching, Limits, Tile

if TYPE_CHECKING:
    from .design import read_design, tabulate_design, write_design
    from .explanation import explain
    from .latency import tabulate_latency, write_latency
    from .pareto import Axis, find_front

__getattr__ = on_demand(
    __name__,
    {
        "design": ("read_design", "tabulate_design", "write_design"),
        "explanation": ("explain",),
        "latency": ("tabulate_latency", "write_latency"),
        "pareto": ("Axis", "find_front"),
    },
)

__all__ = [
    "OBJECTIVES",
    "Axis",
    "Batching",
    "Limits",
    "Objective",
    "SearchOptions",
    "SearchResult",
    "Tile",
    "configure",
    "explain",
    "find_front",
    "read_design",
    "search",
    "tabulate_design",
    "tabulate_latency",
    "write_design",
    "write_latency",
]
