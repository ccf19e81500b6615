"""The libraries that running a network on this machine needs."""

from __future__ import annotations

from ..formats import check_installed


def check_runtime(what: str) -> None:
    """Refuse if libraries of the extras ``onnx`` and ``runtime`` are missing."""
    for needed in ("onnx", "onnxruntime"):
        check_installed(f"{what}: a real device", needed, "onnx,runtime")
