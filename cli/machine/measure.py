"""``fluidb measure``: a network on this machine, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ...formats.display import as_word
from ..declare import option, written
from ..options import AsJson, Force, Model, StageThreads
from ..render import facts, ms, percent, progress, show, table
from .running import ModelOptions

SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class MeasuringOptions(ModelOptions):
    """How the network is cut and measured."""

    b_max: Annotated[int, option("Largest batch size.")] = 8
    repeats: Annotated[int, option("Repetitions; more make narrower intervals.")] = 20
    threads: StageThreads = 1
    name: Annotated[str | None, option("The device's name; this-machine if not given.")] = None
    host: Annotated[
        bool, option("Also measure the host: reading a request of `fluidb serve`, and writing its answer.")
    ] = False
    seed: Annotated[int, option("Seed of the order of batches, and of samples that leave.")] = 0


def command(
    model: Model,
    output: Annotated[Path, written("The folder to write: device, times, latency table, samples.")],
    *,
    how: MeasuringOptions,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Measure a network on this machine, stage by stage.

    The network is cut at its exits. The runner of `fluidb serve-real` runs its stages at every
    batch size, in random order (`fluidb docs real-device`). The command needs the extras onnx
    and runtime.
    """
    from ...machine.measurement import MEASURED_FOLDER, NOISY, measure, write_measurement

    MEASURED_FOLDER.check(output, force)
    (network,) = how.run([model], how.threads)
    with progress("measuring") as report:
        measurement = measure(
            network, b_max=how.b_max, repeats=how.repeats, name=how.name, seed=how.seed, host=how.host, progress=report
        )
    write_measurement(network, measurement, output, replace=force)
    device, noisy = measurement.device, "; ".join(measurement.noisy[:SHOWN])
    more = f", and {len(measurement.noisy) - SHOWN} more" if len(measurement.noisy) > SHOWN else ""
    about = {
        "network": f"{network.name}, exits {', '.join(network.exits)}",
        "device": f"{device.name}: {device.title}",
        "runtime": network.runs_on,
        "repeats": f"{how.repeats}, drift {percent(measurement.drift, 1)}",
        "gather": None if device.gather_s_per_sample is None or device.gather_floor_s is None
        else f"{ms(device.gather_floor_s)} + {ms(device.gather_s_per_sample)} a sample",
        "wake-up": ms(device.wake_up_s or 0.0),
        "host": None if device.host is None
        else f"{ms(device.host.before_s)} to read a request, {ms(device.host.after_s)} to write its answer",
        "too noisy": f"beyond {percent(NOISY, 0)}: {noisy}{more}; measure on an idle machine" if noisy else None,
    }  # fmt: skip
    batches = range(1, how.b_max + 1)
    rows = []
    for number, exit_ in enumerate(network.exits, 1):
        here = [cell for cell in measurement.cells if cell.stage == number]
        rows.append((f"{number} {exit_}", *(f"{1e3 * cell.seconds:.2f}" for cell in here)))
        rows.append(("  +-", *(f"{1e3 * cell.half_width_s:.2f}" for cell in here)))
    text = [facts(about), table(["stage, time in ms", *(f"b={b}" for b in batches)], rows)]
    record = {
        "output": output, "network": network.name, "exits": network.exits, "device": device, "cells": measurement.cells,
        "repeats": how.repeats, "drift": measurement.drift, "noisy": measurement.noisy,
    }  # fmt: skip
    then = f"fluidb serve-real {as_word(model)} {as_word(output)} --trace FILE --slo 50ms"
    show(as_json, "fluidb.measure-output/1", record, text, output, then)
