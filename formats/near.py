"""Suggestions for a mistyped name."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """The end of a fault about an unknown name: at most three known names that are like it, else ``otherwise``.

    Names that begin with ``name`` come first.

    Examples
    --------
    >>> did_you_mean("v100", ["zc706", "v100-tensorrt"], "known: both")
    'did you mean v100-tensorrt?'
    >>> did_you_mean("vgg", ["vgg13", "vgg16", "vgg19"], "")
    'did you mean vgg19, vgg16 or vgg13?'
    """
    from difflib import get_close_matches

    names = list(dict.fromkeys(known))
    longer = [candidate for candidate in names if name and candidate.startswith(name)]
    alike = dict.fromkeys(get_close_matches(name.lower(), names) + get_close_matches(name, names) + longer)
    first = sorted(alike, key=lambda candidate: candidate not in longer)[:3]
    if not first:
        return otherwise
    return f"did you mean {' or '.join(filter(None, [', '.join(first[:-1]), first[-1]]))}?"
