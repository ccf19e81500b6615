"""The search of an NPU without its shortcuts: every design is evaluated, and smaller T_R are designs too."""

import numpy as np
from fluidb.dse import OBJECTIVES
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.search import RankedDesign, rank
from fluidb.dse.npu.tiles import tiles_of


def every_row(tiles):
    """Designs with every even T_R up to the T_R of each given one."""
    return np.array([(rows, *sizes) for most, *sizes in tiles.T.tolist() for rows in range(most, 0, -2)]).T


def ranked(network, board, options, tiles, top):
    """The best of some designs, best first."""
    values = Evaluator(network, board, options).rate(tiles, [options.objective])[:, 0]
    best = rank(tiles, OBJECTIVES[options.objective].losses(values))[:top]
    return [RankedDesign.of(*row) for row in zip(tiles_of(tiles[:, best]), values[best].tolist(), strict=True)]
