"""The networks of a question, before hardware for them is known: the only one, or the networks of a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from ...formats import AnyPath, InputError, is_input, parse_toml, read_toml
from ...models import NETWORKS, Network
from ...models.candidates import find_candidates, with_exits
from ...models.loader import build_network, read_network_file
from ...models.schema import NetworkFile
from ...models.supernets.catalogue import is_family, load_family
from ...platforms import Accelerator, Board, Cluster, Device, Platform
from ...serving.device_traffic import answers_per_s
from ...serving.networks import NetworkKeys, NetworksFile, ServedNetwork, names_of, read_networks
from ...tables.latency import LatencyTable, read_latency
from ...tables.reuse import SubNetEntry
from ...traffic.own import MOST as MOST_REQUESTS
from ...traffic.samples import Samples, read_samples
from ..scenario import beside
from .given import given_alone, given_of_each
from .plan_traffic import ALONE, SHARED, ArrivalWords
from .sources import BoardSource, Source


class PlanNetwork(NamedTuple):
    """A network that a plan may run; several are the SubNets of a SuperNet."""

    name: str  # as the user wrote it, or its SuperNet
    file: NetworkFile
    path: Path
    network: Network
    subnet: SubNetEntry | None


def find_networks(name: str, samples: Samples | None) -> list[PlanNetwork]:
    """The network of a name, or every SubNet of a SuperNet.

    A network has an exit at each of its candidates if the samples answer there.
    """
    if "," in name and ":" not in name and not is_input(name):
        raise InputError(
            f'network: expected one, found "{name}"; state several in a file of networks, each with its requests '
            "and requirements (`fluidb docs plan`)"
        )
    if is_family(name):
        networks = []
        for member in load_family(name).members():
            file, path = read_network_file(f"{name}:{member.name}")
            subnet = SubNetEntry(name=member.name, accuracy=member.accuracy)
            networks.append(PlanNetwork(name, file, path, build_network(file, path), subnet))
        return networks
    file, path = read_network_file(name)
    if samples is not None and file.candidates and samples.exits == len(find_candidates(file, path)) + 1:
        file = with_exits(file, path)
    return [PlanNetwork(name, file, path, build_network(file, path), None)]


@dataclass(frozen=True)
class AskedNetwork:
    """A network of a question."""

    keys: NetworkKeys  # as its file states it; the only network has no name
    members: Sequence[PlanNetwork]  # the network, or the SubNets of a SuperNet; none if its file states a table only
    table: LatencyTable | None = None  # of the hardware that its file states, if it does

    @property
    def name(self) -> str:
        """The name of the network that its tables state."""
        if self.members:
            return self.members[0].network.name
        assert self.table is not None
        return self.table.network

    def model(self, table: LatencyTable) -> Network:
        """The network; only its exits are known where the file does not state it."""
        if self.members:
            return self.members[0].network
        return Network.model_construct(name=self.name, title="", sources={}, exits=table.exits, layers=[])


@dataclass(frozen=True)
class AskedNetworks:
    """The networks of a question, and what it takes for them."""

    each: Sequence[AskedNetwork]
    served: Callable[[Sequence[LatencyTable]], Sequence[ServedNetwork]]  # on hardware with a table of each
    arrivals: ArrivalWords
    in_folder: Callable[[str], list[Source]]  # the hardware of a folder with latency tables
    searched: tuple[type[Platform], ...]  # kinds of platforms that are searched or modelled
    alike: bool  # whether the costs of all hardware must be alike

    @property
    def keys(self) -> list[NetworkKeys]:
        """What the file of the networks states of each."""
        return [network.keys for network in self.each]

    @property
    def names(self) -> list[str]:
        """The names of the networks, if they have some."""
        return names_of(self.keys)

    def on(self, sources: Sequence[Source]) -> tuple[tuple[ServedNetwork, ...], tuple[Network, ...]]:
        """The networks as they are served, with tables of some hardware, and as models."""
        tables = sources[0].tables(sources[0].fastest)
        models = [network.model(table) for network, table in zip(self.each, tables, strict=True)]
        served = self.served([table.model_copy(update={"npus": None}) for table in tables])
        given = [_with_enough(network, number, models, sources) for number, network in enumerate(served)]
        return tuple(given), tuple(models)


def only_network(name: str, samples: Samples | None) -> AskedNetworks:
    """The network of a name, which has no other name here; or a SuperNet."""
    asked = AskedNetwork(NetworkKeys.model_construct(name="", network=name), find_networks(name, samples))
    return AskedNetworks(
        [asked], lambda tables: [ServedNetwork(table=table, samples=samples) for table in tables], ALONE, given_alone,
        (Board, Device, Accelerator, Cluster), alike=False,
    )  # fmt: skip


def is_networks_file(name: AnyPath) -> bool:
    """Whether a name is a file of networks."""
    return Path(name).suffix == ".toml" and is_input(Path(name)) and "networks" in parse_toml(Path(name))


def networks_of_file(path: AnyPath) -> AskedNetworks:
    """The networks of a file; each states its network, a latency table, or both."""
    folder, asked = Path(path).parent, []
    for index, keys in enumerate(read_toml(NetworksFile, path).networks):
        table, members = None if keys.table is None else read_latency(folder / keys.table), list[PlanNetwork]()
        if keys.network is not None:
            samples = None if keys.samples is None else read_samples(folder / keys.samples)
            members = find_networks(beside(folder, keys.network, NETWORKS), samples)
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
        asked.append(AskedNetwork(keys, members, table))
    in_folder = partial(given_of_each, [network.name for network in asked])
    return AskedNetworks(asked, partial(read_networks, path), SHARED, in_folder, (Board, Device), alike=True)


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


def one_behind_another(networks: Sequence[Network], names: Sequence[str]) -> Network:
    """The stages of all networks as stages of one, whose exits have both names; without names, the only network."""
    if not names:
        return networks[0]
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
