"""Policies by name: what a user may write, and every fault of it."""

from __future__ import annotations

import pytest
from builders import COMPILED
from fluidb.formats import InputError
from fluidb.serving import find_policy


def test_unknown_policy_lists_the_known_ones():
    with pytest.raises(InputError, match=r'unknown policy "fluld"; .*fluid'):
        find_policy("fluld")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("no.py:mine", "no.py: expected a Python file"),
        ("bad.py:mine", "bad.py: could not be loaded: ZeroDivisionError"),
        ("leaves.py:mine", "leaves.py: could not be loaded: SystemExit: 3"),
        ("fluid:b_max=2,b_max=3", "every parameter once, found b_max twice"),
        ("fluid-slack:patience=٣", "expected a number"),
        ("fluid:b_max=٣", 'b_max: expected a whole number >= 1, found "٣"'),
        ("fluid:b_max=" + "9" * 5000, r"b_max: expected a whole number >= 1, found \"999.* \[\.\.\.\] 999"),
        ("good.py:other", 'good.py: expected a Policy or a decide function named "other".*it has mine'),
        ("fluid:exit=aware", 'fluid has no parameter "exit"; did you mean exits?'),
        ("fluid:exits=maybe", 'exits: expected aware or unaware, found "maybe"'),
        ("fluid:exits=M", 'exits: expected aware or unaware, found "M"'),
        ("adaptb:timeout=5", "timeout: expected a unit"),
        ("fluid:exits", 'expected key=value, found "exits"'),
        ("fluid:b_max=0", 'b_max: expected a whole number >= 1, found "0"'),
        ("lazy:call=-1us", "call: expected a number >= 0"),
    ],
)
def test_a_policy_that_cannot_be_read_is_one_clear_line(tmp_path, monkeypatch, spec, expected):
    (tmp_path / "bad.py").write_text("1 / 0")
    (tmp_path / "leaves.py").write_text("import sys; sys.exit(3)")
    (tmp_path / "good.py").write_text(
        "from fluidb.serving.policies import Policy\nmine = Policy(lambda view, data: None)\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=expected) as caught:
        find_policy(spec)
    assert len(caught.value.faults) == 1
    assert len(str(caught.value)) < 700
    assert find_policy("good.py:mine").spec == "good.py:mine"


@pytest.mark.skipif(not COMPILED, reason="plain Python finds the fault when the policy is called")
def test_a_policy_that_numba_cannot_type_is_told_by_cause_and_line(tmp_path, monkeypatch):
    (tmp_path / "untyped.py").write_text(
        "from fluidb.serving.policies import compile_policy, launch\n\n\n@compile_policy\n"
        "def decide(view, data):\n    return launch(view.nofield, 1)\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        find_policy("untyped.py:decide")
    (line,) = caught.value.faults
    assert line.startswith(
        "policy: untyped.py: could not be loaded: TypingError: Unknown attribute 'nofield' of type reference(LaneView"
    )
    assert line.endswith('(File "untyped.py", line 6)')
    assert line.isprintable()
