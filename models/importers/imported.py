"""The result of an importer, and its check."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...formats import InputError, validate
from ..loader import build_network
from ..network import Network
from ..schema import NetworkFile

_FIELDS = {
    "rows": "output positions",
    "inner": "values in each sum",
    "columns": "output channels",
    "out": "output channels",
    "shape": "size",
}


@dataclass(frozen=True, slots=True)
class ImportedNetwork:
    """A network, and facts of its source that a network file does not hold."""

    file: NetworkFile
    answer: str  # layer that holds the network's answer; other outputs may stand behind it
    layer_of: Mapping[str, str] = field(default_factory=dict)  # by the names of the source, where these differ
    aside: Collection[str] = ()  # layers outside the chain of blocks: masks, positions


def checked(content: Mapping[str, Any], path: Path, label_of: Mapping[str, str]) -> tuple[NetworkFile, Network]:
    """Check a network file that an importer made."""
    try:
        file = validate(NetworkFile, content, path)
        return file, build_network(file, path)
    except InputError as error:
        layer = re.compile(
            re.escape(f"{path}: ") + r'(?:exits\[\d+\]\.)?layers\[\d+\] \("([^"]*)"\)(?:\.([a-z_]+))?[^:]*: '
        )

        def name(match: re.Match[str]) -> str:
            what = f"{_FIELDS.get(match[2], match[2])}: " if match[2] else ""
            return f"{path}: {label_of.get(match[1], match[1])}: {what}"

        faults = (layer.sub(name, fault) for fault in error.faults)
        raise InputError(
            fault.replace(f"{path}: input.", f"{path}: inputs, side by side: ") for fault in faults
        ) from None
