from . import (
    dse as dse,
    formats as formats,
    machine as machine,
    models as models,
    papers as papers,
    platforms as platforms,
    plots as plots,
    rules as rules,
    serving as serving,
    studies as studies,
    tables as tables,
    traffic as traffic,
)
from .dse import (
    SearchOptions as SearchOptions,
    search as search,
    tabulate_design as tabulate_design,
    write_design as write_design,
    write_latency as write_latency,
)
from .formats import InputError as InputError
from .models import load_network as load_network
from .platforms import load_platform as load_platform
from .plots import save as save
from .plots.replay import draw_replay as draw_replay
from .serving import (
    Requests as Requests,
    ServedNetwork as ServedNetwork,
    find_policy as find_policy,
    parse_requirement as parse_requirement,
    serve as serve,
    simulate as simulate,
    summarise as summarise,
)
from .studies import (
    CapacityOptions as CapacityOptions,
    compare as compare,
    find_capacity as find_capacity,
    load_scenario as load_scenario,
    sweep_thresholds as sweep_thresholds,
)
from .studies.plan.ask import plan as plan
from .tables import read_latency as read_latency
from .traffic import (
    Clients as Clients,
    OwnTraffic as OwnTraffic,
    offline as offline,
    poisson as poisson,
    prepare as prepare,
    read_trace as read_trace,
    write_trace as write_trace,
)

__version__: str
