"""Fixtures: the command line through its real entry point, and one small design."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# a first call compiles, so no example has a deadline; CI draws the same examples every time
settings.register_profile("fluidb", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("fluidb")

DATA = Path(__file__).parent / "data"
TINY, POCKET = str(DATA / "tiny.toml"), str(DATA / "pocket.toml")
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
"""False when the kernels run as plain Python, a thousand times slower."""
if not COMPILED:
    from fluidb.dse import kernels

    kernels.BLOCK = 4  # a block is always whole, and most tests look at one design
FLUIDB = str(Path(sys.executable).with_name("fluidb"))

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def run_fluidb(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the installed command, as a user would."""
    return subprocess.run(
        [FLUIDB, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


def tool(name: str) -> str:
    """Path of a program that a test needs; without it the test is skipped, or fails where all must be there."""
    found = shutil.which(name)
    if found is None and os.environ.get("FLUIDB_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{name} is missing: apt-get install {name}")
    if found is None:
        pytest.skip(f"needs {name}: apt-get install {name}")
    return found


def start_fluidb(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """Start the installed command so that Ctrl-C reaches it: a test run in the background may have it ignored."""
    return subprocess.Popen(
        [FLUIDB, *map(str, arguments)], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  (no threads here)
    )  # fmt: skip


@pytest.fixture
def fluidb(tmp_path: Path) -> Run:
    """The installed command, run in an empty folder."""
    return lambda *arguments: run_fluidb(*arguments, cwd=tmp_path)


@pytest.fixture(scope="session")
def tiny_design(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the tiny network's design on the pocket board, with its latency table; not to be changed."""
    folder = tmp_path_factory.mktemp("designs") / "tiny"
    for arguments in (["dse", TINY, POCKET, "-o", folder, "--b-max", 4], ["latency", folder]):
        done = run_fluidb(*arguments)
        assert done.returncode == 0, done.stderr
    return folder
