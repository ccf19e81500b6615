"""Answers that are drawn for the exits of a network, a design, a table or a plan: they are served there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from builders import TINY, Run, lines, table_of
from fluidb.formats import InputError, write_table
from fluidb.models.candidates import find_candidates
from fluidb.models.loader import read_network_file
from fluidb.studies.answers import draw_log, find_exits
from fluidb.traffic import read_samples
from fluidb.traffic.answers import PRESETS
from fluidb.traffic.measures import CONFIDENCE


def test_an_exit_at_a_candidate_answers_as_the_candidate() -> None:
    """The same samples, but fewer answers are seen; the exits of ResNet-50 are at three of its 15 candidates."""
    file, path = read_network_file("resnet50")
    layers = [candidate.after for candidate in find_candidates(file, path)]
    every, own = find_exits("resnet50"), find_exits("resnet50", own=True)
    assert list(every.used) == list(range(1, 16))
    assert list(own.used) == [layers.index(exit_.after) + 1 for exit_ in file.exits] == [4, 8, 12]
    assert every.classes == own.classes == 1000
    for values in (1, 3):
        whole, some = (
            draw_log(exits, PRESETS["imagenet"], 50, 3, measure=CONFIDENCE, values=values) for exits in (every, own)
        )
        columns = [3, 7, 11, 15]
        np.testing.assert_array_equal(some.confidences, whole.confidences[:, columns])
        np.testing.assert_array_equal(some.correct, whole.correct[:, columns])
        assert some.confidences.flags.c_contiguous  # or a file of the same samples would have other bytes


def test_samples_of_a_folder_are_served_by_it(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    """A design, a table of a network that nobody knows, and a plan; each was a dead end."""
    (tmp_path / "table").mkdir()
    write_table(table_of([[1e-4] * 2, [1e-4] * 2]), tmp_path / "table" / "latency.json")
    fluidb("samples", "generate", "glue", "--network", "bert_base", "--count", 2000, "-o", "log.npz")
    asked = ["--samples", "log.npz", "--batch", 2, "--guard", "none", "-o", "plan"]
    assert fluidb("exits", "bert_base", "v100-tensorrt-bert", *asked).returncode == 0
    fluidb("trace", "poisson", "--rate", 900, "--count", 30, "-o", "t.csv")
    plan = json.loads((tmp_path / "plan" / "exits.json").read_text())
    expected = {
        str(tiny_design): ("tiny", 2, [1, 2], 10),
        "table": ("test", 1, [1], None),
        "plan": ("bert_base", 11, [exit_["place"] for exit_ in plan["exits"]], 2),
    }
    for folder, (network, places, used, classes) in expected.items():
        drawn = fluidb("samples", "generate", "glue", "--network", folder, "--count", 200, "-o", "s.npz", "--force")
        assert (drawn.returncode, drawn.stderr) == (0, ""), drawn.stderr
        assert f"of {network}" in drawn.stdout
        found = find_exits(str(tmp_path / folder))
        assert (found.network, found.places, list(found.used), found.classes) == (network, places, used, classes)
        assert read_samples(tmp_path / "s.npz").exits == len(used) + 1
        served = fluidb("serve-sim", folder, "--trace", "t.csv", "--samples", "s.npz", "--slo", "1s")
        assert (served.returncode, served.stderr) == (0, ""), served.stderr
        assert "accuracy" in served.stdout


def test_exits_that_are_not_there_are_one_line(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    with pytest.raises(
        InputError, match="network: expected a network with exits or candidates, found none in resnet18"
    ):
        find_exits("resnet18")
    with pytest.raises(InputError, match="network: expected a network with exits, found none in resnet101"):
        find_exits("resnet101", own=True)
    (tmp_path / "empty").mkdir()
    (line,) = lines(fluidb("samples", "generate", "glue", "--network", "empty", "-o", "s.npz"))
    assert "empty/latency.json: not there" in line
    fluidb("samples", "generate", "glue", "--network", "resnet50", "--count", 20, "-o", "s.npz")
    fluidb("trace", "poisson", "--rate", 900, "--count", 30, "-o", "t.csv")
    asked = ["serve-sim", tiny_design, "--trace", "t.csv", "--samples", "s.npz", "--slo", "1s"]
    assert any("`fluidb samples generate --network DIR` draws" in line for line in lines(fluidb(*asked)))
    assert fluidb("samples", "generate", "glue", "--network", TINY, "--count", 20, "-o", "t.npz").returncode == 0
