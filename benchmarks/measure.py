"""Measure a network's stages on this machine: the table of a device (docs/your-own.md).

Computes the matrix products of every stage with NumPy, in float32 and on one thread, and prints the least processor
time of several repetitions as CSV, so that other programs on the machine matter little.  ``platforms/numpy-x86.csv``
is the output of

    python benchmarks/measure.py resnet50 --b-max 8 --repetitions 9 > platforms/numpy-x86.csv
"""

from __future__ import annotations

import argparse
import os
import time

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # before NumPy is imported

import numpy as np
from fluidb.models import Gemm, load_network


def least_s(gemm: Gemm, per_sample: bool, batch: int, repetitions: int) -> float:
    """Least processor time of a product for a batch; samples share the right operand unless it is an activation."""
    count, rows = (gemm.groups * batch, gemm.R) if per_sample else (gemm.groups, gemm.R * batch)
    rng = np.random.default_rng(0)
    left = rng.random((rows, gemm.P), dtype=np.float32)
    right = rng.random((gemm.P, gemm.C), dtype=np.float32)
    out = np.empty((rows, gemm.C), dtype=np.float32)
    times_s = []
    for _ in range(repetitions):
        begin_s = time.process_time()
        for _ in range(count):
            np.matmul(left, right, out=out)
        times_s.append(time.process_time() - begin_s)
    return min(times_s)


def main() -> None:
    """Print a row for every stage and batch size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", help="a name from `fluidb models`, or a TOML file")
    parser.add_argument("--b-max", type=int, default=8, help="largest batch")
    parser.add_argument("--repetitions", type=int, default=5, help="runs of every product; the quickest counts")
    given = parser.parse_args()
    network = load_network(given.network)
    print("stage,batch,seconds")
    for stage in range(1, len(network.exits) + 1):
        gemms = [(layer.gemm, layer.per_sample) for layer in network.layers if layer.gemm and layer.stage == stage]
        for batch in range(1, given.b_max + 1):
            time_s = sum(least_s(*gemm, batch, given.repetitions) for gemm in gemms)
            print(f"{stage},{batch},{time_s:.6f}", flush=True)


if __name__ == "__main__":
    main()
