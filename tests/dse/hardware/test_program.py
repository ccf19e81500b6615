"""Networks on the NPU in SystemVerilog: every integer is the reference's, every cycle the latency table's."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import naive_bus
import numpy as np
import pytest
from builders import COMPILED, POCKET, ROOT, Run, lines, port_for, tool, traffic_of
from fluidb.dse import (
    Overlap,
    SearchOptions,
    Tile,
    search,
    tabulate_design,
    tabulate_latency,
    write_design,
    write_latency,
)
from fluidb.dse.engine import RECORD_WORDS, RESET_CYCLES
from fluidb.dse.hardware import jobs
from fluidb.dse.hardware.commands import Command, NpuFault, Script, Strobe, cycles_between, preemption
from fluidb.dse.hardware.memory import PARTS, memory_of
from fluidb.dse.hardware.places import End, Part
from fluidb.dse.hardware.program import jobs_of
from fluidb.dse.hardware.write import write_hardware
from fluidb.dse.integers import reference
from fluidb.dse.integers.file import INTEGER_FILE
from fluidb.dse.integers.layer_jobs import job_of
from fluidb.dse.integers.network import HIGH, AddLayer, Integers
from fluidb.dse.integers.quantise import Quantised, quantise, write_quantised
from fluidb.dse.npu.choices import Batching
from fluidb.dse.npu.costs import layer_costs
from fluidb.dse.npu.design import DesignTable
from fluidb.dse.npu.fbcb import FbcbTable
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.models.digits import INPUTS, MODEL
from fluidb.models.loader import build_network
from fluidb.platforms import load_platform
from fluidb.serving import find_policy, simulate
from fluidb.tables.layer_use import layer_groups
from fluidb.traffic import poisson
from test_engine import verilate
from trained import blocks, pools, residual_blocks

pytestmark = pytest.mark.skipif(not COMPILED, reason="the schedule of a whole network as plain Python takes minutes")

PORT: dict[str, Any] = {"port_words": 8, "bandwidth_gb_s": 1.4, "port_latency_cycles": 20.0, "port_turn_cycles": 9.0}
BOARD = load_platform(POCKET).model_copy(update={**PORT, "dsps": 40, "on_chip_mbit": 1.0, "pixels": [1, 2]})
BUILT = SearchOptions(tile=Tile(128, 2, 7), b_max=6, memory_layers=False)
SERVED = BUILT.model_copy(update={"b_max": 3})  # other tests count larger batches


@pytest.fixture(scope="module")
def digits() -> Quantised:
    return quantise(MODEL, INPUTS)


def designed(found: Quantised, options: SearchOptions = BUILT):
    network = build_network(found.file, "network.toml")
    return tabulate_design(network, BOARD, options, search(network, BOARD, options))


def of_blocks(folder: Path, made: Callable[[Path], Path] = blocks) -> tuple[Quantised, Any]:
    """A network of blocks of others, and samples, with which their bounds are reached."""
    samples = np.random.default_rng(3).normal(size=(7, 3, 10, 9), scale=3).astype(np.float32)
    np.savez(folder / "x.npz", input=samples)
    quantised = quantise(made(folder), folder / "x.npz")
    maps = reference.run(quantised.network, reference.encode(quantised.network, samples))
    for layer in quantised.network.layers:
        if getattr(layer, "high", HIGH) < HIGH:
            assert (maps[layer.name] == layer.high).any()
    return quantised, samples


def of_pools(folder: Path) -> tuple[Quantised, Any]:
    """A network with pools of each kind, and samples."""
    samples = np.random.default_rng(5).normal(size=(7, 3, 13, 11)).astype(np.float32)
    np.savez(folder / "x.npz", input=samples)
    return quantise(pools(folder), folder / "x.npz"), samples


def written(found: Quantised, folder: Path, options: SearchOptions = BUILT) -> Path:
    """The hardware of a network's design, with its memory."""
    write_design(folder / "design", *designed(found, options))
    write_latency(folder / "design")
    write_quantised(found, folder / "int16")
    write_hardware(folder / "design", folder / "rtl", integers=folder / "int16" / INTEGER_FILE)
    return folder / "rtl"


def built(rtl: Path) -> list[str]:
    """The command that runs the testbench, which was built as README.md says."""
    (build, then) = re.findall(r"```sh\n(verilator --cc.*)\n(.*)\n```", (rtl / "README.md").read_text())[0]
    limit = ["-CFLAGS", "-DLIMIT=2000000u"]  # of cycles, so that a layer that does not end is noticed soon
    one_file = ["--output-split", "0"]  # for the compiler: it reads Verilator's headers once
    command = [tool("verilator"), *shlex.split(build)[1:], *one_file, *limit]
    quick = os.environ | {"MAKEFLAGS": "OPT_FAST=-Og OPT_GLOBAL=-O0"}  # to compile; it runs for a moment only
    done = verilate(command, rtl, rtl / "obj_dir", env=quick)
    assert (done.returncode, done.stderr) == (0, "")
    return shlex.split(then)


def printed(rtl: Path, command: list[str], script: Script | None = None) -> list[str]:
    """What the testbench says of a run without a fault, by a script or by the written commands."""
    if script:
        (rtl / "other.bin").write_bytes(script.content())
        command = [*command[:2], "other.bin"]
    done = subprocess.run(command, cwd=rtl, capture_output=True, text=True, check=False)
    assert re.search(r"^PASSED: ", done.stdout, re.MULTILINE), done.stdout[:2000]
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def numbers(lines: list[str], about: str) -> list[list[int]]:
    return [list(map(int, re.findall(r"\d+", line))) for line in lines if line.startswith(f"{about} ")]


def ran(rtl: Path, command: list[str], script: Script | None = None) -> list[list[int]]:
    """Layer, batch and cycles of what the NPU ran without a fault."""
    return numbers(printed(rtl, command, script), "layer")


@pytest.fixture(scope="module")
def npu(digits: Quantised, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder of the hardware for digits, and the command that runs it."""
    rtl = written(digits, tmp_path_factory.mktemp("npu"))
    return rtl, built(rtl)


def script_of(found: Quantised, samples: Any, options: SearchOptions = BUILT) -> Script:
    design, fbcb = designed(found, options)
    timed = jobs_of(found.network, design, fbcb)
    memory = memory_of(found.network, timed, fbcb, BOARD.usual_port_words)
    return Script(found.network, timed, memory, port_for(BOARD), samples)


@pytest.fixture(scope="module")
def counted(digits: Quantised, npu: tuple[Path, list[str]]) -> dict[str, list[int]]:
    """Cycles of every product for up to three samples, as the NPU runs the first two stages with each.

    The later stages have products of the same sizes as the second.
    """
    with np.load(INPUTS) as held:
        script = script_of(digits, reference.encode(digits.network, held["input"][: SERVED.b_max]))
    for b in range(1, SERVED.b_max + 1):
        rows = np.arange(b)
        script.hand_over(0, rows, 0)
        for stage in (1, 2):
            # the batch before had one sample less
            to_layer = Strobe.ADVANCE if stage > 1 else Strobe.RESTART
            script.stage(stage, rows, 0, Strobe.UPDATE | to_layer, 0, int(stage == 1))
            script.hand_over(stage, rows, 0)
    found: dict[str, list[int]] = {name: [] for name in script.timed}
    for layer, _, cycles in ran(*npu, script):
        list(found.values())[layer].append(cycles)
    for name in [name for name, cycles in found.items() if not cycles]:
        second = f"{name[:-1]}2"
        assert [job.cycles for job in script.timed[name]] == [job.cycles for job in script.timed[second]]
        found[name] = found[second]
    return found


@pytest.mark.parametrize("which", ["digits", "blocks", "residual", "pools"])
def test_samples_leave_and_join_on_the_npu(
    digits: Quantised, npu: tuple[Path, list[str]], tmp_path: Path, which: str
) -> None:
    """Five samples, some of which leave at the first exit; then two more overtake the others and join them there.

    The convolutions of blocks run a batch one sample after the other, on two pixels side by side.  Of the network with
    pools the host has nothing to do between its input and an exit.
    """
    options = BUILT
    if which == "digits":
        quantised, (rtl, command) = digits, npu
        with np.load(INPUTS) as held:
            inputs = held["input"][:7]
    else:
        made = {"blocks": blocks, "residual": residual_blocks}
        quantised, inputs = of_blocks(tmp_path, made[which]) if which in made else of_pools(tmp_path)
        if which == "blocks":
            options = BUILT.model_copy(update={"batching": Batching.FC, "tile": Tile(64, 2, 3, 2)})
        if which == "residual":
            options = BUILT.model_copy(update={"tile": Tile(32, 3, 4)})
        rtl = written(quantised, tmp_path, options)
        command = built(rtl)
    network = quantised.network
    script = script_of(quantised, reference.encode(network, inputs), options)
    if which == "pools":
        assert {end.end for end in script.places.values()} == {End.NEXT, End.EXIT}
        assert [(name, place.host) for name, place in script.places.items() if place.host] == [
            ("stem", (Part("input", 0, 3),))
        ]
    runs = preemption(script, 2)
    assert runs == [(1, 5), (1, 2), (2, 4), (3, 2), (4, 1)][: len(network.exits) + 1]
    design, fbcb = designed(quantised, options)
    times, found = tabulate_latency(bare(design), fbcb).array(), ran(rtl, command, script)
    stages = [network.layer(name).stage for name in script.timed]
    expected = [(layer, b) for stage, b in runs for layer, its in enumerate(stages) if its == stage]
    assert [(layer, b) for layer, b, _ in found] == expected
    for stage, b in runs:
        cycles = sum(cycles for layer, its, cycles in found if (stages[layer], its) == (stage, b))
        assert cycles == round(times[stage - 1, stage, b] * BOARD.clock_hz)


def test_the_host_writes_what_no_product_writes_and_only_once(tmp_path: Path) -> None:
    """And the NPU waits for it there alone."""
    quantised, inputs = of_blocks(tmp_path)
    script = script_of(quantised, reference.encode(quantised.network, inputs))
    host = {name: [part.name for part in place.host] for name, place in script.places.items() if place.host}
    assert host == {
        "stem": ["input"], "end": ["pool"], "twice": ["pool"],
    }  # fmt: skip
    order = list(script.places)
    waits = {order[order.index(name) + 1] for name, place in script.places.items() if place.end is End.HOST}
    assert waits == {"end", "twice"}


def test_residual_additions_need_no_host(tmp_path: Path) -> None:
    """It writes the input alone; each sum lies where its product writes, and both of its operands alike."""
    quantised, inputs = of_blocks(tmp_path, residual_blocks)
    script = script_of(quantised, reference.encode(quantised.network, inputs))
    places, order = script.places, list(script.places)
    assert [name for name in order if places[name].all_host] == ["stem"]
    assert [name for name in order if places[name].end is not End.NEXT] == ["e1", "e2"]
    adds = {name: (place.map, place.residual.name) for name, place in places.items() if place.residual}
    assert adds == {"down": ("first", "wide"), "project": ("second", "first"), "last": ("third", "second")}
    for name, (_, other) in adds.items():
        (writer,) = (place for place in places.values() if place.map == other)
        place = places[name]
        assert place.residual
        assert place.residual.at == writer.y
        assert (place.y_sample, place.y_channel) == (writer.y_sample, writer.y_channel)


PACKED = {"residual": {"first", "second", "third", "wide"}}
"""Maps of more than a pixel that a 5x5 convolution reads as one row, and what is added to them."""


@pytest.mark.parametrize(("which", "made"), [("blocks", blocks), ("residual", residual_blocks), ("pools", pools)])
def test_channels_begin_at_multiples_of_a_beat(which: str, made: Callable[[Path], Path], tmp_path: Path) -> None:
    """Unless they are one pixel, or are read as one row; a constant behind each channel begins there, too."""
    quantised, inputs = of_pools(tmp_path) if made is pools else of_blocks(tmp_path, made)
    script, words = script_of(quantised, reference.encode(quantised.network, inputs)), PORT["port_words"]
    tight = set()
    for name, place in script.places.items():
        _, height, width = quantised.network.size(place.map)
        by_channel = (
            place.filling > 0 and place.y_sample == quantised.network.size(place.map).channels * place.y_channel
        )
        pitch = place.y_channel // (1 + by_channel)
        if pitch == height * width:
            tight |= {place.map} if pitch % words and pitch > 1 else set()
        else:
            assert height * width > 1, name
            assert pitch == -(-height * width // words) * words, name
            assert place.y % words == 0, name
    assert tight == PACKED.get(which, set())


def test_an_addition_whose_scales_differ_too_much_is_refused(digits: Quantised) -> None:
    design, fbcb = designed(digits)
    layers = [
        layer.model_copy(update={"left": (0, 16)}) if isinstance(layer, AddLayer) else layer
        for layer in digits.network.layers
    ]
    with pytest.raises(InputError, match='layer "sum1": addition: expected maps whose scales differ by at most 2'):
        jobs_of(digits.network._replace(layers=layers), design, fbcb)


def bare(design: DesignTable) -> DesignTable:
    """The design with the port of the testbench, which takes any address."""
    return design.model_copy(update={"platform": BOARD.without_bus()})


def tables_of(design: DesignTable, fbcb: FbcbTable) -> tuple[Any, Any]:
    """Cycles of each layer and batch, with the bus and with a port that takes any address."""
    return tuple(layer_costs(one, fbcb).time_s * BOARD.clock_hz for one in (design, bare(design)))


def first_stage(script: Script, b: int) -> Script:
    """With a script's first stage for a batch, and what it needs."""
    script.hand_over(0, np.arange(b), 0)
    script.stage(1, np.arange(b), 0, Strobe.UPDATE | Strobe.RESTART, 0, b)
    return script


def test_the_npu_runs_an_entry_that_the_host_writes(digits: Quantised, npu: tuple[Path, list[str]]) -> None:
    """Five samples as 2 x 3, with one in the last column; the record of this layout is in the memory."""
    rtl, command = npu
    design, fbcb = designed(digits)
    with np.load(INPUTS) as held:
        samples = reference.encode(digits.network, held["input"][:5])
    assert fbcb.block_bits == 2
    others = {
        "a1": "00_01_001",
        "b1": "00_01_001",
        "exit1/head1": "01_00_001",
    }  # k = 1 and 2; two blocks of rows, and one
    entries = {name: entry.replace("_", "") for name, entry in others.items()}
    rows = [
        row.model_copy(update={"entries": [*row.entries[:4], entries.get(row.layer, row.entries[4]), row.entries[5]]})
        for row in fbcb.rows
    ]
    other = fbcb.model_copy(update={"rows": rows})
    timed = jobs_of(digits.network, design, other)
    memory = memory_of(digits.network, timed, other, BOARD.usual_port_words)
    (rtl / "other_memory.bin").write_bytes(memory.content())
    script = Script(digits.network, timed, memory, port_for(BOARD), samples)
    written = [number for number, row in enumerate(rows) if row not in fbcb.rows]
    assert len(written) == len(entries)
    for number in written:
        script.add(Command.ENTRY, number * BUILT.b_max + 4, int(rows[number].entries[4], 2))
    assert len(ran(rtl, [command[0], "other_memory.bin", command[2]], first_stage(script, 5))) == 5


def test_a_record_of_another_entry_does_not_run(digits: Quantised, npu: tuple[Path, list[str]]) -> None:
    rtl, command = npu
    with np.load(INPUTS) as held:
        script = first_stage(script_of(digits, reference.encode(digits.network, held["input"][:1])), 1)
    assert len(ran(rtl, command, script)) == 5
    for bit in (0, 16, 24):  # B_R, the code of the blocks of rows, the code of k
        memory = np.frombuffer((rtl / "memory.bin").read_bytes(), "<u4").copy()
        memory[len(jobs.FIELDS) - len(jobs.LAYOUT_FIELDS) + 2] ^= 1 << bit  # behind two addresses
        (rtl / "changed.bin").write_bytes(memory.tobytes())
        done = subprocess.run(
            [command[0], "changed.bin", "other.bin"], cwd=rtl, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert f"found {NpuFault.STALE}" in done.stdout
        assert "layer 0," not in done.stdout


@pytest.fixture(scope="module")
def samples(digits: Quantised) -> Integers:
    with np.load(INPUTS) as held:
        return reference.encode(digits.network, held["input"][:2])


def refused(script: Script, fault: NpuFault, strobes: int, b_exit: int, b_incr: int, slot: int) -> None:
    """Strobes after which no layer runs; then a reset."""
    script.add(Command.FAULT, fault)
    script.add(Command.GIVE, strobes, b_exit, b_incr, slot)
    script.add(Command.RUN, 0, False)
    script.add(Command.RESET, 0, 1)


def test_a_start_without_samples_or_without_places_is_refused(
    digits: Quantised, npu: tuple[Path, list[str]], samples: Integers
) -> None:
    """Neither hangs the NPU nor writes beyond the maps, and after a reset it runs."""
    script, started = script_of(digits, samples), Strobe.UPDATE | Strobe.RESTART | Strobe.START
    refused(script, NpuFault.EMPTY, started, 0, 0, 0)
    refused(script, NpuFault.PLACES, started, 0, 2, BUILT.b_max - 1)
    script.hand_over(0, np.arange(2), BUILT.b_max - 2)
    script.stage(1, np.arange(2), BUILT.b_max - 2, started & ~Strobe.START, 0, 2)  # the last places
    assert len(ran(*npu, script)) == 5


@pytest.mark.parametrize("strobe", list(Strobe))
def test_strobes_while_a_layer_runs_are_not_obeyed(
    digits: Quantised, npu: tuple[Path, list[str]], samples: Integers, strobe: Strobe
) -> None:
    """Maps and cycles are the same as without them, and the NPU says so."""
    script = script_of(digits, samples)
    in_second_layer = next(iter(script.timed.values()))[1].cycles + 200
    script.add(Command.FAULT, NpuFault.BUSY)
    script.add(Command.LATER, in_second_layer, Command.GIVE, strobe, 0, 1, 3)
    assert len(ran(*npu, first_stage(script, 2))) == 5


@pytest.mark.parametrize("cycles", [10, 40, 700])
def test_a_reset_waits_for_the_words_that_are_asked_for(
    digits: Quantised, npu: tuple[Path, list[str]], samples: Integers, cycles: int
) -> None:
    """While a record or a tile loads; the next run would take them for its own."""
    script = script_of(digits, samples)
    script.hand_over(0, np.arange(2), 0)
    script.add(Command.GIVE, Strobe.UPDATE | Strobe.RESTART | Strobe.START, 0, 2, 0)
    script.add(Command.RESET, cycles, 1)
    assert len(ran(*npu, first_stage(script, 2))) == 5


def test_a_long_reset_forgets_them(digits: Quantised, npu: tuple[Path, list[str]], samples: Integers) -> None:
    """And the NPU says that words come which it did not ask for."""
    script, late = script_of(digits, samples), 2 * RESET_CYCLES
    script.parts[0][2] = late
    script.add(Command.GIVE, Strobe.UPDATE | Strobe.RESTART | Strobe.START, 0, 2, 0)
    script.add(Command.RESET, 9, RESET_CYCLES)
    script.add(Command.FAULT, NpuFault.UNASKED)
    for _ in range(late - RESET_CYCLES):
        script.add(Command.GIVE, 0, 0, 0, 0)
    script.add(Command.RUN, 0, False)
    assert ran(*npu, script) == []


def walked(digits: Quantised, products: list[dict[str, Any]], layer: int, b: int) -> Any:
    """Beats of the loads of a layer, and lines that an aligned bus fetches for them, address by address."""
    design, fbcb = designed(digits)
    row = products[layer]
    job = jobs_of(digits.network, design, fbcb)[row["name"]][b - 1].job
    tile, rows, words = tuple(map(int, job.tile)), job.rows, PORT["port_words"]
    alone = naive_bus.alone(job.window, job.C, job.groups, words)
    places = alone._replace(
        x=row["x"], w=row["weights"], y=row["y"], x_sample=row["x_sample"], y_sample=row["y_sample"],
        y_channel=row["y_channel"], w_group=0 if job.shared else alone.w_group,
    )  # fmt: skip
    distance = row["residual"]["at"] - row["y"] if job.addition else None
    counted = naive_bus.count(job.window, job.C, job.groups, job.layout, tile, rows, words, places, distance)
    return np.array([counted.loads + counted.adds, counted.moved + counted.added])


def test_the_npu_runs_what_was_written_for_it(digits: Quantised, npu: tuple[Path, list[str]]) -> None:
    """With random samples, and it is where the map says."""
    rtl, command = npu
    lines, late = printed(rtl, command), BUILT.b_max // 3
    found = numbers(lines, "layer")
    assert {b for layer, b, _ in found if layer == 0} == {BUILT.b_max, late}
    about = json.loads((rtl / "memory.json").read_text())
    memory = np.frombuffer((rtl / "memory.bin").read_bytes(), "<i2")
    assert (about["words"], about["b_max"]) == (len(memory), BUILT.b_max)
    for row in about["products"]:
        weights = job_of(digits.network, digits.network.layer(row["name"])).weights
        assert np.array_equal(memory[row["weights"] :][: weights.size], weights.ravel())
    ((beats, unaligned, lines_of_bus, fetched),) = numbers(lines, "loads:")
    shares = [round(100 * unaligned / beats), *(round(100 * n / beats - 100) for n in (lines_of_bus, fetched))]
    by_walk = sum(walked(digits, about["products"], layer, b) for layer, b, _ in found)
    records = len(found) * PARTS * RECORD_WORDS // PORT["port_words"]
    assert (beats, fetched) == tuple(by_walk + records)
    said = (
        f"{beats:,} beats of loads, {shares[0]} % of them unaligned; an aligned bus moves {shares[1]} % more beats, "
        f"{shares[2]} % if neighbours are merged"
    )
    assert said in " ".join((ROOT / "docs" / "hardware.md").read_text().split())


@pytest.mark.parametrize("policy", ["fluid", "lazy", "adaptb:timeout=1ms"])
def test_a_trace_is_served_alike_in_the_cycles_that_the_npu_counts(
    counted: dict[str, list[int]], digits: Quantised, policy: str
) -> None:
    """Every request returns at the same time, to the bit."""
    design, fbcb = designed(digits, SERVED)
    table, rows = tabulate_latency(bare(design), fbcb), design.network.layers
    groups = [[rows[at].name.split("/")[-1] for at in group] for group in layer_groups(rows)]  # with the last pool
    layers = [
        layer.model_copy(update={"time_s": sum(np.array(counted[name]) for name in names) / BOARD.clock_hz})
        for layer, names in zip(table.layers, groups, strict=True)
    ]
    other = table.model_copy(update={"layers": layers})
    assert {name for names in groups for name in names} == set(counted)
    rate_per_s = 0.8 * SERVED.b_max / table.array()[0, -1, SERVED.b_max]
    trace = replace(poisson(rate_per_s, 2000, 1), slo_s=np.full(2000, 3 * table.array()[0, -1, 1]))
    exits = np.random.default_rng(1).integers(1, len(table.exits) + 1, len(trace))
    served, again = (simulate(one, traffic_of(trace, exits), find_policy(policy)) for one in (table, other))
    assert np.array_equal(served.finish_s, again.finish_s)
    assert served.launches[:, 2:].any()  # batches, too


def test_memory_of_another_network_is_refused(
    digits: Quantised, tiny_design: Path, fluidb: Run, tmp_path: Path
) -> None:
    write_quantised(digits, tmp_path / "int16")
    for name, fault in (
        ("int16/integer.npz", 'design.json: layer "conv1": expected a product of digits'),
        ("none.npz", "none.npz: expected a quantised network, found no such file"),
    ):
        (line,) = lines(fluidb("hardware", tiny_design, "-o", "rtl", "--integers", name))
        assert fault in line
        assert not (tmp_path / "rtl").exists()


def test_jobs_take_the_cycles_of_the_engine_alone(digits: Quantised) -> None:
    """The testbench of the NPU has no bus; the latency table counts it."""
    design, fbcb = designed(digits)
    timed, (table, anywhere) = jobs_of(digits.network, design, fbcb), tables_of(design, fbcb)
    products = [place for place, layer in enumerate(design.network.layers) if layer.operator in timed]
    assert np.array([[job.cycles for job in row] for row in timed.values()]) == pytest.approx(anywhere[products])
    assert (table[products] >= anywhere[products]).all()
    assert tabulate_latency(design, fbcb).array()[0, -1, 1] * BOARD.clock_hz == pytest.approx(table[:, 0].sum())
    assert table.sum() > anywhere.sum()


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


def test_the_page_says_how_late_layers_start() -> None:
    """By the formula of docs/hardware.md, of the 83.91 ms that docs/npu.md prints."""
    board, network = load_platform("zc706"), load_network("resnet50")
    products, pools = len(network.gemms), sum(layer.pool is not None for layer in network.layers)
    late = cycles_between(port_for(board), 8)
    of_all = (products + pools) * late
    said = (
        f"It is {late} cycles on ZC706, or {of_all:,} for the {products} products and {pools} pools of ResNet-50: "
        f"{100 * of_all / (board.clock_hz * 83.91e-3):.2f} % of its time"
    )
    assert said in " ".join((ROOT / "docs" / "hardware.md").read_text().split())
