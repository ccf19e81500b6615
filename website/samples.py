"""Made-up samples for a picture: later exits are surer and more often right.  Arguments: FILE EXITS."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

path, exits = Path(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(1)
confidence = np.sort(rng.random((5_000, exits)), axis=1)
correct = rng.random(confidence.shape) < 0.25 + 0.7 * confidence
np.savez(path, confidence=confidence, correct=correct)
