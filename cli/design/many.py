"""``fluidb dse`` of several networks or boards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..render import emit_json, emit_table, fail, note, percent, progress
from .problem import Problem

if TYPE_CHECKING:
    from ...experiments.designs import Found
    from ...formats import InputError

    Pair = tuple[Problem, Found | InputError]


def names(text: str, what: str) -> list[str]:
    """Names with commas between; a file's name may hold commas of its own."""
    from ...formats import InputError

    if Path(text).is_file():
        return [text]
    found = [name.strip() for name in text.split(",")]
    if len(found) > 1 and not all(found):
        raise InputError(f'{what}: expected names with commas between, found "{text}"')
    return found


def run(
    stated: Callable[[str, str], Problem],
    networks: Sequence[str],
    platforms: Sequence[str],
    output: Path | None,
    settings: dict[str, int | bool],
    scheduler: str | None,
    threads: int | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Search for every network on every board; what is wrong with one does not stop the others."""
    from ...experiments.designs import design_each
    from ...formats import InputError

    asked = _read(stated, list(itertools.product(networks, platforms)))
    try:
        with progress("searches") as report:
            found = design_each(
                asked, output, settings, replace=force, scheduler=scheduler, threads=threads, progress=report
            )
    except KeyboardInterrupt:
        if output is None:
            raise
        raise KeyboardInterrupt(
            f"interrupted; finished designs are kept in {output}, the same command goes on from there"
        ) from None
    pairs = list(zip(asked, found, strict=True))
    if as_json:
        _emit_json(pairs, output)
    else:
        _emit_text(pairs)
    faults = [
        f"{item.network.name} on {item.platform.name}: {line}"
        for item, outcome in pairs
        if isinstance(outcome, InputError)
        for line in outcome.first_faults
    ]
    reused = [outcome.reused for outcome in found if not isinstance(outcome, InputError)]
    if output is not None and reused:
        note(f"wrote {output}; {sum(reused):,} of {len(reused):,} designs were kept there already")
    if faults:
        fail(faults)
        raise typer.Exit(2)


def _read(stated: Callable[[str, str], Problem], pairs: Sequence[tuple[str, str]]) -> list[Problem]:
    """What was typed, for every pair; all that is wrong with it is said at once, and before any search."""
    from ...formats import InputError

    asked: list[Problem] = []
    faults: dict[str, None] = {}
    for pair in pairs:
        try:
            asked.append(stated(*pair))
        except InputError as error:
            faults |= dict.fromkeys(error.faults)
    if faults:
        raise InputError(faults)
    return asked


def _emit_json(pairs: Sequence[Pair], output: Path | None) -> None:
    from ...experiments.designs import name_of
    from ...formats import InputError
    from .dse import content

    designs: list[dict[str, object]] = []
    for item, outcome in pairs:
        if isinstance(outcome, InputError):
            names = {"network": item.network.name, "platform": item.platform.name}
            designs.append(names | {"faults": list(outcome.faults)})
        else:
            folder = None if output is None else str(output / name_of(item))
            found = content(outcome.design, outcome.fbcb)
            designs.append(found | {"output": folder, "reused": outcome.reused})
    emit_json("fluidb.dse-many-output/1", {"designs": designs})


def _emit_text(pairs: Sequence[Pair]) -> None:
    from ...dse.objectives import OBJECTIVES
    from ...formats import InputError

    rows: list[tuple[object, ...]] = []
    for item, outcome in pairs:
        name = f"{item.network.name} on {item.platform.name}"
        if isinstance(outcome, InputError):
            rows.append((name, *["-"] * 5, "no design"))
            continue
        design = outcome.design
        gop_s = [f"{value:,.1f}" for value in (design.gop_s[0], design.gop_s[-1])]
        objective = OBJECTIVES[design.options.objective].text(design.ranking[0].objective)
        made = "kept" if outcome.reused else "searched"
        rows.append((name, design.tile, objective, *gop_s, percent(design.dsp_share), made))
    b_max = pairs[0][0].options.b_max
    emit_table(["", "design", "objective", "GOP/s at b=1", f"at b={b_max}", "DSPs", ""], rows)
