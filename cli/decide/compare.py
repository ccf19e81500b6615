"""``fluidb compare``: policies side by side over a scenario's grid, or designs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ...formats.display import counted
from ..declare import argument, option, typed, written
from ..interrupt import resumable
from ..names import offering, shipped
from ..options import AsJson, Cluster, PictureOptions, Threads
from ..render import drawn, facts, note, progress, show, table

if TYPE_CHECKING:
    from ...studies.comparison import Comparison, PointResult, Standing
    from ...studies.earlier import EarlierComparison, FigureChange

_SHIPPED = "fluid-slack, fluid-slack-parts, similar, table2, fig7, fig8, fig9"
NAMES = f"A scenario: {_SHIPPED}, or a TOML file (`fluidb docs compare`); or the folders of two designs or more."
_AGAINST = "An earlier comparison (--json); exit code 1 if a figure got worse, beyond noise."


def command(
    ctx: typer.Context,
    compared: Annotated[list[str], argument(NAMES, "SCENARIO|DIR", **offering(partial(shipped, "studies/scenarios")))],
    output: Annotated[Path | None, written("Keep every finished run here, and continue from kept runs.")] = None,
    against: Annotated[Path | None, option(_AGAINST, "EARLIER.json")] = None,
    threads: Threads = None,
    scheduler: Cluster = None,
    *,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Compare policies under the same traffic, or designs.

    Each policy runs on the NPU that was searched for it, or on a latency table that the
    scenario names. The command prints each contender's figures as the mean over seeds with its
    95 % interval, and the differences to the baseline, seed by seed. --force also replaces
    another scenario's comparison in DIR; its runs stay. For designs, the command prints what
    differs between them.
    """
    from ...plots.comparison import draw_comparison
    from ...studies import comparison
    from ...studies.earlier import changes_since, check_match
    from ...studies.scenario import load_scenario

    if len(compared) > 1 or Path(compared[0]).is_dir():
        _compare_designs(ctx, compared, as_json=as_json)
        return
    picture.check()
    loaded = load_scenario(compared[0])
    if output is not None:
        comparison.check_folder(output, loaded, force=picture.force)
    earlier = None if against is None else comparison.read_comparison(against)
    if against is not None and earlier is not None:
        check_match(loaded, earlier, against)
    with resumable(output, "runs"), progress("searches and runs") as report:
        result, reused = comparison.compare(loaded, output, threads=threads, scheduler=scheduler, progress=report)
    picture.write(lambda: draw_comparison(result))
    held = None if earlier is None else changes_since(result, earlier)
    record = result.model_dump(mode="json") | ({} if held is None else {"against": held})
    show(as_json, "fluidb.compare-output/1", record, _text(result, held))
    if output is not None:
        note(f"wrote {output}; {reused:,} runs were kept there already")
    if picture.plot is not None:
        note(f"wrote {picture.plot}")
    if held is not None and held.worse:
        raise typer.Exit(1)


def _compare_designs(ctx: typer.Context, folders: list[str], *, as_json: bool) -> None:
    from ...formats import InputError
    from .designs import compare_designs

    if len(folders) < 2:
        raise InputError(f"{folders[0]}: expected a scenario, or two folders of designs, found one folder")
    for name, opt in typed(ctx).items():
        if name not in {"compared", "as_json"}:
            raise InputError(f"{opt}: an option with a scenario, found designs; leave it out")
    compare_designs([Path(folder) for folder in folders], as_json=as_json)


class _Column(NamedTuple):
    """The display of a figure: its heading with the unit, its scale, its digits."""

    heading: str
    scale: float
    digits: int

    def number(self, value: float, sign: str = "") -> str:
        return f"{self.scale * value:{sign}z,.{self.digits}f}"

    def mean(self, value: float, low: float | None, high: float | None, sign: str = "") -> str:
        """A mean with half the width of its interval, if it has one; an end may be cut off where a share ends."""
        half = "" if low is None or high is None else f" ±{self.number(max(high - value, value - low))}"
        return self.number(value, sign) + half


_POINTS = _Column("", 1e2, 2)
"""Differences of shares, in percentage points."""


def _column(key: str, longest_s: float) -> _Column:
    """The display of a figure: in microseconds where no latency reaches 10 ms."""
    from ...serving.figures import SHOWN_IN
    from ...studies.store import figure_of

    figure, network = figure_of(key), key.partition("[")[2].rstrip("]")
    units = {"s": ("us", 1e6) if longest_s < 0.01 else ("ms", 1e3)} | SHOWN_IN
    unit, scale = units[figure.unit]
    return _Column(" ".join(filter(None, (network, figure.heading, unit))), scale, figure.digits)


def _in_order(standings: list[tuple[PointResult, Standing]]) -> list[str]:
    """The figures that any contender has; figures of all requests stand first."""
    from ...studies.store import COMPARED

    reported = dict.fromkeys(key for _, standing in standings for key in standing.metrics)
    whole = [figure.key for figure in COMPARED if figure.key in reported]
    return whole + [key for key in reported if key not in whole]


def _longest_s(standings: list[tuple[PointResult, Standing]]) -> float:
    """The longest of the latencies that are shown; none is known where every contender drops requests."""
    return max(
        (standing.metrics["p99_latency_s"].mean for _, standing in standings if "p99_latency_s" in standing.metrics),
        default=0,
    )


def _text(comparison: Comparison, held: EarlierComparison | None) -> Iterator[str]:
    contenders = [
        (
            contender.name,
            contender.policy if contender.engine is None else f"{contender.policy} on {_engine(contender.engine)}",
        )
        for contender in comparison.contenders
    ]
    seeds = ", ".join(map(str, comparison.seeds))
    yield facts([("scenario", comparison.title), ("seeds", seeds), ("baseline", comparison.baseline), *contenders])
    for _, group in itertools.groupby(comparison.points, key=lambda point: point.case):
        yield from _case(list(group), comparison.baseline)
    if len(comparison.contenders) > 1:
        yield "*: the 95 % interval of the difference, taken seed by seed, excludes 0"
    if held is None:
        return
    how = {"paired": "seed by seed", "welch": "by Welch's interval, as the seeds differ"}
    about = {
        "against": f"{held.figures:,} figures, {how.get(held.method, held.method)}",
        "better": f"{len(held.better):,} beyond noise",
        "worse": f"{len(held.worse):,} beyond noise",
    }
    yield facts(about)
    if held.worse:
        headers = ["got worse", "SLO ms", "req/s", "figure", "earlier", "now", "difference"]
        yield table(headers, map(_worse, held.worse))


def _engine(options: dict[str, object]) -> str:
    """An NPU's options in few words."""
    weights = options["weights"]
    sizes = [b for b, weight in enumerate(weights, 1) if weight] if isinstance(weights, list) else []
    searched_for = f"weights on b = {', '.join(map(str, sizes))}" if sizes else f"all of b = 1..{options['b_max']}"
    stacking = "with stacking" if options["stacking"] else "no stacking"
    return f"{options['batching']} batching, {stacking}, searched for {searched_for}"


def _case(points: list[PointResult], baseline: str) -> Iterator[str]:
    first = points[0]
    process = "Poisson arrivals" if first.cv is None else f"gamma arrivals, CV {first.cv:g}"
    traffic = f"trace {first.trace}" if first.trace else "all wait at time 0" if first.offline else process
    if first.clients is not None:
        traffic = f"clients that wait for their answers, think time {first.think}"
    said = f"{traffic}, {counted(first.requests, 'request')} a run"
    if first.own:
        said = "of each network its own"
    where = f"{first.network} on {first.platform}"
    designs: dict[str, list[str]] = {}
    for contender in first.contenders:
        if contender.design is not None:
            designs.setdefault(str(contender.design), []).append(contender.name)
    about = {
        "case": first.case if first.case == where else f"{first.case}: {where}",
        "bandwidth": None if first.bandwidth_gb_s is None else f"{first.bandwidth_gb_s:g} GB/s",
        "traffic": said,
        **drawn(vars(first)),
    }
    yield facts([*about.items(), *((tile, ", ".join(names)) for tile, names in designs.items())])
    standings = [(point, standing) for point in points for standing in point.contenders]
    longest_s = _longest_s(standings)
    columns = {
        key: _column(key, longest_s)
        for key in _in_order(standings)
        if (first.predict_depth is not None or key != "depth_variance")  # small with predictions
        and (
            key != "early_rate"
            or any(standing.metrics[key].mean for _, standing in standings if key in standing.metrics)
        )
    }
    headings = ["SLO ms", "req/s", *(column.heading for column in columns.values())]
    figures, differences = [], []
    for point, standing in standings:
        name = (standing.name, *_where(point))
        means = ((column, standing.metrics.get(key)) for key, column in columns.items())
        figures.append(
            (*name, *("none" if it is None else column.mean(it.mean, it.low, it.high) for column, it in means))
        )
        if standing.differences is not None:
            less = ((column, standing.differences.get(key)) for key, column in columns.items())
            cells = (
                "none"
                if it is None
                else f"{column.mean(it.mean, it.low, it.high, '+')} {'*' if it.beyond_noise else ' '}"
                for column, it in less
            )
            differences.append((*name, *cells))
    yield table(["contender", *headings], figures)
    if differences:
        yield table([f"less {baseline}", *headings], differences)
        yield _leads(points)


def _leads(points: list[PointResult]) -> str:
    """Who has the fewest violations at each point, and how far the next one is."""
    rows = []
    for point in points:
        cells = ["all alike", "", ""]
        if (lead := point.lead) is not None:
            less = lead.less
            star = "*" if less.beyond_noise else " "
            cells = [lead.first, lead.second, f"{_POINTS.mean(less.mean, less.low, less.high, '+')} {star}"]
        rows.append((cells[0], *_where(point), *cells[1:]))
    return table(["fewest violations", "SLO ms", "req/s", "next", "difference, points"], rows)


def _where(point: PointResult | FigureChange) -> tuple[str, str]:
    given = "own" if getattr(point, "own", False) else "trace"
    without = "at once" if point.offline else given if point.clients is None else counted(point.clients, "client")
    slo = "own" if point.slo_s is None else f"{1e3 * point.slo_s:g}"
    return slo, without if point.rate_per_s is None else f"{point.rate_per_s:g}"


def _worse(change: FigureChange) -> tuple[str, ...]:
    longest_s = max(change.earlier, change.now) if "latency_s" in change.metric else 1.0
    column = _column(change.metric, longest_s)
    figures = column.heading, column.number(change.earlier), column.number(change.now)
    difference = column.mean(change.difference, change.low, change.high, "+")
    return f"{change.case}: {change.contender}", *_where(change), *figures, difference
