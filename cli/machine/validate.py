"""``fluidb validate``: errors of the simulator on this machine."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..declare import argument, option, typed, written
from ..options import OF_MODELS, AsJson, PictureOptions, Slo, StageThreads, Think, clients_record, names, objective
from ..render import facts, markdown_table, ms, note, percent, progress, show, table
from .running import ModelOptions, refuse_shared

if TYPE_CHECKING:
    from ...machine.network import RealNetwork
    from ...machine.validation import TrialGrid, Validation


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """The runs that are compared, and what passes."""

    policy: Annotated[
        list[str] | None,
        option("As in serve-sim; serial, adaptb and fluid if not given. Repeatable.", "NAME[:KEY=VALUE,...]"),
    ] = None
    loads: Annotated[
        str | None,
        option("Arrival rates, as shares of what the device serves one by one; 0.3,0.6 if not given.", "P,P,..."),
    ] = None
    clients: Annotated[
        str | None, option("Numbers of clients that wait for their answers, in place of rates.", "N,N,...")
    ] = None
    think: Think = None
    repeats: Annotated[int, option("Traces of each policy at each load.")] = 11
    count: Annotated[int, option("Requests of each trace.")] = 400
    within: Annotated[
        float, option("Largest error of the mean latency with which a policy passes, as a share: 0.05 is 5 %.")
    ] = 0.05
    networks: Annotated[
        Path | None, option("A file of networks, to serve several models together; times are measured anew.", "FILE")
    ] = None

    def grid(self, seed: int) -> TrialGrid:
        """The runs as the library takes them."""
        from ...formats import InputError, parse_numbers
        from ...machine.validation import DEFAULT_POLICIES, TrialGrid
        from ...traffic.clients import Clients

        if self.clients is not None and self.loads is not None:
            raise InputError("clients: expected rates or clients, found both; leave out one of the two")
        if self.clients is None and self.think is not None:
            raise InputError(
                "think: expected --clients beside it, found none; leave it out, or state e.g. --clients 1,4"
            )
        tried = parse_numbers(self.clients, "clients", int, "1,4")
        tried = tried or parse_numbers(self.loads or "0.3,0.6", "loads", float, "0.3,0.6")
        waiting = None if self.clients is None else Clients.of(1, self.think)
        return TrialGrid(
            policies=tuple(dict.fromkeys(self.policy or DEFAULT_POLICIES)), loads=tuple(tried), repeats=self.repeats,
            count=self.count, within=self.within, clients=waiting, seed=seed,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RunOptions(ModelOptions):
    """How the networks run on this machine."""

    b_max: Annotated[int, option("Largest batch size.")] = 8
    slo: Slo = None
    threads: StageThreads = 1
    seed: Annotated[int, option("Seed of the order of the runs.")] = 0

    def validate(
        self, models: Sequence[str], networks: Path | None, grid: TrialGrid
    ) -> tuple[list[RealNetwork], Validation]:
        """Run the networks and the simulator."""
        from ...machine.validation import validate_simulator
        from ...serving.networks import as_served

        stated = None if networks is None else as_served(networks)
        running = self.run(models, self.threads)
        with progress("runs") as report:
            return running, validate_simulator(
                running, grid, networks=stated, b_max=self.b_max, slo_s=objective(self.slo), progress=report
            )


def command(
    ctx: typer.Context,
    model: Annotated[str | None, argument(OF_MODELS, "MODEL[,MODEL,...]")] = None,
    *,
    recorded: Annotated[
        Path | None, option("Compare with what `fluidb serve --record` wrote, in place of runs.", "DIR")
    ] = None,
    trial: TrialOptions,
    how: RunOptions,
    output: Annotated[Path | None, written("The folder to write: a page, its picture, every run.")] = None,
    picture: PictureOptions,
    as_json: AsJson = False,
) -> None:
    """Compare the simulator with this machine.

    Every policy serves the same traces on this machine and in the simulator,
    whose table is measured just before and after each run. The exit code is 1
    if the error of the mean latency is anywhere larger than --within. Where
    the machine is too noisy, the verdict is refused. Several networks, a.onnx,b.onnx,
    need their file (--networks) and are served together. --recorded takes the traffic that clients
    sent to `fluidb serve`, and the table that it used.
    """
    from ...formats import InputError, together

    if recorded is not None:
        if others := typed(ctx).keys() - {"recorded", "within", "as_json"}:
            raise InputError(f"recorded: expected --within and --json beside it, found {', '.join(sorted(others))}")
        _compare_recorded(recorded, trial.within, as_json)
        return
    if model is None:
        raise InputError("model: expected an ONNX file, or digits, found none; name one, or state --recorded DIR")
    from ...machine.measurement import machine
    from ...machine.validation_page import VALIDATION_FOLDER, write_validation
    from ...plots import check_picture, picture_bytes
    from ...plots.validation import draw_validation

    grid, models = trial.grid(how.seed), names(model) or []
    refuse_shared(models, "several with commas between", inputs=how.inputs, exits=how.exits)
    picture.check([how.inputs, trial.networks, output])
    if output is not None:
        VALIDATION_FOLDER.check(output, picture.force)
        check_picture(output, replace=picture.force, suffixes=None)
    running, validation = how.validate(models, trial.networks, grid)
    about = _facts(running, grid, validation, how.slo, trial.think) | {
        "answers": f"{validation.answers_wrong:,} are wrong"
        if validation.answers_wrong
        else "all as the network alone gives"
    }
    tables = _tables(validation, "load" if grid.clients is None else "clients")
    with together():
        picture.write(lambda: draw_validation(validation))
        if output is not None:
            command_line = shlex.join(["fluidb", *sys.argv[1:]])
            drawn = picture_bytes(draw_validation(validation), "svg")
            pages = [markdown_table(*block) for block in tables]
            write_validation(
                validation, about["network"], about, pages, command_line, drawn, output, replace=picture.force
            )
    text = [facts(about), *(table(*block, text=True) for block in tables)]
    if validation.refused:
        text.append(
            f"{validation.refused} of {len(validation.verdicts)} verdicts are refused: the noise of this machine "
            f"alone moves the mean latency by more than {percent(grid.within, 1)}; "
            "use an idle machine, or allow a larger error (--within)"
        )
    record = {"model": model, "machine": machine(), "runtime": running[0].runtime, "within": grid.within}
    record |= clients_record(grid.clients and list(grid.loads), trial.think)
    record["validation"] = validation
    show(as_json, "fluidb.validate-output/1", record, text, output)
    if picture.plot is not None:
        note(f"wrote {picture.plot}")
    if not validation.holds:
        raise typer.Exit(1)


def _compare_recorded(folder: Path, within: float, as_json: bool) -> None:
    """Show how far the simulator is off for the traffic of a record."""
    from ...machine.recorded import compare_recorded

    compared = compare_recorded(folder)
    rows = []
    for name in ("mean_s", "p50_s", "p95_s", "p99_s"):
        pair = [getattr(side, name) for side in (compared.real, compared.simulated)]
        rows.append((name.removesuffix("_s"), *("-" if value is None else ms(value) for value in pair)))
    for name in ("answered_rate", "in_time_rate"):
        pair = [getattr(side, name) for side in (compared.real, compared.simulated)]
        rows.append((name.removesuffix("_rate").replace("_", " "), *(percent(value, 1) for value in pair)))
    holds = compared.error is not None and abs(compared.error) <= within
    about = {
        "policy": compared.policy,
        "samples": f"{compared.samples:,}" + (f"; {compared.open:,} had not left" if compared.open else ""),
        "mean latency": "no answer to compare"
        if compared.error is None
        else f"simulator off by {100 * compared.error:+.1f} %",
    }
    record = {"recorded": folder, "within": within, "holds": holds, "error": compared.error, "comparison": compared}
    text = [facts(about), table(("figure", "server", "simulator"), rows, text=True)]
    show(as_json, "fluidb.validate-recorded-output/1", record, text)
    if not holds:
        raise typer.Exit(1)


def _facts(
    running: Sequence[RealNetwork], grid: TrialGrid, validation: Validation, slo: str | None, think: str | None
) -> dict[str, str]:
    """The machine, the networks and the traffic of a validation."""
    from ...machine.measurement import machine

    at = "at " + ", ".join(f"{rate:.1f} /s" for rate in validation.rates_per_s)
    if grid.clients is not None:
        at = f"of {', '.join(f'{number:g}' for number in grid.loads)} clients, think time {think or '0'}"
    shared = str(slo or "of each network") if validation.slo_s is None else ms(validation.slo_s)
    return {
        "machine": f"{machine()}; {running[0].runs_on}",
        "network": ", ".join(network.name for network in running),
        "traffic": f"{grid.repeats} x {grid.count:,} requests {at}; SLO {shared}",
    }


def _tables(validation: Validation, load: str) -> list[tuple[Sequence[str], Sequence[tuple[str, ...]]]]:
    """Headings and rows of the errors by load and policy, and of the orders of the policies."""
    rows = []
    for verdict in validation.verdicts:
        for error in verdict.errors:
            first = error is verdict.errors[0]
            rows.append(
                (
                    f"{verdict.load:g} {verdict.policy}" if first else "",
                    error.figure.removesuffix("_s").replace("_rate", "s"),
                    f"{100 * error.median:+.1f} % ({100 * error.least:+.1f} to {100 * error.most:+.1f})",
                    percent(error.size, 1),
                    percent(error.replayed_size, 1),
                    percent(verdict.doubt, 1) if first else "",
                    verdict.says if first else "",
                )
            )
    headings = (
        f"{load}, policy", "figure", "simulator off by", "size", "with measured runs", "machine's noise", "verdict",
    )  # fmt: skip
    ranks = [
        (f"{order.load:g}", " < ".join(order.real), " < ".join(order.simulated),
         "same" if order.real == order.simulated else "different")
        for order in validation.orders
    ]  # fmt: skip
    return [(headings, rows), ([load, "order on the machine", "in the simulator", ""], ranks)]
