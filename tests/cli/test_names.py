"""Names that ship: what the shell completes, and what is said of a name in the wrong place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders import TINY, Run, lines
from fluidb.cli.bring import models as models_command
from fluidb.cli.names import policy_names
from fluidb.cli.papers.docs import PAGES
from fluidb.cli.serve.trace_import import FORMATS
from fluidb.dse.npu.choices import Objective
from fluidb.models import NETWORKS
from fluidb.models.importers import IMPORTERS as NETWORK_IMPORTERS
from fluidb.models.supernets import SUPERNETS
from fluidb.papers import PAPERS
from fluidb.platforms import PLATFORMS, Accelerator, Board, Cluster, Device, kind_of
from fluidb.platforms.engine import Engine
from fluidb.serving.policies import POLICIES
from fluidb.studies.scenario import SCENARIOS
from fluidb.traffic.answers import PRESETS
from fluidb.traffic.importers import IMPORTERS


def platforms(*kinds: type) -> list[str]:
    return [name for name in PLATFORMS.names() if kind_of(name) in kinds]


OBJECTIVES = [str(item) for item in Objective if item is not Objective.TRAFFIC]  # traffic cannot be asked for

COMPLETED = {
    "dse": [*NETWORKS.names(), *SUPERNETS.names()],
    "dse resnet50": platforms(Board, Accelerator, Cluster, Engine),
    "dse resnet50 zc706 --objective": [*OBJECTIVES, "hit_ratio"],
    "pareto": NETWORKS.names(),
    "pareto resnet50": platforms(Board),
    "pareto resnet50 zc706 --objective": OBJECTIVES,
    "plan": NETWORKS.names(),
    "plan resnet50": PLATFORMS.names(),
    "latency": NETWORKS.names(),
    "latency resnet50": platforms(Device, Engine),
    "exits": NETWORKS.names(),
    "exits resnet50": platforms(Device, Engine),
    "models show": NETWORKS.names(),
    "models check": NETWORKS.names(),
    "models exits": NETWORKS.names(),
    "models subnets": SUPERNETS.names(),
    "models import --format": ["auto", *NETWORK_IMPORTERS],
    "platforms show": PLATFORMS.names(),
    "platforms check": PLATFORMS.names(),
    "platforms import --network": NETWORKS.names(),
    "samples generate": list(PRESETS),
    "samples generate --network": NETWORKS.names(),
    "serve-sim r50 --policy": list(POLICIES),
    "capacity r50 --policy": list(POLICIES),
    "trace import": list(IMPORTERS),
    "compare": SCENARIOS.names(),
    "docs": sorted(path.stem for path in PAGES.glob("*.md")),
    "reproduce": ["all", *(name for paper in PAPERS for name in (paper.name, *paper.items))],
}


def complete(fluidb: Run, monkeypatch: pytest.MonkeyPatch, typed: str) -> list[str]:
    """What the shell offers for the last word."""
    monkeypatch.setenv("_FLUIDB_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"fluidb {typed}")
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ") + 1))
    return fluidb().stdout.split()


@pytest.mark.parametrize("typed", COMPLETED)
def test_names_are_completed(fluidb: Run, monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    offered = complete(fluidb, monkeypatch, f"{typed} ")
    assert sorted(offered) == sorted(COMPLETED[typed])
    last = offered[-1]
    assert complete(fluidb, monkeypatch, f"{typed} {last[:4]}") == [n for n in offered if n.startswith(last[:4])]


def test_the_last_name_of_a_list_is_completed(fluidb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete(fluidb, monkeypatch, "dse resnet50,vgg") == ["resnet50,vgg16"]
    assert complete(fluidb, monkeypatch, "dse resnet50 zc706,zcu1") == ["zc706,zcu102", "zc706,zcu104"]


def test_a_word_is_completed_without_compiled_code() -> None:
    """A person waits for it at every key; numba alone takes longer than all the rest."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('numba' in sys.modules, file=sys.stderr))\n"
        "from fluidb.cli import main; main()"
    )
    words = {"_FLUIDB_COMPLETE": "complete_bash", "COMP_WORDS": "fluidb dse resnet50 zc7", "COMP_CWORD": "3"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=os.environ | words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("zc706\n", "False\n")


def test_names_said_in_help_are_all() -> None:
    assert policy_names() == list(POLICIES)
    assert list(FORMATS) == list(IMPORTERS)
    assert list(models_command.FORMATS) == ["auto", *NETWORK_IMPORTERS]


PLANNED = ["--rate", "9", "--slo", "1ms", "--require", "p99 <= 1s"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dse", "zc706", "resnet50"], "zc706 is a platform and resnet50 a network; swap them"),
        (["dse", "sushi-zcu104", "ofa_resnet50"], "sushi-zcu104 is a platform and ofa_resnet50 a network; swap them"),
        (["dse", "zc706,zcu102", "resnet50"], "zc706,zcu102 is a platform and resnet50 a network; swap them"),
        (["pareto", "zc706", "resnet50"], "zc706 is a platform and resnet50 a network; swap them"),
        (["plan", "zc706", "resnet50", *PLANNED], "zc706 is a platform and resnet50 a network; swap them"),
        (["latency", "rtx-2080-ti", "vgg16"], "rtx-2080-ti is a platform and vgg16 a network; swap them"),
        (
            ["exits", "v100-tensorrt", "resnet50", "--samples", "s.npz", "--batch", 8],
            "v100-tensorrt is a platform and resnet50 a network; swap them",
        ),
        (["dse", "zc706", TINY], "NETWORK: expected a network, found the platform zc706; see `fluidb models`"),
        (["dse", "vgg16", "resnet50"], "PLATFORM: expected a platform, found the network resnet50; see "),
        (["models", "show", "zc706"], "NETWORK: expected a network, found the platform zc706; see `fluidb models`"),
        (["models", "subnets", "zc706"], "SUPERNET: expected a SuperNet, found the platform zc706; see "),
        (["platforms", "show", "ofa_resnet50"], "PLATFORM: expected a platform, found the network ofa_resnet50; see "),
        (["platforms", "check", "vgg16"], "PLATFORM: expected a platform, found the network vgg16; see "),
    ],
)
def test_a_name_in_the_wrong_place(fluidb: Run, words: list[object], said: str) -> None:
    (line,) = lines(fluidb(*words))
    assert line.startswith(f"fluidb: {said}")


def test_a_file_of_such_a_name_is_the_users_own(fluidb: Run, tmp_path: Path) -> None:
    (tmp_path / "zc706").write_text((NETWORKS.folder / "alexnet.toml").read_text())
    assert fluidb("models", "check", "zc706").returncode == 0
    (tmp_path / "zcu102").mkdir()
    (line,) = lines(fluidb("latency", "zcu102"))
    assert line.startswith("fluidb: zcu102")  # a design's folder without a design
    (line,) = lines(fluidb("dse", "zcu102", "resnet50"))
    assert line.endswith("swap them")


@pytest.mark.parametrize("more", [[], ["-o", "out"]])
def test_latency_of_a_board_says_that_an_npu_is_searched_first(fluidb: Run, more: list[str]) -> None:
    (line,) = lines(fluidb("latency", "resnet50", "zc706", *more))
    how = "search an NPU for it with `fluidb dse NETWORK zc706 -o DIR`, then `fluidb latency DIR`"
    assert line == f"fluidb: zc706: expected a device, found a board; {how}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve-simm"], 'unknown command "serve-simm"; did you mean serve-sim, serve or serve-real? (see '),
        (["serve-rael"], 'unknown command "serve-rael"; did you mean serve-real'),
        (["quux"], 'unknown command "quux"; known: plan, dse, latency, '),
        (["trace", "poison"], 'unknown command "poison"; did you mean poisson? (see fluidb trace --help)'),
        (["models", "xy"], 'unknown command "xy"; known: '),
        (["dse", "resnet5", "zc706"], 'unknown network "resnet5"; did you mean resnet50, resnet50_caffe or '),
        (["dse", "resnet50", "zc70"], 'unknown platform "zc70"; did you mean zc706'),
        (
            ["docs", "polices"],
            'docs: expected a page, or the schema of an output, found "polices"; did you mean policies?',
        ),
        (["trace", "import", "burst", "x", "-o", "y"], 'unknown format "burst"; did you mean burstgpt?'),
        (["reproduce", "sush"], "expected all, a paper "),
        (["compare", "fig"], 'unknown scenario "fig"; did you mean fig'),
    ],
)
def test_a_mistyped_name_gets_the_nearest_ones(fluidb: Run, words: list[str], said: str) -> None:
    (line,) = lines(fluidb(*words))
    assert line.startswith(f"fluidb: {said}")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("fluidd", 'unknown policy "fluidd"; did you mean fluid?'),
        ("Serial", 'unknown policy "Serial"; did you mean serial?'),
        ("zzz", 'unknown policy "zzz"; known: serial, '),
    ],
)
def test_a_mistyped_policy_gets_the_nearest_ones(fluidb: Run, tiny_design: Path, policy: str, said: str) -> None:
    made = fluidb("trace", "poisson", "--rate", 1, "--count", 9, "-o", "t.csv")
    assert made.returncode == 0
    (line,) = lines(fluidb("serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1ms", "--policy", policy))
    assert line.startswith(f"fluidb: --policy: {said}")
