"""The NPU's bridge to AXI4 and its registers, held by models of the buses that others wrote: cocotbext-axi."""

from __future__ import annotations

import json
import re
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import library, tool
from fluidb.dse.hardware import registers
from fluidb.dse.hardware.commands import Command, NpuFault, Strobe
from fluidb.dse.hardware.places import End
from fluidb.dse.hardware.registers import Event, Register, Status
from fluidb.dse.hardware.templates import BUS
from fluidb.dse.integers import reference
from fluidb.dse.integers.quantise import Quantised, quantise
from fluidb.dse.npu.tiles import Tile
from onnx.helper import make_node as node
from test_program import BUILT, designed, script_of, written
from trained import saved

HERE = Path(__file__).parent
ENVIRONMENT = {"COCOTB_LOG_LEVEL": "WARNING", "COCOTB_RESOLVE_X": "RANDOM"}
"""Words that are not strobed are unknown in the simulation: the models take any bits for them."""


def simulated(folder: Path, sources: list[Path], top: str, parameters: dict[str, int], **options: Any) -> None:
    """Build with Icarus, and run every test of axi_bench.py."""
    library("cocotbext.axi")
    tool("iverilog")
    runner = library("cocotb_tools.runner").get_runner("icarus")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        about: dict[str, Any] = {"hdl_toplevel": top, "build_dir": folder / "build"}
        runner.build(
            sources=sources,
            parameters=parameters,
            build_args=["-g2012"],
            **about,
            timescale=("1ns", "1ps"),
            log_file=folder / "build.log",
        )
        try:
            runner.test(
                test_module="axi_bench", test_dir=folder, results_xml=str(folder / "results.xml"), **about,
                extra_env=ENVIRONMENT | {"AXI_OPTIONS": json.dumps(options)},
                log_file=folder / "test.log",
            )  # fmt: skip
        except (SystemExit, RuntimeError):
            pytest.fail((folder / "test.log").read_text()[-4000:])


@pytest.mark.parametrize(
    ("words", "pause"),
    [(2, (0.3,) * 5), (4, (0,) * 5), (8, (0.7, 0.2, 0.7, 0.3, 0.8)), (32, (0, 0.5, 0.5, 0, 0.5))],
)
def test_the_bridge_moves_every_word(tmp_path: Path, words: int, pause: tuple[float, ...]) -> None:
    parts = [BUS / f"{name}.sv" for name in ("axi_bursts", "axi_fifo", "axi_read", "axi_write")]
    sources = [HERE / "axi_bench.sv", *parts]
    simulated(tmp_path, sources, "axi_bench", {"W": words}, words=words, pause=pause, seed=words, runs=4)


CODES = {code.name: int(code) for codes in (Command, NpuFault, Strobe, Event, Status) for code in codes}


def plain(rtl: Path) -> Path:
    """The NPU as Yosys reads it, in Verilog: Icarus before version 12 does not read packages as the engine has them."""
    sources = re.findall(r"verilator --lint-only.* (engine_pkg.sv .*)\n", (rtl / "README.md").read_text())[0]
    script = f"read_verilog -sv {sources}; hierarchy -check -top npu_axi; proc; opt_clean; write_verilog plain.v"
    subprocess.run([tool("yosys"), "-q", "-p", script], cwd=rtl, check=True)
    return rtl / "plain.v"


def small(folder: Path) -> Quantised:
    """Two convolutions that follow one another, a residual addition and an exit, with random weights."""
    rng = np.random.default_rng(5)
    sizes = {"a.w": (3, 2, 3, 3), "a.b": (3,), "b.w": (3, 3, 3, 3), "b.b": (3,), "f.w": (3, 3 * 4 * 4), "f.b": (3,)}
    weights = {name: rng.normal(0, 0.3, size).astype(np.float32) for name, size in sizes.items()}
    nodes = [
        node("Conv", ["x", "a.w", "a.b"], ["a"], name="a", pads=[1] * 4), node("Relu", ["a"], ["ra"]),
        node("Conv", ["ra", "b.w", "b.b"], ["b"], name="b", pads=[1] * 4), node("Add", ["b", "ra"], ["s"]),
        node("Relu", ["s"], ["rb"]),
        node("Flatten", ["rb"], ["flat"]), node("Gemm", ["flat", "f.w", "f.b"], ["f"], name="f", transB=1),
        node("Softmax", ["f"], ["e"], axis=1),
    ]  # fmt: skip
    np.savez(folder / "x.npz", input=rng.normal(size=(8, 2, 4, 4)).astype(np.float32))
    return quantise(saved(folder, nodes, ["e"], (2, 4, 4), weights), folder / "x.npz")


def test_a_network_runs_on_a_board(tmp_path: Path) -> None:
    """By registers, an interrupt and a memory that waits and fails."""
    library("cocotbext.axi")
    found, options = small(tmp_path), BUILT.model_copy(update={"tile": Tile(16, 2, 3), "b_max": 2})
    rtl, (design, fbcb) = written(found, tmp_path, options), designed(found, options)
    with np.load(tmp_path / "x.npz") as held:
        script = script_of(found, reference.encode(found.network, held["input"][:2]), options)
    script.hand_over(0, np.arange(2), 0)
    script.stage(1, np.arange(2), 0, Strobe.UPDATE | Strobe.RESTART, 0, 2)
    assert [place.end for place in script.places.values()] == [End.NEXT, End.HOST, End.EXIT]
    (tmp_path / "commands").write_bytes(script.content())
    first, second, _ = script.places.values()
    assert second.residual is not None
    assert (second.residual.name, second.residual.at) == ("a", first.y)
    simulated(
        tmp_path, [plain(rtl)], "npu_axi", {}, seed=1, pause=(0.2, 0.1, 0.3, 0.2, 0.6), limit=200,
        commands=str(tmp_path / "commands"), memory=str(rtl / "memory.bin"), read=first.weights, written=first.y,
        registers={register.name: register.offset for register in Register},
        codes=CODES | {"RESET": registers.RESET, "FAULT_SHIFT": registers.FAULT_SHIFT},
        entry=[1, int(fbcb.rows[0].entries[1], 2) ^ 1 << fbcb.bits - 1], beats=30,
        version=[registers.ID, registers.VERSION], digest=design.digest(),
    )  # fmt: skip
