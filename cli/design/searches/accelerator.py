"""The search on an accelerator: the weights that its persistent buffer keeps, and the buffer's size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ....dse.npu.stated import Bandwidth
from ....formats.display import as_word
from ...declare import KindOptions, option
from ...options import FolderOptions, choice
from ...render import facts, ms, percent, progress, show, table
from ..problem import SEARCH, BestBy, Persistent
from .many import names_of_inputs

if TYPE_CHECKING:
    from ....platforms import Accelerator
    from ....tables.subgraphs import SubGraphTable

_ARRAY = "Array of dot-product engines instead of the accelerator's; search tries all that its DSPs allow."

SHOWN = 12
"""How many sizes of a search are printed, evenly spaced."""


@dataclass(frozen=True, kw_only=True)
class AcceleratorSearch(KindOptions):
    """The options of the search on an accelerator, and the search."""

    with_: ClassVar[str] = "an accelerator"

    bandwidth: Bandwidth = None
    persistent: Persistent = None
    array: Annotated[str | None, option(_ARRAY, "K_P,C_P|search")] = None
    objective: BestBy = None
    seed: Annotated[int, option("Seed of SubGraphs that are cut at random.")] = 0

    def run(self, network: str, platform: str, written: FolderOptions) -> None:
        """Tabulate the SubNets of a SuperNet with candidates for the persistent buffer, write and print the table."""
        from ....dse.subgraphs.search import STEP_KIB, SUBGRAPHS_FOLDER, arrays_within, find_subgraphs, write_subgraphs
        from ....formats import InputError
        from ....models.supernets import load_family
        from ....tables.subgraphs import SubGraphGoal, SubGraphOptions

        output, many = written.output, [text for text in (network, platform) if len(names_of_inputs(text, "")) > 1]
        if many:
            raise InputError(
                f"{many[0]}: expected one SuperNet and one accelerator, found several; search each on its own"
            )
        SUBGRAPHS_FOLDER.check(output, written.force)
        goal = choice(SubGraphGoal, self.objective or SubGraphGoal.LATENCY, "objective")
        accelerator, options = self._accelerator(platform), SubGraphOptions(goal=goal, seed=self.seed)
        family = load_family(network)
        arrays = arrays_within(accelerator) if self.array == SEARCH else ()
        step_kib = STEP_KIB if self.persistent == SEARCH else None
        with progress("sizes") as report:
            subgraphs = find_subgraphs(family, accelerator, options, arrays=arrays, step_kib=step_kib, progress=report)
        if output is not None:
            write_subgraphs(subgraphs, output, replace=written.force)
        then = f"fluidb explain {as_word(output)}"
        record = {"output": output, **_record(subgraphs)}
        show(written.as_json, "fluidb.dse-subgraphs-output/1", record, _text(subgraphs), output, then)

    def _accelerator(self, name: str) -> Accelerator:
        from ....dse.subgraphs.search import resize
        from ....formats import InputError, parse_bandwidth, parse_numbers, parse_quantity
        from ....platforms import Accelerator, load_platform

        bandwidth = None if self.bandwidth is None else parse_bandwidth(self.bandwidth)
        accelerator, changed = load_platform(name, bandwidth, kind=Accelerator), {}
        if self.persistent not in (None, SEARCH):
            units = {"KiB": 1.0, "MiB": 1024.0, "MB": 1e6 / 1024}
            changed["persistent_kib"] = parse_quantity(str(self.persistent), units, "persistent", "1728KiB", zero=True)
        if self.array not in (None, SEARCH):
            pair = parse_numbers(self.array, "array", int, "12,12, or search")
            if len(pair) != 2:
                raise InputError(f'array: expected K_P,C_P or search, found "{self.array}"; e.g. 12,12')
            changed |= {"K_P": int(pair[0]), "C_P": int(pair[1])}
        return resize(accelerator, **changed) if changed else accelerator


def _rows(subgraph_table: SubGraphTable) -> list[dict[str, Any]]:
    """Each SubNet, with nothing resident and with the best SubGraph."""
    best = subgraph_table.best
    rows = []
    for i, member in enumerate(subgraph_table.subnets):
        empty_s, time_s = subgraph_table.time_s[i][0], subgraph_table.time_s[i][best]
        empty, moved = subgraph_table.off_chip_bytes[i][0], subgraph_table.off_chip_bytes[i][best]
        rows.append(
            {
                "name": member.name,
                "accuracy": member.accuracy,
                "bytes": member.bytes,
                "macs": member.macs,
                "empty_s": empty_s,
                "time_s": time_s,
                "time_saved": 1 - time_s / empty_s,
                "empty_off_chip_bytes": empty,
                "off_chip_bytes": moved,
                "off_chip_saved": 1 - moved / empty,
                "hit_ratio": subgraph_table.hit_ratio[i][best],
            }
        )
    return rows


def _record(subgraph_table: SubGraphTable) -> dict[str, Any]:
    best = subgraph_table.subgraphs[subgraph_table.best]
    return {
        "network": subgraph_table.supernet,
        "platform": subgraph_table.accelerator.name,
        "accelerator": subgraph_table.accelerator.model_dump(mode="json", exclude={"schema_", "sources", "title"}),
        "options": subgraph_table.options,
        "subgraphs": len(subgraph_table.subgraphs),
        "best": best.model_dump(mode="json", include={"name", "of", "cut", "bytes"})
        | {"refill_s": subgraph_table.refill_s[subgraph_table.best]},
        "accuracies": subgraph_table.accuracies,
        "subnets": _rows(subgraph_table),
        "sizes": subgraph_table.sizes,
    }


def _text(subgraph_table: SubGraphTable) -> Iterator[str]:
    chip, options = subgraph_table.accelerator, subgraph_table.options
    best = subgraph_table.subgraphs[subgraph_table.best]
    energy = chip.off_chip_pj_per_byte
    buffers = f"{chip.distinct_kib:g} KiB twice, streaming {chip.streaming_kib:g} KiB"
    source = f"common to {', '.join(best.of)}; cut: {best.cut}" if best.of else "nothing fits the buffer"
    yield facts(
        {
            "SuperNet": f"{subgraph_table.supernet}, {len(subgraph_table.subnets)} SubNets",
            "layers": f"{len(subgraph_table.layers)} that count ({options.layers})",
            "accelerator": f"{chip.title} ({chip.name}), {chip.summary}",
            "buffers": f"persistent {chip.persistent_kib:g} KiB, distinct {buffers}",
            "SubGraphs": f"{len(subgraph_table.subgraphs) - 1} that differ, and {subgraph_table.subgraphs[0].name}",
            "best": f"{best.name} for {options.goal}, {best.bytes / 1e6:.3f} MB, {source}",
            "refill": f"{ms(subgraph_table.refill_s[subgraph_table.best])} to load it",
            "accuracy": subgraph_table.accuracies.source if subgraph_table.accuracies else None,
        }
    )
    rows = []
    for row in _rows(subgraph_table):
        cells = [row["name"], percent(row["accuracy"], 1), f"{row['bytes'] / 1e6:.3f}", f"{row['macs'] / 1e9:.3f}"]
        cells += [f"{1e3 * row['empty_s']:.3f}", f"{1e3 * row['time_s']:.3f}", percent(row["time_saved"], 1)]
        cells += [f"{row['off_chip_bytes'] / 1e6:.3f}", percent(row["off_chip_saved"], 1), f"{row['hit_ratio']:.3f}"]
        cells += [] if energy is None else [f"{1e-9 * row['off_chip_bytes'] * energy:.3f}"]
        rows.append(cells)
    headers = ["SubNet", "accuracy", "MB", "GMAC", "ms, empty", f"ms, {best.name}", "less"]
    headers += ["MB off chip", "less", "hits", *(["mJ off chip"] if energy is not None else [])]
    yield table(headers, rows)
    if subgraph_table.sizes:
        yield _sizes(subgraph_table)


def _sizes(subgraph_table: SubGraphTable) -> str:
    chip, every = subgraph_table.accelerator, len(subgraph_table.sizes)
    chosen = (chip.K_P, chip.C_P, chip.persistent_kib)
    shown = {round(i * (every - 1) / (SHOWN - 1)) for i in range(SHOWN)} if every > SHOWN else set(range(every))
    rows = [
        (
            f"{size.K_P} x {size.C_P}, {size.persistent_kib:g} KiB{' (best)' if best else ''}",
            f"{size.streaming_kib:g}",
            f"{1e3 * size.time_s:.3f}",
            percent(size.saved, 1),
            f"{size.off_chip_bytes / 1e6:.3f}",
            f"{size.hit_ratio:.3f}",
        )
        for i, size in enumerate(subgraph_table.sizes)
        if (best := (size.K_P, size.C_P, size.persistent_kib) == chosen) or i in shown
    ]
    headers = ["array, persistent buffer", "streaming KiB", "mean ms", "saved", "MB off chip", "hits"]
    return table([f"{headers[0]} ({len(rows)} of {every})", *headers[1:]], rows)
