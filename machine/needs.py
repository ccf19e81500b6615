"""The extras that running a network on this machine needs."""

from __future__ import annotations

from importlib.util import find_spec

from ..formats import InputError


def check_runtime(what: str) -> None:
    """Refuse if libraries of the extras ``onnx`` and ``runtime`` are missing."""
    for needed in ("onnx", "onnxruntime"):
        if find_spec(needed) is None:
            raise InputError(
                f"{what}: a real device needs {needed}, which is not installed: pip install 'fluidb[onnx,runtime]'"
            )
