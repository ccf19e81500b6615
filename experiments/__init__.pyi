from .capacity import Capacity as Capacity, find_capacity as find_capacity
from .comparison import compare as compare
from .scenarios import load_scenario as load_scenario
from .thresholds import ThresholdPoint as ThresholdPoint, sweep_thresholds as sweep_thresholds
