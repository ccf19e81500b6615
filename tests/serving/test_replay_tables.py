"""A latency table is prepared for the event loop once, as long as it is in use."""

import gc

from builders import everybody, table_of
from fluidb.serving import find_policy, simulate
from fluidb.serving import replay as module


def test_a_table_is_prepared_once_and_a_changed_copy_anew():
    table, traffic, serial = table_of([[1.0]]), everybody(2, 1), find_policy("serial")
    prepared = len(module._DEVICES)
    assert [simulate(table, traffic, serial).finish_s.tolist() for _ in range(2)] == [[1.0, 2.0]] * 2
    assert len(module._DEVICES) == prepared + 1
    slower = table.model_copy(update={"wake_up_s": 0.5})
    assert simulate(slower, traffic, serial).finish_s.tolist() == [1.5, 2.5]
    del table, slower
    gc.collect()
    assert len(module._DEVICES) == prepared
