from .bound import least_violations as least_violations
from .inputs import Requests as Requests
from .metrics import figures_of as figures_of, summarise as summarise
from .summary import Figures as Figures, Summary as Summary
from .networks import (
    ServedNetwork as ServedNetwork,
    read_networks as read_networks,
)
from .device_traffic import (
    DeviceTraffic as DeviceTraffic,
    prepare_requests as prepare_requests,
)
from .outcome import DeviceUse as DeviceUse, Replay as Replay
from .policies import POLICIES as POLICIES
from .replay import simulate as simulate, write_requests as write_requests
from .requirements import judge as judge, parse_requirement as parse_requirement
from .scheduler import Scheduler as Scheduler, find_policy as find_policy
from .serve import ServeResult as ServeResult, serve as serve
from .timeline import write_timeline as write_timeline
