"""Platforms that networks run on: boards with their resources, devices, which are fixed, accelerators, and clusters."""

from .accelerator import Accelerator, Depthwise
from .cluster import Cluster
from .described import Described
from .device import Device
from .kinds import KINDS, PLATFORMS, kind_of, load_platform
from .platform import ENERGY_KEYS, LUT_KEYS, Platform

__all__ = [
    "ENERGY_KEYS",
    "KINDS",
    "LUT_KEYS",
    "PLATFORMS",
    "Accelerator",
    "Cluster",
    "Depthwise",
    "Described",
    "Device",
    "Platform",
    "kind_of",
    "load_platform",
]
