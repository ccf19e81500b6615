"""Arrival processes, one file a family (``docs/traffic.md``)."""

from .cameras import cameras
from .daily import daily
from .mmpp import mmpp
from .offline import offline
from .renewal import gamma, poisson

__all__ = ["cameras", "daily", "gamma", "mmpp", "offline", "poisson"]
