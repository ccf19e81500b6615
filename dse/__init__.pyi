from .npu.choices import Batching as Batching, Objective as Objective, Overlap as Overlap
from .npu.design import read_design as read_design, tabulate_design as tabulate_design, write_design as write_design
from .npu.explanation import explain as explain
from .npu.latency import tabulate_latency as tabulate_latency, write_latency as write_latency
from .npu.objectives import OBJECTIVES as OBJECTIVES
from .npu.pareto import Axis as Axis, find_front as find_front
from .npu.options import SearchOptions as SearchOptions
from .npu.resources import Limits as Limits
from .npu.search import SearchResult as SearchResult, configure as configure, search as search
from .npu.tiles import Tile as Tile
from .npu.together import tabulate_each as tabulate_each
from .npu.workload import Workload as Workload
