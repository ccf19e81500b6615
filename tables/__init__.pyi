from .latency import LatencyTable as LatencyTable, read_latency as read_latency
