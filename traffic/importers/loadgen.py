"""Load generators: MLPerf LoadGen and Triton's perf_analyzer.

Sources
-------
https://github.com/mlcommons/inference, ``loadgen/loadgen.cc`` (``ResponseDelegateDetailed::SampleComplete``) and
``loadgen/logging.h`` (``ChromeTracer``); https://github.com/triton-inference-server/perf_analyzer, ``docs/cli.md``
(``--request-intervals``) and ``ReadTimeIntervalsFile``, which multiplies the numbers by 1000 to get nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..rows import Batch, Cells, Tally, batches, lines, parse_object, quoted
from .layout import Layout

PERF_ANALYZER = Layout("interval", "us", intervals=True)
"""The file of ``perf_analyzer --request-intervals``: whole microseconds between requests, one a line, no header.

The first request is sent after the first interval.
"""

MLPERF = Layout("ts", "us", identity="id")
"""``mlperf_log_trace.json`` of LoadGen: one event a line; a sample is issued at its scheduled time."""


def samples(tally: Tally, names: Sequence[str]) -> Iterator[Batch]:
    """Samples in ``mlperf_log_trace.json``: the events that begin one.

    LoadGen writes one event a line, with its time in microseconds and three
    decimals; an event named "Sample" of phase "b" stands at the sample's
    scheduled time, and its id is the sample's sequence number.
    """

    def rows() -> Cells:
        for number, line in enumerate(lines(tally), 1):
            if '"Sample"' not in line:
                continue
            event = parse_object(line.strip().removesuffix(","))
            if event is None:
                tally.read += 1
                tally.reject(tally.read, number, f"expected one event of LoadGen, found {quoted(line.strip())}")
            elif event.get("name") == "Sample" and event.get("ph") == "b":
                tally.read += 1
                cells = [event.get(name) for name in names]
                if not all(isinstance(cell, str) for cell in cells):
                    tally.reject(tally.read, number, f"expected the keys {' and '.join(names)}, found another event")
                elif "." not in str(event["ts"]):
                    fault = "ts: expected microseconds with decimals, as LoadGen 1.0 and newer write, "
                    tally.reject(tally.read, number, f"{fault}found {quoted(str(event['ts']))}")
                else:
                    yield tally.read, number, [str(cell) for cell in cells]

    return batches(rows(), range(len(names)))
