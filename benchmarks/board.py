"""The system of the bitstream in simulation, driven as a host drives the board, against the latency table.

``python benchmarks/board.py`` (``make board``) writes the system that ``bitstream.py`` places, with two parts in place
of what no simulation has: a clock instead of the PLL, and LiteX's model of the memory, which checks every time of a
command, instead of the pins of the memory.  Verilator runs it.  The host's software, in C with the headers that
``fluidb hardware`` writes, reaches it by its serial port, bit by bit: it brings the memory up with LiteDRAM's sequence,
writes samples, starts batches, waits, and compares every answer with the reference in integers.

Only the network's image is there before, because the serial port needs most of a minute for it.  The cycles of each
start go into ``board.json``; ``table`` prints the block of docs/hardware.md.  Needs Verilator and the dependency group
``board``; takes minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from board_system import BOARD, DESIGN, NETWORK, digest_with, write_npu, write_system
from dram import VERILATE, quantised, without_software
from fluidb.dse.hardware.commands import Strobe
from fluidb.dse.integers import reference
from fluidb.models.digits import INPUTS

HERE = Path(__file__).parent
RESULTS = HERE / "board.json"
BENCH, DRIVER, HEADER = (HERE / f"board_{name}" for name in ("bench", "driver.c", "driver.h"))
SOURCES = [BENCH.with_suffix(".sv"), BENCH.with_suffix(".cpp"), DRIVER, HEADER, Path(__file__)]
BASE = 2**20
"""Bytes of the memory before the NPU's; what lies before the maps may be read."""

BATCHES = (1, 2, 4, 8)
"""Samples of those that nobody preempts."""

FIRST, NEXT = (Strobe.UPDATE | Strobe.START | strobe for strobe in (Strobe.RESTART, Strobe.ADVANCE))
"""What the NPU is told for the first stage of a batch, and for each other."""

BAUD = 115_200
"""Of LiteX's UARTBone."""


class Step(NamedTuple):
    """A start: the exit before it, samples that arrive and the place of the batch, and what the NPU is told."""

    after: int
    arrive: int
    slot: int
    strobes: int
    b_exit: int
    b_incr: int


def whole_network(b: int, before: int, exits: int) -> list[Step]:
    """A batch from the input to the end; the samples of the batch before it leave."""
    return [Step(0, b, 0, FIRST, before, b), *(Step(after, 0, 0, NEXT, 0, 0) for after in range(1, exits))]


def preempted(before: int) -> list[Step]:
    """Two of five samples leave, three preempt those that stay, all merge, and then some leave at each exit."""
    return [
        Step(0, 5, 0, FIRST, before, 5), Step(0, 3, 3, FIRST, 5, 3), Step(1, 0, 0, NEXT, 0, 3),
        Step(2, 0, 0, NEXT, 2, 0), Step(3, 0, 0, NEXT, 3, 0),
    ]  # fmt: skip


def steps_of(exits: int) -> list[Step]:
    """Whole batches, then one that is preempted."""
    whole = [step for before, b in pairwise((0, *BATCHES)) for step in whole_network(b, before, exits)]
    return whole + preempted(BATCHES[-1])


def in_c(values: Any) -> str:
    """A list in C."""
    return "{" + ", ".join(map(in_c, values)) + "}" if np.ndim(values) else str(int(values))


def write_run(folder: Path) -> None:
    """Write what the host's software runs: batches, samples, answers, and where they lie."""
    network, products = quantised(NETWORK).network, json.loads((folder / "memory.json").read_text())["products"]
    first, heads = products[0], [product for product in products if product["end"] == "exit"]
    steps = steps_of(len(heads))
    samples = reference.encode(network, np.load(INPUTS)["input"][: sum(step.arrive for step in steps)])
    maps = reference.run(network, samples)
    inputs = samples.reshape(len(samples), -1)
    answers = np.array([maps[head["map"]].reshape(len(samples), -1) for head in heads])
    at = [head["y"] for head in heads]
    assert {head["y_sample"] for head in heads} == {answers.shape[2]}
    assert not any(place % 2 for place in (*at, *inputs.shape[1:], answers.shape[2], first["x"], first["x_sample"]))
    lines = {
        f"int16_t INPUTS[{len(samples)}][{inputs.shape[1]}]": inputs,
        f"int16_t ANSWERS{''.join(f'[{size}]' for size in answers.shape)}": answers,
        f"uint32_t ANSWERS_AT[{len(at)}]": at,
        "struct step STEPS[]": steps,
    }
    numbers = {
        "BASE": BASE, "RECORDS": 0, "INPUTS_AT": first["x"], "INPUTS_STRIDE": first["x_sample"],
        "INPUT_WORDS": inputs.shape[1], "ANSWER_WORDS": answers.shape[2],
    }  # fmt: skip
    text = [f"enum {{ {', '.join(f'{name} = {number}' for name, number in numbers.items())} }};"]
    text += [f"static const {name} = {in_c(values)};" for name, values in lines.items()]
    (folder / "run.h").write_text("\n".join(text) + "\n")


def write_simulated(folder: Path) -> None:
    """Write the system with a clock and a model of the memory instead of the board's PLL and pins."""
    from litedram.modules import MT48LC16M16
    from litedram.phy.model import SDRAM_VERBOSE_STD, SDRAMPHYModel
    from litex.gen import LiteXModule
    from litex_boards.targets import radiona_ulx3s as target
    from migen import ClockDomain, Signal

    phy, image = target.HalfRateGENSDRPHY, np.fromfile(folder / "rtl" / "memory.bin", "<u4").tolist()

    class Clock(LiteXModule):  # type: ignore[misc]
        def __init__(self, platform: Any, *_: Any, **__: Any) -> None:
            self.rst, self.cd_sys = Signal(), ClockDomain("sys")
            self.comb += self.cd_sys.clk.eq(platform.request("clk25"))
            self.comb += self.cd_sys.rst.eq(platform.request("rst") | self.rst)

    def memory(pads: Any, clock_hz: float) -> Any:
        return SDRAMPHYModel(
            MT48LC16M16(clock_hz, "1:2"), phy(pads, clock_hz).settings, clk_freq=clock_hz,
            init=[0] * (BASE // 4) + image, verbosity=SDRAM_VERBOSE_STD,
        )  # fmt: skip

    with patch.multiple(target, _CRG=Clock, HalfRateGENSDRPHY=memory):
        write_system(folder)


def simulate(folder: Path) -> str:
    """What the host's software prints."""
    sources = write_npu(folder)
    write_run(folder / "rtl")
    write_simulated(folder)
    without_software(folder / "software" / "include")
    gateware = folder / "gateware"
    include = [f"-I{folder / 'software' / 'include'}", f"-I{folder / 'rtl'}", f"-I{HERE}"]
    flags, driver = ["-O2", *include, f"-DBAUD={BAUD}"], gateware / "driver.o"
    build = [*VERILATE, "--top-module", "board_bench", "-CFLAGS", " ".join(flags)]
    build += [*(str(folder / "rtl" / name) for name in sources), "ulx3s.v", str(driver), *map(str, SOURCES[:2])]
    for command in (["cc", "-std=c99", "-Wall", "-Wextra", *flags, "-c", str(DRIVER), "-o", str(driver)], build):
        subprocess.run(command, cwd=gateware, check=True, capture_output=True)
    run = subprocess.run(["obj_dir/Vboard_bench"], cwd=gateware, check=False, capture_output=True, text=True)
    return run.stdout


class Ran(NamedTuple):
    """A start: the exit before it, its samples, cycles of the latency table, words that were wrong, cycles it took."""

    after: int
    b: int
    table: int
    wrong: int
    cycles: int


def result_of(printed: str) -> dict[str, Any]:
    """The starts, and what was wrong with any of them or with the memory's times."""
    lines = [line.split() for line in printed.splitlines()]
    cycles = [int(words[1]) for words in lines if words[:1] == ["cycles"]]
    ran = [[int(word) for word in words[1:]] for words in lines if words[:1] == ["ran"]]
    violations = sum("violation" in words for words in lines)
    return {
        "sources": digest(),
        "passed": any(words[:1] == ["PASSED:"] for words in lines) and not violations,
        "violations": violations,
        "runs": [Ran._make([*one, took]) for one, took in zip(ran, cycles, strict=False)],
    }


def digest() -> str:
    """Twelve digits for the sources of the system, and of what simulates it."""
    return digest_with(*SOURCES)


def line(name: str, runs: list[Ran]) -> str:
    """Starts in sum."""
    cycles, table = sum(run.cycles for run in runs), sum(run.table for run in runs)
    worst = max((run.table / run.cycles - 1 for run in runs), key=abs)
    shares = f"{table / cycles - 1:>+12.1%}{worst:>+10.1%}"
    return f"{name:<26}{len(runs):>6}{cycles:>13,}{table:>13,}{shares}{sum(run.wrong for run in runs):>8}"


def table_text(result: dict[str, Any]) -> str:
    """The block of docs/hardware.md."""
    runs = [Ran(*run) for run in result["runs"]]
    older = "" if result["sources"] == digest() else ", older sources"
    whole, others = runs[: -len(preempted(0))], runs[-len(preempted(0)) :]
    text = [f"{NETWORK} on {BOARD.name}, {DESIGN}{older}"]
    text.append(f"{'':<26}{'starts':>6}{'system':>13}{'table':>13}{'difference':>12}{'largest':>10}{'wrong':>8}")
    text += [line(f"b = {b}", [run for run in whole if run.b == b]) for b in sorted({run.b for run in whole})]
    text.append(line("preempted and merged", others))
    text += [line("in all", runs), f"times of the memory violated: {result['violations']}"]
    return "\n".join(text)


def read_result() -> dict[str, Any]:
    """What was simulated last."""
    result: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return result


def main() -> None:
    """Simulate the system, and print the table."""
    if "table" not in sys.argv:
        with TemporaryDirectory() as folder:
            result = result_of(simulate(Path(folder)))
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(table_text(result := read_result()))
    sys.exit(not result["passed"])


if __name__ == "__main__":
    main()
