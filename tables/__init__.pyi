from .latency import LatencyTable as LatencyTable, read_latency as read_latency
from .subgraphs import SubGraphTable as SubGraphTable, read_subgraphs as read_subgraphs
