"""What it runs on: boards and their resources."""

from .platform import ENERGY_KEYS, LUT_KEYS, PLATFORMS, Platform, load_platform

__all__ = ["ENERGY_KEYS", "LUT_KEYS", "PLATFORMS", "Platform", "load_platform"]
