"""What it runs on: boards and their resources."""

from .platform import PLATFORMS, Platform, load_platform

__all__ = ["PLATFORMS", "Platform", "load_platform"]
