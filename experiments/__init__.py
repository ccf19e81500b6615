"""Studies that search and simulate many times: comparison, capacity, co-design, thresholds; and where they run."""

from typing import TYPE_CHECKING

from ..formats.lazy import on_demand

if TYPE_CHECKING:
    from .capacity import Capacity, find_capacity
    from .comparison import compare
    from .scenarios import load_scenario
    from .thresholds import ThresholdPoint, sweep_thresholds

__getattr__ = on_demand(
    __name__,
    {
        "capacity": ("Capacity", "find_capacity"),
        "comparison": ("compare",),
        "scenarios": ("load_scenario",),
        "thresholds": ("ThresholdPoint", "sweep_thresholds"),
    },
)

__all__ = [
    "Capacity",
    "ThresholdPoint",
    "compare",
    "find_capacity",
    "load_scenario",
    "sweep_thresholds",
]
