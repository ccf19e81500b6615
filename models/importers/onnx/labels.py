"""Names of an ONNX file, as faults print them, faults of the onnx package, and attributes by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import onnx
from onnx import helper


def brief(text: str) -> str:
    """A name or message from the file, short enough for a line of a fault."""
    text = " ".join(text.split())
    return text if len(text) <= 100 else text[:97] + "..."


def label(node: onnx.NodeProto) -> str:
    """The name of a node, or of its first output if it has none."""
    return brief(node.name or next(filter(None, node.output), "") or node.op_type)


class SizeFault(ValueError):
    """A node whose sizes do not come out; the text is for people."""


@contextmanager
def refusing(fault: Callable[[str], Exception]) -> Iterator[None]:
    """Make one fault of what the onnx package and protobuf raise about a file, which may be damaged."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  their classes have no base but Exception, e.g. InferenceError
        raise fault(brief(str(error))) from None


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node by name."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
