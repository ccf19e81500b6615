"""`dse` of several networks and boards: every pair as if alone, and what is kept is kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from builders import POCKET, TINY, Run, files, lines
from fluidb.cli.design.searches.many import names_of_inputs
from fluidb.dse import SearchOptions, write_latency
from fluidb.formats import InputError
from fluidb.models import load_network
from fluidb.platforms import load_platform
from fluidb.studies import designs as many
from fluidb.studies.designs import design_each

OPTIONS = SearchOptions(b_max=2)
TINY_ON_POCKET = (load_network(TINY), load_platform(POCKET))


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """The tiny network, and the same under another name, on the pocket board."""
    (tmp_path / "other.toml").write_text(Path(TINY).read_text().replace('name = "tiny"', 'name = "other"'))
    return ["dse", f"{TINY},other.toml", POCKET, "--b-max", "2"]


def test_every_pair_is_as_if_it_were_alone(fluidb: Run, tmp_path: Path, pair: list[str]) -> None:
    content = json.loads(fluidb(*pair, "-o", "d", "--json").stdout)
    assert content["schema"] == "fluidb.dse-many-output/2"
    for name, item in zip((TINY, "other.toml"), content["designs"], strict=True):
        alone = json.loads(fluidb("dse", name, POCKET, "--b-max", 2, "-o", "alone", "--json", "--force").stdout)
        folder = item.pop("output")
        assert folder == f"d/{item['network']}-pocket"
        assert item.pop("reused") is False
        assert item == {key: value for key, value in alone.items() if key not in ("schema", "output")}
        found = files(tmp_path / folder)
        assert found.pop("search.json")
        assert found == files(tmp_path / "alone")


def test_what_is_kept_is_not_searched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But only if inputs, options, ranking and sources are the same, and all of it is whole."""
    done: list[tuple[int, int]] = []

    def again(options: SearchOptions = OPTIONS, *, top: int = 5, replace: bool = False) -> bool:
        done.clear()
        (outcome,) = design_each(
            [(*TINY_ON_POCKET, options)], tmp_path / "d", top, replace=replace,
            progress=lambda *counts: done.append(counts),
        )  # fmt: skip
        assert not isinstance(outcome, InputError)
        (found,) = outcome
        assert len(found.design.ranking) == top
        return found.reused

    assert not again()
    before = files(tmp_path / "d")
    assert again()
    assert done[-1] == (1, 1)
    assert again(replace=True)
    assert files(tmp_path / "d") == before
    changes: list[dict[str, Any]] = [{"options": SearchOptions(b_max=3)}, {"top": 4}]
    for change in changes:
        with pytest.raises(InputError, match=r"tiny-pocket: exists already, and is no design that .* add --force"):
            again(**change)
        assert files(tmp_path / "d") == before
        assert not again(**change, replace=True)
        assert not again(replace=True)
        assert files(tmp_path / "d") == before
    with monkeypatch.context() as edited:
        edited.setattr(many, "made_with", lambda: {"fluidb": "0.0.9"})
        assert not again(replace=True)
    for name in before:
        assert not again(replace=True)
        (tmp_path / "d" / name).write_bytes(before[name][:-40])
        with pytest.raises(InputError, match="exists already"):
            again()
    assert not again(replace=True)
    assert files(tmp_path / "d") == before


def test_networks_together_have_one_design(fluidb: Run, tmp_path: Path, pair: list[str]) -> None:
    """The design of either where they are equal; they are kept together or not at all."""

    def designs(*shares: str) -> list[dict[str, Any]]:
        options = [*pair, "--together", *shares, "--max-lut", "100%"]
        content = json.loads(fluidb(*options, "-o", "d", "--force", "--json").stdout)
        assert content["schema"] == "fluidb.dse-many-output/2"
        return list(content["designs"])

    alone = json.loads(fluidb("dse", TINY, POCKET, "--b-max", 2, "--max-lut", "100%", "--json").stdout)
    both = designs()
    for item, network in zip(both, ("tiny", "other"), strict=True):
        assert (item["network"], item["output"], item["reused"]) == (network, f"d/{network}-pocket", False)
        assert {name: item[name] for name in ("T_R", "T_P", "T_C", "objective", "gop_s")} == {
            name: alone[name] for name in ("T_R", "T_P", "T_C", "objective", "gop_s")
        }
        assert item["together"]["networks"] == [{"name": name, "share": 0.5} for name in ("tiny", "other")]
        assert fluidb("latency", item["output"]).returncode == 0
    assert "GOP/s weighted mean over b = 1..2, of the mean request for tiny, other\n" in fluidb(
        "compare", *(item["output"] for item in both)
    ).stdout.replace("  ", "")
    assert [design["reused"] for design in designs("--shares", "2,2")] == [True, True]
    assert [design["reused"] for design in designs("--shares", "2,1")] == [False, False]
    shutil.rmtree(tmp_path / "d" / "other-pocket")
    assert [design["reused"] for design in designs("--shares", "2,1")] == [False, False]
    fluidb(*pair, "--max-lut", "100%", "-o", "d", "--force")
    assert [design["reused"] for design in designs("--shares", "2,1")] == [False, False]


def test_one_network_together_is_as_alone(fluidb: Run, tmp_path: Path) -> None:
    for folder, options in {"alone": [], "together": ["--together", "--shares", "3"]}.items():
        fluidb("dse", TINY, POCKET, *options, "-o", folder)
    assert files(tmp_path / "alone") == files(tmp_path / "together")


def test_what_goes_with_one_network_is_refused_together(fluidb: Run, tmp_path: Path, pair: list[str]) -> None:
    for options, fault in {
        ("--shares", "1,2"): "--shares: expected --together beside it",
        ("--together", "--shares", "1"): "--shares: expected as many numbers >= 0 as networks, 2, and one above 0",
        ("--together", "--persistent", "search"): "--persistent: weights that stay are for one network",
        ("--together", "--weights", "runs.json", "--shares", "1,1"): "--shares: expected none beside the runs of a",
    }.items():
        (line,) = lines(fluidb(*pair, *options, "-o", "d"))
        assert line.startswith(f"fluidb: {fault}")
    assert not (tmp_path / "d").exists()
    (line,) = lines(fluidb("plan", *pair[1:3], "--rate", 1, "--slo", "1s", "--require", "violation_rate <= 1 %"))
    assert (
        f'expected one, found "{TINY},other.toml"; state several in a file of networks, each with its requests' in line
    )


def test_only_folders_of_designs_are_written_to(tmp_path: Path) -> None:
    def refused(folder: str, *, replace: bool = False) -> str:
        with pytest.raises(InputError) as fault:
            design_each([(*TINY_ON_POCKET, OPTIONS)], tmp_path / folder, replace=replace)
        return str(fault.value)

    (tmp_path / "d" / "tiny-pocket").mkdir(parents=True)
    (tmp_path / "d" / "tiny-pocket" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("")
    assert "d/tiny-pocket: exists already" in refused("d")
    assert "--force replaces a design only" in refused("d", replace=True)
    assert "expected a folder" in refused("file/where")
    assert "file: output exists already" in refused("file")
    assert list(files(tmp_path / "d")) == ["tiny-pocket/thesis.txt"]
    design_each([(*TINY_ON_POCKET, OPTIONS)], tmp_path / "e")
    assert "tiny-pocket: holds a design itself" in refused("e/tiny-pocket")


def test_a_folder_of_many_is_read_by_the_other_commands(tmp_path: Path) -> None:
    design_each([(*TINY_ON_POCKET, OPTIONS)], tmp_path / "d")
    write_latency(tmp_path / "d" / "tiny-pocket")
    (outcome,) = design_each([(*TINY_ON_POCKET, OPTIONS)], tmp_path / "d")
    assert not isinstance(outcome, InputError)
    assert [found.reused for found in outcome] == [True]
    assert (tmp_path / "d" / "tiny-pocket" / "latency.json").exists()


def test_what_is_typed_wrong_is_said_before_any_search(fluidb: Run, tmp_path: Path, pair: list[str]) -> None:
    shown = lines(fluidb("dse", f"{TINY},resnet5,none.toml", f"{POCKET},zc7", "-o", "d"))
    assert [line.split(";")[0] for line in shown] == [
        'fluidb: unknown platform "zc7"',
        'fluidb: unknown network "resnet5"',
        "fluidb: none.toml: expected the TOML file of a network, found no such file",
    ]
    with pytest.raises(InputError, match=r"^NETWORK: expected names with commas between"):
        names_of_inputs(f"{TINY},", "NETWORK")
    with pytest.raises(InputError, match="found tiny-pocket twice"):
        design_each([(*TINY_ON_POCKET, OPTIONS)] * 2)
    assert "one of each" in lines(fluidb("dse", TINY, POCKET, "--scheduler", "local"))[0]
    assert "found tiny-pocket twice" in lines(fluidb("dse", f"{TINY},{TINY}", POCKET))[0]
    assert "found tiny, tiny" in lines(fluidb("dse", f"{TINY},{TINY}", POCKET, "--together"))[0]
    assert not (tmp_path / "d").exists()


def test_a_file_whose_name_has_a_comma_is_one_network(tmp_path: Path) -> None:
    shutil.copy(TINY, tmp_path / "a,b.toml")
    assert names_of_inputs(str(tmp_path / "a,b.toml"), "NETWORK") == [str(tmp_path / "a,b.toml")]
