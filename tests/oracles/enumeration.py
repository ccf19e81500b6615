"""The search of an NPU without its shortcuts: every design is evaluated, and smaller T_R are designs too."""

import numpy as np
from fluidb.dse import OBJECTIVES, Tile
from fluidb.dse.npu.search import Evaluator, RankedDesign, rank


def every_row(space):
    """Designs with every even T_R up to that of each given one."""
    return np.array([(rows, *sizes) for most, *sizes in space.tolist() for rows in range(most, 0, -2)])


def ranked(network, board, options, space, top):
    """The best of some designs, best first."""
    values = Evaluator(network, board, options).rate(space, [options.objective])[:, 0]
    best = rank(space, OBJECTIVES[options.objective].losses(values))[:top]
    return [RankedDesign.of(Tile(*space[i].tolist()), float(values[i])) for i in best]
