"""Platforms that networks run on: boards with their resources, and devices, which are fixed."""

from .described import Described
from .device import Device
from .kinds import KINDS, PLATFORMS, kind_of, load_platform
from .platform import ENERGY_KEYS, LUT_KEYS, Platform

__all__ = [
    "ENERGY_KEYS",
    "KINDS",
    "LUT_KEYS",
    "PLATFORMS",
    "Described",
    "Device",
    "Platform",
    "kind_of",
    "load_platform",
]
