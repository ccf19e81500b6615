"""Stage times T(a, b, B): from one place of a network to another, with no exit between them (paper 001, Section 4.2)."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ..formats import InputError
from .latency import LatencyTable

_OF_EXIT = re.compile(r"exit([0-9]+)/")


def stage_times(table: LatencyTable) -> NDArray[np.float64]:
    """Times of all stages that a network could be cut into.

    The rows of a latency table contain the heads of all exits that are passed. Here only the exit at the end counts: its
    head, and its check where the device states one; and the start of the stage behind the exit at the beginning.

    Parameters
    ----------
    table : LatencyTable
        Of the network with an exit at each of its K candidates; with times by layer.

    Returns
    -------
    (K + 2, K + 2, b_max + 1) ndarray of float64
        Seconds by place a (0: the input), place b (K + 1: the end of the network) and batch size; 0 for an empty batch,
        and from a place to itself or back.

    Raises
    ------
    InputError
        If the table has no times by layer: heads cannot be told from the backbone.
    """
    if not table.layers:
        raise InputError(
            f"{table.platform}: expected times by layer, by which heads are told from the backbone, found times of whole "
            "stages only; take a device that is described by a model, or a design"
        )
    ends = len(table.exits) + 1
    backbone, head, resume = (np.zeros((ends, table.b_max + 1)) for _ in range(3))
    for layer in table.layers:
        exit_ = _OF_EXIT.match(layer.name)
        if exit_ is None:
            backbone[layer.stage, 1:] += layer.time_s
        elif int(exit_[1]) == layer.stage:
            head[layer.stage, 1:] += layer.time_s
        else:  # what an exit costs the stage behind it
            resume[int(exit_[1]), 1:] += layer.time_s
    times = np.zeros((ends, ends, table.b_max + 1))
    for start in range(ends):
        times[start, start + 1 :] = backbone[start + 1 :].cumsum(axis=0) + head[start + 1 :] + resume[start]
    return times
