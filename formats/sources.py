"""Origin of results: versions, and the digest of our own sources."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import numpy as np

from .. import __version__

FOLDERS = ("dse", "formats", "models", "platforms", "rules", "serving", "studies", "tables", "traffic")
"""Files that a result may depend on; networks and boards themselves are inputs, with digests of their own."""


@cache
def made_with() -> dict[str, str]:
    """Versions of fluidb and numpy, and the digest of the sources that results depend on."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return {"fluidb": __version__, "numpy": np.__version__, "sources_sha256": digest.hexdigest()}
