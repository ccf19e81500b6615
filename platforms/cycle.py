"""The cycle of an NPU on a board, by its sizes."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ..formats import Strict

Nanoseconds = Annotated[float, Field(ge=0, le=1e6)]


class Cycle(Strict):
    """A fit to NPUs that were placed and routed: a base, and a part for each doubling of a size (``docs/npu.md``).

    No part is negative, so that a larger size never has a shorter cycle: searches build on it.
    """

    ns: Annotated[float, Field(gt=0, le=1e6)]  # nanoseconds of the smallest NPU, whose sizes are all 1
    # nanoseconds more for each doubling of the words of a beat, of the samples side by side, and of the tile
    W_ns: Nanoseconds = 0.0
    S_ns: Nanoseconds = 0.0
    T_P_ns: Nanoseconds = 0.0
    T_C_ns: Nanoseconds = 0.0

    def of(self, W: Any, S: Any, T_P: Any, T_C: Any) -> Any:
        """Nanoseconds of a cycle of NPUs; sizes are numbers, or arrays whose shapes go with each other."""
        parts = zip((self.W_ns, self.S_ns, self.T_P_ns, self.T_C_ns), (W, S, T_P, T_C), strict=True)
        return self.ns + sum(doubling * np.log2(size) for doubling, size in parts)
