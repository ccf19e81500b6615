"""What is computed from a record is computed once for each set of arguments, and kept no longer than the record."""

import gc
import weakref

from fluidb.formats import Strict, memoized


class Number(Strict):
    value: int


class Result:
    def __init__(self, value: int) -> None:
        self.value = value


@memoized
def times(number: Number, factor: int = 1, *, plus: int = 0) -> Result:
    """A new object at each computation."""
    return Result(number.value * factor + plus)


def test_it_computes_once_for_each_set_of_arguments():
    two = Number(value=2)
    assert times(two, 3) is times(two, 3)
    found = times(two), times(two, 3), times(two, 3, plus=1), times(two, plus=1)
    assert [each.value for each in found] == [2, 6, 7, 3]


def test_an_equal_record_and_a_changed_copy_are_other_records():
    two = Number(value=2)
    assert times(two) is not times(Number(value=2))
    assert times(two.model_copy(update={"value": 5})).value == 5


def test_what_was_computed_goes_with_its_record():
    two = Number(value=2)
    gone = weakref.ref(times(two))
    assert gone() is not None
    del two
    gc.collect()
    assert gone() is None
