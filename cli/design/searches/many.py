"""The search of several networks or on several boards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...interrupt import resumable
from ...render import facts, fail, note, percent, progress, show, table
from ..problem import design_record, not_judged

if TYPE_CHECKING:
    from ....dse.npu.stated import Problem
    from ....formats import InputError
    from ....studies.designs import FoundDesign
    from ...options import FolderOptions

    Pair = tuple[Problem, FoundDesign | InputError]


def names(text: str, what: str) -> list[str]:
    """Names separated by commas; the path of a file is one name, and so is ``ofa_resnet50:d=0,e=0.2``."""
    from ....formats import InputError, is_input

    if is_input(text):
        return [text]
    texts: list[str] = []
    for name in text.split(","):
        if texts and ":" in texts[-1] and "=" in name:
            texts[-1] += f",{name.strip()}"
        else:
            texts.append(name.strip())
    if len(texts) > 1 and not all(texts):
        raise InputError(f'{what}: expected names with commas between, found "{text}"')
    return texts


def refuse_many(network: str, platform: str, search: str) -> None:
    """Refuse several networks or platforms in a search that takes one of each."""
    from ....formats import InputError

    for text, what in ((network, "NETWORK"), (platform, "PLATFORM")):
        if len(names(text, what)) > 1:
            raise InputError(f'{what}: expected one, as the search is {search}, found "{text}"; search each alone')


def run(
    stated: Callable[[str, str], Problem],
    networks: Sequence[str],
    platforms: Sequence[str],
    written: FolderOptions,
    *,
    top: int,
    scheduler: str | None,
    threads: int | None,
) -> None:
    """Search for every network on every board; a search that fails does not stop the others."""
    from ....formats import InputError
    from ....studies.designs import design_each

    asked: list[Problem] = []
    wrong: dict[str, None] = {}  # every fault of the arguments is reported together, before any search starts
    for pair in itertools.product(networks, platforms):
        try:
            asked.append(stated(*pair))
        except InputError as error:
            wrong |= dict.fromkeys(error.faults)
    if wrong:
        raise InputError(wrong)
    output = written.output
    where: dict[str, Any] = {"replace": written.force, "scheduler": scheduler, "threads": threads}
    with resumable(output, "designs"), progress("searches") as report:
        outcomes = design_each(asked, output, top, **where, progress=report)
    pairs = list(zip(asked, outcomes, strict=True))
    record = {"designs": [_record(*pair, output) for pair in pairs]}
    show(written.as_json, "fluidb.dse-many-output/2", record, _text(pairs))
    reused = [outcome.reused for outcome in outcomes if not isinstance(outcome, InputError)]
    if output is not None and reused:
        note(f"wrote {output}; {sum(reused):,} of {len(reused):,} designs were kept there already")
    faulty = [(problem, outcome.first_faults) for problem, outcome in pairs if isinstance(outcome, InputError)]
    if faulty:
        fail(
            [
                f"{problem.network.name} on {problem.platform.name}: {line}"
                for problem, faults in faulty
                for line in faults
            ]
        )
        raise typer.Exit(2)


def _record(problem: Problem, outcome: FoundDesign | InputError, output: Path | None) -> dict[str, object]:
    from ....formats import InputError
    from ....studies.designs import name_of

    if isinstance(outcome, InputError):
        return {"network": problem.network.name, "platform": problem.platform.name, "faults": outcome.faults}
    folder = None if output is None else output / name_of(problem)
    return design_record(outcome.design, outcome.fbcb) | {"output": folder, "reused": outcome.reused}


def _text(pairs: Sequence[Pair]) -> Iterator[str]:
    from ....formats import InputError

    rows: list[tuple[object, ...]] = []
    for problem, outcome in pairs:
        name = f"{problem.network.name} on {problem.platform.name}"
        if isinstance(outcome, InputError):
            rows.append((name, *["-"] * 5, "no design"))
            continue
        design = outcome.design
        gop_s = [f"{value:,.1f}" for value in (design.gop_s[0], design.gop_s[-1])]
        objective = design.options.text(design.ranking[0].objective)
        made = "kept" if outcome.reused else "searched"
        rows.append((name, design.tile, objective, *gop_s, percent(design.dsp_share), made))
    b_max = pairs[0][0].options.b_max
    yield table(["", "design", "objective", "GOP/s at b=1", f"at b={b_max}", "DSPs", ""], rows)
    designs = [outcome.design for _, outcome in pairs if not isinstance(outcome, InputError)]
    boards = {design.platform.name: not_judged(design.supply) for design in designs}
    if any(boards.values()):
        yield facts((f"not judged on {name}", text) for name, text in boards.items())
