"""What design time hands to run time, and run time to design time: tables on disk."""

from typing import TYPE_CHECKING

from ..formats.lazy import on_demand

if TYPE_CHECKING:
    from .latency import LatencyTable, read_latency

__getattr__ = on_demand(__name__, {"latency": ("LatencyTable", "read_latency")})

__all__ = ["LatencyTable", "read_latency"]
