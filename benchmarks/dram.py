"""Networks on the NPU with LiteDRAM's controller and its model of a DRAM as the memory, against the latency table.

``python benchmarks/dram.py`` (``make dram``) measures every board that ``dram.json`` lacks, or has of other sources,
and prints the table of docs/hardware.md; ``table`` only prints it, ``layers`` each layer; ``fit`` fits the constants
again to what was measured.  Needs Verilator and the dependency group ``dram``; takes minutes for each board.

LiteDRAM's generator writes the controller, which is used as it is; it, the NPU and the bus between them have one clock.
Software brings the DRAM up with the sequence that LiteDRAM writes, hands inputs over through a port of its own, gives
the NPU its commands by registers, and compares each output with the reference in integers.

Two constants of the port are *calibrated* with three layers, the longest of each kind of convolution in the network
``blocks``.  The share of cycles in which it takes a beat is the least squares of relative differences of their cycles.
These hardly depend on the latency, so it comes from the shortest time before a layer of ``blocks``, in which the NPU
reads what describes the layer, and waits for no write.  All other layers are *predicted* with both.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from functools import cache
from itertools import combinations
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

TILE, B_MAX = Tile(256, 4, 16), 3
KINDS = ("3x3", "1x1", "depthwise", "fc")
"""The first three calibrate; "fc" has one row."""

NETWORKS = ("blocks", "digits")


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
def designed(board: str, name: str) -> Designed:
    """The design of a network on a board, searched as if its port were always ready and took any address."""
    platform = with_port(load_platform(board).without_bus(), 1.0, PORT_LATENCY_CYCLES)
    network = build_network(quantised(name).file, name)
    options = SearchOptions(tile=TILE, b_max=B_MAX)
    return tabulate_design(network, platform, options, search(network, platform, options))


def with_port(board: Board, ready: float, latency: int) -> Board:
    """A board whose port is ready in a share of the cycles, and answers after some."""
    gb_s = ready * board.usual_port_words * board.word_bits / 8 * board.clock_hz / 1e9
    return board.model_copy(update={"bandwidth_gb_s": gb_s, "port_latency_cycles": float(latency)})


def table_of(board: str, name: str, ready: float, latency: int) -> dict[str, list[int]]:
    """Cycles of every layer, by batch, as the latency table counts them with the board's bus."""
    design, fbcb = designed(board, name)
    platform = with_port(load_platform(board), ready, latency)
    cycles = layer_costs(design.model_copy(update={"platform": platform}), fbcb).time_s * platform.clock_hz
    layers = (layer.operator for layer in design.network.layers)
    return {layer: [round(one) for one in row] for layer, row in zip(layers, cycles.tolist(), strict=True)}


@cache
def layers_of(board: str, name: str) -> list[str]:
    """The products in the order of their numbers."""
    return list(jobs_of(quantised(name).network, *designed(board, name)))


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


def simulate(board: str, name: str, folder: Path) -> list[Ran]:
    """Every layer of a network, run without a fault."""
    design, fbcb = designed(board, name)
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


class Named(NamedTuple):
    """A layer that ran, of a network, and its kind."""

    network: str
    layer: str
    kind: str
    ran: Ran


def named(run: dict[str, Any]) -> list[Named]:
    """The layers that ran on a board."""
    return [
        Named(name, layer, kind, Ran(*ran))
        for name, runs in run["runs"].items()
        for layer, kind, ran in zip(run["layers"][name], run["kinds"][name], runs, strict=True)
    ]


def longest(ran: list[Named], kind: str) -> Named:
    """The longest layer of a kind in ``blocks``."""
    return max((one for one in ran if (one.network, one.kind) == ("blocks", kind)), key=lambda one: one.ran.cycles)


def waiting(board: str, ready: float, latency: int) -> int:
    """Cycles before a layer that waits for no write."""
    design, fbcb = designed(board, "blocks")
    return cycles_between(port_of(with_port(design.platform, ready, latency), design.tile), fbcb.b_max)


def latency_of(board: str, late: int, ready: float) -> int:
    """Cycles to a beat, from the shortest time before a layer."""
    return max(1, late - waiting(board, ready, 0))


def fitted(board: str, measured: list[Named], late: int) -> tuple[float, int]:
    """The share of cycles with the least squares of relative differences over layers that ran, and the latency."""

    def error(ready: float) -> float:
        table = table_of(board, "blocks", ready, latency_of(board, late, ready))
        return sum((table[one.layer][one.ran.b - 1] / one.ran.cycles - 1) ** 2 for one in measured)

    ready: float = min((share / 1000 for share in range(50, 1001)), key=error)
    return ready, latency_of(board, late, ready)


def fit(board: str, run: dict[str, Any], kinds: tuple[str, ...]) -> dict[str, Any]:
    """The port by layers of three kinds, and what it predicts of each layer."""
    every = named(run)
    late = min(one.ran.late for one in every if one.network == "blocks")
    ready, latency = fitted(board, [longest(every, kind) for kind in kinds], late)
    tables = {name: table_of(board, name, ready, latency) for name in run["runs"]}
    table = {
        name: [tables[name][one.layer][one.ran.b - 1] for one in every if one.network == name] for name in run["runs"]
    }
    return {"kinds": kinds, "ready": ready, "latency": latency, "table": table}


def digest(board: str) -> str:
    """Twelve digits for what a board runs."""
    texts = [path.read_text(encoding="utf-8") for path in (*NPU_FILES, *BENCH, CONTROLLER)]
    texts.append(repr((MEMORIES[board], TILE, B_MAX)))
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def measure(board: str) -> dict[str, Any]:
    """Run every network on a board."""
    runs = {}
    for name in NETWORKS:
        with TemporaryDirectory() as folder:
            runs[name] = simulate(board, name, Path(folder))
    platform, memory = designed(board, NETWORKS[0])[0].platform, MEMORIES[board]
    about = f"{memory['sdram_module']} ({memory['memtype']}), {platform.clock_mhz:g} MHz"
    layers = {name: layers_of(board, name) for name in NETWORKS}
    run = {
        "sources": digest(board),
        "about": f"{about}, beats of {platform.usual_port_words} words",
        "layers": {name: [layers[name][one.layer] for one in runs[name]] for name in NETWORKS},
        "kinds": {name: [kind_of(name, layers[name][one.layer]) for one in runs[name]] for name in NETWORKS},
        "runs": runs,
    }
    every = named(run)
    return run | {"calibrated": {kind: every.index(longest(every, kind)) for kind in KINDS}}


class Row(NamedTuple):
    """A layer of the results."""

    network: str
    layer: str
    kind: str
    calibrated: bool
    table: int
    ran: Ran

    @property
    def difference(self) -> float:
        """Of the table from what ran, as a share of it."""
        return self.table / self.ran.cycles - 1


def rows_of(run: dict[str, Any], fit: dict[str, Any]) -> list[Row]:
    """Every layer of a board, with one of its fits."""
    own = {run["calibrated"][kind] for kind in fit["kinds"]}
    return [
        Row(
            name, run["layers"][name][at], run["kinds"][name][at], name == "blocks" and at in own,
            fit["table"][name][at], Ran(*ran),
        )
        for name, of in run["runs"].items() for at, ran in enumerate(of)
    ]  # fmt: skip


def difference(rows: list[Row]) -> float:
    """Of the table from what ran, of all layers in sum."""
    return sum(row.table for row in rows) / sum(row.ran.cycles for row in rows) - 1


def line(name: str, rows: list[Row]) -> str:
    """Layers in sum."""
    cycles, table = sum(row.ran.cycles for row in rows), sum(row.table for row in rows)
    worst = max((row.difference for row in rows), key=abs)
    asked, moved = (sum(sum(row.ran[at : at + 2]) for row in rows) for at in (4, 6))
    shares = f"{100 * difference(rows):>+11.1f} %{100 * worst:>+9.1f} %{moved / asked:>7.2f}"
    return f"{name:<22}{len(rows):>6}{cycles:>12,}{table:>12,}{shares}"


def products_of(rows: list[Row]) -> list[Row]:
    """The rows without pools, which read a word here and there."""
    return [row for row in rows if row.kind != "pool"]


def board_text(board: str, run: dict[str, Any]) -> str:
    """The table of a board."""
    first, *others = run["fits"]
    rows = rows_of(run, first)
    predicted = [row for row in rows if not row.calibrated]
    port = f"ready in {100 * first['ready']:.1f} % of cycles, latency {first['latency']}"
    text = [f"{board}: {run['about']}; {port}"]
    text.append(f"{'':<22}{'layers':>6}{'LiteDRAM':>12}{'table':>12}{'difference':>13}{'largest':>11}{'beats':>7}")
    text += [line("calibrated", [row for row in rows if row.calibrated])]
    for name in NETWORKS:
        own = [row for row in predicted if row.network == name]
        by_kind = {kind: [row for row in own if row.kind == kind] for kind in (*KINDS, "pool")}
        text += [line(f"{name}, {kind}", rows) for kind, rows in by_kind.items() if rows]
    text.append(line("predicted, products", products_of(predicted)))
    text.append(line("predicted, in all", predicted))
    for other in others:
        by = products_of([row for row in rows_of(run, other) if not row.calibrated])
        text.append(f"products by {', '.join(other['kinds'])} instead: {100 * difference(by):+.1f} %")
    return "\n".join(text)


def layers_text(results: dict[str, Any]) -> str:
    """Every layer that ran."""
    return "\n".join(
        f"{board}  {row.network:<7}{row.layer:<12}{row.kind:<10}b = {row.ran.b}{row.ran.cycles:>10,}{row.table:>10,}"
        f"{100 * row.difference:>+8.1f} %{' calibrated' if row.calibrated else ''}"
        for board, run in results.items()
        for row in rows_of(run, run["fits"][0])
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
