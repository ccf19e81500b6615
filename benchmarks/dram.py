"""Networks on the NPU with LiteDRAM's controller and its model of a DRAM as the memory, against the latency table.

``python benchmarks/dram.py`` (``make dram``) measures every board that ``dram.json`` lacks, or has of other sources,
and prints the table of docs/hardware.md; ``table`` only prints it, ``layers`` each layer; ``fit`` fits the constants
again to what was measured.  Needs Verilator and the dependency group ``dram``; takes minutes for each board.

LiteDRAM's generator writes the controller, which is used as it is; it, the NPU and the bus between them have one clock.
Software brings the DRAM up with the sequence that LiteDRAM writes, hands inputs over through a port of its own, gives
the NPU its commands by registers, and compares each output with the reference in integers.

Constants of the port are *calibrated* with three layers, the longest of each kind of convolution in the network
``blocks`` on the first of two designs.  The share of cycles in which it takes a beat is the least squares of relative
differences of their cycles.  These hardly depend on the latency, so it comes from the shortest time before a layer of
``blocks``, in which the NPU reads what describes the layer, and waits for no write.  Where a memory takes long to turn
to writing, a fourth layer, on the design whose small tiles turn often, gives the cycles of a turn.  All other layers
are *predicted*.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fluidb.dse import SearchOptions, Tile, search, tabulate_design, write_design, write_latency
from fluidb.dse.hardware.commands import cycles_between
from fluidb.dse.hardware.program import jobs_of
from fluidb.dse.hardware.templates import BUS, ENGINE, RTL
from fluidb.dse.hardware.write import write_hardware
from fluidb.dse.integers.file import INTEGER_FILE
from fluidb.dse.integers.network import ProductLayer
from fluidb.dse.integers.quantise import Quantised, quantise, write_quantised
from fluidb.dse.npu.costs import layer_costs
from fluidb.dse.npu.design import DesignTable
from fluidb.dse.npu.fbcb import FbcbTable
from fluidb.dse.npu.ports import port_of
from fluidb.models.digits import INPUTS, MODEL
from fluidb.models.loader import build_network
from fluidb.platforms import Board, load_platform
from fluidb.platforms.board import PORT_LATENCY_CYCLES

HERE = Path(__file__).parent
RESULTS = HERE / "dram.json"
NPU_FILES = [
    *sorted(ENGINE.iterdir()),
    *sorted(BUS.iterdir()),
    *(RTL / f"{name}.sv" for name in ("npu", "fbe", "fbcb")),
]
"""The sources of the NPU with its bus."""

VERILATE = [
    "verilator", "--cc", "--exe", "--build", "--assert", "-O3", "--x-initial", "fast", "-Wno-lint", "-Wno-fatal",
]  # fmt: skip
"""Makes a program of a testbench and of sources that others wrote, which Verilator would warn of."""
CONTROLLER, BENCH = HERE / "dram_controller.py", [HERE / "dram_bench.sv", HERE / "dram_bench.cpp"]

MEMORIES: dict[str, dict[str, Any]] = {
    "arty-a7": {"memtype": "DDR3", "sdram_module": "MT41K128M16", "sdram_phy": "A7DDRPHY"},
    "ulx3s": {"memtype": "SDR", "sdram_module": "MT48LC16M16", "sdram_phy": "GENSDRPHY"},
}
"""Boards, and what LiteX is told of their memories, which are 16 bits wide."""

HALF_RATE = {"ulx3s": ["--half-rate", "MT48LC16M16"]}
"""Boards whose memory has twice the clock (``dram_controller.py``)."""

TURNS = {"ulx3s"}
"""Boards of which the cycles of a turn are calibrated: on the others they explain little (docs/hardware.md)."""

LARGE, SMALL, B_MAX = "<256,4,16>", "<64,4,4>", 3
TILES = {LARGE: Tile(256, 4, 16), SMALL: Tile(64, 4, 4)}
KINDS = ("3x3", "1x1", "depthwise", "fc")
"""The first three calibrate; "fc" has one row."""

MOST_TURN = 100
"""Cycles of a turn that are tried."""

NETWORKS = ("blocks", "digits")


class Constants(NamedTuple):
    """The share of cycles in which a port takes a beat, the cycles to a beat, and those of a turn."""

    ready: float
    latency: int
    turn: int


class Ran(NamedTuple):
    """A layer that ran with the DRAM; cycles as the latency table counts them, then those before its first load."""

    layer: int
    b: int
    cycles: int
    late: int
    loads: int  # beats of the NPU, at any address
    stores: int
    loaded: int  # aligned beats of the bus
    stored: int


@cache
def quantised(name: str) -> Quantised:
    """A network in integers."""
    if name == "digits":
        return quantise(MODEL, INPUTS)
    from dram_network import blocks

    with TemporaryDirectory() as folder:
        return quantise(blocks(Path(folder)), Path(folder) / "x.npz")


Designed = tuple[DesignTable, FbcbTable]


@cache
def designed(board: str, tile: str, name: str) -> Designed:
    """The design of a network on a board, searched as if its port were always ready and took any address."""
    platform = with_port(load_platform(board).without_bus(), Constants(1.0, PORT_LATENCY_CYCLES, 0))
    network = build_network(quantised(name).file, name)
    options = SearchOptions(tile=TILES[tile], b_max=B_MAX)
    return tabulate_design(network, platform, options, search(network, platform, options))


def with_port(board: Board, port: Constants) -> Board:
    """A board with a port of these constants."""
    gb_s = port.ready * board.usual_port_words * board.word_bits / 8 * board.clock_hz / 1e9
    cycles = {"port_latency_cycles": float(port.latency), "port_turn_cycles": float(port.turn)}
    return board.model_copy(update={"bandwidth_gb_s": gb_s, **cycles})


def table_of(board: str, tile: str, name: str, port: Constants) -> dict[str, list[int]]:
    """Cycles of every layer, by batch, as the latency table counts them with the board's bus."""
    design, fbcb = designed(board, tile, name)
    platform = with_port(load_platform(board), port)
    cycles = layer_costs(design.model_copy(update={"platform": platform}), fbcb).time_s * platform.clock_hz
    layers = (layer.operator for layer in design.network.layers)
    return {layer: [round(one) for one in row] for layer, row in zip(layers, cycles.tolist(), strict=True)}


@cache
def layers_of(board: str, tile: str, name: str) -> list[str]:
    """The products in the order of their numbers."""
    return list(jobs_of(quantised(name).network, *designed(board, tile, name)))


def kind_of(name: str, layer: str) -> str:
    """What the tables call a layer."""
    network = quantised(name).network
    product = network.layer(layer)
    if not isinstance(product, ProductLayer):
        return "pool"
    window = network.window(product)
    return "depthwise" if product.groups > 1 else "fc" if window.R == 1 else "x".join(map(str, window.kernel))


def controller(board: Board, folder: Path) -> None:
    """Write LiteDRAM's controller, its model of the DRAM, and the functions that bring it up."""
    bits = board.usual_port_words * board.word_bits
    ports: dict[str, dict[str, Any]] = {"npu": {"type": "axi", "id_width": 1}, "host": {"type": "native"}}
    config = MEMORIES[board.name] | {
        "cpu": "None", "sdram_module_nb": 2, "sdram_rank_nb": 1,
        "sys_clk_freq": board.clock_hz, "input_clk_freq": board.clock_hz,
        "user_ports": {name: port | {"data_width": bits} for name, port in ports.items()},
    }  # fmt: skip
    (folder / "litedram.yml").write_text(json.dumps(config))
    options = [*HALF_RATE.get(board.name, []), "--sim", "--output-dir=litedram", "--name=litedram", "litedram.yml"]
    subprocess.run([sys.executable, CONTROLLER, *options], cwd=folder, check=True, capture_output=True)
    without_software(folder / "litedram" / "software" / "include")


def without_software(headers: Path) -> None:
    """Make the headers of LiteX's own software, which is not used, for the headers that it writes."""
    (headers / "hw").mkdir()
    for name in ("system.h", "hw/common.h"):
        (headers / name).touch()


def simulate(board: str, tile: str, name: str, folder: Path) -> list[Ran]:
    """Every layer of a network, run without a fault."""
    design, fbcb = designed(board, tile, name)
    words = int(design.port.words)
    write_design(folder / "design", design, fbcb)
    write_latency(folder / "design")
    write_quantised(quantised(name), folder / "int16")
    write_hardware(folder / "design", folder / "rtl", integers=folder / "int16" / INTEGER_FILE)
    controller(design.platform, folder)
    (sources,) = re.findall(r"--top-module npu_axi (.*)\n", (folder / "rtl" / "README.md").read_text())
    flags = f"-w -O2 -DBEAT_WORDS={words} -I../../litedram/software/include -I.."
    build = [*VERILATE, "--top-module", "dram_bench", "-CFLAGS", flags, *sources.split()]
    build += ["../litedram/gateware/litedram.v", *map(str, BENCH)]
    subprocess.run(build, cwd=folder / "rtl", check=True, capture_output=True)
    run = ["obj_dir/Vdram_bench", "memory.bin", "commands.bin"]
    text = subprocess.run(run, cwd=folder / "rtl", check=True, capture_output=True, text=True).stdout
    return [Ran(*map(int, line.split()[1:])) for line in text.splitlines() if line.startswith("layer ")]


class Layer(NamedTuple):
    """A layer that ran, of a network on a design, and its kind."""

    tile: str
    network: str
    layer: str
    kind: str
    ran: Ran


def layers_that_ran(run: dict[str, Any]) -> list[Layer]:
    """The layers that ran on a board."""
    return [Layer(tile, name, layer, kind, Ran(*ran)) for tile, name, layer, kind, ran in run["runs"]]


def longest(every: list[Layer], tile: str, kind: str) -> Layer:
    """The longest layer of a kind in ``blocks``."""
    of = [one for one in every if (one.tile, one.network, one.kind) == (tile, "blocks", kind)]
    return max(of, key=lambda one: one.ran.cycles)


def calibrating(board: str, every: list[Layer], kinds: Sequence[str]) -> list[Layer]:
    """The layers that calibrate a board; the last one is on small tiles, if turns are calibrated."""
    turning = [longest(every, SMALL, KINDS[0])] if board in TURNS else []
    return [longest(every, LARGE, kind) for kind in kinds] + turning


def waiting(board: str, ready: float) -> int:
    """Cycles before a layer that waits for no write, beside the latency."""
    design, fbcb = designed(board, LARGE, "blocks")
    return cycles_between(port_of(with_port(design.platform, Constants(ready, 0, 0)), design.tile), fbcb.b_max)


def fitted(board: str, measured: list[Layer], late: int) -> Constants:
    """The constants with the least squares of relative differences over layers that ran.

    ``late``: the shortest time before a layer.
    """

    def port(thousandths: int, turn: int) -> Constants:
        return Constants(thousandths / 1000, max(1, late - waiting(board, thousandths / 1000)), turn)

    def error(thousandths: int, turn: int) -> float:
        tables = {one.tile: table_of(board, one.tile, "blocks", port(thousandths, turn)) for one in measured}
        return sum((tables[one.tile][one.layer][one.ran.b - 1] / one.ran.cycles - 1) ** 2 for one in measured)

    tried = []
    for turn in range(MOST_TURN + 1 if board in TURNS else 1):
        _, about = min((error(ready, turn), ready) for ready in range(50, 1001, 10))
        near = range(max(about - 15, 50), min(about + 15, 1000) + 1)
        tried.append(min((error(ready, turn), ready, turn) for ready in near))
    _, *best = min(tried)
    return port(*best)


def fit(board: str, run: dict[str, Any], kinds: tuple[str, ...]) -> dict[str, Any]:
    """The port by layers of three kinds, and what it predicts of each layer."""
    every = layers_that_ran(run)
    late = min(one.ran.late for one in every if (one.tile, one.network) == (LARGE, "blocks"))
    by = calibrating(board, every, kinds)
    port = fitted(board, by, late)
    tables = {of: table_of(board, *of, port) for of in {(one.tile, one.network) for one in every}}
    table = [tables[one.tile, one.network][one.layer][one.ran.b - 1] for one in every]
    return {"kinds": kinds, **port._asdict(), "calibrated": [every.index(one) for one in by], "table": table}


def digest(board: str) -> str:
    """Twelve digits for what a board runs."""
    texts = [path.read_text(encoding="utf-8") for path in (*NPU_FILES, *BENCH, CONTROLLER)]
    texts.append(repr((MEMORIES[board], TILES, B_MAX)))
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def measure(board: str) -> dict[str, Any]:
    """Run every network on a board, with each design."""
    runs = []
    for tile, name in product(TILES, NETWORKS):
        with TemporaryDirectory() as folder:
            ran = simulate(board, tile, name, Path(folder))
        layers = layers_of(board, tile, name)
        runs += [Layer(tile, name, layers[one.layer], kind_of(name, layers[one.layer]), one) for one in ran]
    platform, memory = load_platform(board), MEMORIES[board]
    about = f"{memory['sdram_module']} ({memory['memtype']}), {platform.clock_mhz:g} MHz"
    return {"sources": digest(board), "about": f"{about}, beats of {platform.usual_port_words} words", "runs": runs}


class Row(NamedTuple):
    """A layer of the results, and its cycles by the table."""

    layer: Layer
    calibrated: bool
    table: int

    @property
    def difference(self) -> float:
        """Of the table from what ran, as a share of it."""
        return self.table / self.layer.ran.cycles - 1


def rows_of(run: dict[str, Any], fit: dict[str, Any]) -> list[Row]:
    """Every layer of a board, with one of its fits."""
    every = zip(layers_that_ran(run), fit["table"], strict=True)
    return [Row(layer, at in fit["calibrated"], table) for at, (layer, table) in enumerate(every)]


def difference(rows: list[Row]) -> float:
    """Of the table from what ran, of all layers in sum."""
    return sum(row.table for row in rows) / sum(row.layer.ran.cycles for row in rows) - 1


def line(name: str, rows: list[Row]) -> str:
    """Layers in sum."""
    cycles, table = sum(row.layer.ran.cycles for row in rows), sum(row.table for row in rows)
    worst = max((row.difference for row in rows), key=abs)
    asked, moved = (sum(sum(row.layer.ran[at : at + 2]) for row in rows) for at in (4, 6))
    shares = f"{100 * difference(rows):>+11.1f} %{100 * worst:>+9.1f} %{moved / asked:>7.2f}"
    return f"{name:<22}{len(rows):>6}{cycles:>12,}{table:>12,}{shares}"


def products_of(rows: list[Row]) -> list[Row]:
    """The rows without pools, which read a word here and there."""
    return [row for row in rows if row.layer.kind != "pool"]


def predicted(rows: list[Row], tile: str) -> list[Row]:
    """The rows of a design that did not calibrate."""
    return [row for row in rows if row.layer.tile == tile and not row.calibrated]


def tile_text(rows: list[Row], tile: str) -> list[str]:
    """The lines of a design."""
    of = predicted(rows, tile)
    text = [f"{tile:<22}{'layers':>6}{'LiteDRAM':>12}{'table':>12}{'difference':>13}{'largest':>11}{'beats':>7}"]
    by = [row for row in rows if row.layer.tile == tile and row.calibrated]
    text += [line("calibrated", by)] if by else []
    for name, kind in product(NETWORKS, (*KINDS, "pool")):
        own = [row for row in of if (row.layer.network, row.layer.kind) == (name, kind)]
        text += [line(f"{name}, {kind}", own)] if own else []
    return [*text, line("predicted, products", products_of(of)), line("predicted, in all", of)]


def board_text(board: str, run: dict[str, Any]) -> str:
    """The tables of a board."""
    first, *others = run["fits"]
    port = f"ready in {100 * first['ready']:.1f} % of cycles, latency {first['latency']}, turn {first['turn']}"
    text = [f"{board}: {run['about']}; {port}"]
    for tile in TILES:
        text += tile_text(rows_of(run, first), tile)
    for other in others:
        each = [100 * difference(products_of(predicted(rows_of(run, other), tile))) for tile in TILES]
        text.append(f"products by {', '.join(other['kinds'])} instead: {' and '.join(f'{one:+.1f} %' for one in each)}")
    return "\n".join(text)


def layers_text(results: dict[str, Any]) -> str:
    """Every layer that ran."""
    return "\n".join(
        f"{board}  {of.tile:<12}{of.network:<7}{of.layer:<12}{of.kind:<10}b = {of.ran.b}{of.ran.cycles:>10,}"
        f"{row.table:>10,}{100 * row.difference:>+8.1f} %{' calibrated' if row.calibrated else ''}"
        for board, run in results.items()
        for row in rows_of(run, run["fits"][0])
        for of in [row.layer]
    )


def read_results() -> dict[str, Any]:
    """What was measured, by board."""
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return results


def table_text(results: dict[str, Any]) -> str:
    """The table of docs/hardware.md."""
    return "\n\n".join(board_text(board, run) for board, run in results.items())


def main() -> None:
    """Measure what is missing or older, and print the table."""
    results = read_results()
    for board in MEMORIES if not {"table", "layers"} & {*sys.argv} else ():
        if "fit" not in sys.argv and results.get(board, {}).get("sources") != digest(board):
            results[board] = measure(board)
        results[board]["fits"] = [fit(board, results[board], kinds) for kinds in combinations(KINDS, 3)]
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(layers_text(results) if "layers" in sys.argv else table_text(results))
    if older := [board for board, run in results.items() if run["sources"] != digest(board)]:
        print(f"measured on other sources: {', '.join(older)}", file=sys.stderr)


if __name__ == "__main__":
    main()
