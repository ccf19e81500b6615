from .arrivals import (
    cameras as cameras,
    daily as daily,
    gamma as gamma,
    mmpp as mmpp,
    offline as offline,
    poisson as poisson,
)
from .clients import Clients as Clients
from .exits import parse_thresholds as parse_thresholds
from .own import OwnTraffic as OwnTraffic
from .reading import read_trace as read_trace
from .samples import Samples as Samples, draw_samples as draw_samples, read_samples as read_samples
from .trace import Trace as Trace, write_trace as write_trace
from .traffic import Traffic as Traffic, prepare as prepare
from .transforms import rescale_burstiness as rescale_burstiness, rescale_rate as rescale_rate, superpose as superpose
