"""The hardware of a design: the NPU in SystemVerilog, its control block, and tables for software (docs/hardware.md)."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from ... import __version__
from ...formats import InputError, OwnFolder
from ...platforms import Board
from ...tables.files import DESIGN_FILE, LATENCY_FILE
from ...tables.latency import LatencyTable, read_latency
from ..engine import FLIGHT_BITS, MOST, WORD_BITS
from ..npu.banks import banks_of, halves, place
from ..npu.choices import Batching, Overlap
from ..npu.design import DesignTable, read_design
from ..npu.fbcb import K_BITS, K_NAMES, FbcbTable, batch_bits
from ..npu.layouts import LayerKind, one_by_one
from ..npu.side_by_side import power_of_two
from ..npu.tiles import Tile
from ..npu.workload import products_of
from . import registers
from .templates import (
    BOARD_FILE,
    BUS,
    ENGINE,
    ENGINE_PACKAGE_FILE,
    HEADER_FILE,
    MEMORY_FILE,
    PACKAGE_FILE,
    REGISTERS_FILE,
    REGISTERS_PACKAGE_FILE,
    RTL,
    TESTBENCH_FILE,
    filled,
    memories,
)

STATIC_FILES = ("README.md", "fbcb.sv", "fbe.sv", "fbe_tb.sv")
NPU_FILES = ("npu.sv", "npu_tb.cpp")
MEMORY, COMMANDS, MAP = IMAGE_FILES = "memory.bin", "commands.bin", "memory.json"
"""Of a network in integers, which the NPU's testbench runs."""

BUS_WORDS = (2, 4, 8, 16, 32, 64)
"""Words of the beats that AXI4 has: 32 to 1,024 bits."""

MAX_CYCLES = 2**63 - 1
"""A decimal constant of C has at most that value."""


def _plain(name: str) -> str:
    r"""A name for a comment: in ASCII, without what would end the comment or continue its line.

    Examples
    --------
    >>> _plain("exit1/conv*/ \\")
    'exit1/conv_/ _'
    """
    return re.sub(r"[^A-Za-z0-9_.:/ -]", "_", name)


def _c_string(text: str) -> str:
    r"""A string literal of C with the text's UTF-8 bytes; an escape has three octal digits, so it ends there.

    Examples
    --------
    >>> print(_c_string('layer3.4 "é"'))
    "layer3.4 \042\303\251\042"
    """
    plain = re.compile(r"[A-Za-z0-9_.:/ -]")
    return '"' + "".join(c if plain.match(c := chr(byte)) else f"\\{byte:03o}" for byte in text.encode()) + '"'


def _of_design(file: str, comment: str, design: DesignTable, **values: object) -> str:
    """A file of a design, which a comment at its top names."""
    origin = [
        f"{comment} Network {_plain(design.network.name)} on {design.platform.name}, design {design.tile}.",
        f"{comment} Written by fluidb {__version__} from the design with SHA-256 {design.digest()}.",
    ]
    return filled(file, "\n".join(origin), **values)


def memory_text(design: DesignTable, fbcb: FbcbTable) -> str:
    """The FBCB's entries for ``$readmemh``."""
    low, digits = batch_bits(fbcb.b_max), -(-fbcb.bits // 4)
    entries: list[str] = []
    for index, row in enumerate(fbcb.rows):
        entries += [f"// layer {index}: {_plain(row.layer)}", *(f"{int(entry, 2):0{digits}x}" for entry in row.entries)]
    return _of_design(
        MEMORY_FILE,
        "//",
        design,
        count=len(fbcb.rows) * fbcb.b_max,
        bits=fbcb.bits,
        b_max=fbcb.b_max,
        top=fbcb.bits - 1,
        low=low + fbcb.block_bits,
        blocks=f"code of the blocks of rows in bits {low + fbcb.block_bits - 1}:{low}; " if fbcb.block_bits else "",
        codes=", ".join(f"{code:0{K_BITS}b}: {name}" for code, name in enumerate(K_NAMES)),
        B_R=f"B_R - 1 in bits {low - 1}:0" if low else "B_R is 1",
        entries="\n".join(entries),
    )


def package_text(design: DesignTable, fbcb: FbcbTable) -> str:
    """The SystemVerilog package that fits the engine to a design."""
    layers, batching = len(fbcb.rows), design.options.batching
    products = products_of(design.network, pooled=design.options.pooled)
    alone = [one_by_one(batching, LayerKind.of(layer)) for layer in products]
    row_bits = fbcb.b_max * fbcb.bits
    rows = [
        f"      {index}: fbcb_row = {row_bits}'b{'_'.join(reversed(row.entries))};  // layer: {_plain(row.layer)}"
        for index, row in enumerate(fbcb.rows)
    ]
    return _of_design(
        PACKAGE_FILE,
        "//",
        design,
        layers=layers,
        b_max=fbcb.b_max,
        block_bits=fbcb.block_bits,
        batch_bits=batch_bits(fbcb.b_max),
        entry_bits=fbcb.bits,
        address_bits=max(1, (layers * fbcb.b_max - 1).bit_length()),
        layer_bits=max(1, (layers - 1).bit_length()),
        count_bits=fbcb.b_max.bit_length(),
        literal=int(batching is Batching.EQ1),
        one_by_one="".join(str(int(is_)) for is_ in reversed(alone)),
        row_top=row_bits - 1,
        rows="\n".join(rows),
    )


def check_counters(design: DesignTable) -> None:
    """Refuse what the engine's counters do not hold: sizes, and fewer beats in flight than the times count."""
    port, flying = design.port, 2**FLIGHT_BITS - 1
    if math.ceil(port.latency * port.ready / port.cycles) > flying:
        most = int(flying * port.cycles // port.ready)
        raise InputError(
            f"{design.platform.name}: port_latency_cycles: the engine expects at most {most:,}, as {flying} beats may "
            f"be in flight, found {port.latency:,g}; search again on a copy of the board with a shorter one"
        )
    for layer in design.network.layers:
        sizes = {"columns of a group": layer.gemm.C, "rows of a line": layer.line} if layer.gemm else {}
        if layer.pool and layer.stride == 0:
            sizes = {"channels of a pooled map": layer.pool.R, "words of a channel": layer.pool.P}
        for what, size in sizes.items():
            if size > MOST:
                raise InputError(
                    f'{DESIGN_FILE}: layer "{layer.name}": {what}: the engine expects at most {MOST:,}, '
                    f"found {size:,}; search again for a network with a smaller layer"
                )


def placement_text(board: Board, tile: Tile, samples: int) -> str:
    """Where the engine's memories lie, as they are counted, so that a synthesis places what the search counted."""
    banks = banks_of(board, tile, samples)
    moved = place(board, banks).moved
    styles = {name: "block" if halves(bank.width, bank.rows) else "distributed" for name, bank in banks.items()}
    return memories(**{name: (int(moved[name]), style) for name, style in styles.items()})


def engine_package_text(design: DesignTable, fbcb: FbcbTable) -> str:
    """The SystemVerilog package that fits the array to a design."""
    from ..npu.costs import samples_side_by_side

    words = int(design.port.words)
    if design.tile.T_R > MOST:
        raise InputError(f"{design.tile}: the engine expects a T_R of at most {MOST:,}; search with --tile")
    if (bits := design.platform.word_bits) != WORD_BITS:
        raise InputError(f"{design.platform.name}: word_bits: the engine expects {WORD_BITS}, found {bits}")
    if (macs := design.platform.macs_per_dsp) > 1:
        raise InputError(f"{design.platform.name}: macs_per_dsp: the engine expects 1, found {macs}")
    check_counters(design)
    samples = power_of_two(samples_side_by_side(design, fbcb))  # what is addressed by it needs no multiplier
    held = placement_text(design.platform, design.tile, samples)
    return _of_design(
        ENGINE_PACKAGE_FILE, "//", design, **design.tile._asdict() | {"W": words}, S=samples, memories=held
    )


def hardware_texts(design: DesignTable, fbcb: FbcbTable, latency: LatencyTable) -> dict[str, str]:
    """All files of a design (Fluid Batching, Section III-A, Fig. 5); without the array if its times are an ideal's."""
    static = [RTL / name for name in STATIC_FILES]
    made = {PACKAGE_FILE: package_text(design, fbcb), MEMORY_FILE: memory_text(design, fbcb)}
    made[HEADER_FILE] = header_text(design, latency)
    if design.options.overlap is Overlap.TILES:
        static += [*sorted(ENGINE.glob("*.sv")), *(RTL / name for name in NPU_FILES)]
        made[ENGINE_PACKAGE_FILE] = engine_package_text(design, fbcb)
        made[TESTBENCH_FILE] = filled(TESTBENCH_FILE)
        if int(design.port.words) in BUS_WORDS:
            static += sorted(BUS.glob("*.sv"))
            made |= board_texts(design)
    return {path.name: path.read_text(encoding="utf-8") for path in static} | made


def board_texts(design: DesignTable) -> dict[str, str]:
    """The NPU on a board: its ports, and its registers for the RTL and for software."""
    data = int(design.port.words) * WORD_BITS
    size = f"3'd{(data // 8).bit_length() - 1}"
    tops = {"data_top": data - 1, "strobe_top": data // 8 - 1, "size": size}
    return {
        BOARD_FILE: _of_design(BOARD_FILE, "//", design, **tops),
        REGISTERS_PACKAGE_FILE: _of_design(
            REGISTERS_PACKAGE_FILE, "//", design, sha256=design.digest(), **registers.package_lines()
        ),
        REGISTERS_FILE: _of_design(REGISTERS_FILE, " *", design, **registers.header_lines()),
    }


def header_text(design: DesignTable, latency: LatencyTable) -> str:
    """The scheduler's latency table as a C99 header, in cycles, rounded up: no sum is shorter than in the table."""
    clock_hz, table = design.platform.clock_hz, latency.array()
    if table.max() * clock_hz > MAX_CYCLES:
        raise InputError(f"{LATENCY_FILE}: expected times of at most {MAX_CYCLES:,} cycles, found a longer one")
    names = ['"input"', *(_c_string(row.name) for row in latency.exits)]
    cycles = [[[math.ceil(time_s * clock_hz) for time_s in row] for row in block] for block in table.tolist()]
    blocks = [",\n".join("     {" + ", ".join(map(str, row)) + "}" for row in block) for block in cycles]
    return _of_design(
        HEADER_FILE,
        " *",
        design,
        exits=len(latency.exits),
        b_max=latency.b_max,
        clock_hz=round(clock_hz),
        network=_c_string(design.network.name),
        platform=_c_string(design.platform.name),
        sha256=design.digest(),
        names=",\n".join(f"    {name}" for name in names),
        cycles=",\n".join("    {\n" + block + "\n    }" for block in blocks),
    )


def image_files(integers: Path, design: DesignTable, fbcb: FbcbTable) -> dict[str, str | bytes]:
    """A network in the NPU's memory, where software finds it there, and commands for the testbench."""
    from ..integers.file import read_integer
    from ..integers.network import WORD_TYPE
    from .commands import Script, preemption
    from .memory import map_text, memory_of
    from .program import jobs_of

    network, port, b_max = read_integer(integers), design.port, fbcb.b_max
    timed = jobs_of(network, design, fbcb)
    memory = memory_of(network, timed, fbcb, int(port.words))
    late = b_max // 3
    draw = np.random.default_rng(0)
    high = 2 ** (WORD_BITS - 2)
    samples = draw.integers(-high, high, (b_max + late, *network.shape)).astype(WORD_TYPE)
    script = Script(network, timed, memory, port, samples)
    preemption(script, late)
    return {MEMORY: memory.content(), COMMANDS: script.content(), MAP: map_text(network, memory)}


def write_hardware(folder: Path, output: Path, *, integers: Path | None = None, replace: bool = False) -> list[Path]:
    """Write the hardware of a design, whole or not at all; with the memory of its network if given in integers."""
    design, fbcb = read_design(folder)
    texts: dict[str, str | bytes] = {**hardware_texts(design, fbcb, read_latency(folder))}
    kind = OwnFolder("the files of a design's hardware", PACKAGE_FILE, {*texts, *IMAGE_FILES})
    kind.check(output, replace, apart=[folder, integers])
    if integers:
        texts |= image_files(integers, design, fbcb)
    kind.write(output, texts, replace=replace)
    return [output / name for name in sorted(texts)]
