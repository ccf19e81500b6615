"""``fluidb samples``: the answers of a network at its exits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...formats.display import as_word
from ...traffic.measures import CONFIDENCE, MEASURES, show_threshold
from ..declare import argument, flag, flat, option, written
from ..names import NETWORK, named, offering
from ..options import AsJson, Force, PictureOptions, ThresholdsTried, tried_thresholds
from ..render import facts, folded_table, percent, show

if TYPE_CHECKING:
    from ...traffic.description import ExitDescription
    from ...traffic.measures import Measure, Threshold

app = typer.Typer(no_args_is_help=True, help="Draw or describe the answers of a network at its exits.")

NETWORK_HELP = (
    "What answers: the candidates of a network, or its exits if it has none; or the exits of a folder with a design, a "
    "latency table or a plan."
)
MEASURE = "Measure that is drawn at each exit."
PRESET = "The model: imagenet, glue or qnli (`fluidb docs exits`)."


@dataclass(frozen=True, kw_only=True)
class DrawnOptions:
    """What is drawn from the model, and which exits answer."""

    count: Annotated[int, option("Samples.")] = 50_000
    seed: Annotated[int, option("Seed; equal seeds give equal samples.")] = 0
    measure: Annotated[str, option(MEASURE, "|".join(MEASURES), **offering(MEASURES))] = CONFIDENCE.name
    values: Annotated[int, option("Principal values of an answer; more than 1 for a dense task.")] = 1
    difficulty: Annotated[float, option("Mean difficulty of the samples; 0 is usual, 1 is hard.")] = 0.0
    exits: Annotated[bool, flag("Draw answers of the network's own exits, and not of its candidates.", "--exits")] = (
        False
    )


@app.command()
@flat
def generate(
    preset: Annotated[str, argument(PRESET, "PRESET", **offering(("imagenet", "glue", "qnli")))],
    output: Annotated[Path, written("The file to write.", "FILE.npz")],
    network: Annotated[str, option(NETWORK_HELP, "NETWORK|DIR", **named(NETWORK))],
    *,
    asked: DrawnOptions,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draw answers from a model of samples of different difficulty.

    Use this for a network without measured answers. The parameters of the model were calibrated
    by figures of the PAME paper (`fluidb docs exits`). The network's heads state the number of
    classes.
    """
    from ...formats import InputError, check_free
    from ...studies.answers import draw_log, find_exits
    from ...traffic.answers import PRESETS
    from ...traffic.samples import write_samples

    check_free(output, force)
    if output.suffix != ".npz":
        raise InputError(f"{output}: expected a file that ends in .npz, found {output.name}")
    if preset not in PRESETS:
        raise InputError(f'preset: expected one of {", ".join(PRESETS)}, found "{preset}"')
    if asked.measure not in MEASURES:
        raise InputError(f'measure: expected one of {", ".join(MEASURES)}, found "{asked.measure}"')
    answering, model = find_exits(network, own=asked.exits), PRESETS[preset]
    drawn = draw_log(
        answering, model, asked.count, asked.seed,
        measure=MEASURES[asked.measure], values=asked.values, difficulty=asked.difficulty,
    )  # fmt: skip
    classes = answering.classes or model.classes
    write_samples(drawn, output, replace=force)
    accuracy = float(drawn.correct[:, -1].mean())
    record = {
        "output": output, "preset": preset, "network": answering.network, "exits": drawn.exits,
        "samples": asked.count, "seed": asked.seed, "measure": asked.measure, "classes": classes,
        "values": asked.values, "difficulty": asked.difficulty,
        "accuracy": accuracy,
    }  # fmt: skip
    text = {
        "samples": f"{asked.count:,} of the preset {preset}, seed {asked.seed}",
        "measure": f"{asked.measure}, of {classes:,} classes",
        "exits": f"{drawn.exits}, the last included, of {answering.network}",
        "accuracy at the end": percent(accuracy),
    }
    show(as_json, "fluidb.samples-output/1", record, [facts(text)], output, f"fluidb samples show {as_word(output)}")


@app.command("show")
@flat
def show_(
    file: Annotated[Path, argument("Samples (`fluidb docs file-formats`, Samples).", "FILE")],
    thresholds: ThresholdsTried = None,
    *,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Show how good and how sure the answers at every exit are.

    For each threshold, the command also prints the share of the samples that would leave.
    """
    from ...plots.samples import draw_samples
    from ...traffic.description import describe_samples
    from ...traffic.samples import read_samples

    picture.check([file])
    given = tried_thresholds(thresholds)
    samples = read_samples(file)
    tried = samples.measure.usual if given is None else given
    enough = -(-samples.values // 2)
    exits = describe_samples(samples, tried, enough)
    measure, plot = samples.measure, picture.plot
    picture.write(lambda: draw_samples(exits, measure, file.name))
    counted = {"samples": len(samples), "measure": measure.name, "values": samples.values, "count": enough}
    record = {"file": file, **counted, "plot": plot, "exits": [_exit(described, measure) for described in exits]}
    dense = f"{enough} of {samples.values} principal values must reach the threshold" if samples.values > 1 else None
    about = facts({"samples": f"{len(samples):,}", "dense task": dense})
    show(as_json, "fluidb.samples-show-output/1", record, [about, *_tables(exits, measure, tried)], plot)


def _exit(about: ExitDescription, measure: Measure) -> dict[str, object]:
    """The record of an exit, with a key for each measure."""
    means = {name: about.mean if name == measure.name else None for name in MEASURES}
    more = {key: getattr(about, key) for key in ("calibration_error", "calibration", "thresholds")}
    return {"accuracy": about.accuracy, **means, **more}


def _tables(exits: list[ExitDescription], measure: Measure, thresholds: Sequence[Threshold]) -> list[str]:
    names = [f"mean {measure.name}", *(["calibration error"] if measure.probability else [])]
    if measure.probability:
        sure = [[percent(described.mean), percent(described.calibration_error)] for described in exits]
    else:
        sure = [["-" if described.mean is None else f"{described.mean:.3f}"] for described in exits]
    rows = [
        (number, percent(described.accuracy), *cells)
        for number, (described, cells) in enumerate(zip(exits, sure, strict=True), 1)
    ]
    text = [folded_table(["exit", "accuracy", *names], rows, "--json")]
    known = [(number, described) for number, described in enumerate(exits, 1) if described.thresholds]
    for title, key in (("leave at", "exit_share"), ("their accuracy", "accuracy")):
        cells = [
            (number, *(percent(getattr(row, key), 1) for row in described.thresholds)) for number, described in known
        ]
        text.append(folded_table([title, *map(show_threshold, thresholds)], cells, "--json"))
    return text
