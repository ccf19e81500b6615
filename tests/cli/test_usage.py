"""Words that no command takes: the fault says what was expected, in our words."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import ROOT, Run, lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dse"], "expected NETWORK, found none; its help: Networks, with commas between, or a SuperNet: "),
        (["dse", "resnet50"], "expected PLATFORM, found none; its help: Boards, with commas between; "),
        (["latency"], "expected DIR|NETWORK, found none; its help: A design's folder, or a network (see "),
        (["trace", "poisson", "--rate", 1, "--count", 3], "expected --output, found none; its help: The file to write"),
        (["dse", "resnet50", "zc706", "out"], 'expected no more arguments, found "out"; name an output with -o, and '),
        (["docs", "a", "b"], 'expected no more arguments, found "b"; put a value with spaces, < or > in quotes (see '),
        (["trace", "gamma", "--rate"], "--rate: expected a value, found none (see "),
        (["serve-sim", "d", "--policy", "a", "--policy", "b"], "--policy: expected it once, found it 2 times (see "),
        (["trace", "poisson", "--rate", 1, "--count", 3, "--count", 4, "-o", "t"], "--count: expected it once, found"),
        (["reproduce", "--count", 1], '--count: expected at least 2, found "1" (see '),
        (["dse", "n", "b", "--b-max", 9999], '--b-max: expected at most 256, found "9999" (see '),
        (["dse", "n", "b", "--b-max", "x"], '--b-max: expected a whole number, found "x" (see '),
        (["models", "--json=true"], "--json: expected no value, found one; leave it out (see "),
        (["--verson"], "unknown option --verson; did you mean --version? (see fluidb --help)"),
    ],
)
def test_a_usage_error_says_what_was_expected(fluidb: Run, words: list[object], said: str) -> None:
    (line,) = lines(fluidb(*words))
    assert line.startswith(f"fluidb: {said}")
    assert line.endswith(" --help)")


@pytest.mark.parametrize(
    ("command", "file", "old", "new", "longest"),
    [
        ("models check", "models/alexnet.toml", 'name = "alexnet"', 'name = "a b"', 240),
        ("models check", "models/alexnet.toml", '"features.0"', '"é"', 80),
        ("models subnets", "models/supernets/ofa_resnet50.toml", 'name = "', 'name = "/', 40),
        ("platforms check", "platforms/zc706.toml", '"zc706"', '""', 80),
        ("platforms check", "platforms/edgesp-a.toml", '"pi-1"', '"pi 1"', 80),
    ],
)
def test_what_a_name_may_contain_is_said_in_words(
    fluidb: Run, tmp_path: Path, command: str, file: str, old: str, new: str, longest: int
) -> None:
    text = (ROOT / file).read_text()
    assert old in text
    (tmp_path / "own.toml").write_text(text.replace(old, new, 1))
    first = lines(fluidb(*command.split(), "own.toml"))[0]
    assert f": expected 1 to {longest} letters of a to z or A to Z, digits and any of _ ." in first


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("resnet50", "resnet50 is a network: run `fluidb dse resnet50 BOARD -o DIR`, then `fluidb latency DIR`"),
        ("zc706", "zc706 is a platform: run `fluidb dse` or `fluidb latency` with a network and zc706"),
        ("nothing", "make one with `fluidb latency`, or of this machine with `fluidb measure`"),
    ],
)
def test_a_name_in_the_place_of_a_table_is_recognised(fluidb: Run, tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "t.csv").write_text("request_id,arrival_s\n0,0.0\n")
    (fault,) = lines(fluidb("serve-sim", name, "--trace", "t.csv", "--slo", "1s"))
    assert fault == f"fluidb: {name}: expected a folder with a latency table, found none; {said}"


def test_no_think_time_is_zero_with_or_without_its_unit(fluidb: Run, tiny_design: Path) -> None:
    asked = ["serve-sim", tiny_design, "--clients", 2, "--count", 20, "--slo", "2ms", "--json", "--think"]
    bare, united = fluidb(*asked, "0"), fluidb(*asked, "0ms")
    assert (united.returncode, united.stdout.replace('"0ms"', '"0"')) == (0, bare.stdout)
