from .arrivals import cameras as cameras, daily as daily, gamma as gamma, mmpp as mmpp, poisson as poisson
from .constraints import constrain as constrain, parse_accuracies as parse_accuracies, parse_slos as parse_slos
from .exits import parse_thresholds as parse_thresholds
from .reading import read_trace as read_trace
from .samples import Samples as Samples, draw_samples as draw_samples, read_samples as read_samples
from .trace import Trace as Trace, write_trace as write_trace
from .traffic import Traffic as Traffic, prepare as prepare
from .transforms import rescale_burstiness as rescale_burstiness, rescale_rate as rescale_rate, superpose as superpose
