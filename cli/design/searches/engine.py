"""The search of an engine's shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ....formats.display import as_word
from ...declare import KindOptions
from ...options import FolderOptions
from ...render import facts, ms, percent, show, table
from .many import refuse_many

if TYPE_CHECKING:
    from ....dse.device.shapes import ShapeSearch, ShapeTime


@dataclass(frozen=True, kw_only=True)
class EngineSearch(KindOptions):
    """The search of an engine's shape, which has no options of its own."""

    with_: ClassVar[str] = "an engine"

    def run(self, network: str, platform: str, written: FolderOptions) -> None:
        """Search the shape for one network, write and print it."""
        from ....dse.device.engine import tabulate_engine
        from ....dse.device.shapes import search_shape
        from ....dse.device.tabulate import DEVICE_FOLDER, write_device
        from ....models.loader import read_network_file
        from ....platforms import load_platform
        from ....platforms.engine import Engine

        refuse_many(network, platform, "of an engine")
        output = written.output
        DEVICE_FOLDER.check(output, written.force)
        file, path = read_network_file(network)
        search = search_shape(file, path, load_platform(platform, kind=Engine))
        if output is not None:
            best = search.best.engine
            write_device(tabulate_engine(file, path, best), output, best, replace=written.force)
        record = {
            "output": output, "network": search.network, "platform": search.given.engine.name,
            "shapes": search.compared, "given": _record(search.given), "best": _record(search.best),
        }  # fmt: skip
        then = f"fluidb serve-sim {as_word(output)} --trace FILE --slo 200ms"
        show(written.as_json, "fluidb.dse-engine-output/1", record, _text(search), output, then)


def _record(timed: ShapeTime) -> dict[str, object]:
    engine = timed.engine
    return {
        "pixels": engine.pixels, "input_channels": engine.input_channels, "output_channels": engine.output_channels,
        "macs_per_cycle": engine.macs_per_cycle, "dsps": engine.dsps, "time_s": timed.time_s, "busy": timed.busy,
    }  # fmt: skip


def _text(search: ShapeSearch) -> Iterator[str]:
    engine, given_s = search.given.engine, search.given.time_s
    yield facts(
        {
            "network": search.network,
            "engine": f"{engine.title} ({engine.name}), {engine.summary}",
            "searched": f"{search.compared:,} shapes of at most {engine.macs_per_cycle:,} MACs a cycle",
        }
    )
    rows = [
        (
            name, pair.engine.shape, f"{pair.engine.macs_per_cycle:,}", f"{pair.engine.dsps:,}", ms(pair.time_s),
            percent(pair.busy, 1), f"{100 * (pair.time_s / given_s - 1):+.1f} %",
        )
        for name, pair in (("as given", search.given), ("best", search.best))
    ]  # fmt: skip
    yield table(["shape", "pixels, input, output", "MACs", "DSPs", "an inference", "of peak", "time"], rows)
