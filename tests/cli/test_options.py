"""Options that several commands share."""

import pytest
from fluidb.cli.options import tried_thresholds
from fluidb.formats import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("0.7", (0.7,)),
        ("0.5,0.9, 0.99", (0.5, 0.9, 0.99)),
        ("0.5..0.95", (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)),
        ("0..3", (0.0, *(round(step / 3, 12) for step in range(1, 9)), 3.0)),
    ],
)
def test_thresholds_to_try_are_listed_or_a_range_of_ten(text: str | None, expected: tuple[float, ...] | None):
    assert tried_thresholds(text) == expected


@pytest.mark.parametrize("text", ["", "a", "0.5,", "0.9..0.5", "0.5..", "..0.9", "0.1..0.5..0.9", "0.5..nan", "0..inf"])
def test_other_thresholds_to_try_are_refused_in_one_line(text: str):
    with pytest.raises(InputError, match="^thresholds: expected .*found "):
        tried_thresholds(text)
