"""An answer of the server tells what is worst of its samples."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fluidb.machine.live import Outcome, Sample
from fluidb.machine.server.messages import Asked, Model
from fluidb.machine.server.visits import answer_of
from fluidb.traffic.measures import CONFIDENCE, ENTROPY


@pytest.mark.parametrize(("measure", "least_sure"), [(CONFIDENCE, 0.2), (ENTROPY, 0.9)])
def test_the_least_sure_sample_is_told(measure, least_sure):
    """A large confidence is sure, a large entropy is not."""
    model = Model("net", 0, {}, "y", np.dtype(np.float32), 2, ["a", "y"], measure, 1.0, "none")
    samples = [Sample(0, {}, 1.0, answers=[np.zeros(2, np.float32)], sure=[sure], exit=1) for sure in (0.2, 0.9, 0.5)]
    for sample in samples:
        sample.outcome = Outcome.IN_TIME
    body, _ = answer_of(samples, Asked("", {}, 3, 1.0, {"confidence": False}), model)
    answer = json.loads(body)
    assert answer["parameters"]["confidence"] == least_sure
    assert answer["outputs"][0]["data"] == [0.2, 0.9, 0.5]
