"""Clients of Locust, which `http_clients.py` starts: each asks for one sample after the other, as JSON."""

from __future__ import annotations

import json
import os
from itertools import count

import locust
import numpy as np

FILE = np.load(os.environ["FLUIDB_ALONE"])
NUMBERS = count()


class Asks(locust.HttpUser):  # type: ignore[misc]  # it may not be installed
    """A client."""

    @locust.task  # type: ignore[untyped-decorator]  # without it nothing is known of its types
    def infer(self) -> None:
        """Ask for a sample, and look at its answer."""
        row = next(NUMBERS) % len(FILE["rows"])
        sample = FILE["rows"][row : row + 1]
        tensor = {"name": str(FILE["name"]), "shape": sample.shape, "datatype": "FP32", "data": sample.tolist()}
        asked = self.client.post(
            f"/v2/models/{FILE['model']}/infer",
            data=json.dumps({"inputs": [tensor]}),
            name="infer",
            catch_response=True,
        )
        with asked as answer:
            given = answer.json()
            expected = FILE["answers"][row, given["parameters"]["exit"] - 1]
            if not np.allclose(given["outputs"][0]["data"], expected, rtol=1e-4, atol=1e-5):
                answer.failure("another answer than ONNX Runtime's")
