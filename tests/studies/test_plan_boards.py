"""A plan on a board with more of something, where theory says what must hold."""

from __future__ import annotations

import numpy as np
import pytest
from builders import plan_traffic
from fluidb.dse import Objective
from fluidb.formats import InputError
from fluidb.serving import parse_requirement
from fluidb.serving.scheduler import find_policy
from fluidb.studies.plan.problem import problem_of
from fluidb.studies.plan.search import find_plans
from fluidb.studies.plan.sources import BoardSource
from random_boards import CASES, MORE, random_case


@pytest.mark.parametrize("seed", range(CASES // 2))
def test_more_of_anything_makes_no_plan_dearer(seed: int) -> None:
    """One by one, first come first served, a faster table makes no request later; batches may form in a worse order."""
    network, board, options = random_case(3_000_000 + seed)
    options = options.model_copy(update={"objective": Objective.LATENCY})
    try:
        source = BoardSource(network, board, options, [network])
    except InputError:
        return
    some = np.linspace(0, len(source.dsps) - 1, 20).astype(int).tolist()
    whole_s = np.median([source.table(row).array()[0, -1, 1] for row in some])
    traffic = plan_traffic(network, 0.4 / whole_s, None, 200, 4 * whole_s, None, seed, 1)
    asked = [find_policy("serial")], [parse_requirement("violation_rate <= 5 %")], traffic

    def cheapest(here: BoardSource) -> float:
        return find_plans(problem_of([here], *asked)).front[0].cost

    least = cheapest(source)
    for what, more in MORE.items():
        assert cheapest(BoardSource(network, board.model_copy(update=more(board)), options, [network])) <= least, what
