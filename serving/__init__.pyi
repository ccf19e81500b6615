from .bound import least_violations as least_violations
from .inputs import Requests as Requests
from .metrics import Summary as Summary, summarise as summarise, summarise_networks as summarise_networks
from .networks import (
    ServedNetwork as ServedNetwork,
    prepare_networks as prepare_networks,
    read_networks as read_networks,
)
from .networks_replay import NetworksReplay as NetworksReplay, simulate_networks as simulate_networks
from .outcome import Replay as Replay
from .policies import POLICIES as POLICIES
from .replay import simulate as simulate, write_requests as write_requests
from .requirements import judge as judge, parse_requirement as parse_requirement
from .scheduler import Scheduler as Scheduler, find_policy as find_policy
from .serve import (
    NetworksResult as NetworksResult,
    ServeResult as ServeResult,
    serve as serve,
    serve_networks as serve_networks,
)
from .timeline import write_timeline as write_timeline
