"""``fluidb quantise``: a trained network in integers of 16 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ...formats.display import as_word
from ..declare import written
from ..options import AsJson, Ends, Force, Inputs, Model, names
from ..render import facts, percent, show, table


def command(
    model: Model,
    output: Annotated[Path, written("The folder to write.")],
    inputs: Inputs = None,
    exits: Ends = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Quantise a trained network to 16-bit integers.

    The largest values on the samples choose a power of two as the scale of each
    layer. The folder holds integer.npz, with layers, weights and shifts, and
    network.toml, the part that the engine runs, for `fluidb dse` (`fluidb docs npu`).
    Needs the extra onnx.
    """
    from ...dse.integers.quantise import INTEGER_FOLDER, quantise, write_quantised
    from ...formats import InputError
    from ...models.digits import INPUTS, MODEL

    INTEGER_FOLDER.check(output, force)
    shipped = model == "digits" and not Path(model).exists()
    calibration = inputs or (INPUTS if shipped else None)
    if calibration is None:
        raise InputError("inputs: expected calibration samples for a network of your own, found none; state a file")
    quantised = quantise(MODEL if shipped else Path(model), calibration, names(exits))
    files = write_quantised(quantised, output, replace=force)
    network = quantised.network
    products = list(network.weights.values())
    about = {
        "network": f"{network.name}, {len(products)} products, {sum(weights.size for weights in products):,} weights",
        "samples": f"{quantised.samples:,} to choose the scales",
        "saturated": f"{quantised.saturated:,} values on these samples",
    }
    rows = [
        (row.name, percent(row.same, 2), *("" if share is None else percent(share, 2) for share in row[2:]))
        for row in quantised.exits
    ]
    text = [facts(about), table(["exit", "same answer", "right, float", "right, integer"], rows)]
    record = {
        "output": output, "files": files, "network": network.name, "samples": quantised.samples,
        "saturated": quantised.saturated, "exits": [row._asdict() for row in quantised.exits],
    }  # fmt: skip
    then = f"fluidb dse {as_word(output / files[1].name)} BOARD -o DIR"
    show(as_json, "fluidb.quantise-output/1", record, text, output, then)
