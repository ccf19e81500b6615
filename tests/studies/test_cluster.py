"""`compare` and `dse` on a real Dask cluster: the same bytes as in one process, whoever dies on the way."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from builders import POCKET, ROOT, TINY, Run, Start, edited_scenario, files, lines, run_fluidb, wait_for
from distributed import Client, LocalCluster
from fluidb import __version__
from fluidb.formats import InputError
from fluidb.formats.sources import made_with
from fluidb.studies import compare, load_scenario
from fluidb.studies import workers as tasks

DASK = str(Path(sys.executable).with_name("dask"))
OWN_POLICY = """
from fluidb.serving.policies import go_on, launch

def mine(view, data):
    return launch(1, 99) if view.depth == 0 else go_on(99)
"""

GATED = """
import time
from functools import wraps
from pathlib import Path
from fluidb.studies import workers

folder = Path(FOLDER)
perform = getattr(workers._perform, "__wrapped__", workers._perform)  # Dask loads this several times

@wraps(perform)
def gated(*arguments):
    while not (folder / "open").exists():
        try:
            next(folder.glob("permit-*")).unlink()
            break
        except (StopIteration, FileNotFoundError):  # there is none, or the other worker was quicker
            time.sleep(0.01)
    return perform(*arguments)

workers._perform = gated
"""
"""Every worker loads this: behind a closed gate a task needs a permit, so that no speed decides how many have run."""

NO_DASK = """
import sys
from fluidb.cli import main
try:
    main()
finally:
    print([name for name in ("dask", "distributed") if name in sys.modules], file=sys.stderr)
"""


class Cluster(NamedTuple):
    """A scheduler, its workers by address, somebody who watches them, and the folder of the gate before their tasks."""

    address: str
    workers: dict[str, subprocess.Popen[bytes]]
    watch: Client
    gate: Path

    def permit(self, count: int) -> None:
        """Let tasks pass the closed gate."""
        for number in range(count):
            (self.gate / f"permit-{number}").touch()

    def stands(self) -> bool:
        """Whether all permits are used and every worker has a task, which then waits at the gate."""
        return not [*self.gate.glob("permit-*")] and all(self.watch.processing().values())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    (folder / "gate.py").write_text(GATED.replace("FOLDER", repr(str(folder))))
    (folder / "open").touch()
    worker = ["--nthreads", "1", "--no-nanny", "--local-directory", str(folder), "--preload", str(folder / "gate.py")]
    commands = {"scheduler": ["--port", "0"], "a": worker, "b": worker}
    started = {}
    try:
        for name, arguments in commands.items():
            kind = ["scheduler"] if name == "scheduler" else ["worker", "--name", name]
            common = [
                "--host",
                "127.0.0.1",
                "--dashboard-address",
                "127.0.0.1:0",
                "--no-dashboard",
                "--scheduler-file",
                str(file),
            ]
            with (folder / f"{name}.log").open("wb") as log:
                started[name] = subprocess.Popen([DASK, *kind, *arguments, *common], stdout=log, stderr=log)
            wait_for(lambda: file.exists() and file.read_text().endswith("}"))
        address = json.loads(file.read_text())["address"]
        with Client(address, set_as_default=False) as watch:
            watch.wait_for_workers(2, timeout=180)
            known = watch.scheduler_info()["workers"].items()
            yield Cluster(address, {where: started[worker["name"]] for where, worker in known}, watch, folder)
    finally:
        for process in started.values():
            process.kill()
            process.wait()


@pytest.fixture
def gated(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with its gate closed."""
    (cluster.gate / "open").unlink()
    yield cluster
    (cluster.gate / "open").touch()


def kept(folder: Path) -> dict[str, int]:
    """When each run was kept."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("d/runs/[!.]*.json")}


def at_work(start: Start, tmp_path: Path, cluster: Cluster) -> subprocess.Popen[str]:
    """A comparison in its midst: a run more is kept than before, and every worker has a task that waits."""
    before = kept(tmp_path).keys()
    command = ["compare", "mine.toml", "-o", "d", "--json", "--scheduler", cluster.address]
    running = start(*command)
    cluster.permit(10)  # searches, what the client before has left, and a few of the 45 runs
    wait_for(lambda: kept(tmp_path).keys() - before and cluster.stands())
    assert running.poll() is None
    return running


def test_compare_ends_with_the_same_bytes_whoever_dies(start: Start, tmp_path: Path, gated: Cluster) -> None:
    """The client is killed in the middle, then a worker at a task; a policy of the user's own goes along."""
    path = edited_scenario(tmp_path, ('"serial"', '"mine.py:mine"'))
    (tmp_path / "mine.py").write_text(OWN_POLICY)
    expected, _ = compare(load_scenario(str(path)), tmp_path / "alone")
    running = at_work(start, tmp_path, gated)
    running.kill()
    running.communicate()
    before = kept(tmp_path)
    running = at_work(start, tmp_path, gated)
    where, process = gated.workers.popitem()
    assert gated.watch.processing()[where]
    process.kill()
    (gated.gate / "open").touch()
    out, err = running.communicate(timeout=180)
    assert (running.returncode, out, err) == (0, expected.text(), "")
    assert before.items() <= kept(tmp_path).items()
    found = {name: content for name, content in files(tmp_path / "d").items() if not name.endswith(".part")}
    assert found == files(tmp_path / "alone")


def test_dse_of_many_is_the_same_on_a_cluster(fluidb: Run, installed: Run, tmp_path: Path, cluster: Cluster) -> None:
    """Two networks on two boards, one of which is too small for any design."""
    (tmp_path / "other.toml").write_text(Path(TINY).read_text().replace('name = "tiny"', 'name = "other"'))
    (tmp_path / "crumb.toml").write_text(
        Path(POCKET).read_text().replace('"pocket"', '"crumb"').replace("on_chip_mbit = 0.02", "on_chip_mbit = 1e-5")
    )
    command = ["dse", f"{TINY},other.toml", f"{POCKET},crumb.toml", "--b-max", 2]
    alone, away = fluidb(*command, "-o", "a"), installed(*command, "-o", "b", "--scheduler", cluster.address)
    assert (alone.returncode, alone.stdout, alone.stderr) == (away.returncode, away.stdout, away.stderr)
    assert away.returncode == 2
    assert [line.split(":")[1] for line in away.stderr.splitlines()] == [" tiny on crumb", " other on crumb"]
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert len(files(tmp_path / "b")) == 2 * 3


def test_a_fault_of_a_task_is_the_line_that_it_is_without_a_cluster(tmp_path: Path, cluster: Cluster) -> None:
    """A policy that admits more than wait: found by a worker, said as ever; no run after it is waited for."""
    path = edited_scenario(tmp_path, ('"fluid:call=1us"', '"mine.py:mine"'))
    (tmp_path / "mine.py").write_text(OWN_POLICY.replace("launch(1, 99)", "launch(view.waiting + 1, 99)"))
    with pytest.raises(InputError) as fault:
        compare(load_scenario(str(path)))
    assert lines(run_fluidb("compare", path, "--scheduler", cluster.address)) == [f"fluidb: {fault.value}"]


def test_other_sources_are_refused(tmp_path: Path, cluster: Cluster) -> None:
    """Seen from the workers, a client of another version: the comparison is the same."""
    shutil.copytree(ROOT, tmp_path / "fluidb", ignore=shutil.ignore_patterns(".*", "tests", "docs", "build", "results"))
    with (tmp_path / "fluidb" / "serving" / "replay.py").open("a") as source:
        source.write("# edited\n")
    done = subprocess.run(
        [sys.executable, "-m", "fluidb", "dse", f"{TINY},alexnet", POCKET, "--scheduler", cluster.address],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    (line,) = lines(done)
    versions = rf"fluidb {re.escape(__version__)} \(sources [0-9a-f]{{8}}\) with numpy \S+"
    assert re.fullmatch(f"fluidb: worker tcp://\\S+: expected {versions}, found {versions}; install .*", line)


def test_without_a_scheduler_nothing_of_dask_is_imported(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NO_DASK, "dse", f"{TINY},{TINY}", POCKET]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "address",
    ["", "here", "127.0.0.1:8786", "http://127.0.0.1:8786", "tcp://", "tcp://a", "tcp://a:1/b"],
)
def test_an_address_is_one(address: str) -> None:
    with pytest.raises(InputError, match=f'scheduler: expected tcp://host:port or local, found "{address}"; '):
        tasks.workers(address).__enter__()


def test_without_dask_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"^scheduler: a Dask cluster needs distributed, .*'\.\[cluster\]'"):
        tasks.workers("local").__enter__()


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CONNECT_S", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=f"^{address}: expected a Dask scheduler, none answered within 0.2 s"):
            tasks.workers(address).__enter__()


def test_a_cluster_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "WORKER_S", 0.2)
    with (
        LocalCluster(n_workers=0, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0") as empty,
        pytest.raises(InputError, match=r": expected workers, none came within 0\.2 s; start some with `dask worker"),
        tasks.workers(empty.scheduler_address),
    ):
        pass


def test_of_several_faults_the_first_in_order_is_raised() -> None:
    """Whichever came first; and nothing behind it is waited for."""
    ends: Iterator[tuple[int, str | InputError]]
    ends = iter([(2, InputError("third")), (0, "x"), (4, "y"), (1, InputError("second")), (3, "z")])
    found: list[tuple[int, str]] = []
    with pytest.raises(InputError, match="^second$"):
        found.extend(tasks.in_order(ends))
    assert found == [(0, "x"), (4, "y")]
    assert next(ends) == (3, "z")


def test_a_worker_that_came_later_with_other_sources_is_refused() -> None:
    other = {**made_with(), "sources_sha256": "0" * 64}
    with pytest.raises(InputError, match=r"joined later: expected fluidb 0.3.0 \(sources 00000000\)"):
        tasks._perform((str, None), None, other)


def designs(folder: Path) -> list[Path]:
    return list(folder.glob("d/[!.]*"))


def test_ctrl_c_leaves_a_cluster_at_once_and_keeps_what_is_finished(
    start: Start, tmp_path: Path, gated: Cluster
) -> None:
    """One of four searches has a permit; the worker is left at the next."""
    (tmp_path / "other.toml").write_text(Path(TINY).read_text().replace('name = "tiny"', 'name = "other"'))
    (tmp_path / "spare.toml").write_text(Path(POCKET).read_text().replace('"pocket"', '"spare"'))
    command = ["dse", f"{TINY},other.toml", f"{POCKET},spare.toml", "-o", "d", "--b-max", 2]
    running = start(*command, "--scheduler", gated.address)
    gated.permit(1)
    wait_for(lambda: designs(tmp_path))  # whichever comes first: a cluster has an order of its own
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=180)
    assert (running.returncode, out) == (130, "")
    assert err == "fluidb: interrupted; finished designs are kept in d, and the same command continues from them\n"
    assert len(designs(tmp_path)) == 1
