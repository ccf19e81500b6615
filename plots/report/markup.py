"""HTML and SVG as a tree of elements; the serialiser escapes every text, so that no name becomes markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, tostring

from ...formats.display import printable

Node = Element | str

_OWN_LINE = {"body", "dd", "details", "figure", "head", "link", "main", "meta", "nav", "path", "rect", "section"}
_OWN_LINE |= {"style", "summary", "svg", "table", "text", "title", "tr"}
"""Elements that end with a line break, for diffs by line."""


def element(tag: str, *children: Node, **attributes: object) -> Element:
    """An element of HTML or SVG.

    Examples
    --------
    >>> tostring(element("b", "<i>", class_="x"), encoding="unicode", method="html")
    '<b class="x">&lt;i&gt;</b>'
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    made = Element(tag, {key: printable(str(value)) for key, value in given.items()})
    if tag in _OWN_LINE:
        made.tail = "\n"
    last: Element | None = None
    for child in children:
        if isinstance(child, Element):
            made.append(child)
            last = child
        elif last is None:
            made.text = (made.text or "") + printable(child)
        else:
            last.tail = (last.tail or "") + printable(child)
    return made


def style_sheet(css: str) -> Element:
    """A style element, whose text is not escaped."""
    made = element("style")
    made.text = css
    return made


def document(head: Iterable[Element], body: Iterable[Element]) -> str:
    """A whole page as text."""
    page = element("html", element("head", *head), element("body", *body), lang="en")
    return f"<!DOCTYPE html>\n{tostring(page, encoding='unicode', method='html')}\n"


def named(text: str) -> Element:
    """A name from a file, isolated: a right-to-left name does not reorder the text beside it."""
    return element("bdi", text)


def shortened(text: str, most: int) -> str:
    """Shorten a name to fit beside a picture; the table below has it in full."""
    visible = printable(text)
    return visible if len(visible) <= most else f"{visible[: most - 1]}…"


def table(caption: str, headers: Sequence[str], rows: Sequence[tuple[Node, Sequence[str]]]) -> Element:
    """A table: the first column names the rows, the others hold figures."""
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in headers)))
    body = element("tbody")
    for name, cells in rows:
        heading = element("th", named(name) if isinstance(name, str) else name, scope="row")
        body.append(element("tr", heading, *(element("td", cell) for cell in cells)))
    held = element("table", element("caption", caption), head, body)
    return element("div", held, class_="scroll", role="region", tabindex=0, aria_label=caption)


def figure(ident: str, title: str, remark: str, picture: Element | None, data: Element) -> Element:
    """A picture with its caption and its data table, or the table alone; ``ident`` is its anchor in the page."""
    caption = element("figcaption", element("strong", title), " ", remark)
    if picture is None:
        return element("figure", caption, data)
    picture.insert(0, element("title", title, id=f"{ident}-title"))
    picture[1].set("id", f"{ident}-desc")
    for name, value in (("role", "img"), ("aria-labelledby", f"{ident}-title"), ("aria-describedby", f"{ident}-desc")):
        picture.set(name, value)
    picture.set("id", ident)
    return element("figure", caption, picture, element("details", element("summary", "Data: ", title), data))


def figures(drawn: Iterable[Element]) -> Element:
    """Figures side by side where a screen is wide enough."""
    return element("div", *drawn, class_="figures")
