"""Numbers of things in text."""

import pytest
from fluidb.formats.display import counted


@pytest.mark.parametrize(("count", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (12_345, "12,345 rows")])
def test_one_thing_has_no_plural(count, text):
    assert counted(count, "row") == text
