"""Load generators: MLPerf LoadGen and Triton's perf_analyzer.

Sources
-------
https://github.com/mlcommons/inference, ``loadgen/loadgen.cc`` (``ResponseDelegateDetailed::SampleComplete``) and
``loadgen/logging.h`` (``ChromeTracer``); https://github.com/triton-inference-server/perf_analyzer, ``docs/cli.md``
(``--request-intervals``) and ``ReadTimeIntervalsFile``, which multiplies the numbers by 1000 to get nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..rows import Cells, Tally, lines, parse_object, quoted
from .layout import Layout

PERF_ANALYZER = Layout("interval", "us", intervals=True)
"""The file of ``perf_analyzer --request-intervals``: whole microseconds between requests, one a line, no header.

The first request is sent after the first interval.
"""

MLPERF = Layout("ts", "us", identity="id")
"""``mlperf_log_trace.json`` of LoadGen: one event a line; a sample is issued at its scheduled time."""


def samples(tally: Tally, names: Sequence[str]) -> Cells:
    """Samples in ``mlperf_log_trace.json``: events "Sample" of phase "b", at scheduled times in microseconds."""
    for number, line in enumerate(lines(tally), 1):
        event = parse_object(line.strip().removesuffix(",")) if '"Sample"' in line else {}
        if event is None:
            fault = f"expected one event of LoadGen, found {quoted(line.strip())}"
        elif event.get("name") != "Sample" or event.get("ph") != "b":
            continue
        elif not all(isinstance(event.get(name), str) for name in names):
            fault = f"expected the keys {' and '.join(names)}, found another event"
        elif "." not in str(event["ts"]):
            expected = "expected microseconds with decimals, as LoadGen 1.0 and newer write"
            fault = f"ts: {expected}, found {quoted(str(event['ts']))}"
        else:
            fault = ""
        tally.read += 1
        if fault:
            tally.reject(tally.read, number, fault)
        elif event:
            yield tally.read, number, [str(event[name]) for name in names]
