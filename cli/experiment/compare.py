"""``fluidb compare``: policies side by side, over a scenario's grid."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ..options import AsJson, Scheduler
from ..render import blank, emit_facts, emit_json, emit_table, note, progress

if TYPE_CHECKING:
    from ...experiments.comparison import Against, Change, Comparison, PointResult, Standing


class _Column(NamedTuple):
    """How a figure is shown: its heading with the unit, what it is multiplied by, its digits."""

    heading: str
    scale: float
    digits: int


Columns = dict[str, _Column]
"""How each figure is shown, by its name."""


def _columns(longest_s: float) -> Columns:
    """Microseconds where no latency reaches 10 ms."""
    from ...experiments.store import COMPARED

    time = ("us", 1e6) if longest_s < 0.01 else ("ms", 1e3)
    units = {"s": time, "share": ("%", 1e2), "/s": ("/s", 1.0)}
    return {
        item.key: _Column(f"{item.heading} {units[item.unit][0]}", units[item.unit][1], item.digits)
        for item in COMPARED
    }


def command(
    scenario: Annotated[
        str,
        typer.Argument(
            help="A scenario: fluid-slack, fluid-slack-parts, table2, fig7, fig8, fig9, or a TOML file "
            "(docs/compare.md)."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Keep every finished run here, and go on from those kept."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="EARLIER.json", help="Exit with 1 if a figure got worse, beyond noise, than there."),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="Threads; all cores if not given.")] = None,
    scheduler: Scheduler = None,
    force: Annotated[bool, typer.Option("--force", help="Replace another scenario's comparison in DIR.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare policies, each on the NPU searched for it, under the same traffic.

    Prints each contender's figures as the mean over seeds with its 95 % interval,
    and the differences to the baseline, seed by seed.
    """
    from ...experiments.comparison import against as hold_against
    from ...experiments.comparison import check_folder, check_match, compare, read_comparison
    from ...experiments.scenarios import load_scenario

    loaded = load_scenario(scenario)
    if output is not None:
        check_folder(output, loaded, force=force)
    earlier = None if against is None else read_comparison(against)
    if against is not None and earlier is not None:
        check_match(loaded, earlier, against)
    try:
        with progress("searches and runs") as report:
            found, reused = compare(loaded, output, threads=threads, scheduler=scheduler, progress=report)
    except KeyboardInterrupt:
        if output is None:
            raise
        raise KeyboardInterrupt(
            f"interrupted; finished runs are kept in {output}, the same command goes on from there"
        ) from None
    held = None if earlier is None else hold_against(found, earlier)
    if as_json:
        content = found.model_dump(mode="json")
        emit_json("fluidb.compare-output/1", content | ({} if held is None else {"against": held.model_dump()}))
    else:
        _emit_text(found)
        if held is not None:
            _emit_against(held)
    if output is not None:
        note(f"wrote {output}; {reused:,} runs were kept there already")
    if held is not None and held.worse:
        raise typer.Exit(1)


def _number(column: _Column, value: float, *, sign: bool = False) -> str:
    return f"{column.scale * value:{'+' if sign else ''},.{column.digits}f}"


def _half(column: _Column, low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ±{_number(column, (high - low) / 2)}"


def _figures(item: Standing, columns: Columns) -> list[str]:
    found = [(column, item.metrics[name]) for name, column in columns.items()]
    return [_number(column, value.mean) + _half(column, value.low, value.high) for column, value in found]


def _differences(item: Standing, columns: Columns) -> list[str]:
    there = item.differences or {}
    found = [(column, there[name]) for name, column in columns.items()]
    return [
        f"{_number(column, value.mean, sign=True)}{_half(column, value.low, value.high)}"
        f"{' *' if value.beyond_noise else '  '}"
        for column, value in found
    ]


def _emit_text(found: Comparison) -> None:
    emit_facts(
        [
            ("scenario", found.title),
            ("seeds", ", ".join(map(str, found.seeds))),
            ("baseline", found.baseline),
            *((item.name, f"{item.policy} on {_engine(item.engine)}") for item in found.contenders),
        ]
    )
    for _, group in itertools.groupby(found.points, key=lambda point: point.case):
        blank()
        _emit_case(list(group), found.baseline)
    if len(found.contenders) > 1:
        blank()
        typer.echo("*: the 95 % interval of the difference, taken seed by seed, excludes 0")


def _engine(options: dict[str, object]) -> str:
    """An NPU's options in few words."""
    weights = options["weights"]
    sizes = [b for b, weight in enumerate(weights, 1) if weight] if isinstance(weights, list) else []
    counted = f"weights on b = {', '.join(map(str, sizes))}" if sizes else f"all of b = 1..{options['b_max']}"
    stacking = "with stacking" if options["stacking"] else "no stacking"
    return f"{options['batching']} batching, {stacking}, searched for {counted}"


def _emit_case(points: list[PointResult], baseline: str) -> None:
    first = points[0]
    drawn = "Poisson arrivals" if first.cv is None else f"gamma arrivals, CV {first.cv:g}"
    traffic = f"trace {first.trace}" if first.trace else drawn
    where = f"{first.network} on {first.platform}"
    designs: dict[str, list[str]] = {}
    for item in first.contenders:
        designs.setdefault(str(item.design), []).append(item.name)
    emit_facts(
        [
            ("case", first.case if first.case == where else f"{first.case}: {where}"),
            ("bandwidth", f"{first.bandwidth_gb_s:g} GB/s"),
            ("traffic", f"{traffic}, {first.requests:,} requests a run"),
            *((tile, ", ".join(names)) for tile, names in designs.items()),
        ]
    )
    blank()
    columns = _columns(max(item.metrics["p99_latency_s"].mean for point in points for item in point.contenders))
    headings = [column.heading for column in columns.values()]
    rows = [(item.name, *_where(point), *_figures(item, columns)) for point in points for item in point.contenders]
    emit_table(["contender", "SLO ms", "req/s", *headings], rows)
    rows = [
        (item.name, *_where(point), *_differences(item, columns))
        for point in points
        for item in point.contenders
        if item.differences is not None
    ]
    if rows:
        blank()
        emit_table([f"less {baseline}", "SLO ms", "req/s", *headings], rows)


def _where(point: PointResult | Change) -> tuple[str, str]:
    return f"{1e3 * point.slo_s:g}", "trace" if point.rate_per_s is None else f"{point.rate_per_s:g}"


def _emit_against(held: Against) -> None:
    blank()
    how = {"paired": "seed by seed", "welch": "by Welch's interval, the seeds being others"}
    emit_facts(
        [
            ("against", f"{held.figures:,} figures, {how.get(held.method, held.method)}"),
            ("better", f"{len(held.better):,} beyond noise"),
            ("worse", f"{len(held.worse):,} beyond noise"),
        ]
    )
    if held.worse:
        blank()
        rows = [_worse(item) for item in held.worse]
        emit_table(["got worse", "SLO ms", "req/s", "figure", "earlier", "now", "difference"], rows)


def _worse(item: Change) -> tuple[str, ...]:
    longest_s = max(item.earlier, item.now) if item.metric.endswith("latency_s") else 1.0
    column = _columns(longest_s)[item.metric]
    return (
        f"{item.case}: {item.contender}",
        *_where(item),
        column.heading,
        _number(column, item.earlier),
        _number(column, item.now),
        _number(column, item.difference, sign=True) + _half(column, item.low, item.high),
    )
