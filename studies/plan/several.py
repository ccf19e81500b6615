"""Plans for the networks of a file: on one device, or on one NPU that is searched for all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, product
from pathlib import Path

import numpy as np

from ...dse.device.tabulate import tabulate_file
from ...dse.npu.stated import DesignOptions
from ...formats import AnyPath, InputError, is_folder, is_input, parse_toml, read_toml
from ...models import NETWORKS, Network
from ...platforms import Board, Device, Platform, load_platform
from ...serving.designs import NamedTable, check_one_npu
from ...serving.device_traffic import answers_per_s, prepare_requests
from ...serving.inputs import Requests
from ...serving.networks import NetworkKeys, NetworksFile, ServedNetwork, read_networks
from ...serving.requirements import Requirement
from ...tables.files import LATENCY_FILE
from ...tables.latency import LatencyTable, read_latency
from ...traffic.exits import chosen_thresholds
from ...traffic.measures import Measure, Threshold
from ...traffic.own import MOST as MOST_REQUESTS
from ...traffic.samples import Samples, as_samples, read_samples
from ..scenario import beside
from .exits import MOST_SETTINGS, ExitSetting, joined, ordered, setting_with
from .hardware import PlanNetwork, find_networks, multipliers_of
from .plan_traffic import JointTraffic, PlanTraffic
from .policies import between_networks, find_policies
from .problem import PlanProblem, Tried, check_settings, may_wait, settings_on
from .sources import FREE, BoardSource, HardwareCost, Source, TableSource, with_setting


def is_networks_file(name: AnyPath) -> bool:
    """Whether a name is a file of networks."""
    return Path(name).suffix == ".toml" and is_input(Path(name)) and "networks" in parse_toml(Path(name))


@dataclass(frozen=True)
class SeveralTraffic(PlanTraffic):
    """The traffic of several networks: a rate or a trace of all, or of each its own."""

    given: tuple[ServedNetwork, ...] = ()  # as their file states them, with tables of some hardware
    models: tuple[Network, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the networks."""
        return [network.name for network in self.given]

    def networks_in(self, network: Network) -> Sequence[Network]:
        """The networks, which are one behind the other in the network of the problem."""
        del network
        return self.models

    @property
    def stated(self) -> Sequence[ServedNetwork]:
        """The networks as their file states them."""
        return self.given

    @cached_property
    def samples_of(self) -> list[Samples | None]:
        """The samples of each network."""
        return [None if network.samples is None else as_samples(network.samples) for network in self.given]

    @property
    def measure(self) -> Measure | None:
        """The measure of all samples' thresholds, if they have one."""
        measures = {samples.measure.name: samples.measure for samples in self.samples_of if samples is not None}
        return next(iter(measures.values())) if len(measures) == 1 else None

    @property
    def admits(self) -> bool:
        """Whether a network has its own rule of admission."""
        return any(network.limit for network in self.given)

    @property
    def own(self) -> bool:
        """Whether each network has requests of its own."""
        return self.given[0].traffic is not None

    @property
    def grows(self) -> bool:
        """Whether more requests may arrive in a second; ``capacity`` says how far traffic of their own may grow."""
        return not self.own

    def served(self, tables: Sequence[LatencyTable]) -> tuple[ServedNetwork, ...]:
        """The networks, on hardware with these latency tables."""
        return tuple(
            replace(network, table=table, samples=None, threshold=None)
            for network, table in zip(self.given, tables, strict=True)
        )

    def draw(self, setting: ExitSetting, seed: int, faster: float = 1.0) -> JointTraffic:
        """The requests of a run; ``faster``: the factor by which more arrive in a second."""
        parts, networks = setting.of_each, []
        each = zip(self.given, parts, self.samples_of, self.measures, strict=True)
        for network, part, samples, measure in each:
            own = replace(network, table=with_setting(network.latency, part, measure))
            if samples is not None:
                here = samples.at_exits(part.kept, [1] * len(part.kept))
                own = replace(own, samples=here, threshold=part.thresholds)
            networks.append(own)
        trace = None if self.own else self.arrivals(seed, faster)
        device = prepare_requests(networks, Requests(slo_s=self.slo_s, seed=seed), trace)
        begins = np.cumsum([0, *(len(part.kept) + 1 for part in parts[:-1])])
        return JointTraffic.of(device, begins, tuple(samples is not None for samples in self.samples_of))


def one_behind_another(networks: Sequence[Network], names: Sequence[str]) -> Network:
    """The stages of all networks as those of one, whose exits have the names of both."""
    begins = list(accumulate((len(network.exits) for network in networks), initial=0))
    exits = [
        exit_.model_copy(update={"name": f"{name} {exit_.name}"})
        for network, name in zip(networks, names, strict=True)
        for exit_ in network.exits
    ]
    layers = [
        layer.model_copy(update={"stage": begin + layer.stage})
        for network, begin in zip(networks, begins, strict=False)
        for layer in network.layers
    ]
    return networks[0].model_copy(
        update={"name": ", ".join(names), "title": "", "sources": {}, "exits": exits, "layers": layers}
    )


@dataclass(frozen=True)
class AskedNetwork:
    """A network of a file, before hardware for it is known."""

    keys: NetworkKeys
    table: LatencyTable | None  # of the hardware that the file states, if it does
    stated: PlanNetwork | None  # the network itself, if the file states it

    @property
    def name(self) -> str:
        """The name of the network that its tables state."""
        if self.stated is not None:
            return self.stated.network.name
        assert self.table is not None
        return self.table.network

    def model(self, table: LatencyTable) -> Network:
        """The network; only its exits are known where the file does not state it."""
        if self.stated is not None:
            return self.stated.network
        return Network.model_construct(name=self.name, title="", sources={}, exits=table.exits, layers=[])


def networks_asked(path: AnyPath) -> list[AskedNetwork]:
    """The networks of a file; each states its network, a latency table, or both."""
    folder, asked = Path(path).parent, []
    for index, keys in enumerate(read_toml(NetworksFile, path).networks):
        table = None if keys.table is None else read_latency(folder / keys.table)
        stated = None
        if keys.network is not None:
            samples = None if keys.samples is None else read_samples(folder / keys.samples)
            members = find_networks(beside(folder, keys.network, NETWORKS), samples)
            stated = members[0]
            if len(members) > 1:
                raise InputError(
                    f'{path}: networks[{index}] ("{keys.name}"): network: expected a network, found the SuperNet '
                    f"{keys.network}; state SUPERNET:SUBNET"
                )
        elif table is None:
            raise InputError(
                f'{path}: networks[{index}] ("{keys.name}"): expected its network or the folder of its latency table, '
                'found neither; state e.g. network = "resnet50"'
            )
        asked.append(AskedNetwork(keys, table, stated))
    return asked


def sources_of(name: str, asked: Sequence[AskedNetwork], designs: DesignOptions) -> Source:
    """The hardware of a name for all networks: every design of a board, a device, or a folder with their tables."""
    if is_folder(name):
        tables = list(_tables_in(Path(name), asked))
        check_one_npu([NamedTable(table.network, table, 1.0) for table in tables])
        multipliers = multipliers_of(tables[0])
        return TableSource(name, tables, HardwareCost("multipliers", multipliers) if multipliers else FREE)
    platform = load_platform(name, kind=Platform)
    stated = [network.stated for network in asked if network.stated is not None]
    if len(stated) < len(asked):
        own = next(network.keys.name for network in asked if network.stated is None)
        raise InputError(
            f"networks: {own}: network: expected it, as designs for {name} are searched, found a table only; state "
            'e.g. network = "resnet50"'
        )
    if isinstance(platform, Board):
        models = [network.network for network in stated]
        problem = designs.read(one_behind_another(models, [network.keys.name for network in asked]), name)
        return BoardSource(*problem, networks=models)
    if isinstance(platform, Device):
        return TableSource(name, [tabulate_file(network.file, network.path, platform) for network in stated])
    raise InputError(
        f"{name}: expected a board, a device, or a folder with a latency table of each network, found another "
        "platform; several networks run on one device"
    )


def _tables_in(folder: Path, asked: Sequence[AskedNetwork]) -> Iterator[LatencyTable]:
    """The latency table of each network in a folder of a design."""
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    tables = [read_latency(place) for place in places if (place / LATENCY_FILE).is_file()]
    for network in asked:
        own = [table for table in tables if table.network == network.name]
        if len(own) != 1:
            raise InputError(f"{folder}: expected one latency table of {network.name}, found {len(own)}")
        yield own[0]


def several_problem(
    path: AnyPath,
    sources: Sequence[Source],
    texts: Sequence[str] | None,
    requirements: Sequence[Requirement],
    traffic: PlanTraffic,
    thresholds: Sequence[Threshold] | None = None,
) -> PlanProblem:
    """The problem of a file of networks on some hardware, checked before anything is simulated.

    ``texts``: the policies, by default the usual ones with every rule between networks.
    """
    asked = networks_asked(path)
    tables = sources[0].tables(sources[0].fastest)
    models = [network.model(table) for network, table in zip(asked, tables, strict=True)]
    _check_hardware(sources, models)
    given = read_networks(path, [table.model_copy(update={"npus": None}) for table in tables])
    given = [_with_enough(network, number, models, sources) for number, network in enumerate(given)]
    stated = [name for name in ("rate_per_s", "trace", "clients") if getattr(traffic, name) is not None]
    if len(stated) != (given[0].traffic is None):
        what = "a trace or a rate" if given[0].traffic is None else "neither trace nor rate beside traffic of their own"
        keys = " and ".join(name.removesuffix("_per_s") for name in stated)
        raise InputError(f"networks: expected {what}, found {keys or 'none'}")
    policies = find_policies(texts or between_networks(given), sources)
    several = SeveralTraffic(**vars(traffic), given=tuple(given), models=tuple(models))
    tried = Tried(thresholds, MOST_SETTINGS ** (1 / len(given)), may_wait(sources, policies))
    fastest = [source.tables(source.fastest) for source in sources]
    each = [
        _settings(network, model, [row[number] for row in fastest], tried)
        for number, (network, model) in enumerate(zip(given, models, strict=True))
    ]
    if (count := math.prod(map(len, each))) > MOST_SETTINGS:
        raise InputError(
            f"thresholds: expected at most {MOST_SETTINGS:,} settings of the exits of all networks, found {count:,}; "
            "state fewer with --thresholds, or the threshold of a network in its file"
        )
    exits = [len(model.exits) for model in models]
    settings = ordered(joined(parts, exits) for parts in product(*each))
    network = one_behind_another(models, several.names)
    problem = PlanProblem(network, sources, settings, policies, requirements, several)
    check_settings(problem)
    return problem


def _check_hardware(sources: Sequence[Source], models: Sequence[Network]) -> None:
    """Refuse hardware whose tables have other exits than the networks, and kinds whose costs are not alike."""
    faults = [
        f"{source.name}: expected times of {len(model.exits)} exits, which {model.name} has, found {len(table.exits)}"
        for source in sources
        for model, table in zip(models, source.tables(source.fastest), strict=True)
        if len(table.exits) != len(model.exits)
    ]
    free = [source.name for source in sources if source.counted == "nothing"]
    if free and len(free) < len(sources):
        faults.append(
            f"platforms: expected NPUs only or devices only, whose costs are alike, found both, e.g. {free[0]}"
        )
    if faults:
        raise InputError(faults)


def _with_enough(
    network: ServedNetwork, number: int, models: Sequence[Network], sources: Sequence[Source]
) -> ServedNetwork:
    """The network, whose clients have as many requests ready as they can send on any hardware until they stop."""
    traffic = network.traffic
    if traffic is None or traffic.clients is None or traffic.count is not None:
        return network
    first = sum(len(model.exits) for model in models[:number])
    most_per_s = max(
        1 / source.least.work_s[:, first, 0].min()
        if isinstance(source, BoardSource)
        else answers_per_s(source.tables(0)[number])
        for source in sources
    )
    ready = traffic.clients.count + traffic.lasts_s * most_per_s
    return replace(network, traffic=replace(traffic, count=math.ceil(min(ready, MOST_REQUESTS))))


def _settings(
    network: ServedNetwork, model: Network, fastest: Sequence[LatencyTable], tried: Tried
) -> list[ExitSetting]:
    """The settings of a network's exits that are tried; one if its file states its threshold."""
    samples = None if network.samples is None else as_samples(network.samples)
    if samples is None or network.threshold is None:
        return settings_on(model, fastest, samples, tried)
    last = len(model.exits)
    thresholds = tuple(chosen_thresholds(network.threshold, last, samples.measure))
    return [setting_with(samples, tuple(range(1, last)), thresholds)]
