"""The explanation of a partition: rows by device, repeated rows, and waiting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...options import DevicesFile, KindOptions, PictureOptions
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
        from ....tables.latency import TABLE_FILES
        from ....tables.partition import read_partition

        if self.timeline is not None:
            read = [directory / name for name in TABLE_FILES]
            check_free(self.timeline, picture.force, apart=[*read, picture.plot])
        found = explain_partition(read_partition(directory))
        chosen = None if self.layer is None else found.block(self.layer)
        with together():
            if self.timeline is not None:
                write_partition_timeline(found.table, alone(found.table), 1, self.timeline, replace=picture.force)
            picture.write(lambda: draw_partition(found))
        record = {"partition": directory, **_record(found, chosen)}
        text = _text(found) if chosen is None else _layers(found, chosen)
        show(as_json, "fluidb.explain-partition-output/1", record, text, others=(picture.plot, self.timeline))


def _record(found: PartitionExplanation, chosen: BlockExplanation | None) -> dict[str, Any]:
    partition = found.table
    blocks = found.blocks if chosen is None else [chosen]
    return {
        "network": partition.network,
        "platform": partition.cluster.name,
        "communication": partition.cluster.communication,
        "devices": [item._asdict() for item in found.devices],
        "twice_share": found.twice_share,
        "average_s": partition.average_s,
        "exit_s": partition.exit_s,
        "blocks": [
            {
                **item.block.model_dump(mode="json", exclude={"layers"}),
                "twice_share": item.twice_share,
                "waits_for": item.waits_for,
                "wait_s": item.block.wait_s,
                "layers": [layer._asdict() for layer in item.layers],
            }
            for item in blocks
        ],
    }


def _text(found: PartitionExplanation) -> Iterator[str]:
    partition, names = found.table, found.table.devices
    end_s, sent = partition.exit_s[-1], partition.communication_bytes
    headers = [f"\n{name}" for name in names]
    yield facts(
        {
            "network": partition.network,
            "cluster": f"{partition.cluster.title} ({partition.cluster.name})",
            "blocks": f"{len(found.blocks)}, by the rule {partition.options.rule}",
            "time": f"{ms(end_s)} to the end, {ms(partition.average_s)} on average over the exits",
            "computed twice": f"{percent(found.twice_share, 1)} of the rows that are computed",
            "on the links": f"{sent / 1e6:,.3f} MB, as the communication {partition.cluster.communication} counts",
        }
    )
    shares = [(item.block.title, *map(_rows, item.block.shares), sum(item.block.missing_rows)) for item in found.blocks]
    yield table(["rows of the\nblock's output", *headers, "halo\nrows"], shares)
    waits = [
        (
            item.block.title,
            percent(item.twice_share, 1),
            f"{sum(item.block.link_bytes) / 1e3:,.1f}",
            ms(item.block.time_s),
            item.waits_for,
            *(
                ms(wait_s) if end > first else "idle"
                for wait_s, (first, end) in zip(item.block.wait_s, item.block.shares, strict=True)
            ),
        )
        for item in found.blocks
    ]
    yield table(
        ["block, and how long\neach device waits", "rows\ntwice", "\nkB", "\ntime", "all wait\nfor", *headers],
        waits,
    )
    rows = [
        (
            item.name,
            ms(item.compute_s),
            ms(item.transfer_s),
            ms(item.idle_s),
            percent(item.compute_s / end_s, 1),
            f"{(item.link_bytes + item.sent_bytes) / 1e3:,.1f}",
        )
        for item in found.devices
    ]
    yield table(["device", "computes", "communicates", "idle", "computes", "kB on its link"], rows)


def _layers(found: PartitionExplanation, chosen: BlockExplanation) -> Iterator[str]:
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
    lines += [(item.name, item.height, item.twice, *map(_rows, item.rows)) for item in chosen.layers]
    yield table(["rows of", "height", "twice", *found.table.devices], lines)


def _rows(rows: tuple[int, int]) -> str:
    """Rows as text, the last one included."""
    first, end = rows
    return "" if end <= first else str(first) if end == first + 1 else f"{first}-{end - 1}"
