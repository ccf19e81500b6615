"""Models of other tools in the place of a network file, and how a network file is made of them."""

from __future__ import annotations

from pathlib import Path

from ..formats.display import as_word

_TORCH = 'in Python, `torch.onnx.export(model.eval(), (sample,), "{0}.onnx")`'
_KERAS = 'in Python, `keras.saving.load_model("{1}").export("{0}.onnx", format="onnx")`'
_CONVERT = "`python -m tf2onnx.convert {} --output {{0}}.onnx`"

EXPORTS = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".safetensors"), ("PyTorch", _TORCH)),
    **dict.fromkeys((".keras", ".h5"), ("Keras", _KERAS)),
    ".tflite": ("TensorFlow Lite", _CONVERT.format("--tflite {1}")),
    ".pb": ("TensorFlow", _CONVERT.format("--graphdef {1} --inputs INPUT:0 --outputs OUTPUT:0")),
}
"""How ONNX models are made of files with other endings: the tool, and what it is told; {0} is the new file's stem."""


def export_of(path: Path) -> str | None:
    """A file of another tool, and how it becomes an ONNX model; ``None`` if the ending is none of theirs."""
    if path.suffix.lower() not in EXPORTS:
        return None
    tool, how = EXPORTS[path.suffix.lower()]
    return f"a file of {tool}; export it: {how.format(path.stem, path)}"


def network_of(path: Path) -> str | None:
    """The same, and how the ONNX model becomes a network."""
    export = export_of(path)
    made = " -o ".join(as_word(path.stem + ending) for ending in (".onnx", ".toml"))
    return export and f"{export}, then `fluidb models import {made}`"
