"""``fluidb latency``: the scheduler's table of times between exits, and the decisions that they imply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ...formats.display import as_word
from ..declare import argument, option, written
from ..names import DEVICE, NETWORK, named
from ..options import AsJson, PictureOptions, names
from ..render import folded_table, percent, show, table

if TYPE_CHECKING:
    from ...dse.device.decisions import DecisionPoint, RuleScore, SplitRule
    from ...tables import LatencyTable
    from ...tables.decisions import DecisionTable


_MANY_PAIRS = 36
"""The largest number of pairs of exits that is shown: eight exits have that many."""


def command(
    directory: Annotated[str, argument("A design's folder, or a network.", "DIR|NETWORK", **named(NETWORK))],
    device: Annotated[
        str | None, argument("A device of `fluidb platforms`, or a TOML file.", "DEVICE", **named(DEVICE))
    ] = None,
    output: Annotated[Path | None, written("With a device or cores: the folder to write.")] = None,
    cores: Annotated[
        str | None,
        option("Number of cores on one memory; for several designs or engines, one number for each.", "N[,N,...]"),
    ] = None,
    *,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Write the latency table of a design or a device.

    The table has the time between every two exits, for every batch size. latency.json goes into
    the design's folder and replaces an earlier one. With a network and a device, for which
    nothing is searched, it goes into a folder of its own (`fluidb docs your-own`). There
    decisions.json says which batches to split after some of their samples have terminated, and
    which batch sizes fill the device. --plot draws both.

    With --cores, DIR is one design or several with commas between, or DEVICE names engines of
    fixed shape: the cores share the memory of the board (`fluidb docs policies`).
    """
    from ...formats import InputError, together
    from ...tables.files import LATENCY_FILE

    text: Iterator[str] = iter(())
    more: dict[str, Any] = {}
    if cores is not None:
        if output is None or picture.plot is not None:
            raise InputError("latency: --cores expects --output and no --plot; write e.g. --cores 2 -o DIR")
        folder = output
        made = _write_cores(directory, device, cores, output, replace=picture.force)
        text = _cores(made)
        more = {"cores": made.cores}
    elif device is None:
        from ...dse.npu.latency import write_latency

        if output is not None or picture.plot is not None:
            raise InputError("latency: --output and --plot need a device or --cores; write NETWORK DEVICE -o DIR")
        folder = Path(directory)
        made = write_latency(folder)
    else:
        from ...dse.device.tabulate import tabulate_file, write_device
        from ...models.loader import read_network_file
        from ...platforms import Device, load_platform
        from ...plots.decisions import draw_decisions

        platform = load_platform(device, kind=Device)
        if output is None:
            raise InputError("latency: a device expects --output, found none; add e.g. -o DIR")
        picture.check([output])
        folder = output
        computed = tabulate_file(*read_network_file(directory), platform)
        with together():
            device_tables = write_device(computed, folder, replace=picture.force)
            picture.write(lambda: draw_decisions(*device_tables))
        made, points = device_tables.latency, device_tables.points
        text = _decisions(device_tables.decisions, points)
        more = {"decisions": {"points": list(map(_point, points)), "variants": device_tables.decisions.variants}}
    file = folder / LATENCY_FILE
    record = {"output": file, "b_max": made.b_max, "exits": made.exits, "rows": list(_rows(made))}
    then = f"fluidb serve-sim {as_word(folder)} --trace FILE --slo 200ms"
    show(as_json, "fluidb.latency-output/1", record | more, chain([_times(made)], text), file, then)


def _write_cores(directory: str, device: str | None, cores: str, output: Path, *, replace: bool) -> LatencyTable:
    """Make and write the table of several cores: of designs, or of engines."""
    from ...dse.cores import design_cores, engine_cores, tabulate_cores, write_cores
    from ...formats import InputError, parse_numbers
    from ...models.loader import read_network_file
    from ...platforms import load_platform
    from ...platforms.engine import Engine

    counts = [int(count) for count in parse_numbers(cores, "cores", int, "2 or 1,2")]
    kinds = names(directory if device is None else device) or []
    if len(counts) != len(kinds):
        raise InputError(
            f"cores: expected a number for each of {', '.join(kinds)}, found {len(counts)} numbers; write e.g. "
            f"{','.join('1' * len(kinds))}"
        )
    if device is None:
        made = tabulate_cores(design_cores(kinds, counts))
    else:
        engines = [load_platform(name, kind=Engine) for name in kinds]
        made = tabulate_cores(engine_cores(*read_network_file(directory), engines, counts))
    return write_cores(made, output, replace=replace)


def _cores(made: LatencyTable) -> Iterator[str]:
    """The cores, and how often words move."""
    assert made.cores is not None
    moving = made.cores.moving_array()
    moving_s, stage_s = (moving * made.stage_array()).sum(axis=1), made.stage_array().sum(axis=1)
    yield table(
        ["core", "number", "words move, b=1", f"b={made.b_max}"],
        [
            (name, str(made.cores.of.count(kind)), *(percent(moving_s[kind, b] / stage_s[kind, b], 1) for b in ends))
            for ends in [(1, made.b_max)]
            for kind, name in enumerate(made.cores.names)
        ],
    )
    yield f"{percent(made.cores.contention)} of a core's transfers wait while another core's transfers move."


def _rows(made: LatencyTable) -> Iterator[dict[str, Any]]:
    """Times from every exit to every later one as JSON, of the first variant without its number."""
    for variant, times_s in enumerate(made.arrays()):
        for i, j in combinations(range(len(made.exits) + 1), 2):
            pair = {"from_exit": i, "to_exit": j, "time_s": times_s[i, j, 1:].tolist()}
            yield {"variant": variant, **pair} if variant else pair


def _times(made: LatencyTable) -> str:
    """Times from exit to exit; only from the input if there are many exits, only whole passes of several variants."""
    from ...tables.files import LATENCY_FILE

    names, last = ["input", *(row.name for row in made.exits)], len(made.exits)
    batches = [b for b in range(1, made.b_max + 1) if made.b_max <= 32 or b & (b - 1) == 0 or b == made.b_max]
    pairs = [(0, last)] if made.variants > 1 else list(combinations(range(last + 1), 2))
    shown = pairs if len(pairs) <= _MANY_PAIRS else [(i, j) for i, j in pairs if i == 0]
    rows = []
    for variant, times_s in enumerate(made.arrays()):
        for i, j in shown:
            label = f"{i} {names[i]} -> {j} {names[j]}" + (f", {_variant(made, variant)}" if made.variants > 1 else "")
            rows.append((label, *(f"{1e3 * times_s[i, j, b]:.2f}" for b in batches)))
    steps = made.exits[-1].steps
    repeats = f", one of up to {steps} steps of the last stage" if steps > 1 else ""
    headers = [f"time in ms from exit to exit{repeats}", *(f"b={b}" for b in batches)]
    return folded_table(headers, rows, LATENCY_FILE, len(pairs) * made.variants)


def _variant(made: LatencyTable, number: int) -> str:
    if made.cores is not None:
        return f"core {made.cores.names[number]}"
    return f"width {made.widths[number % len(made.widths)]:g}" if made.widths else f"variant {number}"


_HEADERS = (
    "after exit", "width", "splitting pays only if", "nearest rule", "by this rule", "always split", "always pad"
)  # fmt: skip

_EXPLAINED = """\
E samples of a batch of b places have terminated. The last three columns judge ways to decide: the balanced accuracy
against Equation (1), and by how much the stages behind take longer. Every pair with 0 < E < b counts once."""


def _decisions(decisions: DecisionTable, points: Sequence[DecisionPoint]) -> Iterator[str]:
    from ...tables.decisions import spans

    if points:
        rows = []
        for point in points:
            judged = map(_judged, (point.by_rule, point.always_split, point.always_pad))
            widths = spans(point.row.variants, decisions.width_names)
            rows.append((spans(point.row.after_exits), widths, _rule(point.least), _rule(point.rule), *judged))
        yield table(_HEADERS, rows, text=True)
        yield _EXPLAINED
    filling = zip(decisions.width_names, decisions.variants, strict=True)
    yield table(
        ["width", "ideal batch", "samples/s"],
        [(name, row.ideal_batch, f"{row.samples_per_s:,.1f}") for name, row in filling],
    )


def _rule(rule: SplitRule | None) -> str:
    return "never" if rule is None else f"E >= {rule.terminated}, b >= {rule.places}"


def _judged(judged: RuleScore) -> str:
    balanced = "-" if judged.balanced is None else percent(judged.balanced, 1)
    return f"{balanced}, {percent(judged.lost, 2)}"


def _point(point: DecisionPoint) -> dict[str, Any]:
    fields = {name: value and value._asdict() for name, value in point._asdict().items() if name != "row"}
    return {"variants": point.row.variants, "after_exits": point.row.after_exits, **fields}
