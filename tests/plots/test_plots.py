"""Pictures: the same bytes every time, and one clear line where they cannot be drawn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fluidb.formats import InputError
from fluidb.plots import canvas, check_picture, save


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
    monkeypatch.setitem(check_picture.__globals__, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'fluidb\[plot\]'"):
        check_picture(tmp_path / "a.svg", replace=False)


@pytest.mark.parametrize("page", ["explain", "pareto", "report"])
def test_a_page_about_a_picture_shows_it(page):
    docs = Path(__file__).parents[2] / "docs"
    (text, name) = re.findall(r"!\[([^]]+)\]\(images/([\w.]+)\)", (docs / f"{page}.md").read_text())[0]
    assert len(text) > 60
    assert (docs / "images" / name).stat().st_size < 150_000
