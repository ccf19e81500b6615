"""A latency table is prepared for the event loop as it is: a changed copy is another table."""

from builders import everybody, table_of
from fluidb.serving import find_policy, simulate


def test_a_changed_copy_of_a_table_is_prepared_anew():
    table, traffic, serial = table_of([[1.0]]), everybody(2, 1), find_policy("serial")
    assert [simulate(table, traffic, serial).finish_s.tolist() for _ in range(2)] == [[1.0, 2.0]] * 2
    slower = table.model_copy(update={"wake_up_s": 0.5})
    assert simulate(slower, traffic, serial).finish_s.tolist() == [1.5, 2.5]
