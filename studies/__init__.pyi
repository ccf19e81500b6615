from .capacity import Capacity as Capacity, find_capacity as find_capacity
from .capacity_options import CapacityOptions as CapacityOptions
from .comparison import compare as compare
from .latency_target import TargetThresholds as TargetThresholds, meet_target as meet_target
from .scenario import load_scenario as load_scenario
from .thresholds import ThresholdPoint as ThresholdPoint, sweep_thresholds as sweep_thresholds
