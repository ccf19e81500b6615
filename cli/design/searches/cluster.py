"""The search on a cluster: the rows of a network that each device computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ....dse.npu.stated import Bandwidth
from ....formats.display import as_word
from ...declare import KindOptions, option
from ...options import FolderOptions, PictureOptions, choice
from ...render import facts, ms, percent, progress, show, table
from .many import refuse_many

if TYPE_CHECKING:
    from ....dse.partition.study import Study
    from ....formats import InputError
    from ....platforms import Cluster
    from ....tables.partition import PartitionTable, RowRange, WholeStep

RULE = "How layers are fused into blocks; if not given, marginal, or the fastest rule if one device alone is faster."
DEVICES = "The first N devices; a range to sweep, e.g. 1..10; or best, the fastest subset."
BEST = "best"
HINT = "one device alone; --devices best finds the fastest subset, --rule optimal the fastest blocks"


@dataclass(frozen=True, kw_only=True)
class ClusterSearch(KindOptions):
    """The options of the search on a cluster, and the search."""

    with_: ClassVar[str] = "a cluster"

    rule: Annotated[str | None, option(RULE, "marginal|optimal|layerwise")] = None
    devices: Annotated[str | None, option(DEVICES, "N|N..N|best")] = None
    bandwidth: Bandwidth = None
    plot: Annotated[Path | None, option("Draw a sweep: .svg or .png (needs the extra plot).", "FILE")] = None

    def run(self, network: str, platform: str, written: FolderOptions) -> None:
        """Search the partition of a network over a cluster, write and print it."""
        from ....dse.partition.study import study, with_fewer
        from ....dse.partition.tabulate import PARTITION_FOLDER, write_partition
        from ....formats import InputError
        from ....models.loader import read_network_file
        from ....models.rows import cut_into_rows
        from ....plots.devices import draw_devices
        from ....tables.partition import FusionRule, PartitionOptions

        refuse_many(network, platform, "on a cluster")
        output = written.output
        picture = PictureOptions(plot=self.plot, force=written.force)
        picture.check()
        rules = [rule for rule in FusionRule if rule is not FusionRule.PAPER]
        tried = [choice(rules, self.rule, "rule")] if self.rule else [FusionRule.OPTIMAL, FusionRule.MARGINAL]
        options = PartitionOptions(rule=tried[-1])
        cluster = self._cluster(platform)
        counts = self._counts(cluster)
        if len(counts) == 1 and self.plot is not None:
            raise InputError("plot: draws a sweep, found one number of devices; write e.g. --devices 1..10")
        if len(counts) > 1 and output is not None:
            raise InputError("output: expected one number of devices, found a sweep; choose one with --devices")
        PARTITION_FOLDER.check(output, written.force)
        cut = cut_into_rows(*read_network_file(network))
        faults: dict[int, InputError] = {}
        left_out = faults.__setitem__ if len(counts) > 1 else None
        with progress("partitions") as report:
            studies = study(
                cut, cluster, options, counts, subsets=self.devices == BEST, left_out=left_out, progress=report
            )
            if self.devices is None:
                studies = [with_fewer(each, cut, cluster, tried, report) for each in studies]
        if len(counts) > 1:
            picture.write(lambda: draw_devices(studies))
            record = {"network": cut.name, "platform": cluster.name, "options": options}
            rows = [_row(studied) for studied in studies]
            rows += [{"count": count, "faults": fault.faults} for count, fault in faults.items()]
            rows.sort(key=itemgetter("count"))
            record |= {"communication": cluster.communication, "devices": rows}
            show(written.as_json, "fluidb.dse-devices-output/1", record, _sweep(studies, faults), self.plot)
            return
        chosen = studies[0].chosen
        if output is not None:
            write_partition(output, chosen, replace=written.force)
        record = {"network": cut.name, "platform": cluster.name, "options": chosen.options, **_record(studies[0])}
        then = f"fluidb serve-sim {as_word(output)} --trace FILE --slo 200ms"
        record |= {"uncut": cut.uncut, "output": output}
        show(written.as_json, "fluidb.dse-cluster-output/1", record, _text(studies[0], cut.uncut), output, then)

    def _cluster(self, name: str) -> Cluster:
        from ....formats import parse_quantity
        from ....platforms import Cluster, load_platform

        cluster = load_platform(name, kind=Cluster)
        if self.bandwidth is None:
            return cluster
        units = {"kb/s": 1e-3, "Mb/s": 1.0, "Gb/s": 1e3}
        return cluster.with_bandwidth(parse_quantity(self.bandwidth, units, "bandwidth", "100Mb/s"))

    def _counts(self, cluster: Cluster) -> list[int]:
        """Numbers of devices; for the best ones, all devices that they are chosen from."""
        from ....formats import InputError, read_number

        every = len(cluster.devices)
        if self.devices in (None, BEST):
            return [every]
        least, dots, most = str(self.devices).partition("..")
        try:
            first = read_number(least, int)
            last = read_number(most, int) if dots else first
        except ValueError:
            raise InputError(
                f'devices: expected a number, two with .. between, or best, found "{self.devices}"; e.g. 1..10'
            ) from None
        if not 1 <= first <= last <= every:
            raise InputError(
                f"devices: expected numbers from 1 to {every}, the devices of {cluster.name}, the smaller one first, "
                f"found {self.devices}"
            )
        return list(range(int(first), int(last) + 1))


def _exits(study: Study) -> list[dict[str, Any]]:
    chosen, alone = study.chosen, study.alone
    rows = zip(chosen.exits, chosen.exit_s, alone.exit_s if alone else [None] * len(chosen.exits), strict=True)
    return [{"name": row.name, "rate": row.rate, "time_s": t, "alone_s": single} for row, t, single in rows]


def _record(study: Study) -> dict[str, Any]:
    chosen = study.chosen
    return {
        "communication": chosen.cluster.communication,
        "devices": chosen.devices,
        "idle": chosen.idle,
        "average_s": chosen.average_s,
        "alone_s": study.alone and study.alone.average_s,
        "speedup": study.speedup,
        "all_devices_s": study.every.average_s,
        "communication_s": chosen.communication_s,
        "communication_bytes": chosen.communication_bytes,
        "exits": _exits(study),
        "blocks": chosen.blocks,
        "wholes": chosen.wholes,
    }


def _row(study: Study) -> dict[str, Any]:
    every = study.every
    return {
        "count": len(every.devices),
        "average_s": every.average_s,
        "exit_s": every.exit_s,
        "speedup": study.alone and study.alone.average_s / every.average_s,
        "blocks": len(every.blocks),
        "idle": every.idle,
        "communication_s": every.communication_s,
        "communication_bytes": every.communication_bytes,
    }


def _text(study: Study, uncut: Sequence[str]) -> Iterator[str]:
    chosen, cluster = study.chosen, study.chosen.cluster
    idle = ", ".join(chosen.idle)
    every = f"{ms(study.every.average_s)}, average over the exits, by the rule {study.every.options.rule}"
    share = percent(chosen.communication_s / chosen.exit_s[-1], 1)
    alone = f"{cluster.owner} cannot run it alone"
    if study.alone is not None:
        alone = f"{ms(study.alone.average_s)}; the speed-up is {study.speedup:.2f}"
    yield facts(
        {
            "network": chosen.network,
            "cluster": f"{cluster.title} ({cluster.name}), communication {cluster.communication}",
            "devices": f"{len(chosen.devices)}: {', '.join(chosen.devices)}",
            "idle": f"{idle}: no row of any block" if idle else None,
            "blocks": f"{len(chosen.blocks)}, by the rule {chosen.options.rule}" if chosen.blocks else "none",
            "not cut": "; ".join(uncut) or None,
            "time": f"{ms(chosen.average_s)}, average over the exits",
            "on all devices": None if study.subset is None else every,
            "on one device": alone,
            "faster": HINT if study.speedup is not None and study.speedup < 1 else None,
            "communication": f"{chosen.communication_bytes / 1e6:,.2f} MB, {share} of the time to the last exit",
        }
    )
    rows = [(row["name"], percent(row["rate"], 1), ms(row["time_s"]), _ms(row["alone_s"])) for row in _exits(study)]
    yield table(["exit", "samples", "time", "on one device"], rows)
    yield table(
        ["block", "stage", *_columns(chosen.devices), "computes", "sends", "time", "others wait"], _blocks(chosen)
    )


def _ms(time_s: float | None) -> str:
    return "-" if time_s is None else ms(time_s)


def _columns(names: Sequence[str]) -> list[str]:
    return [f"rows of\n{name}" for name in names]


def _blocks(chosen: PartitionTable) -> Iterator[list[str]]:
    """A line for each block, and one for layers on whole maps at the end of a stage."""
    for stage in range(1, len(chosen.exits) + 1):
        for block in chosen.blocks:
            if block.stage == stage:
                last = block.last
                spent_s = [block.compute_s[last], block.transfer_s[last], block.time_s]
                yield [block.title, str(stage), *map(_width, block.shares), *map(ms, spent_s), ms(block.mean_wait_s)]
                yield from (_whole(f"within: {gate.title}", gate, chosen.devices) for gate in block.gates)
        yield from (_whole(step.title, step, chosen.devices) for step in chosen.wholes if step.stage == stage)


def _whole(title: str, step: WholeStep, devices: Sequence[str]) -> list[str]:
    at = ["whole" if name == step.device else "" for name in devices]
    return [title, str(step.stage), *at, ms(step.compute_s), ms(step.gather_s), ms(step.time_s), ""]


def _width(share: RowRange) -> str:
    return str(share.end - share.first) if share.end > share.first else ""


def _sweep(studies: Sequence[Study], faults: Mapping[int, InputError]) -> Iterator[str]:
    first = studies[0].every
    yield facts({"network": first.network, "cluster": f"{first.cluster.title} ({first.cluster.name})"})
    headers = ["devices", "time", "speed-up", "gain", "blocks", "idle", "MB sent", "sending"]
    rows = {count: [str(count), *["-"] * (len(headers) - 1)] for count in faults}
    before = None
    for study in studies:
        every = study.every
        gain = "" if before is None else percent(1 - every.average_s / before, 1)
        before = every.average_s
        sent, share = f"{every.communication_bytes / 1e6:.2f}", percent(every.communication_s / every.exit_s[-1], 1)
        speedup = "-" if study.alone is None else f"{study.alone.average_s / every.average_s:.2f}"
        row = [str(len(every.devices)), ms(every.average_s), speedup, gain, str(len(every.blocks))]
        rows[len(every.devices)] = [*row, str(len(every.idle)), sent, share]
    yield table(headers, [row for _, row in sorted(rows.items())])
    if faults:
        yield facts({f"not on {count}": str(fault) for count, fault in faults.items()})
