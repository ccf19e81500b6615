"""All requests wait from the beginning: the Offline scenario of MLPerf Inference (Reddi et al., ISCA 2020)."""

from __future__ import annotations

import numpy as np

from ..trace import Trace
from .bounds import check_count, trace_of


def offline(count: int) -> Trace:
    """All requests at time 0.

    Parameters
    ----------
    count : int
        Requests.

    Returns
    -------
    Trace
        Requests 0..count - 1; its rate is undefined, and stated as 0.

    Raises
    ------
    InputError
        If there are none, or too many.
    """
    check_count(count)
    return trace_of(np.zeros(count))
