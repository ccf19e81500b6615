"""Evaluate one design, with the search kernel from numba's cache or compiled anew."""

from __future__ import annotations

from fluidb.dse import Overlap, SearchOptions, Tile
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.models import load_network
from fluidb.platforms import load_platform

evaluator = Evaluator(load_network("resnet50"), load_platform("zc706"), SearchOptions(overlap=Overlap.PAPER))
evaluator.cost(Tile(4652, 7, 128).array, traffic=False)
