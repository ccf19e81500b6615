"""``fluidb calibrate``: the constants of an engine from measured times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...formats.display import as_word
from ..declare import argument, flag, option, written
from ..names import ENGINE, named
from ..options import AsJson, PictureOptions, names
from ..render import facts, ms, percent, show, table

if TYPE_CHECKING:
    from ...dse.device.alternatives import Alternative
    from ...dse.device.calibration import Calibration
    from ...dse.device.errors import LeftOut, RowFit

FAST = 0.8
"""A measured time below this share of what products or transfers alone take is a mistake, and no noise."""

FAR = 5
"""Layers that are named because they are the farthest off."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What is fitted, and how it is judged."""

    hold_out: Annotated[
        str | None,
        option(
            "Networks, or layers as NETWORK:LAYER, that are not fitted and give the error; if not given, each "
            "network in turn.",
            "NAME,NAME",
        ),
    ] = None
    keep: Annotated[
        str | None, option("Constants that stay as they are; all others are fitted if they help.", "KEY,KEY")
    ] = None
    confidence: Annotated[
        float, option("Probability that a further network lies within the error.", min=0.5, max=0.999)
    ] = 0.9
    check: Annotated[bool, flag("Fit nothing: judge the engine as it is.", "--check")] = False
    anyway: Annotated[bool, flag("Write the constants even if they are worse than none.", "--anyway")] = False


def command(
    platform: Annotated[str, argument("An engine of `fluidb platforms`, or a TOML file.", "PLATFORM", **named(ENGINE))],
    measurements: Annotated[Path, argument("Measured times (`fluidb docs your-own`).", "FILE.csv")],
    output: Annotated[Path | None, written("Write the engine with its constants.", "OUT.toml")] = None,
    *,
    fit: FitOptions,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Fit the constants of an engine to measured times.

    The constants are the effective bandwidth and clock, the share of computing or moving, whichever
    is shorter, that does not overlap, and the fixed times of a layer and of an inference. A constant
    is kept only if it clearly improves the prediction of networks that are not fitted. If the result
    is worse than no constants, the exit code is 1 and no file is written.
    """
    from ...dse.device.alternatives import nearer
    from ...dse.device.calibration import calibrate
    from ...dse.device.fit import CONSTANTS
    from ...dse.device.measurements import read_measurements
    from ...formats import check_free, together, write_file
    from ...platforms import load_platform
    from ...platforms.engine import Engine
    from ...platforms.writer import platform_text
    from ...plots.calibration import draw_calibration

    if output is not None:
        check_free(output, picture.force, apart=[measurements, Path(platform)])
    picture.check([measurements, output])
    engine = load_platform(platform, kind=Engine)
    rows = read_measurements(measurements, engine)
    held, kept = names(fit.hold_out) or [], [*CONSTANTS] if fit.check else names(fit.keep) or []
    calibration = calibrate(engine, rows, held, kept, table=measurements.name, confidence=fit.confidence)
    other = nearer(calibration, rows, held, kept)
    refused = calibration.worse and not fit.anyway
    with together():
        if output is not None and not refused:
            write_file(output, platform_text(calibration.engine), replace=picture.force)
        picture.write(lambda: draw_calibration(calibration))
    spread = _spread(calibration)
    record = {
        "output": None if refused else output,
        "platform": calibration.engine.model_dump(mode="json", exclude={"schema_"}),
        "compared": {name: choice and choice._asdict() for name, choice in _compared(calibration).items()},
        "worse_than_none": calibration.worse,
        "at_bounds": calibration.at_bounds,
        "errors": spread,
        "error": calibration.error and calibration.error._asdict(),
        "alike": calibration.alike,
        "nearer": other and {"changes": other.changes, "errors": _spread(other.calibration)},
        "rows": [{**row._asdict(), "error": row.error} for row in calibration.rows],
    }
    text = _text(calibration, spread, other)
    then = f"fluidb latency NETWORK {as_word(output)}"
    show(as_json, "fluidb.calibrate-output/1", record, text, None if refused else output, then)
    if refused:
        raise typer.Exit(1)


def _compared(calibration: Calibration) -> dict[str, LeftOut | None]:
    """Errors of rows that were not fitted, without constants and with them."""
    return {"none": calibration.without, "all": calibration.every, "kept": calibration.earned}


def _spread(calibration: Calibration) -> list[dict[str, Any]]:
    """Errors of the rows fitted and held out, of all and by cause."""
    from ...dse.device.errors import Bound

    return [
        {"rows": word, "bound": bound, **_figures(calibration, held_out=held_out, bound=bound)}
        for word, held_out in (("fitted", False), ("held out", True))
        for bound in (None, *Bound)
        if calibration.chosen(held_out=held_out, bound=bound)
    ]


def _figures(calibration: Calibration, **which: Any) -> dict[str, float]:
    from ...dse.device.errors import LeftOut

    rows = calibration.chosen(**which)
    _, count, mean, worst = LeftOut.of([], rows)
    predicted, measured = (
        sum(row.repeats * time_s for row, time_s in zip(rows, times, strict=True))
        for times in ([row.predicted_s for row in rows], [row.measured_s for row in rows])
    )
    return {"count": count, "mean": mean, "worst": worst, "total": predicted / measured - 1}


def _text(calibration: Calibration, spread: list[dict[str, Any]], other: Alternative | None) -> Iterator[str]:
    from ...dse.device.errors import by_network

    engine = calibration.engine
    yield facts(
        {
            "engine": engine.summary,
            "bandwidth": f"{engine.bytes_per_s / 1e9:.4g} of {engine.bandwidth_gb_s:g} GB/s",
            "clock": f"{engine.cycles_per_s / 1e6:.4g} of {engine.clock_mhz:g} MHz",
            "not hidden": percent(engine.not_hidden, 1),
            "a layer": ms(engine.layer_s),
            "an inference": ms(engine.inference_s),
            "error": _error(calibration),
            "at its bound": "; ".join(calibration.at_bounds) or None,
            "not told apart": "; ".join(map(_group, calibration.alike)) or None,
            "too fast": _too_fast(calibration),
            "nearer": other and _nearer(calibration, other),
            "worse": _worse(calibration),
        }
    )
    compared = _compared(calibration)
    if not calibration.chosen(held_out=False):  # nothing was fitted
        compared = {"none": compared["none"], "stated": compared["kept"]}
    yield table(["rows not fitted, with", "mean error", "worst", ""], map(_choice, compared.items()))
    yield table(["measured", "ms", "predicted", "off by", "bound by", ""], map(_row, by_network(calibration.rows)))
    if layers := [row for row in calibration.rows if row.layer is not None]:
        far = sorted(layers, key=lambda row: abs(math.log(row.predicted_s / row.measured_s)), reverse=True)[:FAR]
        yield table(["farthest off", "ms", "predicted", "off by", "bound by", ""], map(_row, far))
    cells = [
        (line["rows"], line["bound"] or "all", line["count"], percent(line["mean"], 1), percent(line["worst"], 1),
         f"{line['total']:+.1%}")
        for line in spread
    ]  # fmt: skip
    yield table(["rows", "bound by", "count", "mean error", "worst", "of their sum"], cells)


_CHOICES = {
    "none": "no constants",
    "all": "all that may be fitted",
    "kept": "the constants kept",
    "stated": "the engine as it is",
}
"""What the constants are, by their key in ``--json``."""


def _choice(compared: tuple[str, LeftOut | None]) -> tuple[str, ...]:
    name, choice = compared
    if choice is None:
        return _CHOICES[name], "-", "-", "not known: more constants than rows"
    constants = ", ".join(choice.constants) if name != "none" else ""
    none = "no constant lowers the error enough" if name == "kept" else ""
    return _CHOICES[name], percent(choice.mean, 1), percent(choice.worst, 1), constants or none


def _worse(calibration: Calibration) -> str | None:
    """Why nothing is written."""
    if not calibration.worse:
        return None
    ours, none = (percent(choice.mean, 1) for choice in (calibration.earned, calibration.without))
    return f"rows not fitted are off by {ours}, and by {none} without constants; hold out others, or state --anyway"


def _error(calibration: Calibration) -> str:
    """Between which multiples of its predicted time a further network takes."""
    from ...dse.device.errors import FEWEST, WIDEST

    error, held = calibration.error, any(row.held_out for row in calibration.rows)
    if error is None and len({row.network for row in calibration.left_out}) >= FEWEST:
        return f"not known: a further network may take over {WIDEST:,} times its predicted time, or under 1/{WIDEST:,}"
    if error is None:
        several = f"name {FEWEST} or more of other kinds with --hold-out, or leave it out" if held else "measure more"
        return f"not known: expected at least {FEWEST} networks that were not fitted; {several}"
    of = f"{error.networks} networks, " + ("not fitted" if held else "each predicted from the others")
    sure = percent(error.confidence, 0)
    return f"a further network takes {error.low:g} to {error.high:g} times as long as predicted, at {sure}; from {of}"


def _group(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]}: no fitted row depends on it"
    return (
        f"{', '.join(names)}: other values fit equally well; measure networks of other kinds, or state one with --keep"
    )


def _nearer(calibration: Calibration, other: Alternative) -> str:
    """Properties that bring the fitted rows nearer, and how they change the error of the rows held out."""
    changes = ", ".join(f"{name} = {value}" for name, value in other.changes.items())
    means = [
        f"{word} {percent(_figures(other.calibration, held_out=held_out)['mean'], 1)} in place of "
        f"{percent(_figures(calibration, held_out=held_out)['mean'], 1)}"
        for word, held_out in (("fitted", False), ("held out", True))
        if calibration.chosen(held_out=held_out)
    ]
    return f"{changes}: mean error {', '.join(means)}; state it in the engine's file if the engine is built so"


def _too_fast(calibration: Calibration) -> str | None:
    fast = (row for row in calibration.rows if row.measured_s < FAST * max(row.computing_s, row.moving_s))
    names = list(dict.fromkeys(map(_name, fast)))
    few = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    hint = "they take less time than products or transfers alone; check unit, clock, shape and bandwidth_gb_s"
    return f"{few}: {hint}" if names else None


def _name(row: RowFit) -> str:
    return row.network if row.layer is None else f"{row.network} {row.layer}"


def _row(row: RowFit) -> tuple[str, ...]:
    held = "held out" if row.held_out else ""
    return (
        _name(row),
        f"{1e3 * row.measured_s:.4g}",
        f"{1e3 * row.predicted_s:.4g}",
        f"{row.error:+.1%}",
        row.bound or "",
        held,
    )
