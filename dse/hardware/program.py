"""The jobs of a quantised network on a design: what a host gives the engine, layer by layer."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...formats import InputError
from ...models.residuals import Operation, fused_additions
from ...tables.files import DESIGN_FILE
from ..integers.layer_jobs import LayerJob, engine_layers, job_of
from ..integers.network import AddLayer, IntegerNetwork, ProductLayer
from ..npu.costs import configured, layer_costs
from ..npu.design import DesignTable
from ..npu.fbcb import FbcbTable
from ..npu.tiles import Tile
from .jobs import Addition, Job


class TimedJob(NamedTuple):
    """A job, and its cycles at a port that takes any address, as the testbench of the bare NPU has."""

    job: Job
    cycles: int


def additions_of(network: IntegerNetwork) -> dict[str, AddLayer]:
    """The addition that the store of a product does, by the products; the tables know the same ones."""
    nodes = (
        Operation(layer.name, layer.inputs, layer.stage, isinstance(layer, ProductLayer), isinstance(layer, AddLayer))
        for layer in network.layers
    )
    fused = fused_additions(nodes, {exit_.layer for exit_ in network.exits})
    layers = {layer.name: layer for layer in network.layers if isinstance(layer, AddLayer)}
    return {product: layers[name] for product, name in fused.items()}


def _added(name: str, job: LayerJob, addition: AddLayer | None) -> dict[str, Any]:
    """Bounds of the outputs of a product, and what is added to it first."""
    if addition is None:
        return {"low": job.low, "high": job.high}
    first = addition.inputs[0] == name
    left = addition.left[0 if first else 1], addition.left[1 if first else 0]
    added = Addition(left, addition.shift, job.low, job.high)
    try:
        added.packed()
    except InputError as error:
        raise InputError(f'layer "{addition.name}": {error.faults[0]}') from None
    return {"low": addition.low, "high": addition.high, "addition": added}


def jobs_of(network: IntegerNetwork, design: DesignTable, fbcb: FbcbTable) -> dict[str, list[TimedJob]]:
    """Jobs of every product and every pool of the engine, as a design's control block configures it.

    For each of them by its name there are jobs for batches of 1, 2, ... samples.  The design must be for the network
    file that ``fluidb quantise`` wrote, with times as built.
    """
    costs = layer_costs(design.model_copy(update={"platform": design.platform.without_bus()}), fbcb)
    chosen, (codes, _, _) = configured(design, fbcb), fbcb.unpack()
    if costs.block_rows is None:
        raise InputError(f"{DESIGN_FILE}: expected a design as built; search again without --overlap")
    places = [place for place, layer in enumerate(design.network.layers) if layer.product(pooled=True)]
    rows, cycles = costs.block_rows[places], costs.time_s[places] * design.platform.clock_hz
    layouts = [[(b, B_R, B_P, passes) for b, B_R, B_P, passes in row] for row in chosen.layouts.tolist()]
    layers = {layer.name: layer for layer in engine_layers(network)}
    jobs: dict[str, list[TimedJob]] = {}
    additions = additions_of(network)
    for index, place in enumerate(places):
        lowered = design.network.layers[place]
        layer = layers.get(lowered.operator)
        if layer is None:
            raise InputError(f'{DESIGN_FILE}: layer "{lowered.name}": expected a product of {network.name}')
        job = job_of(network, layer)
        sizes = (job.window.R, job.window.P, job.C, job.groups), job.window.source, layer.name in additions
        if (lowered.product(pooled=True), (lowered.line, lowered.stride), lowered.residual) != sizes:
            raise InputError(
                f'{DESIGN_FILE}: layer "{lowered.name}": expected the sizes of {network.name}, found others; '
                "search a design for the network file that `fluidb quantise` wrote"
            )
        added = _added(layer.name, job, additions.get(layer.name))
        jobs[layer.name] = [
            TimedJob(
                Job(
                    job.window, job.C, job.groups, layouts[index][b], int(codes[index, b]),
                    Tile(*map(int, chosen.tile[:, index, b])), int(rows[index, b]), job.shift,
                    shared=len(job.weights) < job.groups, maximum=job.maximum, **added,
                ),
                round(cycles[index, b]),
            )
            for b in range(fbcb.b_max)
        ]  # fmt: skip
    if missing := sorted(layers.keys() - jobs.keys()):
        raise InputError(f'{DESIGN_FILE}: expected a product "{missing[0]}", found none; search again')
    return jobs
