"""What compares two runs of the benchmarks; that they run and agree, `make bench SMOKE=1` shows in CI."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path

import bitstream
import board
import clock
import compare
import dram
import engines
import intervals as measured
import numpy as np
import pytest
import sources
from builders import table_of
from compare import Verdict
from fluidb.platforms import load_platform
from fluidb.serving.statistics import Interval
from pages import write_part
from rounds import BenchmarkRow, BenchmarkTable, Entrant, Sample, take_turns

from tables import markdown, quantity, read_results, write_results

STEADY = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0]


def run_of(*rows: BenchmarkRow) -> list[BenchmarkTable]:
    return [BenchmarkTable("search", "Search", "About.", [*rows], "evaluations", ["A remark."])]


def ours(seconds: list[float], against: str | None = "C") -> BenchmarkRow:
    return BenchmarkRow("fluidb", seconds, against, 100.0, ours=True)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (4, 4), (5, 2)])
def test_distribution_of_mann_and_whitney(m, n):
    counts = [0] * (m * n + 1)
    for places in itertools.combinations(range(m + n), m):
        others = set(range(m + n)) - set(places)
        counts[sum(place > other for place in places for other in others)] += 1
    assert list(compare._ways(m, n)) == counts


def test_the_interval_holds_the_factors_that_the_test_does_not_reject():
    draw = np.random.default_rng(1)
    before, after = draw.lognormal(0, 0.4, 6).tolist(), draw.lognormal(0.3, 0.4, 7).tolist()
    ranks = [sum(pick) for pick in itertools.combinations(range(13), 7)]  # of all arrangements, equally likely

    def rejected(factor: float) -> bool:
        pooled = sorted([*before, *(value / factor for value in after)])
        rank = sum(pooled.index(value / factor) for value in after)
        tails = sum(other <= rank for other in ranks), sum(other >= rank for other in ranks)
        return min(tails) / len(ranks) <= (1 - compare.CONFIDENCE) / 2

    found = compare.interval(before, after)
    assert found is not None
    factor, low, high = found
    assert not rejected(factor)
    assert [rejected(bound * nudge) for bound, nudge in ((low, 0.999), (low, 1.001), (high, 0.999), (high, 1.001))] == [
        True, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.5, Verdict.SLOWER), (0.5, Verdict.FASTER), (1.0, Verdict.SAME), (1.04, Verdict.SAME), (0.97, Verdict.SAME)],
)
def test_verdicts(factor, verdict):
    found = compare.judge("row", STEADY, [factor * value for value in STEADY])
    assert found.verdict is verdict
    assert found.factor == pytest.approx(factor, rel=0.02)


def test_noise_is_no_verdict_and_neither_are_four_rounds():
    assert compare.judge("row", [1, 2, 1, 2, 1, 2], [2, 3, 2, 3, 2, 1]).verdict is Verdict.SAME
    assert compare.judge("row", STEADY[:4], [9.0] * 4).verdict is Verdict.FEW
    assert compare.judge("row", STEADY[:5], [9.0] * 5).verdict is Verdict.SLOWER


def test_a_slower_machine_is_no_slower_program():
    before = run_of(BenchmarkRow("C", STEADY), ours([2 * value for value in STEADY]))
    slower_machine = run_of(BenchmarkRow("C", [3 * value for value in STEADY]), ours([6 * value for value in STEADY]))
    slower_program = run_of(BenchmarkRow("C", STEADY), ours([6 * value for value in STEADY]))
    assert [change.verdict for change in compare.changes(before, slower_machine)] == [Verdict.SAME]
    (change,) = compare.changes(before, slower_program)
    assert (change.name, change.verdict) == ("Search: fluidb", Verdict.SLOWER)
    alone = run_of(ours(STEADY, None))
    assert [change.verdict for change in compare.changes(alone, run_of(ours([9.0] * 6, None)))] == [Verdict.UNJUDGED]
    # without gcc C is missing: what remains is not judged by seconds
    assert [change.verdict for change in compare.changes(before, alone)] == [Verdict.UNJUDGED]
    assert [change.verdict for change in compare.changes(alone, before)] == [Verdict.UNJUDGED]


def test_exit_codes(tmp_path, capsys):
    old, new, broken = (tmp_path / name for name in ("old.json", "new.json", "broken.json"))
    write_results(old, run_of(BenchmarkRow("C", STEADY), ours(STEADY)), "command")
    write_results(new, run_of(BenchmarkRow("C", STEADY), ours([2 * value for value in STEADY])), "command")
    broken.write_text('{"schema": "fluidb.bench/1"}')
    assert compare.main([str(old), str(old)]) == 0
    assert compare.main([str(new), str(old)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "beyond noise at 99%: 0 slower, 1 faster, of 1"
    assert compare.main([str(old), str(new)]) == 1
    assert "slower" in capsys.readouterr().out
    for paths in ([old], [old, tmp_path / "none.json"], [broken, old], [old, Path(__file__)]):
        assert compare.main([str(path) for path in paths]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "expected" in line or "no such file" in line.lower()


def test_results_read_back(tmp_path):
    tables = run_of(BenchmarkRow("C", STEADY, shown=False), ours(STEADY))
    write_results(tmp_path / "run.json", tables, "command")
    machine, found = read_results(tmp_path / "run.json")
    assert found == tables
    assert {"cpu", "cores", "python", "numba", "numpy"} <= machine.keys()
    assert [dataclasses.asdict(table) for table in tables] == json.loads((tmp_path / "run.json").read_text())["tables"]


CODE = '"""Module."""\n\ndef step(x):\n    """Add."""\n    return x + 1\n'


@pytest.mark.parametrize(
    ("edited", "same"),
    [
        (CODE.replace("Add.", "Add one."), True),
        (CODE.replace('    """Add."""\n', ""), True),
        (f"# comment\n{CODE}".replace("x + 1", "(x\n    + 1)"), True),
        (CODE.replace("x + 1", "x + 2"), False),
        (f"{CODE}step(1)\n", False),
        (f"import numba\n{CODE}", False),
    ],
)
def test_the_digest_of_sources_is_that_of_their_statements(tmp_path, edited, same):
    path = tmp_path / "kernels.py"
    path.write_text(CODE)
    before = sources.digest([path])
    path.write_text(edited)
    assert (sources.digest([path]) == before) == same


def test_results_of_other_sources_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sources, "RESULTS", tmp_path / "results.json")
    write_results(sources.RESULTS, run_of(ours(STEADY)), "command")
    assert sources.main() == 0
    sources.RESULTS.write_text(sources.RESULTS.read_text().replace("sources_sha256", "other"))
    assert sources.main() == 1
    write_results(sources.RESULTS, run_of(ours(STEADY)), "command")
    monkeypatch.setattr(sources, "measured", lambda: [Path(__file__)])
    assert sources.main() == 1
    assert [line.count("make bench") for line in capsys.readouterr().err.splitlines()] == [1, 1]


def test_times_depend_on_every_compiled_file_and_on_what_measures():
    names = {path.relative_to(sources.HERE.parent).as_posix() for path in sources.measured()}
    assert {"jit.py", "serving/event_loop.py", "serving/policies/fluid.py", "benchmarks/search.c"} < names
    assert {f"benchmarks/{name}.py" for name in sources.APART}.isdisjoint(names)
    assert all((sources.HERE / f"{name}.py").is_file() for name in sources.APART)
    assert all(path.is_file() for path in sources.measured())


def test_only_the_part_between_the_comments_is_written_again(tmp_path):
    page, form = (
        tmp_path / "page.md",
        "# Page\n<!-- a: begin -->\n{}<!-- a: end -->\n<!-- b: begin -->\n<!-- b: end -->\n",
    )
    page.write_text(form.format("old\n"))
    write_part(page, "a", "new\nlines\n")
    assert page.read_text() == form.format("new\nlines\n")


def test_everybody_takes_turns_and_every_other_round_is_reversed():
    order = []

    def entrant(name: str) -> Entrant:
        def run() -> Sample:
            order.append(name)
            return Sample(float(len(order)), 10.0)

        return Entrant(name, run, None if name == "a" else "a")

    rows = take_turns([entrant(name) for name in "abc"], 3)
    assert "".join(order) == "abccbaabc"
    assert [row.seconds for row in rows] == [[1, 6, 7], [2, 5, 8], [3, 4, 9]]
    table = BenchmarkTable("t", "T", "About.", rows)
    assert table.ratios(rows[1]) == [2 / 1, 5 / 6, 8 / 7]
    text = markdown(table).splitlines()
    assert text[:3] == ["## T", "", "About. 3 rounds."]
    assert text[-1] == "| c | 4 s | 1.29 (0.67 to 3.00) x a | 10 MB |"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.00123, "s", "1.23 ms"), (12.0, "s", "12 s"), (2.5e-6, "s", "2.5 µs"), (4.14e-8, "s", "41.4 ns"),
     (1234.0, "s", "1230 s"), (7.219e9, "", "7.22 G"), (999.9, "", "1 k"), (0.9999, "s", "1 s")],
)  # fmt: skip
def test_quantities(value, unit, text):
    assert quantity(value, unit) == text


def test_the_page_of_intervals_shows_its_file():
    run = json.loads(measured.RESULTS.read_text())
    part = f"<!-- coverage: begin -->\n{measured.tables(run)}<!-- coverage: end -->\n"
    assert part in measured.PAGE.read_text()
    shares = [
        found["covered"]
        for point in run["points"] for row in point["runs"] for kind in ("one", "joined", "paired") if kind in row
        for found in row[kind].values() if found["printed"] * run["seeds"] >= measured.FEW
    ]  # fmt: skip
    assert len(shares) > 120
    assert min(shares) >= 0.9


def test_the_page_of_the_clock_shows_its_table():
    """With a mark where the sources are others now."""
    page = (clock.TABLE.parents[1] / "docs" / "npu.md").read_text()
    rows = clock.read_rows()
    assert f"clock.py --table\n{clock.table_text(rows)}\n```" in page
    assert "older" in clock.table_text([rows[0]._replace(sources="")])


def test_the_board_states_the_fit_to_what_was_placed():
    """And each NPU that is left out is within 10 % of the fit to the others."""
    of, stated = clock.npus(clock.read_rows()), load_platform("ulx3s").cycle
    assert stated is not None
    assert [*stated.model_dump().values()] == pytest.approx([*clock.fitted(of).model_dump().values()], abs=0.006)
    assert f"fitted to {len(of)} whole NPUs" in load_platform("ulx3s").sources["cycle"]
    assert max(map(abs, clock.left_out(of))) < 0.1


def test_the_page_of_the_dram_shows_its_table():
    page, results = (clock.TABLE.parents[1] / "docs" / "hardware.md").read_text(), dram.read_results()
    assert f"dram.py table\n{dram.table_text(results)}\n```" in page


def test_the_page_of_the_bitstream_shows_its_table():
    """The board's clock is met, and its file says so."""
    page, result = (clock.TABLE.parents[1] / "docs" / "hardware.md").read_text(), bitstream.read_result()
    assert f"bitstream.py table\n{bitstream.table_text(result)}\n```" in page
    assert bitstream.met(result)
    assert not bitstream.met(result | {"clocks_mhz": {"system": {"asked": 50, "reached": 49.9}}})
    system = result["clocks_mhz"]["system"]
    assert system["asked"] == bitstream.BOARD.clock_mhz
    assert f"{result['design']} for digits reaches {system['reached']:g} MHz" in bitstream.BOARD.sources["clock_mhz"]
    assert "older sources" in bitstream.table_text(result | {"sources": ""})


def test_the_page_of_the_board_shows_its_simulation():
    """Every answer is right, and the memory got no command too early."""
    page, result = (clock.TABLE.parents[1] / "docs" / "hardware.md").read_text(), board.read_result()
    assert f"board.py table\n{board.table_text(result)}\n```" in page
    runs = [board.Ran(*run) for run in result["runs"]]
    assert result["passed"]
    assert (sum(run.wrong for run in runs), result["violations"]) == (0, 0)
    assert [run.after for run in runs] == [step.after for step in board.steps_of(4)]
    assert "older sources" in board.table_text(result | {"sources": ""})


def test_what_the_host_of_the_board_prints_is_read():
    ran = ["cycles 90", "ran 0 2 70 0", "cycles 80", "ran 1 2 60 0"]
    late = "[0000000000000041ps] ACT->RD violation on bank 2"
    assert board.result_of("\n".join([*ran, "PASSED: 0 wrong, 500 cycles"])) == {
        "sources": board.digest(), "passed": True, "violations": 0, "runs": [(0, 2, 70, 0, 90), (1, 2, 60, 0, 80)]
    }  # fmt: skip
    early = board.result_of("\n".join([*ran[:1], late, *ran[1:], "PASSED: 0 wrong, 500 cycles"]))
    assert (early["passed"], early["violations"]) == (False, 1)
    for end in ("FAILED: 3 wrong, 500 cycles", "FAILED: the board does not answer", ""):
        assert not board.result_of("\n".join([*ran, end]))["passed"]


def test_batches_of_the_board_have_places_and_only_what_runs_leaves():
    batch, exits = 0, 4
    for step in board.steps_of(exits):
        assert step.b_exit <= batch
        batch += step.b_incr - step.b_exit
        assert batch >= 1
        assert step.slot + batch <= 8
        assert step.after < exits
        assert (step.after == 0) == bool(step.arrive)
    assert batch == 1


@pytest.mark.parametrize("board", dram.MEMORIES)
def test_three_layers_predict_the_others_with_a_dram(board: str):
    """Products in sum within 5 %, small tiles too if turns are calibrated; the board's file states the constants."""
    run = dram.read_results()[board]
    rows, first, platform = dram.rows_of(run, run["fits"][0]), run["fits"][0], load_platform(board)
    turns = board in dram.TURNS
    calibrated = [(row.layer.tile, row.layer.kind) for row in rows if row.calibrated]
    assert calibrated == [(dram.LARGE, kind) for kind in first["kinds"]] + [(dram.SMALL, "3x3")] * turns
    for tile, count in ((dram.LARGE, 31), *([(dram.SMALL, 33)] * turns)):
        predicted = dram.products_of(dram.predicted(rows, tile))
        assert len(predicted) == count
        assert abs(dram.difference(predicted)) < 0.05
    stated = dram.with_port(platform, dram.Constants(first["ready"], first["latency"], first["turn"]))
    assert platform.port_latency_cycles == stated.port_latency_cycles
    assert platform.port_turn_cycles == stated.port_turn_cycles
    assert platform.bandwidth_gb_s == pytest.approx(stated.bandwidth_gb_s, rel=1e-3)
    assert f"in {100 * first['ready']:.1f} % of cycles" in platform.sources["bandwidth_gb_s"]


def test_the_constants_of_a_port_are_found_again(monkeypatch: pytest.MonkeyPatch):
    """By the longest layers, whose times a simple table makes of them; the fit knows only layers that ran."""
    longest = dict(zip(dram.KINDS, (9_000, 40, 3_000), strict=False))
    kinds, where = tuple(longest), list(itertools.product(dram.TILES, dram.NETWORKS))

    def table(_: str, tile: str, __: str, port: dram.Constants) -> dict[str, list[int]]:
        turns = 200 if tile == dram.SMALL else 3
        cycles = {beats: max(900, beats / port.ready) + turns * port.turn for beats in longest.values()}
        each = {f"{share} of {beats}": share * one for beats, one in cycles.items() for share in (0.5, 1)}
        return {layer: [round(b * one + port.latency) for b in (1, 2)] for layer, one in each.items()}

    monkeypatch.setattr(dram, "table_of", table)
    monkeypatch.setattr(dram, "waiting", lambda board, ready: 50 + round(64 / ready))
    for name, port in (("arty-a7", dram.Constants(0.37, 31, 0)), ("ulx3s", dram.Constants(0.812, 4, 26))):
        late = 50 + round(64 / port.ready) + port.latency
        every = [
            dram.Layer(tile, of, layer, kind, dram.Ran(0, 2, table("", tile, "", port)[layer][1], waits, 0, 0, 0, 0))
            for at, (tile, of) in enumerate(where)
            for kind, beats in longest.items()
            for layer, waits in ((f"0.5 of {beats}", late - at), (f"1 of {beats}", late + 9))
        ]
        found = dram.fit(name, {"runs": every}, kinds)
        by = [(dram.LARGE, "blocks", f"1 of {beats}") for beats in longest.values()]
        by += [(dram.SMALL, "blocks", "1 of 9000")] * (name in dram.TURNS)
        assert dram.Constants(found["ready"], found["latency"], found["turn"]) == port
        assert [every[at][:3] for at in found["calibrated"]] == by
        assert found["table"] == [one.ran.cycles for one in every]


def test_a_netlist_is_the_same_whatever_its_names_and_lines():
    cell = {"type": "LUT4", "attributes": {"src": "a.sv:1"}, "parameters": {"INIT": "0110"}, "connections": {"A": [2]}}
    known = clock.netlist_of({"one": cell, "two": cell})
    assert clock.netlist_of({"first": cell | {"attributes": {"src": "a.sv:9"}}, "second": cell}) == known
    others = [{"type": "TRELLIS_FF"}, {"parameters": {"INIT": "1001"}}, {"connections": {"A": [3]}}]
    assert known not in [clock.netlist_of({"one": cell, "two": cell | other}) for other in others]


def test_the_page_shows_how_often_the_errors_of_engines_hold():
    """At least four of five further networks lie inside; the machines whose form fits are more than the DPUs."""
    run = json.loads(engines.RESULTS.read_text())
    assert f"<!-- engines: begin -->\n{engines.tables(run)}<!-- engines: end -->\n" in engines.PAGE.read_text()
    within, judged = (sum(item[key] for item in run["machines"]) for key in ("within", "judged"))
    assert within / judged >= 0.8
    assert [item["machine"] for item in run["machines"]] == [machine.name for machine in engines.machines()]
    fits = [item["machine"] for item in run["machines"] if item["kept"] <= engines.FITS * item["none"]]
    assert set(fits) == {*engines.DPUS, "h200-fp16", "h200-fp16, layers", "h200-fp32"}
    assert all(item["kept"] <= item["none"] for item in run["machines"])
    (found,) = [engines.measure(machine, 0) for machine in engines.machines() if machine.engine.name == "gemmini"]
    assert found == next(item for item in run["machines"] if item["machine"] == "gemmini, layers")
    assert engines.check_more() == run["more"]
    assert {item["network"] for item in run["more"] if not item["inside"]} == {"squeezenet1_1"}


def test_coverage_is_measured_against_all_long_runs(monkeypatch):
    monkeypatch.setattr(measured, "table_of", lambda _network: table_of([[0.01, 0.012], [0.02, 0.03]], [0.5, 0.5]))
    found = measured.measure(measured.LoadPoint("resnet50", 0.5), 8, [1500, 4000])
    assert found["truth"]["p50"] < found["truth"]["p90"] < found["truth"]["p99"]
    short, long = found["runs"]
    assert short["independent_requests"] < long["independent_requests"] < 4000
    assert long["one"]["mean"]["printed"] == short["joined"]["mean"]["printed"] == 1.0
    assert long["one"]["mean"]["half_width"] < short["one"]["mean"]["half_width"] < 0.3 * found["truth"]["mean"]
    assert measured.judged([None, Interval(1, 2), Interval(2, 4), Interval(3, 4)], 2.0) == {
        "printed": 0.75, "covered": 2 / 3, "half_width": 0.5,
    }  # fmt: skip
