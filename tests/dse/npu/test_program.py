"""The shipped network on the engine in SystemVerilog: every integer is the reference's, every cycle the table's."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import COMPILED, POCKET, traffic_of
from fluidb.dse import Overlap, SearchOptions, Tile, search, tabulate_design, tabulate_latency
from fluidb.dse.npu import integer, jobs
from fluidb.dse.npu.hardware import engine_package_text
from fluidb.dse.npu.integer import IntegerNetwork, ProductLayer
from fluidb.dse.npu.program import jobs_of
from fluidb.dse.npu.quantise import Quantised, quantise
from fluidb.formats import InputError
from fluidb.models.digits import INPUTS, MODEL
from fluidb.models.loader import build_network
from fluidb.platforms import load_platform
from fluidb.serving import find_policy, simulate
from fluidb.traffic import poisson
from test_engine import compiled
from test_integer import alexnet_cifar10

pytestmark = pytest.mark.skipif(not COMPILED, reason="the schedule of a whole network as plain Python takes minutes")

PORT: dict[str, Any] = {"port_words": 8, "bandwidth_gb_s": 1.4, "port_latency_cycles": 20.0}  # ready in 7 of 8 cycles
BOARD = load_platform(POCKET).model_copy(update={**PORT, "dsps": 40, "on_chip_mbit": 1.0})
BUILT = SearchOptions(tile=Tile(64, 4, 8), b_max=6, memory_layers=False)


@pytest.fixture(scope="module")
def digits() -> Quantised:
    return quantise(MODEL, INPUTS)


def designed(found: Quantised, options: SearchOptions = BUILT):
    network = build_network(found.file, "network.toml")
    return tabulate_design(network, BOARD, options, search(network, BOARD, options))


def photographs(folder: Path) -> tuple[Quantised, Any]:
    """A network of CIFAR-10's size, with a quarter of the channels and random weights; and samples."""
    samples = np.random.default_rng(3).normal(size=(7, 3, 32, 32)).astype(np.float32)
    np.savez(folder / "x.npz", input=samples)
    return quantise(alexnet_cifar10(folder, narrower=4), folder / "x.npz"), samples


@pytest.fixture(scope="module")
def npu(digits: Quantised, tmp_path_factory: pytest.TempPathFactory) -> Npu:
    design, fbcb = designed(digits)
    folder = tmp_path_factory.mktemp("engine")
    (folder / "engine_pkg.sv").write_text(engine_package_text(design, fbcb))
    return Npu(digits.network, jobs_of(digits.network, design, fbcb), compiled(folder), BOARD.port)


@pytest.fixture(scope="module")
def counted(digits: Quantised, npu: Npu) -> dict[str, list[int]]:
    """Cycles of every product for every batch size, as the engine counts them."""
    found: dict[str, list[int]] = {}
    for layer in digits.network.layers:
        if isinstance(layer, ProductLayer):
            channels, height, width = digits.network.size(layer.inputs[0])
            npu.cycles.clear()
            for b in range(1, BUILT.b_max + 1):
                maps = np.zeros((b, channels, height, width), np.int16)
                npu.product(layer, integer.with_constant(layer, maps))
            found[layer.name] = list(npu.cycles)
    return found


class Npu:
    """The engine with its host, which computes what is between products."""

    def __init__(self, network: IntegerNetwork, timed: Any, program: Path, port: Any) -> None:
        self.network, self.timed, self.program, self.port = network, timed, program, port
        self.cycles: list[int] = []
        readers = [(layer.inputs[0], layer.constant) for layer in network.layers if isinstance(layer, ProductLayer)]
        self.constants = dict(reversed(readers))  # of the first product that reads each map

    def product(self, layer: ProductLayer, maps: Any) -> Any:
        """Outputs as they lie in memory, [sample][channel][height][width], with the constant of the next layer."""
        job = self.timed[layer.name][len(maps) - 1].job._replace(gap=layer.shape[1] * layer.shape[2])
        weights = self.network.weights[layer.name]
        room = np.full((len(maps), layer.shape[0] + 1, *layer.shape[1:]), 0x5A5A, np.int16)
        room[:, -1] = self.constants.get(layer.name, 7)
        parts = [maps.ravel(), weights.ravel(), room.ravel()]
        bases = np.cumsum([0, *(part.size for part in parts)]).tolist()
        memory = np.concatenate([*parts, np.zeros(bases[-1] % 2, np.int16)])
        words, ready, cycles, latency = map(int, self.port)
        head = [*jobs.descriptor(job, words, *bases[:3]), ready, cycles, latency, len(memory)]
        folder = self.program.parent
        (folder / "jobs").write_bytes(np.array(head, "<u4").tobytes() + memory.astype("<i2").tobytes())
        subprocess.run([self.program, "jobs", "results"], cwd=folder, check=True)
        found = (folder / "results").read_bytes()
        after = np.frombuffer(found, "<i2", len(memory), 4).astype(np.int16)
        assert np.array_equal(after[: bases[2]], memory[: bases[2]])
        self.cycles.append(int.from_bytes(found[:4], "little"))
        made = after[bases[2] : bases[3]].reshape(room.shape)
        assert np.array_equal(made[:, -1], room[:, -1])
        return made

    def stage(self, number: int, maps: dict[str, Any]) -> dict[str, Any]:
        """Outputs of a stage's layers, by products on the engine."""
        found, made = dict(maps), {}
        rooms: dict[str, Any] = {}
        for layer in self.network.layers:
            if layer.stage != number:
                continue
            inputs = [found[name] for name in layer.inputs]
            if isinstance(layer, ProductLayer):
                (source,) = layer.inputs  # what the engine wrote is read where it lies
                given = rooms.get(source)
                given = integer.with_constant(layer, inputs[0]) if given is None else given
                rooms[layer.name] = self.product(layer, given)
                made[layer.name] = rooms[layer.name][:, :-1]
            else:
                made[layer.name] = integer.run_layer(self.network, layer, *inputs)
            found[layer.name] = made[layer.name]
        return made


@pytest.mark.parametrize("which", ["digits", "photographs"])
def test_samples_leave_and_join_on_the_engine(digits: Quantised, npu: Npu, tmp_path: Path, which: str) -> None:
    """Five samples, some of which leave at the first exit; then two more overtake the others and join them there."""
    if which == "digits":
        quantised = digits
        with np.load(INPUTS) as held:
            inputs = held["input"][:7]
    else:
        quantised, inputs = photographs(tmp_path)
    design, fbcb = designed(quantised)
    network, times = quantised.network, tabulate_latency(design, fbcb).array()
    npu = Npu(network, jobs_of(network, design, fbcb), npu.program, BOARD.port)
    samples = integer.encode(network, inputs)
    whole, runs = integer.run(network, samples), []

    def run(stage: int, rows: Any, maps: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Run a stage for some samples; those that stay, and what they keep."""
        npu.cycles.clear()
        found = npu.stage(stage, maps)
        products = [name for name in found if name in network.weights]
        for name, values in found.items():
            assert np.array_equal(values, whole[name][rows]), (stage, name)
        expected = [npu.timed[name][len(rows) - 1].cycles for name in products]
        assert npu.cycles == expected
        assert sum(expected) == round(times[stage - 1, stage, len(rows)] * BOARD.clock_hz)
        runs.append((stage, len(rows)))
        confidence = integer.scores(network, network.exits[stage - 1], found).max(axis=1)
        stay = np.sort(np.argsort(confidence)[: -(-len(rows) // 2)])  # the less sure half
        return rows[stay], {name: (maps | found)[name][stay] for name in network.kept(stage)}

    first, kept = run(1, np.arange(5), {"input": samples[:5]})
    new, more = run(1, np.arange(5, 7), {"input": samples[5:]})
    rows, maps = np.concatenate([first, new]), {name: np.concatenate([kept[name], more[name]]) for name in kept}
    for stage in range(2, len(network.exits) + 1):
        rows, maps = run(stage, rows, maps)
    assert runs == [(1, 5), (1, 2), (2, 4), (3, 2), (4, 1)][: len(network.exits) + 1]


@pytest.mark.parametrize("policy", ["fluid", "lazy", "adaptb:timeout=1ms"])
def test_a_trace_is_served_alike_in_the_cycles_that_the_engine_counts(
    digits: Quantised, npu: Npu, counted: dict[str, list[int]], policy: str
) -> None:
    """Every request returns at the same time, to the bit."""
    table = tabulate_latency(*designed(digits))
    layers = [
        layer.model_copy(update={"time_s": [cycles / BOARD.clock_hz for cycles in counted[layer.name.split("/")[-1]]]})
        for layer in table.layers
    ]
    other = table.model_copy(update={"layers": layers})
    assert {layer.name.split("/")[-1] for layer in layers} == set(npu.timed)
    rate_per_s = 0.8 * BUILT.b_max / table.array()[0, -1, BUILT.b_max]
    trace = replace(poisson(rate_per_s, 2000, 1), slo_s=np.full(2000, 3 * table.array()[0, -1, 1]))
    exits = np.random.default_rng(1).integers(1, len(table.exits) + 1, len(trace))
    served, again = (simulate(one, traffic_of(trace, exits), find_policy(policy)) for one in (table, other))
    assert np.array_equal(served.finish_s, again.finish_s)
    assert served.launches[:, 2:].any()  # batches, too


def test_a_design_for_another_network_is_refused(digits: Quantised) -> None:
    design, fbcb = designed(digits)
    assert {len(found) for found in jobs_of(digits.network, design, fbcb).values()} == {BUILT.b_max}
    first, *others = digits.network.layers
    wider = digits.network._replace(layers=[first.model_copy(update={"channels": 3}), *others])
    with pytest.raises(InputError, match='layer "stem": expected the sizes of digits, found others'):
        jobs_of(wider, design, fbcb)
    with pytest.raises(InputError, match='"stem": expected a product of digits'):
        jobs_of(digits.network._replace(layers=others), design, fbcb)
    more = [*digits.network.layers, first.model_copy(update={"name": "more"})]
    with pytest.raises(InputError, match='expected a product "more", found none'):
        jobs_of(digits.network._replace(layers=more), design, fbcb)
    ideal = designed(digits, BUILT.model_copy(update={"overlap": Overlap.IDEAL}))
    with pytest.raises(InputError, match="expected a design as built"):
        jobs_of(digits.network, *ideal)
