"""Choices by name for the table of SubGraphs."""

from __future__ import annotations

from enum import StrEnum


class Layers(StrEnum):
    """Layers of a SuperNet that count.

    ``ALL``: all with weights.  ``PAPER``: without those that the SuperNet's file lists as uncounted.  ``WINDOWS``:
    convolutions of 3x3 in the largest SubNet (SUSHI, Section 5.4).
    """

    ALL = "all"
    PAPER = "paper"
    WINDOWS = "3x3"


class Maps(StrEnum):
    """Feature maps that move off chip.

    ``NONE``.  ``ONCE``: the network's input, and every map larger than the streaming buffer when it is written.
    ``SPILLED``: the input, and every larger map when it is written and when it is read.  ``ALL``: every map twice.
    """

    NONE = "none"
    ONCE = "once"
    SPILLED = "spilled"
    ALL = "all"


class StageB(StrEnum):
    """Time to fetch weights that SubNets share, without a persistent buffer (SUSHI, Fig. 9a).

    ``EXPOSED``: before the query, its stage B.  ``HIDDEN``: while layers compute, as all other weights.
    """

    EXPOSED = "exposed"
    HIDDEN = "hidden"


class SubGraphCut(StrEnum):
    """A way to cut a candidate to the persistent buffer.

    ``UNIFORM``: the same share of the kernels of every layer.  ``ORDER``: whole layers from the first on; the last
    one loses kernels.  ``RUN``: whole neighbouring layers from a random one on.  ``RANDOM``: whole layers in random
    order.
    """

    UNIFORM = "uniform"
    ORDER = "order"
    RUN = "run"
    RANDOM = "random"


class SubGraphGoal(StrEnum):
    """Quantity that the best SubGraph has, by the mean over SubNets: least time, least off-chip traffic, most hits."""

    LATENCY = "latency"
    ENERGY = "energy"
    HIT_RATIO = "hit_ratio"
