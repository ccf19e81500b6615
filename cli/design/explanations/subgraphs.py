"""The explanation of a SubNet: its layers with and without a persistent buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ...declare import KindOptions, option
from ...options import PictureOptions
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

        roofline = explain_pair(read_subgraphs(directory), self.subnet, self.state)
        picture.write(lambda: draw_roofline(roofline))
        record = {"design": directory, **_record(roofline)}
        show(as_json, "fluidb.explain-subgraphs-output/1", record, _text(roofline, self.top), picture.plot)


def _totals(roofline: Roofline) -> tuple[float, float]:
    """Time of a query with an empty buffer, and with the SubGraph."""
    row = roofline.table.time_s[roofline.subnet]
    return row[0], row[roofline.state]


def _text(roofline: Roofline, top: int) -> Iterator[str]:
    import numpy as np

    whole = roofline.table
    subnet, graph = whole.subnets[roofline.subnet], whole.subgraphs[roofline.state]
    chip, (empty_s, time_s) = whole.accelerator, _totals(roofline)
    before, after = roofline.memory_bound(roofline.bytes_empty), roofline.memory_bound(roofline.bytes_resident)
    hit = whole.hit_ratio[roofline.subnet][roofline.state]
    wait = f", with {ms(roofline.exposed_s)} because shared weights are fetched first" if roofline.exposed_s else ""
    yield facts(
        {
            "SubNet": f"{whole.supernet}:{subnet.name}, {subnet.bytes / 1e6:.3f} MB, {subnet.macs / 1e9:.3f} GMAC",
            "accelerator": f"{chip.title} ({chip.name}), {chip.summary}",
            "resident": f"{graph.name}, {graph.bytes / 1e6:.3f} MB, hit ratio {hit:.3f}",
            "empty buffer": f"{ms(empty_s)}{wait}",
            "with SubGraph": f"{ms(time_s)}, {percent(1 - time_s / empty_s)} less",
            "off chip": f"{roofline.bytes_empty.sum() / 1e6:.3f} MB, "
            f"{roofline.bytes_resident.sum() / 1e6:.3f} MB with it",
            "memory-bound": f"{before.sum()} of {len(before)} layers, {after.sum()} with it",
        }
    )
    order = np.argsort(-roofline.empty_s, kind="stable")
    rows = [
        (
            roofline.layers[i],
            f"{roofline.macs[i]:,.0f}",
            f"{1e3 * roofline.compute_s[i]:.4f}",
            *(f"{moved[i] / 1e3:,.1f}" for moved in (roofline.bytes_empty, roofline.bytes_resident)),
            *(f"{1e3 * times[i]:.4f}" for times in (roofline.empty_s, roofline.resident_s)),
            _bound(bool(before[i]), bool(after[i])),
        )
        for i in order[:top].tolist()
    ]
    headers = ["layer", "MACs", "\nms to\ncompute", "kB off\nchip, empty", "with\nSubGraph", "ms,\nempty"]
    yield table([*headers, "with\nSubGraph", "bound"], rows)


def _bound(before: bool, after: bool) -> str:
    names = {True: "memory", False: "compute"}
    return names[before] if before == after else f"{names[before]} -> {names[after]}"


def _record(roofline: Roofline) -> dict[str, Any]:
    whole, (empty_s, time_s) = roofline.table, _totals(roofline)
    before, after = roofline.memory_bound(roofline.bytes_empty), roofline.memory_bound(roofline.bytes_resident)
    return {
        "network": whole.supernet,
        "platform": whole.accelerator.name,
        "options": whole.options,
        "subnet": whole.subnets[roofline.subnet].name,
        "state": whole.subgraphs[roofline.state].name,
        "empty_s": empty_s,
        "exposed_s": roofline.exposed_s,
        "time_s": time_s,
        "peak_gop_s": whole.accelerator.peak_gop_s,
        "bandwidth_gb_s": whole.accelerator.bandwidth_gb_s,
        "layers": [
            {
                "layer": name,
                "macs": roofline.macs[i],
                "compute_s": roofline.compute_s[i],
                "empty_off_chip_bytes": roofline.bytes_empty[i],
                "off_chip_bytes": roofline.bytes_resident[i],
                "empty_s": roofline.empty_s[i],
                "time_s": roofline.resident_s[i],
                "empty_memory_bound": bool(before[i]),
                "memory_bound": bool(after[i]),
            }
            for i, name in enumerate(roofline.layers)
        ],
    }
