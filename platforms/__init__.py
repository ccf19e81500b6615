"""Platforms that networks run on: boards with their resources, devices, which are fixed, and accelerators."""

from .accelerator import Accelerator, Depthwise
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
    "Depthwise",
    "Described",
    "Device",
    "Platform",
    "kind_of",
    "load_platform",
]
