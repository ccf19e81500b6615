"""What it runs on: boards and their resources, and devices that are as they are."""

from .device import Device
from .kinds import KINDS, PLATFORMS, load_device, load_npu, load_platform
from .platform import ENERGY_KEYS, LUT_KEYS, Platform

__all__ = [
    "ENERGY_KEYS",
    "KINDS",
    "LUT_KEYS",
    "PLATFORMS",
    "Device",
    "Platform",
    "load_device",
    "load_npu",
    "load_platform",
]
