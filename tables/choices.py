"""What a user chooses by name for a table.  Nothing is imported here, because ``--help`` needs the names only."""

from __future__ import annotations

from enum import StrEnum


class Layers(StrEnum):
    """Which layers of a SuperNet count.

    ``ALL``: all with weights.  ``PAPER``: without those that the SuperNet's file lists as uncounted.  ``WINDOWS``:
    convolutions of 3x3 in the largest SubNet (paper 003, Section 5.4).
    """

    ALL = "all"
    PAPER = "paper"
    WINDOWS = "3x3"


class Maps(StrEnum):
    """Which feature maps move off chip.

    ``NONE``.  ``ONCE``: the network's input, and every map larger than the streaming buffer when it is written.
    ``SPILLED``: the input, and every larger map when it is written and when it is read.  ``ALL``: every map twice.
    """

    NONE = "none"
    ONCE = "once"
    SPILLED = "spilled"
    ALL = "all"


class StageB(StrEnum):
    """How weights that SubNets share are fetched without a persistent buffer (paper 003, Fig. 9a).

    ``EXPOSED``: before the query, as its stage B.  ``HIDDEN``: while layers compute, as all other weights.
    """

    EXPOSED = "exposed"
    HIDDEN = "hidden"


class SubGraphCut(StrEnum):
    """How a candidate is cut to the persistent buffer.

    ``UNIFORM``: the same share of the kernels of every layer.  ``ORDER``: whole layers from the first on; the last
    one loses kernels.  ``RUN``: whole neighbouring layers from a random one on.  ``RANDOM``: whole layers in random
    order.
    """

    UNIFORM = "uniform"
    ORDER = "order"
    RUN = "run"
    RANDOM = "random"


class SubGraphGoal(StrEnum):
    """What the best SubGraph has: the least mean time or off-chip traffic, or the largest mean hit ratio."""

    LATENCY = "latency"
    ENERGY = "energy"
    HIT_RATIO = "hit_ratio"
