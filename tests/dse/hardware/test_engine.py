"""The engine in SystemVerilog against the plain model: results bit by bit, cycles one by one."""

from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import naive_engine
import numpy as np
import pytest
from builders import tool
from fluidb.dse import SearchOptions, search, tabulate_design
from fluidb.dse.engine import FLIGHT_BITS, MOVE_BITS
from fluidb.dse.hardware import jobs
from fluidb.dse.hardware.templates import ENGINE as SOURCE
from fluidb.dse.hardware.templates import filled
from fluidb.dse.integers.layer_jobs import job_of
from fluidb.dse.integers.network import IntegerNetwork, Map, MaxPool, Pad, Pair
from fluidb.dse.integers.window import Window
from fluidb.dse.npu.costs import configured, layer_costs
from fluidb.dse.npu.tiles import Tile
from fluidb.formats import InputError
from fluidb.models import Shape, load_network
from fluidb.models.lowering import lower
from fluidb.models.schema import Conv, GlobalPool, Pool
from fluidb.platforms import load_platform

BENCH = Path(__file__).parent / "engine_tb.cpp"
K_CODES = {1: 0, 2: 1, 0.5: 2}
LIMIT = 2_000_000
MOST = 2**15 - 1
"""The largest word."""

FARTHEST = 2**MOVE_BITS - 1
"""The most places that a term of an addition moves."""


class Design(NamedTuple):
    """Rows, multipliers of an element, elements; words of a beat; most samples, and rows, side by side."""

    T_R: int
    T_P: int
    T_C: int
    W: int
    S: int
    V: int = 1

    def stacked(self, k: float) -> Tile:
        if k == 1:
            return Tile(*self[:3], self.V)
        return Tile(self.T_R // 2, math.floor(k * self.T_P), math.floor(self.T_C / k), self.V)


class Job(NamedTuple):
    """A job; the memory is ready in ``num`` of ``den`` cycles."""

    run: jobs.Job
    num: int
    den: int
    latency: int
    turn: int
    seed: int


JOBS = int(os.environ.get("FLUIDB_ENGINE_JOBS", "250"))
"""Random jobs of each design; where it is set, more designs have them, too."""

DEEP, PIXELS = Design(48, 3, 5, 4, 8), Design(24, 2, 3, 8, 2, 2)
"""More elements than words of a beat; and fewer, on two rows at once."""
FEW, THIRD, FOUR = Design(32, 3, 2, 8, 2), Design(64, 4, 6, 8, 4), Design(52, 3, 5, 8, 2, 4)
BROAD, MORE = Design(32, 5, 4, 16, 2), Design(38, 2, 2, 2, 1, 4)
DESIGNS = [DEEP, PIXELS, *([FEW, BROAD, THIRD, FOUR, MORE] if "FLUIDB_ENGINE_JOBS" in os.environ else [])]


def samples_side_by_side(C: int, T_C: int, B_P: int) -> int:
    """The most of them in a tile of columns."""
    columns = B_P * C
    return max((min(at + T_C, columns) - 1) // C - at // C + 1 for at in range(0, columns, T_C))


def random_window(rng: np.random.Generator, P: int, R: int) -> Window:
    """A convolution of about P inner rows, or a product of just these sizes."""
    kernel: Any
    outputs: Any
    stride: Any
    pad: Any
    dilation: Any
    if rng.random() < 0.3:
        return Window.of_product(R, P)
    kernel, stride, dilation = (tuple(map(int, rng.choice([1, 1, 2, 3, 3, 5], 2))) for _ in range(3))
    if rng.random() < 0.5:
        stride, dilation = (1, 1), (1, 1)
    outputs = tuple(map(int, rng.integers(1, 8, 2)))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pad = tuple(int(rng.integers(0, n)) for n in reach)
    below = [int(rng.integers(0, n)) for n in reach]
    if rng.random() < 0.3:  # as wide as the map
        stride, pad, below = (1, 1), tuple(n // 2 for n in reach), [n - 1 - n // 2 for n in reach]
    spans = zip(outputs, stride, reach, pad, below, strict=True)
    size: Any = tuple(max((n - 1) * s + r - before - after, 1) for n, s, r, before, after in spans)
    return Window(max(1, P // (kernel[0] * kernel[1])), size, kernel, outputs, stride, pad, dilation)


def random_pool(rng: np.random.Generator, P: int, R: int) -> tuple[Window, int]:
    """A pool of about P inner rows: the window of a channel, and channels; or of whole maps, which are rows."""
    if rng.random() < 0.3:
        return Window(1, (R, P), (1, P), (R, 1), in_rows=True), 1
    while True:
        window = random_window(rng, P, R)
        if window.dilation == (1, 1) and window.channels * math.prod(window.kernel) <= P:
            return window._replace(channels=1), int(rng.integers(1, 6))


def random_job(design: Design, rng: np.random.Generator) -> Job:
    def size(most: int) -> int:
        """Often 1, or about a size of the design."""
        return int(rng.choice([1, 2, 3, *range(1, most)]))

    while True:
        k = float(rng.choice([1, 1, 2, 0.5]))
        T_R, T_P, T_C, *_ = tile = design.stacked(k)
        pools, P, R = rng.random() < 0.25, size(4 * design.T_P + 3), size(40)
        window = random_window(rng, P, R)
        C, groups = size(3 * design.T_C + 3), int(rng.choice([1, 1, 1, 2, 3]))
        b = int(rng.integers(1, 9))
        runs = b if rng.random() < 0.1 else 1
        B_R = int(rng.integers(1, b // runs + 1))
        if pools:
            (window, groups), C, B_R = random_pool(rng, P, R), 1, b // runs
        layout = b, B_R, math.ceil(b // runs / B_R), runs
        R, P = window.R, window.P
        if min(tile[:4]) < 1:
            continue
        samples = samples_side_by_side(C, T_C, layout[2])
        most = T_R // samples
        if samples > design.S or most < 1 or B_R * R * math.ceil(layout[2] * C / T_C) * math.ceil(P / T_P) > 1500:
            continue
        rows = min(most, B_R * R)
        if rng.random() < 0.7:  # any, or blocks of about the same rows
            blocks = math.ceil(B_R * R / rows)
            rows = int(rng.integers(1, rows + 1)) if rng.random() < 0.5 else math.ceil(B_R * R / blocks)
        num, den = [(1, 1), (8, 9), (1, 2), (3, 7), (1, 5)][rng.integers(5)]
        latency = int(rng.choice([1, 2, 7, 40, 100]))
        shift, high = int(rng.integers(0, 24)), int(rng.choice([1, 900, MOST]))
        low = int(rng.choice([-MOST - 1, 0, -high]))
        run = jobs.Job(window, C, groups, layout, K_CODES[k], tile, rows, shift, low, high)
        if rng.random() < 0.3:  # other maps lie between the samples, and a constant behind each channel
            y_channel = R + int(R > 1 and rng.choice([0, 1, R]))
            y_sample, channels = groups * C * y_channel, channels_of(run)
            one_row = window.along_P and not window.in_rows  # nothing may lie between its channels
            x_channel = groups * window.words // channels + int(0 if one_row else rng.integers(9))
            x_sample = channels * x_channel + int(rng.integers(9))
            run = run._replace(x_channel=x_channel, x_sample=x_sample)
            run = run._replace(y_channel=y_channel, y_sample=y_sample + int(rng.integers(9)))
        if pools:
            run = run._replace(shared=True, maximum=bool(rng.integers(2)))
        elif rng.random() < 0.4:
            run = run._replace(addition=random_addition(rng))
        turn = int(rng.choice([0, 0, 1, 22]))
        return Job(run, num, den, latency, turn, int(rng.integers(2**31)))


def channels_of(run: jobs.Job) -> int:
    """Channels of the inputs; in a pool of whole maps they are the rows."""
    return run.window.size[0] if run.window.in_rows else run.groups * run.window.channels


def random_addition(rng: np.random.Generator) -> jobs.Addition:
    """Shifts up to the largest, often none; the bounds of a product, often all words."""
    least, moved, right = (int(rng.choice([0, 0, 1, 3, FARTHEST])) for _ in range(3))
    left = (least, least + moved) if rng.random() < 0.5 else (least + moved, least)
    low, high = ([-MOST - 1, MOST], [0, 700], [-900, -3])[rng.integers(3)]
    return jobs.Addition(left, least + right, low, high)


def outputs(maps: Any, weights: Any, run: jobs.Job, others: Any) -> Any:
    """[sample][group][C][row] of maps [sample][group][channel][height][width] and weights [group][P][C], directly.

    With the map ``others`` of the same form, if it is added.
    """
    window = run.window
    (rows, columns), (high, wide) = window.outputs, window.size
    sums = np.zeros((*maps.shape[:2], run.C, rows, columns), np.int64)
    for y, x in np.ndindex(rows, columns):
        for p, (channel, *at) in enumerate(np.ndindex(window.channels, *window.kernel)):
            ways = zip((y, x), window.stride, at, window.dilation, window.pad, strict=True)
            iy, ix = (place * step + n * apart - pad for place, step, n, apart, pad in ways)
            if 0 <= iy < high and 0 <= ix < wide:
                made = maps[:, :, channel, iy, ix, None] * weights[:, p]
                sums[..., y, x] = np.maximum(sums[..., y, x], made) if run.maximum else sums[..., y, x] + made
    found = np.clip((sums + (1 << run.shift >> 1)) >> run.shift, -(2**15), 2**15 - 1)
    if (add := run.addition) is not None:
        found = np.minimum(np.maximum(found, add.low), add.high).reshape(others.shape)
        found = (found << add.left[0]) + (others << add.left[1]) + (1 << add.shift >> 1) >> add.shift
    return np.minimum(np.maximum(found, run.low), run.high)


def image(design: Design, job: Job) -> tuple[list[int], Any, Any]:
    """What the testbench reads of a job before its memory, the memory, and what that is to be afterwards."""
    rng, run = np.random.default_rng(job.seed), job.run
    high = int(rng.choice([2, 200, 2**15]))
    maps = rng.integers(-high, high, (run.layout[0], run.groups, run.window.channels, *run.window.size))
    weights = rng.integers(-high, high, (run.groups, run.window.P, run.C))
    if run.shared:  # a pool
        maps = np.minimum(abs(maps), MOST) if run.maximum else maps
        weights = np.full((1, *weights.shape[1:]), 1 if run.maximum else rng.integers(1, high))
    if job.seed == 0:  # sums of 65,535, whose half rounds up to beyond 16 bits
        maps[:], weights[:] = 2**15 - 1, 1
        maps[:, :, -1] = 1
    b, R, channels, inputs = len(maps), run.window.R, run.groups * run.C, maps[0].size
    y_channel, others = run.y_channel or R, rng.integers(-high, high, (b, channels, R))
    inner = maps.reshape(b, channels_of(run), -1)
    parts = [inner, weights, outputs(maps, weights, run, others).reshape(b, channels, R), others]
    of_output = run.y_sample or channels * y_channel, y_channel, 1
    of_input = run.x_sample or inputs, run.x_channel or inner.shape[2], 1
    strides = (of_input, (weights[0].size, run.C, 1), of_output, of_output)
    places = [np.tensordot(of, np.indices(part.shape), 1) for of, part in zip(strides, parts, strict=True)]
    bases, at = [0, 0, 0, 0], int(rng.integers(3))
    size = at + sum(int(place.max()) + 1 for place in places) + 6
    after = rng.integers(-(2**15), 2**15, size + size % 2).astype(np.int16)
    for which in rng.permutation(4):
        bases[which] = at
        after[at + places[which]] = parts[which]
        at += int(places[which].max()) + 1 + int(rng.integers(3))
    before = after.copy()
    before[bases[2] + places[2]] = 0x5A5A  # what no beat may leave
    if run.addition is not None:
        run = run._replace(addition=run.addition._replace(distance=bases[3] - bases[2]))
    head = jobs.descriptor(run, design.W, *bases[:3])
    return [*head, job.num, job.den, job.latency, job.turn, len(before)], before, after


def write_package(design: Design, folder: Path) -> None:
    (folder / "engine_pkg.sv").write_text(filled("engine_pkg.sv", **design._asdict()))
    (folder / "memory.hpp").write_text(filled("memory.hpp"))


RUNTIME: dict[str, bytes] = {}
"""Verilator's own part of every testbench, compiled."""


def verilate(command: list[str], folder: Path, objects: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Build a testbench; only the first one compiles Verilator's own part."""
    objects.mkdir()
    for name, content in RUNTIME.items():
        (objects / name).write_bytes(content)
    kept = [part for name in RUNTIME for part in ("-MAKEFLAGS", f"-o {name}")]  # though its makefile is newer
    done = subprocess.run([*command, *kept], cwd=folder, capture_output=True, text=True, check=False, **more)
    RUNTIME.update((path.name, path.read_bytes()) for path in objects.glob("verilated*.o"))
    return done


def build(design: Design, folder: Path, source: Path = SOURCE, optimise: str = "-Og") -> Path:
    """The testbench of a design; its path."""
    write_package(design, folder)
    constants = f"-DLIMIT={LIMIT}u -std=c++17 -w -I{folder}"
    command = [tool("verilator"), "--cc", "--exe", "--build", "--assert", "-O3", "--top-module", "engine"]
    command += ["--Mdir", "build", "--x-initial", "unique", "-Wno-fatal", "-CFLAGS", constants]
    # one file for the compiler: it reads Verilator's headers once
    command += ["--output-split", "0", "-MAKEFLAGS", f"OPT_FAST={optimise} OPT_SLOW=-O0 OPT_GLOBAL=-O0"]
    sources = ["engine_pkg.sv", *sorted(source.glob("*.sv")), BENCH]
    command += [*map(str, sources), "-o", "engine_tb"]
    done = verilate(command, folder, folder / "build")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "engine_tb"


def simulate(program: Path, design: Design, jobs: list[Job], folder: Path, *, timed: bool = True) -> list[str]:
    """Run jobs; the faults found, one line each. Cycles need not be the model's if the jobs are not ``timed``."""
    images = [image(design, job) for job in jobs]
    parts = [np.array(head, dtype="<u4").tobytes() + before.astype("<i2").tobytes() for head, before, _ in images]
    (folder / "jobs").write_bytes(b"".join(parts))
    done = subprocess.run([program, "jobs", "results"], cwd=folder, capture_output=True, text=True, check=False)
    faults = [done.stdout + done.stderr or f"exit code {done.returncode}"] if done.returncode else []
    found, at = (folder / "results").read_bytes(), 0
    for job, (_, _, after) in zip(jobs, images, strict=True):
        if at + 4 + 2 * len(after) > len(found):
            return [*faults, f"no result of {job}"]
        cycles = int.from_bytes(found[at : at + 4], "little")
        memory = np.frombuffer(found, "<i2", len(after), at + 4)
        at += 4 + 2 * len(after)
        port = (design.W, job.num, job.den, job.latency, 0, job.turn)
        drain, run = naive_engine.drain_of(design.T_P), job.run
        adds, source = run.addition is not None, run.window.source
        expected = naive_engine.run(run.gemm, run.tile, run.layout, run.rows, port, drain, source, adds)
        wrong = int((memory != after).sum())
        if wrong or (timed and cycles != expected):
            faults.append(f"{wrong} of {len(after)} words differ, {cycles} cycles in place of {expected}: {job}")
    return faults


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_the_engine_is_the_plain_model(design: Design, tmp_path: Path) -> None:
    program = build(design, tmp_path)
    rng = np.random.default_rng(sum(design))
    found = [random_job(design, rng) for _ in range(JOBS)]
    tile = design.stacked(1)
    rounds_up = jobs.Job(Window.of_product(5, 3), 2, 1, (2, 2, 1, 1), 0, tile, 10, 1, -MOST - 1, MOST)
    found.append(Job(rounds_up, 1, 1, 2, 0, 0))
    if design is DEEP:  # a store of more words than are read ahead, in one share and in several
        for P in (2, 7):
            sums = jobs.Addition((0, 2), 1, -MOST - 1, MOST)
            long = jobs.Job(Window.of_product(5, P), 7, 1, (8, 8, 1, 1), 0, tile, 40, 3, -MOST - 1, MOST, addition=sums)
            found += [Job(long, 8, 9, latency, P, P) for latency in (2, 90)]
    if design is DEEP:  # samples end up to 7 * 9,370 columns beyond a tile: more than 16 bits
        halved = design.stacked(0.5)
        beyond = jobs.Job(Window.of_product(1, 1), 9_370, 1, (1, 1, 1, 1), K_CODES[0.5], halved, 1, 0, -MOST - 1, MOST)
        found.append(Job(beyond, 1, 1, 2, 0, 1))
    assert simulate(program, design, found, tmp_path) == []
    if design is DEEP:  # the port stalls where the model asks for more beats than may be in flight
        late = [job._replace(num=1, den=1, latency=3 << FLIGHT_BITS) for job in found[::5]]
        assert simulate(program, design, late, tmp_path, timed=False) == []


def test_an_assertion_sees_a_tile_that_loads_too_early(tmp_path: Path) -> None:
    """In a half of the buffers whose tile is not computed yet."""
    design, mutant, rule = Design(16, 2, 1, 2, 2), tmp_path / "rtl", "!occupied[1] || tile_done;"
    mutant.mkdir()
    for path in SOURCE.glob("*.sv"):
        text = path.read_text(encoding="utf-8")
        assert (rule in text) == (path.name == "port.sv")
        (mutant / path.name).write_text(text.replace(rule, "occupied <= 2;"))
    rng = np.random.default_rng(5)
    found = simulate(
        build(design, tmp_path, mutant, "-O0"), design, [random_job(design, rng) for _ in range(30)], tmp_path
    )
    assert "a tile loads into a half that is taken" in found[0]


@pytest.mark.skipif("FLUIDB_FULL_LAYER" not in os.environ, reason="896 multipliers: minutes to build and run")
def test_two_layers_of_full_size(tmp_path: Path) -> None:
    """Of ResNet-50 on the ZC706 by its search's design, as its control block runs them: the latency table's cycles."""
    network, board = load_network("resnet50"), load_platform("zc706").without_bus()
    whole = Tile(1024, 7, 128)
    options = SearchOptions(tile=whole, b_max=2)
    design, fbcb = tabulate_design(network, board, options, search(network, board, options))
    costs, chosen, (codes, _, _) = layer_costs(design, fbcb), configured(design, fbcb), fbcb.unpack()
    places = [place for place, layer in enumerate(network.layers) if layer.product(pooled=True)]
    assert costs.block_rows is not None
    words, ready, cycles, latency, *_, turn = map(int, design.port)
    sizes, found = Design(*whole[:3], words, 2), []
    for name, channels, side, b in (("layer3.1.conv2", 256, 14, 2), ("layer4.1.conv2", 512, 7, 1)):
        (index,) = (index for index, place in enumerate(places) if network.layers[place].name == name)
        window = Window(channels, (side, side), (3, 3), (side, side), pad=(1, 1))
        assert network.layers[places[index]].gemm == (window.R, window.P, channels, 1)
        tile, layout = Tile(*map(int, chosen.tile[:, index, b - 1])), tuple(chosen.layouts[index, b - 1].tolist())
        rows, code = int(costs.block_rows[places[index], b - 1]), int(codes[index, b - 1])
        run = jobs.Job(window, channels, 1, layout, code, tile, rows, 12, 0, MOST)
        found.append(Job(run, ready, cycles, latency, turn, index))
        expected = round(costs.time_s[places[index], b - 1] * board.clock_hz)
        port, drain = design.port, naive_engine.drain_of(sizes.T_P)
        assert naive_engine.run(run.gemm, run.tile, run.layout, rows, port, drain, window.source) == expected
    assert simulate(build(sizes, tmp_path, optimise="-O0"), sizes, found, tmp_path) == []


@pytest.mark.parametrize("design", [DEEP, BROAD, Design(16, 2, 1, 2, 2), PIXELS, MORE], ids=str)
def test_verilator_finds_nothing_to_warn_of(design: Design, tmp_path: Path) -> None:
    write_package(design, tmp_path)
    lint = [tool("verilator"), "--lint-only", "-Wall", "--top-module", "engine", "engine_pkg.sv"]
    command = [*lint, *sorted(map(str, SOURCE.glob("*.sv")))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"C": 2**16}, "columns: expected at most 65,535, found 65,536"),
        ({"rows": 2**16}, "rows: expected at most 65,535"),
        ({"shift": 48}, "shift: expected at most 47, found 48"),
        ({"window": Window.of_product(70_000, 3)}, "width: expected at most 65,535"),
    ],
)
def test_a_job_that_the_engine_cannot_count_is_refused(change: dict[str, Any], fault: str) -> None:
    job = jobs.Job(Window.of_product(5, 3), 2, 1, (1, 1, 1, 1), 0, Tile(8, 2, 2), 5, 1, 0, MOST)
    assert len(jobs.descriptor(job, 4, 0, 0, 0)) == len(jobs.FIELDS)
    with pytest.raises(InputError, match=fault):
        jobs.descriptor(job._replace(**change), 4, 0, 0, 0)


@pytest.mark.parametrize(
    ("size", "op"),
    [
        ((7, 7), {"kernel": [3, 3], "pad": [1, 1, 1, 1]}), ((7, 7), {"kernel": [3, 3]}),
        ((8, 6), {"kernel": [3, 3], "stride": [2, 2], "pad": [1, 1, 1, 1]}), ((6, 6), {"kernel": [1, 1]}),
        ((6, 6), {"kernel": [1, 1], "stride": [2, 2]}), ((5, 4), {"kernel": [5, 4]}),
        ((5, 5), {"kernel": [5, 5], "pad": [1, 0, 0, 0], "stride": [9, 1]}), ((9, 1), {"kernel": [1, 1]}),
        ((1, 9), {"kernel": [1, 7], "pad": [0, 3, 0, 3]}), ((9, 1), {"kernel": [7, 1], "pad": [3, 0, 3, 0]}),
        ((4, 4), {"kernel": [2, 2], "stride": [1, 2]}),
    ],
)  # fmt: skip
def test_a_layer_s_line_and_stride_are_those_of_its_window(size: tuple[int, int], op: dict[str, Any]) -> None:
    """The time of a layer and the job that runs it read the map alike."""
    conv = Conv(name="c", op="conv", out=5, **op)
    shape, layer = lower(conv, [Shape(*size, 3)], 1)
    assert layer is not None
    kernel, outputs, stride, pad = ((pair[0], pair[1]) for pair in (conv.kernel, shape, conv.stride, conv.pad))
    window = Window(3, size, kernel, outputs, stride, pad)
    assert (layer.line, layer.stride) == window.source
    in_order = window.along_P or (window.joined and kernel == (1, 1))
    assert (layer.step, layer.window) == ((0, (1, 1)) if in_order else (size[1], kernel))
    assert layer.gemm == (window.R, window.P, 5, 1)


@pytest.mark.parametrize(
    ("size", "op"),
    [
        ((7, 7), {"kernel": [3, 3], "stride": [1, 1], "pad": [1, 1, 1, 1]}),
        ((8, 7), {"kernel": [3, 3], "stride": [2, 2], "pad": [1, 1, 1, 1]}),
        ((7, 8), {"kernel": [2, 2], "stride": [2, 2], "ceil": True}), ((5, 4), {"kernel": [5, 4], "stride": [1, 1]}),
        ((5, 4), {"kernel": [5, 4], "stride": [5, 4], "pad": [0, 0, 1, 0]}),
        ((4, 4), {"kernel": [1, 1], "stride": [2, 2]}), ((1, 1), {"kernel": [1, 1], "stride": [1, 1]}), ((6, 5), None),
    ],
)  # fmt: skip
def test_a_pool_is_lowered_to_the_job_that_the_engine_runs(size: tuple[int, int], op: dict[str, Any] | None) -> None:
    pool = Pool(name="p", op="maxpool", **op) if op else GlobalPool(name="p", op="globalavgpool")
    shape, layer = lower(pool, [Shape(*size, 3)], 1)
    assert layer is not None
    assert (layer.gemm, layer.memory_words) == (None, 3 * math.prod(size) + shape.words)  # on other devices
    kernel, stride, pad = (pool.kernel, pool.stride, pool.pad[:2]) if isinstance(pool, Pool) else (size, (1, 1), (0, 0))
    made = MaxPool(name="p", inputs=["input"], stage=1, shape=Map(3, *shape[:2]), exponent=0, kernel=Pair(*kernel),
                   stride=Pair(*stride), pad=Pad(*pad), dilation=Pair(1, 1))  # fmt: skip
    job = job_of(IntegerNetwork("n", Map(3, *size), 0, [made], [], {}), made)
    assert (layer.line, layer.stride) == job.window.source
    assert layer.pool == (job.window.R, job.window.P, job.C, job.groups)
