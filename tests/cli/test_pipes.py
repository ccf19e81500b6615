"""Every command that reads a file finds the same in a pipe, or says in one line why it does not read one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from builders import COMPILED, DATA, POCKET, TINY, Run, call_fluidb, files, lines
from fluidb.formats import InputError, keep_pipes, open_input, read_bytes
from fluidb.models.digits import INPUTS, MODEL
from fluidb.platforms.kinds import PLATFORMS
from fluidb.traffic import read_samples, read_trace

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing here depends on how kernels run; once is enough")

SERVE = ("serve-sim", "DESIGN", "--slo", "1ms")
POISSON = (*SERVE, "--count", 50)
READ = {
    "trace": (*SERVE, "--trace", "in/t.csv"),
    "trace with names": (*SERVE, "--trace", "in/quoted.csv"),
    "answers as npz": (*SERVE, "--trace", "t.csv", "--samples", "in/s.npz"),
    "answers as csv": (*SERVE, "--trace", "t.csv", "--samples", "in/s.csv"),
    "think times": (*POISSON, "--clients", 3, "--think", "trace:in/think.csv"),
    "networks": ("serve-sim", "in/networks.toml", "--trace", "named.csv"),
    "samples show": ("samples", "show", "in/s.npz"),
    "samples generate": ("samples", "generate", "glue", "--network", "in/tiny.toml", "--count", 9, "-o", "out.npz"),
    "rescale": ("trace", "rescale", "in/t.csv", "--rate", 9, "-o", "out.csv"),
    "merge": ("trace", "merge", "in/t.csv", "t.csv", "-o", "out.csv"),
    "add": ("trace", "add", "in/t.csv", "--slo", "1ms", "-o", "out.csv"),
    "import csv": ("trace", "import", "csv", "in/t.csv", "--columns", "arrival=arrival_s", "--unit", "s",
                   "-o", "out.csv"),
    "import azure": ("trace", "import", "azure-llm-2023", "in/azure-llm-2023.csv", "-o", "out.csv"),
    "thresholds": ("thresholds", "DESIGN", "--trace", "in/t.csv", "--samples", "s.npz", "--slo", "1ms",
                   "--thresholds", "0.5"),
    "capacity": ("capacity", "DESIGN", "--slo", "1ms", "--count", 200, "--clients", "1..4",
                 "--think", "trace:in/think.csv", "--require", "p99 <= 1 s"),
    "report": ("report", "DESIGN", "--trace", "in/duel.csv", "--slo", "1ms", "--policy", "serial", "-o", "out.html"),
    "compare": ("compare", "in/duel.toml", "--against", "in/compare.json"),
    "network": ("models", "show", "in/tiny.toml"),
    "check network": ("models", "check", "in/tiny.toml"),
    "import onnx": ("models", "import", "in/digits.onnx", "--dim", "batch=1", "-o", "out.toml"),
    "import scalesim": ("models", "import", "in/alexnet.csv", "-o", "out.toml"),
    "board": ("platforms", "show", "in/pocket.toml"),
    "check board": ("platforms", "check", "in/pocket.toml"),
    "import board": ("platforms", "import", "in/zc706.toml", "-o", "out.toml"),
    "fit": ("platforms", "fit", "in/sweep.csv"),
    "dse network": ("dse", "in/tiny.toml", POCKET, "--b-max", 2),
    "dse board": ("dse", TINY, "in/pocket.toml", "--b-max", 2),
    "plan": ("plan", "in/tiny.toml", "in/pocket.toml", "--rate", 50, "--slo", "1s", "--b-max", 1, "--policy", "serial",
             "--count", 100, "--require", "p99 <= 1 s"),
    "exits": ("exits", "bert_base", "in/stages.csv", "--samples", "in/log.npz", "--batch", 2, "-o", "out"),
    "calibrate": ("calibrate", "in/dpu-b4096-kv260.toml", "in/dpu.csv"),
    "quantise": ("quantise", "in/digits.onnx", "--inputs", "in/inputs.npz", "-o", "out"),
    "measure": ("measure", "in/digits.onnx", "--inputs", "in/inputs.npz", "--b-max", 1, "--repeats", 2, "-o", "out"),
}  # fmt: skip
MORE = {"compare": ["in/duel.csv"]}
"""Files that become pipes and that the command line does not name."""

VARIES = {"measure"}
"""Commands that never print the same twice."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, tiny_design: Path) -> Path:
    """A folder with a file of each kind, some of them also in ``in``."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "in").mkdir()
    random = np.random.default_rng(0)
    arrivals = np.cumsum(random.exponential(1e-3, 3000))
    rows = [f"{number},{arrival!r}" for number, arrival in enumerate(arrivals.tolist())]
    (folder / "t.csv").write_text("\n".join(["request_id,arrival_s", *rows]) + "\n")  # more than a pipe holds
    names = [f'{row},"{"people" if number % 2 else "goods"}"' for number, row in enumerate(rows)]
    (folder / "named.csv").write_text("\n".join(["request_id,arrival_s,network", *names]) + "\n")
    quoted = [f'"{number}",{row.partition(",")[2]}' for number, row in enumerate(rows)]
    (folder / "quoted.csv").write_text("\n".join(["request_id,arrival_s", *quoted]) + "\n")
    (folder / "think.csv").write_text("think_s\n" + "0.001\n0.002\n" * 2000)
    sure = np.sort(random.uniform(size=(2000, 2)), axis=1).round(6)
    np.savez(folder / "s.npz", confidence=sure, correct=np.ones((2000, 3)))
    samples = [f"{first},{second},1,1,1" for first, second in sure.tolist()]
    header = "confidence_1,confidence_2,correct_1,correct_2,correct_3"
    (folder / "s.csv").write_text("\n".join([header, *samples]) + "\n")
    networks = (DATA / "networks.toml").read_text().replace('"tiny"', json.dumps(str(tiny_design)))
    (folder / "networks.toml").write_text(networks)
    pairs = [(first, last, n) for first in range(13) for last in range(first, 13) for n in range(1, 10)]
    stages = [
        f"{first},{last},{n},{n * (last - first) or 0.1}" for first, last, n in pairs if 0 < first < 12 or last > first
    ]
    (folder / "stages.csv").write_text("\n".join(["from,to,batch,seconds", *stages]) + "\n")
    drawn = ["--count", 400, "-o", "log.npz"]
    call_fluidb("samples", "generate", "glue", "--network", "bert_base", *drawn, cwd=folder)
    with np.load(INPUTS) as archive:
        np.savez(folder / "inputs.npz", **{name: values[:8] for name, values in archive.items()})
    (folder / "dpu.csv").write_text("network,latency_ms\nvgg16,50\nresnet50,14\nresnet18,8\nmobilenet_v1,5\n")
    done = call_fluidb("compare", DATA / "duel.toml", "--json", cwd=folder)
    (folder / "compare.json").write_text(done.stdout)
    shipped = ["tiny.toml", "pocket.toml", "duel.toml", "duel.csv", "sweep.csv", "azure-llm-2023.csv"]
    others = ["scalesim/alexnet.csv", "fpgaconvnet/zc706.toml"]
    for file in [*map(DATA.joinpath, shipped + others), PLATFORMS.find("dpu-b4096-kv260"), MODEL]:
        shutil.copy(file, folder)
    for file in [*folder.glob("*.*")]:
        shutil.copy(file, folder / "in")
    return folder


@contextmanager
def pipe(content: bytes, path: Path) -> Iterator[None]:
    """A pipe at a path. It ends with the content: a reader that opens it twice finds nothing, and does not hang."""
    reader, writer = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), os.fdopen(writer, "wb") as stream:
            stream.write(content)

    path.unlink(missing_ok=True)
    path.symlink_to(f"/dev/fd/{reader}")
    thread = Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        os.close(reader)
        thread.join()
        path.unlink()


@pytest.mark.parametrize("name", READ)
def test_a_pipe_is_read_as_the_file_is(fluidb: Run, tmp_path: Path, tiny_design: Path, inputs: Path, name: str) -> None:
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    command = [tiny_design if word == "DESIGN" else word for word in READ[name]]
    named = [str(word).removeprefix("trace:") for word in command]
    pipes = [tmp_path / word for word in [*named, *MORE.get(name, [])] if word.startswith("in/")]
    plain = fluidb(*command)
    assert plain.returncode == 0, plain.stderr
    made = {file: content for file, content in files(tmp_path).items() if file.startswith("out")}
    for output in tmp_path.glob("out*"):
        shutil.rmtree(output) if output.is_dir() else output.unlink()
    with ExitStack() as open_pipes:
        for path in pipes:
            open_pipes.enter_context(pipe(path.read_bytes(), path))
        piped = fluidb(*command)
    if name in VARIES:
        assert (piped.returncode, piped.stderr) == (0, plain.stderr)
        return
    again = {file: content for file, content in files(tmp_path).items() if file.startswith("out")}
    assert [file for file, content in made.items() if again.get(file) != content] == []
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, plain.stdout, plain.stderr)


def test_the_library_reads_a_pipe_once(inputs: Path, tmp_path: Path) -> None:
    """Rows that only the slower reader takes come from the same copy; inside a block a pipe can be read again."""
    for file, read in (
        ("t.csv", read_trace),
        ("quoted.csv", read_trace),
        ("s.npz", read_samples),
        ("s.csv", read_samples),
    ):
        content = (inputs / file).read_bytes()
        with pipe(content, tmp_path / file):
            assert len(read(tmp_path / file)) == len(read(inputs / file))
        with pipe(content, tmp_path / file), keep_pipes():
            assert len(read(tmp_path / file)) == len(read(tmp_path / file)) == len(read(inputs / file))
    with (
        pipe(b"a" * 10**6, tmp_path / "big"),
        pytest.raises(InputError, match="big: expected at most 0 MiB, found more"),
    ):
        read_bytes(tmp_path / "big", 10**5)
    with pipe(b"content", tmp_path / "p"):
        with open_input(tmp_path / "p") as copy:
            assert (copy.read(), copy.seek(0), copy.read()) == (b"content", 0, b"content")
        with open_input(tmp_path / "p") as copy:
            assert copy.read() == b""  # what a pipe held is not kept where nobody asked for it


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (("samples", "show"), "expected a header, found an empty file"),
        (("models", "show"), "schema: expected this key, found none"),
        (("serve-sim", "DESIGN", "--slo", "1ms", "--trace"), "expected a header, found an empty file"),
        (("latency",), "expected the folder of a design, found a file"),
        (("explain",), "expected the folder of a design, found a file"),
        (
            ("plan", TINY, POCKET, "--rate", "9", "--slo", "1s", "--require", "p99 <= 1 s", "--runs"),
            "expected a regular file, which is read and then written, found a pipe",
        ),
        (
            ("serve-sim", "DESIGN", "--slo", "1ms", "--trace", "t.csv", "--policy"),
            "found a pipe; give the path",
        ),
    ],
)
def test_what_a_pipe_cannot_be_is_one_line(fluidb: Run, tmp_path: Path, tiny_design: Path, command, fault: str) -> None:
    given = [tiny_design if word == "DESIGN" else word for word in command]
    file = "p.py" if command[-1] == "--policy" else "p"
    with pipe(b"", tmp_path / file):
        (line, *_) = lines(fluidb(*given, "p.py:decide" if file == "p.py" else file))
    assert fault in line
