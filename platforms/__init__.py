"""Platforms that networks run on: boards with their resources, devices, which are fixed, accelerators, and clusters."""

from .accelerator import Accelerator, Depthwise
from .board import ENERGY_KEYS, LUT_KEYS, Board
from .cluster import Cluster
from .device import Device
from .kinds import KINDS, PLATFORMS, as_board, kind_of, load_platform
from .platform import Platform

__all__ = [
    "ENERGY_KEYS",
    "KINDS",
    "LUT_KEYS",
    "PLATFORMS",
    "Accelerator",
    "Board",
    "Cluster",
    "Depthwise",
    "Device",
    "Platform",
    "as_board",
    "kind_of",
    "load_platform",
]
