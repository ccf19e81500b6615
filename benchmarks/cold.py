"""Evaluate one design, with the search kernel from numba's cache or compiled anew."""

from __future__ import annotations

import numpy as np
from fluidb.dse import Overlap, SearchOptions
from fluidb.dse.npu.search import Evaluator
from fluidb.models import load_network
from fluidb.platforms import load_platform

evaluator = Evaluator(load_network("resnet50"), load_platform("zc706"), SearchOptions(overlap=Overlap.PAPER))
evaluator.cost(np.array([[4652, 7, 128, 1]]), traffic=False)
