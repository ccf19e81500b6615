"""Files for hardware: compiled, simulated and linted by the tools that will read them."""

from __future__ import annotations

import json
import math
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from builders import COMPILED, POCKET, ROOT, TINY, Run, lines, tool
from fluidb.dse import Overlap, SearchOptions, read_design, search, tabulate_design, write_design, write_latency
from fluidb.dse.hardware.registers import Register
from fluidb.dse.hardware.write import BUS_WORDS, header_text, write_hardware
from fluidb.formats import InputError, write_table
from fluidb.models import load_network
from fluidb.platforms import load_platform
from fluidb.tables import read_latency

SOURCES = ["fbe_pkg.sv", "fbcb.sv", "fbe.sv"]
FBE = ["README.md", "fbcb.mem", "fbcb.sv", "fbe.sv", "fbe_pkg.sv", "fbe_tb.sv"]
PARTS = [
    "bounds",
    "element",
    "inputs",
    "load_beats",
    "outputs",
    "port",
    "ram",
    "residual",
    "scale",
    "store_beats",
    "sums",
    "tiles",
    "weights",
]
ENGINE = ["engine_pkg.sv", "engine.sv", *(f"{name}.sv" for name in PARTS)]
NPU = ["npu.sv", "npu_tb.cpp", "memory.hpp"]
BUS_PARTS = "axi_fifo", "axi_bursts", "axi_read", "axi_write", "axi_registers", "npu_bus"
BUS = ["axi_pkg.sv", *(f"{name}.sv" for name in BUS_PARTS)]
BOARD = [*BUS, "npu_axi.v", "fluidb_npu.h"]
FILES = sorted([*FBE, *ENGINE, *NPU, *BOARD, "fluidb_latency.h"])
HOSTILE = 'x*/ y" \\\n`define K ??/\n#error é\u2028{"'

ATTENTION = """
schema = "fluidb.network/1"
name = "attention"
title = "A product of two activations between others"
input = { height = 4, width = 1, channels = 8 }
layers = [
  { name = "in", op = "linear", out = 8 },
  { name = "scores", op = "matmul", from = ["in", "in"], transposed = true },
  { name = "out", op = "linear", out = 5 },
]
"""
ONE_LAYER = """
schema = "fluidb.network/1"
name = "one"
title = "A single product"
input = { height = 4, width = 1, channels = 8 }
layers = [{ name = "only", op = "linear", out = 3 }]
"""
DESIGNS = [
    *(
        pytest.param((TINY, POCKET, batching, b_max), id=f"{batching}-{b_max}")
        for batching, b_max in (("fluid", 4), ("fluid", 1), ("row", 5), ("fc", 3), ("none", 2), ("eq1", 5))
    ),
    pytest.param((ATTENTION, POCKET, "fluid", 6), id="attention"),
    pytest.param((ONE_LAYER, POCKET, "fluid", 2), id="one-layer"),
    pytest.param(
        ("resnet50", "zc706", "fluid", 8),
        id="resnet50",
        marks=pytest.mark.skipif(not COMPILED, reason="searches a board of the paper: minutes as plain Python"),
    ),
]


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", params=DESIGNS)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a design and the SystemVerilog files of its engine; not to be changed."""
    name, board, batching, b_max = request.param
    folder = tmp_path_factory.mktemp("engine")
    if "schema" in name:
        (folder / "net.toml").write_text(name)
        name = str(folder / "net.toml")
    network, platform, options = load_network(name), load_platform(board), SearchOptions(batching=batching, b_max=b_max)
    result = search(network, platform, options)
    write_design(folder / "design", *tabulate_design(network, platform, options, result))
    write_latency(folder / "design")
    write_hardware(folder / "design", folder / "rtl")
    return folder


def simulate(rtl: Path, build: Path, *plusargs: str) -> subprocess.CompletedProcess[str]:
    """Compile a folder's engine and testbench, without a warning, and run it there."""
    command = [tool("iverilog"), "-g2012", "-Wall", "-o", build / "tb", *SOURCES, "fbe_tb.sv"]
    built = run(*command, cwd=rtl)
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return run(tool("vvp"), build / "tb", *plusargs, cwd=rtl)


def expected_entries(folder: Path) -> list[list[int]]:
    """Layer, b, codes of k and blocks, B_R, B_P, passes: from the bits of fbcb.json and the layers of design.json."""
    design, fbcb = (json.loads((folder / "design" / name).read_text()) for name in ("design.json", "fbcb.json"))
    layers, pooled = design["network"]["layers"], design["options"]["overlap"] == "tiles"
    products = [layer for layer in layers if layer["gemm"] or (pooled and layer["pool"])]
    batching = design["options"]["batching"]
    rows = []
    for b in range(1, fbcb["b_max"] + 1):
        for index, (product, layer) in enumerate(zip(products, fbcb["rows"], strict=True)):
            bits = layer["entries"][b - 1]
            low = 2 + fbcb["block_bits"]
            blocks, B_R = int("0" + bits[2:low], 2), 1 + int("0" + bits[low:], 2)
            B_P, passes = (b - B_R + 1 if batching == "eq1" else math.ceil(b / B_R)), 1
            alone = product["gemm"] and product["gemm"][0] > 1  # a pool's batch lies down the rows
            if product["per_sample"] or batching == "none" or (batching == "fc" and alone):
                B_P, passes = 1, b
            rows.append([index, b, int(bits[:2], 2), blocks, B_R, B_P, passes])
    return rows


def test_the_engine_states_every_entry(engine: Path, tmp_path: Path) -> None:
    """All layers x all batch sizes as simulated, and the testbench's own judgement of everything else."""
    done = simulate(engine / "rtl", tmp_path, "+entries")
    found = [list(map(int, line.split()[1:])) for line in done.stdout.splitlines() if line.startswith("entry ")]
    assert found == expected_entries(engine)
    assert "PASSED" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_verilator_finds_nothing_to_warn_of(engine: Path) -> None:
    lint = [tool("verilator"), "--lint-only", "-Wall"]
    done = run(*lint, "--top-module", "fbe", *SOURCES, cwd=engine / "rtl")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    if int(re.findall(r"\d+", run(lint[0], "--version", cwd=engine).stdout)[0]) < 5:
        pytest.skip("the testbench needs Verilator 5: earlier ones know no delays")
    done = run(*lint, "--timing", "--top-module", "fbe_tb", *SOURCES, "fbe_tb.sv", cwd=engine / "rtl")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_memory_file_holds_the_entries_and_says_how(engine: Path) -> None:
    text = (engine / "rtl" / "fbcb.mem").read_text()
    fbcb = json.loads((engine / "design" / "fbcb.json").read_text())
    words = [line for line in text.splitlines() if not line.startswith("//")]
    assert {len(word) for word in words} == {math.ceil(fbcb["bits"] / 4)}
    entries = [entry for row in fbcb["rows"] for entry in row["entries"]]
    assert [int(word, 16) for word in words] == [int(entry, 2) for entry in entries]
    assert f"// {len(entries)} entries of {fbcb['bits']} bits" in text
    assert f"// Address: layer * {fbcb['b_max']} + (b - 1)" in text


ERRORS = {
    "a bit of the table": ("fbe_pkg.sv", "_000000;", "_000001;"),
    "a bit of the expectation": ("fbcb.mem", "\n00\n", "\n01\n"),
    "B_act not clipped at 0": ("fbe.sv", "too_few ? '0 : ", ""),
    "B_act not clipped at B_max": ("fbe.sv", "too_many ? COUNT_BITS'(B_MAX) : ", ""),
    "exits forgotten when samples join": ("fbe.sv", "{1'b0, remaining} + ", "(b_incr > 0 ? '0 : {1'b0, remaining}) + "),
    "a fault that passes": ("fbe.sv", "fault || too_few", "too_few"),
    "blocks of the next bits": ("fbe.sv", "(entry >> BATCH_BITS)", "(entry >> (BATCH_BITS + 1))"),
    "no wrap": ("fbe.sv", "(layer == LAST_LAYER) ? '0 : ", ""),
    "no restart": ("fbe.sv", "rst || restart", "rst"),
    "reset keeps the layer": ("fbe.sv", "rst || restart", "restart"),
    "reset keeps written entries": ("fbcb.sv", "if (rst) row", "if (rst && !gone) row"),
    "an update leaves valid": ("fbe.sv", "rst || update ||", "rst ||"),
    "valid too early": ("fbe.sv", "age >= AGE_BITS'(EDGES - 1)", "age >= AGE_BITS'(EDGES - 2)"),
    "the entry of the number before": ("fbe.sv", "entry  <= read_entry;", "if (age == '0) entry <= read_entry;"),
    "B_P rounded down": ("fbe.sv", "rest     <= last;", "rest     <= b_act;"),
}


@pytest.fixture(scope="module")
def tiny_rtl(tiny_design: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rtl") / "rtl"
    write_hardware(tiny_design, folder)
    return folder


@pytest.mark.parametrize("error", ERRORS)
def test_the_testbench_sees_an_error(tiny_rtl: Path, tmp_path: Path, error: str) -> None:
    file, old, new = ERRORS[error]
    for name in FBE:
        text = (tiny_rtl / name).read_text()
        if name == file:
            assert old in text
            text = text.replace(old, new, 1)
        (tmp_path / name).write_text(text)
    if "gone" in new:  # reset works once
        text = (tmp_path / file).read_text()
        text = text.replace("    logic [ROW_BITS-1:0] row;\n", "    logic [ROW_BITS-1:0] row;\n    logic gone = 0;\n")
        (tmp_path / file).write_text(text.replace("begin\n      if (rst", "begin\n      gone <= 1;\n      if (rst"))
    done = simulate(tmp_path, tmp_path)
    assert re.search("FAIL|FATAL", done.stdout)  # the testbench, or an assertion in the engine
    assert "PASSED" not in done.stdout
    assert done.returncode != 0


PRINT_ALL = r"""
#include "table.h"
#include "table.h"
#include <stdio.h>

int main(void)
{
    int i, j, b;
    printf("%d %d %llu\n", FLUIDB_EXITS, FLUIDB_B_MAX, (unsigned long long)FLUIDB_CLOCK_HZ);
    for (i = 0; i <= FLUIDB_EXITS; i++)
        for (j = 0; j <= FLUIDB_EXITS; j++)
            for (b = 0; b <= FLUIDB_B_MAX; b++)
                printf("%llu\n", (unsigned long long)FLUIDB_LATENCY_CYCLES[i][j][b]);
    for (i = 0; i <= FLUIDB_EXITS; i++)
        printf("%s%c", FLUIDB_EXIT_NAMES[i], 0);
    printf("%s%c%s%c%s", FLUIDB_NETWORK, 0, FLUIDB_PLATFORM, 0, FLUIDB_DESIGN_SHA256);
    return 0;
}
"""
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
COMPILERS = [("gcc", ["-std=c99"], "main.c"), ("g++", ["-std=c++11"], "main.cpp")]


def check_header(folder: Path, design: Path, compiler: str, options: list[str], source: str) -> None:
    """The header, compiled, tells what latency.json and design.json tell."""
    write_hardware(design, folder / "rtl")
    (folder / "rtl" / "fluidb_latency.h").rename(folder / "table.h")
    (folder / source).write_text(PRINT_ALL)
    built = run(tool(compiler), *options, *STRICT, "-o", "main", source, cwd=folder)
    assert (built.returncode, built.stderr) == (0, "")
    head, _, rest = run(folder / "main", cwd=folder).stdout.partition("\n")
    table = json.loads((design / "latency.json").read_text())
    about = json.loads((design / "design.json").read_text())
    clock_hz = about["platform"]["clock_mhz"] * 1e6
    exits = len(table["exits"])
    assert head.split() == [str(exits), str(table["b_max"]), str(round(clock_hz))]
    stage_s = np.zeros((exits, table["b_max"] + 1))
    for layer in table["layers"]:
        stage_s[layer["stage"] - 1, 1:] += layer["time_s"]
    expected = [
        math.ceil(time_s * clock_hz)
        for i in range(exits + 1)
        for j in range(exits + 1)
        for time_s in stage_s[i:j].sum(axis=0)
    ]
    *numbers, names = rest.split("\n", len(expected))
    assert list(map(int, numbers)) == expected
    *found, network, platform, digest = names.split("\0")
    assert found == ["input", *(row["name"] for row in table["exits"])]
    assert (network, platform) == (about["network"]["name"], about["platform"]["name"])
    assert digest == table["inputs"]["fluidb.design/4"]


@pytest.mark.parametrize(("compiler", "options", "source"), COMPILERS)
def test_the_header_compiles_and_tells_the_times(
    tiny_design: Path, tmp_path: Path, compiler: str, options: list[str], source: str
) -> None:
    check_header(tmp_path, tiny_design, compiler, options, source)


@pytest.fixture(scope="module")
def hostile_design(tiny_design: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny design under names that no network file may have, but a forged design may."""
    folder = tmp_path_factory.mktemp("hostile")
    design, fbcb = read_design(tiny_design)
    network = design.network
    layers = [layer.model_copy(update={"name": HOSTILE + layer.name}) for layer in network.layers]
    exits = [item.model_copy(update={"name": f"{n}{HOSTILE}"}) for n, item in enumerate(network.exits)]
    network = network.model_copy(update={"name": HOSTILE, "title": HOSTILE, "layers": layers, "exits": exits})
    design = design.model_copy(update={"network": network})
    rows = [row.model_copy(update={"layer": HOSTILE + row.layer}) for row in fbcb.rows]
    write_table(design, folder / "design.json")
    write_table(fbcb.model_copy(update={"rows": rows}).derived_from(design), folder / "fbcb.json")
    write_latency(folder)
    return folder


@pytest.mark.parametrize(("compiler", "options", "source"), COMPILERS)
def test_hostile_names_reach_the_header_as_text(
    hostile_design: Path, tmp_path: Path, compiler: str, options: list[str], source: str
) -> None:
    check_header(tmp_path, hostile_design, compiler, options, source)


def test_hostile_names_stay_in_comments(hostile_design: Path, tmp_path: Path) -> None:
    write_hardware(hostile_design, tmp_path / "rtl")
    rows = json.loads((hostile_design / "fbcb.json").read_text())["rows"]
    for name in ("fbe_pkg.sv", "fbcb.mem"):
        text = (tmp_path / "rtl" / name).read_text(encoding="ascii")
        assert not {"`", '"', "\\", "#"} & set(text)
        assert len(re.findall(r"// layer.*: x_/ y", text)) == len(rows)
    assert "PASSED" in simulate(tmp_path / "rtl", tmp_path).stdout
    lint = run(tool("verilator"), "--lint-only", "-Wall", "--top-module", "fbe", *SOURCES, cwd=tmp_path / "rtl")
    assert (lint.returncode, lint.stderr) == (0, "")


def fault(fluidb: Run, *arguments: object) -> str:
    """The one line that a wrong call prints."""
    (line,) = lines(fluidb("hardware", *arguments))
    return line


def test_a_design_without_its_latency_table_is_refused(fluidb: Run, tiny_design: Path, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    for name in ("design.json", "fbcb.json"):
        (folder / name).write_bytes((tiny_design / name).read_bytes())
    line = fault(fluidb, "d", "-o", "rtl")
    assert line == (
        "fluidb: d/latency.json: not there; make it with `fluidb latency`, or of this machine with `fluidb measure`"
    )
    assert not (tmp_path / "rtl").exists()


def test_times_too_long_for_a_constant_of_c_are_refused(tiny_design: Path) -> None:
    design, _ = read_design(tiny_design)
    latency = read_latency(tiny_design)
    fast = design.model_copy(update={"platform": design.platform.model_copy(update={"clock_mhz": 1e6})})
    slow = [layer.model_copy(update={"time_s": [1e7] * 4}) for layer in latency.layers]
    with pytest.raises(InputError, match="cycles"):
        header_text(fast, latency.model_copy(update={"layers": slow}))


def test_an_output_is_replaced_by_force_only(fluidb: Run, tiny_design: Path, tmp_path: Path) -> None:
    arguments = (tiny_design, "-o", "out")
    done = fluidb("hardware", *arguments, "--json")
    names = [f"out/{name}" for name in FILES]
    expected = {"schema": "fluidb.hardware-output/2", "output": "out", "files": names}
    assert (json.loads(done.stdout), done.stderr) == (expected, "")
    kept = {name: (tmp_path / name).read_bytes() for name in names}
    (tmp_path / names[-1]).write_bytes(b"other")
    assert "exists already" in fault(fluidb, *arguments)
    assert (tmp_path / names[-1]).read_bytes() == b"other"
    printed = fluidb("hardware", *arguments, "--force").stdout
    assert printed.split() == " ".join(f"file {name}" for name in names).split()
    assert {name: (tmp_path / name).read_bytes() for name in names} == kept


def test_the_array_is_that_of_the_design(engine: Path) -> None:
    """Linted for its sizes; left out where the times of a design are an ideal's."""
    design, _ = read_design(engine / "design")
    names = {path.name for path in (engine / "rtl").iterdir()}
    if design.options.overlap is Overlap.PAPER:
        assert not names & {*ENGINE, *NPU, *BOARD}
        return
    package = (engine / "rtl" / "engine_pkg.sv").read_text()
    found = dict(re.findall(r"localparam int (T_R|T_P|T_C|V|W|S) = (\d+);", package))
    _, T_P, T_C, *_ = design.tile
    samples = int(found.pop("S"))
    words = int(design.port.words)
    assert found == {name: str(size) for name, size in (design.tile._asdict() | {"W": words}).items()}
    assert 1 <= samples <= design.options.b_max
    if T_P * T_C > 100:
        return  # takes a minute
    lint = [tool("verilator"), "--lint-only", "-Wall", "--top-module", "npu", *SOURCES]
    done = run(*lint, *ENGINE, "npu.sv", cwd=engine / "rtl")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    if words in BUS_WORDS:
        (command,) = re.findall(r"^verilator --lint-only .*$", (engine / "rtl" / "README.md").read_text(), re.MULTILINE)
        done = run(*command.split(), cwd=engine / "rtl")
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_what_the_counters_of_the_engine_do_not_hold_is_refused(fluidb: Run, tmp_path: Path) -> None:
    """One cycle of latency more than beats may be in flight, and one column more than are counted.

    The first layer of ``most.toml`` has four samples side by side; the second one has as many columns as are counted.
    """
    board = (ROOT / "platforms" / "pynq-z1.toml").read_text()
    (tmp_path / "wide.toml").write_text(ONE_LAYER.replace("out = 3", "out = 65_536"))
    behind = 'out = 1 }, { name = "behind", op = "linear", out = 65_535 }]'
    (tmp_path / "most.toml").write_text(ONE_LAYER.replace("out = 3 }]", behind))
    for network, latency, said in (
        (TINY, 194, "port_latency_cycles: the engine expects at most 193, as 127 beats may be in flight, found 194;"),
        ("wide.toml", 193, 'layer "only": columns of a group: the engine expects at most 65,535, found 65,536;'),
        ("most.toml", 193, None),
    ):
        (tmp_path / "own.toml").write_text(
            board.replace("dsps = 220", f"dsps = 220\nport_latency_cycles = {latency}", 1)
        )
        assert fluidb("dse", network, "own.toml", "--tile", "64,3,8", "-o", "d", "--force").returncode == 0
        assert fluidb("latency", "d").returncode == 0
        if said:
            assert said in fault(fluidb, "d", "-o", "rtl")
            assert not (tmp_path / "rtl").exists()
    assert fluidb("hardware", "d", "-o", "rtl").returncode == 0
    assert re.search(r"\bS = 4;", (tmp_path / "rtl" / "engine_pkg.sv").read_text())


def test_int8_doubles_the_multipliers_and_has_no_engine(fluidb: Run, tmp_path: Path) -> None:
    search = ("dse", TINY, "pynq-z1", "--b-max", 1)
    records = [json.loads(fluidb(*search, "--json", *more).stdout) for more in ((), ("--int8",))]
    macs = [record["T_P"] * record["T_C"] for record in records]
    assert macs[1] > 1.9 * macs[0]
    assert [record["word_bits"] for record in records] == [16, 8]
    assert all(record["dsp_share"] <= 1 for record in records)
    assert records[1]["gop_s"][0] > records[0]["gop_s"][0]
    assert fluidb(*search, "--int8", "-o", "d").returncode == 0
    assert fluidb("latency", "d").returncode == 0
    assert "word_bits: the engine expects 16, found 8" in fault(fluidb, "d", "-o", "rtl")
    twice = (tmp_path / "d" / "design.json").read_text()
    assert '"macs_per_dsp": 2' in twice
    energy = fluidb("dse", TINY, "pynq-z1", "--int8", "--objective", "energy")
    assert (energy.returncode, len(energy.stderr.splitlines())) == (2, 1)


def test_dsps_at_twice_the_clock_make_twice_the_products(fluidb: Run, tmp_path: Path) -> None:
    """Of as many DSPs, and in int8 twice as many again; the engine in RTL has none of it."""
    text = (ROOT / "platforms" / "pynq-z1.toml").read_text()
    assert "luts = 53_200" in text
    text = text.replace("luts = 53_200", "luts = 253_200")  # so that multipliers are the limit
    (tmp_path / "x2.toml").write_text(text.replace("dsps = 220", "dsps = 220\nmacs_per_dsp = 2", 1))
    record = json.loads(fluidb("dse", TINY, "x2.toml", "-o", "d", "--json").stdout)
    macs = record["T_P"] * record["T_C"]
    assert 220 < macs <= 440
    assert (record["dsp_share"], record["word_bits"]) == (pytest.approx(-(-macs // 2) / 220), 16)
    assert load_platform(tmp_path / "x2.toml").in_int8().macs_per_cycle == 880
    assert fluidb("latency", "d").returncode == 0
    assert "macs_per_dsp: the engine expects 1, found 2" in fault(fluidb, "d", "-o", "rtl")


def test_nothing_but_an_engine_is_replaced(tiny_design: Path, tmp_path: Path) -> None:
    def refusal() -> str:
        with pytest.raises(InputError) as found:
            write_hardware(tiny_design, tmp_path / "out", replace=True)
        return str(found.value)

    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.sv").write_text("module mine; endmodule\n")
    assert "this folder holds no fbe_pkg.sv" in refusal()
    (tmp_path / "out" / "fbe_pkg.sv").write_text("")
    assert "this folder holds mine.sv, too" in refusal()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["fbe_pkg.sv", "mine.sv"]


def test_the_page_and_the_header_state_every_register(tiny_design: Path, tmp_path: Path) -> None:
    """The header compiles; the RTL and software have the same offsets, which docs/hardware.md prints."""
    write_hardware(tiny_design, tmp_path / "rtl")
    names = [register.name for register in Register]
    prints = "".join(f'printf("%u ", FLUIDB_{name});' for name in names)
    (tmp_path / "main.c").write_text(f'#include "rtl/fluidb_npu.h"\n#include <stdio.h>\nint main(void) {{ {prints} }}')
    built = run(tool("gcc"), "-std=c99", *STRICT, "-o", "main", "main.c", cwd=tmp_path)
    assert (built.returncode, built.stderr) == (0, "")
    assert run("./main", cwd=tmp_path).stdout.split() == [str(register.offset) for register in Register]
    page = (ROOT / "docs" / "hardware.md").read_text()
    rows = [f"| `{one.name}` | 0x{one.offset:02X} | {one.value.access} | {one.value.about} |" for one in Register]
    assert "\n".join(rows) in page
