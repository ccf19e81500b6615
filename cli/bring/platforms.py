"""``fluidb platforms``: the boards, devices and clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...formats.display import as_word, printable
from ..declare import argument, flat, followed, option, written
from ..names import NETWORK, PLATFORM, named
from ..options import AsJson, Force, PictureOptions, Threads
from ..render import every_fault, facts, ms, percent, progress, show, table

if TYPE_CHECKING:
    from ...platforms import Platform

PlatformName = Annotated[
    str, argument("A board, device, accelerator or cluster: a name, or a TOML file.", "PLATFORM", **named(PLATFORM))
]

app = typer.Typer(invoke_without_command=True)


@app.callback()
def listing(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List, show, check, import and measure platforms.

    Without a command, it lists the platforms that ship.
    """
    from ...platforms import KINDS, PLATFORMS, Platform, load_platform

    if followed(ctx, as_json):
        return
    known = [load_platform(name, kind=Platform) for name in PLATFORMS.names()]
    kinds = {kind: [platform for platform in known if platform.listed_as == kind.listed_as] for kind in KINDS.values()}
    record = {kind.listed_as: [_record(platform, "sources") for platform in of_kind] for kind, of_kind in kinds.items()}
    text = (table(kind.headers, [platform.row for platform in of_kind], text=True) for kind, of_kind in kinds.items())
    show(as_json, "fluidb.platforms-output/1", record, text)


@app.command("show")
def show_(platform: PlatformName, as_json: AsJson = False) -> None:
    """Show one platform: its numbers, each with its source."""
    from ...platforms import Platform, load_platform

    board = load_platform(platform, kind=Platform)
    show(as_json, "fluidb.platform-output/1", _record(board), _text(board))


@app.command()
def check(platform: PlatformName, as_json: AsJson = False) -> None:
    """Check a platform's file and list every fault in it.

    The command prints each fault with its key, and the exit code is 2. Without faults it prints
    the file's facts.
    """
    from ...platforms import Board, Platform, load_platform

    with every_fault():
        board = load_platform(platform, kind=Platform)
    record = {"file": platform, **_record(board, "sources"), "unsourced": board.unsourced}
    sources = f"no source for {', '.join(board.unsourced)}" if board.unsourced else "a source for every number"
    text = f"{printable(platform)}: no faults; {board.summary}; {sources}"
    if isinstance(board, Board):
        from ...dse.npu.resources import Supply
        from ..design.problem import not_judged

        unjudged = Supply.of(board).unjudged
        record["unjudged"], left = list(unjudged), not_judged(unjudged)
        text += f"; not judged: {left}" if left else "; every resource is judged"
    show(as_json, "fluidb.platform-check-output/1", record, [text])


@dataclass(frozen=True, kw_only=True)
class ImportedPlatform:
    """What the platform is called, and what its file does not say."""

    name: Annotated[str | None, option("Its name; the name of FILE's device if not given.")] = None
    clock: Annotated[str | None, option("Clock instead of the file's, e.g. 150MHz.", "QUANTITY")] = None
    bandwidth: Annotated[str | None, option("Bandwidth instead of the file's, e.g. 3.2GB/s.", "QUANTITY")] = None
    network: Annotated[
        str | None, option("For measured times: the network, a name or a TOML file.", **named(NETWORK))
    ] = None
    gathers: Annotated[Path | None, option("For measured times: the times of gathers, a CSV file.", "FILE")] = None

    def read(self, file: Path, output: Path) -> tuple[str, Platform, str | None]:
        """The format of a file, the platform that is to be written to another, and a CSV to be written beside it."""
        from ...dse.device.blocks import import_blocks
        from ...formats import InputError, parse_bandwidth, parse_quantity
        from ...models import load_network
        from ...platforms.detect import ATHEENA, BLOCK_TOOLS, FPGACONVNET, detect
        from ...platforms.fpgaconvnet import import_platform
        from ...platforms.measured import import_times

        form = detect(file)
        if form in {ATHEENA, FPGACONVNET}:
            for name, given in {"network": self.network, "gathers": self.gathers}.items():
                if given is not None:
                    raise InputError(f"{name}: expected with measured times only, found {file}; leave it out")
            clock, units = self.clock, {"MHz": 1.0, "GHz": 1e3}
            board = import_platform(
                file,
                name=self.name,
                clock_mhz=parse_quantity(clock, units, "clock", "150MHz") if clock else None,
                bandwidth_gb_s=parse_bandwidth(self.bandwidth) if self.bandwidth else None,
            )
            return form, board, None
        if self.network is None:
            raise InputError(
                f"{file}: expected --network, whose stages these times are of, found none; add --network NAME"
            )
        if self.clock or self.bandwidth:
            raise InputError("clock, bandwidth: measured times take neither; leave them out")
        if form in BLOCK_TOOLS:
            if self.gathers is not None:
                raise InputError(
                    f"gathers: expected with times of stages only, found {file}, a table of {form}; leave it out"
                )
            return form, *import_blocks(file, output, self.network, self.name)
        measured = load_network(self.network)
        return form, import_times(file, output, measured.name, len(measured.exits), self.name, self.gathers), None


@app.command("import")
@flat
def import_(
    file: Annotated[Path, argument("A board of another tool, or measured times.", "FILE")],
    output: Annotated[Path, written("The file to write.", "OUT.toml")],
    *,
    given: ImportedPlatform,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a board's or a device's file from another one.

    The format is recognised by what FILE holds. Boards are read from fpgaConvNet (TOML) and ATHEENA
    (JSON). Measured times become a device: by stage and batch (CSV), by load from perf_analyzer and Model
    Analyzer (CSV), or by block from Once-for-all and ProxylessNAS (YAML, JSON, CSV) and HAT (CSV;
    `fluidb docs your-own`).
    """
    from ...formats import STANDARD_OUTPUT, InputError, check_free, together, write_file
    from ...platforms.writer import platform_text

    network = given.network
    apart = [file, given.gathers, None if network is None else Path(network)]
    check_free(output, force, apart=apart)
    form, board, times = given.read(file, output)
    beside = output.with_suffix(".csv")
    if times is not None:
        if output == STANDARD_OUTPUT:
            raise InputError("output: expected a file, as the times are written beside it, found -")
        check_free(beside, force, "times of the device", apart=[*apart, output])
    with together():
        if times is not None:
            write_file(beside, times, replace=force)
        write_file(output, platform_text(board), replace=force)
    then = f"fluidb {'dse' if network is None else 'latency'} NETWORK {as_word(output)}"
    record = {"output": output, "format": form, **_record(board)}
    show(as_json, "fluidb.platform-import-output/1", record, _text(board, {"format": form}), output, then)


@app.command()
def sweep(
    output: Annotated[Path, written("The file to write.", "SWEEP.csv")],
    repeats: Annotated[int, option("Runs of each convolution; the fastest one counts.", min=1, max=10_000)] = 10,
    threads: Threads = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Measure convolutions on this machine, for `fluidb platforms fit`.

    They run in ONNX Runtime on the processor (needs the extras onnx and runtime).
    """
    from ...formats import check_free
    from ...machine.sweep import SWEEP, measure_convolutions, write_sweep

    check_free(output, force)
    with progress("convolutions") as report:
        seconds = measure_convolutions(repeats=repeats, threads=threads, progress=report)
    write_sweep(SWEEP, seconds, output, replace=force)
    done = {"output": output, "convolutions": len(SWEEP), "repeats": repeats, "threads": threads}
    text = facts({"convolutions": str(len(SWEEP)), "quickest": ms(min(seconds)), "longest": ms(max(seconds))})
    show(as_json, "fluidb.platform-sweep-output/1", done, [text], output, f"fluidb platforms fit {as_word(output)}")


@app.command()
@flat
def fit(
    file: Annotated[Path, argument("Measured convolutions (`fluidb docs edgesp`).", "SWEEP.csv")],
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Fit a cluster device's speed to measured convolutions.

    The speed is fitted by least squares, as FLOPs / rate + a fixed time of at least 0 (EdgeSP,
    Equation 2). The two numbers go into a cluster's file.
    """
    from ...machine.fit import fit_device
    from ...plots.device_fit import draw_fit

    picture.check([file])
    fitted = fit_device(file)
    picture.write(lambda: draw_fit(fitted, file.stem))
    points = [
        {**point.convolution._asdict(), "gflop": point.gflop, "measured_s": point.measured_s,
         "fitted_s": point.fitted_s, "residual_s": point.residual_s}
        for point in fitted.points
    ]  # fmt: skip
    record = {"file": file, "gflop_s": fitted.gflop_s, "layer_s": fitted.layer_s, "r2": fitted.r2, "points": points}
    about = facts(
        {
            "convolutions": str(len(points)),
            "rate": f"{fitted.gflop_s:.4g} GFLOP/s",
            "fixed time": f"{ms(fitted.layer_s)} a layer" + ("" if fitted.layer_s else ", the least allowed"),
            "R2": f"{fitted.r2:.4f}",
            "in a cluster's file": f"gflop_s = {fitted.gflop_s:.4g}, layer_s = {fitted.layer_s:.4g}",
        }
    )
    rows = [
        (
            "{}x{}, {} to {}, {}x{}".format(*point.convolution, point.convolution.kernel),
            f"{1e3 * point.gflop:,.3f}",
            ms(point.measured_s),
            ms(point.fitted_s),
            percent(point.residual_s / point.fitted_s, 1),
        )
        for point in fitted.points
    ]
    text = [about, table(["output, channels, kernel", "MFLOP", "measured", "fitted", "longer by"], rows)]
    show(as_json, "fluidb.platform-fit-output/1", record, text, picture.plot)


def _record(board: Platform, *without: str) -> dict[str, Any]:
    return board.model_dump(mode="json", exclude={"schema_", *without})


def _text(board: Platform, more: dict[str, str] | None = None) -> Iterator[str]:
    content = board.shown
    yield facts((more or {}) | {board.kind: f"{content.pop('title')} ({content.pop('name')})"})
    rows = [(key, _value(value), board.sources.get(key.rpartition(".")[2], "")) for key, value in content.items()]
    yield table(["key", "value", "source"], rows, text=True)


def _value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(f"{entry:g}" if isinstance(entry, float) else _value(entry) for entry in value)
    return "-" if value is None else str(value)
