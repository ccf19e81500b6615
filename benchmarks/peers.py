"""Other tools on layers of ResNet-50: time for each design evaluated."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from fluidb.dse import Objective, Overlap, SearchOptions
from fluidb.dse.npu.evaluation import Evaluator
from fluidb.dse.npu.space import designs
from fluidb.models import load_network
from fluidb.platforms import load_platform
from rounds import HERE, BenchmarkRow, BenchmarkTable, timed

LAYERS = ("layer3.1.conv1", "fc")
"""Small layers: SCALE-Sim takes minutes for the whole network."""

DESIGN = {"T_P": 7, "T_C": 128}
TOOLS = {"SCALE-Sim 3.0.0": "scalesim", "ZigZag 3.9.1": "zigzag"}


def measure(python: Path | None) -> BenchmarkTable:
    """Time of one run of each tool in its own environment, beside fluidb's for every design of ZC706."""
    network, board, options = (
        load_network("resnet50"),
        load_platform("zc706"),
        SearchOptions(b_max=1, overlap=Overlap.PAPER),
    )
    layers = [layer for layer in network.layers if layer.name in LAYERS]
    update = {"layers": [layer.model_copy(update={"stage": 1}) for layer in layers], "exits": network.exits[-1:]}
    part = network.model_copy(update=update)
    tiles, evaluator = designs(options.supply(network, board)), Evaluator(part, board, options)
    count = tiles.shape[1]
    ours = timed(lambda: evaluator.rate(tiles, [Objective.GOP_S], threads=1))().seconds / count
    rows = [BenchmarkRow("fluidb", [ours], ours=True)]
    problem = {
        "design": DESIGN,
        "layers": {layer.name: list(layer.gemm[:3]) for layer in layers if layer.gemm},
    }
    remarks = []
    for name, tool in TOOLS.items():
        if python is None:
            remarks.append(f"{name}: not measured; `make bench PEERS=1` installs it.")
            continue
        command = [str(python), "-I", str(HERE / "peer.py"), tool, json.dumps(problem)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            remarks.append(f"{name}: did not run: {done.stderr.strip().splitlines()[-1]}")
            continue
        rows.append(BenchmarkRow(name, [sum(json.loads(done.stdout).values())], "fluidb"))
    return BenchmarkTable(
        "peers",
        "Other tools",
        f"{' and '.join(LAYERS)} of ResNet-50, one sample, time for each design evaluated: fluidb's mean over the "
        f"{count:,} designs of ZC706, SCALE-Sim's on an array of {DESIGN['T_P']} x {DESIGN['T_C']}, ZigZag's on "
        "the accelerator like a TPU that it ships. They model more than a roofline does: SCALE-Sim every cycle's "
        "addresses, ZigZag the order of loops in a hierarchy of memories. fluidb finds the designs that are worth it.",
        rows,
        remarks=remarks,
    )
