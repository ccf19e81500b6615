"""The network that ships for real devices, with its test split (``docs/real-device.md``)."""

from pathlib import Path

MODEL, INPUTS = (Path(__file__).parent / name for name in ("digits.onnx", "inputs.npz"))
