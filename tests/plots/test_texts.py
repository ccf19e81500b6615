"""Texts of pictures: each can be read, none covers another, and titles are sentences."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders import COMPILED, DUEL
from fluidb.dse import SearchOptions, Tile, tabulate_design
from fluidb.dse.npu.explanation import explain
from fluidb.dse.npu.search import RankedDesign, SearchResult
from fluidb.models import load_network
from fluidb.papers.pictures import draw
from fluidb.papers.rows import Claim, Item, Row
from fluidb.platforms import load_platform
from fluidb.plots import canvas, describe, picture_bytes
from fluidb.plots.canvas import name_points, say_infinite
from fluidb.plots.comparison import draw_comparison
from fluidb.plots.explain import draw_explanation
from fluidb.plots.validation import draw_validation
from fluidb.studies import compare, load_scenario
from matplotlib.text import Text

ROOT = Path(__file__).parents[2]


def shown(figure: Any) -> list[tuple[str, Any]]:
    """Every text that is drawn, with its box in pixels; matplotlib's own extents."""
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    for axes in figure.axes:  # ticks beyond the ends of an axis are not drawn
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            kept = {id(tick) for tick in axis._update_ticks() if low <= tick.get_loc() <= high}
            hidden = [label for tick in ticks if id(tick) not in kept for label in (tick.label1, tick.label2)]
            texts = [text for text in texts if all(text is not other for other in hidden)]
    return [(text.get_text(), text.get_window_extent()) for text in texts]


def covered(figure: Any) -> list[tuple[str, str]]:
    """Pairs of texts where one covers the other by more than a pixel."""
    boxes = shown(figure)
    return [
        (one, other)
        for (one, a), (other, b) in itertools.combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]


def outside(figure: Any) -> list[str]:
    """Texts that leave the sheet."""
    width, height = figure.bbox.size
    return [
        name for name, box in shown(figure) if min(box.x0, box.y0) < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]


def test_boxes_that_cover_each_other_are_found():
    """The check itself."""
    with canvas(3, 2) as figure:
        figure.text(0.1, 0.5, "one text")
        figure.text(0.15, 0.5, "another")
        figure.text(0.9, 0.9, "leaves the sheet")
    assert covered(figure) == [("one text", "another")]
    assert outside(figure) == ["leaves the sheet"]


def test_a_validation_over_decades_has_plain_numbers():
    times = SimpleNamespace
    trials = [
        SimpleNamespace(policy=policy, **{kind: times(mean_s=scale * 1.1**k, p99_s=3 * scale * 1.1**k)
                                         for k, kind in enumerate(("real", "simulated", "replayed"))})
        for policy in ("serial", "fluid") for scale in (0.0008, 0.004, 0.06)
    ]  # fmt: skip
    found: Any = SimpleNamespace(trials=trials)
    figure = draw_validation(found)
    texts = [name for name, _ in shown(figure)]
    assert {"1", "10", "100"} <= set(texts)
    assert not any("math" in name or "$" in name for name in texts)
    assert covered(figure) == []
    assert outside(figure) == []
    assert b"mathdefault" not in picture_bytes(figure, "svg")


@pytest.mark.parametrize(
    "places",
    [
        [f"{name} {letter}" for name in ("ResNet-50", "MobileNet-V3") for letter in "ABCDEFG"],
        ["early-exit CNN", "slimmable CNN", "transformer encoder", "early-exit transformer", "geometric mean"],
        ["n = 16", "n = 32"],
    ],
    ids=len,
)
def test_places_below_bars_cover_no_other(places):
    rows = [Row("layers", of, at, "%", 1.0 + k) for of in ("without", "with") for k, at in enumerate(places)]
    figure = draw(Item("m", "M", [], [*rows, Row("others", "a", places[0], "%", 1.0)], picture="bars"), {})
    assert covered(figure) == []
    assert outside(figure) == []


def test_lines_of_settings_have_room_in_every_row():
    rows = [
        Row(f"energy that is saved off the chip, {quantity} of all networks", of, "here", "points", 3.0, paper=1.0)
        for quantity in ("least", "most", "mean", "median") for of in ("ResNet-50, 3x3 layers", "MobileNet-V3")
    ]  # fmt: skip
    figure = draw(Item("m", "M", [], rows, picture="dots"), {})
    assert covered(figure) == []
    assert outside(figure) == []


@pytest.mark.skipif(not COMPILED, reason="tabulates a board's design; run compiled")
def test_names_of_layers_cover_no_other():
    network, board = load_network("resnet50"), load_platform("zc706")
    design, fbcb = tabulate_design(
        network, board, SearchOptions(), SearchResult([RankedDesign.of(Tile(1024, 7, 128), 1.0)], 1)
    )
    for batch in (1, 8):
        figure = draw_explanation(explain(design, fbcb), batch)
        below = figure.axes[2] if len(figure.axes) > 2 else figure.axes[-1]
        assert len(below.get_xticklabels()) > 10
        assert covered(figure) == []


def test_names_of_near_points_move_aside_or_are_left_out():
    """Two at one place, three near it, twenty on top of each other."""
    for points in (
        [(1.0, 1.0, "0.9"), (1.0, 1.0, "0.85"), (2.0, 2.0, "0.5")],
        [(1.0 + 0.02 * k, 1.0 + 0.01 * k, f"0.{k}") for k in range(3)] + [(3.0, 3.0, "1")],
        [(1.0, 1.0, f"0.{k}") for k in range(20)] + [(3.0, 3.0, "1")],
    ):
        with canvas(5, 3) as figure:
            axes = figure.subplots()
            axes.plot([x for x, _, _ in points], [y for _, y, _ in points], "o")
            name_points(axes, points)
            describe(figure, "t", "Said.")
        names = [text.get_text() for text in axes.texts]
        assert names[0] == points[0][2]
        assert names[-1] == points[-1][2]
        assert covered(figure) == []
    assert len(names) < 21


def test_a_panel_with_infinite_figures_says_whose():
    """A p99 without a finite value is no metric of a standing."""
    found, _ = compare(load_scenario(str(DUEL)))
    figure: Any = draw_comparison(found)
    assert not any(text.get_text().startswith("infinite") for axes in figure.axes for text in axes.texts)
    for point in found.points[:2]:
        del point.contenders[0].metrics["p99_latency_s"]
    figure = draw_comparison(found)
    said = {axes.get_ylabel(): [text.get_text() for text in axes.texts] for axes in (figure.axes[0], figure.axes[3])}
    name = found.contenders[0].name
    assert [texts for label, texts in said.items() if label.startswith("p99")] == [[f"infinite, not drawn: {name}"]]
    assert [texts for label, texts in said.items() if label.startswith("violations")] == [[]]
    with canvas(3, 2) as bare:
        axes = bare.subplots()
        say_infinite(axes, [])
    assert list(axes.texts) == []


def test_a_comparison_s_title_is_a_sentence():
    found, _ = compare(load_scenario(str(DUEL)))
    first = next(lead.first for point in found.points if (lead := point.lead))
    title = str(draw_comparison(found).get_label())
    assert re.search(r"\. .+ has the fewest violations at (all )?\d( of 5)? points", title), title
    alone: Any = SimpleNamespace(**{name: getattr(found, name) for name in ("title", "contenders", "baseline")})
    alone.points = [next(point for point in found.points if point.lead and point.lead.first == first)]
    assert f". {first} has the fewest violations. Intervals" in str(draw_comparison(alone).get_label())


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        ([True], "The paper's statement holds."),
        ([False], "The paper's statement does not hold."),
        ([True, True], "Both statements of the paper hold."),
        ([True] * 3, "All 3 statements of the paper hold."),
        ([True, False], "1 of the paper's 2 statements holds."),
        ([False, False], "None of the paper's 2 statements hold."),
    ],
)
def test_the_title_of_a_paper_s_picture_is_a_sentence(holds, said):
    claims = [Claim("it flies", "1", "a", "b", one) for one in holds]
    rows = [Row("time", "A", "here", "ms", 1.0)]
    assert draw(Item("m", "M", [], rows, claims=claims, picture="bars"), {}).get_suptitle() == f"{said}\nM"


def test_who_has_least_is_a_sentence_and_a_bound_is_no_contender():
    rows = [Row("time", name, "here", "ms", value) for name, value in (("A", 2.0), ("B", 1.0), ("peak", 0.5))]
    title = draw(Item("m", "M", [], rows, picture="bars"), {}).get_suptitle()
    assert title == "B has the lowest time on average, A the highest.\nM"
    fields = [Row("time", name, "here", "ms", 1.0, x=1.0) for name in ("A", "B")]
    assert draw(Item("m", "M", [], fields, picture="matrix"), {}).get_suptitle() == "Computed by us.\nM"


def test_pictures_that_ship_have_no_formulas():
    pictures = [*ROOT.glob("docs/images/*.svg"), *ROOT.glob("results/**/*.svg")]
    assert len(pictures) > 60
    assert [path for path in pictures if "mathdefault" in path.read_text()] == []
