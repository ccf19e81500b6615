"""The notebook of the docs: its cells run in order, and print what it holds."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
from typing import Any

import pytest
from builders import ROOT

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def outputs_of(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """What a cell prints, and its last expression as text and as HTML, as Jupyter keeps them."""
    tree, printed = ast.parse(source), io.StringIO()
    found: list[dict[str, Any]] = []
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        shown = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            shown["text/html"] = value._repr_html_().splitlines(keepends=True)
        found.append({"data": shown, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return found


@pytest.mark.usefixtures("fluidb")
def test_the_notebook_prints_what_it_holds():
    """`GOLDEN=write pytest tests/test_notebook.py` writes the outputs anew."""
    notebook = json.loads(NOTEBOOK.read_text())
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 3
    for cell in cells:
        found = outputs_of("".join(cell["source"]), names)
        if os.environ.get("GOLDEN") == "write":
            cell["outputs"] = found
        assert cell["outputs"] == found
    if os.environ.get("GOLDEN") == "write":
        NOTEBOOK.write_text(json.dumps(notebook, indent=1) + "\n")
