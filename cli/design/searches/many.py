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
from .limited import limits_record

if TYPE_CHECKING:
    from ....dse.npu.stated import Problem
    from ....studies.designs import DesignRequest, FoundDesign, Outcome
    from ...options import FolderOptions

    Pair = tuple[DesignRequest, Outcome]


def names_of_inputs(text: str, what: str) -> list[str]:
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
        if len(names_of_inputs(text, what)) > 1:
            raise InputError(f'{what}: expected one, as the search is {search}, found "{text}"; search each alone')


def requests(
    stated: Callable[[str, str], Problem],
    networks: Sequence[str],
    platforms: Sequence[str],
    shares: Sequence[float] | None,
) -> list[DesignRequest]:
    """The searches: every network on every board, or with shares all networks together on every board.

    Every fault of the arguments is reported, before any search starts.
    """
    from ....formats import InputError

    asked: list[Problem] = []
    wrong: dict[str, None] = {}
    for pair in itertools.product(networks, platforms):
        try:
            asked.append(stated(*pair))
        except InputError as error:
            wrong |= dict.fromkeys(error.faults)
    if wrong:
        raise InputError(wrong)
    if shares is None:
        return list(asked)
    return [_together(asked[board :: len(platforms)], shares) for board in range(len(platforms))]


def _together(problems: Sequence[Problem], shares: Sequence[float]) -> DesignRequest:
    """One search for the networks of problems on one board; runs of a simulation state how many requests began."""
    from ....dse.npu.workload import Workload

    launches = [problem.options.launches for problem in problems]
    began = [sum(b * runs for b, runs in enumerate(stages[0], 1)) for stages in launches if stages]
    options = problems[0].options.model_copy(update={"launches": [row for stages in launches for row in stages]})
    return Workload.of([problem.network for problem in problems], shares or began), problems[0].platform, options


def run(
    asked: Sequence[DesignRequest], written: FolderOptions, *, top: int, scheduler: str | None, threads: int | None
) -> None:
    """Make searches; one that fails does not stop the others."""
    from ....formats import InputError
    from ....studies.designs import design_each

    output = written.output
    where: dict[str, Any] = {"replace": written.force, "scheduler": scheduler, "threads": threads}
    with resumable(output, "designs"), progress("searches") as report:
        outcomes = design_each(asked, output, top, **where, progress=report)
    pairs = list(zip(asked, outcomes, strict=True))
    record = {"designs": [record for pair in pairs for record in _records(*pair, output)]}
    show(written.as_json, "fluidb.dse-many-output/2", record, _text(pairs))
    reused = [searched.reused for outcome in outcomes if not isinstance(outcome, InputError) for searched in outcome]
    if output is not None and reused:
        note(f"wrote {output}; {sum(reused):,} of {len(reused):,} designs were kept there already")
    faulty = [(request, outcome.first_faults) for request, outcome in pairs if isinstance(outcome, InputError)]
    if faulty:
        fail([f"{_name(request)}: {line}" for request, faults in faulty for line in faults])
        raise typer.Exit(2)


def _name(request: DesignRequest) -> str:
    return f"{request[0].name} on {request[1].name}"


def _records(request: DesignRequest, outcome: Outcome, output: Path | None) -> Iterator[dict[str, object]]:
    from ....dse.npu.limited import limited_by
    from ....formats import InputError
    from ....studies.designs import names_of

    if isinstance(outcome, InputError):
        yield {"network": request[0].name, "platform": request[1].name, "faults": outcome.faults}
        return
    limits = limits_record(limited_by(*request, outcome[0].design.ranking[0]))  # all networks have one design
    for name, searched in zip(names_of(request), outcome, strict=True):
        folder = None if output is None else output / name
        yield design_record(searched.design, searched.fbcb) | limits | {"output": folder, "reused": searched.reused}


def _text(pairs: Sequence[Pair]) -> Iterator[str]:
    from ....formats import InputError

    rows: list[tuple[object, ...]] = []
    for request, outcome in pairs:
        if isinstance(outcome, InputError):
            rows.append((_name(request), *["-"] * 5, "no design"))
        else:
            rows += map(_row, outcome)
    b_max = pairs[0][0][2].b_max
    yield table(["", "design", "objective", "GOP/s at b=1", f"at b={b_max}", "DSPs", ""], rows)
    boards = {board.name: not_judged(options.unjudged(board)) for (_, board, options), _ in pairs}
    if any(boards.values()):
        yield facts((f"not judged on {name}", text) for name, text in boards.items())


def _row(searched: FoundDesign) -> tuple[object, ...]:
    design = searched.design
    gop_s = [f"{value:,.1f}" for value in (design.gop_s[0], design.gop_s[-1])]
    objective, made = design.options.text(design.ranking[0].objective), "kept" if searched.reused else "searched"
    part = f", {percent(design.shares[design.network.name], 1)} of the requests" if design.together else ""
    name = f"{design.network.name} on {design.platform.name}{part}"
    return name, design.tile, objective, *gop_s, percent(design.dsp_share), made
