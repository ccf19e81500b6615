"""The explanation of a partition: rows by device, repeated rows, and waiting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...declare import KindOptions
from ...options import DevicesFile, PictureOptions
from ...render import facts, ms, percent, show, table
from . import Layer

if TYPE_CHECKING:
    from ....dse.partition.explanation import BlockExplanation, PartitionExplanation


@dataclass(frozen=True, kw_only=True)
class PartitionExplainOptions(KindOptions):
    """The options of the explanation of a partition, and the explanation."""

    with_: ClassVar[str] = "a partition"

    layer: Layer = None
    timeline: DevicesFile = None

    def run(self, directory: Path, picture: PictureOptions, *, as_json: bool) -> None:
        """Explain the partition of a folder."""
        from ....dse.partition.explanation import explain_partition
        from ....dse.partition.schedule import alone
        from ....dse.partition.timeline import write_partition_timeline
        from ....formats import check_free, together
        from ....plots.partition import draw_partition
        from ....tables.files import TABLE_FILES
        from ....tables.partition import read_partition

        if self.timeline is not None:
            read = [directory / name for name in TABLE_FILES]
            check_free(self.timeline, picture.force, apart=[*read, picture.plot])
        explanation = explain_partition(read_partition(directory))
        chosen = None if self.layer is None else explanation.block(self.layer)
        with together():
            if self.timeline is not None:
                write_partition_timeline(
                    explanation.table, alone(explanation.table), 1, self.timeline, replace=picture.force
                )
            picture.write(lambda: draw_partition(explanation))
        record = {"partition": directory, **_record(explanation, chosen)}
        text = _text(explanation) if chosen is None else _layers(explanation, chosen)
        show(as_json, "fluidb.explain-partition-output/1", record, text, others=(picture.plot, self.timeline))


def _record(explanation: PartitionExplanation, chosen: BlockExplanation | None) -> dict[str, Any]:
    partition = explanation.table
    blocks = explanation.blocks if chosen is None else [chosen]
    return {
        "network": partition.network,
        "platform": partition.cluster.name,
        "communication": partition.cluster.communication,
        "devices": [device._asdict() for device in explanation.devices],
        "twice_share": explanation.twice_share,
        "average_s": partition.average_s,
        "exit_s": partition.exit_s,
        "blocks": [
            {
                **part.block.model_dump(mode="json", exclude={"layers"}),
                "twice_share": part.twice_share,
                "waits_for": part.waits_for,
                "wait_s": part.block.wait_s,
                "layers": [layer._asdict() for layer in part.layers],
            }
            for part in blocks
        ],
        "wholes": partition.wholes if chosen is None else [],
    }


def _text(explanation: PartitionExplanation) -> Iterator[str]:
    partition, names = explanation.table, explanation.table.devices
    end_s, sent = partition.exit_s[-1], partition.communication_bytes
    headers = [f"\n{name}" for name in names]
    yield facts(
        {
            "network": partition.network,
            "cluster": f"{partition.cluster.title} ({partition.cluster.name})",
            "blocks": f"{len(explanation.blocks)}, by the rule {partition.options.rule}"
            if partition.blocks
            else "none",
            "time": f"{ms(end_s)} to the end, {ms(partition.average_s)} on average over the exits",
            "computed twice": f"{percent(explanation.twice_share, 1)} of the rows that are computed",
            "on the links": f"{sent / 1e6:,.3f} MB, as the communication {partition.cluster.communication} counts",
        }
    )
    shares: list[tuple[object, ...]] = [
        (part.block.title, *map(_rows, part.block.shares), sum(part.block.missing_rows)) for part in explanation.blocks
    ]
    shares += [
        (step.title, *("whole" if name == step.device else "" for name in names), "") for step in partition.wholes
    ]
    yield table(["rows of the\nblock's output", *headers, "halo\nrows"], shares)
    waits: list[tuple[object, ...]] = [
        (
            part.block.title,
            percent(part.twice_share, 1),
            f"{sum(part.block.link_bytes) / 1e3:,.1f}",
            ms(part.block.time_s),
            part.waits_for,
            *(
                ms(wait_s) if end > first else "idle"
                for wait_s, (first, end) in zip(part.block.wait_s, part.block.shares, strict=True)
            ),
        )
        for part in explanation.blocks
    ]
    waits += [
        (step.title, "", f"{sum(step.sent_bytes) / 1e3:,.1f}", ms(step.time_s), step.device, *[""] * len(names))
        for step in partition.wholes
    ]
    yield table(
        ["block, and how long\neach device waits", "rows\ntwice", "\nkB", "\ntime", "all wait\nfor", *headers], waits
    )
    rows = [
        (
            device.name,
            ms(device.compute_s),
            ms(device.transfer_s),
            ms(device.idle_s),
            percent(device.compute_s / end_s, 1),
            f"{(device.link_bytes + device.sent_bytes) / 1e3:,.1f}",
        )
        for device in explanation.devices
    ]
    yield table(["device", "computes", "communicates", "idle", "computes", "kB on its link"], rows)


def _layers(explanation: PartitionExplanation, chosen: BlockExplanation) -> Iterator[str]:
    block = chosen.block
    yield facts(
        {
            "block": f"{block.title}, in stage {block.stage}{', in the branch' if block.in_branch else ''}",
            "reads": f"{block.source}, {block.source_height} rows",
            "time": f"{ms(block.time_s)}; all wait for {chosen.waits_for}",
        }
    )
    lines: list[tuple[object, ...]] = [
        (f"{block.source}: held", "", "", *map(_rows, block.held)),
        (f"{block.source}: needed", "", "", *map(_rows, block.needed)),
    ]
    lines += [(layer.name, layer.height, layer.twice, *map(_rows, layer.rows)) for layer in chosen.layers]
    yield table(["rows of", "height", "twice", *explanation.table.devices], lines)


def _rows(rows: tuple[int, int]) -> str:
    """Rows as text, the last one included."""
    first, end = rows
    return "" if end <= first else str(first) if end == first + 1 else f"{first}-{end - 1}"
