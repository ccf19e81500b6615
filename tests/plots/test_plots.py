"""Pictures: the same bytes every time, and one clear line where they cannot be drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import DUEL, Run, edited_scenario, lines, table_of, trace_of, traffic_of
from fluidb.formats import InputError
from fluidb.plots import canvas, check_picture, describe, save
from fluidb.plots.capacity import draw_capacity
from fluidb.plots.comparison import draw_comparison
from fluidb.plots.replay import draw_replay, tail_of, waiting
from fluidb.plots.thresholds import draw_thresholds
from fluidb.serving import Replay, find_policy, parse_requirement, simulate
from fluidb.serving.statistics import Interval
from fluidb.studies import compare, load_scenario
from fluidb.studies.capacity import Capacity, ClientCapacity
from fluidb.studies.load_search import KEPT, NOT_KEPT, UNDECIDED, FigureEstimate, Probe
from fluidb.studies.thresholds import NetworkPoint, Sweep, SweptNetwork, ThresholdPoint
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread


def draw(path, *, replace=False):
    with canvas(3, 2) as figure:
        axes = figure.subplots()
        axes.plot([1, 2, 3], label="a <line>")
        axes.legend()
        save(figure, path, replace=replace)
    return path.read_bytes()


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_same_picture_has_the_same_bytes(tmp_path, suffix):
    first, second = (draw(tmp_path / f"{name}.{suffix}") for name in "ab")
    assert first == second
    assert first.startswith(b"<?xml" if suffix == "svg" else b"\x89PNG")


def test_text_stays_text_and_is_escaped(tmp_path):
    assert b"a &lt;line&gt;" in draw(tmp_path / "a.svg")


def test_a_picture_in_the_way_is_kept(tmp_path):
    path = tmp_path / "a.svg"
    path.write_text("mine")
    for attempt in (lambda: check_picture(path, replace=False), lambda: draw(path)):
        with pytest.raises(InputError):
            attempt()
    assert path.read_text() == "mine"
    check_picture(path, replace=True)
    assert draw(path, replace=True).startswith(b"<?xml")


def test_unknown_format(tmp_path):
    with pytest.raises(InputError, match="ends in .svg or .png, found a.pdf"):
        check_picture(tmp_path / "a.pdf", replace=False)


def test_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr("fluidb.formats.extras.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"a.svg: a picture needs matplotlib, .*'\.\[plot\]' in the folder"):
        check_picture(tmp_path / "a.svg", replace=False)


def test_a_picture_says_what_it_shows(tmp_path):
    """Screen readers tell a file's title; a name in it is escaped, and needs no formula."""
    with canvas(3, 2) as figure:
        describe(figure, "Latency of a <net>", "Half take $1$ ms.")
    for name in ("a.svg", "a.png"):
        save(figure, tmp_path / name, replace=False)
    assert "<title>Latency of a &lt;net&gt;. Half take $1$ ms.</title>" in (tmp_path / "a.svg").read_text()
    assert b"Half take $1$ ms." in (tmp_path / "a.png").read_bytes()


def test_what_was_found_is_the_title_and_axes_say_their_scale():
    with canvas(4, 2) as figure:
        plain, log, cut, both, bare = figure.subplots(1, 5)
        plain.set(ylabel="a", xlabel="time", xlim=(0.4, 9), ylim=(0, 3))
        log.set(ylabel="b", yscale="log", ylim=(1, 10))
        cut.set(ylabel="c", ylim=(70, 80))
        cut.set_xlabel("place")
        cut.set_xticks([4, 5], ["four", "five"])
        both.set(ylabel="d", ylim=(0, 900))
        both.set_yscale("symlog", linthresh=20)
        bare.set(ylim=(70, 80))
        describe(figure, "Latency", "Half take 1 ms.")
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "a", "b (log scale)", "c (not from 0)", "d (linear to 20, then log scale)", ""
    ]  # fmt: skip
    assert (plain.get_xlabel(), cut.get_xlabel()) == ("time", "place")
    assert figure.get_suptitle() == "Half take 1 ms.\nLatency"


def test_a_vector_picture_follows_the_page_and_pixels_have_a_ground(tmp_path):
    """No white box on a dark page: nothing white is filled, and what is black takes the colour of the page's text."""
    with canvas(3, 2) as figure:
        axes = figure.subplots()
        axes.plot([0, 1], color="black")
        describe(figure, "Title", "Found.")
    for name in ("a.svg", "a.png"):
        save(figure, tmp_path / name, replace=False)
    text = (tmp_path / "a.svg").read_text()
    assert "prefers-color-scheme: dark" in text
    assert "color-scheme: light dark" in text  # its page, where it is opened alone
    assert "stroke: currentColor" in text
    for colour in ("#000000", "#ffffff"):
        assert colour not in text
    pixels = imread(tmp_path / "a.png")
    assert pixels[0, 0].tolist() == [1, 1, 1, 1]


def served_at(arrivals: list[float], finishes: list[float], starts: list[float], exits: list[int]) -> Replay:
    """A replay whose times are known: SLO 2.5 s, two exits."""
    table = table_of([[1.0, 1.2], [1.0, 1.2]])
    traffic = traffic_of(trace_of(np.array(arrivals)), np.array(exits), 2.5)
    done = simulate(table, traffic, find_policy("serial"))
    return replace(done, start_s=np.array(starts), finish_s=np.array(finishes))


def test_a_replay_shows_its_tail_by_exit_and_its_queue():
    replay = served_at([0.0, 1.0, 1.0, 4.0], [2.0, 3.0, 5.0, 6.0], [0.0, 2.0, 3.0, 5.0], [2, 1, 2, 1])
    figure: Any = draw_replay(replay, "a policy")
    tail, latency, queue = figure.axes
    curves = {str(line.get_label()): line for line in tail.lines}
    assert list(curves) == ["all requests", "exit 1 e1", "exit 2 e2", "SLO 2,500 ms"]
    x, longer = curves["all requests"].get_data()
    assert list(zip(np.asarray(x).tolist(), np.asarray(longer).tolist(), strict=True)) == [
        (2000, 75), (2000, 50), (2000, 25), (4000, 0)
    ]  # fmt: skip
    at_s, waits = waiting(replay)
    assert (at_s.tolist(), waits.tolist()) == ([0, 1, 2, 3, 4, 5], [0, 2, 1, 0, 1, 0])
    mean = next(line for line in queue.lines if line.get_label() == "mean").get_ydata()
    assert np.mean(mean) == pytest.approx((0 + 2 + 1 + 0) / 4)  # requests times seconds, over the four seconds
    assert [line.get_ydata()[0] for line in latency.lines if line.get_label() == "SLO"] == [2500]
    assert "25.00 % of 4 requests are later than their SLO" in str(figure.get_label())


def test_a_single_request_is_drawn_without_a_warning():
    """No share of requests takes longer, so that no logarithmic scale follows from what is drawn."""
    figure: Any = draw_replay(served_at([0.5], [2.0], [0.5], [2]))
    assert figure.axes[0].get_ylim() == (100, 110)


def test_requests_that_did_not_return_take_longer_than_all_others():
    x, longer = tail_of(np.array([3.0, np.inf, 1.0, 2.0]))
    assert (x.tolist(), longer.tolist()) == ([1, 2, 3], [0.75, 0.5, 0.25])


@given(st.lists(st.floats(0.1, 1e3), min_size=1, max_size=30))
def test_a_short_tail_is_drawn_whole(values):
    x, longer = tail_of(np.array(values))
    for value, share in zip(x, longer, strict=True):
        ties = sum(other == value for other in values)
        above = sum(other > value for other in values)
        assert above <= round(share * len(values)) < above + ties


def test_capacity_in_clients_has_their_number_on_its_axis():
    probes = [
        replace(probe(rate, verdict, rate), clients=number)
        for rate, verdict, number in ((1.0, KEPT, 8), (1.1, NOT_KEPT, 9))
    ]
    clients = ClientCapacity(8, 9, 1, 64)
    capacity = Capacity("fluid", 1.0, 1.1, "p99 <= 2s", 4.0, 1.0, 1.1, 1, 100, 300, probes, clients)
    figure: Any = draw_capacity(capacity, [parse_requirement("p99 <= 2s")])
    (axes,) = figure.axes
    points = {bars.get_label(): bars.lines[0].get_data()[0].tolist() for bars in axes.containers}
    assert (points[KEPT], points[NOT_KEPT], axes.get_xlabel()) == ([8], [9], "clients")
    assert axes.get_xlim()[1] == pytest.approx(1.05 * 9)
    assert "saturation" not in [line.get_label() for line in axes.lines]


def probe(rate: float, verdict: str, mean: float) -> Probe:
    value = FigureEstimate(mean, Interval(0.9 * mean, 1.1 * mean if verdict != NOT_KEPT else np.inf))
    return Probe(rate, 100, verdict, [value], None if verdict != NOT_KEPT else "p99 <= 2s")


def test_capacity_shows_each_verdict_its_interval_and_the_bound():
    probes = [probe(1.0, KEPT, 1.0), probe(2.0, UNDECIDED, 2.0), probe(3.0, NOT_KEPT, 9.0)]
    capacity = Capacity("fluid", 1.0, 3.0, "p99 <= 2s", 4.0, 0.1, 4.0, 1, 100, 300, probes)
    figure: Any = draw_capacity(capacity, [parse_requirement("p99 <= 2s")])
    (axes,) = figure.axes
    points = {bars.get_label(): bars for bars in axes.containers}
    for item in probes:
        line, _, (interval,) = points[item.verdict].lines
        assert line.get_data()[0].tolist() == [item.rate_per_s]
        assert line.get_data()[1].tolist() == [1e3 * item.estimates[0].value]
        low, high = interval.get_segments()[0][:, 1]
        assert low == pytest.approx(900 * item.estimates[0].value)
        if item.verdict == NOT_KEPT:
            assert high > axes.get_ylim()[1]  # no upper end: it leaves the picture
        else:
            assert high == pytest.approx(1100 * item.estimates[0].value)
    (bound,) = [line for line in axes.lines if line.get_label() == "bound"]
    assert bound.get_ydata()[0] == 2000
    assert figure.get_label() == (
        "Requirements over the arrival rate. All requirements hold up to 1 requests/s. "
        "At 3 requests/s, p99 <= 2s is surely broken."
    )


SWEPT = {"a": "confidence", "fixed": None, "b": "entropy"}
"""Networks of a sweep, and the measure by which samples of each leave, if thresholds are tried."""


def point_of(
    tried: list[tuple[str, float | None]], figures: tuple[float, float, float, float], **marks: bool
) -> ThresholdPoint:
    """A point of a sweep with these thresholds, and with these figures of all requests."""
    networks = [NetworkPoint(name, threshold, [0.5, 0.5], None, 0.1, 0.2, 0.05) for name, threshold in tried]
    return ThresholdPoint(*figures, networks=networks, pareto=marks["pareto"], kept=marks.get("kept"))


def test_thresholds_fill_and_name_what_no_other_beats():
    points = [
        point_of([("", 0.5)], (0.70, 0.1, 0.2, 0.05), pareto=True),
        point_of([("", 0.7)], (0.69, 0.2, 0.3, 0.06), pareto=False),
        point_of([("", 0.9)], (0.90, 0.3, 0.4, 0.20), pareto=True),
    ]
    figure: Any = draw_thresholds(Sweep("fluid", 10, [SweptNetwork("", "confidence", ["a", "b"])], points))
    latency, violations = figure.axes
    for axes, costs in ((latency, [100, 200, 300]), (violations, [5, 6, 20])):
        _, best, beaten = axes.lines
        assert best.get_data()[0].tolist() == pytest.approx([costs[0], costs[2]])
        assert beaten.get_data()[0].tolist() == pytest.approx([costs[1]])
        assert best.get_data()[1].tolist() == pytest.approx([70, 90])
        assert [text.get_text() for text in axes.texts] == ["0.5", "0.9"]


@pytest.mark.parametrize("count", [3, 13])
def test_combinations_of_thresholds_are_named_while_they_are_few(count):
    """No line joins them, as they have no order; a network whose exits are as they are stated has no threshold."""
    points = [
        point_of(
            [("a", 0.5 + 0.01 * k), ("fixed", None), ("b", 0.9)],
            (0.5 + 0.01 * k, 0.1 + 0.01 * k, 0.2, 0.05 + 0.01 * k), pareto=True,
        )
        for k in range(count)
    ]  # fmt: skip
    networks = [SweptNetwork(name, measure, ["x", "y"]) for name, measure in SWEPT.items()]
    figure: Any = draw_thresholds(Sweep("fluid", 10, networks, points))
    for axes in figure.axes:
        best, beaten = axes.lines
        assert (len(best.get_data()[0]), len(beaten.get_data()[0])) == (count, 0)
        names = [text.get_text() for text in axes.texts]
        assert names == (["0.5, 0.9", "0.51, 0.9", "0.52, 0.9"] if count == 3 else [])
    assert figure.get_label().startswith(f"Accuracy over mean latency, and over violations. {count} combinations of ")


def test_thresholds_that_keep_no_requirement_are_not_called_beaten():
    points = [
        point_of([("", 0.5)], (0.70, 0.1, 0.2, 0.05), pareto=False, kept=False),
        point_of([("", 0.7)], (0.80, 0.2, 0.3, 0.06), pareto=True, kept=True),
    ]
    figure: Any = draw_thresholds(Sweep("fluid", 10, [SweptNetwork("", "confidence", ["a", "b"])], points))
    assert [line.get_label() for line in figure.axes[0].lines[1:]] == [
        "best of those that keep the requirements", "other"
    ]  # fmt: skip
    assert "1 keep the requirements. 1 are beaten by no other." in figure.get_label()


def test_a_comparison_shows_every_contender_at_every_point_with_its_interval():
    found, _ = compare(load_scenario(str(DUEL)))
    figure: Any = draw_comparison(found)
    rates = [axes for axes in figure.axes if axes.get_title()]
    assert next(axes.get_ylabel() for axes in figure.axes if axes.get_ylabel()) == "violations, %"
    assert len({axes.get_ylim() for axes in rates}) == 1
    assert [axes.get_title() for axes in rates] == [
        "light and heavy\nSLO 0.4 ms", "light and heavy\nSLO 2 ms", "tiny on pocket at 0.8GB/s\nSLO 1 ms, its trace"
    ]  # fmt: skip
    for axes, points in zip(rates, (found.points[0:2], found.points[2:4], found.points[4:]), strict=True):
        for bars, contender in zip(axes.containers, found.contenders, strict=True):
            drawn = bars.lines[0].get_ydata().tolist()
            standing = [next(it for it in point.contenders if it.name == contender.name) for point in points]
            values = [it.metrics["violation_rate"] for it in standing]
            assert drawn == pytest.approx([100 * value.mean for value in values])
            ends = np.array([segment[:, 1] for segment in bars.lines[2][0].get_segments()])
            assert ends == pytest.approx(100 * np.array([(value.low, value.high) for value in values]), abs=1e-9)
    assert "has the fewest violations at" in str(figure.get_label())


def test_contenders_that_are_alike_are_one_line(tmp_path):
    """And panels in a row have one scale and unit."""
    name = 'name = "fluid", policy = "fluid:call=1us", engine = { b_max = 2, weights = [1.0, 2.0] } },'
    found, _ = compare(
        load_scenario(str(edited_scenario(tmp_path, (name, f"{name}\n  {{ {name.replace('fluid', 'twin', 1)}"))))
    )
    figure: Any = draw_comparison(found)
    for axes in (figure.axes[0], figure.axes[3]):
        labels = [bars.get_label() for bars in axes.containers]
        assert labels == ["one by one", "waits", "fluid = twin"]
        widths = [bars.lines[0].get_linewidth() for bars in axes.containers]
        assert widths == sorted(widths, reverse=True)
        assert len(set(widths)) == 3
    assert len({axes.get_ylim() for axes in figure.axes[3:6]}) == 1
    assert [axes.get_ylabel().split(",")[0] for axes in figure.axes] == ["violations", "", "", "p99 latency", "", ""]


def test_the_commands_draw_what_they_found(fluidb: Run, tmp_path, tiny_design):
    """Each writes its picture, refuses one in the way before any work, and replaces it if told to."""
    header = "request_id,arrival_s,confidence_1,confidence_2,correct_1,correct_2,correct_3\n"
    rows = "".join(f"{i},{i * 2e-4:g},0.{3 + i % 7},0.9,{i % 2},1,1\n" for i in range(40))
    (tmp_path / "t.csv").write_text(header + rows)
    common = [tiny_design, "--slo", "1ms"]
    commands: dict[str, list[object]] = {
        "serve-sim": ["serve-sim", *common, "--trace", "t.csv", "--threshold", "0.5"],
        "thresholds": ["thresholds", *common, "--trace", "t.csv"],
        "capacity": ["capacity", *common, "--require", "mean <= 1ms", "--count", 500],
        "compare": ["compare", DUEL],
    }
    for name, arguments in commands.items():
        picture = tmp_path / f"{name}.svg"
        picture.write_text("mine")
        (said,) = lines(fluidb(*arguments, "--plot", picture.name))
        assert "output exists already" in said
        assert picture.read_text() == "mine"
        done = fluidb(*arguments, "--plot", picture.name, "--force")
        assert (done.returncode, done.stderr) == (0, "")
        assert "<title>" in picture.read_text()
