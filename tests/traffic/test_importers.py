"""Importers: each format against arrivals computed by hand, every fault a clear line, the way on to a simulation."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from builders import DATA, ROOT, Run, blocks, lines, run_shell
from fluidb.formats import InputError
from fluidb.traffic import read_trace, write_trace
from fluidb.traffic import rows as rows_module
from fluidb.traffic.importers import IMPORTERS, ImportedTrace, ImportOptions, import_trace
from fluidb.traffic.randomness import ARRIVALS, stream
from hypothesis import given
from hypothesis import strategies as st

AZURE = DATA / "azure-llm-2023.csv"
AT = {"arrival": "at"}
SECONDS = ImportOptions(AT, "s")
ALL = ImportOptions(AT | {"id": "id", "slo": "slo", "exit": "exit"}, "s")
AZURE_LLM, CALLS_2019, CALLS_2021 = "azure-llm-2023", "azure-functions-2019", "azure-functions-2021"
LLM = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def made_of(
    folder: Path, name: str, text: str | bytes, options: ImportOptions | None = None, **more: bool
) -> ImportedTrace:
    path = folder / "f"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return import_trace(name, path, options, **more)


def arrivals(folder: Path, name: str, text: str, options: ImportOptions | None = None) -> list[float]:
    return list(made_of(folder, name, text, options).trace.arrival_s)


# each format, by hand


def test_the_azure_trace_against_its_own_digits():
    """Time zero is 18:17:03.9799600; the next rows by hand, and all of them in decimal arithmetic."""
    made = import_trace("azure-llm-2023", AZURE)
    assert made.trace.arrival_s[:5].tolist() == [0.0, 0.052, 0.098189, 0.140684, 0.444994]
    stamps = [line.split(b",")[0].decode().split(" ")[1].split(":") for line in AZURE.read_bytes().splitlines()[1:]]
    seconds = [int(h) * 3600 + int(m) * 60 + Decimal(s) for h, m, s in stamps]
    assert made.trace.arrival_s.tolist() == [float(s - seconds[0]) for s in seconds]
    assert made.trace.request_id.tolist() == list(range(50))
    tally = made.tally
    assert (tally.read, tally.kept, tally.blank, tally.bad, made.rows_out_of_order) == (50, 50, 0, 0, 0)
    assert made.time_zero == "2023-11-16T18:17:03.979960000Z"
    assert made.time_zero_s == pytest.approx(1700158623.97996, abs=1e-6)


def test_the_azure_trace_of_2024_names_its_zone(tmp_path):
    text = "2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:01+00:00,1,2\n"
    assert arrivals(tmp_path, "azure-llm-2023", LLM + text) == [0.0, 0.99007]


def test_azure_functions_2021_arrive_before_they_end(tmp_path):
    """Ends 10, 12, 13 less 1, 9, 2: arrivals 9, 3, 11; sorted, the first at 0."""
    text = "app,func,end_timestamp,duration\na,f,10.0,1.0\na,g,12,9\nb,f,13.0,2\n"
    made = made_of(tmp_path, "azure-functions-2021", text)
    assert made.trace.arrival_s.tolist() == [0.0, 6.0, 8.0]
    assert (made.time_zero_s, made.rows_out_of_order) == (3, 1)


def test_azure_functions_2021_with_the_digits_it_is_published_with(tmp_path):
    """The publisher's sample: 5160.142570018768 - 0.134 and 5161.280997037888 - 0.013."""
    text = "app,func,end_timestamp,duration\na,f,5160.142570018768,0.134\nb,g,5161.280997037888,0.013\n"
    assert arrivals(tmp_path, "azure-functions-2021", text) == pytest.approx([0, 1.25942701912], abs=1e-11)


def minutes_file(counts: list[list[int]], minutes: int = 1440) -> str:
    header = ["HashOwner", "HashApp", "HashFunction", "Trigger", *(str(i + 1) for i in range(minutes))]
    rows = [["o", "a", f"f{i}", "http", *map(str, row + [0] * (minutes - len(row)))] for i, row in enumerate(counts)]
    return "\n".join(",".join(row) for row in [header, *rows]) + "\n"


def test_azure_functions_2019_keep_their_counts_by_minute(tmp_path):
    """Functions with 3, 0, 2 and 1, 0, 0, 4 invocations: minutes with 4, 0, 2, 4, whatever the seed."""
    text = minutes_file([[3, 0, 2], [1, 0, 0, 4]])
    found = []
    for seed in (None, 0, 1):
        made = made_of(tmp_path, "azure-functions-2019", text, ImportOptions(seed=seed))
        clock = made.trace.arrival_s + made.time_zero_s
        assert np.bincount((clock // 60).astype(int)).tolist() == [4, 0, 2, 4]
        assert (made.trace.arrival_s[0], made.tally.read, made.tally.kept, len(made.trace)) == (0.0, 2, 2, 10)
        found.append(made)
    assert found[0].trace.arrival_s.tolist() == found[1].trace.arrival_s.tolist()
    assert found[1].trace.arrival_s.tolist() != found[2].trace.arrival_s.tolist()
    assert [made.seed for made in found] == [0, 0, 1]


def test_azure_functions_2019_arrive_uniformly_within_the_minute(tmp_path):
    """Moments of the uniform distribution, and none of the numbers that make Poisson arrivals of the same seed."""
    count = 40_000
    made = made_of(tmp_path, "azure-functions-2019", minutes_file([[0, count]], 2), ImportOptions(seed=7))
    within = (made.trace.arrival_s + made.time_zero_s) / 60 - 1
    assert (within.min() >= 0, within.max() < 1) == (True, True)
    for power in (1, 2, 3, 4):
        spread = np.sqrt((1 / (2 * power + 1) - 1 / (power + 1) ** 2) / count)
        assert np.mean(within**power) == pytest.approx(1 / (power + 1), abs=4 * spread)
    assert not np.allclose(within, np.sort(stream(7, ARRIVALS).random(count)))


def test_azure_functions_2019_may_be_cut_to_its_first_minutes(tmp_path):
    assert len(made_of(tmp_path, "azure-functions-2019", minutes_file([[1, 2]], 2)).trace) == 3


@pytest.mark.parametrize(
    "header",
    ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
     "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"],
)  # fmt: skip
def test_burstgpt_counts_from_its_first_midnight_and_keeps_failures(tmp_path, header):
    """Rows at 5, 45 and 118 s; the second got no response."""
    other = ["" for _ in header.split(",")[1:]]
    text = "\n".join([header, *(",".join([at, *other]) for at in ("5", "45.0", "118"))])
    made = made_of(tmp_path, "burstgpt", text)
    assert made.trace.arrival_s.tolist() == [0.0, 40.0, 113.0]
    assert made.time_zero == "5 s in the file"


def test_the_time_zero_of_a_log_since_1970_is_said_to_its_parts(tmp_path):
    """In nine digits it would be the same for two logs of one clock."""
    text = '{"t": 1700000000123.25}\n{"t": 1700000000923}\n'
    made = made_of(tmp_path, "jsonl", text, ImportOptions({"arrival": "t"}, "ms"))
    assert made.time_zero == "1,700,000,000.12325 s in the file"


def test_vidur_is_in_seconds(tmp_path):
    """Rows of its splitwise_code.csv, which is the Azure trace above: the same arrivals."""
    text = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
    text += "0.0,4808,10\n0.052,3180,8\n0.098189,110,27\n0.140684,7433,14\n"
    assert arrivals(tmp_path, "vidur", text) == import_trace("azure-llm-2023", AZURE).trace.arrival_s[:4].tolist()


def test_perf_analyzer_waits_microseconds_before_each_request(tmp_path):
    """Requests at 1500, 1500 and 4000 us of its clock; the first becomes 0."""
    made = made_of(tmp_path, "perf-analyzer", "1500\n0\n2500\n")
    assert made.trace.arrival_s.tolist() == [0.0, 0.0, 0.0025]
    assert made.time_zero_s == 0.0015


def loadgen_log(*samples: tuple[int, str]) -> str:
    """What LoadGen's ChromeTracer prints: samples as they complete, among other events."""
    lines = ['{"traceEvents":[']
    for number, scheduled in samples:
        arguments = (
            f'"sample_seq":{number},"query_seq":{number},"sample_idx":3,"issue_start_ns":2100,"complete_ns":5400000'
        )
        lines += [
            f'{{"name":"IssueQuery","ph":"X","pid":7,"tid":8,"ts":{scheduled},"dur":1.250,"args":{{}}}},',
            f'{{"name":"Sample","cat":"default","ph":"b","pid":7,"id":{number},"ts":{scheduled},"args":{{{arguments}}}}},',
            f'{{"name":"Sample","cat":"default","ph":"e", "pid":7,"id":{number},"ts":9{scheduled}}},',
        ]
    return "\n".join(
        [*lines, '{"name":"LastTrace"}', "],", '"displayTimeUnit":"ns",', '"otherData":{', '"ts":5.000', "}", "}"]
    )


def test_mlperf_samples_arrive_as_scheduled_not_as_completed(tmp_path):
    """Sample 1 completes before sample 0; scheduled at 2000.125 and 1000.000 us."""
    made = made_of(tmp_path, "mlperf", loadgen_log((1, "2000.125"), (0, "1000.000"), (5, "2000.125")))
    assert made.trace.arrival_s.tolist() == [0.0, 0.001000125, 0.001000125]
    assert made.trace.request_id.tolist() == [0, 1, 5]
    assert (made.tally.read, made.tally.kept, made.rows_out_of_order, made.ids) == (3, 3, 1, "from the file")


@pytest.mark.parametrize(
    ("unit", "first", "second"),
    [("s", "1700000000.5", "1700000001.75"), ("ms", "1700000000500", "1700000001750"), ("us", "5e5", "1.75e6"),
     ("ns", "1700000000500000000", "1700000001750000000"),
     ("iso", "2023-11-16T23:59:59.5Z", "2023-11-17 01:00:00.750+01:00")],
)  # fmt: skip
def test_csv_in_every_unit(tmp_path, unit, first, second):
    """1.25 s apart; a day's end and zones included. The objective, 20 ms, is in the same unit, seconds with iso."""
    slo = {"s": "0.02", "ms": "20", "us": "2e4", "ns": "20000000", "iso": "0.02"}[unit]
    text = f'who; "at"; slo; id; exit\nx;{second};{slo}; 3;2\n"y;z";{first};{slo};9;1\n'
    options = ImportOptions(ALL.columns, unit, delimiter=";")
    trace = made_of(tmp_path, "csv", text, options).trace
    assert trace.arrival_s.tolist() == [0.0, 1.25]
    assert trace.request_id.tolist() == [9, 3]
    assert trace.exits is not None
    assert trace.exits.tolist() == [1, 2]
    assert trace.slo_s is not None
    assert trace.slo_s.tolist() == [0.02, 0.02]


def test_jsonl(tmp_path):
    """Numbers, numbers as text, keys of other requests' own, blank lines at the end."""
    text = '{"at": 7.25, "prompt": "a\\nb", "slo": 0.5}\n{"slo": "1", "at": "7"}\r\n\n'
    made = made_of(tmp_path, "jsonl", text, ImportOptions(AT | {"slo": "slo"}, "s"))
    assert made.trace.arrival_s.tolist() == [0.0, 0.25]
    assert made.trace.slo_s is not None
    assert made.trace.slo_s.tolist() == [1.0, 0.5]
    assert (made.tally.read, made.tally.kept, made.tally.blank) == (3, 2, 1)


def test_jsonl_may_have_keys_twice_that_nobody_reads(tmp_path):
    assert arrivals(tmp_path, "jsonl", '{"at":1,"a":1,"a":2}\n{"at":2,"b":{"at":1,"at":2}}\n', SECONDS) == [0.0, 1.0]


def test_objectives_have_a_unit_of_their_own_where_arrivals_are_timestamps(tmp_path):
    text = "at,slo\n2024-05-10T08:00:00Z,200\n2024-05-10T08:00:01Z,50\n"
    for unit, seconds in ((None, [200.0, 50.0]), ("s", [200.0, 50.0]), ("ms", [0.2, 0.05]), ("us", [2e-4, 5e-5])):
        made = made_of(tmp_path, "csv", text, ImportOptions(AT | {"slo": "slo"}, "iso", slo_unit=unit))
        assert made.trace.slo_s is not None
        assert made.trace.slo_s.tolist() == pytest.approx(seconds, rel=1e-12)
    made = made_of(tmp_path, "csv", "at,slo\n1,5\n", ImportOptions(AT | {"slo": "slo"}, "s", slo_unit="ms"))
    assert made.trace.slo_s is not None
    assert made.trace.slo_s.tolist() == [0.005]


def test_a_tab_between_columns(tmp_path):
    for delimiter in ("\t", r"\t"):
        assert arrivals(tmp_path, "csv", "at\tx\n1\t2\n4\t2\n", ImportOptions(AT, "s", delimiter=delimiter)) == [
            0.0,
            3.0,
        ]


# what holds of every file


def test_times_are_exact_to_the_nanosecond_however_far_from_1970(tmp_path):
    assert arrivals(tmp_path, "csv", "at\n1700000000000000001\n1700000000000000002\n", ImportOptions(AT, "ns")) == [
        0,
        1e-9,
    ]
    assert arrivals(tmp_path, "csv", "at\n1700000000.1\n1700000000.123456789\n", SECONDS) == [0, 0.023456789]
    assert arrivals(tmp_path, "csv", "at\n0.1\n0.30000000000001\n", SECONDS) == pytest.approx(
        [0, 0.20000000000001], abs=1e-16
    )


@given(
    st.lists(st.decimals(-(10**6), 10**6, places=6), min_size=1, max_size=12),
    st.sampled_from([("s", 1), ("ms", 10**3), ("us", 10**6)]),
    st.integers(1, 5),
)
def test_against_exact_arithmetic_for_any_size_of_batch(tmp_path_factory, times, unit, batch):
    """Differences as fractions, in a stable order; six decimals of a microsecond are beyond what is kept exactly."""
    name, per_second = unit
    ordered = sorted(range(len(times)), key=lambda i: (times[i], i))
    expected = [Fraction(times[i] - times[ordered[0]]) / per_second for i in ordered]
    text = "at,id\n" + "".join(f"{time},{i}\n" for i, time in enumerate(times))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "BATCH", batch)
        trace = made_of(tmp_path_factory.mktemp("i"), "csv", text, ImportOptions(AT | {"id": "id"}, name)).trace
    error = 0.0 if name != "us" else 4e-16
    assert trace.arrival_s.tolist() == pytest.approx([float(item) for item in expected], rel=0, abs=error)
    assert trace.request_id.tolist() == ordered


def test_numbers_with_finer_digits_meet_exact_ones_in_another_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "BATCH", 1)
    assert arrivals(tmp_path, "csv", "at\n1\n2.5\n1e1\n", SECONDS) == [0.0, 1.5, 9.0]
    text = "app,func,end_timestamp,duration\na,f,1,5e-1\na,f,2,1\n"
    assert arrivals(tmp_path, "azure-functions-2021", text) == [0.0, 0.5]


def test_equal_arrivals_keep_the_order_of_the_file(tmp_path):
    made = made_of(tmp_path, "csv", "at,id\n2,7\n1,5\n1,4\n2,6\n", ImportOptions(AT | {"id": "id"}, "s"))
    assert made.trace.request_id.tolist() == [5, 4, 7, 6]
    assert made.rows_out_of_order == 2


def test_zones_are_taken_off(tmp_path):
    stamps = ["2024-03-31T02:30:00+02:00", "2024-03-31 00:30:01Z", "2024-03-30T19:00:02-0530", "2024-03-31T00:30:03"]
    assert arrivals(tmp_path, "csv", "\n".join(["at", *stamps]), ImportOptions(AT, "iso")) == [0.0, 1.0, 2.0, 3.0]


def test_no_clock_changes_and_no_leap_seconds(tmp_path):
    """Where a zone's clocks skip an hour UTC's do not; 2016 ended with a leap second that is not counted."""
    text = "at\n2024-03-31 01:59:59\n2024-03-31 03:00:00\n"
    assert arrivals(tmp_path, "csv", text, ImportOptions(AT, "iso")) == [0.0, 3601.0]
    text = "at\n2016-12-31 23:59:59\n2017-01-01 00:00:00\n"
    assert arrivals(tmp_path, "csv", text, ImportOptions(AT, "iso")) == [0.0, 1.0]


def test_what_a_spreadsheet_writes_is_read(tmp_path):
    """A byte order mark, carriage returns, quotes with line breaks and separators in them, rows of nothing."""
    text = b'\xef\xbb\xbf"at", note\r\n" 1 ","a\r\nb, c"\r\n,\r\n\r\n3,\r\n'
    made = made_of(tmp_path, "csv", text, SECONDS)
    assert made.trace.arrival_s.tolist() == [0.0, 2.0]
    assert (made.tally.read, made.tally.kept, made.tally.blank) == (4, 2, 2)


def test_bad_rows_are_left_out_on_request_and_the_first_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "BATCH", 2)
    text = "at,slo\n1,1\n2,-1\n\n3\nsoon,-1\n5,1\n"
    made = made_of(tmp_path, "csv", text, ImportOptions(AT | {"slo": "slo"}, "s"), skip_bad=True)
    assert made.trace.arrival_s.tolist() == [0.0, 4.0]
    assert made.trace.request_id.tolist() == [0, 1]
    assert (made.tally.read, made.tally.kept, made.tally.blank, made.tally.bad) == (6, 2, 1, 3)
    assert made.tally.first_bad == 'row 2 (line 3): slo: expected seconds, above 0, at most 1e+10 s, found "-1"'


@pytest.mark.parametrize("name", ["azure-llm-2023", "mlperf"])
def test_what_was_imported_is_read_back(tmp_path, name):
    path = AZURE if name == "azure-llm-2023" else tmp_path / "log"
    if name == "mlperf":
        path.write_text(loadgen_log((2, "1.500"), (1, "1.000")))
    trace = import_trace(name, path).trace
    write_trace(trace, tmp_path / "t.csv")
    back = read_trace(tmp_path / "t.csv")
    assert back.arrival_s.tolist() == trace.arrival_s.tolist()
    assert back.request_id.tolist() == trace.request_id.tolist()


# faults

CALLS = "app,func,end_timestamp,duration\n"
HEAD = "at,id,slo,exit\n"
FAR = "\n".join(["Timestamp", *(str(i) for i in range(-6 * 10**9, 6 * 10**9, 10**7))])  # 64 bits of ns are too few
FAULTS: dict[str, tuple[str, ImportOptions | None, str | bytes, str]] = {
    "empty": (AZURE_LLM, None, "", "expected a header, found an empty file"),
    "empty jsonl": ("jsonl", SECONDS, "", "expected at least one request, found no rows"),
    "empty intervals": ("perf-analyzer", None, "", "expected at least one request, found no rows"),
    "no samples": ("mlperf", None, '{"traceEvents":[\n', "expected at least one request, found no rows"),
    "blank header": ("vidur", None, "\n1\n", "expected a header, found a blank line"),
    "header only": ("vidur", None, "arrived_at\n", "expected at least one request, found no rows"),
    "blank rows only": ("vidur", None, "arrived_at\n\n\n", r"found 2 rows \(2 blank, 0 bad\)"),
    "missing column": ("vidur", None, "arrived,x\n1,2\n", 'header: expected a column "arrived_at", found arrived, x'),
    "column twice": ("vidur", None, "arrived_at,arrived_at\n1,2\n", 'header: column "arrived_at" stands twice'),
    "wrong encoding": (AZURE_LLM, None, LLM.encode("utf-16"), "expected UTF-8 text, found byte 0xff"),
    "latin-1": ("csv", SECONDS, b"at,who\n1,M\xfcller\n", "expected UTF-8 text, found byte 0xfc"),
    "nul in a time": ("csv", SECONDS, "at\n1\n2\0\n", r'row 2 \(line 3\): at: expected a time in seconds.*found "2'),
    "nul in a header": ("csv", SECONDS, "a\0t\n1\n", 'expected a column "at"'),
    "open quote": ("csv", SECONDS, 'at\n1\n"2\n', "line 3: expected CSV"),
    "giant field": ("csv", SECONDS, f"at\n{'9' * 200_000}\n", "expected CSV"),
    "ragged": (AZURE_LLM, None, f"{LLM}1\n", r"row 1 \(line 2\): expected 3 values, found 1"),
    "no timestamp": (AZURE_LLM, None, f"{LLM}soon,1,2\n", r'row 1 \(line 2\): TIMESTAMP: .*found "soon"'),
    "no such month": (AZURE_LLM, None, f"{LLM}2023-13-01 00:00:00,1,2\n", 'row 1 .*found "2023-13-01'),
    "no such day": (AZURE_LLM, None, f"{LLM}2023-02-29 00:00:00,1,2\n", 'row 1 .*found "2023-02-29'),
    "leap second": (AZURE_LLM, None, f"{LLM}2016-12-31 23:59:60,1,2\n", 'row 1 .*found "2016-12-31'),
    "distant year": (AZURE_LLM, None, f"{LLM}2262-12-31 23:59:50,1,2\n", "of the years 1900 to 2099"),
    "now": (AZURE_LLM, None, f"{LLM}now,1,2\n", 'TIMESTAMP: .*found "now"'),
    "date only": (AZURE_LLM, None, f"{LLM}2023-11-16,1,2\n", "TIMESTAMP: expected a timestamp like"),
    "no such zone": (AZURE_LLM, None, f"{LLM}2023-11-16 00:00:00+0199,1,2\n", "TIMESTAMP: expected"),
    "negative duration": (CALLS_2021, None, f"{CALLS}a,b,5,-1\n", r"row 1 .*duration: expected seconds, not"),
    "endless duration": (CALLS_2021, None, f"{CALLS}a,b,5,1e9\n", r"row 1 .*duration: expected .*1e\+08 s"),
    "no duration": (CALLS_2021, None, f"{CALLS}a,b,5,\n", r"row 1 .*duration: .*found nothing"),
    "two faults in a row": (CALLS_2021, None, f"{CALLS}a,b,x,-1\n", r'end_timestamp: .*found "x"; mend it'),
    "absurd gap": ("vidur", None, "arrived_at\n0\n1e9\n", r"lines 2 and 3: expected at most 1e\+08 s .*1e\+09 s"),
    "a zero among dates": ("csv", SECONDS, "at\n1700000000\n0\n", r"lines 3 and 2: .* found 1.7e\+09 s; .*unit wrong"),
    "milliseconds as seconds": ("csv", SECONDS, "at\n1700000000000\n", r"expected a time in seconds, at most 1e\+10 s"),
    "nan": ("csv", SECONDS, "at\n1\nnan\n", 'row 2 .*found "nan"'),
    "infinite": ("csv", SECONDS, "at\ninf\n", 'row 1 .*found "inf"'),
    "overflowing": ("csv", SECONDS, "at\n1e999\n", 'row 1 .*found "1e999"'),
    "endless digits": ("csv", SECONDS, f"at\n{'9' * 6000}\n", 'row 1 .*found "999'),
    "underscore": ("csv", SECONDS, "at\n1\n1_0\n", 'row 2 .*found "1_0"'),
    "underscore among words": ("csv", SECONDS, "at\nx\n1_0\n", 'row 1 .*found "x" \\(and 1 more row\\)'),
    "a dot": ("csv", SECONDS, "at\n.\n", r'row 1 .*found "\."'),
    "id twice": ("csv", ALL, f"{HEAD}1,5,1,1\n2,6,1,1\n3,5,1,1\n", "line 4: expected a new id, found 5"),
    "id no number": ("csv", ALL, f"{HEAD}1,a,1,1\n", 'id: expected a whole number >= 0, found "a"'),
    "id too large": ("csv", ALL, f"{HEAD}1,{2**63},1,1\n", "id: expected a whole number >= 0, found"),
    "id with underscore": ("csv", ALL, f"{HEAD}1,1_0,1,1\n", 'id: expected a whole number >= 0, found "1_0"'),
    "no objective": ("csv", ALL, f"{HEAD}1,1,0,1\n", 'slo: expected seconds, above 0, .*found "0"'),
    "exit zero": ("csv", ALL, f"{HEAD}1,1,1,0\n", "exit: expected an exit, counted from 1"),
    "fractional exit": ("csv", ALL, f"{HEAD}1,1,1,1.5\n", "exit: expected an exit, counted from 1"),
    "fractional interval": ("perf-analyzer", None, "5\n0.5\n", 'line 2: interval: expected whole microseconds.*"0.5"'),
    "negative interval": ("perf-analyzer", None, "-5\n", "line 1: interval: expected whole microseconds, not negative"),
    "intervals beyond all": ("perf-analyzer", None, "99999999999999\n" * 101, r"expected intervals of 1e\+10 s in all"),
    "gaps beyond all": ("burstgpt", None, FAR, "within 1e"),
    "a line break in quotes": ("csv", SECONDS, 'at,n\n1,"a\nb"\nx,\n', r"row 2 \(line 4\): at:"),
    "a later column in an earlier row": ("csv", ALL, f"{HEAD}1,1,0,1\nx,2,1,1\n", r"row 1 .*slo: .*\(and 1 more row"),
    "not json": ("jsonl", SECONDS, '{"at":1}\n{"at":\n', "line 2: expected a JSON object, found"),
    "not an object": ("jsonl", SECONDS, "[1]\n", r'line 1: expected a JSON object, found "\[1\]"'),
    "too deep": ("jsonl", SECONDS, "[" * 200_000, "line 1: expected a JSON object"),
    "a deep value": ("jsonl", SECONDS, '{"at":' + "[" * 900 + "]" * 900 + "}", 'key "at", found (something|\\[)'),
    "digits of another script": ("vidur", None, "arrived_at\n\u0661\n", 'expected a time in seconds.*found "\u0661"'),
    "count in another script": (CALLS_2019, None, minutes_file([[777]], 1).replace("777", "\u0667"), "1: expected a"),
    "id in another script": ("csv", ALL, f"{HEAD}1,\u0663,1,1\n", 'id: expected a whole number >= 0, found "\u0663"'),
    "missing key": ("jsonl", SECONDS, '{"a":1}\n', 'line 1: expected a number or text under the key "at", found none'),
    "no number": ("jsonl", SECONDS, '{"at":[1]}\n', r'under the key "at", found \["1"\]'),
    "a truth value": ("jsonl", SECONDS, '{"at":true}\n', 'under the key "at", found true'),
    "a key twice": ("jsonl", SECONDS, '{"at":1,"at":2}\n', 'line 1: expected .* under the key "at", found it twice'),
    "a key twice inside": ("jsonl", SECONDS, '{"at":{"x":1,"x":2}}\n', 'under the key "at", found {"x": "two values"}'),
    "json nan": ("jsonl", SECONDS, '{"at":NaN}\n', 'line 1: at: expected a time .*found "NaN"'),
    "old loadgen": ("mlperf", None, '{"name":"Sample","ph":"b","id":1,"ts":1500}\n', "ts: expected microseconds with"),
    "cut-off event": ("mlperf", None, '{"name":"Sample","ph":"b","i', "line 1: expected one event"),
    "event without an id": ("mlperf", None, '{"name":"Sample","ph":"b","ts":1.000},\n', "expected the keys ts and id"),
    "no counts": (CALLS_2019, None, "HashOwner,HashApp,HashFunction,Trigger\n", "the minutes 1 to 1440"),
    "a minute missing": (CALLS_2019, None, minutes_file([[1]], 3).replace(",2,", ",4,"), "column 6 of 7"),
    "negative count": (CALLS_2019, None, minutes_file([[1, -2]], 2), r'row 1 .*2: expected a count .*"-2"'),
    "count no number": (CALLS_2019, None, minutes_file([[777]], 1).replace("777", "x"), '1: expected a count .*"x"'),
    "no invocations": (CALLS_2019, None, minutes_file([[0, 0]], 2), "expected at least one request"),
    "too many invocations": (CALLS_2019, None, minutes_file([[20_000_001]], 1), "at most 20,000,000"),
    "negative seed": (CALLS_2019, ImportOptions(seed=-1), minutes_file([[1]], 1), "seed: expected"),
    "no arrival column": ("csv", ImportOptions(unit="s"), "at\n1\n", "columns: expected the column"),
    "no unit": ("jsonl", ImportOptions(AT), "{}", "unit: .* one of s, ms, us, ns, iso, found none"),
    "unknown unit": ("csv", ImportOptions(AT, "min"), "at\n1\n", 'unit: .*found "min"'),
    "long delimiter": ("csv", ImportOptions(AT, "s", delimiter="::"), "at\n1\n", 'delimiter: .*"::"'),
    "quote as delimiter": ("csv", ImportOptions(AT, "s", delimiter='"'), "at\n1\n", "delimiter: .* one character"),
    "unknown unit of objectives": (
        "csv", ImportOptions(AT | {"slo": "slo"}, "iso", slo_unit="iso"), "at,slo\n", 'slo_unit: .*found "iso"'
    ),
    "a unit of no objectives": ("csv", ImportOptions(AT, "iso", slo_unit="ms"), "at\n", "slo_unit: expected slo=NAME"),
    "a unit of objectives without use": (
        "counts", ImportOptions(AT, "s", slo_unit="ms"), "at\n", "slo_unit: expected with csv and jsonl only"
    ),
    "option without use": ("vidur", SECONDS, "arrived_at\n1\n", "columns: expected with csv and counts and jsonl only"),
    "seed without use": ("burstgpt", ImportOptions(seed=1), "Timestamp\n1\n", "seed: expected with azure-func"),
    "unknown format": ("azure", None, "", 'unknown format "azure"; did you mean azure-llm-2023, '),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_one_clear_line(tmp_path, case):
    name, options, text, expected = FAULTS[case]
    with pytest.raises(InputError, match=expected) as caught:
        made_of(tmp_path, name, text, options)
    assert len(caught.value.faults) == 1
    assert "\n" not in caught.value.faults[0]
    of_options = ("unknown", "seed", "columns", "unit", "slo_unit", "delimiter")
    if "--" not in expected and not expected.startswith(of_options):
        assert caught.value.faults[0].startswith(f"{tmp_path}/f: ")


def test_not_there_and_not_a_file(tmp_path):
    with pytest.raises(InputError, match="expected a file to import, found no such file"):
        import_trace("vidur", tmp_path / "f")
    with pytest.raises(InputError, match="expected a file, found a folder"):
        import_trace("vidur", tmp_path)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "MAX_LINE", 100)
    with pytest.raises(InputError, match="expected lines of at most 100 characters"):
        made_of(tmp_path, "jsonl", '{"at": 1}\n' + "x" * 1000, SECONDS)


STARTS = {
    "azure-llm-2023": LLM + "2023-11-16 18:17:03,",
    "azure-functions-2021": CALLS + "a,b,5,",
    "azure-functions-2019": minutes_file([[1]], 2),
    "burstgpt": "Timestamp,Model\n1,",
    "vidur": "arrived_at\n",
    "perf-analyzer": "1\n",
    "mlperf": '{"name":"Sample","ph":"b","id":1,"ts":1.500',
    "csv": "at,id\n1,1\n",
    "counts": "at,n\n1,1\n2,",
    "jsonl": '{"at": 1}\n{"at": ',
}
HOSTILE = st.one_of(
    st.binary(max_size=80), st.text("0123456789.eE+-_:TZ \n\r\t,\"'{}[]\0nai", max_size=60).map(str.encode)
)


@pytest.mark.parametrize("name", IMPORTERS)
@given(raw=HOSTILE, headed=st.booleans(), skip_bad=st.booleans())
def test_no_bytes_break_an_importer(tmp_path_factory, name, raw, headed, skip_bad):
    """One clear fault, or a trace that can be written and read back."""
    folder = tmp_path_factory.mktemp("hostile")
    options = {
        "csv": ImportOptions(AT | {"id": "id"}, "s"),
        "counts": ImportOptions(AT | {"count": "n"}, "s"),
        "jsonl": ImportOptions(AT, "iso"),
    }.get(name)
    try:
        made = made_of(folder, name, STARTS[name].encode() + raw if headed else raw, options, skip_bad=skip_bad)
    except InputError as error:
        assert all(fault.startswith(f"{folder}/f: ") for fault in error.faults)
        return
    assert made.tally.kept == made.tally.read - made.tally.blank - made.tally.bad
    write_trace(made.trace, folder / "t.csv")
    assert read_trace(folder / "t.csv").arrival_s[0] == 0


# the command


def test_every_format_has_a_start_a_page_and_a_line_of_help(fluidb: Run):
    page = (ROOT / "docs" / "traffic.md").read_text().partition("## Import a trace")[2]
    assert list(STARTS) == list(IMPORTERS)
    assert re.findall(r"^\| `([a-z0-9-]+)` \|", page, flags=re.MULTILINE) == list(IMPORTERS)
    words = fluidb("trace", "import", "--help").stdout.replace(",", " ").split()
    assert [word for word in words[words.index("FORMAT") :] if word in IMPORTERS][: len(IMPORTERS)] == list(IMPORTERS)


def test_from_a_real_trace_to_a_simulation(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    done = fluidb("trace", "import", "azure-llm-2023", AZURE, "-o", "t.csv", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    record = json.loads(done.stdout)
    assert record["schema"] == "fluidb.trace-import-output/1"
    assert (record["requests"], record["rows_read"], record["rows_dropped"]) == (50, 50, {"blank": 0, "bad": 0})
    done = fluidb("serve-sim", tiny_design, "--trace", "t.csv", "--slo", "1ms", "--requests", "r.csv", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    assert summary["requests"] == 50
    assert summary["arrival_rate_per_s"] == pytest.approx(record["arrival_rate_per_s"])
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["r.csv", "t.csv"]


def test_objectives_and_exits_reach_the_simulation(fluidb: Run, tmp_path: Path, tiny_design: Path) -> None:
    (tmp_path / "log.csv").write_text("when,limit,left\n0.5,1,2\n0.25,1e-9,1\n")
    arguments = ["--columns", "arrival=when,slo=limit,exit=left", "--unit", "s"]
    assert fluidb("trace", "import", "csv", "log.csv", "-o", "t.csv", *arguments).returncode == 0
    assert (tmp_path / "t.csv").read_text() == "request_id,arrival_s,exit,slo_s\n0,0.0,1,1e-09\n1,0.25,2,1.0\n"
    done = fluidb("serve-sim", tiny_design, "--trace", "t.csv", "--json")
    assert json.loads(done.stdout)["violations"] == 1


def test_what_was_dropped_and_sorted_is_said(fluidb: Run, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("at\n5\n\n4\nsoon\n")
    done = fluidb(
        "trace", "import", "csv", "log.csv", "-o", "t.csv", "--columns", "arrival=at", "--unit", "ms", "--skip-bad"
    )
    said = dict(re.split(r"  +", line, maxsplit=1) for line in done.stdout.splitlines())
    assert said["times"] == "milliseconds"
    assert said["time zero"] == "0.004 s in the file, the first arrival"
    assert (said["rows read"], said["rows kept"], said["rows dropped"]) == ("4", "2", "1 blank, 1 bad")
    assert said["first bad"] == 'row 4 (line 5): at: expected a time in milliseconds, at most 1e+10 s, found "soon"'
    assert said["order"] == "sorted: 1 row stood behind a later arrival"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["vidur", "none.csv", "-o", "n.csv"], "none.csv: expected a file to import, found no such file"),
        (["vidur", "log.csv", "-o", "n.csv"], 'log.csv: header: expected a column "arrived_at", found at'),
        (["vidur", "log.csv", "-o", "log.csv"], "log.csv: expected another file than log.csv"),
        (["vidur", "log.csv", "-o", "log.csv/n.csv"], "log.csv/n.csv: expected a folder"),
        (["vidr", "log.csv", "-o", "n.csv"], 'unknown format "vidr"'),
        (["log.csv", "-o", "n.csv"], 'unknown format "log.csv"; did you mean csv?'),
        (["csv", "log.csv", "-o", "n.csv", "--columns", "arrival=at", "--unit", "s"], r'found "\x1b[2J"'),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(fluidb: Run, tmp_path: Path, arguments, expected) -> None:
    (tmp_path / "log.csv").write_text("at\n\x1b[2J\n")
    (line,) = lines(fluidb("trace", "import", *arguments))
    assert expected in line
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_same_file_same_seed_same_bytes(fluidb: Run, tmp_path: Path) -> None:
    (tmp_path / "d01.csv").write_text(minutes_file([[30, 20], [7]]))
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        assert fluidb("trace", "import", "azure-functions-2019", "d01.csv", "-o", name, "--seed", seed).returncode == 0
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


def test_the_page_followed_literally(tmp_path):
    page = "docs/traffic.md"
    (text,) = blocks(page, "csv")
    (tmp_path / "log.csv").write_text(text)
    (claimed,) = blocks(page, "text")
    assert run_shell(blocks(page, "sh")[2], tmp_path) == claimed
