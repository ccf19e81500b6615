"""The search on an accelerator: the weights that its persistent buffer keeps, and the buffer's size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ....dse.npu.stated import Bandwidth
from ...options import FolderOptions, KindOptions, choice, kibibytes, option
from ...render import facts, ms, percent, progress, show, table
from ..problem import SEARCH, BestBy, Persistent
from .many import names

if TYPE_CHECKING:
    from ....platforms import Accelerator
    from ....tables.subgraphs import SubGraphTable

_ARRAY = "Array of dot-product engines instead of the accelerator's; search tries all that its DSPs allow."

SHOWN = 12
"""Sizes of a search that are printed, evenly spaced."""


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
        from ....dse.subgraphs.search import (
            STEP_KIB,
            arrays_within,
            check_subgraphs_folder,
            find_subgraphs,
            write_subgraphs,
        )
        from ....formats import InputError
        from ....models.supernets import load_family
        from ....tables.subgraphs import SubGraphGoal, SubGraphOptions

        output, many = written.output, [text for text in (network, platform) if len(names(text, "")) > 1]
        if many:
            raise InputError(
                f"{many[0]}: expected one SuperNet and one accelerator, found several; search each on its own"
            )
        if output is not None:
            check_subgraphs_folder(output, replace=written.force)
        goal = choice(SubGraphGoal, self.objective or SubGraphGoal.LATENCY, "objective")
        accelerator, options = self._accelerator(platform), SubGraphOptions(goal=goal, seed=self.seed)
        family = load_family(network)
        arrays = arrays_within(accelerator) if self.array == SEARCH else ()
        step_kib = STEP_KIB if self.persistent == SEARCH else None
        with progress("sizes") as report:
            found = find_subgraphs(family, accelerator, options, arrays=arrays, step_kib=step_kib, progress=report)
        if output is not None:
            write_subgraphs(found, output, replace=written.force)
        then = f"; next: fluidb explain {output}"
        record = {"output": output, **_record(found)}
        show(written.as_json, "fluidb.dse-subgraphs-output/1", record, _text(found), output, then)

    def _accelerator(self, name: str) -> Accelerator:
        from ....dse.subgraphs.search import resize
        from ....formats import InputError, parse_bandwidth, parse_numbers
        from ....platforms import Accelerator, load_platform

        bandwidth = None if self.bandwidth is None else parse_bandwidth(self.bandwidth, "bandwidth")
        found, changed = load_platform(name, bandwidth, kind=Accelerator), {}
        if self.persistent not in (None, SEARCH):
            changed["persistent_kib"] = kibibytes(str(self.persistent), "persistent")
        if self.array not in (None, SEARCH):
            pair = parse_numbers(self.array, "array", int, "12,12, or search")
            if len(pair) != 2:
                raise InputError(f'array: expected K_P,C_P or search, found "{self.array}"; e.g. 12,12')
            changed |= {"K_P": int(pair[0]), "C_P": int(pair[1])}
        return resize(found, **changed) if changed else found


def _rows(found: SubGraphTable) -> list[dict[str, Any]]:
    """Each SubNet, with nothing resident and with the best SubGraph."""
    best = found.best
    rows = []
    for i, member in enumerate(found.subnets):
        empty_s, time_s = found.time_s[i][0], found.time_s[i][best]
        empty, moved = found.off_chip_bytes[i][0], found.off_chip_bytes[i][best]
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
                "hit_ratio": found.hit_ratio[i][best],
            }
        )
    return rows


def _record(found: SubGraphTable) -> dict[str, Any]:
    best = found.subgraphs[found.best]
    return {
        "network": found.supernet,
        "platform": found.accelerator.name,
        "accelerator": found.accelerator.model_dump(mode="json", exclude={"schema_", "sources", "title"}),
        "options": found.options,
        "subgraphs": len(found.subgraphs),
        "best": best.model_dump(mode="json", include={"name", "of", "cut", "bytes"})
        | {"refill_s": found.refill_s[found.best]},
        "accuracies": found.accuracies,
        "subnets": _rows(found),
        "sizes": found.sizes,
    }


def _text(found: SubGraphTable) -> Iterator[str]:
    chip, best, options = found.accelerator, found.subgraphs[found.best], found.options
    energy = chip.off_chip_pj_per_byte
    buffers = f"{chip.distinct_kib:g} KiB twice, streaming {chip.streaming_kib:g} KiB"
    source = f"common to {', '.join(best.of)}; cut: {best.cut}" if best.of else "nothing fits the buffer"
    yield facts(
        {
            "SuperNet": f"{found.supernet}, {len(found.subnets)} SubNets",
            "layers": f"{len(found.layers)} that count ({options.layers})",
            "accelerator": f"{chip.title} ({chip.name}), {chip.summary}",
            "buffers": f"persistent {chip.persistent_kib:g} KiB, distinct {buffers}",
            "SubGraphs": f"{len(found.subgraphs) - 1} that differ, and {found.subgraphs[0].name}",
            "best": f"{best.name} for {options.goal}, {best.bytes / 1e6:.3f} MB, {source}",
            "refill": f"{ms(found.refill_s[found.best])} to load it",
            "accuracy": found.accuracies.source if found.accuracies else None,
        }
    )
    rows = []
    for row in _rows(found):
        cells = [row["name"], percent(row["accuracy"], 1), f"{row['bytes'] / 1e6:.3f}", f"{row['macs'] / 1e9:.3f}"]
        cells += [f"{1e3 * row['empty_s']:.3f}", f"{1e3 * row['time_s']:.3f}", percent(row["time_saved"], 1)]
        cells += [f"{row['off_chip_bytes'] / 1e6:.3f}", percent(row["off_chip_saved"], 1), f"{row['hit_ratio']:.3f}"]
        cells += [] if energy is None else [f"{1e-9 * row['off_chip_bytes'] * energy:.3f}"]
        rows.append(cells)
    headers = ["SubNet", "accuracy", "MB", "GMAC", "ms, empty", f"ms, {best.name}", "less"]
    headers += ["MB off chip", "less", "hits", *(["mJ off chip"] if energy is not None else [])]
    yield table(headers, rows)
    if found.sizes:
        yield _sizes(found)


def _sizes(found: SubGraphTable) -> str:
    chip, every = found.accelerator, len(found.sizes)
    chosen = (chip.K_P, chip.C_P, chip.persistent_kib)
    shown = {round(i * (every - 1) / (SHOWN - 1)) for i in range(SHOWN)} if every > SHOWN else set(range(every))
    rows = [
        (
            f"{item.K_P} x {item.C_P}, {item.persistent_kib:g} KiB{' (best)' if best else ''}",
            f"{item.streaming_kib:g}",
            f"{1e3 * item.time_s:.3f}",
            percent(item.saved, 1),
            f"{item.off_chip_bytes / 1e6:.3f}",
            f"{item.hit_ratio:.3f}",
        )
        for i, item in enumerate(found.sizes)
        if (best := (item.K_P, item.C_P, item.persistent_kib) == chosen) or i in shown
    ]
    headers = ["array, persistent buffer", "streaming KiB", "mean ms", "saved", "MB off chip", "hits"]
    return table([f"{headers[0]} ({len(rows)} of {every})", *headers[1:]], rows)
