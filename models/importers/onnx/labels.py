"""Names of an ONNX file, as faults print them."""

from __future__ import annotations

import onnx


def brief(text: str) -> str:
    """A name or message from the file, short enough for a line of a fault."""
    text = " ".join(text.split())
    return text if len(text) <= 100 else text[:97] + "..."


def label(node: onnx.NodeProto) -> str:
    """The name of a node, or of its first output if it has none."""
    return brief(node.name or next(filter(None, node.output), "") or node.op_type)
