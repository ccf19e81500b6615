"""Common parts of tests: paths, the installed command, small tables, traces, boards, and random inputs."""

from __future__ import annotations

import csv
import importlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import monotonic, sleep
from typing import Any
from unittest import mock

import numpy as np
import pytest
from fluidb.cli.app import run
from fluidb.dse import Overlap, SearchOptions, Tile
from fluidb.dse.engine import Port
from fluidb.dse.npu.ports import port_of
from fluidb.models import Exit, Gemm, Layer, Network, Shape
from fluidb.models.importers import import_network
from fluidb.models.loader import build_network
from fluidb.models.schema import NetworkFile
from fluidb.platforms import Board
from fluidb.serving import Scheduler, find_policy, simulate
from fluidb.serving.device_traffic import DeviceTraffic
from fluidb.serving.networks import ServedNetwork
from fluidb.serving.policies import Policy
from fluidb.studies.plan.plan_traffic import JointTraffic, PlanTraffic
from fluidb.tables.latency import LatencyTable
from fluidb.tables.layer_use import LayerUse
from fluidb.tables.reuse import Reuse, SubNetEntry
from fluidb.traffic import Trace, Traffic, poisson, prepare
from fluidb.traffic.samples import Samples
from hypothesis import strategies as st
from schemas import check_output, widen_schema

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
TINY, POCKET = str(DATA / "tiny.toml"), str(DATA / "pocket.toml")
DUEL = DATA / "duel.toml"
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
"""False when the kernels run as plain Python, a thousand times slower."""
FLUIDB = str(Path(sys.executable).with_name("fluidb"))


def port_for(board):
    """The port of a design on a board, in numbers."""
    return Port(*map(float, port_of(board, Tile(2, 1, 1))))


@cache
def keep_operators() -> None:
    """Let PyTorch's newer exporter read its 500 operators once: they take more than half of each export."""
    registry = importlib.import_module("torch.onnx._internal.exporter._registration").ONNXRegistry
    registry.from_torchlib = staticmethod(cache(registry.from_torchlib))


def library(name: str):
    """A library of the group ``exporters``, or a reason to skip; `.ci/run` installs all of them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
            if name == "onnxscript":
                keep_operators()
            return module
    except ModuleNotFoundError:
        if "FLUIDB_REQUIRE_EXPORTERS" in os.environ:
            raise
        pytest.skip(f"{name} is not installed: pip install --group exporters")


paper_options = partial(SearchOptions, overlap=Overlap.PAPER)
"""A search by the paper's count of words, whose oracle is ``naive``; that as built is ``naive_engine``'s."""

# the installed command

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def run_fluidb(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the installed command, as a user would."""
    return subprocess.run([FLUIDB, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False)


def call_fluidb(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, which saves the imports of a new one; both streams are files.

    Start, end and interruption of a process are tested with ``run_fluidb`` and ``start_fluidb``.
    """
    command = ["fluidb", *map(str, arguments)]
    with (
        NamedTemporaryFile("w") as out, NamedTemporaryFile("w") as err,
        redirect_stdout(out), redirect_stderr(err), chdir(cwd), mock.patch.object(sys, "argv", command),
    ):  # fmt: skip
        with pytest.raises(SystemExit) as end:
            run()
        found = []
        for stream in (out, err):
            stream.flush()
            found.append(Path(stream.name).read_text())
    if "SCHEMAS" in os.environ and "--json" in command and found[0].startswith("{"):
        {"check": check_output, "write": widen_schema}[os.environ["SCHEMAS"]](json.loads(found[0]))
    return subprocess.CompletedProcess(command, int(end.value.code or 0), *found)


Start = Callable[..., "subprocess.Popen[str]"]


@contextmanager
def start_fluidb(
    *arguments: object, cwd: Path, stderr: int = subprocess.PIPE, command: Sequence[str] = (FLUIDB,)
) -> Iterator[subprocess.Popen[str]]:
    """Start the installed command, or another that runs it, so that Ctrl-C reaches it.

    A test run in the background may have it ignored. If the command is still running at the end, it is killed: it would
    disturb the tests that follow.
    """
    with subprocess.Popen(
        [*command, *map(str, arguments)], cwd=cwd, stdout=subprocess.PIPE, stderr=stderr, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  (no threads here)
    ) as running:  # fmt: skip
        try:
            yield running
        finally:
            running.kill()


def read_terminal(descriptor: int) -> Iterator[bytes]:
    """Read the output at the other end of a terminal until it is closed; unread output would stop the writer."""
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # closed
            return
        yield piece


def wait_for(true: Callable[[], object]) -> None:
    """Return as soon as a condition holds, and fail if it never does: a busy machine has time enough."""
    deadline = monotonic() + 600
    while not true():
        assert monotonic() < deadline
        sleep(0.02)


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Faults on stderr, after checking that there is nothing else."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert all(line.startswith("fluidb: ") for line in lines)
    return lines


KILLED = """
import json, os, sys
from signal import SIGKILL
from tempfile import TemporaryDirectory
from fluidb.cli.app import run

def ends(folder):
    os.chdir(folder)
    try:
        run()
    except SystemExit as end:
        return end.code

def fsync(descriptor):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), SIGKILL)
    real(descriptor)

folders = json.loads(sys.argv.pop(1))
with TemporaryDirectory() as scratch:
    ends(scratch)
    os.chdir("/")
real, os.fsync = os.fsync, fsync
for folder, left in folders.items():
    child = os.fork()
    if child == 0:
        os._exit(ends(folder))
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # or copies would print it again
"""


def killed(folders: dict[Path, int], *arguments: object) -> list[int]:
    """Run a command in each folder and kill it before the step to the disk with this number, counted from 0.

    Returns the results of the processes. They are copies of one that has run the command before, elsewhere: imports and
    compiled functions are loaded once.
    """
    steps = json.dumps({str(folder): step for folder, step in folders.items()})
    code = [sys.executable, "-c", KILLED, steps, *map(str, arguments)]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    return [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("ended ")]


def tool(name: str) -> str:
    """Path of a program that a test needs; without it the test is skipped, or fails where every program is expected."""
    path = shutil.which(name)
    if path is None and os.environ.get("FLUIDB_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{name} is missing: apt-get install {name}")
    if path is None:
        pytest.skip(f"needs {name}: apt-get install {name}")
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def edited_scenario(tmp_path: Path, *edits: tuple[str, str], name: str = "mine.toml") -> Path:
    """A copy of the scenario, and what it refers to, with some text replaced."""
    for file in ("tiny.toml", "pocket.toml", "duel.csv"):
        shutil.copy(DATA / file, tmp_path)
    text = DUEL.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / name).write_text(text)
    return tmp_path / name


# the pages of docs/


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)


def run_shell(block: str, folder: Path, run: Run = call_fluidb) -> str:
    """Run the commands of a block in order, by default in this process; return their output."""
    printed = ""
    for line in block.splitlines():
        command, *arguments = shlex.split(line, comments=True)
        assert command == "fluidb"
        done = run(*arguments, cwd=folder)
        assert done.returncode == 0, (line, done.stderr)
        printed += done.stdout
    return printed


# the results of papers


def result_rows(folder: Path, name: str) -> list[dict[str, str]]:
    """Rows of an item of ``results/``: its figures, or its statements if it has no figures."""
    with (folder / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def compared_rows(folder: Path, name: str) -> dict[tuple[str, str, str], dict[str, str]]:
    """Rows of an item that stand beside the paper's."""
    return {(row["quantity"], row["of"], row["at"]): row for row in result_rows(folder, name) if row["paper"]}


def verdicts(folder: Path, name: str) -> list[bool]:
    """Whether each statement of an item holds: beside figures, statements are on the page only."""
    rows = result_rows(folder, name)
    if "holds" in rows[0]:
        return [row["holds"] == "True" for row in rows]
    page = (folder / "README.md").read_text()
    (section,) = [part for part in page.split("\n## ") if f"({name}.csv)" in part]
    return [said == "holds" for said in re.findall(r"\| (holds|does not hold)[^|]*\|$", section, re.MULTILINE)]


# imported networks


def imported(path: Path, **options: Any) -> tuple[NetworkFile, Network]:
    """The file that an import makes of a model, and its network."""
    file = import_network(path, "onnx", **options)
    return file, build_network(file, path)


# random networks and designs

gemms = st.tuples(st.integers(1, 100), st.integers(1, 80), st.integers(1, 60), st.integers(1, 3))
"""R, P, C, groups; a fully connected layer (R = 1) often enough to matter."""
any_gemm = st.one_of(gemms, gemms.map(lambda gemm: (1, *gemm[1:])))
_powers = st.integers(0, 14).map(lambda power: 2**power)
huge_gemms = st.tuples(*[st.tuples(_powers, st.integers(0, 5)).map(sum)] * 3, st.just(1))
"""Up to the largest layers that a network may have (fluidb.models.MAX_WORK)."""
tiles = st.builds(
    Tile, st.integers(1, 120).map(lambda half: 2 * half), st.integers(1, 24), st.integers(1, 48), st.just(1), st.just(0)
)  # fmt: skip
batches = st.integers(1, 9)
modes = st.sampled_from(["fluid", "row", "column", "fc", "none", "eq1"])
words_per_cycle = st.integers(-3, 6).map(lambda power: 2.0**power)
"""Powers of two, so that sums and products are exact and equal means equal."""


def layer_of(gemm: Any, name: str = "layer", stage: int = 1) -> Layer:
    """A bare product of R, P, C, groups and perhaps ``per_sample``, line, stride and ``residual``."""
    named = dict(zip(("per_sample", "line", "stride", "residual"), gemm[4:], strict=False))
    return Layer(name=name, stage=stage, gemm=Gemm(*gemm[:4]), shape=Shape(1, 1, 1), **named)


def network_of(gemms: list[Any], memory_words: int = 0, stages: list[int] | None = None) -> Network:
    """A network of bare products, by default in one stage."""
    stages = stages or [1] * len(gemms)
    layers = [layer_of(gemm, f"l{i}", stages[i]) for i, gemm in enumerate(gemms)]
    if memory_words:
        pool = Layer(name="pool", stage=stages[-1], gemm=None, memory_words=memory_words, shape=Shape(1, 1, 1))
        layers.append(pool)
    exits = [Exit(name=f"end{stage}", rate=1.0 / stages[-1]) for stage in range(1, stages[-1] + 1)]
    return Network(name="random", title="random", exits=exits, layers=layers)


def write_deep(path: Path, exits: int, rate: float) -> None:
    """Write the file of a network of many small layers, with an exit of this rate after each but the last."""
    layers = "".join(f'  {{ name = "fc{k}", op = "linear", out = 10 }},\n' for k in range(exits))
    heads = "".join(
        f'[[exits]]\nafter = "fc{k}"\nrate = {rate}\nlayers = [{{ name = "head", op = "linear", out = 10 }}]\n'
        for k in range(exits - 1)
    )
    path.write_text(
        'schema = "fluidb.network/1"\nname = "deep"\ntitle = "Deep"\n'
        f"input = {{ height = 1, width = 1, channels = 10 }}\nlayers = [\n{layers}]\n{heads}"
        '[sources]\nall = "made up for tests"\n'
    )


WITHOUT_LOGIC = {"luts": None, "flip_flops": None}
"""What a board's file leaves out so that logic is not judged."""


def board_of(dsps: int, kibit: int = 40, gb_s: float = 0.8) -> Board:
    return Board(
        name="b", title="b", dsps=dsps, on_chip_mbit=kibit / 1024, clock_mhz=100.0, bandwidth_gb_s=gb_s, word_bits=16
    )


# small latency tables, traces and policies


def table_of(stage_s: list[list[float]], rates: list[float] | None = None) -> LatencyTable:
    """A latency table from the times of each stage, b = 1..b_max; a stage is two layers, of 1/4 and 3/4 of its time.

    A sample makes 100 MACs in the second, of 10,000 a second; the rest of the time is tile padding.
    """
    stages, times = len(stage_s), np.array(stage_s)
    rates = rates or [0.0] * (stages - 1) + [1.0]
    exits = [Exit(name=f"e{i}", rate=rate) for i, rate in enumerate(rates, 1)]
    b_max, none = len(stage_s[0]), [0.0] * len(stage_s[0])
    layers = []
    for stage, time in enumerate(times, 1):
        for part, share, macs in (("a", 0.25, 0), ("b", 0.75, 100)):
            padding = np.maximum(share * time - macs / 1e4 * np.arange(1, b_max + 1), 0.0)
            layers.append(
                LayerUse(
                    name=f"{part}{stage}", stage=stage, macs=macs, time_s=(share * time).tolist(),
                    tile_padding_s=padding.tolist(), batch_padding_s=none, memory_bound_s=none,
                )
            )  # fmt: skip
    return LatencyTable(
        network="test", platform="test", exits=exits, b_max=b_max, peak_macs_per_s=1e4, layers=layers,
    )  # fmt: skip


def by_stage(stage_s: list[list[float]]) -> LatencyTable:
    """The table of :func:`table_of` without its layers, as of a device that was measured."""
    return table_of(stage_s).model_copy(update={"layers": [], "stage_s": [stage_s], "peak_macs_per_s": None})


def plan_traffic(
    network: Network, rate_per_s: float | None, trace: Trace | None, count: int, slo_s: float, samples: Samples | None,
    seed: int, seeds: int,
) -> PlanTraffic:  # fmt: skip
    """Traffic of a plan's only network; of its table only the exits count, and it has no layers."""
    table = by_stage([[1.0]] * len(network.exits)).model_copy(update={"exits": network.exits})
    given = ServedNetwork(table=table, samples=samples)
    return PlanTraffic(rate_per_s, trace, count, slo_s, seed, seeds, given=(given,), models=(network,))


def joint_traffic(traffic: Traffic) -> JointTraffic:
    """Requests of one network as of all that a device has."""
    return JointTraffic.of(DeviceTraffic.of(traffic), np.zeros(1, np.int64), (False,))


def supernet_table(
    latency_s: list[list[float]],
    accuracy: list[float | None],
    subnets: list[list[int]],
    subgraphs: list[list[int]],
    **more,
) -> LatencyTable:
    """A table of SubNets by state: L[SubNet][state], accuracies, and the vectors of both."""
    S, G = np.array(subnets, dtype=float), np.array(subgraphs, dtype=float)
    refills = list(range(len(subgraphs)))
    reuse = {
        "refill_s": [number / 64 for number in refills], "refill_bytes": [1000.0 * number for number in refills],
        "overlap": (G @ S.T).tolist(), "content": (G**2).sum(axis=1).tolist(),
    }  # fmt: skip
    stage_s = [[[times[state]]] for state in refills for times in latency_s]
    return LatencyTable(
        network="super", platform="chip", exits=[Exit(name="end", rate=1.0)], b_max=1, stage_s=stage_s,
        subnets=[SubNetEntry(name=f"s{i}", accuracy=value) for i, value in enumerate(accuracy)],
        states=["EMPTY", *(f"G{j}" for j in refills[1:])], reuse=Reuse(**reuse | more),
    )  # fmt: skip


FASTER = 0.5
"""Time of each further variant, as a share of the one before."""


def repeating(stage_s: list[list[float]], steps: int) -> LatencyTable:
    """A table whose last stage repeats, up to ``steps`` times."""
    table = table_of(stage_s)
    last = table.exits[-1].model_copy(update={"steps": steps})
    return table.model_copy(update={"exits": [*table.exits[:-1], last]})


def with_variants(stage_s: list[list[float]], **axes) -> LatencyTable:
    """A table with axes, in which each variant takes half as long as the one before."""
    plain = by_stage(stage_s)
    count = plain.model_copy(update=axes).variants
    times_s = [[[FASTER**variant * time_s for time_s in row] for row in stage_s] for variant in range(count)]
    return LatencyTable(**{**dict(plain), **axes, "stage_s": times_s})


def trace_of(arrivals, slo_s=None) -> Trace:
    slo = None if slo_s is None else np.broadcast_to(np.array(slo_s, dtype=float), len(arrivals)).copy()
    return Trace(np.arange(len(arrivals)), np.array(arrivals, dtype=float), slo_s=slo)


def traffic_of(trace: Trace, exits: np.ndarray, slo_s: float | None = None) -> Traffic:
    """Requests with these exits, and with this objective or the trace's."""
    return prepare(replace(trace, exits=exits, confidences=None), [0.0] * max(exits), slo_s=slo_s)


def ticks(low: int, high: int) -> st.SearchStrategy[float]:
    """Times in 64ths of a second: sums are exact, and ties happen."""
    return st.integers(low, high).map(lambda n: n / 64)


@st.composite
def workloads(draw):
    """A table, arrivals (ties and bursts among them), exits and objectives."""
    stages, b_max = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    # at least 8 ticks, 6 of them in the layer that multiplies: the MACs of five samples take 3.2
    first = draw(st.lists(ticks(2, 128).map(lambda time: 4 * time), min_size=stages, max_size=stages))
    growth = draw(st.integers(0, 5)) / 4
    table = table_of([[time * (1 + growth * b) for b in range(b_max)] for time in first])
    gaps = draw(st.lists(st.one_of(st.just(0.0), ticks(0, 600)), min_size=1, max_size=30))
    exits = draw(st.lists(st.integers(1, stages), min_size=len(gaps), max_size=len(gaps)))
    slos = draw(
        st.one_of(
            ticks(4, 4000).map(lambda slo: [slo] * len(gaps)),
            st.lists(ticks(4, 4000), min_size=len(gaps), max_size=len(gaps)),
        )
    )
    return table, trace_of(np.cumsum(gaps), slos), np.array(exits)


def scheduler_named(policy: str, call_s: float = 0.0, timeout_s: float = 1.0) -> Scheduler:
    """A policy with the cost of a call, and a timeout if it has one; the traces here have an SLO for each request."""
    timeout = (
        [f"timeout={timeout_s}s" if timeout_s else "timeout=0"] if policy in ("adaptb", "batchcond", "pame") else []
    )
    return find_policy(f"{policy}:" + ",".join([f"call={call_s}s" if call_s else "call=0", *timeout]))


def scheduler_of(decide, **settings) -> Scheduler:
    lanes = settings.pop("lanes", 1)
    return Scheduler("mine", Policy(decide, **settings), {}, lanes=lanes)


def everybody(count: int, stages: int) -> Traffic:
    """Requests that all wait at time 0 and run to the end."""
    return traffic_of(trace_of([0.0] * count), np.full(count, stages), 100.0)


# means of random runs

SEEDS = range(12)
STUDENT_T = 4.437
"""Two-sided 99.9 % quantile of Student's t with 11 degrees of freedom."""


def mean_latencies(table: LatencyTable, rate_per_s: float, count: int, spec: str = "serial") -> np.ndarray:
    """Mean latency of Poisson arrivals under a policy, of one run for each seed."""
    rates = [row.rate for row in table.exits]
    means = []
    for seed in SEEDS:
        traffic = prepare(poisson(rate_per_s, count, seed), rates, slo_s=1, seed=seed)
        means.append(simulate(table, traffic, find_policy(spec)).latency_s.mean())
    return np.array(means)


def assert_mean(found: np.ndarray, expected: float) -> None:
    half_width = STUDENT_T * found.std(ddof=1) / np.sqrt(len(found))
    assert half_width < 0.1 * expected  # else the test could not fail
    assert found.mean() == pytest.approx(expected, abs=half_width)


def mean_value_analysis(clients: int, service_s: float, think_s: float) -> float:
    """Mean response time of one exponential server and N clients: Reiser and Lavenberg, JACM 27(2), 1980."""
    queue = response_s = 0.0
    for n in range(1, clients + 1):
        response_s = service_s * (1 + queue)
        queue = n / (think_s + response_s) * response_s
    return response_s


# damaged files

edits = st.lists(st.tuples(st.integers(0, 10**4), st.binary(max_size=3)), min_size=1, max_size=6)


def edited(raw: bytes, changes: list[tuple[int, bytes]]) -> bytes:
    """A file with some bytes replaced, each by none or by several."""
    for place, new in changes:
        raw = raw[: place % len(raw)] + new + raw[place % len(raw) + 1 :]
    return raw
