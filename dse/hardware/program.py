"""The jobs of a quantised network on a design: what a host gives the engine, layer by layer."""

from __future__ import annotations

from typing import NamedTuple

from ...formats import InputError
from ...tables.latency import DESIGN_FILE
from ..integers.layer_jobs import engine_layers, job_of
from ..integers.network import IntegerNetwork
from ..npu.costs import configured, layer_costs
from ..npu.design import DesignTable
from ..npu.fbcb import FbcbTable
from ..npu.tiles import Tile
from .jobs import Job


class TimedJob(NamedTuple):
    """A job, and the cycles that the design's latency table counts for it."""

    job: Job
    cycles: int


def jobs_of(network: IntegerNetwork, design: DesignTable, fbcb: FbcbTable) -> dict[str, list[TimedJob]]:
    """Jobs of every product and every pool of the engine, as a design's control block configures it.

    Parameters
    ----------
    network : IntegerNetwork
        The network.
    design, fbcb
        Tables of a design for the network file that ``fluidb quantise`` wrote beside it, as built.

    Returns
    -------
    dict of str to list of TimedJob
        For each of them by name its jobs for batches of 1, 2, ... samples.

    Raises
    ------
    InputError
        If the design is for another network, or its times are an ideal's.
    """
    costs, chosen, (codes, _, _) = layer_costs(design, fbcb), configured(design, fbcb), fbcb.unpack()
    if costs.block_rows is None:
        raise InputError(f"{DESIGN_FILE}: expected a design as built; search again without --overlap")
    places = [place for place, layer in enumerate(design.network.layers) if layer.product(pooled=True)]
    rows, cycles = costs.block_rows[places], costs.time_s[places] * design.platform.clock_hz
    layouts = [[(b, B_R, B_P, passes) for b, B_R, B_P, passes in row] for row in chosen.layouts.tolist()]
    layers = {layer.name: layer for layer in engine_layers(network)}
    jobs: dict[str, list[TimedJob]] = {}
    for index, place in enumerate(places):
        lowered = design.network.layers[place]
        layer = layers.get(lowered.name.removeprefix(f"exit{lowered.stage}/") if lowered.in_head else lowered.name)
        if layer is None:
            raise InputError(f'{DESIGN_FILE}: layer "{lowered.name}": expected a product of {network.name}')
        job = job_of(network, layer)
        sizes = (job.window.R, job.window.P, job.C, job.groups), job.window.source
        if (lowered.product(pooled=True), (lowered.line, lowered.stride)) != sizes:
            raise InputError(
                f'{DESIGN_FILE}: layer "{lowered.name}": expected the sizes of {network.name}, found others; '
                "search a design for the network file that `fluidb quantise` wrote"
            )
        jobs[layer.name] = [
            TimedJob(
                Job(
                    job.window, job.C, job.groups, layouts[index][b], int(codes[index, b]),
                    Tile(*map(int, chosen.tile[:, index, b])), int(rows[index, b]), job.shift, job.low, job.high,
                    shared=len(job.weights) < job.groups, maximum=job.maximum,
                ),
                round(cycles[index, b]),
            )
            for b in range(fbcb.b_max)
        ]  # fmt: skip
    if missing := sorted(layers.keys() - jobs.keys()):
        raise InputError(f'{DESIGN_FILE}: expected a product "{missing[0]}", found none; search again')
    return jobs
