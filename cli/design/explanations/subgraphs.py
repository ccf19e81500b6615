"""The explanation of a SubNet: its layers with and without a persistent buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ...options import KindOptions, PictureOptions, option
from ...render import facts, ms, percent, show, table
from . import Top

if TYPE_CHECKING:
    from ....dse.subgraphs.explanation import Roofline


@dataclass(frozen=True, kw_only=True)
class SubGraphExplainOptions(KindOptions):
    """The options of the explanation of a SubNet on an accelerator, and the explanation."""

    with_: ClassVar[str] = "SubGraphs"

    subnet: Annotated[str | None, option("SubNet to explain; the first if not given.", "NAME")] = None
    state: Annotated[str | None, option("SubGraph that is resident; the best if not given.", "NAME")] = None
    top: Top = 15

    def run(self, directory: Path, picture: PictureOptions, *, as_json: bool) -> None:
        """Explain a SubNet of a folder."""
        from ....dse.subgraphs.explanation import explain_pair
        from ....plots.subgraphs import draw_roofline
        from ....tables.subgraphs import read_subgraphs

        found = explain_pair(read_subgraphs(directory), self.subnet, self.state)
        picture.write(lambda: draw_roofline(found))
        record = {"design": directory, **_record(found)}
        show(as_json, "fluidb.explain-subgraphs-output/1", record, _text(found, self.top), picture.plot)


def _totals(found: Roofline) -> tuple[float, float]:
    """Time of a query with an empty buffer, and with the SubGraph."""
    row = found.table.time_s[found.subnet]
    return row[0], row[found.state]


def _text(found: Roofline, top: int) -> Iterator[str]:
    import numpy as np

    whole, subnet, graph = found.table, found.table.subnets[found.subnet], found.table.subgraphs[found.state]
    chip, (empty_s, time_s) = whole.accelerator, _totals(found)
    before, after = found.memory_bound(found.bytes_empty), found.memory_bound(found.bytes_resident)
    hit = whole.hit_ratio[found.subnet][found.state]
    wait = f", of which {ms(found.exposed_s)} because shared weights are fetched first" if found.exposed_s else ""
    yield facts(
        {
            "SubNet": f"{whole.supernet}:{subnet.name}, {subnet.bytes / 1e6:.3f} MB, {subnet.macs / 1e9:.3f} GMAC",
            "accelerator": f"{chip.title} ({chip.name}), {chip.summary}",
            "resident": f"{graph.name}, {graph.bytes / 1e6:.3f} MB, hit ratio {hit:.3f}",
            "empty buffer": f"{ms(empty_s)}{wait}",
            "with SubGraph": f"{ms(time_s)}, {percent(1 - time_s / empty_s)} less",
            "off chip": f"{found.bytes_empty.sum() / 1e6:.3f} MB, {found.bytes_resident.sum() / 1e6:.3f} MB with it",
            "memory-bound": f"{before.sum()} of {len(before)} layers, {after.sum()} with it",
        }
    )
    order = np.argsort(-found.empty_s, kind="stable")
    rows = [
        (
            found.layers[i],
            f"{found.macs[i]:,.0f}",
            f"{1e3 * found.compute_s[i]:.4f}",
            *(f"{moved[i] / 1e3:,.1f}" for moved in (found.bytes_empty, found.bytes_resident)),
            *(f"{1e3 * times[i]:.4f}" for times in (found.empty_s, found.resident_s)),
            _bound(bool(before[i]), bool(after[i])),
        )
        for i in order[:top].tolist()
    ]
    headers = ["layer", "MACs", "\nms to\ncompute", "kB off\nchip, empty", "with\nSubGraph", "ms,\nempty"]
    yield table([*headers, "with\nSubGraph", "bound"], rows)


def _bound(before: bool, after: bool) -> str:
    names = {True: "memory", False: "compute"}
    return names[before] if before == after else f"{names[before]} -> {names[after]}"


def _record(found: Roofline) -> dict[str, Any]:
    whole, (empty_s, time_s) = found.table, _totals(found)
    before, after = found.memory_bound(found.bytes_empty), found.memory_bound(found.bytes_resident)
    return {
        "network": whole.supernet,
        "platform": whole.accelerator.name,
        "options": whole.options,
        "subnet": whole.subnets[found.subnet].name,
        "state": whole.subgraphs[found.state].name,
        "empty_s": empty_s,
        "exposed_s": found.exposed_s,
        "time_s": time_s,
        "peak_gop_s": whole.accelerator.peak_gop_s,
        "bandwidth_gb_s": whole.accelerator.bandwidth_gb_s,
        "layers": [
            {
                "layer": name,
                "macs": found.macs[i],
                "compute_s": found.compute_s[i],
                "empty_off_chip_bytes": found.bytes_empty[i],
                "off_chip_bytes": found.bytes_resident[i],
                "empty_s": found.empty_s[i],
                "time_s": found.resident_s[i],
                "empty_memory_bound": bool(before[i]),
                "memory_bound": bool(after[i]),
            }
            for i, name in enumerate(found.layers)
        ],
    }
