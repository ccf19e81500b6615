"""Words that no command takes: the fault says what was expected, in our words."""

from __future__ import annotations

import pytest
from builders import Run, lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dse"], "expected NETWORK, found none; its help: Networks, with commas between, or a SuperNet: "),
        (["dse", "resnet50"], "expected PLATFORM, found none; its help: Boards, with commas between; "),
        (["latency"], "expected DIR|NETWORK, found none; its help: A design's folder, or a network (see "),
        (["serve-sim", "d"], "expected --trace, found none; its help: The requests "),
        (["trace", "poisson", "--rate", 1, "--count", 3], "expected --output, found none; its help: The file to write"),
        (["dse", "resnet50", "zc706", "out"], 'expected no more arguments, found "out"; name an output with -o (see '),
        (["docs", "a", "b"], 'expected no more arguments, found "b" (see fluidb docs --help)'),
        (["reproduce", "--count", 1], "Invalid value for '--count': expected at least 2, found \"1\" (see "),
        (["dse", "n", "b", "--b-max", 9999], "Invalid value for '--b-max': expected at most 256, found \"9999\" (see "),
        (["dse", "n", "b", "--b-max", "x"], "Invalid value for '--b-max': expected a whole number, found \"x\" (see "),
        (["--verson"], "No such option: --verson; did you mean --version? (see fluidb --help)"),
    ],
)
def test_a_usage_error_says_what_was_expected(fluidb: Run, words: list[object], said: str) -> None:
    (line,) = lines(fluidb(*words))
    assert line.startswith(f"fluidb: {said}")
    assert line.endswith(" --help)")
