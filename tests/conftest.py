"""Fixtures: the command line, in this process and through its real entry point, and one small design."""

from __future__ import annotations

import gc
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

# The threads of two workers would wait for one another by spinning: `quantise digits` takes seven times the CPU then.
# NumPy reads this when it is imported, which is below; commands that tests start inherit it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Python looks for circles of objects after each 700 new ones: with all that tests import, a seventh of their time
gc.set_threshold(20_000, 10, 10)

pytest.register_assert_rewrite("builders")

from builders import POCKET, TINY, Run, Start, call_fluidb, run_fluidb, start_fluidb  # noqa: E402  (after the line above)
from hypothesis import HealthCheck, settings  # noqa: E402

# A first call compiles and a machine may be busy, so nothing here has a deadline.  CI draws the same examples every
# time, and half as many where a test states no number; elsewhere each run draws new ones.
settings.register_profile(
    "fluidb", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ,
    max_examples=50 if "CI" in os.environ else 100,
)  # fmt: skip
settings.load_profile("fluidb")

LONGEST = {
    "test_docs.py",
    "test_engine.py",
    "test_plan.py",
    "test_program.py",
    "test_reproduce.py",
    "test_synthesis.py",
}
"""Files of a minute and more."""


@pytest.fixture
def fluidb(tmp_path: Path) -> Run:
    """The command line, run in an empty folder and in this process."""
    return lambda *arguments: call_fluidb(*arguments, cwd=tmp_path)


@pytest.fixture
def installed(tmp_path: Path) -> Run:
    """The installed command, run in an empty folder as a user would."""
    return lambda *arguments: run_fluidb(*arguments, cwd=tmp_path)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the installed command in an empty folder; whatever the test does, it ends with the test."""
    with ExitStack() as running:
        yield lambda *arguments, **more: running.enter_context(start_fluidb(*arguments, cwd=tmp_path, **more))


@pytest.fixture(scope="session")
def tiny_design(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the tiny network's design on the pocket board, with its latency table; not to be changed."""
    folder = tmp_path_factory.mktemp("designs") / "tiny"
    for arguments in (["dse", TINY, POCKET, "-o", folder, "--b-max", 4], ["latency", folder]):
        done = call_fluidb(*arguments, cwd=folder.parent)
        assert done.returncode == 0, done.stderr
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, as a worker runs a file whole: at the end no other waits for one.

    What has been imported by now stays: it is left out when Python looks for circles of objects.
    """
    items.sort(key=lambda item: item.path.name not in LONGEST)
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why tests were skipped, or what to install for them: a line for each."""
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", [])]
    installs = [re.search(r"(pip|apt-get) install (--group )?\S+", reason) for reason in reasons]
    said = Counter(
        found[0] if found else reason.removeprefix("Skipped: ") for found, reason in zip(installs, reasons, strict=True)
    )
    for reason, count in said.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")
